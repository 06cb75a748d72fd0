"""The largest δ and ε of many products, of which only those are computed that may have it.

Quick upper bounds come first. The product with the largest one is computed, then every other whose quick bound is above
the lower bounds of those computed, until none is left: the others are proved smaller. That is exact, as every pruned δ
is at most a computed lower bound.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from pbdist.errors import PbdistError
from pbdist.fourier.transform import forward, inverse, transform_error
from pbdist.granularity.release.products import Resolved
from pbdist.mechanisms import UNIT_ROUNDOFF, ApproximateDP, ElementaryPair, Pair
from pbdist.pld.leaf import Lattice, leaf_state
from pbdist.progress import report
from pbdist.renyi import closest_bounds
from pbdist.table import bounds_table, epsilon_table_of
from pbdist.theorems.renyi import log_improvement
from pbdist.types import Direction, FloatArray, IntArray

_ORDERS: FloatArray = np.array([1.05, 1.25, 1.5, 2.0, 3.0, 4.0, 6.0, 9.0, 13.0, 19.0, 28.0, 41.0, 60.0, 100.0, 200.0])
#: Relative width of a divergence that is good enough here.
_WIDTH = 1e-2
#: What all roundings here stay below, relatively.
_SLACK = 1e-9


class QuickBounds:
    """Quick upper bounds on δ of P products at once, the larger of the two directions, by Rényi divergences.

    Mironov 2017, Proposition 3, with the conversion of Canonne, Kamath & Steinke 2020, Proposition 12. The mass δ' that
    `ApproximateDP` reveals is taken apart: it adds at most 1 - (1 - δ')^r.
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
        """Return upper bounds on ln δ, shape (P, R, E), at ε of shape (R, E)."""
        improvement = log_improvement(_ORDERS)
        found = []
        for r, losses in zip(rounds.tolist(), epsilon[:, :, None], strict=True):
            total = r * self._divergence[:, :, None, :]
            logs = (_ORDERS - 1.0) * (total - losses) + improvement
            size = 1.0 + _ORDERS * (1.0 + np.where(np.isfinite(total), total, 0.0) + losses)
            best = np.max(np.min(logs + _SLACK * size, axis=-1), axis=0)
            revealed = -np.expm1(-r * self._revealed * (1.0 + _SLACK))
            with np.errstate(divide="ignore"):
                found.append(np.logaddexp(np.minimum(best, 0.0), np.log(revealed)[:, None]) + _SLACK)
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


#: Positions of the lattice.
_LENGTH = 1 << 13
#: Larger losses have exponentials that are no floats, nats.
LARGEST_LOSS = 600.0
#: Losses that are moved farther than this tell nothing, nats.
_FARTHEST_MOVED = 100.0
#: Powers of spectra in the cache.
_MAX_POWERS = 500
#: Exponents t of the moments.
_TILTS: FloatArray = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0])


