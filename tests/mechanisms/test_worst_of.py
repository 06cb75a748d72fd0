"""The worst of several pairs: its form, its bounds, and what is refused of it."""

import re
from typing import Any

import numpy as np
import pytest

import pbdist
from pbdist import (
    ApproximateDP,
    Gaussian,
    Histogram,
    InvalidInputError,
    Laplace,
    Product,
    RandomizedResponse,
    Reversed,
    TruncatedPoissonGaussian,
    epsilon_bounds,
    privacy_bounds,
)
from pbdist.mechanisms import WorstOf, pair_from_canonical
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.table import bounds_table

LOADED = Histogram((1, 3, 6), (3, 3, 4))
PARTS = (Gaussian(2.0), Product(RandomizedResponse(0.6), LOADED), Reversed(LOADED))
#: What has several pairs: the worst of them, and a product of a mechanism between two.
SEVERAL = (WorstOf(LOADED, Gaussian(1.0)), Product(TruncatedPoissonGaussian(2.0, 0.1, 3, 20), Gaussian(3.0)))
SETTINGS: dict[str, Any] = {"compositions": [1, 7], "epsilon": [0.0, 0.3, 1.0]}


@pytest.mark.parametrize(
    ("form", "told"),
    [
        ({"mechanism": "WorstOf"}, "WorstOf: expected its parameters by name"),
        ({"mechanism": "WorstOf", "pairs": [], "attained": []}, "WorstOf.pairs"),
        ({"mechanism": "WorstOf", "pairs": "x", "attained": []}, "WorstOf: expected its parameters by name"),
        ({"mechanism": "WorstOf", "pairs": [LOADED.canonical()], "attained": [1]}, "WorstOf.attained"),
        ({"mechanism": "WorstOf", "pairs": [LOADED.canonical()], "attained": True}, "WorstOf.attained"),
        ({"mechanism": "WorstOf", "pairs": [LOADED.canonical()], "attained": [True], "more": 1}, "WorstOf: expected"),
        ({"mechanism": "WorstOf", "pairs": [3], "attained": [True]}, "mechanism: expected"),
        (
            {"mechanism": "WorstOf", "pairs": [WorstOf(LOADED).canonical()], "attained": [True]},
            re.escape("WorstOf.pairs[0]"),
        ),
    ],
)
def test_forms_are_checked(form: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        pair_from_canonical(form)


@pytest.mark.parametrize(
    ("pairs", "attained", "told"),
    [
        ((), None, "WorstOf.pairs: give at least one"),
        ((LOADED, 3), None, re.escape("WorstOf.pairs[1]")),
        ((WorstOf(LOADED),), None, re.escape("WorstOf.pairs[0]")),
        ((LOADED,), (True, False), "WorstOf.attained"),
        ((LOADED,), "T", "WorstOf.attained"),
        ((LOADED,), (1,), "WorstOf.attained"),
        ((LOADED,), {True}, "WorstOf.attained"),
        ((LOADED,), 1, "WorstOf.attained"),
    ],
)
def test_fields_are_checked(pairs: tuple[Any, ...], attained: Any, told: str) -> None:
    with pytest.raises(InvalidInputError, match=told):
        WorstOf(*pairs, attained=attained)


@pytest.mark.parametrize("direction", ["both", "each"])
def test_delta_is_the_largest_of_the_parts(direction: str) -> None:
    found = privacy_bounds(WorstOf(*PARTS), **SETTINGS, direction=direction)
    alone = [privacy_bounds(pair, **SETTINGS, direction=direction) for pair in PARTS]
    for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        assert np.array_equal(found[name], np.max([one[name] for one in alone], axis=0))
    assert bool(found.within_tolerance.all())


@pytest.mark.slow
def test_epsilon_is_the_largest_of_the_parts() -> None:
    found = epsilon_bounds(WorstOf(*PARTS), compositions=[1, 7], delta=[1e-2, 1e-5])
    alone = [epsilon_bounds(pair, compositions=[1, 7], delta=[1e-2, 1e-5]) for pair in PARTS]
    for name in ("epsilon_lower", "epsilon_upper"):
        assert np.array_equal(found[name], np.max([one[name] for one in alone], axis=0))


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_only_attained_pairs_give_lower_bounds() -> None:
    small, large = Gaussian(4.0), Gaussian(1.0)
    worst = WorstOf(small, large, attained=(True, False))
    found = privacy_bounds(worst, **SETTINGS)
    assert np.array_equal(found.delta_upper, privacy_bounds(large, **SETTINGS).delta_upper)
    assert np.array_equal(found.delta_lower, privacy_bounds(small, **SETTINGS).delta_lower)
    smallest = epsilon_bounds(worst, compositions=3, delta=1e-5)
    assert smallest.epsilon_lower.item() == epsilon_bounds(small, compositions=3, delta=1e-5).epsilon_lower.item()
    assert smallest.epsilon_upper.item() == epsilon_bounds(large, compositions=3, delta=1e-5).epsilon_upper.item()


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_without_attained_pairs_lower_bounds_are_0() -> None:
    found = privacy_bounds(WorstOf(*PARTS, attained=(False,) * 3), **SETTINGS)
    assert bool((found.delta_lower == 0.0).all())
    assert bool((found.log_delta_lower == -np.inf).all())
    assert bool((found.delta_upper > 0.0).all())
    nothing = epsilon_bounds(WorstOf(*PARTS, attained=(False,) * 3), compositions=1, delta=1e-3)
    assert nothing.epsilon_lower.item() == 0.0 < nothing.epsilon_upper.item()


def test_a_count_is_that_of_every_part() -> None:
    table = bounds_table([(WorstOf(*PARTS), 3)], compositions=[2], epsilon=[0.3])
    alone = [bounds_table([(pair, 3)], compositions=[2], epsilon=[0.3]) for pair in PARTS]
    assert np.array_equal(table.delta_upper, np.max([one.delta_upper for one in alone], axis=0))


def test_it_is_symmetric_and_identical_where_all_parts_are() -> None:
    assert WorstOf(Gaussian(1.0), Laplace(2.0)).symmetric
    assert not WorstOf(Gaussian(1.0), LOADED).symmetric
    assert WorstOf(RandomizedResponse(0.5)).identical
    assert not WorstOf(RandomizedResponse(0.5), LOADED).identical
    assert privacy_bounds(WorstOf(RandomizedResponse(0.5)), compositions=5, epsilon=0.0).delta_upper.item() == 0.0


def test_it_is_no_part_of_products_reversals_and_sequences() -> None:
    worst = WorstOf(LOADED, Gaussian(1.0))
    with pytest.raises(InvalidInputError, match=re.escape("Product.pairs[1]: expected a mechanism")):
        Product(LOADED, worst)
    with pytest.raises(InvalidInputError, match=r"Reversed.pair: expected a mechanism that is no product"):
        Reversed(worst)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="the worst of several pairs cannot be composed"):
        privacy_bounds([(worst, 1), (LOADED, 1)], compositions=1, epsilon=0.0)
    with pytest.raises(InvalidInputError, match="the worst of several pairs cannot be composed"):
        epsilon_bounds([(worst, 1), (worst, 1)], compositions=1, delta=0.1)


