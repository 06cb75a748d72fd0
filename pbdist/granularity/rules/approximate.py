"""The rules of composition for (ε, δ) (Guerra-Balboa et al. 2024, VI-A).

`adaptive` is as in `rules.pure`; the paper states all of them for adaptive composition, which covers the independent
one, so that it is no keyword here: each statement must hold whatever the earlier outputs were.
"""

from collections.abc import Sequence
from typing import cast

from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules import disjoint
from pbdist.granularity.rules.composed import Rule, in_sequence, on_own_domains, on_the_common_domain
from pbdist.granularity.rules.group import approximate_privacy
from pbdist.granularity.statements import ApproximatePrivacy, OnItsOwnDomain, OnTheCommonDomain
from pbdist.granularity.upward import upward_sum


def approximate_composition(mechanisms: Sequence[OnItsOwnDomain]) -> ApproximatePrivacy:
    """Return (Σ d_i, Σ δ_i)-privacy, both of (f_i(D), f_i(D')), of mechanisms on their own domains (Theorem VI.4)."""
    return cast("ApproximatePrivacy", on_own_domains(Rule("Theorem VI.4", ApproximatePrivacy), mechanisms))


def approximate_sequential(statements: Sequence[ApproximatePrivacy]) -> ApproximatePrivacy:
    """Return (Σ d_i, Σ δ_i)-privacy of mechanisms that read the whole database (Theorem VI.5)."""
    return cast("ApproximatePrivacy", in_sequence(Rule("Theorem VI.5", ApproximatePrivacy), statements))


def approximate_common_domain(mechanisms: Sequence[OnTheCommonDomain]) -> ApproximatePrivacy:
    """Return (Σ d_i^(f_i), Σ δ_i^(f_i))-privacy* of mechanisms on the common domain (Theorem VI.7, corrected).

    δ^f(D, D') is the least δ(D~, D~') over the pairs with f(D~) = f(D), f(D~') = f(D') and d(D~, D~') = d^f(D, D'). The
    paper's δ^f (VI.7, A.12) leaves out the first two conditions, and is false: with f the identity it would take the δ
    of any pair at the same distance.
    """
    return cast("ApproximatePrivacy", on_the_common_domain(Rule("Theorem VI.7", ApproximatePrivacy), mechanisms))


def approximate_best_bound(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> ApproximatePrivacy:
    """Return 𝒢 (max ε_i, max δ_i)-DP of mechanisms on the parts (Theorem VI.6).

    Needs a partition that is compatible with the granularity, Δp_i <= 1, and mechanisms that are 𝒢 (ε_i, δ_i)-DP on
    their parts (`approximate_privacy`).
    """
    granularity, (epsilons, deltas) = disjoint.best_bound(Rule("Theorem VI.6", ApproximatePrivacy), mechanisms, parted)
    return approximate_privacy(max(epsilons), max(deltas), granularity)


def approximate_best_bound_common_domain(
    mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass
) -> ApproximatePrivacy:
    """Return 𝒢 (max ε_i, max δ_i)-DP of mechanisms on the common domain (Theorem A.13, corrected).

    The paper does not ask for a compatible partition. Without one it is false.
    """
    granularity, (epsilons, deltas) = disjoint.common_best_bound(
        Rule("Theorem A.13", ApproximatePrivacy), mechanisms, parted
    )
    return approximate_privacy(max(epsilons), max(deltas), granularity)


def approximate_bounded_partition(mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass) -> ApproximatePrivacy:
    """Return 𝒢 (ε, δ)-DP, the largest ε_i + ε_j and δ_i + δ_j, for changes that touch at most two parts.

    In neither paper; proof: "Changes that touch two parts", docs/granularity-rules.md. A change between the parts i and
    j loses (ε_i + ε_j, δ_i + δ_j), so that one pair (ε, δ) for all changes has the largest of both;
    `approximate_common_domain` keeps them apart. A sum of δ above 1 is told as 1.
    """
    granularity, (epsilons, deltas) = disjoint.two_parts(
        Rule("the rule for two parts", ApproximatePrivacy), mechanisms, parted
    )
    delta = min(upward_sum(disjoint.largest_two(deltas)), 1)
    return approximate_privacy(upward_sum(disjoint.largest_two(epsilons)), delta, granularity)
