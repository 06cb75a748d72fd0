"""Group privacy: what a parameter of a granularity says of databases at any distance, and back.

A statement for all neighbours of a granularity 𝒢 is a statement for all pairs, in terms of the canonical metric d^𝒢
(Guerra-Balboa et al. 2024, Theorems III.3, VI.3, VI.12 and VI.20). The other way round, any statement for pairs, also
one that is private* only, gives parameters for neighbours.
"""

from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import CanonicalMetric
from pbdist.granularity.distances import GroupDelta, RootScaledMetric, ScaledMetric, group_delta, times
from pbdist.granularity.rules.composed import Rule, checked_canonical, over_neighbours
from pbdist.granularity.spaces import Metric
from pbdist.granularity.statements import (
    ApproximatePrivacy,
    GaussianPrivacy,
    PurePrivacy,
    Statement,
    ZeroConcentratedPrivacy,
)
from pbdist.granularity.upward import Amount, checked_amount, checked_delta, upward_product, upward_root

_PURE = Rule("Theorem III.3", PurePrivacy)
_APPROXIMATE = Rule("Theorem VI.3", ApproximatePrivacy)
_CONCENTRATED = Rule("Theorem VI.12", ZeroConcentratedPrivacy)
_GAUSSIAN = Rule("Theorem VI.20", GaussianPrivacy)


def pure_privacy(epsilon: Amount, granularity: CanonicalMetric) -> PurePrivacy:
    """Return 𝒢 ε-DP as ε d^𝒢-privacy (Theorem III.3).

    Parameters
    ----------
    epsilon : int, Fraction or float
        ε, nats.
    granularity : CanonicalMetric
        d^𝒢.

    Raises
    ------
    InvalidInputError
        If the metric is no canonical one, or its class has no neighbours (Example III.4).
    """
    return PurePrivacy(ScaledMetric(checked_canonical(_PURE, granularity), checked_amount(epsilon, "epsilon")))


def approximate_privacy(epsilon: Amount, delta: Amount, granularity: CanonicalMetric) -> ApproximatePrivacy:
    """Return 𝒢 (ε, δ)-DP as (ε d^𝒢, δ [d^𝒢]_ε)-privacy, [d]_ε = (e^(ε d) - 1)/(e^ε - 1) (Theorem VI.3)."""
    base = checked_canonical(_APPROXIMATE, granularity)
    epsilon, delta = checked_amount(epsilon, "epsilon"), checked_delta(delta, "delta")
    return ApproximatePrivacy(ScaledMetric(base, epsilon), GroupDelta(base, epsilon, delta))


def concentrated_privacy(rho: Amount, granularity: CanonicalMetric) -> ZeroConcentratedPrivacy:
    """Return 𝒢 ρ-zCDP as ρ (d^𝒢)²-zero-concentrated privacy (Theorem VI.12)."""
    return ZeroConcentratedPrivacy(
        RootScaledMetric(checked_canonical(_CONCENTRATED, granularity), checked_amount(rho, "rho"))
    )


def gaussian_privacy(mu: Amount, granularity: CanonicalMetric) -> GaussianPrivacy:
    """Return 𝒢 μ-GDP as μ d^𝒢-Gaussian privacy (Theorem VI.20)."""
    return GaussianPrivacy(ScaledMetric(checked_canonical(_GAUSSIAN, granularity), checked_amount(mu, "mu")))


def group_pure(epsilon: Amount, distance: Amount) -> Amount:
    """Return the ε between databases at a distance: ε d (Theorem III.3)."""
    return times(checked_amount(epsilon, "epsilon"), checked_amount(distance, "distance"))


def group_approximate(epsilon: Amount, delta: Amount, distance: Amount) -> tuple[Amount, Amount]:
    """Return the ε and δ between databases at a distance: ε d and δ (e^(ε d) - 1)/(e^ε - 1) (Theorem VI.3).

    The δ is rounded upwards, and is δ d for ε = 0. It may be above 1, and then says nothing.
    """
    epsilon, delta = checked_amount(epsilon, "epsilon"), checked_delta(delta, "delta")
    return group_pure(epsilon, distance), group_delta(epsilon, delta, checked_amount(distance, "distance"))


