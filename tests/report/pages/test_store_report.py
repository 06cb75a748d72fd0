"""The report of a store: numbers, verdicts, and what is said of a store that is not whole."""

import math
import re
import shutil
from dataclasses import replace
from decimal import Decimal

import pytest

from pbdist import DiscreteGaussian, Laplace, NoisyCount, RandomizedResponse
from pbdist.mechanisms import MECHANISMS, at_least_as_noisy, noise_parameter, parameters_of
from pbdist.mechanisms.columns import is_composite
from pbdist.query import open_study
from pbdist.report.pages.answers import noise_in_words, shortened
from pbdist.report.pages.document import epsilon_text
from pbdist.report.pages.store_report import store_report
from pbdist.report.pages.words import explained
from pbdist.report.pages.writers import written_html
from pbdist.rounding import exponential
from pbdist.store import open_store
from pbdist.store.layout import bounds_file
from pbdist.study import Target, load_study
from tests.batches import damage_batch, fail_cells, remove_batch
from tests.report.explorer.studies import MISSED
from tests.report.pages.reading import OWN, read_page
from tests.studies import TIGHT, TINY

pytestmark = pytest.mark.slow

TARGET = Target(compositions=4, epsilon=math.log(2.0), delta=0.2)


def page_of(store, drawn=False, **options):
    made = store_report(store, drawn=drawn, **options)
    return made, read_page(written_html(made))


@pytest.fixture(scope="module")
def whole(finished_store):
    store = finished_store(TIGHT)
    return store, *page_of(store, True, targets=(TARGET,))


def _check(lower, upper, low, high):
    """Bounds are rounded outwards, and by no more than a unit of the sixth digit."""
    assert Decimal(lower) <= Decimal(low)
    assert Decimal(upper) >= Decimal(high)
    assert float(lower) >= low * (1 - 1.1e-5)
    assert float(upper) <= high * (1 + 1.1e-5)


CAPTION = "The least noise that meets the target, and the most that is refuted"


def settings_of(page):
    """The rows of the table of a target, by their mechanism, as dictionaries."""
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith(CAPTION)]
    return {row[0]: dict(zip(table[0], row, strict=True)) for row in table[1:]}


def test_the_table_of_a_target_follows_from_the_bounds(whole):
    store, _, page = whole
    study = open_study(store)
    rows = settings_of(page)
    found = study.delta("Laplace", scale=[2.0, 3.0, 5.0], compositions=4, exp_epsilon=2.0)
    assert (found.upper <= 0.2).all()
    assert float(rows["Laplace"]["meets with"]) == 2.0
    _check("0", rows["Laplace"]["δ upper"], 0.0, float(found.upper[0]))
    assert rows["Laplace"]["meets"] == "3"
    assert sum(int(row["meets"]) + int(row["refuted"]) for row in rows.values()) == len(study.spec.cells)


ONE = TINY[: TINY.index("  - kind: Rand")] + TINY[TINY.index("method:") :]


def test_the_answer_is_the_first_sentence_of_the_page(finished_store):
    store = finished_store(ONE.replace("scale: [2, 3, 5]", "scale: [0.500000001, 1.000000001, 2.000000001, 5]"))
    made, page = page_of(store, targets=(TARGET,))
    lead = made.blocks[0]
    assert lead.lead
    assert page.text.index(lead.text[:20]) < page.text.index("What is assumed") < page.text.index("Appendix")
    words = re.fullmatch(
        r"Laplace noise of scale 2.00001 meets \(ε ln 2, δ 0.2\) after 4 rounds: δ is at most (\S+);"
        r" scale 1, 50.0 % less, is refuted: δ is at least (\S+)\.",
        lead.text,
    )
    assert words, lead.text
    study = open_study(store)
    met, refuted = (
        study.delta("Laplace", scale=x, compositions=4, exp_epsilon=2.0) for x in (2.000000001, 1.000000001)
    )
    assert float(met.upper) <= 0.2 < float(refuted.lower)
    _check(words[2], words[1], float(refuted.lower), float(met.upper))


def test_of_several_mechanisms_the_answer_names_those_that_meet_the_target(whole):
    _, made, _ = whole
    lead, details = made.blocks[:2]
    clipped = "clipped (Laplace noise, scale 2, mean 20, shift 1, reading clamp-and-ceil)"
    assert lead.text == (
        f"Laplace noise of scale 2, RandomizedResponse of p 0.6 and {clipped} meet (ε ln 2, δ 0.2) after 4 rounds."
    )
    assert len(details.items) == 3
    assert details.items[0].startswith("Laplace noise of scale 2 meets the target: δ is at most")
    assert details.items[0].endswith("; less noise is not tabulated.")


