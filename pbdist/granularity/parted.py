"""A class of databases and its parts: what the rules for partitions ask of both."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import CanonicalMetric
from pbdist.granularity.compatibility import Compatibility, commutes, compatibility, metrics_of_parts, not_commuting
from pbdist.granularity.partitions import Parts, maps_of
from pbdist.granularity.spaces import DatabaseMap, Metric


@dataclass(frozen=True, eq=False)
class PartedClass:
    """The parts p_1(D), .., p_k(D) that mechanisms read, and the metric that says how far databases are apart.

    What a rule needs is found by looking at all neighbours of a listed class, or is proved for a full universe. Only
    where neither is the case does it take what is declared, and refuses if nothing is. The parts need not be disjoint,
    and need not make up D.

    Parameters
    ----------
    parts : Parts or sequence of DatabaseMap
        p; or p_i, all from 𝔻.
    metric : Metric
        d on 𝔻; d^𝒢 (`canonical_metric`) for rules about granularities.
    declared : Compatibility, optional
        What neighbours do to the parts.
    block_metrics : sequence of Metric, optional
        d on the codomain of each p_i, where that of `metrics_of_parts` is not known or not meant.
    commuting : str, optional
        Why Σ_i d(p_i(D), p_i(D')) <= d(D, D').

    Attributes
    ----------
    maps : tuple of DatabaseMap
        p_i.

    Raises
    ------
    InvalidInputError
        If the maps or metrics are over other classes, or of another granularity.
    """

    parts: Parts | Sequence[DatabaseMap]
    metric: Metric
    declared: Compatibility | None = field(default=None, kw_only=True)
    block_metrics: Sequence[Metric] = field(default=(), kw_only=True)
    commuting: str = field(default="", kw_only=True)
    maps: tuple[DatabaseMap, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        given: Any = self.metric
        if not isinstance(given, Metric):
            raise InvalidInputError(f"PartedClass.metric: expected a Metric, got {shown(self.metric)}")
        object.__setattr__(self, "maps", maps_of(self.parts, self.metric.domain))
        if not isinstance(self.declared, Compatibility | None):
            raise InvalidInputError(f"PartedClass.declared: expected a Compatibility, got {shown(self.declared)}")
        if not isinstance(self.commuting, str):
            raise InvalidInputError(f"PartedClass.commuting: expected a reason, got {shown(self.commuting)}")
        if self.block_metrics:
            self._check_block_metrics()

    def _check_block_metrics(self) -> None:
        given: Sequence[Any] = self.block_metrics
        domains = [metric.domain if isinstance(metric, Metric) else None for metric in given]
        if domains != [reads.codomain for reads in self.maps]:
            raise InvalidInputError("PartedClass.block_metrics: expected one metric for each part, over what it is in")
        for metric in self.block_metrics:
            if isinstance(self.metric, CanonicalMetric) and not (
                isinstance(metric, CanonicalMetric) and metric.granularity == self.metric.granularity
            ):
                raise InvalidInputError(
                    f"PartedClass.block_metrics: expected canonical metrics of {self.metric.granularity.title} on the"
                    f" parts too, got {metric.name}"
                )

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        """D on the parts, for which mechanisms on their own domains are private.

        Raises
        ------
        InvalidInputError
            If it is not known, and not declared.
        """
        return tuple(self.block_metrics) or metrics_of_parts(self.maps, self.metric)

    @cached_property
    def compatibility(self) -> Compatibility:
        """What neighbours do to the parts.

        Raises
        ------
        InvalidInputError
            If the metric is of no granularity; and as the function `compatibility`.
        """
        metric = self.canonical
        return compatibility(self.parts, metric.granularity, metric.domain, self.declared)

    @property
    def canonical(self) -> CanonicalMetric:
        """d^𝒢, or a refusal of another metric."""
        if not isinstance(self.metric, CanonicalMetric):
            raise InvalidInputError(
                f"expected the canonical metric of a granularity (CanonicalMetric), got {self.metric.name}: what holds"
                " for neighbours says nothing of other pairs under a metric that does not count steps"
            )
        return self.metric

    def require_compatible(self) -> None:
        """Refuse parts of which neighbours differ in more than one."""
        self._require_touched(1, "that is compatible with the granularity")

    def require_at_most_two(self) -> None:
        """Refuse parts of which neighbours differ in more than two."""
        self._require_touched(2, "such that a change touches at most two parts")

    def require_best_bound(self) -> None:
        """Refuse parts without both hypotheses of Theorem IV.6."""
        self.require_compatible()
        known = self.compatibility
        if not known.best_bound:
            raise InvalidInputError(f"expected Δp_i <= 1, got {known.sensitivity}: {known.reason}")

    def require_commuting(self) -> None:
        """Refuse a metric with Σ_i d(p_i(D), p_i(D')) > d(D, D')."""
        if self.metric.domain.databases is None and self.commuting:
            return
        if not commutes(self.parts, self.metric, self.metrics):
            worst = not_commuting(self.maps, self.metric, self.metrics)
            raise InvalidInputError(
                f"expected a metric that commutes with the partition, got {self.metric.name}: the parts of"
                f" {shown(worst)} are further apart than these"
            )

    def _require_touched(self, most: int, what: str) -> None:
        known = self.compatibility
        if known.most_touched > most:
            raise InvalidInputError(
                f"expected a partition {what}, got one of which neighbours may differ in {known.most_touched} parts:"
                f" {known.reason}"
            )
