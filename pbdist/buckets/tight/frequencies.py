"""Compositions of many leaves, known by the few frequencies that are left of them.

The transform of a d-fold composition is the d-th power of one leaf's transform. Of a loss that is no lattice only the
lowest frequencies survive a high power, about as many as the composition's window has standard deviations. They are
computed one by one for the leaf's own grid, which therefore need not be made coarser, whatever d is; δ is a sum over
them (`frequency_delta`). The frequencies that are left out are bounded:

- *near 0*. For the tilted leaf w, of sum s, and D the difference of two independent indices drawn from it, cos x <=
  1 - x²/2 + x⁴/24 gives |ŵ(t)|² = s² E cos tD <= s² (1 - σ²t² + c t⁴) <= s² exp(-σ²t² + c t⁴), σ² = E D²/2 and
  c = E D⁴/24; up to t₁² = Σ dσ² / (4 Σ dc) the exponents add up to at most -¾ t² Σ dσ².
- *elsewhere*. Between two frequencies Δ apart |ŵ|² exceeds the larger of its values there by at most s² σ² Δ²/4, since
  its second derivative is at most E D² s²: a transform of a few times the leaf's length bounds it everywhere.

(Theorem 17 in ``docs/tight.md``.) Where that does not do, as for few leaves, lattices and the heaviest tails, there is
nothing to be had from here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from pbdist.buckets.tight.composition import carried
from pbdist.buckets.tight.state import ROWS, TiltedMasses
from pbdist.fourier.spectrum import raised, required
from pbdist.fourier.transform import EXTENDED_ROUNDOFF, forward, good_length, transform_error
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import ComplexArray, FloatArray, IntArray

__all__ = ["LONGEST_LOOK", "MOST_FREQUENCIES", "MOST_WORK", "FewFrequencies", "few_frequencies", "unit_roots"]

#: More frequencies, or products of frequencies and elements, than this take longer than transforms of everything.
MOST_FREQUENCIES, MOST_WORK = 2048, 1_000_000_000
#: Longest window: its length times a frequency's number is an int64.
_LONGEST = 1 << 50
#: Longest transform that looks for frequencies far from 0, and its steps: the first ones, and about the last.
LONGEST_LOOK, _COARSE, _FINE = 1 << 17, 0.25, 2e-3
#: 2π in both precisions.
_TWICE_PI: tuple[Any, Any] = (2.0 * math.pi, 2 * np.longdouble("3.14159265358979323846264338327950288"))
#: Rates of Chernoff's bound, as multiples of the reciprocal of the standard deviation.
_EXPONENTS: FloatArray = np.array([0.25, 1.0, 2.5, 4.0, 5.0, 6.0, 7.0, 8.5, 12.0])
_STEEPEST = 600.0
#: The lowest frequencies' exponent, 3/4 · 1/2, less the roundings of its own.
_NEAR = 0.3749


@dataclass(frozen=True, eq=False)
class FewFrequencies:
    """A stack of k compositions.

    Attributes
    ----------
    state : TiltedMasses
        All but the weights, of which there are none. ``error`` pays for the frequencies that are left out, too, where
        the weights are summed with factors that rise to at most 1 and fall again.
    length : int
        N: the weights are known on positions 0 .. N-1 of the state.
    coefficients : ndarray of complex, shape (k, 3, K + 1)
        c with w(m) = Re (c_0 + 2 Σ_j c_j e^{2πi jm/N}) / N.
    size : ndarray, shape (k, 3)
        No coefficient is larger.
    """

    state: TiltedMasses
    length: int
    coefficients: ComplexArray
    size: FloatArray


def few_frequencies(
    factors: Sequence[tuple[TiltedMasses, int]], outside: float, *, together: bool = False, extended: bool = False
) -> FewFrequencies | None:
    """Compose states.

    Parameters
    ----------
    factors : sequence of (TiltedMasses, int)
        Stacks of states of one width, tilt and stride, and how often each is taken.
    outside : float
        How much of the weight may lie outside the window of the result, in each row, and about how much the frequencies
        that are left out may be worth.
    together : bool, optional
        Whether the members of the stacks, of any number, are all factors of one composition; else all stacks have k
        members, and so has the result.
    extended : bool, optional
        Whether to compute the frequencies in extended precision.

    Returns
    -------
    FewFrequencies or None
        None where too many frequencies survive, or it cannot be shown that few do.
    """
    factors = [(state.normalised(0.1 / power), power) for state, power in factors]
    moments = [_Moments(state.weights) for state, _ in factors]
    window = _window(factors, moments, outside, together)
    if window is None:
        return None
    starts, length = window
    kept = _kept(factors, moments, length, outside, together)
    if kept is None:
        return None
    highest, left_out = kept
    unit = EXTENDED_ROUNDOFF if extended else UNIT_ROUNDOFF
    # Reduced before they are multiplied: no product is beyond int64.
    rows = np.array([[grid % length, cells % length, cells % length] for grid, cells in starts])
    coefficients = unit_roots(np.multiply.outer(rows, np.arange(highest + 1)), length, extended=extended)
    rate = 0.0
    for state, power in factors:
        spectrum, rounding = _lowest(state.weights, length, highest, extended=extended)
        product = required(raised(spectrum, power))
        coefficients = coefficients * (np.multiply.reduce(product, axis=0) if together else product)
        rate += (state.count if together else 1) * power * (rounding + 4.0) * unit
    sums = carried(factors, together=together)
    # A coefficient weighs at most 1 / j, or 1 for j = 0, in a sum with the factors of `error`; the shift errs by 32u.
    frequencies = 2.0 + math.log(highest + 1.0)
    grown = math.expm1(rate) if rate < 700.0 else math.inf
    error = (grown + 64.0 * unit + 4.0 * UNIT_ROUNDOFF) * frequencies
    state = sums.state(
        factors[0][0], starts, np.zeros((len(starts), ROWS, 0)), 2.0 * outside + sums.bound * (error + left_out)
    )
    return FewFrequencies(
        state, length, coefficients.astype(np.complex128), sums.bound * (1.0 + grown + 128.0 * UNIT_ROUNDOFF)
    )


class _Moments:
    """Σ w x^p, p = 0 .. 4, over the indices x from about the mean of each member of a stack, shape (5, k, 3).

    ``noise`` bounds the rounding of each, relative to the sum of its terms' sizes.
    """

    def __init__(self, weights: FloatArray) -> None:
        size = weights.shape[-1]
        index = np.arange(float(size))
        rows = np.add.reduce(weights, axis=1)
        total = np.add.reduce(rows, axis=-1)
        self.centre: FloatArray = np.divide(rows @ index, total, out=np.zeros_like(total), where=total > 0.0)
        x = index - self.centre[:, None]
        square = x * x
        powers = np.stack((np.ones_like(x), x, square, square * x, square * square))
        self.sums: FloatArray = np.einsum("krn,pkn->pkr", weights, powers)
        self.noise = 4.0 * (size + 16.0) * UNIT_ROUNDOFF
        self.largest: FloatArray = x[:, -1]
        self.smallest: FloatArray = x[:, 0]

    @property
    def second(self) -> FloatArray:
        """E D²/2 for the difference D of two independent indices, rounded down, shape (k, 3)."""
        return self._variance(-1.0)

    @property
    def second_above(self) -> FloatArray:
        """The same, rounded up."""
        return np.maximum(self._variance(1.0), 0.0)

    def _variance(self, side: float) -> FloatArray:
        """The mean's square is at most the mean square, whose rounding may exceed what is left of the difference."""
        _, first, second, _, _ = self.sums / self.sums[0]
        result: FloatArray = second - first**2 + side * 4.0 * self.noise * second
        return result

    @property
    def fourth(self) -> FloatArray:
        """E D⁴/24, rounded up, shape (k, 3)."""
        _, first, second, third, fourth = self.sums / self.sums[0]
        terms = (fourth, -4.0 * first * third, 3.0 * second**2)
        # |E x| E |x|³ and (E x²)² are at most E x⁴.
        result: FloatArray = (sum(terms) + 64.0 * self.noise * fourth) / 12.0
        return result

    def log_exponential(self, rate: FloatArray, sign: float) -> FloatArray:
        """Upper bound of ln Σ w e^{sx} for s = sign · rate, shape (k, 3, S), rates of shape (k, S).

        By e^y <= 1 + y + y²/2 + y³/6 + y⁴/24 e^max(y, 0), and |y| and |y|³/6 are at most ½ + y²/2 and y²/12 + y⁴/12.
        """
        rate = rate[:, None, :]
        first, second, third, fourth = (self.sums[1:] / self.sums[0])[..., None]
        furthest = (self.largest if sign > 0.0 else -self.smallest)[:, None, None]
        reach = rate * furthest
        # Beyond what is a float the bound says nothing.
        last = np.where(reach < _STEEPEST, fourth * (rate**4 / 24.0) * np.exp(np.minimum(reach, _STEEPEST)), np.inf)
        middle = second * (rate * rate * 0.5)
        odd = sign * (first * rate + third * (rate**3 / 6.0))
        rounding = self.noise * (3.0 + 3.0 * middle + 3.0 * last)
        result: FloatArray = np.log(self.sums[0])[..., None] + np.log1p(odd + middle + last + rounding)
        return result


