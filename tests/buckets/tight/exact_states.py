"""Tilted masses as the masses that they stand for, in 60 digits: what the tests of the engine's parts compare."""

import math
import random
from collections.abc import Sequence

import mpmath
import numpy as np

from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LOG_TOTAL_A,
    LOG_TOTAL_B,
    LOG_TOTAL_DOMINATING,
    RATE_A,
    RATE_B,
    RATE_DOMINATING,
    SCALARS,
    TiltedMasses,
)

#: Columns of the total and of the rate of the mass at infinity, by row.
INFINITE = ((LOG_TOTAL_DOMINATING, RATE_DOMINATING), (LOG_TOTAL_A, RATE_A), (LOG_TOTAL_B, RATE_B))

Masses = dict[mpmath.mpf, mpmath.mpf]


def random_state(draw: random.Random, *, size: int, width: float, tilt: float) -> TiltedMasses:
    """A state with weights that sum to 1, whose rows describe pairs of their own, each with more room than it takes."""
    rows = np.array([[draw.random() if draw.random() < 0.7 else 0.0 for _ in range(size)] for _ in range(3)])
    rows[:, draw.randrange(size)] += 0.1
    if draw.random() < 0.3:
        rows *= np.exp(-np.arange(size) * draw.random() * 20.0)
    rows /= rows.sum(axis=-1)[:, None]
    origin = 2 * draw.randrange(-size, size)
    additive = np.zeros((1, SCALARS))
    additive[0, HIGHEST] = 1e9
    state = TiltedMasses(
        width=width,
        tilt=tilt,
        stride=1,
        origins=((origin, origin - 1),),
        weights=rows[None],
        log_scale=np.array([[draw.uniform(-3.0, 3.0) for _ in range(3)]]),
        log_scale_error=np.zeros((1, 3)),
        error=np.zeros((1, 3)),
        additive=additive,
    )
    for row, (total, rate) in enumerate(INFINITE):
        additive[0, rate] = draw.choice([0.0, 1e-12, 0.1])
        additive[0, total] = float(mpmath.log(1.5 * mpmath.fsum(masses(state, row).values()))) + additive[0, rate]
    return state


def positions(state: TiltedMasses, row: int) -> list[mpmath.mpf]:
    """The positions as the exact multiples of half a width that they stand for."""
    half = mpmath.mpf(state.width) / 2
    return [half * (state.origins[0][min(row, 1)] + 2 * state.stride * i) for i in range(state.size)]


def masses(state: TiltedMasses, row: int, member: int = 0) -> Masses:
    """P_A masses of `DOMINATING` and `EXACT_A`, P_B masses of `EXACT_B`, by position."""
    tilt = mpmath.mpf(state.tilt) + (1 if row == EXACT_B else 0)
    scale = mpmath.mpf(float(state.log_scale[member, row]))
    weights = state.weights[member, row].tolist()
    return {
        x: mpmath.mpf(w) * mpmath.exp(scale - tilt * x)
        for x, w in zip(positions(state, row), weights, strict=True)
        if w > 0.0
    }


def weight_of(state: TiltedMasses, row: int, taken: Masses, member: int = 0) -> Masses:
    """The masses as weights on the scale of a state."""
    tilt = mpmath.mpf(state.tilt) + (1 if row == EXACT_B else 0)
    scale = mpmath.mpf(float(state.log_scale[member, row]))
    return {x: mass * mpmath.exp(tilt * x - scale) for x, mass in taken.items()}


def distance(left: Masses, right: Masses) -> mpmath.mpf:
    """Σ |left - right| over positions, which agree in all but the last of the 60 digits."""
    total = mpmath.mpf(0)
    rest = {mpmath.nstr(x, 40): mass for x, mass in right.items()}
    for x, mass in left.items():
        total += abs(mass - rest.pop(mpmath.nstr(x, 40), mpmath.mpf(0)))
    return total + mpmath.fsum(rest.values())


def infinite(state: TiltedMasses, total: int, rate: int, member: int = 0) -> mpmath.mpf:
    """Mass at infinity."""
    return mpmath.exp(mpmath.mpf(float(state.additive[member, total]))) * -mpmath.expm1(
        -mpmath.mpf(float(state.additive[member, rate]))
    )


def dominating_delta(taken: Masses, at_infinity: mpmath.mpf, epsilon: float) -> mpmath.mpf:
    """δ of the pair on the grid."""
    return at_infinity + mpmath.fsum(-mass * mpmath.expm1(epsilon - x) for x, mass in taken.items() if x > epsilon)


def exact_delta(a: Masses, b: Masses, at_infinity: Sequence[mpmath.mpf], epsilon: float) -> mpmath.mpf:
    """δ of the pair of cell masses."""
    y = mpmath.exp(mpmath.mpf(epsilon))
    return max(at_infinity[0] - y * at_infinity[1], mpmath.mpf(0)) + mpmath.fsum(
        max(mass - y * b.get(x, mpmath.mpf(0)), mpmath.mpf(0)) for x, mass in a.items()
    )


def state_deltas(state: TiltedMasses, epsilon: float) -> tuple[mpmath.mpf, mpmath.mpf]:
    """δ of the cell masses and of the dominating pair of a state, its errors aside."""
    lower = exact_delta(
        masses(state, EXACT_A),
        masses(state, EXACT_B),
        (infinite(state, *INFINITE[EXACT_A]), infinite(state, *INFINITE[EXACT_B])),
        epsilon,
    )
    at_infinity = infinite(state, *INFINITE[DOMINATING])
    return lower, dominating_delta(masses(state, DOMINATING), at_infinity, epsilon)


def worth(state: TiltedMasses, row: int, epsilon: float) -> mpmath.mpf:
    """What the error of a row can be worth in δ: T times the largest of e^(κ-θℓ) (1 - e^(ε-ℓ)) over any ℓ."""
    tilt = state.tilt
    factor = math.exp(-tilt * math.log1p(1.0 / tilt)) / (1.0 + tilt) if tilt > 0.0 else 1.0
    scale = mpmath.mpf(float(state.log_scale[0, row] + state.log_scale_error[0, row]))
    return mpmath.mpf(float(state.error[0, row])) * factor * mpmath.exp(scale - tilt * mpmath.mpf(epsilon))