@pytest.mark.parametrize(
    "settings",
    [{"method": "buckets"}, {"method": "buckets", "buckets": 1000}, {"keep_states": True}],
)
@pytest.mark.parametrize("worst", SEVERAL, ids=lambda pair: type(pair).__name__)
def test_buckets_and_kept_states_are_refused(worst: Any, settings: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match="the worst of several"):
        bounds_table([(worst, 1)], compositions=[1], epsilon=[0.0], **settings)


@pytest.mark.parametrize("worst", SEVERAL, ids=lambda pair: type(pair).__name__)
def test_curves_are_refused(worst: Any) -> None:
    with pytest.raises(InvalidInputError, match="the worst of several"):
        pbdist.renyi_bounds(worst, compositions=1, order=2.0)
    with pytest.raises(InvalidInputError, match="the worst of several"):
        pbdist.tradeoff_bounds(worst, compositions=1, type_one_error=0.1)
    with pytest.raises(InvalidInputError, match="the worst of several"):
        pbdist.total_variation_bounds(worst, compositions=1)
    with pytest.raises(InvalidInputError, match="the worst of several"):
        pbdist.earlier_bounds(worst, compositions=1, epsilon=0.5, theorem="kov")


def test_noise_is_ordered_part_by_part() -> None:
    less, more = WorstOf(Gaussian(1.0), RandomizedResponse(0.8)), WorstOf(Gaussian(2.0), RandomizedResponse(0.7))
    assert at_least_as_noisy(more, less)
    assert not at_least_as_noisy(less, more)
    assert not at_least_as_noisy(WorstOf(Gaussian(2.0), RandomizedResponse(0.9)), less)
    assert not at_least_as_noisy(WorstOf(*more.pairs, attained=(True, False)), less)
    assert not at_least_as_noisy(Gaussian(9.0), less)
    assert not at_least_as_noisy(WorstOf(Gaussian(9.0)), less)
    assert not at_least_as_noisy(Product(Gaussian(9.0), RandomizedResponse(0.5)), less)
    assert not at_least_as_noisy(WorstOf(LOADED), WorstOf(ApproximateDP(3.0, 0.5)))
