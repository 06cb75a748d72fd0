"""Opening a finished store, selecting and looking up."""

import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import zarr

import pbdist
from pbdist.errors import InvalidInputError, NotAStoreError, OffGridError, StoreDamagedError
from pbdist.query import Precision, Study, TabulatedNoise, Verdict, noise_choices, open_study, reached_precision
from pbdist.store.layout import bounds_file
from pbdist.study import load_study
from tests.batches import damage_batch, remove_batch
from tests.studies import TIGHT, TINY, Finished, write_study

pytestmark = pytest.mark.slow

TWO_FACTORS = TINY.replace("buckets: 400", "buckets: 400\nfactors: [auto, 1.05]")


@pytest.fixture
def finished(finished_store: Finished) -> Path:
    return finished_store(TWO_FACTORS)


@pytest.fixture
def copy(store_copy: Finished) -> Path:
    return store_copy(TWO_FACTORS)


def judged(study: Study, *, compositions: int, epsilon: float, delta: float) -> list[TabulatedNoise]:
    """Return what is proved of each setting at a target, in the order of the study."""
    choices = noise_choices(study, compositions=compositions, epsilon=epsilon, delta=delta)
    return sorted((one for choice in choices for one in choice.tried), key=lambda one: one.cell)


def test_bounds_are_selected_by_any_parameter(finished: Path) -> None:
    study = open_study(finished)
    assert study.complete
    bounds = study.bounds
    assert set(bounds.data_vars) >= {"delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"}
    one = bounds.sel(mechanism="Laplace", scale=3.0, factor=1.05, compositions=4, exp_epsilon=1.5)
    assert one.sizes == {"cell": 1, "direction": 2}
    assert float(one["factor_used"].item()) == pytest.approx(1.05)
    direct = pbdist.privacy_bounds(
        pbdist.Laplace(3.0),
        compositions=4,
        epsilon=math.log(1.5),
        method="buckets",
        buckets=400,
        factor=1.05,
        direction="each",
    )
    np.testing.assert_array_equal(one["delta_upper"].values.ravel(), direct["delta_upper"].values.ravel())
    np.testing.assert_array_equal(one["delta_lower"].values.ravel(), direct["delta_lower"].values.ravel())
    # Several values, parameters that only some mechanisms have, and those that none of the selected has.
    assert bounds.sel(mechanism="Laplace").sizes["cell"] == 6
    assert bounds.sel(p=0.6).sizes["cell"] == 2
    assert bounds.sel(mechanism="clipped", reading="clamp-and-ceil", mean=20.0, shift=1.0).sizes["cell"] == 2
    assert bounds.sel(direction="B||A", epsilon=0.0).sizes == {"cell": 12, "compositions": 4}
    with pytest.raises(KeyError):
        bounds.sel(mechanism="Laplace", scale=4.0)
    with pytest.raises(KeyError):
        bounds.sel(epsilon=0.123)


def test_bounds_are_loaded_when_used(copy: Path) -> None:
    study = open_study(copy)
    loaded = study.bounds
    damage_batch(copy, 0)
    with pytest.raises(StoreDamagedError, match="results of batch 0 are damaged"):
        loaded["log_delta_lower"].load()


