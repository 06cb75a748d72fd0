"""The rules of composition for μ of Gaussian differential privacy (Guerra-Balboa et al. 2024, VI-C).

All are stated for adaptive composition, which covers the independent one: each statement must hold whatever the
earlier outputs were.
"""

from collections.abc import Sequence
from typing import cast

from pbdist.granularity.distances import ScaledMetric
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules import disjoint
from pbdist.granularity.rules.composed import Rule, in_sequence, on_own_domains, on_the_common_domain
from pbdist.granularity.rules.group import gaussian_privacy
from pbdist.granularity.statements import GaussianPrivacy, OnItsOwnDomain, OnTheCommonDomain
from pbdist.granularity.upward import upward_norm


def gaussian_composition(mechanisms: Sequence[OnItsOwnDomain]) -> GaussianPrivacy:
    """Return √(Σ d_i(f_i(D), f_i(D'))²)-Gaussian privacy of mechanisms on their own domains (Theorem VI.21)."""
    return cast("GaussianPrivacy", on_own_domains(Rule("Theorem VI.21", GaussianPrivacy), mechanisms))


def gaussian_common_domain(mechanisms: Sequence[OnTheCommonDomain]) -> GaussianPrivacy:
    """Return √(Σ (d_i^(f_i))²)-Gaussian privacy* of mechanisms on the common domain (Theorem VI.22)."""
    return cast("GaussianPrivacy", on_the_common_domain(Rule("Theorem VI.22", GaussianPrivacy), mechanisms))


def gaussian_sequential(statements: Sequence[GaussianPrivacy]) -> GaussianPrivacy:
    """Return √(Σ d_i²)-Gaussian privacy of mechanisms that read the whole database (Theorem VI.23, corrected).

    Each must be d_i-Gaussian private. The paper asks for "d_i-DP", and then it is false: randomized response with ε = 1
    has total variation 0.462, the two normal distributions of μ = 1 have 0.383.
    """
    return cast("GaussianPrivacy", in_sequence(Rule("Theorem VI.23", GaussianPrivacy), statements))


def gaussian_commuting(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> GaussianPrivacy:
    """Return (max μ_i) d-Gaussian privacy, for a metric that commutes with the parts (Theorem VI.24).

    Theorem VI.21 (`gaussian_composition`) is sharper where more than one part differs (Example VI.25).
    """
    (mus,) = disjoint.commuting(Rule("Theorem VI.24", GaussianPrivacy), mechanisms, parted)
    return GaussianPrivacy(ScaledMetric(parted.metric, max(mus)))


def gaussian_best_bound(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> GaussianPrivacy:
    """Return 𝒢 (max μ_i)-GDP of mechanisms on the parts (Theorem VI.26): a maximum, no root of a sum of squares.

    Needs a partition that is compatible with the granularity, and Δp_i <= 1.
    """
    granularity, (mus,) = disjoint.best_bound(Rule("Theorem VI.26", GaussianPrivacy), mechanisms, parted)
    return gaussian_privacy(max(mus), granularity)


def gaussian_best_bound_common_domain(mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass) -> GaussianPrivacy:
    """Return 𝒢 (max μ_i)-GDP of mechanisms on the common domain (Theorem A.17); p must be compatible."""
    granularity, (mus,) = disjoint.common_best_bound(Rule("Theorem A.17", GaussianPrivacy), mechanisms, parted)
    return gaussian_privacy(max(mus), granularity)


def gaussian_bounded_partition(mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass) -> GaussianPrivacy:
    """Return 𝒢 μ-GDP, μ = max over i ≠ j of √(μ_i² + μ_j²), for changes that touch at most two parts (Corollary A.18).

    With one part it is μ_1. Only for the common domain.
    """
    granularity, (mus,) = disjoint.two_parts(Rule("Corollary A.18", GaussianPrivacy), mechanisms, parted)
    return gaussian_privacy(upward_norm(disjoint.largest_two(mus)), granularity)
