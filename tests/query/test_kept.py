"""What kept states add to a store's answers: any ε and any δ of a stored r, curves; and what damage does to them."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pbdist import epsilon_bounds, privacy_bounds, total_variation_bounds, tradeoff_bounds
from pbdist.cli import main
from pbdist.errors import StoreDamagedError
from pbdist.mechanisms import Gaussian, Laplace, Pair, RandomizedResponse, SubsampledGaussian
from pbdist.query import Study, open_study
from pbdist.query import convex_delta as kept_module
from pbdist.store import read_state
from pbdist.store.layout import cell_states
from pbdist.types import Direction
from tests.studies import Finished

STUDY = """\
format: 1
name: kept
mechanisms:
  - {kind: SubsampledGaussian, scale: 1, rate: 0.02}
  - {kind: Laplace, scale: 5}
  - {kind: Gaussian, scale: 20}
  - {kind: RandomizedResponse, p: 0.55}
tolerance: 0.001
compositions: [1, 16, 256]
epsilon: [0.5, 1, 2]
keep_states: true
"""
#: Of the smaller direction, beyond the largest ε and without states, answers are wide and say so (test_wide).
pytestmark = [pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning"), pytest.mark.slow]
CASES = [
    ("SubsampledGaussian", SubsampledGaussian(1.0, 0.02)),
    pytest.param("Laplace", Laplace(5.0), marks=pytest.mark.nightly),
    pytest.param("Gaussian", Gaussian(20.0), marks=pytest.mark.nightly),
    ("RandomizedResponse", RandomizedResponse(0.55)),
]
ROUNDS = (1, 16, 256)
TOLERANCE, FLOOR = 1e-3, 1e-40


@pytest.fixture(scope="module")
def path(finished_store: Finished) -> Path:
    return finished_store(STUDY)


@pytest.fixture(scope="module")
def plain(finished_store: Finished) -> Study:
    return open_study(finished_store(STUDY.replace("keep_states: true", "")))


@pytest.fixture(scope="module")
def study(path: Path) -> Study:
    return open_study(path)


@pytest.mark.parametrize(("label", "pair"), CASES, ids=str)
def test_any_epsilon_of_a_stored_r(study: Study, plain: Study, label: str, pair: Pair) -> None:
    asked = np.random.default_rng(11).uniform(0.0, 2.0, 25)
    for r in ROUNDS:
        found = study.delta(label, compositions=r, epsilon=asked, direction="each")
        fresh = privacy_bounds(pair, compositions=r, epsilon=asked, tolerance=1e-4, direction="each")
        assert np.all(found.lower <= fresh.delta_upper.values[:, 0])
        assert np.all(fresh.delta_lower.values[:, 0] <= found.upper)
        lower, upper = found.lower.max(axis=0), found.upper.max(axis=0)
        assert np.all((upper <= FLOOR) | (upper <= (1.0 + TOLERANCE) * lower))
        without = plain.delta(label, compositions=r, epsilon=asked, direction="each")
        assert np.all(found.log_lower >= without.log_lower - 1e-9)
        # Other passes with the same study may differ by rounding alone.
        assert np.all((found.upper <= without.upper * (1.0 + 1e-6)) | (found.upper <= FLOOR))


@pytest.mark.parametrize(("label", "pair"), CASES, ids=str)
def test_any_delta_of_a_stored_r(study: Study, label: str, pair: Pair) -> None:
    asked = np.array([0.02, 1e-3, 1e-5, 1e-8])
    for r in ROUNDS:
        found = study.epsilon(label, compositions=r, delta=asked)
        fresh = epsilon_bounds(pair, compositions=r, delta=asked, tolerance=1e-5)
        assert np.all(found.lower <= fresh.epsilon_upper.values[0])
        assert np.all(fresh.epsilon_lower.values[0] <= found.upper)
        known = fresh.epsilon_upper.values[0] <= 2.0
        assert np.all(found.upper[known] - found.lower[known] <= TOLERANCE * found.upper[known])
        # They are checked where they are told.
        inside = np.isfinite(found.upper)
        if inside.any():
            at = study.delta(label, compositions=r, epsilon=found.upper[inside])
            assert np.all(at.log_upper <= np.log(asked[inside]))


def test_rounds_that_are_allowed(study: Study) -> None:
    found = study.compositions("SubsampledGaussian", epsilon=0.83, delta=1e-7)
    fresh = privacy_bounds(SubsampledGaussian(1.0, 0.02), compositions=ROUNDS, epsilon=0.83)
    allowed = [r for r, upper in zip(ROUNDS, fresh.delta_upper.values[:, 0], strict=True) if upper <= 1e-7]
    assert int(found.lower) == max(allowed, default=0)


def test_stored_points_stay_as_they_are(study: Study) -> None:
    for label in ("SubsampledGaussian", "Laplace", "Gaussian", "RandomizedResponse"):
        for r in ROUNDS:
            for epsilon in (0.5, 1.0, 2.0):
                rows = study.frame(mechanism=label, compositions=r, epsilon=epsilon, direction="each")
                found = study.delta(label, compositions=r, epsilon=epsilon, direction="each")
                assert (tuple(found.lower), tuple(found.upper)) == (tuple(rows.delta_lower), tuple(rows.delta_upper))


def test_many_questions_read_each_state_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[int] = []

    def counted(stored: object, cell: int, direction: Direction, compositions: int) -> object:
        reads.append(compositions)
        return read_state(stored, cell, direction, compositions)  # type: ignore[arg-type]

    monkeypatch.setattr(kept_module, "read_state", counted)
    draw = np.random.default_rng(2)
    study = open_study(path)
    study.delta("Laplace", compositions=draw.choice(ROUNDS, 500), epsilon=draw.uniform(0.0, 2.0, 500))
    study.epsilon("Laplace", compositions=draw.choice(ROUNDS, 500), delta=10.0 ** -draw.uniform(1.0, 9.0, 500))
    assert sorted(reads) == sorted(ROUNDS)


@pytest.mark.slow(reason="kept states of every kind of pair")
@pytest.mark.parametrize(("label", "pair"), CASES, ids=str)
def test_curves_are_read_off_states(study: Study, plain: Study, label: str, pair: Pair) -> None:
    alpha = np.array([0.0, 0.01, 0.1, 0.5, 0.9, 1.0])
    for r in ROUNDS[::2]:
        found = study.tradeoff(label, compositions=r, type_one_error=alpha, direction="each", refine=True)
        fresh = tradeoff_bounds(pair, compositions=r, type_one_error=alpha, tolerance=1e-5, direction="each")
        assert np.all(found.lower <= fresh.type_two_error_upper.values[:, 0])
        assert np.all(fresh.type_two_error_lower.values[:, 0] <= found.upper)
        without = plain.tradeoff(label, compositions=r, type_one_error=alpha, direction="each")
        assert np.all(found.lower >= without.lower - 1e-6)
        assert np.all(found.upper <= without.upper + 1e-6)
        if not np.any(fresh.type_two_error_upper.values < 1e-6):
            assert np.max(found.upper - found.lower) <= TOLERANCE
        distance = study.delta(label, compositions=r, epsilon=0.0)
        exact = total_variation_bounds(pair, compositions=r, tolerance=1e-6)
        assert distance.lower <= exact.total_variation_upper.item()
        assert exact.total_variation_lower.item() <= distance.upper <= (1.0 + TOLERANCE) * distance.lower


def test_the_command_line_answers_from_states(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    question = ["--mechanism", "Laplace", "--compositions", "16", "--epsilon", "0.777", "--json"]
    assert main(["query", str(path), *question]) == 0
    (bounds,) = json.loads(capsys.readouterr().out)["answers"]
    assert 0.0 < bounds["delta_upper"] <= (1.0 + TOLERANCE) * bounds["delta_lower"]


def test_a_damaged_state_is_told(path: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(path, tmp_path / "copy.zarr"))
    stored = open_study(copy).parts[0]
    name = f"{cell_states(1)}/{Direction.A_TO_B.name}/r-16"
    chunk = next(file for file in sorted((copy / name).rglob("*")) if file.is_file() and file.name != "zarr.json")
    content = chunk.read_bytes()
    chunk.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(StoreDamagedError, match=r"damaged state .*: pbdist run STUDY --check repairs it"):
        read_state(stored, 1, Direction.A_TO_B, 16)
    with pytest.raises(StoreDamagedError, match=r"damaged state .*: pbdist run STUDY --check repairs it"):
        open_study(copy).delta("Laplace", compositions=16, epsilon=0.777)
    assert open_study(copy).delta("Laplace", compositions=256, epsilon=0.777).upper > 0.0
