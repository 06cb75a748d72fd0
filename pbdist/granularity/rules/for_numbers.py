"""The rules of composition for those who have numbers only: parameters, and which mechanisms one change may touch.

The caller vouches for the hypotheses. A parameter must be stated for what the distances are counted in:

- for mechanisms on the common domain: neighbours D ~ D', so that each touched mechanism is at distance 1;
- for mechanisms on their own domains: neighbours among what the mechanism reads, so that mechanism i is at the distance
  of f_i(D) and f_i(D'). It is ∞ where no steps between neighbours lead from one to the other: a record that moves to
  another block changes the sizes of both, which no steps of bounded neighbours do (Example II.9).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.rules.group import group_approximate, group_concentrated, group_gaussian, group_pure
from pbdist.granularity.upward import Amount, checked_amounts, checked_delta, upward_norm, upward_sum


@dataclass(frozen=True)
class EachTouched:
    """A change touches every mechanism, each at distance 1: IV.3, V.3, VI.5, VI.15, VI.23."""


@dataclass(frozen=True)
class AtMostTouched:
    """A change touches at most so many mechanisms, any of them, each at distance 1.

    With 1 it is a compatible partition: IV.6, IV.12, V.4, V.6, VI.6, A.13, VI.16, A.15, VI.26, A.17. With 2 it is a
    partition of records under bounded changes, on the common domain: IV.13, A.18.

    Parameters
    ----------
    count : int
        At least 1; more than there are mechanisms means all of them.
    """

    count: int

    def __post_init__(self) -> None:
        given: Any = self.count
        if not isinstance(given, int) or isinstance(given, bool) or given < 1:
            raise InvalidInputError(f"AtMostTouched.count: expected a whole number of at least 1, got {shown(given)}")


@dataclass(frozen=True)
class TouchedTogether:
    """The sets of mechanisms that one change may touch: IV.1, IV.11 and their like.

    Parameters
    ----------
    changes : sequence of sets or of mappings
        For each kind of change the numbers of the mechanisms, from 0, all at distance 1, or a mapping from these
        numbers to distances. A subset of a change need not be told.
    """

    changes: Sequence[Collection[int] | Mapping[int, Amount]]

    def __post_init__(self) -> None:
        given: Any = self.changes
        if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
            raise InvalidInputError(f"TouchedTogether.changes: expected one change or more, got {shown(self.changes)}")

    def distances(self, mechanisms: int) -> list[dict[int, Amount]]:
        """Return the distance of each touched mechanism, for each change."""
        changes = [_distances(change) for change in self.changes]
        for i, change in enumerate(changes):
            checked_amounts(change.values() or [0], f"TouchedTogether.changes[{i}]")
            number: Any
            for number in change:
                if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < mechanisms:
                    raise InvalidInputError(
                        f"TouchedTogether.changes[{i}]: expected numbers of mechanisms below {mechanisms}, got"
                        f" {shown(number)}"
                    )
        return changes


def _distances(change: Collection[int] | Mapping[int, Amount]) -> dict[int, Amount]:
    return dict(change) if isinstance(change, Mapping) else dict.fromkeys(change, 1)


Touched: TypeAlias = EachTouched | AtMostTouched | TouchedTogether


def pure_parameter(epsilons: Sequence[Amount], touched: Touched) -> Amount:
    """Return ε of the composition: the largest Σ ε_i d_i over the changes.

    Parameters
    ----------
    epsilons : sequence of int, Fraction or float
        ε_i of each mechanism.
    touched : EachTouched, AtMostTouched or TouchedTogether
        What a change may touch.

    Returns
    -------
    int, Fraction or float
        Exact for whole numbers and fractions; a float is rounded upwards.
    """
    amounts = checked_amounts(epsilons, "epsilons")
    return max(
        upward_sum(group_pure(amounts[i], d) for i, d in change.items()) for change in _changes(touched, amounts)
    )


def approximate_parameters(
    epsilons: Sequence[Amount], deltas: Sequence[Amount], touched: Touched
) -> tuple[Amount, Amount]:
    """Return (ε, δ) of the composition: the largest Σ ε_i d_i and the largest Σ δ_i [d_i]_(ε_i) over the changes.

    Both are taken apart, for the change with the largest ε need not be that with the largest δ. A δ above 1 is told as
    1. See `pure_parameter`.
    """
    first, second = checked_amounts(epsilons, "epsilons"), checked_amounts(deltas, "deltas")
    if len(first) != len(second):
        raise InvalidInputError(f"deltas: expected one for each ε, got {len(second)} for {len(first)}")
    for i, delta in enumerate(second):
        checked_delta(delta, f"deltas[{i}]")
    lost = [
        [group_approximate(first[i], second[i], d)[1] for i, d in change.items()]
        for change in _changes(touched, second)
    ]
    return pure_parameter(first, touched), min(max(upward_sum(change) for change in lost), 1)


def concentrated_parameter(rhos: Sequence[Amount], touched: Touched) -> Amount:
    """Return ρ of the composition: the largest Σ ρ_i d_i² over the changes; see `pure_parameter`."""
    amounts = checked_amounts(rhos, "rhos")
    return max(
        upward_sum(group_concentrated(amounts[i], d) for i, d in change.items())
        for change in _changes(touched, amounts)
    )


def gaussian_parameter(mus: Sequence[Amount], touched: Touched) -> Amount:
    """Return μ of the composition: the largest √(Σ μ_i² d_i²) over the changes; see `pure_parameter`."""
    amounts = checked_amounts(mus, "mus")
    return max(
        upward_norm(group_gaussian(amounts[i], d) for i, d in change.items()) for change in _changes(touched, amounts)
    )


def _changes(touched: Touched, amounts: Sequence[Amount]) -> list[dict[int, Amount]]:
    """Return the changes that matter: of those that touch at most m, the one with the m largest parameters."""
    if isinstance(touched, TouchedTogether):
        return touched.distances(len(amounts))
    if not isinstance(touched, EachTouched | AtMostTouched):
        raise InvalidInputError(
            f"touched: expected EachTouched, AtMostTouched or TouchedTogether, got {shown(touched)}"
        )
    most = touched.count if isinstance(touched, AtMostTouched) else len(amounts)
    largest = sorted(range(len(amounts)), key=lambda i: amounts[i], reverse=True)
    return [dict.fromkeys(largest[:most], 1)]
