"""The report of a store: numbers, verdicts, and what is said of a store that is not whole."""

import math
import shutil
from decimal import Decimal

import numpy as np
import pytest

from pbdist.query import open_study
from pbdist.report.pages import pictures as pictures_module
from pbdist.report.pages.document import epsilon_text
from pbdist.report.pages.html import written_html
from pbdist.report.pages.noise_blocks import setting_in_words
from pbdist.report.pages.store_report import store_report
from pbdist.report.sheet import saved
from pbdist.store import open_store
from pbdist.store.layout import bounds_file
from pbdist.study import Target as Goal
from pbdist.study import load_study
from pbdist.study.spec import exponential
from tests.batches import damage_batch, fail_cells, remove_batch
from tests.report.explorer.studies import MISSED
from tests.report.pages.reading import OWN, read_page
from tests.studies import TIGHT, TINY

pytestmark = pytest.mark.slow

GOAL = Goal(compositions=4, epsilon=math.log(2.0), delta=0.2)


def page_of(store, drawn=None, **options):
    made = store_report(store, drawn=drawn, **options)
    return made, read_page(written_html(made.document))


@pytest.fixture(scope="module")
def whole(finished_store):
    store = finished_store(TIGHT)
    return store, *page_of(store, "svg", goals=(GOAL,))


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
        assert verdict == ("will do" if found.upper <= 0.2 else "refuted" if found.lower > 0.2 else "undecided")
        verdicts.add(verdict)
    assert {"will do", "refuted"} <= verdicts


def _order(study):
    names = [setting_in_words(cell) for cell in study.spec.cells]
    return lambda row: names.index(row[0])


def test_the_least_noise_that_will_do_and_the_most_that_is_refuted(whole):
    _, _, page = whole
    (table,) = [rows for caption, rows in page.tables.items() if caption.startswith("Which tabulated noise will do")]
    (laplace,) = [row for row in table if row[0].startswith("Laplace")]
    study = open_study(whole[0])
    deltas = {scale: study.delta("Laplace", scale=scale, compositions=4, exp_epsilon=2.0) for scale in (2.0, 3.0, 5.0)}
    do = [scale for scale, found in deltas.items() if found.upper <= 0.2]
    refuted = [scale for scale, found in deltas.items() if found.lower > 0.2]
    assert laplace[1].startswith(f"scale {min(do):g},") if do else laplace[1].startswith("none")
    assert laplace[3].startswith(f"scale {max(refuted):g},") if refuted else laplace[3] == "none"


def test_a_page_is_whole_and_says_so(whole):
    _, made, page = whole
    assert made.whole
    assert page.alarms == []
    assert ("sound", "The store is complete, and every file is what it was when it was written") in [
        (kind, text.strip()) for kind, text in page.notices
    ]


def test_a_page_needs_nothing_else_and_no_script(whole):
    page = whole[2]
    assert page.elements <= OWN
    assert "svg" in page.elements
    links = [value for _, name, value in page.attributes if name in ("href", "src", "action", "data", "xlink:href")]
    assert links
    assert all(link.startswith("#") for link in links)
    text = written_html(whole[1].document)
    assert "http:" not in text
    assert "https:" not in text
    assert "@import" not in text
    assert "url(" not in text.replace("url(#", "")


def test_ids_are_unique_and_every_reference_has_one(whole):
    page = whole[2]
    ids = [value for _, name, value in page.attributes if name == "id"]
    assert len(set(ids)) == len(ids)
    wanted = {value[1:] for _, name, value in page.attributes if name == "href"}
    wanted |= {one for _, name, value in page.attributes if name == "aria-labelledby" for one in value.split()}
    assert wanted <= set(ids)


def test_tables_and_pictures_can_be_read_aloud(whole):
    page = whole[2]
    scopes = {(tag, value) for tag, name, value in page.attributes if name == "scope"}
    assert scopes == {("th", "col"), ("th", "row")}
    assert "desc" in page.elements
    assert ("svg", "role", "img") in page.attributes


def test_the_same_store_gives_the_same_bytes(whole, tmp_path):
    store, made, _ = whole
    copy = tmp_path / "elsewhere" / store.name
    shutil.copytree(store, copy)
    again = store_report(copy, goals=(GOAL,))
    assert written_html(again.document) == written_html(made.document)


def test_without_a_goal_the_page_says_so(tiny_store):
    made, page = page_of(tiny_store)
    assert "No goal was given" in page.text
    assert not any(caption.startswith("Which tabulated noise") for caption in page.tables)
    assert made.whole


def test_provenance_and_digest_are_told(whole):
    store, _, page = whole
    text = page.text
    study = load_study(store.parent / "study.yaml")
    assert study.digest in text
    assert "No bound was recomputed for this page" in text
    rows = dict(row for row in page.tables["Where the numbers come from"][1:])
    assert rows["format of the store"] == "version 6"
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
    made, page = page_of(store, None if flipped else "svg", goals=(GOAL,))
    assert not made.whole
    told = "".join(page.alarms)
    assert "1 file of this store is damaged" in told
    assert bounds_file(cell) in told
    rows = page.tables[setting_in_words(open_study(store).spec.cells[cell])][1:]
    assert {tuple(row[2:4]) for row in rows} == {("not computed", "not computed")}
    assert page.text.index("is damaged") < page.text.index("In short")
    if not flipped:
        pictures = page.text.rpartition("Pictures")[2].partition("What was studied")[0]
        assert "Laplace (scale 3, sensitivity 1)" in pictures
        assert "Laplace (scale 2, sensitivity 1)" not in pictures


def test_an_incomplete_store_says_what_is_missing(store_copy):
    store = store_copy(TIGHT)
    remove_batch(store, 2)
    made, page = page_of(store, goals=(GOAL,))
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
    made, page = page_of(store, goals=(GOAL,))
    assert not made.whole
    assert page.alarms[0].strip().startswith("This store is empty")
    verdicts = [row[3] for caption, rows in page.tables.items() if "Noise settings and" in caption for row in rows[1:]]
    assert set(verdicts) == {"not computed"}
    assert "svg" not in page.elements


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
    made, page = page_of(store, goals=(GOAL,))
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
    wide = [caption for caption, rows in page.tables.items() for row in rows if row[-1] == "wide"]
    assert wide
    assert all("1000000000000" in caption for caption in wide)


def test_all_curves_of_a_picture_have_room_and_no_title_names_one_alone(tiny_store, monkeypatch):
    drawn = []
    monkeypatch.setattr(pictures_module, "saved", lambda sheet, kind: drawn.append(sheet) or saved(sheet, kind))
    store_report(tiny_store, goals=(GOAL,))
    assert len(drawn) >= 2
    for sheet in drawn:
        (axes,) = sheet.axes
        assert {axes.get_title(loc) for loc in ("left", "center", "right")} == {""}
        low, high = axes.get_ylim()
        for line in axes.get_legend_handles_labels()[0]:
            y = np.asarray(line.get_ydata(), dtype=np.float64)
            y = y[np.isfinite(y)]
            assert ((y >= low) & (y <= high)).all()


def test_an_epsilon_is_written_exactly():
    for value in (0.0, 0.5, 2.0, math.log(2.0), math.log(1.1), 0.1234567890123, 1e-5):
        text = epsilon_text(value)
        assert math.log(float(text[3:])) == value if text.startswith("ln ") else float(text) == value
    assert epsilon_text(math.log(2.0)) == "ln 2"
    assert exponential(math.log(2.0)) == 2.0
