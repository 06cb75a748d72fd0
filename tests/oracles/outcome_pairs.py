"""Pairs given outcome by outcome in many digits: δ of a few rounds by going through all products of outcomes."""

import warnings
from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any

import mpmath
import numpy as np

from pbdist import PrecisionWarning, privacy_bounds
from pbdist.mechanisms import Pair
from pbdist.types import Direction

__all__ = ["Outcomes", "delta_of", "epsilons_about", "violations"]

#: P_A and P_B of each outcome.
Outcomes = Sequence[tuple[mpmath.mpf, mpmath.mpf]]

#: What the digits, and outcomes that were left out, may change.
_UNTOLD = mpmath.mpf(10) ** -45


def delta_of(outcomes: Outcomes, rounds: int, epsilon: float, direction: Direction) -> mpmath.mpf:
    """Return δ(ε) after so many rounds: the sum over all sequences of outcomes."""
    side = outcomes if direction is Direction.A_TO_B else [(b, a) for a, b in outcomes]
    y = mpmath.exp(mpmath.mpf(epsilon))
    total = mpmath.mpf(0)
    for chosen in product(side, repeat=rounds):
        gain = prod((a for a, _ in chosen), start=mpmath.mpf(1)) - y * prod((b for _, b in chosen), start=mpmath.mpf(1))
        if gain > 0:
            total += gain
    return total


def epsilons_about(outcomes: Outcomes, rng: np.random.Generator, most: float = 600.0) -> list[float]:
    """Return ε at 0, at a loss, at a sum of losses, and in between; none above `most`, for e^ε of what is left out."""
    losses = [float(mpmath.log(a / b)) for a, b in outcomes if a > 0 and b > 0]
    first, second = (abs(float(rng.choice(losses))) if losses else 1.0 for _ in range(2))
    found = {0.0, first, first + second, float(rng.uniform(0.0, 1.2)) * (first + 1e-3)}
    return sorted(min(value, most) for value in found)


def violations(
    pair: Pair,
    outcomes: Outcomes,
    epsilon: Sequence[float],
    *,
    rounds: Sequence[int] = (1, 2),
    **arguments: Any,
) -> int:
    """Return how many bounds of a pair, in both directions, lie on the wrong side of the exact δ."""
    epsilon = sorted(set(epsilon))
    with warnings.catch_warnings():
        # Wide bounds are not wrong.
        warnings.simplefilter("ignore", PrecisionWarning)
        found = privacy_bounds(
            pair, compositions=list(rounds), epsilon=list(epsilon), direction="each", tolerance=0.01, **arguments
        )
    wrong = 0
    for r, e, direction in product(rounds, epsilon, Direction):
        here = {"compositions": r, "epsilon": e, "direction": direction.value}
        lower, upper = found.delta_lower.sel(here).item(), found.delta_upper.sel(here).item()
        exact = delta_of(outcomes, r, e, direction)
        if not lower - _UNTOLD <= exact <= upper + _UNTOLD:
            wrong += 1
            print(f"{pair!r}, r {r}, ε {e!r}, {direction.value}: expected {lower!r} <= {exact} <= {upper!r}")
    return wrong