def group_concentrated(rho: Amount, distance: Amount) -> Amount:
    """Return the ρ between databases at a distance: ρ d² (Theorem VI.12)."""
    distance = checked_amount(distance, "distance")
    return times(checked_amount(rho, "rho"), upward_product(distance, distance))


def group_gaussian(mu: Amount, distance: Amount) -> Amount:
    """Return the μ between databases at a distance: μ d (Theorem VI.20)."""
    return times(checked_amount(mu, "mu"), checked_amount(distance, "distance"))


def pure_over_neighbours(privacy: PurePrivacy, granularity: CanonicalMetric) -> PurePrivacy:
    """Return ε d^𝒢-privacy, ε = max of d(D, D') over neighbours of a listed class (Theorem III.3).

    The granularity form of Theorem IV.11: ε = max over D ~ D' of Σ ε_i over the mechanisms with f_i(D) ≠ f_i(D'). What
    is private* only becomes a metric here, for neighbours need no triangle inequality.
    """
    return pure_privacy(over_neighbours(_PURE, privacy, granularity)[0], granularity)


def approximate_over_neighbours(privacy: ApproximatePrivacy, granularity: CanonicalMetric) -> ApproximatePrivacy:
    """Return 𝒢 (ε, δ)-DP as privacy of all pairs: ε and δ are the largest between neighbours (Theorem VI.3)."""
    epsilon, delta = over_neighbours(_APPROXIMATE, privacy, granularity)
    return approximate_privacy(epsilon, delta, granularity)


def concentrated_over_neighbours(
    privacy: ZeroConcentratedPrivacy, granularity: CanonicalMetric
) -> ZeroConcentratedPrivacy:
    """Return ρ (d^𝒢)²-zero-concentrated privacy, ρ = max of d(D, D')² over neighbours (Theorem VI.12)."""
    rho, _ = over_neighbours(_CONCENTRATED, privacy, granularity)
    return concentrated_privacy(rho, granularity)


def gaussian_over_neighbours(privacy: GaussianPrivacy, granularity: CanonicalMetric) -> GaussianPrivacy:
    """Return μ d^𝒢-Gaussian privacy, μ = max of d(D, D') over neighbours (Theorem VI.20)."""
    square, _ = over_neighbours(_GAUSSIAN, privacy, granularity)
    return gaussian_privacy(upward_root(square), granularity)


def parameters(privacy: Statement, metric: Metric | None = None) -> tuple[Amount, ...]:
    """Return the parameters of a statement that was made from them: (ε,), (ε, δ), (ρ,) or (μ,).

    Parameters
    ----------
    privacy : Statement
        Made by `pure_privacy` and its like, by a rule that gives a parameter times a metric, or from a `ScaledMetric`
        or `RootScaledMetric`.
    metric : Metric, optional
        What it must be stated for.

    Raises
    ------
    InvalidInputError
        If it is another statement, or stated for another metric.
    """
    distance: Any = privacy.distance
    kind = RootScaledMetric if isinstance(privacy, ZeroConcentratedPrivacy) else ScaledMetric
    if not isinstance(distance, kind):
        raise InvalidInputError(
            f"expected privacy that is a parameter times a metric, as pure_privacy makes it, got {distance.name}"
        )
    if metric is not None and distance.base != metric:
        raise InvalidInputError(f"expected privacy stated for {metric.name}, got privacy for {distance.base.name}")
    if isinstance(distance, RootScaledMetric):
        return (distance.rho,)
    if not isinstance(privacy, ApproximatePrivacy):
        return (distance.factor,)
    delta = privacy.delta
    if not isinstance(delta, GroupDelta) or delta.base != distance.base or delta.epsilon != distance.factor:
        raise InvalidInputError(f"expected privacy made by approximate_privacy, got the δ of {delta.name}")
    return distance.factor, delta.delta
