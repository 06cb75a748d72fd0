"""Tables of bounds on ε for every r and δ."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.arguments import (
    check_totals,
    checked_components,
    checked_compositions,
    checked_delta,
    checked_precision,
)
from pbdist.enclosures import any_enclosed, epsilon_bounds
from pbdist.mechanisms import Pair, choices_of, factor_counts, reveals_nothing
from pbdist.pld import epsilon_table
from pbdist.table.worst import worst_epsilon_table
from pbdist.types import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class EpsilonTable:
    """Certified bounds on ε after r compositions at δ.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
    delta : ndarray, shape (D,)
    lower, upper : ndarray, shape (2, R, D)
        First axis: A||B, B||A; nats.
    computed_lower : ndarray, shape (2, R, D), or None
        None where it is the lower bound. Where some pair is not attained, it is the largest lower bound of all pairs:
        how closely ε was computed.
    """

    compositions: IntArray
    delta: FloatArray
    lower: FloatArray
    upper: FloatArray
    computed_lower: FloatArray | None = None


def epsilon_table_of(
    components: Sequence[tuple[Pair, int]], *, compositions: Any, delta: Any, tolerance: Any, together: bool = False
) -> EpsilonTable:
    """Bound ε for every r and δ asked for; parameters as for `bounds_table`, δ at least 0 and below 1.

    With `together` one ε is sought with which both directions meet δ: the bounds of both are those of that.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    rounds = checked_compositions(compositions)
    wanted = checked_delta(delta, zero=True)
    parts = checked_components(components, worst_of=True)
    check_totals(parts, rounds)
    precision = checked_precision(tolerance, None, None)
    choices = choices_of(parts)
    if choices is None:
        return _epsilon_table(parts, rounds, wanted, precision.tolerance, together=together)
    return worst_epsilon_table(
        [(_epsilon_table(one, rounds, wanted, precision.tolerance, together=together), there) for one, there in choices]
    )


def _epsilon_table(
    parts: Sequence[tuple[Pair, int]], rounds: IntArray, wanted: FloatArray, tolerance: float, *, together: bool
) -> EpsilonTable:
    if reveals_nothing(parts):
        nothing = np.zeros((2, rounds.size, wanted.size))
        return EpsilonTable(rounds, wanted, nothing, nothing)
    counts = factor_counts(parts)
    bounds = epsilon_bounds if any_enclosed(counts) else epsilon_table
    found = bounds(counts, rounds, wanted, tolerance=tolerance, together=together)
    if not all(pair.attained_by_some for pair, _ in parts):
        return EpsilonTable(rounds, wanted, np.zeros_like(found.lower), found.upper, computed_lower=found.lower)
    return EpsilonTable(rounds, wanted, found.lower, found.upper)
