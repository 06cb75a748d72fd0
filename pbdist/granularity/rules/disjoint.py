"""The engine of the rules for partitions: the parameters of the mechanisms, if the partition has what is needed."""

from collections.abc import Callable, Sequence
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.granularity.rules.composed import Rule, scaled_statements
from pbdist.granularity.rules.declared_partition import DeclaredPartition
from pbdist.granularity.rules.distances import CanonicalMetric
from pbdist.granularity.rules.group import parameters
from pbdist.granularity.rules.upward import Amount
from pbdist.granularity.statements import OnItsOwnDomain, OnTheCommonDomain, Statement


def best_bound(
    rule: Rule, mechanisms: Sequence[OnItsOwnDomain], partition: DeclaredPartition
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on their own domains; p is compatible and Δp_i <= 1."""
    statements = scaled_statements(rule, mechanisms, OnItsOwnDomain, partition)
    granularity = partition.require_granularity(rule.name)
    partition.require_compatible(rule.name)
    partition.require_non_expanding(rule.name)
    return granularity, _parameters(rule, statements, partition.block_metrics)


def common_best_bound(
    rule: Rule, mechanisms: Sequence[OnTheCommonDomain], partition: DeclaredPartition
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on the common domain; p is compatible."""
    return _common(rule, mechanisms, partition, DeclaredPartition.require_compatible)


def two_parts(
    rule: Rule, mechanisms: Sequence[OnTheCommonDomain], partition: DeclaredPartition
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    """Return d^𝒢 and the parameters of mechanisms on the common domain; a change touches at most two parts."""
    return _common(rule, mechanisms, partition, DeclaredPartition.require_at_most_two)


def commuting(
    rule: Rule, mechanisms: Sequence[OnItsOwnDomain], partition: DeclaredPartition
) -> tuple[tuple[Amount, ...], ...]:
    """Return the parameters of mechanisms on their own domains; the metric commutes with the partition."""
    statements = scaled_statements(rule, mechanisms, OnItsOwnDomain, partition)
    partition.require_commuting(rule.name)
    return _parameters(rule, statements, partition.block_metrics)


def largest_two(values: Sequence[Amount]) -> tuple[Amount, ...]:
    """Return the two largest parameters, or the only one: what the maximum over i ≠ j adds up."""
    return tuple(sorted(values)[-2:])


def _common(
    rule: Rule,
    mechanisms: Sequence[OnTheCommonDomain],
    partition: DeclaredPartition,
    require: Callable[[DeclaredPartition, str], None],
) -> tuple[CanonicalMetric, tuple[tuple[Amount, ...], ...]]:
    statements = scaled_statements(rule, mechanisms, OnTheCommonDomain, partition)
    granularity = partition.require_granularity(rule.name)
    require(partition, rule.name)
    return granularity, _parameters(rule, statements, [granularity] * len(statements))


def _parameters(rule: Rule, statements: Sequence[Statement], metrics: Sequence[Any]) -> tuple[tuple[Amount, ...], ...]:
    """Return the parameters of each mechanism, transposed: all ε, then all δ."""
    try:
        each = [parameters(privacy, metric) for privacy, metric in zip(statements, metrics, strict=True)]
    except InvalidInputError as error:
        raise rule.refuse(str(error)) from error
    return tuple(zip(*each, strict=True))
