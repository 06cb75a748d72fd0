"""The facts about the parts that mechanisms read: checked where the class is listed, else told with their reasons."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, TypeVar

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.rules.distances import CanonicalMetric
from pbdist.granularity.rules.upward import upward_sum
from pbdist.granularity.spaces import Database, DatabaseMap, Metric

__all__ = ["DeclaredPartition"]

_Each = TypeVar("_Each")


@dataclass(frozen=True, eq=False)
class DeclaredPartition:
    """The parts p_1(D), .., p_k(D) that mechanisms read, and what is known of them.

    Where the databases of 𝔻 are listed, every fact that a rule needs is checked by looking at all pairs, and reasons
    are not looked at. Else a rule takes the reason that is given for a fact, and refuses if there is none. The parts
    need not be disjoint, and need not make up D.

    Parameters
    ----------
    maps : sequence of DatabaseMap
        p_i, all from 𝔻.
    metric : Metric
        d on 𝔻; d^𝒢, a CanonicalMetric, for rules about granularities.
    block_metrics : sequence of Metric, optional
        d on the codomain of each p_i, which rules for mechanisms on their own domains need.
    compatible : str, optional
        Why no two neighbours differ in more than one part.
    at_most_two : str, optional
        Why no two neighbours differ in more than two parts.
    non_expanding : str, optional
        Why Δp_i <= 1: the parts of neighbours have distance at most 1.
    commuting : str, optional
        Why Σ_i d(p_i(D), p_i(D')) <= d(D, D').

    Raises
    ------
    InvalidInputError
        If the maps or metrics are over other classes.
    """

    maps: Sequence[DatabaseMap]
    metric: Metric
    block_metrics: Sequence[Metric] = ()
    compatible: str = field(default="", kw_only=True)
    at_most_two: str = field(default="", kw_only=True)
    non_expanding: str = field(default="", kw_only=True)
    commuting: str = field(default="", kw_only=True)

    def __post_init__(self) -> None:
        object.__setattr__(self, "maps", _tuple_of(self.maps, DatabaseMap, "maps"))
        object.__setattr__(self, "block_metrics", _tuple_of(self.block_metrics, Metric, "block_metrics"))
        if not isinstance(self.metric, Metric):
            raise InvalidInputError(f"DeclaredPartition.metric: expected a Metric, got {shown(self.metric)}")
        if not self.maps:
            raise InvalidInputError("DeclaredPartition.maps: expected one map or more, got none")
        for read in self.maps:
            check_reads_the_database(read)
            if read.domain != self.metric.domain:
                raise InvalidInputError(
                    f"DeclaredPartition.maps: expected maps from {self.metric.domain.name}, the domain of"
                    f" {self.metric.name}, got {read.name} from {read.domain.name}"
                )
        if self.block_metrics and [metric.domain for metric in self.block_metrics] != [p.codomain for p in self.maps]:
            raise InvalidInputError(
                "DeclaredPartition.block_metrics: expected one metric for each map, over what it maps into"
            )
        for name in ("compatible", "at_most_two", "non_expanding", "commuting"):
            if not isinstance(getattr(self, name), str):
                raise InvalidInputError(
                    f"DeclaredPartition.{name}: expected a reason, got {shown(getattr(self, name))}"
                )

    def require_granularity(self, rule: str) -> CanonicalMetric:
        """Return d^𝒢."""
        if not isinstance(self.metric, CanonicalMetric):
            raise InvalidInputError(
                f"{rule}: expected the canonical metric of a granularity (CanonicalMetric), got {self.metric.name}:"
                " what holds for neighbours says nothing of other pairs under a metric that does not count steps"
            )
        return self.metric

    def require_compatible(self, rule: str) -> None:
        """Refuse parts of which neighbours differ in more than one."""
        self._require_touched(rule, 1, self.compatible, "compatible with the granularity")

    def require_at_most_two(self, rule: str) -> None:
        """Refuse parts of which neighbours differ in more than two."""
        self._require_touched(
            rule, 2, self.at_most_two or self.compatible, "such that a change touches at most two parts"
        )

    def require_non_expanding(self, rule: str) -> None:
        """Refuse parts of neighbours that are not neighbours or equal: Δp_i > 1."""
        metrics = self.require_block_metrics(rule)
        granularity = self.require_granularity(rule)
        for metric in metrics:
            if not isinstance(metric, CanonicalMetric):
                raise InvalidInputError(f"{rule}: expected canonical metrics on the parts too, got {metric.name}")
        if granularity.domain.databases is None:
            self._require_reason(rule, self.non_expanding, "Δp_i <= 1", "non_expanding")
            return
        for first, second in granularity.neighbours:
            for read, metric in zip(self.maps, metrics, strict=True):
                distance = metric(read(first), read(second))
                if distance > 1:
                    raise InvalidInputError(
                        f"{rule}: expected Δp_i <= 1, got {read.name}, which maps the neighbours {shown(first)} and"
                        f" {shown(second)} to databases at distance {distance}"
                    )

    def require_commuting(self, rule: str) -> None:
        """Refuse a metric with Σ_i d(p_i(D), p_i(D')) > d(D, D')."""
        metrics = self.require_block_metrics(rule)
        databases = self.metric.domain.databases
        if databases is None:
            self._require_reason(rule, self.commuting, "a metric that commutes with the partition", "commuting")
            return
        for first in databases:
            for second in databases:
                parts = upward_sum(d(p(first), p(second)) for p, d in zip(self.maps, metrics, strict=True))
                if parts > self.metric(first, second):
                    raise InvalidInputError(
                        f"{rule}: expected a metric that commutes with the partition, got {self.metric.name}: the"
                        f" distances of the parts of {shown(first)} and {shown(second)} add up to {parts}, above"
                        f" {self.metric(first, second)}"
                    )

    def require_block_metrics(self, rule: str) -> Sequence[Metric]:
        """Return d on the parts."""
        if not self.block_metrics:
            raise InvalidInputError(f"{rule}: expected DeclaredPartition.block_metrics, the metrics on the parts")
        return self.block_metrics

    def touched(self, first: Database, second: Database) -> tuple[int, ...]:
        """Return I(D, D'): the numbers of the parts that differ."""
        return tuple(i for i, read in enumerate(self.maps) if read(first) != read(second))

    def _require_touched(self, rule: str, most: int, reason: str, what: str) -> None:
        granularity = self.require_granularity(rule)
        if granularity.domain.databases is None:
            name = "compatible" if most == 1 else "at_most_two"
            self._require_reason(rule, reason, f"a partition that is {what}", name)
            return
        for first, second in granularity.neighbours:
            touched = self.touched(first, second)
            if len(touched) > most:
                raise InvalidInputError(
                    f"{rule}: expected a partition that is {what}, got {', '.join(self.maps[i].name for i in touched)},"
                    f" which all differ for the neighbours {shown(first)} and {shown(second)}"
                )

    def _require_reason(self, rule: str, reason: str, what: str, name: str) -> None:
        if not reason:
            raise InvalidInputError(
                f"{rule}: expected {what}; {self.metric.domain.name} is not listed, so that it cannot be checked: give"
                f" the reason in DeclaredPartition.{name}"
            )


def check_reads_the_database(read: Any) -> None:
    """Refuse what is no map of the database alone, such as a block that is chosen from earlier outputs.

    A map that closes over an output cannot be told from another one: it is for the caller not to do that.
    """
    function: Any = read.function if isinstance(read, DatabaseMap) else read
    if isinstance(read, DatabaseMap) and _takes_one(function):
        return
    raise InvalidInputError(
        f"expected a DatabaseMap, a function of the database alone, got {shown(function)}: blocks chosen from earlier"
        " outputs are not covered by the rules of composition, for a record may then be read more than once"
    )


def _takes_one(function: Callable[..., Any]) -> bool:
    try:
        signature(function).bind(None)
    except ValueError:  # Some builtins do not tell.
        return True
    except TypeError:
        return False
    return True


def _tuple_of(values: Any, kind: type[_Each], name: str) -> tuple[_Each, ...]:
    try:
        given = tuple(values)
    except TypeError as error:
        raise InvalidInputError(f"DeclaredPartition.{name}: expected a sequence, got {shown(values)}") from error
    for value in given:
        if kind is DatabaseMap:
            check_reads_the_database(value)
        if not isinstance(value, kind):
            raise InvalidInputError(f"DeclaredPartition.{name}: expected {kind.__name__}, got {shown(value)}")
    return given