def test_an_answer_at_a_stored_point_is_what_is_stored(finished: Path) -> None:
    study = open_study(finished)
    found = study.delta("Laplace", scale=3, factor=1.05, compositions=4, exp_epsilon=1.5, direction="each")
    stored = study.bounds.sel(mechanism="Laplace", scale=3.0, factor=1.05, compositions=4, exp_epsilon=1.5)
    assert found.upper.tolist() == stored["delta_upper"].values.ravel().tolist()
    assert found.log_lower.tolist() == stored["log_delta_lower"].values.ravel().tolist()
    (row,) = study.frame(
        mechanism="clipped", factor="auto", compositions=1, epsilon=math.log(2) * (1 + 2e-16)
    ).itertuples()
    assert row.exp_epsilon == 2.0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"scale": 4}, OffGridError, "scale: expected a stored value, the neighbours being 3 and 5, got 4"),
        ({"scale": 9}, OffGridError, "the nearest being 5, got 9"),
        ({"scale": 1}, OffGridError, "the nearest being 2, got 1"),
        ({"scale": math.nan}, InvalidInputError, "scale: expected a finite number"),
        ({"scale": 2, "factor": 1.06}, OffGridError, "factor: expected a stored value, the nearest being 1.05"),
        ({"mechanism": "Laplac"}, OffGridError, "mechanism: expected one of Laplace, RandomizedResponse, clipped"),
        ({"mechanism": "Laplac"}, OffGridError, "got Laplac: did you mean Laplace?"),
        ({"mechanism": "Noise"}, OffGridError, "clipped, got Noise"),
        ({"noise_multiplier": 2}, InvalidInputError, "got an unknown parameter: did you mean scale?"),
        ({"senstivity": 2}, InvalidInputError, "got an unknown parameter: did you mean sensitivity?"),
        ({"scale": 2, "reading": "x"}, OffGridError, "reading: expected no value, as no such setting has one, got x"),
        ({"compositions": 3, "scale": 2}, OffGridError, "the neighbours being 2 and 4, got 3"),
        ({"epsilon": 0.5, "scale": 2}, OffGridError, "being 0.4054651081 and 0.6931471806, got 0.5"),
        (
            {"epsilon": math.log(2) * (1 + 3e-15), "scale": 2},
            OffGridError,
            "epsilon: expected a stored",
        ),
        ({"epsilon": math.nan, "scale": 2}, InvalidInputError, "epsilon: expected a finite number"),
        ({"epsilon": -0.5, "scale": 2}, OffGridError, "the nearest being 0, got -0.5"),
        ({"epsilon": None, "exp_epsilon": 3, "scale": 2}, OffGridError, "the nearest being 2, got 3"),
        ({"epsilon": None, "exp_epsilon": -3, "scale": 2}, OffGridError, "the nearest being 1, got -3"),
        ({"exp_epsilon": 2}, InvalidInputError, "exactly one of epsilon and exp_epsilon"),
        ({"sigma": 2}, InvalidInputError, "sigma: expected one of mechanism, kind, noise"),
    ],
)
def test_off_the_grid_the_neighbours_are_named(
    finished: Path, arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    point: dict[str, object] = {"mechanism": "Laplace", "compositions": 4, "epsilon": 0.0, **arguments}
    with pytest.raises(error) as caught:
        open_study(finished).frame(**{name: value for name, value in point.items() if value is not None})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def status_at(store: Path) -> str:
    frame = open_study(store).frame(mechanism="Laplace", scale=2, factor="auto", compositions=4, epsilon=0.0)
    assert (frame.status.item() == "computed") == (frame.delta_upper.item() > 0.0)
    return str(frame.status.item())


def test_what_is_missing_or_broken_is_never_a_number(copy: Path) -> None:
    assert status_at(copy) == "computed"
    chunk = copy / bounds_file(0)
    content = chunk.read_bytes()
    chunk.write_bytes(content[:30] + bytes([content[30] ^ 16]) + content[31:])
    assert status_at(copy) == "damaged"
    with pytest.raises(
        OffGridError, match="its files have changed or are missing: pbdist run STUDY --check repairs them"
    ):
        open_study(copy).delta("Laplace", scale=2, factor=None, compositions=4, epsilon=0.0)
    chunk.write_bytes(content)
    assert status_at(copy) == "computed"
    grid = copy / "epsilon/0"
    content = grid.read_bytes()
    grid.unlink()
    with pytest.raises(StoreDamagedError, match="epsilon"):
        status_at(copy)
    grid.write_bytes(content)
    # An honest gap.
    chunk.unlink()
    assert status_at(copy) == "missing"
    with pytest.raises(OffGridError, match="not computed yet: run the study again"):
        open_study(copy).delta("Laplace", scale=2, factor=None, compositions=4, epsilon=0.0)
    assert not open_study(copy).complete


def test_a_path_that_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(NotAStoreError):
        open_study(tmp_path / "absent")
    zarr.open_group(tmp_path / "other", mode="w")
    with pytest.raises(NotAStoreError):
        pbdist.open_study(tmp_path / "other")


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan])
def test_numbers_that_are_not_finite_match_nothing(finished: Path, value: float) -> None:
    study = open_study(finished)
    for change in ({"epsilon": value}, {"exp_epsilon": value}, {"epsilon": 0.0, "scale": value}):
        with pytest.raises(InvalidInputError, match=f"{list(change)[-1]}: expected a finite number"):
            study.frame(mechanism="Laplace", **{"compositions": 4, "scale": 3.0, **change})


