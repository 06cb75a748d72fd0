"""`pbdist verify` on real stores, and on stores in which numbers were altered along with their checksums."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import zarr

from pbdist.cli import main
from pbdist.errors import InvalidInputError, NotAStoreError, StoreDamagedError
from pbdist.run import SerialExecutor, run_study
from pbdist.store.layout import bounds_file
from pbdist.study import load_study
from pbdist.types import FloatArray
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict
from tests.studies import Finished, alter, write_study

pytestmark = pytest.mark.slow

SMALL = """\
format: 1
name: small
mechanisms:
  - {kind: Laplace, scale: 2}
  - {kind: NoisyCount, noise: {kind: Gaussian, scale: 3}, mean: 9, shift: 1}
PRECISION
compositions: [1, 4]
epsilon: [0, 0.3]
"""
#: Points of that study: cells, directions, compositions, ε.
POINTS = 2 * 2 * 2 * 2
#: The index of the altered point, and its text.
INDEX, TEXT = (1, 1, 1, 1), "NoisyCount(noise=Gaussian(scale=3, sensitivity=1), mean=9, shift=1, "


EACH = SMALL.replace("PRECISION", "tolerance: 0.01\ndirection: each")


@pytest.fixture
def finished(finished_store: Finished) -> Path:
    return finished_store(EACH)


@pytest.fixture
def copy(store_copy: Finished) -> Path:
    return store_copy(EACH)


def scaled(factor: float) -> Callable[[FloatArray], object]:
    def change(values: FloatArray) -> None:
        values[INDEX] *= factor

    return change


def shifted(by: float) -> Callable[[FloatArray], object]:
    def change(values: FloatArray) -> None:
        values[INDEX] += by

    return change


@pytest.mark.parametrize("precision", ["tolerance: 0.01", "method: buckets\nbuckets: 400", "factors: 1.01"])
def test_a_sound_store_passes(finished_store: Finished, precision: str) -> None:
    found = verify_store(finished_store(SMALL.replace("PRECISION", precision)), sample=POINTS)
    assert found.passed
    assert found.points == len(found.samples) == POINTS
    # One round of Laplace noise has a closed form: grids are only as close where ε lies on them.
    confirmed = found.of(Verdict.CONFIRMED)
    assert len(confirmed) >= POINTS - 2
    assert all(sample in confirmed for sample in found.samples if sample.compositions > 1)
    for sample in confirmed:
        assert sample.exact is not None
        assert sample.stored[0] <= sample.exact[0] <= sample.exact[1] <= sample.stored[1]
        assert sample.stored[2] <= sample.exact[2] <= sample.exact[3] <= sample.stored[3]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        # Twice the tolerance.
        ("delta_upper", scaled(0.98)),
        ("delta_lower", scaled(1.02)),
        ("log_delta_upper", shifted(-0.02)),
        ("log_delta_lower", shifted(0.02)),
        ("log_delta_upper", scaled(np.nan)),
    ],
)
def test_an_altered_number_is_contradicted_and_named(
    copy: Path, capsys: pytest.CaptureFixture[str], name: str, change: Callable[[FloatArray], object]
) -> None:
    alter(copy, name, change)
    assert main(["verify", str(copy), "--sample", str(POINTS)]) == 1
    found = [line for line in capsys.readouterr().out.splitlines() if line.startswith("contradicted: ")]
    assert len(found) == 1
    assert found[0].startswith(f"contradicted: {TEXT}")
    assert "r = 4, ε = 0.3, B||A: stored " in found[0]


def test_bounds_of_another_point_are_contradicted(copy: Path) -> None:
    for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        alter(copy, name, lambda values: np.copyto(values, values[..., ::-1].copy()))
    found = verify_store(copy, sample=POINTS)
    assert len(found.of(Verdict.CONTRADICTED)) == POINTS


def test_without_a_stored_width_nothing_is_checked(copy: Path) -> None:
    alter(copy, "loss_width", lambda values: values.fill(0.0))
    found = verify_store(copy, sample=3)
    assert len(found.of(Verdict.UNCHECKED)) == 3
    json.dumps(found.as_json(), allow_nan=False)


def test_missing_and_changed_batches(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changed, missing = (copy / bounds_file(index) for index in range(2))
    changed.write_bytes(changed.read_bytes()[:-1])
    missing.unlink()
    found = verify_store(copy)
    assert not found.passed
    assert (found.missing, found.changed, found.points, found.samples) == ((1,), (0,), 0, ())
    assert main(["verify", str(copy)]) == 1
    out = capsys.readouterr().out
    assert "0 of 2 batches are committed and have their checksums" in out
    assert "not computed: batches 1\n" in out
    assert "changed: batches 0\n" in out


def test_changed_coordinates_are_refused(copy: Path) -> None:
    zarr.open_array(copy / "epsilon", mode="r+")[0] = 7
    with pytest.raises(StoreDamagedError, match="epsilon/0 missing or changed"):
        verify_store(copy, sample=0)


def test_faint_deltas_are_seen_to_be_faint(tmp_path: Path) -> None:
    text = (
        "format: 1\nname: faint\nmechanisms:\n  - {kind: Gaussian, scale: 200}\ncompositions: 1\nepsilon: [0.1, 0.9]\n"
    )
    store = tmp_path / "s.zarr"
    run_study(load_study(write_study(tmp_path, text)), store, SerialExecutor(), lambda _: None)
    found = verify_store(store, sample=4, max_cells=20_000)
    assert found.passed
    assert any("2 of them without an exact lower bound above 0" in line for line in found.lines())

    def brighter(values: FloatArray) -> None:
        values[..., 1] = -200.0

    alter(store, "log_delta_lower", brighter)
    alter(store, "log_delta_upper", brighter)
    contradicted = verify_store(store, sample=4, max_cells=20_000).of(Verdict.CONTRADICTED)
    assert [sample.epsilon for sample in contradicted] == [0.9, 0.9]


def test_too_few_bins_check_nothing_and_say_so(finished: Path) -> None:
    found = verify_store(finished, sample=4, max_cells=4)
    assert found.passed
    assert len(found.of(Verdict.CONFIRMED)) == 0
    assert any("not checked: they need more bins" in line for line in found.lines())
    assert len(found.of(Verdict.UNCHECKED)) + len(found.of(Verdict.CONSISTENT)) == 4


def test_the_seed_chooses(finished: Path) -> None:
    def places(seed: int) -> list[tuple[object, ...]]:
        samples = verify_store(finished, sample=5, seed=seed, max_cells=4).samples
        return [(one.cell, one.direction, one.compositions, one.epsilon) for one in samples]

    assert places(1) == places(1)
    assert len(set(places(1))) == 5
    assert places(1) != places(2)


def test_json(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["verify", str(finished), "--sample", "3", "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["passed"] is True
    assert answer["counts"] == {"confirmed": 3, "consistent": 0, "contradicted": 0, "unchecked": 0}
    assert len(answer["samples"]) == 3
    for sample in answer["samples"]:
        assert sample["stored"]["delta_lower"] <= sample["exact"]["delta_lower"]
        assert sample["verdict"] == "confirmed"


def test_what_cannot_be_verified(finished: Path, tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        verify_store(tmp_path)
    with pytest.raises(InvalidInputError, match="sample: expected a whole number from 0"):
        verify_store(finished, sample=-1)
    with pytest.raises(InvalidInputError, match="max_cells: expected a whole number from 4"):
        verify_store(finished, max_cells=3)


def test_without_python_flint(
    finished: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "flint", None)
    assert main(["verify", str(finished)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("pbdist: error: python-flint: expected for exact arithmetic, not found")
    assert err.count("\n") == 1
    assert main(["verify", str(finished), "--sample", "0"]) == 0