def _window(
    factors: Sequence[tuple[TiltedMasses, int]], moments: Sequence[_Moments], outside: float, together: bool
) -> tuple[list[tuple[int, int]], int] | None:
    """Return where the windows of `DOMINATING` and of the two other rows start, for each member, and their length.

    All weight but `outside` lies within, by Chernoff's bound with the sums of `_Moments.log_exponential`. Masses and
    labels of a cell are half a position apart in each leaf, so that those rows drift apart from the other. None if a
    row is empty, or the bound says nothing.
    """
    if not all(np.all(each.sums[0] > 0.0) for each in moments):
        return None
    variance = _gathered([each.second_above.max(axis=-1) for each in moments], factors, together) + 1e-2
    rates = _EXPONENTS / np.sqrt(variance)[:, None]
    budget = math.log(4.0 / outside)
    reach: list[FloatArray] = []
    for sign in (1.0, -1.0):
        log_moment = _gathered([each.log_exponential(rates, sign) for each in moments], factors, together)
        reach.append(np.min((log_moment + budget) / rates[:, None, :], axis=-1))
    if not np.isfinite(reach).all():
        return None
    # In whole numbers, however large: the centres' fractions alone are floats.
    whole = [each.centre.astype(np.int64) for each in moments]
    rest = _gathered([each.centre - part for each, part in zip(moments, whole, strict=True)], factors, together)
    starts: list[tuple[int, int]] = []
    length = max(state.size for state, _ in factors)
    for member in range(rest.size):
        chosen = slice(None) if together else slice(member, member + 1)
        middle = sum(power * sum(part[chosen].tolist()) for part, (_, power) in zip(whole, factors, strict=True))
        last = sum(power * (state.size - 1) * len(state.origins[chosen]) for state, power in factors)
        first: list[int] = []
        for rows in (slice(0, 1), slice(1, ROWS)):
            low = middle + math.floor(float(rest[member]) - float(reach[1][member, rows].max()) - 2.0)
            high = middle + math.ceil(float(rest[member]) + float(reach[0][member, rows].max()) + 2.0)
            first.append(min(max(low, 0), last))
            length = max(length, min(high, last) - first[-1] + 1)
        starts.append((first[0], first[1]))
    return starts, length


