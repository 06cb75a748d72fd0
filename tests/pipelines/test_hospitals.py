"""The ambulance examples: the study's plans are those of the paper, and docs/hospitals.md is made from its store."""

import csv
import shutil
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.mechanisms import ApproximateDP, Gaussian, Laplace
from pbdist.query import open_study
from pbdist.study import load_study
from pipelines import hospitals

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
STUDY, PAGE = ROOT / "pipelines" / "hospitals.yaml", ROOT / "docs" / "hospitals.md"
NOISE = PAGE.with_name("hospitals-noise.csv")


def test_the_plans_are_the_examples() -> None:
    cells = {cell.label: sorted(map(repr, cell.pair.factors)) for cell in load_study(STUDY).cells}

    def of(*factors: object) -> list[str]:
        return sorted(map(repr, factors))

    pure = {epsilon: ApproximateDP(epsilon, 0.0) for epsilon in (0.1, 0.2, 0.3, 0.5, 1.0, 5.0)}
    assert cells["IV.2"] == of(pure[1.0], pure[5.0])
    assert cells["IV.2 sequential"] == of(*[pure[1.0], pure[5.0]] * 2)
    assert cells["IV.5"] == of(*[pure[0.1]] * 3)
    assert cells["IV.9"] == of(pure[0.5])
    assert cells["IV.14"] == of(pure[0.5], pure[0.3])
    assert cells["IV.14 same district"] == of(pure[0.5])
    assert cells["IV.14 sequential"] == of(pure[0.5], pure[0.3], pure[0.2])
    assert cells["IV.14 Laplace"] == of(Laplace(2.0), Laplace(10.0 / 3.0))
    assert cells["VI.8 ten hospitals"] == of(*[ApproximateDP(1.0, 1e-5)] * 6)
    assert cells["VI.8 four hospitals"] == of(*[ApproximateDP(1.0, 1e-5)] * 4)
    assert cells["VI.8 Gaussian"] == of(*[Gaussian(40.0)] * 6)
    assert cells["VI.8 Gaussian sequential"] == of(*[Gaussian(40.0)] * 10)


def test_the_rules_give_the_papers_numbers() -> None:
    told = {one.label: (one.by_rule(one.changes), one.by_rule("each")) for one in hospitals.examples()}
    assert told["IV.2"] == ((6.0, 0.0), (12.0, 0.0))
    assert told["IV.5"] == ((0.3, 0.0), (1.0, 0.0))
    assert told["IV.9"] == ((0.5, 0.0), (0.8, 0.0))
    assert told["IV.14"] == ((0.8, 0.0), (1.0, 0.0))
    assert told["IV.14 same district"] == ((0.5, 0.0), (1.0, 0.0))
    assert told["VI.8 ten hospitals"] == (pytest.approx((6.0, 6e-5)), pytest.approx((10.0, 1e-4)))
    assert told["VI.8 four hospitals"] == (pytest.approx((4.0, 4e-5)), pytest.approx((4.0, 4e-5)))


def test_the_noise_of_the_page_gains_on_the_rule() -> None:
    noise = list(csv.reader(NOISE.read_text(encoding="utf-8").splitlines()))[1:]
    assert len(noise) == 27
    for row in noise:
        low, high = (float(side) for side in row[4].strip("[]").split(", "))
        assert low <= high <= float(row[3]) * (1 + 1e-3)
        if "Gaussian" in row[1]:
            # Gaussian privacy is exact: the rule gains nothing and loses nothing.
            assert high >= float(row[3]) * (1 - 2e-3)
        assert float(row[6].strip("[]").split(", ")[1]) < (0.95 if row[0] == "IV.14" else 0.8)


def test_the_shipped_page_is_the_one_that_is_made(tmp_path: Path) -> None:
    store = tmp_path / "hospitals.zarr"
    # The store is complete, but most plans have no lower bound, which `--strict` does not pass.
    assert main(["run", str(STUDY), "--store", str(store), "--serial", "--strict"]) == 3
    assert hospitals.main(["--store", str(store), "--page", str(tmp_path / "made.md")]) == 0
    assert (tmp_path / "made.md").read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")
    assert (tmp_path / NOISE.name).read_text(encoding="utf-8") == NOISE.read_text(encoding="utf-8")
    # What was computed for the page is in the store: it is made again without a computation.
    assert hospitals.page(open_study(shutil.copytree(store, tmp_path / "copy.zarr"))) == PAGE.read_text(
        encoding="utf-8"
    )