READ = """\
format: 1
name: read
mechanisms:
  - {label: few, kind: NoisyCount, noise: {kind: Laplace, scale: 2}, mean: 9, shift: 1, reading: READINGS}
  - {label: many, kind: NoisyCount, noise: {kind: Laplace, scale: 2}, mean: 20, shift: 1, reading: READINGS}
  - {label: most, kind: NoisyCount, noise: {kind: Laplace, scale: 2}, mean: 30, shift: 1, reading: READINGS}
compositions: [1]
epsilon: [1]
""".replace("READINGS", "[clamp-and-ceil, redraw-and-floor, shift-inside]")


def test_of_noise_messages_the_answer_says_why_it_is_first_and_counts_the_rows_of_the_appendix(finished_store):
    made, page = page_of(finished_store(READ), targets=(Target(compositions=1, epsilon=1.0, delta=5e-3),))
    lead, details = made.blocks[:2]
    both = "reading clamp-and-ceil or redraw-and-floor"
    assert lead.text == (
        f"many (Laplace noise, scale 2, mean 20, shift 1, {both}) meets (ε 1, δ 0.005) after 1 round, with about 20.5"
        " messages a round. No other answer for clamp-and-ceil and redraw-and-floor takes fewer. Of the 6 groups"
        " of settings in the appendix, other than those of shift-inside, 5 meet it, 1 is refuted."
    )
    # Under one reading less noise meets it.
    assert any(one.startswith("few (") and "mean 9" in one and "meets" in one for one in details.items)
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith(CAPTION)]
    rows = [dict(zip(table[0], row, strict=True)) for row in table[1:]]
    shown = [row for row in rows if row["reading"] != "shift-inside"]
    assert (len(shown), sum(row["meets with"] != "none" for row in shown)) == (6, 5)


def test_noise_is_rounded_only_where_the_verdict_is_proved_to_stay():
    laplace = Laplace(1 / 3)
    assert shortened(laplace, more=True) == Laplace(0.333334)
    assert shortened(laplace, more=False) == Laplace(0.333333)
    assert shortened(RandomizedResponse(0.512345678), more=True) == RandomizedResponse(0.512345)
    # No order is proved.
    for pair in (DiscreteGaussian(1 / 3), NoisyCount(Laplace(1 / 3), 10.0, 1, "clamp-and-ceil"), Laplace(0.51)):
        assert shortened(pair, more=True) == pair


