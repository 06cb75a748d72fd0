"""Which stored points an answer is made of: what is not there is skipped, what is not proved is refused."""

import math
from pathlib import Path

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import Study, open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.store import create_or_open
from pbdist.store.layout import bounds_file
from pbdist.study import load_study, plan_study
from tests.query.test_noise_choice import COUNTS
from tests.studies import TINY, Finished, write_study
from tests.test_status import compute

LAPLACE = "Laplace"


@pytest.fixture(scope="module")
def study(tiny_store: Path) -> Study:
    return open_study(tiny_store)


def test_all_arguments_broadcast(study: Study) -> None:
    found = study.delta(LAPLACE, scale=[[2.0], [4.0]], compositions=[1, 3, 7], epsilon=0.2)
    assert found.lower.shape == found.log_upper.shape == (2, 3)
    each = study.delta(LAPLACE, scale=[[2.0], [4.0]], compositions=[1, 3, 7], epsilon=0.2, direction="each")
    assert each.upper.shape == (2, 2, 3)
    np.testing.assert_array_equal(each.upper.max(axis=0), found.upper)
    for row, scale in enumerate((2.0, 4.0)):
        for column, r in enumerate((1, 3, 7)):
            one = study.delta(LAPLACE, scale=scale, compositions=r, epsilon=0.2)
            assert one.upper.shape == ()
            assert (one.lower, one.upper) == (found.lower[row, column], found.upper[row, column])
    with pytest.raises(ValueError, match="read-only"):
        found.upper[0] = 0.0


def test_rounds_and_noise_between_the_stored_ones(study: Study) -> None:
    between = study.delta(LAPLACE, scale=3.0, compositions=3, epsilon=0.0)
    assert between.upper == pytest.approx(study.delta(LAPLACE, scale=3.0, compositions=4, epsilon=0.0).upper)
    assert between.lower == pytest.approx(study.delta(LAPLACE, scale=3.0, compositions=2, epsilon=0.0).lower)
    noise = study.delta(LAPLACE, scale=4.0, compositions=4, epsilon=0.0)
    assert noise.upper == pytest.approx(study.delta(LAPLACE, scale=3.0, compositions=4, epsilon=0.0).upper)
    assert noise.lower == pytest.approx(study.delta(LAPLACE, scale=5.0, compositions=4, epsilon=0.0).lower)
    assert study.delta(LAPLACE, scale=9.0, compositions=4, epsilon=0.0).lower == 0.0
    # A mechanism of its own: twice the scale at twice the sensitivity is the same.
    twice = study.delta(pbdist.Laplace(6.0, sensitivity=2.0), compositions=4, epsilon=0.0)
    assert twice.lower == pytest.approx(study.delta(LAPLACE, scale=3.0, compositions=4, epsilon=0.0).lower)
    # e^ε between the grid's, and off it by less than a rounding.
    third = study.delta(LAPLACE, scale=3.0, compositions=4, exp_epsilon=[1.0, 1.25, 2.0])
    assert third.lower[1] < third.upper[1]
    assert (np.diff(third.upper) < 0).all()
    assert third.upper[2] == study.delta(LAPLACE, scale=3.0, compositions=4, exp_epsilon=2.0).upper
    near = study.delta(LAPLACE, scale=3.0, compositions=4, epsilon=math.nextafter(math.log(2.0), 0.0))
    assert third.upper[2] <= near.upper < third.upper[2] * (1 + 1e-9)


def test_what_is_not_there_is_skipped(tmp_path: Path) -> None:
    stored = create_or_open(tmp_path / "s.zarr", plan_study(load_study(write_study(tmp_path)), 2))
    # Laplace 2 and 3; Laplace 5 fails; of the rest nothing is there.
    compute(stored, batches={0, 1}, failing={2})
    study = open_study(tmp_path / "s.zarr")
    assert not study.complete
    found = study.delta(LAPLACE, scale=5.0, compositions=4, epsilon=0.0)
    assert found.upper == pytest.approx(study.delta(LAPLACE, scale=3.0, compositions=4, epsilon=0.0).upper)
    assert found.lower == 0.0
    assert study.compositions(LAPLACE, scale=5.0, epsilon=0.0, delta=0.9).lower == 7
    with pytest.raises(OffGridError, match=r"clipped.* is not computed yet: run the study again, or let refine=True"):
        study.delta("clipped", compositions=4, epsilon=0.0)
    # What has changed on the disk is not there either.
    (tmp_path / "s.zarr" / bounds_file(0)).write_bytes(b"")
    with pytest.raises(OffGridError, match="is not computed yet: run the study again"):
        open_study(tmp_path / "s.zarr").delta(LAPLACE, scale=3.0, compositions=4, epsilon=0.0)


