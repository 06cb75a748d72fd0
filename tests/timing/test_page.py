"""docs/measured-timing.md: its tables are those of data/timing; and the example of docs/histograms.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

import pbdist
from data.timing.bounds import cost_of_late_answers, delayed_pair
from data.timing.delay import UNIT_NS, GaussianDelay
from data.timing.measurement import measurements
from pipelines import measured_timing
from pipelines.measured_timing import TABLES
from tests.test_docs import ROOT, blocks, run_blocks, text_of

pytestmark = pytest.mark.nightly
PAGE = ROOT / "docs" / "measured-timing.md"
HISTOGRAMS = ROOT / "docs" / "histograms.md"
FOLDER = PAGE.with_suffix("")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning")
def test_tables_are_those_of_the_files(name: str) -> None:
    assert text_of(FOLDER / f"{name}.csv") == TABLES[name](measurements())


def test_the_page_shows_each_table() -> None:
    shown = re.findall(r"^:file: measured-timing/([\w-]+)\.csv$", text_of(PAGE), re.MULTILINE)
    assert sorted(shown) == sorted(TABLES)


def test_tables_go_to_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured_timing, "TABLES", {"rest": TABLES["rest"]})
    measured_timing.main(["--folder", str(tmp_path / "new")])
    assert text_of(tmp_path / "new" / "rest.csv") == text_of(FOLDER / "rest.csv")


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
    (tmp_path / "times.csv").write_text(blocks(HISTOGRAMS, "csv")[0], encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    run_blocks(HISTOGRAMS, capsys)
