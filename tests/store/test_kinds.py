"""A store of many kinds is asked by the parameters of each, and extended."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from pbdist import OffGridError, open_study
from pbdist.cli import main
from pbdist.errors import InvalidInputError, PrecisionWarning
from pbdist.store.check import check_store

pytestmark = pytest.mark.slow

STUDY = Path(__file__).parent / "kinds.yaml"
POINT = {"compositions": 4, "epsilon": 0.5}
#: Of each label that has several settings the parameters of one of them, and its number.
ONES = [
    ("RandomAllocation", {"steps": 3}, 1),
    ("FixedBatchGaussian", {"examples": 20, "batch": 1}, 3),
    ("GaussianMixture", {"shifts": "0, 1.0"}, 8),
    ("LaplaceSum", {"second_scale": 3}, 11),
    ("Histogram", {"pair_p": "1,2,4"}, 18),
    ("Product", {"made_of": "Gaussian(scale=3, sensitivity=1) * Laplace(scale=2, sensitivity=1)"}, 20),
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("kinds") / "made.zarr"
    assert main(["run", str(STUDY), "--store", str(place), "--serial"]) == 0
    return place


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize(("label", "noise", "cell"), ONES)
def test_each_setting_is_found_by_its_own_parameters(
    label: str, noise: dict[str, float | str], cell: int, made: Path
) -> None:
    study = open_study(made)
    found = study.delta(label, **POINT, **noise)
    r, e = study.spec.compositions.index(4), study.spec.epsilon.index(0.5)
    at = study.bounds.isel(cell=cell, compositions=r, epsilon=e)
    assert found.upper == at.delta_upper.max().item()
    assert found.lower == at.delta_lower.max().item()
    frame = study.frame(mechanism=label, **noise, **POINT)
    assert frame.cell.tolist() == [cell]
    options = [f"--{name.replace('_', '-')}={value}" for name, value in noise.items()]
    question = ["query", str(made), "--mechanism", label, "--compositions", "4", "--epsilon", "0.5"]
    assert main([*question, *options]) == 0


def test_without_them_the_error_names_them(made: Path) -> None:
    study = open_study(made)
    with pytest.raises(InvalidInputError, match=r"also give steps \(2, 3\)"):
        study.delta("RandomAllocation", **POINT)
    with pytest.raises(InvalidInputError, match=r"also give shifts \(\[0, 1\], \[0, 1, 2\]\), weights"):
        study.delta("GaussianMixture", **POINT)
    with pytest.raises(OffGridError, match=r"shifts: expected one of \[0, 1, 2\], \[0, 1\], got 0,3$"):
        study.delta("GaussianMixture", shifts="0,3", **POINT)
    with pytest.raises(OffGridError, match=r"steps: expected a stored value, the neighbours being 2 and 3, got 2\.5"):
        study.frame(steps=2.5)


def test_settings_between_are_bounded(made: Path) -> None:
    study = open_study(made)
    with pytest.warns(PrecisionWarning, match="between stored points"):
        found = study.delta("LaplaceSum", scale=4.0, second_scale=2.5, **POINT)
    above, below = (study.delta("LaplaceSum", second_scale=scale, **POINT) for scale in (2, 3))
    assert below.lower <= found.lower <= found.upper <= above.upper


def test_a_grid_of_batches_and_examples_is_a_table(made: Path) -> None:
    found = open_study(made).frame(mechanism="FixedBatchGaussian", **POINT)
    table = found.pivot(index="batch", columns="examples", values="delta_upper")
    assert table.notna().all(axis=None)
    assert table.loc[2, 10] >= table.loc[1, 10]


def test_it_is_extended_and_told_as_one(made: Path, tmp_path: Path) -> None:
    store: Path = shutil.copytree(made, tmp_path / "copy.zarr")
    text = (STUDY).read_text(encoding="utf-8")
    more = tmp_path / "study.yaml"
    more.write_text(text.replace("scale: 2, steps: [2, 3]", "scale: 2, steps: [2, 3, 4]"), encoding="utf-8")
    assert main(["run", str(more), "--store", str(store), "--serial"]) == 0
    assert (store / "extension-001" / "steps").is_dir()
    study = open_study(store)
    assert study.frame(mechanism="RandomAllocation", **POINT).steps.tolist() == [2.0, 3.0, 4.0]
    assert study.delta("RandomAllocation", steps=4, **POINT).upper > 0.0
    assert np.isnan(study.bounds.batch.values).sum() == 24 - 6
    assert check_store(store).healthy
    assert main(["verify", str(store)]) == 0
