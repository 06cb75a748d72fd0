"""A table of δ bounds: one leaf and one ladder of compositions serve every r and ε of a noise setting."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.buckets.arguments import (
    Precision,
    checked_components,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_factor,
    checked_precision,
)
from pbdist.buckets.bucket_table import BoundsTable, bucket_table
from pbdist.buckets.composition import IN_MEMORY
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule
from pbdist.buckets.tight.delta import delta_above, delta_below
from pbdist.buckets.tight.inversion import epsilon_table
from pbdist.buckets.tight.table import factor_counts, tight_bounds
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Pair
from pbdist.types import FloatArray, IntArray

__all__ = [
    "METHODS",
    "BoundsTable",
    "EpsilonTable",
    "bounds_table",
    "epsilon_table_of",
]

#: The ways to compute bounds.
METHODS = ("tight", "buckets")


def bounds_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    method: str = "tight",
    tolerance: float | None = None,
    buckets: int | None = None,
    factor: float | None = None,
    keep_states: bool = False,
    strict: bool = True,
    rule: SquaringRule = SHARP_RULE,
) -> BoundsTable:
    """Compute bounds for every r and ε asked for.

    Parameters
    ----------
    components : sequence of (Pair, int)
        What one round consists of: each pair, and how often it occurs in a round.
    compositions : array_like of int, shape (R,)
        Numbers of rounds, at least 1.
    epsilon : array_like of float, shape (E,)
        ε >= 0, nats.
    method : {"tight", "buckets"}, optional
        "tight" (`pbdist.buckets.tight`) or the method of Meiser & Mohammadi 2018.
    tolerance : float, optional
        With "tight": largest upper / lower - 1, by default 1e-3.
    buckets : int, optional
        Number of finite buckets, even. With "buckets" by default 100,000; with "tight" it takes the place of the
        tolerance: the leaf has about so many.
    factor : float, optional
        Bucket factor f > 1 of one round. With "buckets" by default chosen from the pairs and the largest r; with
        "tight" it takes the place of the tolerance, and the grid does not evolve.
    keep_states : bool, optional
        Whether to return the states too.
    strict : bool, optional
        With "tight": whether a tolerance that is not reached is an error.
    rule : SquaringRule, optional
        With "buckets": when to square; ``SquaringRule()`` is the paper's.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    PrecisionError
        If `strict` and the tolerance is not reached.
    """
    rounds = checked_compositions(compositions)
    losses = checked_epsilon(epsilon)
    parts = checked_components(components)
    width = None if factor is None else math.log1p(checked_factor(factor) - 1.0)
    if method not in METHODS:
        raise InvalidInputError(f"method: expected one of {', '.join(METHODS)}, got {shown(method)}")
    if method == "tight":
        return _tight_table(
            parts, rounds, losses, checked_precision(tolerance, buckets, width), keep_states=keep_states, strict=strict
        )
    if tolerance is not None:
        raise InvalidInputError(f"tolerance: expected none with method buckets, got {shown(tolerance)}")
    return bucket_table(
        parts, rounds, losses, IN_MEMORY, buckets=buckets, width=width, keep_states=keep_states, rule=rule
    )


@dataclass(frozen=True, eq=False)
class EpsilonTable:
    """Certified bounds on ε after r compositions at δ.

    Attributes
    ----------
    compositions : ndarray of int64, shape (R,)
    delta : ndarray, shape (D,)
    lower, upper : ndarray, shape (2, R, D)
        First axis: A||B, B||A; nats.
    """

    compositions: IntArray
    delta: FloatArray
    lower: FloatArray
    upper: FloatArray


def epsilon_table_of(
    components: Sequence[tuple[Pair, int]], *, compositions: Any, delta: Any, tolerance: Any
) -> EpsilonTable:
    """Bound ε for every r and δ asked for; parameters as for `bounds_table`, δ above 0 and below 1.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    rounds = checked_compositions(compositions)
    wanted = checked_delta(delta)
    parts = checked_components(components)
    precision = checked_precision(tolerance, None, None)
    found = epsilon_table(factor_counts(parts), rounds, wanted, tolerance=precision.tolerance)
    return EpsilonTable(rounds, wanted, found.lower, found.upper)


def _tight_table(
    parts: Sequence[tuple[Pair, int]],
    rounds: IntArray,
    losses: FloatArray,
    precision: Precision,
    *,
    keep_states: bool,
    strict: bool,
) -> BoundsTable:
    found = tight_bounds(
        factor_counts(parts),
        rounds,
        losses,
        tolerance=precision.tolerance,
        width=precision.width,
        buckets=precision.buckets,
        strict=strict,
        keep_states=keep_states,
    )
    limit = _largest_delta(parts)
    return BoundsTable(
        compositions=rounds,
        epsilon=losses,
        method="tight",
        loss_width=found.width,
        half_width=None,
        delta_lower=delta_below(found.log_lower),
        delta_upper=np.minimum(delta_above(found.log_upper), limit),
        log_delta_lower=found.log_lower,
        log_delta_upper=found.log_upper,
        states=found.states,
    )


def _largest_delta(parts: Sequence[tuple[Pair, int]]) -> float:
    """Return what no δ exceeds: 1, unless a histogram's masses sum to more."""
    totals = [max(factor.total_mass) for pair, _ in parts for factor in pair.factors]
    return 1.0 if max(totals) <= 1.0 else math.inf
