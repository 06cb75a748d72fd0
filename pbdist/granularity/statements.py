"""What is known of a mechanism: its privacy, and on which databases.

A statement about a mechanism M* that is applied to f(D) is of one of two kinds, and they are different types, for
Example II.9 of Guerra-Balboa et al. 2024 shows what happens where they are mixed up:

- `OnItsOwnDomain`: M* is private for the databases that it reads, 𝔻_i = f(𝔻) or a class around it.
- `OnTheCommonDomain`: the whole M = M* ∘ f is private on 𝔻, and depends on f(D) alone (Definition IV.8).
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.spaces import DatabaseMap, Metric, StarDistance


@dataclass(frozen=True, eq=False)
class _Privacy:
    distance: Metric | StarDistance

    def __post_init__(self) -> None:
        if not isinstance(self.distance, Metric | StarDistance):
            raise InvalidInputError(
                f"{type(self).__name__}.distance: expected a Metric or a StarDistance, got {shown(self.distance)}"
            )

    @property
    def starred(self) -> bool:
        """Whether this is "private*" only: a bound for each pair of databases that is no metric."""
        return isinstance(self.distance, StarDistance)


class PurePrivacy(_Privacy):
    """d-privacy (Definition III.2): no loss between D and D' is above d(D, D') nats."""


@dataclass(frozen=True, eq=False)
class ApproximatePrivacy(_Privacy):
    """(d, δ)-privacy (Definition VI.2): P(M(D) in S) <= e^d(D, D') P(M(D') in S) + δ(D, D').

    Attributes
    ----------
    distance : Metric or StarDistance
        Nats.
    delta : StarDistance
        δ(D, D'), over the same class; it need not be a metric. 1 and more says nothing.
    """

    delta: StarDistance

    def __post_init__(self) -> None:
        super().__post_init__()
        given: Any = self.delta
        if not isinstance(given, StarDistance) or given.domain != self.distance.domain:
            raise InvalidInputError(
                f"ApproximatePrivacy.delta: expected a StarDistance over {self.distance.domain.name},"
                f" got {shown(given)}"
            )


class ZeroConcentratedPrivacy(_Privacy):
    """d²-zero-concentrated privacy (Definition VI.11): D_α(M(D) ‖ M(D')) <= α d(D, D')² for all α > 1.

    With ρ-zCDP d is √ρ times the metric of the granularity.
    """


class GaussianPrivacy(_Privacy):
    """d-Gaussian privacy (Definition VI.19): the trade-off function is at least that of N(0, 1) and N(d(D, D'), 1)."""


Statement: TypeAlias = PurePrivacy | ApproximatePrivacy | ZeroConcentratedPrivacy | GaussianPrivacy


@dataclass(frozen=True, eq=False)
class OnItsOwnDomain:
    """M* is private over the codomain of f, and is applied to f(D): "variable domain".

    Attributes
    ----------
    privacy : Statement
        Over the codomain of `reads`; for an adaptive composition, whatever the earlier outputs were.
    reads : DatabaseMap
        f.
    """

    privacy: Statement
    reads: DatabaseMap

    def __post_init__(self) -> None:
        _check_map("OnItsOwnDomain.reads", self.reads)
        if self.privacy.distance.domain != self.reads.codomain:
            raise InvalidInputError(
                f"OnItsOwnDomain.privacy: expected privacy over {self.reads.codomain.name}, which {self.reads.name}"
                f" maps into, got privacy over {self.privacy.distance.domain.name}: the whole mechanism's privacy on"
                " the common domain is another statement, OnTheCommonDomain"
            )


@dataclass(frozen=True, eq=False)
class OnTheCommonDomain:
    """M is private over 𝔻 itself, and depends on f(D) alone (Definition IV.8).

    Attributes
    ----------
    privacy : Statement
        Over the domain of `depends_on`; for an adaptive composition, whatever the earlier outputs were.
    depends_on : DatabaseMap
        f.
    """

    privacy: Statement
    depends_on: DatabaseMap

    def __post_init__(self) -> None:
        _check_map("OnTheCommonDomain.depends_on", self.depends_on)
        if self.privacy.distance.domain != self.depends_on.domain:
            raise InvalidInputError(
                f"OnTheCommonDomain.privacy: expected privacy over {self.depends_on.domain.name}, the domain of"
                f" {self.depends_on.name}, got privacy over {self.privacy.distance.domain.name}: privacy of what is"
                " applied to a part is another statement, OnItsOwnDomain"
            )


def _check_map(name: str, given: Any) -> None:
    if not isinstance(given, DatabaseMap):
        raise InvalidInputError(
            f"{name}: expected a DatabaseMap, got {shown(given)}: what a mechanism reads is a map of the database"
            " alone, and blocks chosen from earlier outputs are not covered by the rules of composition"
        )