def _gathered(values: Sequence[FloatArray], factors: Sequence[tuple[TiltedMasses, int]], together: bool) -> FloatArray:
    """Sum over the factors, each as often as it is taken; over the members of stacks, too, if they are `together`."""
    total: FloatArray = np.zeros(())
    for each, (_, power) in zip(values, factors, strict=True):
        total = total + power * (np.add.reduce(each, axis=0)[None] if together else each)
    return total


def _kept(
    factors: Sequence[tuple[TiltedMasses, int]],
    moments: Sequence[_Moments],
    length: int,
    outside: float,
    together: bool,
) -> tuple[int, FloatArray] | None:
    """Return the highest frequency that is kept, and the sum of |product| / (j s) over those left out, shape (k, 3)."""
    second = _gathered([each.second for each in moments], factors, together)
    fourth = _gathered([each.fourth for each in moments], factors, together)
    if not (np.all(second > 0.0) and np.all(np.isfinite(fourth)) and np.all(fourth > 0.0)):
        return None
    near = min(math.sqrt(float(np.min(second / fourth))) / 2.0, math.pi)
    rate = _NEAR * float(np.min(second))
    cut = math.sqrt(math.log(8.0 / outside) / rate)
    step = 2.0 * math.pi / length
    highest = math.ceil(cut / step)
    work = highest * sum(state.weights.size for state, _ in factors)
    if (highest + 1) * step > near or highest > MOST_FREQUENCIES or work > MOST_WORK or length > _LONGEST:
        return None
    following = rate * step * step
    close = math.exp(-following * (highest + 1.0) ** 2) / -math.expm1(-following * (2.0 * highest + 3.0))
    far = _far(factors, moments, near, math.log(0.25 * outside / (2.0 + math.log(length))), together)
    left_out: FloatArray = close / (highest + 1.0) + np.exp(far) * (2.0 + math.log(length))
    return (highest, left_out * 1.001) if np.all(left_out <= outside) else None


