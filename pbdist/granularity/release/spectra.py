"""Upper bounds on δ of many products of a few pairs, by one Fourier transform each: close, and quick.

Each pair is dominated by one on a common lattice (`pbdist.pld.leaf`, docs/pld.md). The spectra of its P_A masses are
kept; of a product they are multiplied, raised to the number of rounds, and transformed back. What is added pays for

- infinite losses: they have at most the sum of the masses at infinity of all factors, times the masses of the others;
- losses beyond the lattice, which wrap around: Markov's inequality for e^(t L), L the loss of the dominating product;
- rounding: of m factors in all, each spectrum errs by `transform_error` at every frequency and is at most 1, so that
  the result errs by (m + 1) times that in the 2-norm, and in the sum over N positions by √N times as much.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from pbdist.fourier.transform import forward, inverse, transform_error
from pbdist.granularity.release.resolved import Resolved
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.pld.leaf import Lattice, leaf_state
from pbdist.types import Direction, FloatArray, IntArray

#: Positions of the lattice.
_LENGTH = 1 << 13
#: Larger losses have exponentials that are no floats, nats.
LARGEST_LOSS = 600.0
#: Losses that are moved farther than this tell nothing, nats.
_FARTHEST_MOVED = 100.0
#: Powers of spectra that are kept.
_MOST_POWERS = 500
#: Exponents t of the moments.
_TILTS: FloatArray = np.array([0.05, 0.1, 0.2, 0.4, 0.8, 1.5, 3.0, 6.0, 12.0, 25.0, 50.0, 100.0])


class Spectra:
    """Spectra of the pairs of some products.

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
            # Where no loss is finite there is no moment; nothing is told then.
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
            if len(self._powers) >= _MOST_POWERS:
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