def test_the_larger_direction_counts(finished: Path) -> None:
    # The clipped count is not symmetric: a maximum that took the other direction would be noticed.
    study = open_study(finished)
    asked = {"compositions": 1, "exp_epsilon": 2.0, "factor": "auto"}
    each, both = study.delta("clipped", **asked, direction="each"), study.delta("clipped", **asked)
    assert each.upper[0] != each.upper[1]
    assert (both.lower, both.upper) == (each.lower.max(), each.upper.max())
    results = judged(study, epsilon=math.log(2.0), delta=0.5, compositions=1)
    [one] = [
        result
        for cell, result in zip(study.spec.cells, results, strict=True)
        if cell.label == "clipped" and cell.factor is None
    ]
    assert (one.lower, one.upper) == (both.lower, both.upper)


@pytest.mark.parametrize("column", ["scale", "mechanism"])
def test_an_altered_coordinate_is_noticed(copy: Path, column: str) -> None:
    array = zarr.open_array(copy / column, mode="r+")
    array[...] = array[...][::-1]
    study = open_study(copy)
    with pytest.raises(StoreDamagedError, match=rf"{column}/0 missing or changed"):
        _ = study.bounds
    with pytest.raises(StoreDamagedError):
        study.delta("Laplace", compositions=4, epsilon=0.0, scale=3.0, factor="auto")


def test_altered_values_of_exp_epsilon_are_noticed(copy: Path) -> None:
    shutil.copy(copy / "epsilon/0", copy / "exp_epsilon/0")
    with pytest.raises(StoreDamagedError, match="exp_epsilon/0 missing or changed"):
        _ = open_study(copy).bounds


@pytest.mark.parametrize(
    ("old", "new"),
    [
        # As many bytes, other numbers.
        ('"data_type": "float64"', '"data_type": "int64"'),
        ('"endian": "little"', '"endian": "big"'),
        ('"node_type": "array"', '"node_type": "group"'),
        ("{", ""),
    ],
)
def test_altered_metadata_is_noticed(copy: Path, old: str, new: str) -> None:
    metadata = copy / "bounds/zarr.json"
    text = metadata.read_text()
    assert old in text
    metadata.write_text(text.replace(old, new))
    with pytest.raises(StoreDamagedError, match=r"bounds/zarr\.json missing or changed"):
        status_at(copy)
    metadata.unlink()
    with pytest.raises(StoreDamagedError, match=r"bounds/zarr\.json missing or changed"):
        status_at(copy)


def test_results_of_another_batch_are_not_read(copy: Path) -> None:
    # Sound by itself.
    damage_batch(copy, 0, (copy / bounds_file(3)).read_bytes())
    assert status_at(copy) == "damaged"
    remove_batch(copy, 0)
    assert status_at(copy) == "missing"
    results = judged(open_study(copy), epsilon=0.0, delta=0.5, compositions=4)
    assert results[0].verdict is Verdict.MISSING


