"""The rules of composition for ρ of zCDP (Guerra-Balboa et al. 2024, VI-B).

All are stated for adaptive composition, which covers the independent one: each statement must hold whatever the
earlier outputs were.
"""

from collections.abc import Sequence
from typing import cast

from pbdist.granularity.distances import RootScaledMetric
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules import disjoint
from pbdist.granularity.rules.composed import Rule, in_sequence, on_own_domains, on_the_common_domain
from pbdist.granularity.rules.group import concentrated_privacy
from pbdist.granularity.statements import OnItsOwnDomain, OnTheCommonDomain, ZeroConcentratedPrivacy
from pbdist.granularity.upward import upward_sum


def concentrated_composition(mechanisms: Sequence[OnItsOwnDomain]) -> ZeroConcentratedPrivacy:
    """Return d²-zero-concentrated privacy, d² = Σ d_i(f_i(D), f_i(D'))², on their own domains (Theorem VI.13)."""
    return cast("ZeroConcentratedPrivacy", on_own_domains(Rule("Theorem VI.13", ZeroConcentratedPrivacy), mechanisms))


def concentrated_common_domain(mechanisms: Sequence[OnTheCommonDomain]) -> ZeroConcentratedPrivacy:
    """Return d²-zero-concentrated privacy*, d² = Σ (d_i^(f_i))², on the common domain (Theorem VI.14)."""
    rule = Rule("Theorem VI.14", ZeroConcentratedPrivacy)
    return cast("ZeroConcentratedPrivacy", on_the_common_domain(rule, mechanisms))


def concentrated_sequential(statements: Sequence[ZeroConcentratedPrivacy]) -> ZeroConcentratedPrivacy:
    """Return Σ d_i²-zero-concentrated privacy of mechanisms that read the whole database (Theorem VI.15)."""
    return cast("ZeroConcentratedPrivacy", in_sequence(Rule("Theorem VI.15", ZeroConcentratedPrivacy), statements))


def concentrated_best_bound(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> ZeroConcentratedPrivacy:
    """Return 𝒢 (max ρ_i)-zCDP of mechanisms on the parts (Theorem VI.16): a maximum, no sum.

    Needs a partition that is compatible with the granularity, and Δp_i <= 1.
    """
    granularity, (rhos,) = disjoint.best_bound(Rule("Theorem VI.16", ZeroConcentratedPrivacy), mechanisms, parted)
    return concentrated_privacy(max(rhos), granularity)


def concentrated_best_bound_common_domain(
    mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass
) -> ZeroConcentratedPrivacy:
    """Return 𝒢 (max ρ_i)-zCDP of mechanisms on the common domain (Theorem A.15, corrected).

    The paper does not ask for a compatible partition. Without one it is false.
    """
    granularity, (rhos,) = disjoint.common_best_bound(Rule("Theorem A.15", ZeroConcentratedPrivacy), mechanisms, parted)
    return concentrated_privacy(max(rhos), granularity)


def concentrated_bounded_partition(
    mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass
) -> ZeroConcentratedPrivacy:
    """Return 𝒢 ρ-zCDP, ρ = max over i ≠ j of ρ_i + ρ_j, for changes that touch at most two parts; ρ_1 for one part.

    In neither paper; proof: "Changes that touch two parts", docs/granularity-rules.md.
    """
    granularity, (rhos,) = disjoint.two_parts(
        Rule("the rule for two parts", ZeroConcentratedPrivacy), mechanisms, parted
    )
    return concentrated_privacy(upward_sum(disjoint.largest_two(rhos)), granularity)


def concentrated_commuting(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> ZeroConcentratedPrivacy:
    """Return (max ρ_i) d²-zero-concentrated privacy, for a metric that commutes with the parts.

    The proof of Theorem VI.24 with ρ_i for μ_i²; "Metrics that commute", docs/granularity-rules.md.
    """
    rule = Rule("the commuting rule", ZeroConcentratedPrivacy)
    (rhos,) = disjoint.commuting(rule, mechanisms, parted)
    return ZeroConcentratedPrivacy(RootScaledMetric(parted.metric, max(rhos)))
