"""The engine of the rules for partitions: the parameters of the mechanisms, if the parts have what is needed."""

from collections.abc import Callable, Sequence

from pbdist.errors import InvalidInputError
from pbdist.granularity.canonical import CanonicalMetric
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.rules.composed import Placed, Rule, statements_of_parts
from pbdist.granularity.rules.group import parameters
from pbdist.granularity.spaces import Metric
from pbdist.granularity.statements import OnItsOwnDomain, OnTheCommonDomain
from pbdist.granularity.upward import Amount


def best_bound(
    rule: Rule, mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on their own domains; p is compatible and Δp_i <= 1."""
    found = _parameters(rule, mechanisms, OnItsOwnDomain, parted, PartedClass.require_best_bound)
    return parted.canonical, found


def common_best_bound(
    rule: Rule, mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on the common domain; p is compatible."""
    found = _parameters(rule, mechanisms, OnTheCommonDomain, parted, PartedClass.require_compatible)
    return parted.canonical, found


def two_parts(
    rule: Rule, mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on the common domain; a change touches at most two parts."""
    found = _parameters(rule, mechanisms, OnTheCommonDomain, parted, PartedClass.require_at_most_two)
    return parted.canonical, found


def commuting(rule: Rule, mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> tuple[tuple[Amount, ...], ...]:
    """Return the parameters of mechanisms on their own domains; the metric commutes with the partition."""
    return _parameters(rule, mechanisms, OnItsOwnDomain, parted, PartedClass.require_commuting)


def largest_two(values: Sequence[Amount]) -> tuple[Amount, ...]:
    """Return the two largest parameters, or the only one: what the maximum over i ≠ j adds up."""
    return tuple(sorted(values)[-2:])


def _parameters(
    rule: Rule,
    mechanisms: Sequence[Placed],
    kind: type[Placed],
    parted: PartedClass,
    require: Callable[[PartedClass], None],
) -> tuple[tuple[Amount, ...], ...]:
    """Return the parameters of each mechanism, transposed: all ε, then all δ; errors name the rule."""
    statements = statements_of_parts(rule, mechanisms, kind, parted)
    try:
        require(parted)
        own = issubclass(kind, OnItsOwnDomain)
        metrics: Sequence[Metric] = parted.metrics if own else [parted.metric] * len(statements)
        each = [parameters(privacy, metric) for privacy, metric in zip(statements, metrics, strict=True)]
    except InvalidInputError as error:
        raise rule.refuse(str(error)) from error
    return tuple(zip(*each, strict=True))
