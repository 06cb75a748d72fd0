"""What notebooks show: small tables, escaped, that say what is missing."""

from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import pbdist
from pbdist.granularity.notions import Unbounded
from pbdist.granularity.release.declared import Analysis, Overlapping, on_each_block
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import Pair
from pbdist.notebook import html_of_fields, html_table
from pbdist.query import open_study
from pbdist.results import CurveBounds, DeltaBounds
from pbdist.store import create_or_open
from pbdist.study import load_study, plan_study
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
    assert found.attributes <= {"style", "colspan"}
    return found


PAIRS = (
    pbdist.Laplace(2.0),
    pbdist.SubsampledGaussian(scale=1.0, rate=0.01),
    pbdist.Histogram(tuple([1] * 1000), tuple([1] * 999 + [2])),
    pbdist.Product(*[pbdist.Laplace(float(scale)) for scale in range(1, 60)]),
    pbdist.Reversed(pbdist.RandomizedResponse(0.6)),
    pbdist.NoisyCount(pbdist.Laplace(2), mean=20, shift=1),
)


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: type(pair).__name__)
def test_a_mechanism_shows_its_parameters(pair: Pair) -> None:
    found = read(pair)
    names = [name for name, value in vars(pair).items() if not name.startswith("_") and value is not None]
    assert found.texts[0] == type(pair).__name__
    assert found.texts[1::2] == names
    assert len(pair._repr_html_()) < 2000


def test_texts_are_escaped_cut_and_never_markup() -> None:
    found = Reader(html_table(HOSTILE, [(HOSTILE, HOSTILE)], (HOSTILE, "x" * 1000)))
    assert found.texts == [HOSTILE, HOSTILE, "x" * 158 + "..", HOSTILE, HOSTILE]
    assert set(found.tags) - {"p"} == {"table", "tr", "th", "td"}
    html = html_of_fields("a", {"b": HOSTILE, "c": None, "d": 1})
    assert "<script" not in html
    assert Reader(html).texts == ["a", "b", HOSTILE, "d", "1"]


def test_long_tables_say_how_much_is_left_out() -> None:
    assert Reader(html_table("a", ([number, 0] for number in range(50)))).texts[-1] == "and 30 more"
    values = np.arange(1000.0).reshape(2, 500)
    assert read(CurveBounds(values, values)).texts[-1] == "and 980 more"


@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_bounds_are_shown_as_they_are_printed(finished_store: Finished) -> None:
    study = open_study(finished_store(TIGHT))
    found = study.delta("Laplace", scale=2, compositions=[1, 4], exp_epsilon=2)
    texts = read(found).texts
    assert texts[0] == "Laplace(scale=2, sensitivity=1); neighbours: as assumed by the given parameters"
    assert texts[1:8] == ["scale", "r", "e^ε", "δ lower", "δ upper", "ln δ lower", "ln δ upper"]
    assert texts[8:12] == ["2", "1", "2", "0"]
    lines = str(found).splitlines()
    assert lines[:2] == texts[0].split("; ")
    rows = [[text.strip() for text in line.strip("│").split("│")] for line in lines[-3:-1]]
    assert rows == [texts[-14:-7], texts[-7:]]
    # One point is a row too.
    assert read(study.epsilon("Laplace", scale=2, compositions=4, delta=0.3)).texts[1:4] == ["scale", "r", "δ"]
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


def test_a_release_plan_shows_who_reads_what() -> None:
    blocks = ("<i>one</i>", "two")
    count = Analysis("<b>count</b>", pbdist.Laplace(20.0), attained="every")
    plan = ReleasePlan(Unbounded(), on_each_block(count, blocks), Overlapping(blocks, at_most=2))
    texts = read(plan).texts
    assert texts[0] == "ReleasePlan for Unbounded(), 2 blocks (Overlapping)"
    assert texts[1:5] == ["analysis", "pair", "reads", "attained"]
    assert texts[5] == "<b>count</b> of <i>one</i>"
    assert texts[7:9] == ["<i>one</i>", "every"]
