"""Quick upper bounds on δ and ε of many products at once, by Rényi divergences: they say which need no closer look.

Mironov 2017, Proposition 3, with the conversion of Canonne, Kamath & Steinke 2020, Proposition 12. The mass δ' that
`ApproximateDP` reveals is taken apart: it adds at most 1 - (1 - δ')^r.
"""

import math
from collections.abc import Sequence

import numpy as np

from pbdist.errors import PbdistError
from pbdist.granularity.release.resolved import Resolved
from pbdist.mechanisms import ApproximateDP, ElementaryPair
from pbdist.renyi import closest_bounds
from pbdist.theorems.renyi import log_improvement
from pbdist.types import Direction, FloatArray, IntArray

_ORDERS: FloatArray = np.array([1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 19.0, 28.0, 41.0, 60.0, 100.0, 200.0])
#: Relative width of a divergence that is good enough here.
_WIDTH = 1e-2
#: What all roundings here stay below, relatively.
_SLACK = 1e-9


class QuickBounds:
    """Upper bounds of products, the larger of the two directions.

    Parameters
    ----------
    products : sequence of Resolved
        P of them.
    """

    def __init__(self, products: Sequence[Resolved]) -> None:
        known: dict[ElementaryPair, tuple[FloatArray, float]] = {}
        self._divergence: FloatArray = np.zeros((2, len(products), _ORDERS.size))
        #: Of each product the sum of -ln(1 - δ') over all factors that reveal the mass δ'.
        self._revealed: FloatArray = np.zeros(len(products))
        for row, product in enumerate(products):
            for factor, count in product.factors:
                if factor not in known:
                    known[factor] = _divergences(factor)
                divergence, revealed = known[factor]
                self._divergence[:, row] += count * divergence
                self._revealed[row] += count * revealed

    def far_loss(self, rounds: int) -> float:
        """Return a loss that all products with known divergences exceed with a probability of at most 1e-13, nats."""
        ends = np.min(rounds * self._divergence + 30.0 / (_ORDERS - 1.0), axis=-1)
        return float(np.max(ends[np.isfinite(ends)], initial=1.0))

    def log_delta(self, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ, shape (P, R, E)."""
        improvement = log_improvement(_ORDERS)
        found = []
        for r in rounds.tolist():
            total = r * self._divergence[:, :, None, :]
            logs = (_ORDERS - 1.0) * (total - epsilon[:, None]) + improvement
            size = 1.0 + _ORDERS * (1.0 + np.where(np.isfinite(total), total, 0.0) + epsilon[:, None])
            best = np.max(np.min(logs + _SLACK * size, axis=-1), axis=0)
            revealed = -np.expm1(-r * self._revealed * (1.0 + _SLACK))
            with np.errstate(divide="ignore"):
                found.append(np.logaddexp(np.minimum(best, 0.0), np.log(revealed)[:, None]) + _SLACK)
        return np.stack(found, axis=1)

    def epsilon(self, rounds: IntArray, delta: FloatArray) -> FloatArray:
        """Return upper bounds on ε, shape (P, R, D); infinite where none is known."""
        improvement = log_improvement(_ORDERS)
        found = []
        for r in rounds.tolist():
            total = r * self._divergence[:, :, None, :]
            revealed = -np.expm1(-r * self._revealed * (1.0 + _SLACK)) * (1.0 + _SLACK)
            left = delta - revealed[:, None]
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.where(left > 0.0, np.log(left), -np.inf)[:, :, None]
                best = np.min(total + (improvement - logs) / (_ORDERS - 1.0), axis=-1)
            found.append(np.maximum(np.max(best, axis=0), 0.0) * (1.0 + _SLACK) + _SLACK)
        return np.stack(found, axis=1)


def _divergences(factor: ElementaryPair) -> tuple[FloatArray, float]:
    """Return upper bounds of D_α in both directions, shape (2, orders), and -ln(1 - δ') of what is revealed."""
    if isinstance(factor, ApproximateDP):
        if factor.delta == 1.0:
            return np.full((2, _ORDERS.size), np.inf), 0.0
        # Of randomized response with odds e^ε.
        one = factor.epsilon
        log = np.logaddexp(_ORDERS * one, (1.0 - _ORDERS) * one) - np.logaddexp(0.0, one)
        divergence = (log + _SLACK * (1.0 + _ORDERS * one)) / (_ORDERS - 1.0)
        return np.stack([divergence, divergence]), -math.log1p(-factor.delta) * (1.0 + _SLACK)
    sides = (Direction.A_TO_B,) * 2 if factor.symmetric else tuple(Direction)
    found = [[_closest(factor, order, side) for order in _ORDERS.tolist()] for side in dict.fromkeys(sides)]
    return np.array(found if len(found) == 2 else found * 2), 0.0


def _closest(factor: ElementaryPair, order: float, side: Direction) -> float:
    try:
        return closest_bounds(factor, order, side, _WIDTH).upper
    except PbdistError:
        # Nothing is known: such a product is looked at closely.
        return math.inf
