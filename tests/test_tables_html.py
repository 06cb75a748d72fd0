"""Tables in notebooks: small, escaped, with a line for the rows that are left out."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

from pbdist.query import open_study
from pbdist.results import CurveBounds, DeltaBounds
from pbdist.store import create_or_open
from pbdist.study import load_study, plan_study
from pbdist.tables import Column, Sheet
from tests.studies import TIGHT, TINY, Finished, write_study

HOSTILE = '<script>alert("x")</script><img src=x onerror=y>&\''


class Reader(HTMLParser):
    """The tags, with their attributes, and the texts of all cells."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: set[str] = set()
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.open.append(tag)
        self.attributes |= {name for name, _ in attributes}
        if tag in ("td", "th", "p"):
            self.texts.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts[-1] += data


def read(value: object) -> Reader:
    found = Reader(value._repr_html_())  # type: ignore[attr-defined]
    assert set(found.tags) - {"p"} == {"table", "tr", "th", "td"}
    assert found.attributes <= {"colspan"}
    return found


def test_texts_are_escaped_cut_and_never_markup() -> None:
    columns = Column("a", HOSTILE), Column("b", "x" * 1000)
    found = read(Sheet(columns, ((HOSTILE, HOSTILE),), (HOSTILE,), (HOSTILE,)))
    assert found.texts == [HOSTILE, HOSTILE, "x" * 158 + "..", HOSTILE, HOSTILE, HOSTILE]


def test_long_tables_say_how_much_is_left_out() -> None:
    values = np.arange(1000.0).reshape(2, 500)
    *_, more, note = read(CurveBounds(values, values)).texts
    assert more == "and 980 more"
    assert note.startswith("α: type I error; β: ")


@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_bounds_are_shown_as_they_are_printed(finished_store: Finished) -> None:
    study = open_study(finished_store(TIGHT))
    found = study.delta("Laplace", scale=2, compositions=[1, 4], exp_epsilon=2)
    texts = read(found).texts
    caption = [texts.pop(0), texts[0]]
    assert caption == ["Laplace(scale=2, sensitivity=1)", "neighbours: as assumed by the given parameters"]
    assert texts[1:8] == ["scale", "r", "e^ε", "δ lower", "δ upper", "ln δ lower", "ln δ upper"]
    assert texts[8:12] == ["2", "1", "2", "0"]
    lines = str(found).splitlines()
    assert lines[:2] == caption
    rows = [[text.strip() for text in line.strip("│").split("│")] for line in lines[-3:-1]]
    assert rows == [texts[-14:-7], texts[-7:]]
    # One point is a row too.
    assert read(study.epsilon("Laplace", scale=2, compositions=4, delta=0.3)).texts[2:5] == ["scale", "r", "δ"]
    assert "r lower" in read(study.compositions("Laplace", scale=2, exp_epsilon=2, delta=0.3)).texts
    nan = np.array(np.nan)
    told = read(DeltaBounds(nan, np.array(0.5), nan, np.array(-0.7))).texts
    assert told[-5:-1] == ["not known", "0.5", "not known", "-0.699999"]


def test_a_study_says_whether_it_is_complete(finished_store: Finished, tmp_path: Path) -> None:
    store = finished_store(TINY)
    texts = read(open_study(store)).texts
    assert texts[0] == f"tiny, complete, at {store}"
    assert texts[5:9] == ["", "study", "", "tiny"]
    study = load_study(write_study(tmp_path, TIGHT.replace("name: tight", "name: bold")))
    create_or_open(tmp_path / "s.zarr", plan_study(study, 2))
    opened = open_study(tmp_path / "s.zarr")
    assert read(opened).texts[0].startswith("bold, NOT complete, at ")
    plan = read(plan_study(study, 2)).texts
    assert plan[0] == "bold"
    assert "3, cells in each: 2" in plan
