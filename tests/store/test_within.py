"""Where a tolerance is met is stored with the bounds."""

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from pbdist.errors import BatchError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, open_store
from pbdist.store.layout import WITHIN
from pbdist.study import StudySpec, load_study
from pbdist.table import bounds_table
from tests.studies import write_study

pytestmark = pytest.mark.slow

#: At an ε of 1e-13 float64 does not resolve δ of so much noise; at 0.5 losses of 1/2 end, and δ is 0 after one round.
TEXT = """\
format: 1
name: s
mechanisms:
  - {kind: Laplace, scale: [2, 1.0e+12]}
  - {kind: SubsampledGaussian, scale: 2, rate: 0.01}
tolerance: 0.01
compositions: [1, 3]
epsilon: [0, 1e-13, 0.5]
"""


def run(tmp_path: Path, text: str) -> tuple[StudySpec, Path]:
    study = load_study(write_study(tmp_path, text))
    run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    return study, tmp_path / "s.zarr"


@pytest.mark.parametrize("direction", ["both", "each"])
def test_it_is_stored_as_it_was_computed(tmp_path: Path, direction: str) -> None:
    study, path = run(tmp_path, f"{TEXT}direction: {direction}\n")
    plain = xr.open_zarr(path, chunks=None).bounds.to_dataset("quantity")
    for row, cell in enumerate(study.cells):
        table = bounds_table(
            [(cell.pair, 1)],
            compositions=study.compositions,
            epsilon=study.epsilon,
            tolerance=0.01,
            strict=False,
            joint_directions=direction == "both",
        )
        assert np.array_equal(plain.delta_upper.values[row], table.delta_upper)
        assert np.array_equal(plain.within_tolerance.values[row], table.within)
    shown = open_study(path).bounds.within_tolerance.sel(mechanism="Laplace", compositions=1, direction="A||B")
    # No better is to be had at the largest loss; at 1e-13 it is.
    assert shown.sel(scale=2.0).values.tolist() == [[True, True, True]]
    assert shown.sel(scale=1e12).values.tolist() == [[False, False, True]]
    assert np.array_equal(
        open_store(path).values("within_tolerance", slice(None)), plain.within_tolerance.values == 1.0
    )


def test_a_cell_that_failed_is_not_within(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = bounds_table

    def fails(components: object, **arguments: object) -> object:
        if "Subsampled" in repr(components):
            raise ValueError("on purpose")
        return computed(components, **arguments)  # type: ignore[arg-type]

    monkeypatch.setattr("pbdist.run.task.bounds_table", fails)
    with pytest.raises(BatchError, match="on purpose"):
        run(tmp_path, TEXT.replace("scale: [2, 1.0e+12]", "scale: 2"))
    bounds = open_study(tmp_path / "s.zarr").bounds
    assert np.isnan(bounds.delta_upper.values[1]).all()
    assert bounds.within_tolerance.values[0].all()
    assert not bounds.within_tolerance.values[1].any()
    monkeypatch.undo()
    run(tmp_path, TEXT.replace("scale: [2, 1.0e+12]", "scale: 2"))
    assert open_study(tmp_path / "s.zarr").bounds.within_tolerance.values.all()


@pytest.mark.parametrize("tail", ["method: buckets\nbuckets: 400\n", "buckets: 400\n"])
def test_without_a_tolerance_there_is_none(tmp_path: Path, tail: str) -> None:
    text = "".join(line for line in TEXT.splitlines(keepends=True) if "tolerance" not in line) + tail
    _, path = run(tmp_path, text.replace("[2, 1.0e+12]", "2"))
    plain = xr.open_zarr(path, chunks=None).bounds.to_dataset("quantity")
    assert np.isnan(plain[WITHIN]).all()
    assert WITHIN not in open_study(path).bounds
    assert not open_store(path).values("within_tolerance", slice(None)).any()
    assert check_store(path).healthy


def test_a_factor_of_its_own_and_no_loss_at_all(tmp_path: Path) -> None:
    """For these cells the engine gives nothing: it follows from the bounds."""
    text = TEXT.replace("{kind: Laplace, scale: [2, 1.0e+12]}", "{kind: RandomizedResponse, p: [0.5, 0.7]}")
    _, path = run(tmp_path, f"{text}factors: [auto, 1.5]\n")
    bounds = open_study(path).bounds
    equal = bounds.isel(cell=(bounds.kind == "RandomizedResponse") & (bounds.p == 0.5))
    assert equal.within_tolerance.values.all()
    assert not equal.delta_upper.values.any()
    given = bounds.isel(cell=bounds.factor == 1.5)
    lower, upper = (side.max("direction").values for side in (given.delta_lower, given.delta_upper))
    met = upper <= 1.01 * lower
    assert np.array_equal(given.within_tolerance.values[:, 0], met)
    assert 0 < np.count_nonzero(met) < met.size