def test_verdicts_follow_the_bounds(finished: Path, copy: Path) -> None:
    study = open_study(finished)
    epsilon, compositions = study.spec.epsilon[2], 4
    for delta in (1e-9, 0.05, 0.2, 0.99):
        results = judged(study, epsilon=epsilon, delta=delta, compositions=compositions)
        assert [result.cell for result in results] == list(range(len(study.spec.cells)))
        for result in results:
            low, high = result.lower, result.upper
            expected = Verdict.MEETS if high <= delta else Verdict.REFUTED if low > delta else Verdict.UNDECIDED
            assert result.verdict is expected
    one = judged(study, epsilon=epsilon, delta=0.5, compositions=compositions)[0]
    middle = (one.lower + one.upper) / 2
    assert judged(study, epsilon=epsilon, delta=middle, compositions=compositions)[0].verdict is Verdict.UNDECIDED
    damage_batch(copy, 3)
    damaged: Study = open_study(copy)
    assert judged(damaged, epsilon=epsilon, delta=0.5, compositions=compositions)[3].verdict is Verdict.MISSING


def test_the_precision_of_a_tight_study_is_counted(
    finished_store: Finished, store_copy: Finished, tmp_path: Path
) -> None:
    store = store_copy(TIGHT)
    study = open_study(store)
    found = reached_precision(study)
    asked = study.bounds.delta_upper.max("direction").values > 1e-40
    lowest = study.bounds.delta_lower.max("direction").values
    assert (lowest[asked] > 0.0).all()
    assert study.bounds.within_tolerance.values.all()
    assert found == Precision(int(asked.sum()), 0, None)
    # What is not there is not counted, and what has a factor of its own asks for no tolerance.
    damage_batch(store, 0)
    some = load_study(write_study(tmp_path, TIGHT.replace("[1, 2, 4, 7]", "[1, 2, 4]")))
    assert reached_precision(open_study(store), some).points == int(asked[1:, :3].sum())
    given = finished_store(TIGHT + "factors: [1.01]\n")
    assert reached_precision(open_study(given)) == Precision(0, 0, None)


#: At an ε of 1e-13 float64 does not tell δ of so much noise, and of this sample the smaller direction is not looked at.
MISSED = """\
format: 1
name: missed
mechanisms:
  - {kind: Laplace, scale: [2, 1.0e+12]}
  - {kind: SubsampledGaussian, scale: 2, rate: 0.1}
compositions: [1, 16]
epsilon: [0, 1e-13, 0.1, 0.5]
"""


@pytest.mark.parametrize("direction", ["both", "each"])
def test_only_what_was_asked_for_and_missed_is_counted(
    finished_store: Finished, tmp_path: Path, direction: str
) -> None:
    text = f"{MISSED}direction: {direction}\n"
    study = open_study(finished_store(text))
    bounds, found = study.bounds, reached_precision(study)
    asked = (bounds.delta_upper > 1e-40).any("direction").values
    assert 0 < asked.sum() < asked.size
    missed = (~bounds.within_tolerance & (bounds.delta_upper > 1e-40)).any("direction").values
    assert (found.points, found.missed) == (asked.sum(), missed.sum())
    assert found.missed == 4
    assert found.widest is not None
    assert found.widest.direction == ("both" if direction == "both" else "A||B")
    assert (found.widest.cell.pair, found.widest.epsilon) in [
        (pbdist.Laplace(1e12), 1e-13),
        (pbdist.Laplace(1e12), 0.0),
    ]
    widest = found.widest.bracket
    assert widest.relative_width == pytest.approx(widest.upper / widest.lower - 1.0, rel=1e-9)
    # A study that asks for less, answered from the same store, is judged by its own points.
    fewer = load_study(write_study(tmp_path, text.replace("[0, 1e-13, 0.1, 0.5]", "[0.1, 0.5]")))
    assert reached_precision(study, fewer).missed == 0
    assert reached_precision(study, fewer).points == asked[:, :, 2:].sum()
    fewer = load_study(write_study(tmp_path, text.replace("[2, 1.0e+12]", "2").replace("[1, 16]", "16")))
    assert reached_precision(study, fewer) == Precision(int(asked[[0, 2], 1].sum()), 0, None)
    assert reached_precision(study, load_study(write_study(tmp_path, text))) == found
