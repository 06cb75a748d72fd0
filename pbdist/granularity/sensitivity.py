"""Sensitivity of maps, and privacy of a mechanism that is applied after one (Guerra-Balboa et al. 2024, III-B)."""

import math
from fractions import Fraction
from typing import Any, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.distances import ScaledMetric, computed, like
from pbdist.granularity.spaces import DatabaseMap, Metric, StarDistance
from pbdist.granularity.statements import ApproximatePrivacy, OnItsOwnDomain, Statement
from pbdist.granularity.upward import Amount, returned, upward_product


def sensitivity(reads: DatabaseMap, before: Metric, after: Metric) -> float:
    """Return Δf: the smallest Δ with d₂(f(D), f(D')) <= Δ d₁(D, D') wherever d₁ is finite (Definition III.5).

    All pairs of the listed domain are looked at, so it is exact: a Fraction, or ∞.

    Parameters
    ----------
    reads : DatabaseMap
        f.
    before, after : Metric
        d₁ over its domain and d₂ over its codomain.

    Raises
    ------
    InvalidInputError
        If the metrics are of other classes, or the databases of the domain are not listed.
    """
    _refuse_other_classes(reads, before, after)
    listed = before.domain.listed(f"the sensitivity of {reads.name}")
    ratios = (_ratio(reads, before, after, first, second) for first in listed for second in listed)
    return max(ratios)


def _refuse_other_classes(reads: DatabaseMap, before: Metric, after: Metric | StarDistance) -> None:
    for metric, domain, side in ((before, reads.domain, "domain"), (after, reads.codomain, "codomain")):
        if metric.domain != domain:
            raise InvalidInputError(
                f"{reads.name}: expected a distance over its {side} {domain.name}, got one over {metric.domain.name}"
            )


def _ratio(reads: DatabaseMap, before: Metric, after: Metric, first: Any, second: Any) -> float:
    """Return by how much the map stretches one pair; pairs that are infinitely far apart are not looked at."""
    whole = before(first, second)
    if whole == math.inf:
        return 0
    image = after(reads(first), reads(second))
    if image == 0:
        return 0
    if image == math.inf or whole == 0:
        return math.inf
    return cast(float, Fraction(image) / Fraction(whole))


def range_sensitivity(lower: Amount, upper: Amount) -> Amount:
    """Return the sensitivity of a real function with values in an interval, from the free-lunch metric to |x - y|.

    It is the interval's length where its ends are approached, else an upper bound (Remark III.7): 1 for 1/(1 + e^-x),
    ∞ for the identity.

    Parameters
    ----------
    lower, upper : float or Fraction
        The ends; they may be infinite.

    Raises
    ------
    InvalidInputError
        If the ends are not in order.
    """
    if not lower <= upper:
        raise InvalidInputError(f"range_sensitivity: expected lower <= upper, got {shown(lower)} and {shown(upper)}")
    if math.inf in (upper, -lower):
        return math.inf
    return returned(Fraction(upper) - Fraction(lower), (lower, upper))


def composed_sensitivity(first: Amount, second: Amount) -> Amount:
    """Return a bound on Δ(g ∘ f): Δf Δg (Proposition III.8).

    It is ∞ where one of them is, also next to a 0: databases at distance 0 need not be equal, so that the other map may
    still tell them apart.

    Raises
    ------
    InvalidInputError
        If one of them is negative or no number.
    """
    for value in (first, second):
        if not value >= 0:
            raise InvalidInputError(f"composed_sensitivity: expected sensitivities of at least 0, got {shown(value)}")
    return upward_product(first, second)


def preprocessed(stated: OnItsOwnDomain, before: Metric, declared: Amount | None = None) -> Statement:
    """Return the privacy of M ∘ f on the domain of f: Δf times a metric there (Proposition III.6).

    Parameters
    ----------
    stated : OnItsOwnDomain
        The privacy of M over the codomain of f: pure, approximate, zero-concentrated or Gaussian.
    before : Metric
        d₁ over the domain of f.
    declared : float, optional
        Δf, or a number above it, where the domain is not listed. Where it is listed, it is checked.

    Returns
    -------
    PurePrivacy, ApproximatePrivacy, ZeroConcentratedPrivacy or GaussianPrivacy
        Of the same kind, with Δf d₁. δ is that of the images.

    Raises
    ------
    InvalidInputError
        If Δf is infinite, not known, or above what is declared; or if the privacy is private* only, for whose distance
        the triangle inequality, which Δf d₁ has, is not known.
    """
    privacy, reads = stated.privacy, stated.reads
    after = privacy.distance
    if not isinstance(after, Metric):
        raise InvalidInputError(f"preprocessed: expected privacy with a metric over {after.domain.name}, got private*")
    _refuse_other_classes(reads, before, after)
    found = declared
    if declared is None or before.domain.databases is not None:
        found = sensitivity(reads, before, after)
    if declared is not None and found is not None and found > declared:
        raise InvalidInputError(f"preprocessed.declared: expected at least {shown(found)}, got {shown(declared)}")
    if found is None or not found < math.inf:
        raise InvalidInputError(
            f"{reads.name}: expected a map of finite sensitivity, got {shown(found)}: the mechanism after it is not"
            f" known to be private over {before.domain.name}"
        )
    return _with_distance(privacy, ScaledMetric(before, found), reads)


def pulled_back(stated: OnItsOwnDomain) -> Statement:
    """Return the privacy of M ∘ f on the domain of f, with the distance d(f(D), f(D')) itself.

    It is at most Δf d₁, needs no sensitivity, and is a metric where d is.

    Returns
    -------
    PurePrivacy, ApproximatePrivacy, ZeroConcentratedPrivacy or GaussianPrivacy
        Of the same kind.
    """
    privacy, reads = stated.privacy, stated.reads
    return _with_distance(privacy, _of_images(privacy.distance, reads), reads)


def _of_images(distance: Metric | StarDistance, reads: DatabaseMap) -> Metric | StarDistance:
    function, name = computed(distance), f"{distance.name} after {reads.name}"
    return like(
        distance, reads.domain, lambda first, second: function(reads(first), reads(second)), name, starred=False
    )


def _with_distance(privacy: Statement, distance: Metric | StarDistance, reads: DatabaseMap) -> Statement:
    if isinstance(privacy, ApproximatePrivacy):
        return ApproximatePrivacy(distance, cast(StarDistance, _of_images(privacy.delta, reads)))
    return type(privacy)(distance)
