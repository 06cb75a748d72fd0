"""Opening a finished store, selecting and looking up."""

import json
import math
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
import zarr
from rich.table import Table

import pbdist
from pbdist.errors import InvalidInputError, NotAStoreError, OffGridError, StoreDamagedError
from pbdist.query import Precision, Study, Verdict, judge_target, open_study, reached_precision
from pbdist.query.printing import bounds_as_json, printed_bounds, rounded_down, rounded_up
from pbdist.store.layout import bounds_file
from pbdist.study import Target, load_study
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
    with pytest.raises(StoreDamagedError, match="the results of batch 0 are damaged"):
        loaded["log_delta_lower"].load()


def test_lookup_is_what_is_stored(finished: Path) -> None:
    study = open_study(finished)
    found = study.lookup("Laplace", scale=3, factor=1.05, compositions=4, exp_epsilon=1.5)
    stored = study.bounds.sel(mechanism="Laplace", scale=3.0, factor=1.05, compositions=4, exp_epsilon=1.5)
    assert found.delta_upper == tuple(stored["delta_upper"].values.ravel())
    assert found.log_delta_lower == tuple(stored["log_delta_lower"].values.ravel())
    assert found.maximum[0] <= found.maximum[1]
    assert found == study.lookup("Laplace", scale=3, factor=1.05, compositions=4, epsilon=math.log(1.5))
    assert found.exp_epsilon == 1.5
    assert study.lookup("clipped", factor="auto", compositions=1, epsilon=0).epsilon == 0.0
    assert study.lookup("clipped", factor=None, compositions=1, epsilon=math.log(2) * (1 + 2e-16)).exp_epsilon == 2.0


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (
            {"scale": 4, "factor": None},
            OffGridError,
            "scale: expected a stored value, the neighbours being 3 and 5, got 4",
        ),
        ({"scale": 9, "factor": None}, OffGridError, "the nearest being 5, got 9"),
        ({"scale": 1, "factor": None}, OffGridError, "the nearest being 2, got 1"),
        ({"scale": math.nan, "factor": None}, InvalidInputError, "scale: expected a finite number"),
        ({"scale": 2, "factor": 1.06}, OffGridError, "factor: expected a stored value, the nearest being 1.05"),
        ({"mechanism": "Laplac"}, OffGridError, "mechanism: expected one of Laplace, RandomizedResponse, clipped"),
        ({"mechanism": "Laplac"}, OffGridError, "got Laplac: did you mean Laplace?"),
        ({"mechanism": "Noise"}, OffGridError, "clipped, got Noise"),
        ({"noise_multiplier": 2}, InvalidInputError, "got an unknown parameter: did you mean scale?"),
        ({"senstivity": 2}, InvalidInputError, "got an unknown parameter: did you mean sensitivity?"),
        ({"scale": 2, "reading": "x"}, OffGridError, "reading: expected no value, got x"),
        ({"compositions": 3, "scale": 2, "factor": None}, OffGridError, "the neighbours being 2 and 4, got 3"),
        ({"epsilon": 0.5, "scale": 2, "factor": None}, OffGridError, "being 0.4054651081 and 0.6931471806, got 0.5"),
        (
            {"epsilon": math.log(2) * (1 + 3e-15), "scale": 2, "factor": None},
            OffGridError,
            "epsilon: expected a stored",
        ),
        ({"epsilon": math.nan, "scale": 2, "factor": None}, InvalidInputError, "epsilon: expected a finite number"),
        ({"epsilon": -0.5, "scale": 2, "factor": None}, OffGridError, "the nearest being 0, got -0.5"),
        ({"epsilon": None, "exp_epsilon": 3, "scale": 2, "factor": None}, OffGridError, "the nearest being 2, got 3"),
        ({"epsilon": None, "exp_epsilon": -3, "scale": 2, "factor": None}, OffGridError, "the nearest being 1, got -3"),
        ({"epsilon": None, "scale": 2, "factor": None}, InvalidInputError, "exactly one of epsilon and exp_epsilon"),
        ({}, InvalidInputError, "also give scale (2, 3, 5), factor (auto, 1.05)"),
        ({"sigma": 2}, InvalidInputError, "sigma: expected one of kind, noise"),
    ],
)
def test_off_the_grid_the_neighbours_are_named(
    finished: Path, arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    point: dict[str, object] = {"mechanism": "Laplace", "compositions": 4, "epsilon": 0.0, **arguments}
    with pytest.raises(error) as caught:
        open_study(finished).lookup(**point)  # type: ignore[arg-type]
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_missing_or_broken_is_never_a_number(copy: Path) -> None:
    def look_up() -> object:
        return open_study(copy).lookup("Laplace", scale=2, factor=None, compositions=4, epsilon=0.0)

    look_up()
    chunk = copy / bounds_file(0)
    content = chunk.read_bytes()
    chunk.write_bytes(content[:30] + bytes([content[30] ^ 16]) + content[31:])
    with pytest.raises(StoreDamagedError, match="run the study again"):
        look_up()
    chunk.write_bytes(content)
    look_up()
    grid = copy / "epsilon/0"
    content = grid.read_bytes()
    grid.unlink()
    with pytest.raises(StoreDamagedError, match="epsilon"):
        look_up()
    grid.write_bytes(content)
    # An honest gap.
    chunk.unlink()
    with pytest.raises(OffGridError, match="not computed yet: run the study again"):
        look_up()
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
    point = {"compositions": 4, "scale": 3.0, "factor": 1.05}
    for change in ({"epsilon": value}, {"exp_epsilon": value}, {"epsilon": 0.0, "scale": value}):
        with pytest.raises(InvalidInputError, match=f"{list(change)[-1]}: expected a finite number"):
            study.lookup("Laplace", **{**point, **change})


def test_the_larger_direction_counts(finished: Path) -> None:
    # The clipped count is not symmetric: a maximum that took the other direction would be noticed.
    study = open_study(finished)
    point = study.lookup("clipped", compositions=1, exp_epsilon=2.0, factor="auto")
    assert point.delta_upper[0] != point.delta_upper[1]
    assert point.maximum == (max(point.delta_lower), max(point.delta_upper))
    assert point.log_maximum == (max(point.log_delta_lower), max(point.log_delta_upper))
    results = judge_target(study, Target(epsilon=point.epsilon, delta=0.5, compositions=1))
    [judged] = [result for result in results if result.cell.label == "clipped" and result.cell.factor is None]
    assert (judged.delta_lower, judged.delta_upper) == point.maximum


def test_the_printed_table_encloses_the_bounds(finished: Path) -> None:
    point = open_study(finished).lookup("clipped", compositions=4, exp_epsilon=1.5, factor="auto")
    [table] = [part for part in printed_bounds(point).renderables if isinstance(part, Table)]
    columns = list(table.columns)
    lower, upper, log_lower, log_upper = ([Decimal(str(text)) for text in column.cells] for column in columns[1:])
    for row, (low, high) in enumerate(zip(point.delta_lower, point.delta_upper, strict=True)):
        assert lower[row] <= Decimal(low) <= Decimal(high) <= upper[row]
        assert log_lower[row] <= Decimal(point.log_delta_lower[row])
        assert log_upper[row] >= Decimal(point.log_delta_upper[row])


@pytest.mark.parametrize("column", ["scale", "mechanism"])
def test_an_altered_coordinate_is_noticed(copy: Path, column: str) -> None:
    array = zarr.open_array(copy / column, mode="r+")
    array[...] = array[...][::-1]
    study = open_study(copy)
    with pytest.raises(StoreDamagedError, match=rf"{column}/0 missing or changed"):
        _ = study.bounds
    with pytest.raises(StoreDamagedError):
        study.lookup("Laplace", compositions=4, epsilon=0.0, scale=3.0, factor="auto")


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
        open_study(copy).lookup("Laplace", compositions=4, epsilon=0.0, scale=2.0, factor="auto")
    metadata.unlink()
    with pytest.raises(StoreDamagedError, match=r"bounds/zarr\.json missing or changed"):
        open_study(copy).lookup("Laplace", compositions=4, epsilon=0.0, scale=2.0, factor="auto")


def test_results_of_another_batch_are_not_read(copy: Path) -> None:
    whole = open_study(copy).lookup("Laplace", compositions=4, epsilon=0.0, scale=2.0, factor="auto")
    assert whole.maximum[1] > 0.0
    # Sound by itself.
    damage_batch(copy, 0, (copy / bounds_file(3)).read_bytes())
    with pytest.raises(StoreDamagedError, match="have changed"):
        open_study(copy).lookup("Laplace", compositions=4, epsilon=0.0, scale=2.0, factor="auto")
    remove_batch(copy, 0)
    with pytest.raises(OffGridError, match="not computed yet"):
        open_study(copy).lookup("Laplace", compositions=4, epsilon=0.0, scale=2.0, factor="auto")
    results = judge_target(open_study(copy), Target(epsilon=0.0, delta=0.5, compositions=4))
    assert results[0].verdict is Verdict.MISSING


def test_verdicts_follow_the_bounds(finished: Path, copy: Path) -> None:
    study = open_study(finished)
    epsilon, compositions = study.spec.epsilon[2], 4
    for delta in (1e-9, 0.05, 0.2, 0.99):
        results = judge_target(study, Target(epsilon=epsilon, delta=delta, compositions=compositions))
        assert [result.cell for result in results] == list(study.spec.cells)
        for result in results:
            low, high = result.delta_lower, result.delta_upper
            expected = Verdict.YES if high <= delta else Verdict.NO if low > delta else Verdict.UNDECIDED
            assert result.verdict is expected
    one = judge_target(study, Target(epsilon=epsilon, delta=0.5, compositions=compositions))[0]
    middle = (one.delta_lower + one.delta_upper) / 2
    assert (
        judge_target(study, Target(epsilon=epsilon, delta=middle, compositions=compositions))[0].verdict
        is Verdict.UNDECIDED
    )
    damage_batch(copy, 3)
    damaged: Study = open_study(copy)
    assert (
        judge_target(damaged, Target(epsilon=epsilon, delta=0.5, compositions=compositions))[3].verdict
        is Verdict.MISSING
    )


@pytest.mark.parametrize("value", [0.0, 1.0, 1e-300, 1.23456789e-5, 0.123456789, 5e-324, 0.9999999999, -4.40153169])
def test_printed_bounds_are_rounded_outwards(value: float) -> None:
    assert float(rounded_down(value)) <= value <= float(rounded_up(value))
    assert float(rounded_up(value)) - float(rounded_down(value)) <= 1.1e-5 * abs(value) + 1e-323


def test_json_has_no_infinity(finished: Path) -> None:
    point = open_study(finished).lookup("clipped", compositions=1, epsilon=0.0, factor="auto")
    brackets = tuple(replace(bracket, log_lower=-math.inf) for bracket in point.brackets)
    form = bounds_as_json(replace(point, epsilon=800.0, brackets=brackets))
    assert form["exp_epsilon"] is None
    assert form["bounds"]["maximum"]["log_delta_lower"] is None
    assert json.loads(json.dumps(form, allow_nan=False)) == form


def test_printed_infinities() -> None:
    assert rounded_down(-math.inf) == "-inf"
    assert rounded_up(math.nan) == "nan"


def test_the_precision_of_a_tight_study_is_counted(finished_store: Finished, store_copy: Finished) -> None:
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
    assert reached_precision(open_study(store)).points == int(asked[1:].sum())
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
    assert reached_precision(study, recorded=True) == found
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
    assert reached_precision(study, fewer, recorded=True) == reached_precision(study, fewer)
    assert reached_precision(study, fewer).points == asked[:, :, 2:].sum()
    fewer = load_study(write_study(tmp_path, text.replace("[2, 1.0e+12]", "2").replace("[1, 16]", "16")))
    assert reached_precision(study, fewer) == Precision(int(asked[[0, 2], 1].sum()), 0, None)
    assert reached_precision(study, load_study(write_study(tmp_path, text))) == found