@pytest.mark.slow
def test_extended_studies_are_asked_as_one(tiny_store: Path, store_copy: Finished, tmp_path: Path) -> None:
    store = store_copy(TINY)
    larger = TINY.replace("[1, 2, 4, 7]", "[1, 2, 4, 7, 9]").replace("[2, 3, 5]", "[2, 3, 4, 5]")
    run_study(load_study(write_study(tmp_path, larger)), store, SerialExecutor(), lambda _: None)
    study, before = open_study(store), open_study(tiny_store)
    for asked in ({"scale": 4.0, "compositions": 4}, {"scale": 3.0, "compositions": 8}):
        found = study.delta(LAPLACE, epsilon=[0.0, 0.1], **asked)
        assert (found.lower > 0).all()
    np.testing.assert_array_equal(
        study.delta(LAPLACE, scale=3.0, compositions=3, epsilon=0.1).upper,
        before.delta(LAPLACE, scale=3.0, compositions=3, epsilon=0.1).upper,
    )


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_histograms_whose_masses_do_not_sum_to_one(tmp_path: Path) -> None:
    text = """\
format: 1
name: measured
mechanisms:
  - {kind: Histogram, label: counts, p: [1, 2, 3], q: [3, 2, 1]}
  - {kind: Histogram, label: masses, p: [0.25, 0.25, 0.5000000001], q: [0.5, 0.25, 0.25]}
compositions: [1, 4]
epsilon: [0.5, 1]
"""
    run_study(load_study(write_study(tmp_path, text)), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    study = open_study(tmp_path / "s.zarr")
    assert study.delta("counts", compositions=3, epsilon=0.7).upper < 1
    with pytest.raises(
        OffGridError, match="expected a stored number, as δ need not rise with r for such masses, got 3"
    ):
        study.delta("masses", compositions=3, epsilon=0.7)
    # Left of the smallest ε the line begins at the mass of P_A, which is more than 1.
    found = study.delta("masses", compositions=[1, 4], epsilon=0.0, direction="each")
    direct = pbdist.privacy_bounds(study.spec.cells[1].pair, compositions=[1, 4], epsilon=0.0, direction="each")
    assert (found.upper >= direct["delta_lower"].values[:, :, 0]).all()
    assert (found.lower <= direct["delta_upper"].values[:, :, 0]).all()
    assert np.isinf(study.compositions("masses", epsilon=0.5, delta=1e-9).upper)


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        ({"mechanism": "Laplac"}, OffGridError, "mechanism: expected one of Laplace"),
        ({"mechanism": 3}, InvalidInputError, "mechanism: expected a label of the study or a mechanism, got 3"),
        ({"scale": None}, OffGridError, "scale: expected one of 2, 3, 5, got none"),
        ({"scale": 1.0}, OffGridError, "Laplace.scale=1.*no stored setting is provably less noisy: add it to the"),
        ({"scale": -1.0}, InvalidInputError, "Laplace.scale: expected a number above 0"),
        ({"scale": math.inf}, InvalidInputError, "scale: expected a finite number"),
        ({"p": 0.3}, OffGridError, "p: expected no value, as no such setting has one, got 0.3"),
        ({"sigma": 3}, InvalidInputError, "sigma: expected one of kind, noise"),
        ({"reading": "clamp"}, OffGridError, "reading: expected no value, as no such setting has one, got clamp"),
        ({"compositions": 8}, OffGridError, "expected at most 7, the largest stored .* got 8 .*: add 8 to the study"),
        ({"compositions": [1, 8, 9]}, OffGridError, r"got 8 for Laplace.* \(and 1 more points\): add 8"),
        ({"compositions": 0}, InvalidInputError, "compositions: expected whole numbers of at least 1"),
        ({"compositions": 2.5}, InvalidInputError, "compositions: expected whole numbers"),
        ({"compositions": []}, InvalidInputError, "compositions: expected at least one value, got none"),
        ({"epsilon": -0.1}, InvalidInputError, "epsilon: expected finite numbers of at least 0"),
        ({"epsilon": math.nan}, InvalidInputError, "epsilon: expected finite numbers"),
        ({"epsilon": None}, InvalidInputError, "expected exactly one of epsilon and exp_epsilon, got neither"),
        ({"exp_epsilon": 2}, InvalidInputError, "expected exactly one of epsilon and exp_epsilon, got both"),
        (
            {"epsilon": None, "exp_epsilon": 0.9},
            InvalidInputError,
            "exp_epsilon: expected finite numbers of at least 1",
        ),
        ({"direction": "A||B"}, InvalidInputError, "direction: expected one of both, each, got 'A..B'"),
        ({"compositions": [1, 2], "epsilon": [1, 2, 3]}, InvalidInputError, "expected shapes that broadcast"),
        ({"mechanism": pbdist.Laplace(3.0)}, InvalidInputError, "scale: a mechanism has its own parameters"),
    ],
)
def test_what_cannot_be_answered_is_named(
    study: Study, arguments: dict[str, object], error: type[Exception], words: str
) -> None:
    asked = {"mechanism": LAPLACE, "scale": 3.0, "compositions": 4, "epsilon": 0.1, **arguments}
    mechanism = asked.pop("mechanism")
    with pytest.raises(error, match=words):
        study.delta(mechanism, **asked)  # type: ignore[arg-type]


def test_several_settings_that_may_be_meant(study: Study) -> None:
    with pytest.raises(InvalidInputError, match=r"got 3: also give scale \(2, 3, 5\)"):
        study.delta(LAPLACE, compositions=4, epsilon=0.1)
    for delta in (-0.1, 1.0, math.nan):
        with pytest.raises(InvalidInputError, match="delta: expected numbers above 0 and below 1"):
            study.epsilon(LAPLACE, scale=3.0, compositions=4, delta=delta)
    # Noise of a kind that is not in the study, or is not ordered.
    for pair in (pbdist.Gaussian(3.0), pbdist.Laplace(3.0, truncate=(-9.0, 9.0)), pbdist.DiscreteGaussian(3.0)):
        with pytest.raises(OffGridError, match="expected a stored noise setting, got"):
            study.delta(pair, compositions=4, epsilon=0.1)
        with pytest.raises(OffGridError, match="expected a stored noise setting, got"):
            study.compositions(pair, epsilon=0.1, delta=0.1)


def test_a_value_that_is_not_stored_is_named_before_parameters_that_are_left_out(finished_store: Finished) -> None:
    study = open_study(finished_store(COUNTS))
    words = (
        "^scale: expected a stored value, the neighbours being 2 and 9, got 4: .* the parameters in which 2 settings"
    )
    with pytest.raises(OffGridError, match=words):
        study.delta("NoisyCount", scale=4, compositions=10, epsilon=1)
