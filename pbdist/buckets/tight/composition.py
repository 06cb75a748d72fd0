"""Composition of tilted masses: products of powers over a window, and coarsening."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from pbdist.buckets.tight.state import (
    DOMINATING,
    EXACT_A,
    EXACT_B,
    HIGHEST,
    LARGEST_RATE,
    LOG_TOTAL_A,
    RATE_A,
    ROWS,
    SCALARS,
    TiltedMasses,
    outwards,
)
from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.fourier.spectrum import product_of_powers
from pbdist.fourier.transform import good_length
from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = ["Carried", "carried", "coarsen", "compose", "windows_of"]

#: Exponents beyond this are cut, and masses below this are not told from 0.
_LARGEST_EXPONENT, _SMALLEST = 700.0, 1e-290
#: Beyond this extended precision takes too long.
_LONGEST_EXTENDED = 1 << 18
#: Into about so many blocks a vector is gathered to find its window, ..
_BLOCKS = 160
#: .. from these multiples of the reciprocal of the standard deviation, as exponents of Chernoff's bound.
_EXPONENTS: FloatArray = np.array([0.25, 1.0, 2.5, 4.5, 5.5, 6.5, 7.5, 9.0, 13.0])
#: Upper values add this much, relatively, for the rounding of a handful of sums and products.
_UP, _DOWN = 1.0 + 16.0 * UNIT_ROUNDOFF, 1.0 - 16.0 * UNIT_ROUNDOFF


def compose(
    factors: Sequence[tuple[TiltedMasses, int]], outside: float, longest: int, *, extended: bool = False
) -> TiltedMasses:
    """Compose states: the convolution of powers of their vectors.

    Parameters
    ----------
    factors : sequence of (TiltedMasses, int)
        Stacks of the same k states, of one width, tilt and stride, and how often each is taken.
    outside : float
        How much of the weight may lie outside the window of the result, in each row.
    longest : int
        Length of the longest transform.
    extended : bool, optional
        Whether to transform in extended precision, which is done up to a length of 2^18.

    Returns
    -------
    TiltedMasses
        Not normalised.

    Notes
    -----
    With m = s + T, where s is the 1-norm of w, exchanging w for w* one factor at a time moves the product by at most
    Σ d_i (T_i / m_i) Π m_l^{d_l} in the 1-norm. The window leaves out at most `outside` on the whole (Chernoff's bound,
    `_window`), and the circle adds at most that within it; `product_of_powers` bounds its own rounding.

    Raises
    ------
    InvalidInputError
        If the states lie on different grids.
    PrecisionError
        If a transform longer than `longest` were needed: before anything is allocated.
    """
    first = factors[0][0]
    for state, _ in factors:
        if (state.width, state.tilt, state.stride, state.count) != (first.width, first.tilt, first.stride, first.count):
            raise InvalidInputError(
                f"states: expected one grid, got {state.count} states of width {state.width!r} x {state.stride}"
                f" and tilt {state.tilt!r} beside {first.count} of {first.width!r} x {first.stride}"
                f" and {first.tilt!r}"
            )
    if len(factors) == 1 and factors[0][1] == 1:
        return first
    # No power may vanish: its rounding bound would vanish with it.
    factors = [(state.normalised(0.1 / power), power) for state, power in factors]
    lows, size = windows_of(factors, outside)
    size_needed = max(size, *(state.size for state, _ in factors))
    length = good_length(size_needed) if size_needed <= longest else size_needed
    if length > longest:
        raise PrecisionError(
            f"compositions: expected so few, or a tolerance so large, that they take at most {longest} buckets, got"
            f" {length} of {first.spacing:g} nats"
        )
    extended = extended and length <= _LONGEST_EXTENDED
    values, rounding = product_of_powers(
        [(state.weights, power) for state, power in factors], length, lows, size, extended=extended
    )

    starts = [lows] * first.count if isinstance(lows, int) else lows
    weights = outwards(values, 2.0 * UNIT_ROUNDOFF) if extended else values
    return carried(factors).state(first, [(low, low) for low in starts], weights, 2.0 * outside + rounding)


@dataclass(frozen=True, eq=False)
class Carried:
    """What a composition has but its weights.

    Attributes
    ----------
    origins : k pairs of int
        Positions of what would be the first element.
    bound, error : ndarray, shape (k, 3)
        Π m_i^d_i, which no 1-norm exceeds, and the factors' own T in the product.
    log_scale, log_scale_error, additive : ndarray
        As in `TiltedMasses`.
    """

    origins: tuple[tuple[int, int], ...]
    bound: FloatArray
    error: FloatArray
    log_scale: FloatArray
    log_scale_error: FloatArray
    additive: FloatArray

    def state(
        self, first: TiltedMasses, starts: Sequence[tuple[int, int]], weights: FloatArray, more_error: FloatArray
    ) -> TiltedMasses:
        """Return the state on the grid of `first`, its rows starting at those elements of the whole, as origins do."""
        return TiltedMasses(
            width=first.width,
            tilt=first.tilt,
            stride=first.stride,
            origins=tuple(
                (origin[0] + 2 * first.stride * start[0], origin[1] + 2 * first.stride * start[1])
                for origin, start in zip(self.origins, starts, strict=True)
            ),
            weights=weights,
            log_scale=self.log_scale,
            log_scale_error=self.log_scale_error,
            error=(self.error + more_error) * 1.001 + _SMALLEST,
            additive=self.additive,
        )


def carried(factors: Sequence[tuple[TiltedMasses, int]], *, together: bool = False) -> Carried:
    """Add up what adds up under composition, and exchange w for w* one factor at a time (see `compose`).

    The members of stacks are compositions of their own, or all `together` factors of one.
    """
    first = factors[0][0]
    count = 1 if together else first.count
    terms = sum(state.count for state, _ in factors) if together else len(factors)
    bound, relative = np.ones((count, ROWS)), np.zeros((count, ROWS))
    log_scale, log_scale_error = np.zeros((count, ROWS)), np.zeros((count, ROWS))
    additive, sizes = np.zeros((count, SCALARS)), np.zeros((count, SCALARS))
    for state, power in factors:
        norm = np.add.reduce(state.weights, axis=-1) * (1.0 + (state.size + 2.0) * UNIT_ROUNDOFF) + state.error
        # An empty row has neither weight nor error; an infinite error stays one.
        known = (norm > 0.0) & np.isfinite(norm)
        share = np.divide(state.error, norm, out=np.where(norm > 0.0, 1.0, 0.0), where=known)
        with np.errstate(over="ignore"):
            size = norm**power
        moved = state.log_scale_error + (terms + 4.0) * UNIT_ROUNDOFF * np.abs(state.log_scale)
        sums = [share, state.log_scale, moved, state.additive, np.abs(state.additive)]
        if together:
            size, sums = np.prod(size, axis=0), [np.add.reduce(each, axis=0) for each in sums]
        bound *= size
        relative += power * sums[0]
        log_scale += power * sums[1]
        log_scale_error += power * sums[2]
        additive += power * sums[3]
        sizes += power * sums[4]
    return Carried(
        origins=_origins(factors, together),
        bound=bound,
        error=bound * relative,
        log_scale=log_scale,
        log_scale_error=log_scale_error,
        additive=_outwards(additive, sizes, terms),
    )


def _origins(factors: Sequence[tuple[TiltedMasses, int]], together: bool) -> tuple[tuple[int, int], ...]:
    parts = [[(power * grid, power * cells) for grid, cells in state.origins] for state, power in factors]
    groups = [list(chain.from_iterable(parts))] if together else [list(each) for each in zip(*parts, strict=True)]
    return tuple((sum(grid for grid, _ in group), sum(cells for _, cells in group)) for group in groups)


def _outwards(additive: FloatArray, sizes: FloatArray, terms: int) -> FloatArray:
    """Round sums of the additive columns to their sides: totals and rates of A down, the others up.

    By the sums of their terms' `sizes`, for terms of both signs may cancel.
    """
    slack = (terms + 2.0) * 2.0 * UNIT_ROUNDOFF
    result = additive + slack * sizes
    result[:, LOG_TOTAL_A] -= 2.0 * slack * sizes[:, LOG_TOTAL_A]
    result[:, RATE_A] -= 2.0 * slack * sizes[:, RATE_A]
    # e^-ρ vanishes long before.
    return np.minimum(result, LARGEST_RATE)


def windows_of(factors: Sequence[tuple[TiltedMasses, int]], outside: float) -> tuple[int | list[int], int]:
    """Return the first element of the window, of every state or of all, and its length.

    At most `outside` of the weight of the product lies elsewhere, in each row; see `compose`.
    """
    if len(set(factors[0][0].origins)) == 1:
        low, high = _window(factors, outside)
        return low, high - low + 1
    each = [
        _window([(state.members(slice(member, member + 1)), power) for state, power in factors], outside)
        for member in range(factors[0][0].count)
    ]
    return [low for low, _ in each], max(high - low for low, high in each) + 1


def _window(factors: Sequence[tuple[TiltedMasses, int]], outside: float) -> tuple[int, int]:
    """Return the first and the last element that hold all weight of the product but `outside`, in every row.

    By Chernoff's bound the weight beyond c + x is at most Π_i (Σ_j w_i(j) e^{s(j - c_i)})^{d_i} e^{-sx} for any s > 0,
    c = Σ d_i c_i. The sums are taken over blocks of elements at the far end of each block, which only adds to them.
    """
    gathered: list[tuple[FloatArray, int, float, int]] = []
    centre, variance = 0.0, 0.0
    widest = 1.0
    for state, power in factors:
        block = -(-state.size // _BLOCKS)
        blocks = np.add.reduceat(state.weights, np.arange(0, state.size, block), axis=-1)
        middle = np.arange(blocks.shape[-1]) * float(block) + 0.5 * (block - 1)
        weight = np.sum(blocks, axis=(0, 1))
        total = float(np.sum(weight))
        if total <= 0.0:
            return 0, 0
        mean = float(weight @ middle) / total
        variance += power * (float(weight @ (middle - mean) ** 2) / total + block * block / 12.0)
        centre += power * mean
        widest = max(widest, float(state.size))
        gathered.append((blocks, block, mean, power))
    exponents = np.minimum(_EXPONENTS / math.sqrt(variance), 300.0 / widest)
    budget = math.log(4.0 / outside)
    reach: list[float] = []
    for sign in (1.0, -1.0):
        log_moment: FloatArray | float = 0.0
        for blocks, block, mean, power in gathered:
            first = np.arange(blocks.shape[-1]) * float(block)
            far = sign * ((first + (block - 1.0) if sign > 0.0 else first) - mean)
            moment = np.einsum("krb,bs->krs", blocks, np.exp(np.outer(far, exponents)))
            with np.errstate(divide="ignore"):
                log_moment = log_moment + power * np.log(moment * 1.0001)
        reach.append(float(np.max(np.min((log_moment + budget) / exponents, axis=-1))))
    low = math.floor(centre - max(reach[1], 0.0) - 1.0)
    high = math.ceil(centre + max(reach[0], 0.0) + 1.0)
    last = sum(power * (state.size - 1) for state, power in factors)
    return max(low, 0), min(max(high, 0), last)


def coarsen(state: TiltedMasses, step: int) -> TiltedMasses:
    """Make the grid `step` times as coarse, keeping each row what it claims to be.

    An atom of the dominating pair between two positions of the coarser grid goes to both, so that P_A and P_B keep
    their totals: the chord of the convex t -> (1 - e^ε t)_+, which is nowhere below it. The exact masses of `step`
    neighbours are added: a map of the events, under which no divergence grows.

    Raises
    ------
    PrecisionError
        If tilted masses within one cell of the coarser grid were no floats beside each other.
    """
    whole = state.spacing * step
    if (state.tilt + 1.0) * whole > _LARGEST_EXPONENT:
        raise PrecisionError(
            f"compositions: expected losses that take buckets of at most {_LARGEST_EXPONENT / (state.tilt + 1.0):.3g}"
            f" nats, got {whole:.3g} nats"
        )
    padding = -state.size % step
    weights = (
        np.concatenate((state.weights, np.zeros((*state.weights.shape[:-1], padding))), axis=-1)
        if padding
        else state.weights
    )
    gathered = weights.reshape(*weights.shape[:-1], -1, step)
    offset = state.spacing * np.arange(step)
    # Shares of an atom `offset` above the lower of the two positions.
    below = np.exp(-offset) * np.expm1(offset - whole) / np.expm1(-whole)
    above = np.expm1(-offset) / np.expm1(-whole)
    down, up = below * np.exp(-state.tilt * offset), above * np.exp(state.tilt * (whole - offset))
    middle = 0.5 * (step - 1) * state.spacing - offset
    to_a, to_b = np.exp(state.tilt * middle), np.exp((state.tilt + 1.0) * middle)

    result = np.zeros((state.count, 3, gathered.shape[-2] + 1))
    # Not as a product of matrices, for which some libraries start threads.
    result[:, DOMINATING, :-1] = np.einsum("kqs,s->kq", gathered[:, DOMINATING], down)
    result[:, DOMINATING, 1:] += np.einsum("kqs,s->kq", gathered[:, DOMINATING], up)
    result[:, EXACT_A, :-1] = np.einsum("kqs,s->kq", gathered[:, EXACT_A], to_a)
    result[:, EXACT_B, :-1] = np.einsum("kqs,s->kq", gathered[:, EXACT_B], to_b)
    growth = np.array([float(np.max(down + up)), float(np.max(to_a)), float(np.max(to_b))])
    rounding = (48.0 + 2.0 * step + 8.0 * (state.tilt + 1.0) * whole) * UNIT_ROUNDOFF
    additive = state.additive.copy()
    additive[:, HIGHEST] += whole
    return replace(
        state,
        stride=state.stride * step,
        origins=tuple((grid, cells + state.stride * (step - 1)) for grid, cells in state.origins),
        weights=outwards(result, rounding),
        error=state.error * growth * _UP,
        additive=additive,
    )