def _far(
    factors: Sequence[tuple[TiltedMasses, int]],
    moments: Sequence[_Moments],
    near: float,
    enough: float,
    together: bool,
) -> FloatArray:
    """Return the logarithm of a bound on Π |ŵ(t)|^d / s^d for near <= t <= π, shape (k, 3): `enough`, if it can.

    Each factor is looked at closer and closer, as long as that may help.
    """
    finest = _COARSE
    while True:
        looks = [
            _beyond(state.weights, each.second_above, near, finest)
            for (state, _), each in zip(factors, moments, strict=True)
        ]
        far = _gathered([0.5 * np.log(bound) for bound, _ in looks], factors, together)
        least = _gathered([0.5 * np.log(seen) for _, seen in looks], factors, together)
        if np.all(far <= enough) or np.any(least > enough) or finest < _FINE:
            return far
        finest *= 0.25


def _beyond(weights: FloatArray, second: FloatArray, near: float, finest: float) -> tuple[FloatArray, FloatArray]:
    """Return a bound on |ŵ(t)|² / s² for near <= t <= π, shape (k, 3), and about the largest value there.

    By steps of `finest` over the deviation, or as fine as the longest transform gives.
    """
    size = weights.shape[-1]
    deviation = math.sqrt(float(np.max(second)))
    step = finest / deviation if deviation > 0.0 else math.pi
    length = good_length(min(max(2 * size, math.ceil(2.0 * math.pi / step)), max(2 * size, LONGEST_LOOK)))
    step = 2.0 * math.pi / length
    spectrum = forward(weights, length)[..., math.floor(near / step * (1.0 - 1e-9)) :]
    squares = spectrum.real * spectrum.real + spectrum.imag * spectrum.imag
    total = np.add.reduce(weights, axis=-1)
    largest = np.max(squares, axis=-1) / (total * total)
    rounding = 4.0 * transform_error(length) + 2.0 * (size + 16.0) * UNIT_ROUNDOFF
    bound: FloatArray = np.minimum(largest + rounding + 0.25 * second * step * step * (1.0 + 1e-12), 1.0)
    return bound, np.maximum(largest, 1e-300)


def _lowest(weights: FloatArray, length: int, highest: int, *, extended: bool) -> tuple[ComplexArray, float]:
    """Return Σ_j w_j e^{-2πi jm/N} for m = 0 .. highest, and a bound on the error in units of rounding times Σ w.

    Summed over blocks of B, each with the same B powers, then over the blocks. A power errs by 21u (`unit_roots`),
    their product by 3u more; sums of B and of n/B terms, real and imaginary part each, by twice as many roundings.
    """
    size = weights.shape[-1]
    block = 1 << max(3, math.ceil(math.log2(math.sqrt(size))))
    blocks = -(-size // block)
    real = np.longdouble if extended else np.float64
    padded = np.zeros((*weights.shape[:-1], blocks * block), dtype=real)
    padded[..., :size] = weights
    orders = np.arange(highest + 1)
    within = unit_roots(-np.multiply.outer(np.arange(block), orders), length, extended=extended)
    between = unit_roots(-np.multiply.outer(block * np.arange(blocks), orders), length, extended=extended)
    parts = padded.reshape(*weights.shape[:-1], blocks, block)
    # Not as a product of matrices, for which some libraries start threads.
    inner = np.einsum("krcb,bm->krcm", parts, within.view(real)).view(within.dtype)
    inner *= between
    return np.add.reduce(inner, axis=-2), 64.0 + 2.0 * (block + blocks)


def unit_roots(numerator: IntArray, denominator: int, *, extended: bool = False) -> ComplexArray:
    """Return e^{2πi a/N}, each within 21u.

    The fraction is reduced exactly to at most a half; quotient, 2π and product are off by 3u of at most π, and
    numpy's sine and cosine are taken to be accurate to 8u.
    """
    reduced = np.mod(numerator, denominator)
    reduced = np.where(2 * reduced > denominator, reduced - denominator, reduced)
    real = np.longdouble if extended else np.float64
    angle = cast("FloatArray", reduced.astype(real)) / denominator * _TWICE_PI[extended]
    result = np.empty(angle.shape, dtype=np.clongdouble if extended else np.complex128)
    result.real, result.imag = np.cos(angle), np.sin(angle)
    return cast("ComplexArray", result)
