"""A store that lacks columns of parameters which its own mechanisms have is read, resumed, extended and repaired.

``earlier-columns`` holds what ``pbdist run`` of its ``study.yaml`` made when there were no columns of these parameters.
"""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pbdist import OffGridError, open_study
from pbdist.cli import main
from pbdist.errors import InvalidInputError, PrecisionWarning
from pbdist.store.check import check_store
from pbdist.store.layout import OPTIONAL_COLUMNS
from tests.studies import files_of

pytestmark = pytest.mark.slow

HERE = Path(__file__).parent / "earlier-columns"
POINT = {"compositions": 4, "epsilon": 0.5}
#: Of each label that has several settings the parameters of one of them, and its number.
ONES = [
    ("RandomAllocation", {"steps": 3}, 1),
    ("FixedBatchGaussian", {"rate": 0.05, "batch": 1}, 3),
    ("GaussianMixture", {"shifts": "0, 1.0"}, 8),
    ("LaplaceSum", {"second_scale": 3}, 11),
    ("Histogram", {"pair_p": "1,2,4"}, 18),
    ("Product", {"made_of": "Gaussian(scale=3, sensitivity=1) * Laplace(scale=2, sensitivity=1)"}, 20),
]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    copied: Path = shutil.copytree(HERE / "old.zarr", tmp_path / "old.zarr")
    return copied


@pytest.fixture
def new(tmp_path: Path) -> Path:
    """Return a store of the same study, made today."""
    assert main(["run", str(HERE / "study.yaml"), "--store", str(tmp_path / "new.zarr"), "--serial"]) == 0
    return tmp_path / "new.zarr"


def test_it_lacks_all_of_them(store: Path) -> None:
    assert not [name for name in OPTIONAL_COLUMNS if (store / name).exists()]
    assert check_store(store).healthy


@pytest.mark.parametrize(("label", "noise", "cell"), ONES)
def test_each_setting_is_found_by_its_own_parameters(label: str, noise: dict[str, float | str], cell: int) -> None:
    study = open_study(HERE / "old.zarr")
    found = study.delta(label, **POINT, **noise)
    r, e = study.spec.compositions.index(4), study.spec.epsilon.index(0.5)
    at = study.bounds.isel(cell=cell, compositions=r, epsilon=e)
    assert found.upper == at.delta_upper.max().item()
    assert found.lower == at.delta_lower.max().item()
    frame = study.frame(mechanism=label, **noise, **POINT)
    assert frame.cell.tolist() == [cell]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in noise.items()]
    question = ["query", str(HERE / "old.zarr"), "--mechanism", label, "--compositions", "4", "--epsilon", "0.5"]
    assert main([*question, *options]) == 0


def test_without_them_the_error_names_them() -> None:
    study = open_study(HERE / "old.zarr")
    with pytest.raises(InvalidInputError, match=r"also give steps \(2, 3\)"):
        study.delta("RandomAllocation", **POINT)
    with pytest.raises(InvalidInputError, match=r"also give shifts \(\[0, 1\], \[0, 1, 2\]\), weights"):
        study.delta("GaussianMixture", **POINT)
    with pytest.raises(OffGridError, match=r"shifts: expected one of \[0, 1, 2\], \[0, 1\], got 0,3$"):
        study.delta("GaussianMixture", shifts="0,3", **POINT)
    with pytest.raises(OffGridError, match=r"steps: expected a stored value, the neighbours being 2 and 3, got 2\.5"):
        study.frame(steps=2.5)


def test_settings_between_are_bounded() -> None:
    study = open_study(HERE / "old.zarr")
    with pytest.warns(PrecisionWarning, match="between stored points"):
        found = study.delta("LaplaceSum", scale=4.0, second_scale=2.5, **POINT)
    above, below = (study.delta("LaplaceSum", second_scale=scale, **POINT) for scale in (2, 3))
    assert below.lower <= found.lower <= found.upper <= above.upper
    with pytest.raises(InvalidInputError, match=r"second_scale: expected at most the scale, 4\.0, got 5\.0"):
        study.delta("LaplaceSum", scale=4.0, second_scale=5.0, **POINT)


def test_a_grid_of_batches_and_examples_is_a_table() -> None:
    found = open_study(HERE / "old.zarr").select(mechanism="FixedBatchGaussian", **POINT)
    assert found.delta_upper.dims == ("batch", "examples")
    assert found.delta_upper.sel(batch=2, examples=10) >= found.delta_upper.sel(batch=1, examples=10)


def test_it_is_told_as_a_new_store(new: Path) -> None:
    old, fresh = (open_study(place) for place in (HERE / "old.zarr", new))
    # The store was made before there were groups.
    names = [name for name in OPTIONAL_COLUMNS if name != "group_size"]
    for name in names:
        assert (new / name).is_dir()
        assert repr(old.bounds[name].values.tolist()) == repr(fresh.bounds[name].values.tolist())
    assert old.frame(columns=names).equals(fresh.frame(columns=names))
    told, expected = (study.contents().as_json() for study in (old, fresh))
    assert told["mechanisms"] == expected["mechanisms"]
    # All other coordinates, and everything of the study, are as they were.
    before, after = files_of(HERE / "old.zarr"), files_of(new)
    results = {"delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper", "within_tolerance"}
    results |= {"factor_used", "loss_width", "commits", "zarr.json"}
    columns = {name for name in before if name.partition("/")[0] not in results}
    assert len(columns) > 30
    assert {name: after[name] for name in columns} == {name: before[name] for name in columns}
    assert old.spec.digest == fresh.spec.digest


def test_a_run_of_its_study_changes_nothing(store: Path) -> None:
    before = files_of(store)
    assert main(["run", str(HERE / "study.yaml"), "--store", str(store), "--serial", "--check"]) == 0
    assert files_of(store) == before


def test_it_is_extended_and_told_as_one(store: Path, tmp_path: Path) -> None:
    text = (HERE / "study.yaml").read_text(encoding="utf-8")
    more = tmp_path / "study.yaml"
    more.write_text(text.replace("scale: 2, steps: [2, 3]", "scale: 2, steps: [2, 3, 4]"), encoding="utf-8")
    assert main(["run", str(more), "--store", str(store), "--serial"]) == 0
    assert (store / "extensions" / "001" / "steps").is_dir()
    study = open_study(store)
    assert study.frame(mechanism="RandomAllocation", **POINT).steps.tolist() == [2.0, 3.0, 4.0]
    assert study.delta("RandomAllocation", steps=4, **POINT).upper > 0.0
    assert np.isnan(study.bounds.batch.values).sum() == 24 - 6
    assert check_store(store).healthy
    assert main(["verify", str(store)]) == 0