KINDS = [kind for kind in MECHANISMS.values() if kind.in_studies and not is_composite(kind)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_kind_is_named_explained_and_rounded_safely(kind):
    pair = kind(**{one.name: one.examples[0] for one in parameters_of(kind).values() if one.required})
    assert kind.__name__ in noise_in_words(kind.__name__, pair)
    assert any(kind.__name__ in text for block in explained([pair.canonical()]) for text in getattr(block, "items", ()))
    sized = noise_parameter(kind)
    if sized is not None and isinstance(getattr(pair, sized.name), float):
        pair = replace(pair, **{sized.name: 0.987654321012 * getattr(pair, sized.name)})
        assert at_least_as_noisy(shortened(pair, more=True), pair)
        assert at_least_as_noisy(pair, shortened(pair, more=False))


def test_a_page_is_whole_and_says_so(whole):
    _, made, page = whole
    assert made.whole
    assert page.alarms == []
    ((kind, told),) = page.notices
    assert kind == "sound"
    assert told.strip().startswith("The store is complete and undamaged")
    # Checksums that lie beside the data show damage, and no forgery.
    assert "compared with the checksums in the store: none is missing or damaged. This does not show who wrote" in told
    assert "6 of 6 noise settings are computed." in told


def test_a_page_needs_nothing_else_and_no_script(whole):
    page = whole[2]
    assert page.elements <= OWN
    assert "img" in page.elements
    links = [value for _, name, value in page.attributes if name in ("href", "src", "action", "data", "xlink:href")]
    assert links
    assert all(link.startswith("data:image/svg+xml;base64,") for link in links)
    text = written_html(whole[1])
    assert not any(word in text for word in ("http:", "https:", "@import", "url("))


def test_tables_and_pictures_can_be_read_aloud(whole):
    page = whole[2]
    scopes = {(tag, value) for tag, name, value in page.attributes if name == "scope"}
    assert scopes == {("th", "col"), ("th", "row")}
    assert [value for tag, name, value in page.attributes if (tag, name) == ("img", "alt") and value]


def test_the_same_store_gives_the_same_bytes(whole, tmp_path, monkeypatch):
    shutil.copytree(whole[0], tmp_path / "elsewhere" / "s.zarr")
    pages = []
    for folder in (whole[0].parent, tmp_path / "elsewhere"):
        monkeypatch.chdir(folder)
        pages.append(written_html(store_report("s.zarr", targets=(TARGET,))))
    assert pages[0] == pages[1]


def test_commands_name_the_store_as_it_was_given(whole, monkeypatch):
    monkeypatch.chdir(whole[0].parent.parent)
    given = f"{whole[0].parent.name}/s.zarr"
    text = page_of(given, targets=(TARGET,))[1].text
    for command in (f"pbdist verify {given}", f"pbdist query {given} --", f"pbdist export {given} s.csv"):
        assert command in text
    assert f"pbdist verify {whole[0]}" in whole[2].text


def test_without_a_goal_the_page_says_so(tiny_store):
    made, page = page_of(tiny_store)
    assert "No target was given" in page.text
    assert not any(caption.startswith(CAPTION) for caption in page.tables)
    assert made.whole


def test_provenance_and_digest_are_told(whole):
    store, _, page = whole
    text = page.text
    study = load_study(store.parent / "study.yaml")
    assert study.digest in text
    assert "No bound was recomputed for this page" in text
    rows = dict(row for row in page.tables["Where the numbers come from"][1:])
    assert rows["store"].startswith("format 6, ")
    assert "numpy" in rows["computed with"]


def test_recomputed_points_are_told(tiny_store):
    _, page = page_of(tiny_store, verify=2)
    assert "2 of 144 stored points, chosen with seed 0, were recomputed in exact integers" in page.text


@pytest.mark.parametrize(("cell", "flipped"), [(0, False), (1, True)])
def test_a_damaged_file_is_said_first_and_shown_as_no_number_nor_curve(store_copy, cell, flipped):
    store = store_copy(TIGHT)
    data = bytearray((store / bounds_file(cell)).read_bytes())
    data[len(data) // 2] ^= 0x10
    damage_batch(store, cell, bytes(data) if flipped else b"damaged")
    made, page = page_of(store, not flipped, targets=(TARGET,))
    assert not made.whole
    told = "".join(page.alarms)
    assert "1 file of this store is damaged" in told
    assert bounds_file(cell) in told
    assert [row["damaged"] for row in settings_of(page).values()].count("1") == 1
    assert page.text.index("is damaged") < page.text.index("after 4 rounds")
    if not flipped:
        drawn = " ".join(picture.curves for picture in made.pictures)
        assert "Laplace, scale 3" in drawn
        assert "Laplace, scale 2" not in drawn


def test_an_incomplete_store_says_what_is_missing(store_copy):
    store = store_copy(TIGHT)
    remove_batch(store, 2)
    made, page = page_of(store, targets=(TARGET,))
    assert not made.whole
    assert "not complete: 1 of 6 noise settings are missing" in page.alarms[0]
    assert "Laplace(scale=5" in page.alarms[0]
    assert settings_of(page)["Laplace"]["not computed"] == "1"


def test_an_empty_store_says_so_and_has_no_bound(store_copy):
    store = store_copy(TINY)
    for bounds in store.glob("bounds/*.0"):
        bounds.unlink()
    made, page = page_of(store, targets=(TARGET,))
    assert not made.whole
    assert page.alarms[0].strip().startswith("This store is empty")
    assert {row["meets with"] for row in settings_of(page).values()} == {"none"}
    assert "img" not in page.elements


def test_cells_that_failed_are_named_with_their_cause(store_copy):
    store = store_copy(TINY)
    fail_cells(open_store(store), {0: "out of <memory> & time"})
    made, page = page_of(store)
    assert not made.whole
    assert "1 of 6 noise settings could not be computed" in page.alarms[0]
    assert "out of <memory> & time" in page.alarms[0]


def test_a_store_that_cannot_be_read_makes_a_page_without_numbers(store_copy):
    store = store_copy(TINY)
    (store / "zarr.json").write_text("{", encoding="utf-8")
    made, page = page_of(store, targets=(TARGET,))
    assert not made.whole
    assert page.tables == {}
    assert "damaged, and nothing in it can be read" in page.alarms[0]


def test_a_study_file_that_asks_for_more_is_told(tiny_store, tmp_path):
    path = tmp_path / "more.yaml"
    path.write_text(TINY.replace("scale: [2, 3, 5]", "scale: [2, 3, 5, 8]"), encoding="utf-8")
    made, page = page_of(tiny_store, study_file=load_study(path))
    assert not made.whole
    assert "does not have all that the study file asks for" in page.alarms[0]


def test_a_missed_tolerance_is_told(finished_store):
    made, page = page_of(finished_store(MISSED))
    assert made.whole
    (missed,) = [told for kind, told in page.notices if kind == "note"]
    assert "has missed its tolerance" in missed
    assert "Laplace(scale=1e+12" in missed


def test_an_epsilon_is_written_exactly():
    for value in (0.0, 0.5, 2.0, math.log(2.0), math.log(1.1), 0.1234567890123, 1e-5):
        text = epsilon_text(value)
        assert math.log(float(text[3:])) == value if text.startswith("ln ") else float(text) == value
    assert epsilon_text(math.log(2.0)) == "ln 2"
    assert exponential(math.log(2.0)) == 2.0
