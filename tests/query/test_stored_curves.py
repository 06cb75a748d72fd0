"""Trade-off curves of a store."""

import numpy as np
import pytest

from pbdist import Gaussian, RandomizedResponse, total_variation_bounds, tradeoff_bounds
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import Study, open_study
from tests.studies import TINY, Finished

STUDY = """\
format: 1
name: curves
mechanisms:
  - kind: Gaussian
    scale: [4, 8]
  - kind: RandomizedResponse
    p: 0.7
tolerance: 0.001
compositions: [1, 4, 16]
epsilon: [0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.3, 1.6, 2, 3, 4]
"""
ERRORS = np.array([0.0, 0.01, 0.1, 0.3, 0.5, 0.8, 0.95, 1.0])


@pytest.fixture(scope="module")
def study(finished_store: Finished) -> Study:
    return open_study(finished_store(STUDY))


@pytest.fixture(scope="module")
def kept(finished_store: Finished) -> Study:
    return open_study(finished_store(TINY.replace("name: tiny", "name: kept\nkeep_states: true")))


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize(
    ("label", "noise", "pair"),
    [("Gaussian", {"scale": 4.0}, Gaussian(4.0)), ("RandomizedResponse", {"p": 0.7}, RandomizedResponse(0.7))],
)
@pytest.mark.parametrize("r", [1, 4, 16])
def test_stored_curves_hold_around_the_fresh_ones(study: Study, label: str, noise: dict, pair, r: int) -> None:
    fresh = tradeoff_bounds(pair, compositions=r, type_one_error=ERRORS, tolerance=1e-5, direction="each")
    found = study.tradeoff(label, compositions=r, type_one_error=ERRORS, direction="each", **noise)
    assert (found.lower <= fresh.type_two_error_upper.values[:, 0]).all()
    assert (found.upper >= fresh.type_two_error_lower.values[:, 0]).all()
    assert float(np.max(found.upper - found.lower)) < 0.06
    assert (
        study.tradeoff(label, compositions=r, type_one_error=ERRORS, **noise).lower == found.lower.min(axis=0)
    ).all()
    distance = study.delta(label, compositions=r, epsilon=0.0, **noise)
    exact = total_variation_bounds(pair, compositions=r, tolerance=1e-6)
    assert distance.lower <= exact.total_variation_upper.item()
    assert distance.upper >= exact.total_variation_lower.item()
    assert distance.lower.shape == ()


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_off_the_grid_by_the_rules_of_delta(study: Study) -> None:
    between = study.tradeoff("Gaussian", compositions=[3, 7], type_one_error=0.1, scale=5.0)
    for lower, upper, r in zip(between.lower, between.upper, (3, 7), strict=True):
        fresh = tradeoff_bounds(Gaussian(5.0), compositions=r, type_one_error=0.1)
        assert lower <= fresh.type_two_error_upper.item()
        assert upper >= fresh.type_two_error_lower.item()
    with pytest.raises(OffGridError):
        study.tradeoff("Gaussian", compositions=17, type_one_error=0.1, scale=4.0)
    with pytest.raises(InvalidInputError, match="type_one_error: "):
        study.tradeoff("Gaussian", compositions=1, type_one_error=1.1, scale=4.0)
    with pytest.raises(InvalidInputError, match="direction: "):
        study.tradeoff("Gaussian", compositions=1, type_one_error=0.1, scale=4.0, direction="A||B")


def test_in_print_errors_are_named(study: Study) -> None:
    found = study.tradeoff("Gaussian", compositions=4, type_one_error=[0.1, 0.3], scale=4.0, strict="silent")
    heads = next(line for line in str(found).splitlines() if "β lower" in line)
    assert "β upper" in heads
    assert " α " in heads
    assert str(found).endswith("α: type I error; β: smallest type II error of a test")
    assert found.frame().type_two_error_lower.tolist() == found.lower.tolist()
