"""The largest δ and ε of many products, of which only those are computed that may have it.

Quick upper bounds come first. The product with the largest one is computed, then every other whose quick bound is above
the lower bounds of those computed, until none is left: the others are proved smaller. That is exact, as every pruned δ
is at most a computed lower bound.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pbdist.granularity.release.renyi_bounds import QuickBounds
from pbdist.granularity.release.resolved import Resolved
from pbdist.granularity.release.spectra import LARGEST_LOSS, Spectra
from pbdist.mechanisms import Pair
from pbdist.progress import report
from pbdist.table import bounds_table, epsilon_table_of
from pbdist.types import FloatArray, IntArray

#: Fewer products are all computed.
_FEW = 3
#: The logarithm of a δ by which the first product is chosen; nothing is left out by it.
_FAINTEST = -1e4


@dataclass(frozen=True, eq=False)
class Largest:
    """Bounds on the largest of several quantities.

    Attributes
    ----------
    lower, upper : ndarray, shape (R, K)
        Natural logarithms for δ, nats for ε. The lower bounds are of products that are attained, and NaN where none is.
    computed : int
        How many products were computed.
    """

    lower: FloatArray
    upper: FloatArray
    computed: int


def largest_delta(
    products: Sequence[Resolved], rounds: IntArray, epsilon: FloatArray, *, tolerance: float | None
) -> Largest:
    """Bound ln δ of the worst product, the larger of the two directions, over (r, ε)."""

    def compute(product: Resolved) -> tuple[FloatArray, FloatArray]:
        table = bounds_table(
            _components(product),
            compositions=rounds,
            epsilon=epsilon,
            tolerance=tolerance,
            strict=False,
            joint_directions=True,
            accept_unimprovable=True,
        )
        return table.log_delta_lower.max(axis=0), table.log_delta_upper.max(axis=0)

    def excess(screen: _Screen, indices: IntArray, best: FloatArray) -> FloatArray:
        found = np.full(indices.size, -1.0)
        left = (screen.renyi_log_delta(indices, epsilon) > best).any(axis=(1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            close = [np.log(screen.delta(indices[left], r, epsilon)) for r in rounds.tolist()]
            above = np.stack(close, axis=1) - best
        # Where both are of 0, nothing is above.
        found[left] = np.max(np.where(np.isnan(above), 0.0, above), axis=(1, 2), initial=-np.inf)
        return found

    return _largest(products, rounds, compute, excess, np.full((rounds.size, epsilon.size), -np.inf))


def largest_epsilon(
    products: Sequence[Resolved], rounds: IntArray, delta: FloatArray, *, tolerance: float | None
) -> Largest:
    """Bound ε of the worst product, with which both directions meet δ, over (r, δ)."""

    def compute(product: Resolved) -> tuple[FloatArray, FloatArray]:
        table = epsilon_table_of(
            _components(product), compositions=rounds, delta=delta, tolerance=tolerance, joint_directions=True
        )
        return table.lower.max(axis=0), table.upper.max(axis=0)

    def excess(screen: _Screen, indices: IntArray, best: FloatArray) -> FloatArray:
        found = np.full(indices.size, -1.0)
        left = (screen.renyi_epsilon(indices, delta) > best).any(axis=(1, 2))
        # ε is at most the best one where δ is met there.
        close = [screen.delta(indices[left], r, row) - delta for r, row in zip(rounds.tolist(), best, strict=True)]
        found[left] = np.max(np.stack(close, axis=1), axis=(1, 2), initial=-np.inf)
        return found

    return _largest(products, rounds, compute, excess, np.zeros((rounds.size, delta.size)))


def _components(product: Resolved) -> list[tuple[Pair, int]]:
    return sorted(product.factors, key=repr)


class _Screen:
    """Quick upper bounds of products: by Rényi divergences, and closer by spectra of those that are asked for."""

    def __init__(self, products: Sequence[Resolved], rounds: IntArray) -> None:
        self._products, self._rounds = products, rounds
        self._renyi = QuickBounds(products)

    @cached_property
    def _spectra(self) -> Spectra:
        return Spectra(self._products, min(self._renyi.far_loss(int(self._rounds.max())), LARGEST_LOSS))

    def renyi_log_delta(self, indices: IntArray, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on ln δ, shape (n, R, E)."""
        return self._renyi.log_delta(self._rounds, epsilon)[indices]

    def renyi_epsilon(self, indices: IntArray, delta: FloatArray) -> FloatArray:
        """Return upper bounds on ε, shape (n, R, D)."""
        return self._renyi.epsilon(self._rounds, delta)[indices]

    def delta(self, indices: IntArray, rounds: int, epsilon: FloatArray) -> FloatArray:
        """Return close upper bounds on δ, shape (n, E)."""
        return self._spectra.delta(indices, rounds, epsilon)


def _largest(
    products: Sequence[Resolved],
    rounds: IntArray,
    compute: Callable[[Resolved], tuple[FloatArray, FloatArray]],
    excess: Callable[[_Screen, IntArray, FloatArray], FloatArray],
    nothing: FloatArray,
) -> Largest:
    """Compute the products that may be the worst, and return bounds on the largest of all.

    `excess` returns for some products by how much a quick upper bound is above the best lower bounds, at the point
    where it is most so; a product without any is proved smaller.
    """
    telling = [one for one in products if one.factors]
    attained = np.array([one.attained for one in telling], dtype=bool)
    if not telling:
        there = any(one.attained for one in products)
        return Largest(nothing if there else np.full_like(nothing, np.nan), nothing, 0)
    screen = _Screen(telling, rounds) if len(telling) > _FEW else None
    found: dict[int, tuple[FloatArray, FloatArray]] = {}
    for allowed in (np.arange(len(telling)), np.flatnonzero(attained)):
        left, best = allowed, nothing
        if known := [low for index, (low, _) in found.items() if index in allowed]:
            best = np.max(known, axis=0)
        while left.size:
            left = np.array([index for index in left.tolist() if index not in found], dtype=np.int64)
            if not left.size:
                break
            order = np.zeros(left.size)
            if screen is not None:
                # Before anything is known all are infinitely more; a faint δ tells the first one.
                order = excess(screen, left, best if found else np.maximum(best, _FAINTEST))
                beaten = (order <= 0.0) & bool(found)
                left, order = left[~beaten], order[~beaten]
            if not left.size:
                break
            chosen = int(left[np.argmax(order)])
            found[chosen] = compute(telling[chosen])
            best = np.maximum(best, found[chosen][0])
            report("profile =", len(found), len(found) + left.size - 1)
    lowers = [low for index, (low, _) in found.items() if attained[index]]
    uppers = np.max([high for _, high in found.values()], axis=0)
    return Largest(
        lower=np.max(lowers, axis=0) if lowers else np.full_like(uppers, np.nan),
        upper=uppers,
        computed=len(found),
    )
