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
from pbdist.report.pages.answers import noise_in_words, setting_in_words, shortened
from pbdist.report.pages.document import epsilon_text
from pbdist.report.pages.store_report import store_report
from pbdist.report.pages.words import explained
from pbdist.report.pages.writers import written_html
from pbdist.store import open_store
from pbdist.store.layout import bounds_file
from pbdist.study import Target, load_study
from pbdist.study.spec import exponential
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


def test_every_bound_of_the_tables_is_the_stored_one_rounded_outwards(whole):
    store, _, page = whole
    study = open_study(store)
    seen = 0
    for cell in study.spec.cells:
        (table,) = [rows for caption, rows in page.tables.items() if caption == setting_in_words(cell)]
        for r, epsilon, lower, upper in table[1:]:
            (exact,) = [value for value in study.spec.epsilon if epsilon_text(value) == epsilon]
            found = study.delta(cell.pair, compositions=int(r.replace(",", "")), epsilon=exact)
            _check(lower, upper, float(found.lower), float(found.upper))
            seen += 1
    assert seen == len(study.spec.cells) * len(study.spec.compositions) * len(study.spec.epsilon)


def _check(lower, upper, low, high):
    """Rounded outwards, and by no more than a unit of the sixth digit."""
    assert Decimal(lower) <= Decimal(low)
    assert Decimal(upper) >= Decimal(high)
    assert float(lower) >= low * (1 - 1.1e-5)
    assert float(upper) <= high * (1 + 1.1e-5)


def test_verdicts_follow_from_the_bounds(whole):
    store, _, page = whole
    study = open_study(store)
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith("Noise settings and")]
    assert len(table) == 1 + len(study.spec.cells)
    verdicts = set()
    for cell, (name, lower, upper, verdict) in zip(study.spec.cells, sorted(table[1:], key=_order(study)), strict=True):
        assert name == setting_in_words(cell)
        found = study.delta(cell.pair, compositions=4, exp_epsilon=2.0)
        _check(lower, upper, float(found.lower), float(found.upper))
        assert verdict == ("meets" if found.upper <= 0.2 else "refuted" if found.lower > 0.2 else "undecided")
        verdicts.add(verdict)
    assert {"meets", "refuted"} <= verdicts


def _order(study):
    names = [setting_in_words(cell) for cell in study.spec.cells]
    return lambda row: names.index(row[0])


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
    assert told.strip().startswith("The store is complete, and every file is what it was when it was written")
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


def test_the_same_store_gives_the_same_bytes(whole, tmp_path):
    store, made, _ = whole
    copy = tmp_path / "elsewhere" / store.name
    shutil.copytree(store, copy)
    again = store_report(copy, targets=(TARGET,))
    assert written_html(again) == written_html(made)


def test_without_a_goal_the_page_says_so(tiny_store):
    made, page = page_of(tiny_store)
    assert "No target was given" in page.text
    assert not any(caption.startswith("Noise settings and") for caption in page.tables)
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
    rows = page.tables[setting_in_words(open_study(store).spec.cells[cell])][1:]
    assert {tuple(row[2:4]) for row in rows} == {("not computed", "not computed")}
    assert page.text.index("is damaged") < page.text.index("after 4 rounds")
    if not flipped:
        drawn = " ".join(picture.description for picture in made.pictures)
        assert "Laplace (scale 3, sensitivity 1)" in drawn
        assert "Laplace (scale 2, sensitivity 1)" not in drawn


def test_an_incomplete_store_says_what_is_missing(store_copy):
    store = store_copy(TIGHT)
    remove_batch(store, 2)
    made, page = page_of(store, targets=(TARGET,))
    assert not made.whole
    assert "not complete: 1 of 6 noise settings are missing" in page.alarms[0]
    assert "Laplace(scale=5" in page.alarms[0]
    assert {tuple(row[2:4]) for row in page.tables[setting_in_words(open_study(store).spec.cells[2])][1:]} == {
        ("not computed", "not computed")
    }
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith("Noise settings and")]
    assert [row[3] for row in table].count("not computed") == 1


def test_an_empty_store_says_so_and_has_no_bound(store_copy):
    store = store_copy(TINY)
    for bounds in store.glob("bounds/*.0"):
        bounds.unlink()
    made, page = page_of(store, targets=(TARGET,))
    assert not made.whole
    assert page.alarms[0].strip().startswith("This store is empty")
    verdicts = [row[3] for caption, rows in page.tables.items() if "Noise settings and" in caption for row in rows[1:]]
    assert set(verdicts) == {"not computed"}
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
