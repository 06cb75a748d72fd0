"""docs/measured-timing.md: its tables are those of the files in data/timing, and its example runs."""

import math
from fractions import Fraction
from pathlib import Path

import pytest

import pbdist
from data.timing.bounds import cost_of_late_answers, delayed_pair
from data.timing.delay import UNIT_NS, GaussianDelay
from data.timing.measurement import measurements
from pipelines import measured_timing
from pipelines.measured_timing import TABLES, with_tables
from tests.test_docs import ROOT, blocks, run_blocks, text_of

pytestmark = pytest.mark.nightly
PAGE = ROOT / "docs" / "measured-timing.md"


def told(name: str) -> str:
    return text_of(PAGE).partition(f"<!-- table {name} -->\n\n")[2].partition(f"\n<!-- end {name} -->")[0]


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_tables_are_those_of_the_files(name: str) -> None:
    assert told(name) == TABLES[name](measurements())


def test_each_table_goes_between_its_markers() -> None:
    text = "x\n<!-- table a -->\nold\n<!-- end a -->\ny\n<!-- table b -->\n<!-- end b -->\n"
    new = with_tables(text, {"a": "1\n", "b": "2\n"})
    assert new == "x\n<!-- table a -->\n\n1\n\n<!-- end a -->\ny\n<!-- table b -->\n\n2\n\n<!-- end b -->\n"
    assert with_tables(new, {"a": "1\n", "b": "2\n"}) == new
    with pytest.raises(ValueError, match="c: expected its two markers once each"):
        with_tables(text, {"c": "3\n"})


def test_another_page_leaves_that_of_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_timing, "TABLES", {"rest": TABLES["rest"]})
    before = text_of(PAGE)
    other = tmp_path / "new" / "page.md"
    measured_timing.main(["--page", str(other)])
    assert text_of(PAGE) == before == other.read_text(encoding="utf-8")


@pytest.mark.parametrize("work_us", [10_100, 10_110])
def test_the_longest_work_of_the_page_meets_the_target(work_us: int) -> None:
    delay, rounds = GaussianDelay(25_000), 2**18
    found = pbdist.privacy_bounds(delayed_pair(delay.weights, 10), compositions=rounds, epsilon=math.log(2))
    added = cost_of_late_answers(delay.weights, work_us // 10, 10, rounds)
    assert (Fraction(found.delta_upper.item()) + added <= Fraction(1, 10_000)) == (work_us == 10_100)


@pytest.mark.parametrize(("scale_ms", "enough"), [(225, False), (226, True)])
def test_the_smallest_scale_that_meets_the_target(scale_ms: int, *, enough: bool) -> None:
    delay = GaussianDelay(scale_ms * 1_000_000 // UNIT_NS)
    found = pbdist.privacy_bounds(delayed_pair(delay.weights, 10), compositions=2**18, epsilon=math.log(2))
    assert (found.delta_upper.item() <= 1e-4, found.delta_lower.item() <= 1e-4) == (enough, enough)


def test_the_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "times.csv").write_text(blocks(PAGE, "csv")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run_blocks(PAGE, capsys)