class Spectra:
    """Close upper bounds on δ of products of a few pairs, by one Fourier transform each.

    Each pair is dominated by one on a common lattice (`pbdist.pld.leaf`, docs/pld.md). The spectra of its P_A masses
    are computed once; of a product they are multiplied, raised to the number of rounds, and transformed back. What is
    added pays for

    - infinite losses: they have at most the sum of the masses at infinity of all factors, times those of the others;
    - losses beyond the lattice, which wrap around: Markov's inequality for e^(t L), L the loss of the dominating
      product;
    - rounding: of m factors in all, each spectrum errs by `transform_error` at every frequency and is at most 1, so
      that the result errs by (m + 1) times that in the 2-norm, and in the sum over N positions by √N times as much.

    Parameters
    ----------
    products : sequence of Resolved
    largest : float
        The largest total loss that the lattice should hold, nats; at most `LARGEST_LOSS`.
    """

    def __init__(self, products: Sequence[Resolved], largest: float) -> None:
        self._products = products
        factors = list(dict.fromkeys(factor for one in products for factor, _ in one.factors))
        self._number = {factor: index for index, factor in enumerate(factors)}
        # Half of the positions are for negative losses.
        self._spacing = 2.0 * largest / _LENGTH
        leaves = [self._leaf(factor) for factor in factors]
        self._spectrum = np.stack([spectrum for spectrum, *_ in leaves])
        self._log_moment = np.stack([moment for _, moment, *_ in leaves])
        self._infinite = np.stack([infinite for _, _, infinite, _ in leaves])
        # Of all masses, the infinite ones too: rounding up may lift them above 1.
        whole = np.abs(self._spectrum[:, :, 0]) + self._infinite
        self._log_total = np.log(np.maximum(whole.max(axis=1), 1.0)) + 1e-12
        self._powers: dict[tuple[int, float], npt.NDArray[np.complex128]] = {}
        self._shift = np.array([shift for *_, shift in leaves])

    def _leaf(self, factor: ElementaryPair) -> tuple[npt.NDArray[np.complex128], FloatArray, FloatArray, float]:
        """Return spectra and logarithms of moments of both directions, masses at infinity, and the shift of losses."""
        h = self._spacing
        end = _LENGTH // 2 - 1
        lattice = Lattice(h, 1, (-end, end), -end, end)
        state = leaf_state(factor.scaled_loss_masses(lattice.edges), lattice, ())
        row = state.dominating.core
        spectra, moments = [], []
        for direction in Direction:
            own = row if direction is Direction.A_TO_B else row.swapped()
            exponent = 0.5 * own.losses
            masses = own.u * np.exp(exponent) * (1.0 + (8.0 + 2.0 * np.abs(exponent)) * UNIT_ROUNDOFF)
            placed = np.zeros(_LENGTH)
            placed[np.arange(own.first, own.first + own.size) % _LENGTH] = masses
            spectra.append(forward(placed, _LENGTH))
            # Where no loss is finite there is no moment.
            with np.errstate(divide="ignore", invalid="ignore"):
                logs = np.log(masses)
                tilted = logs + _TILTS[:, None] * own.losses
                highest = tilted.max(axis=1)
                moments.append(highest + np.log(np.exp(tilted - highest[:, None]).sum(axis=1)) + 1e-9)
        return np.stack(spectra), np.stack(moments), np.array(state.dominating.infinite) * (1.0 + 1e-12), state.shift

    def delta(self, indices: IntArray, rounds: int, epsilon: FloatArray) -> FloatArray:
        """Return upper bounds on δ after some rounds, the larger of the two directions, shape (n, E)."""
        found = np.ones((indices.size, epsilon.size))
        for place, index in enumerate(indices.tolist()):
            factors = self._products[index].factors
            numbers = [self._number[factor] for factor, _ in factors]
            counts = np.array([count * rounds for _, count in factors], dtype=np.float64)
            found[place] = self._of_product(numbers, counts, epsilon)
        return found

    def _power(self, number: int, count: float) -> npt.NDArray[np.complex128]:
        key = (number, count)
        if key not in self._powers:
            if len(self._powers) >= _MAX_POWERS:
                self._powers.clear()
            with np.errstate(all="ignore"):
                self._powers[key] = self._spectrum[number] ** count
        return self._powers[key]

    def _of_product(self, numbers: Sequence[int], counts: FloatArray, epsilon: FloatArray) -> FloatArray:
        h, half = self._spacing, _LENGTH // 2
        total = float(counts.sum())
        grown = math.exp(min(float(counts @ self._log_total[numbers]), 700.0))
        error = grown * (total + 2.0) * (transform_error(_LENGTH) + 32.0 * UNIT_ROUNDOFF) * 2.0 * math.sqrt(_LENGTH)
        moved = float(counts @ self._shift[numbers]) * (1.0 + 1e-12)
        tails = np.einsum("f,fdt->dt", counts, self._log_moment[numbers]) - _TILTS * (half - 1) * h
        beyond = np.exp(np.minimum(np.min(tails, axis=1), 700.0))
        infinite = grown * (counts @ self._infinite[numbers])
        spectrum = self._power(numbers[0], counts[0])
        for number, count in zip(numbers[1:], counts[1:], strict=True):
            spectrum = spectrum * self._power(number, count)
        masses = inverse(spectrum, _LENGTH)[:, :half]
        share = -np.expm1(np.minimum(epsilon[:, None] - moved - h * np.arange(half), 0.0))
        if moved > _FARTHEST_MOVED:
            return np.ones(epsilon.size)
        delta = (masses @ share.T + (infinite + beyond + error)[:, None]) * math.exp(moved) * (1.0 + 1e-9)
        return np.asarray(np.minimum(np.where(np.isnan(delta), 1.0, delta), 1.0).max(axis=0))


#: Fewer products are all computed.
_FEW = 3
#: The logarithm of a δ by which the first product is chosen; nothing is left out by it.
_FAINTEST = -1e4


@dataclass(frozen=True, eq=False)
class Largest:
    """Bounds on the largest of several quantities, shape (R, K): natural logarithms for δ, nats for ε.

    The lower bounds are of products that are attained, and NaN where none is.
    """

    lower: FloatArray
    upper: FloatArray
    computed: int


#: Returns bounds on the quantity of a product, shape (R, K).
_Compute: TypeAlias = Callable[[list[tuple[Pair, int]]], tuple[FloatArray, FloatArray]]
#: Returns ε and ln δ, shape (R, K): a product whose δ at that ε is at most that has no more than some best values.
_Points: TypeAlias = Callable[[FloatArray], tuple[FloatArray, FloatArray]]


