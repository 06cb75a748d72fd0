"""The rules of composition for ε (Guerra-Balboa et al. 2024, II to V).

`adaptive` says that each mechanism may be chosen after the outputs of the earlier ones. The bounds are the same. What
is asked for is more: each statement must hold whatever the earlier outputs were, and what a mechanism reads must not
depend on them.
"""

from collections.abc import Collection, Sequence
from typing import Any, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.distances import ScaledMetric
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules import disjoint
from pbdist.granularity.rules.composed import in_sequence, numbered, on_own_domains, on_the_common_domain
from pbdist.granularity.rules.group import pure_privacy
from pbdist.granularity.statements import OnItsOwnDomain, OnTheCommonDomain, PurePrivacy
from pbdist.granularity.upward import Amount, checked_amounts, upward_sum


def pure_parallel(epsilons: Sequence[Amount], subsets: Sequence[Collection[Any]]) -> Amount:
    """Return the unbounded ε of mechanisms that read the records in disjoint subsets of the universe (Theorem II.8).

    Parameters
    ----------
    epsilons : sequence of int, Fraction or float
        Mechanism i is unbounded ε_i-DP for multisets of records, all or those in its subset.
    subsets : sequence of collections
        𝒳_i: mechanism i reads the records of D that lie in it. They need not make up the universe.

    Returns
    -------
    int, Fraction or float
        max ε_i, for unbounded neighbours. For bounded neighbours it is false (Example II.9).

    Raises
    ------
    InvalidInputError
        If two subsets have a record in common.
    """
    amounts = checked_amounts(epsilons, "epsilons")
    blocks = [frozenset(subset) for subset in subsets]
    if len(blocks) != len(amounts):
        raise InvalidInputError(f"Theorem II.8: expected one subset for each ε, got {len(blocks)} for {len(amounts)}")
    seen: set[Any] = set()
    for i, block in enumerate(blocks):
        if seen & block:
            raise InvalidInputError(
                f"Theorem II.8: expected disjoint subsets, got {shown(min(seen & block, key=repr))} in subset {i} and"
                " in an earlier one: Theorem IV.1 adds up what one record reaches"
            )
        seen |= block
    return max(amounts)


def pure_composition(mechanisms: Sequence[OnItsOwnDomain], *, adaptive: bool = False) -> PurePrivacy:
    """Return Σ d_i(f_i(D), f_i(D'))-privacy of mechanisms on their own domains (Theorem IV.1; adaptive: V.2)."""
    rule = numbered("Theorem IV.1", "Theorem V.2", adaptive, PurePrivacy)
    return cast("PurePrivacy", on_own_domains(rule, mechanisms))


def pure_sequential(statements: Sequence[PurePrivacy], *, adaptive: bool = False) -> PurePrivacy:
    """Return Σ d_i-privacy of mechanisms that read the whole database (Theorem IV.3; adaptive: V.3)."""
    rule = numbered("Theorem IV.3", "Theorem V.3", adaptive, PurePrivacy)
    return cast("PurePrivacy", in_sequence(rule, statements))


def pure_common_domain(mechanisms: Sequence[OnTheCommonDomain], *, adaptive: bool = False) -> PurePrivacy:
    """Return Σ d_i^(f_i)-privacy* of mechanisms on the common domain (Theorem IV.11; adaptive: V.5).

    The distance is a StarDistance. `pure_over_neighbours` makes a parameter of it, max over D ~ D' of Σ ε_i over the
    mechanisms with f_i(D) ≠ f_i(D').
    """
    rule = numbered("Theorem IV.11", "Theorem V.5", adaptive, PurePrivacy)
    return cast("PurePrivacy", on_the_common_domain(rule, mechanisms))


def pure_best_bound(
    mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass, *, adaptive: bool = False
) -> PurePrivacy:
    """Return (max ε_i) d^𝒢-privacy of mechanisms on the parts (Theorem IV.6; adaptive: V.4).

    Needs a partition that is compatible with the granularity, Δp_i <= 1, and mechanisms that are ε_i d^𝒢-private on
    their parts (`pure_privacy`).
    """
    rule = numbered("Theorem IV.6", "Theorem V.4", adaptive, PurePrivacy)
    granularity, (epsilons,) = disjoint.best_bound(rule, mechanisms, parted)
    return pure_privacy(max(epsilons), granularity)


def pure_best_bound_common_domain(
    mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass, *, adaptive: bool = False
) -> PurePrivacy:
    """Return (max ε_i) d^𝒢-privacy of mechanisms on the common domain (Theorem IV.12; adaptive: V.6).

    Needs a partition that is compatible with the granularity, and mechanisms that are ε_i d^𝒢-private on 𝔻.
    """
    rule = numbered("Theorem IV.12", "Theorem V.6", adaptive, PurePrivacy)
    granularity, (epsilons,) = disjoint.common_best_bound(rule, mechanisms, parted)
    return pure_privacy(max(epsilons), granularity)


def pure_bounded_partition(
    mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass, *, adaptive: bool = False
) -> PurePrivacy:
    """Return max over i ≠ j of (ε_i + ε_j), times d^𝒢, for changes that touch at most two parts (Corollary IV.13).

    With one part it is ε_1, which the paper's maximum over i ≠ j leaves out. Only for the common domain: on their own
    domains nothing can be said (Example II.9). The proof from Theorem V.5 holds for adaptive mechanisms too.
    """
    rule = numbered("Corollary IV.13", "Corollary IV.13 (adaptive)", adaptive, PurePrivacy)
    granularity, (epsilons,) = disjoint.two_parts(rule, mechanisms, parted)
    return pure_privacy(upward_sum(disjoint.largest_two(epsilons)), granularity)


def pure_commuting(mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass, *, adaptive: bool = False) -> PurePrivacy:
    """Return (max ε_i) d-privacy of mechanisms on the parts, for a metric that commutes with them (Section IV-C).

    Mechanism i is ε_i d-private on its part: `PurePrivacy(ScaledMetric(metric of the part, ε_i))`. All that the proof
    needs is Σ_i d(p_i(D), p_i(D')) <= d(D, D').
    """
    rule = numbered("the commuting rule of IV-C", "the commuting rule of IV-C (adaptive)", adaptive, PurePrivacy)
    (epsilons,) = disjoint.commuting(rule, mechanisms, parted)
    return PurePrivacy(ScaledMetric(parted.metric, max(epsilons)))