def largest_delta(
    products: Sequence[Resolved], rounds: IntArray, epsilon: FloatArray, *, tolerance: float | None
) -> Largest:
    """Bound ln δ of the worst product, the larger of the two directions, over (r, ε)."""

    def compute(components: list[tuple[Pair, int]]) -> tuple[FloatArray, FloatArray]:
        table = bounds_table(
            components,
            compositions=rounds,
            epsilon=epsilon,
            tolerance=tolerance,
            strict=False,
            joint_directions=True,
        )
        return table.log_delta_lower.max(axis=0), table.log_delta_upper.max(axis=0)

    # Before anything is known all are infinitely more than nothing; a faint δ chooses the first one.
    nothing = np.full((rounds.size, epsilon.size), -np.inf)
    grid = np.broadcast_to(epsilon, nothing.shape)
    return _largest(products, rounds, compute, lambda best: (grid, best), nothing)


def largest_epsilon(
    products: Sequence[Resolved], rounds: IntArray, delta: FloatArray, *, tolerance: float | None
) -> Largest:
    """Bound ε of the worst product, with which both directions meet δ, over (r, δ)."""

    def compute(components: list[tuple[Pair, int]]) -> tuple[FloatArray, FloatArray]:
        table = epsilon_table_of(
            components, compositions=rounds, delta=delta, tolerance=tolerance, joint_directions=True
        )
        return table.lower.max(axis=0), table.upper.max(axis=0)

    nothing = np.zeros((rounds.size, delta.size))
    targets = np.broadcast_to(np.log(delta), nothing.shape)
    return _largest(products, rounds, compute, lambda best: (best, targets), nothing)


class _Screen:
    """Quick upper bounds of products: by Rényi divergences, and closer by spectra of those that these leave."""

    def __init__(self, products: Sequence[Resolved], rounds: IntArray) -> None:
        self._products, self._rounds = products, rounds
        self._quick = QuickBounds(products)

    @cached_property
    def _spectra(self) -> Spectra:
        return Spectra(self._products, min(self._quick.far_loss(int(self._rounds.max())), LARGEST_LOSS))

    def excess(self, indices: IntArray, epsilon: FloatArray, log_delta: FloatArray) -> FloatArray:
        """Return by how much ln δ of products may be above the given values, where it is most so; at most 0 for none.

        Both are of shape (R, K).
        """
        found = np.full(indices.size, -1.0)
        left = (self._quick.log_delta(self._rounds, epsilon)[indices] > log_delta).any(axis=(1, 2))
        with np.errstate(divide="ignore", invalid="ignore"):
            close = [
                np.log(self._spectra.delta(indices[left], r, row))
                for r, row in zip(self._rounds.tolist(), epsilon, strict=True)
            ]
            above = np.stack(close, axis=1) - log_delta
        # Where both are of 0, nothing is above.
        found[left] = np.max(np.where(np.isnan(above), 0.0, above), axis=(1, 2), initial=-np.inf)
        return found


def _largest(
    products: Sequence[Resolved],
    rounds: IntArray,
    compute: _Compute,
    points: _Points,
    nothing: FloatArray,
) -> Largest:
    """Compute the products that may be the worst, and return bounds on the largest of all.

    `nothing` is the least value of the quantity.
    """
    informative = [one for one in products if one.factors]
    attained = np.array([one.attained for one in informative], dtype=bool)
    if not informative:
        there = any(one.attained for one in products)
        return Largest(nothing if there else np.full_like(nothing, np.nan), nothing, 0)
    screen = _Screen(informative, rounds) if len(informative) > _FEW else None
    found: dict[int, tuple[FloatArray, FloatArray]] = {}
    for allowed in (np.arange(len(informative)), np.flatnonzero(attained)):
        left, best = allowed, nothing
        if known := [low for index, (low, _) in found.items() if index in allowed]:
            best = np.max(known, axis=0)
        while (left := np.array([index for index in left.tolist() if index not in found], dtype=np.int64)).size:
            order = np.zeros(left.size)
            if screen is not None:
                order = screen.excess(left, *points(best if found else np.maximum(best, _FAINTEST)))
                beaten = (order <= 0.0) & bool(found)
                left, order = left[~beaten], order[~beaten]
            if not left.size:
                break
            chosen = int(left[np.argmax(order)])
            found[chosen] = compute(sorted(informative[chosen].factors, key=repr))
            best = np.maximum(best, found[chosen][0])
            report("profile =", len(found), len(found) + left.size - 1)
    lowers = [low for index, (low, _) in found.items() if attained[index]]
    uppers = np.max([high for _, high in found.values()], axis=0)
    return Largest(
        lower=np.max(lowers, axis=0) if lowers else np.full_like(uppers, np.nan),
        upper=uppers,
        computed=len(found),
    )
