"""Certified masses: lower and upper values, where they lie along the privacy loss of a pair, and tail moments."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import numpy as np
from scipy import special

from pbdist.errors import InvalidInputError
from pbdist.types import BoolArray, FloatArray

#: Largest relative error of one correctly rounded float64 operation.
UNIT_ROUNDOFF = 2.0**-53

#: The mass of possible events that underflow.
SMALLEST_FLOAT = math.nextafter(0.0, 1.0)

#: Below this a float64 product may lose its relative accuracy to underflow, so a mass is only known to lie between 0
#: and this value.
SMALLEST_MASS = 1e-290

#: Relative errors from here on are refused.
_LARGEST_ERROR = 0.25


@dataclass(frozen=True, eq=False)
class MassBounds:
    """Lower and upper values of exact masses.

    Attributes
    ----------
    lower, upper : ndarray of float64, same shape
        ``0 <= lower <= exact mass <= upper``, elementwise; read-only.
    """

    lower: FloatArray
    upper: FloatArray

    def __post_init__(self) -> None:
        for values in (self.lower, self.upper):
            values.setflags(write=False)

    @classmethod
    def around(
        cls,
        values: FloatArray | float,
        relative_error: FloatArray | float,
        *,
        occupied: BoolArray | bool = True,
    ) -> "MassBounds":
        """Enclose computed masses whose relative error is bounded.

        Parameters
        ----------
        values : array_like
            Computed masses, non-negative.
        relative_error : array_like
            Bound on ``|values - exact| / exact`` wherever the exact mass is at least `SMALLEST_MASS`; below 1/4.
        occupied : array_like of bool
            False where no event lies, so that the exact mass is 0; elsewhere a computed mass below `SMALLEST_MASS`
            is taken as anything between 0 and ``2 * SMALLEST_MASS``.

        Notes
        -----
        Where v and m differ by at most ρ m, the exact m lies between v / (1 + ρ) and v / (1 - ρ), hence between
        v (1 - σ) and v / (1 - σ) for σ = ρ + 4u, which also pays for the roundings of σ, 1 - σ, product and quotient.
        """
        computed = np.atleast_1d(np.asarray(values, dtype=np.float64))
        slack = np.asarray(relative_error, dtype=np.float64) + 4.0 * UNIT_ROUNDOFF
        resolved, tiny = bool((slack < _LARGEST_ERROR).all()), ~(computed >= SMALLEST_MASS)
        if resolved and occupied is True and not tiny.any():
            keep = 1.0 - slack
            return cls(computed * keep, computed / keep)
        if not resolved and (~tiny & ~(slack < _LARGEST_ERROR)).any():
            raise InvalidInputError("mechanism: expected less extreme parameters: float64 does not resolve its masses")
        keep = 1.0 - np.minimum(slack, _LARGEST_ERROR)
        lower, upper = computed * keep, computed / keep
        lower[tiny] = 0.0
        upper[tiny] = 2.0 * SMALLEST_MASS
        if occupied is not True:
            empty = ~np.broadcast_to(np.asarray(occupied, dtype=bool), computed.shape)
            lower[empty] = 0.0
            upper[empty] = 0.0
        return cls(lower, upper)

    @classmethod
    def zeros(cls, size: int) -> "MassBounds":
        """Masses that are exactly 0."""
        return cls(np.zeros(size), np.zeros(size))

    def row(self, index: int, part: slice = slice(None)) -> "MassBounds":
        """One row of stacked masses, or a part of it."""
        return MassBounds(self.lower[index, part], self.upper[index, part])

    def reversed(self) -> "MassBounds":
        """The same masses in reversed order."""
        return MassBounds(self.lower[..., ::-1].copy(), self.upper[..., ::-1].copy())

    def preceded_by_empty(self, count: int) -> "MassBounds":
        """These masses, after `count` that are exactly 0."""
        return MassBounds.zeros(count).joined(self) if count else self

    def joined(self, other: "MassBounds") -> "MassBounds":
        """These masses, followed by others."""
        return MassBounds(np.concatenate((self.lower, other.lower)), np.concatenate((self.upper, other.upper)))


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Where the masses of a pair (A, B) lie along the privacy loss L = ln(P_A / P_B), in nats.

    Events are in three groups that do not overlap and together hold every event: events spread over bins,
    atoms (events of one known loss), and the events that only one of the two distributions has.

    Attributes
    ----------
    bins_a, bins_b : MassBounds, shape (m + 1,)
        P_A and P_B mass of the spread events in the bins (-inf, e_0], (e_0, e_1], .., (e_{m-1}, inf) for the m given
        edges.
    atom_loss : ndarray, shape (k,)
        Losses of the atoms, computed values. They are infinite where one of the masses is too faint for a reliable
        loss; that mass is then part of the upper value of `only_a` or `only_b` as well.
    atoms_a, atoms_b : MassBounds, shape (k,)
        Masses of the atoms.
    only_a, only_b : MassBounds, shape (1,)
        P_A mass where P_B is 0, and P_B mass where P_A is 0.
    loss_error : float
        Bound, in nats, on how far outside its bin the exact loss of a spread event may lie, and on the error of
        each `atom_loss`.
    """

    bins_a: MassBounds
    bins_b: MassBounds
    atom_loss: FloatArray = field(default_factory=lambda: np.zeros(0))
    atoms_a: MassBounds = field(default_factory=lambda: MassBounds.zeros(0))
    atoms_b: MassBounds = field(default_factory=lambda: MassBounds.zeros(0))
    only_a: MassBounds = field(default_factory=lambda: MassBounds.zeros(1))
    only_b: MassBounds = field(default_factory=lambda: MassBounds.zeros(1))
    loss_error: float = 0.0

    @classmethod
    def of_atoms(
        cls, edges: FloatArray, loss: FloatArray, a: MassBounds, b: MassBounds, loss_error: float = 0.0
    ) -> "LossMasses":
        """Masses of atoms alone, with empty bins between the edges."""
        empty = MassBounds.zeros(edges.size + 1)
        return cls(empty, empty, loss, a, b, loss_error=loss_error)

    def swapped(self) -> "LossMasses":
        """Masses of the pair (B, A), on the bins whose edges are the negated edges in reversed order."""
        return LossMasses(
            bins_a=self.bins_b.reversed(),
            bins_b=self.bins_a.reversed(),
            atom_loss=-self.atom_loss,
            atoms_a=self.atoms_b,
            atoms_b=self.atoms_a,
            only_a=self.only_b,
            only_b=self.only_a,
            loss_error=self.loss_error,
        )


#: How far masses of all events may be from 1, where a user's mechanism returns them.
_OFF = 1e-9


def with_checked_masses(method: Callable[..., LossMasses]) -> Callable[..., LossMasses]:
    """Return a method that checks the masses which a method of a user's mechanism returns."""

    @wraps(method)
    def checked(pair: Any, edges: FloatArray) -> LossMasses:
        masses = method(pair, edges)
        problem = _problem_of(masses, edges)
        if problem is not None:
            raise InvalidInputError(f"{type(pair).__name__}.loss_masses: {problem}")
        return masses

    return checked


def _problem_of(masses: LossMasses, edges: FloatArray) -> str | None:
    """Return what is wrong with masses; None where nothing is that can be seen."""
    sizes = masses.bins_a.lower.size, masses.bins_b.lower.size
    if sizes != (edges.size + 1,) * 2:
        return f"expected masses of {edges.size + 1} bins between {edges.size} edges, got {sizes[0]} and {sizes[1]}"
    if not 0.0 <= masses.loss_error < math.inf or np.isnan(masses.atom_loss).any():
        return "expected losses of the atoms and a bound on their errors, got NaN or an infinite bound"
    for name in ("a", "b"):
        parts = [getattr(masses, f"{part}_{name}") for part in ("bins", "atoms", "only")]
        lower, upper = (np.concatenate([getattr(part, side) for part in parts]) for side in ("lower", "upper"))
        # Also false of NaN.
        if not ((lower >= 0.0).all() and (upper >= lower).all() and (upper < math.inf).all()):
            return f"expected lower values from 0 to the upper ones of the masses of {name.upper()}, got others"
        least, most = float(lower.sum()), float(upper.sum())
        if least > 1.0 + _OFF or most < 1.0 - _OFF:
            return f"expected masses of {name.upper()} that may sum to 1, got sums from {least!r} to {most!r}"
    return None


@dataclass(frozen=True, eq=False)
class ScaledLossMasses:
    """Masses along the privacy loss, each with a factor e^log_scale that float64 need not hold.

    Attributes
    ----------
    masses : LossMasses
        The exact P_A mass of bin i lies between ``exp(log_scale_a[i])`` times its lower and its upper value here;
        likewise P_B and the atoms. The masses that only one distribution has carry no factor.
    log_scale_a, log_scale_b : ndarray, shape (m + 1,)
        Natural logarithms of the factors of the bins: finite, at most 0, exactly the float64 they are. 0 but for
        masses below about 1e-260.
    atoms_log_scale_a, atoms_log_scale_b : ndarray, shape (k,)
        The same for the atoms. An atom whose loss is known keeps it, however faint its masses.
    """

    masses: LossMasses
    log_scale_a: FloatArray
    log_scale_b: FloatArray
    atoms_log_scale_a: FloatArray = field(default_factory=lambda: np.zeros(0))
    atoms_log_scale_b: FloatArray = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        for values in (self.log_scale_a, self.log_scale_b, self.atoms_log_scale_a, self.atoms_log_scale_b):
            values.setflags(write=False)

    @classmethod
    def unscaled(cls, masses: LossMasses) -> "ScaledLossMasses":
        """Masses whose factors are all 1."""
        atoms = np.zeros(masses.atoms_a.lower.shape)
        return cls.of_atoms(masses, atoms, atoms)

    @classmethod
    def of_atoms(cls, masses: LossMasses, log_scale_a: FloatArray, log_scale_b: FloatArray) -> "ScaledLossMasses":
        """Masses of which the atoms alone have factors."""
        bins = np.zeros(masses.bins_a.lower.shape)
        return cls(masses, bins, bins, log_scale_a, log_scale_b)

    def after_empty(self, count: int) -> "ScaledLossMasses":
        """These masses, with `count` bins before the others in which no event lies."""
        before = np.zeros(count)
        masses = replace(
            self.masses,
            bins_a=self.masses.bins_a.preceded_by_empty(count),
            bins_b=self.masses.bins_b.preceded_by_empty(count),
        )
        return replace(
            self,
            masses=masses,
            log_scale_a=np.concatenate((before, self.log_scale_a)),
            log_scale_b=np.concatenate((before, self.log_scale_b)),
        )

    def swapped(self) -> "ScaledLossMasses":
        """Masses of the pair (B, A), on the bins whose edges are the negated edges in reversed order."""
        return ScaledLossMasses(
            masses=self.masses.swapped(),
            log_scale_a=self.log_scale_b[..., ::-1].copy(),
            log_scale_b=self.log_scale_a[..., ::-1].copy(),
            atoms_log_scale_a=self.atoms_log_scale_b,
            atoms_log_scale_b=self.atoms_log_scale_a,
        )


def rounded_up(value: float) -> float:
    """Return an upper bound of a number computed with a few roundings; an infinite one is returned unchanged."""
    return value + 8.0 * UNIT_ROUNDOFF * abs(value) if math.isfinite(value) else value


_ROOT_TWO_PI = 2.5066282746310002
_HALF_ROOT = 0.7071067811865476

#: Terms of the series for a narrow interval, and the extent up to which the terms left out stay below 2^-56.
_SERIES_TERMS = ((2, 1 / 256), (3, 1 / 32), (4, 1 / 12), (6, 1 / 4), (8, 0.6), (10, 1.0))
_SERIES_FACTORS = tuple(1.0 / (math.factorial(2 * k) * 4**k * (2 * k + 1)) for k in range(_SERIES_TERMS[-1][0] + 1))


def _polynomial(terms: int) -> FloatArray:
    """Coefficients of t^j d^i in the sum of the terms, row j and column i: t = z²w², d = w².

    By He_2k(z) w^2k = Σ_j (2k)! / ((2j)! (k-j)! (-2)^(k-j)) t^j d^(k-j).
    """
    matrix = np.zeros((terms + 1, terms + 1))
    for j in range(terms + 1):
        for i in range(terms + 1 - j):
            ways = math.factorial(2 * (i + j)) / (math.factorial(2 * j) * math.factorial(i) * (-2) ** i)
            matrix[j, i] = ways * _SERIES_FACTORS[i + j]
    return matrix


_SERIES_POLYNOMIALS = {terms: _polynomial(terms) for terms, _ in _SERIES_TERMS}

#: Exponents below this are split off from their masses, on request.
_DEEP = -600.0

#: Masses split off with a larger relative error count as 0.
_LARGEST_INTERVAL_ERROR = 0.125

#: Extent of most intervals, for which the first terms are enough.
_USUAL = _SERIES_TERMS[1][1]

#: Fewer intervals than this are not checked for equal widths, and all take the same number of terms.
_FEW = 32

#: Intervals handled at a time, so that intermediate results stay in the cache.
_BLOCK = 8192


def laplace_interval(
    lower: FloatArray, upper: FloatArray, scale: float, mean: float | FloatArray = 0.0, *, scaled: bool = False
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of [lower, upper] under Laplace noise, a bound on its relative error, and the logarithm of its factor.

    End points, scale and mean broadcast; ``lower <= upper``, infinite ones allowed. On one side of the mean the mass is
    ½ e^(-d/scale) (1 - e^(-w/scale)) with d the distance to the mean and w the width: the two roundings of d/scale move
    the exponential by 2u d/scale, those of w/scale the last factor by 2u, all else by less than 19u.

    With `scaled`, the mass is ``mass * exp(log_scale)``; log_scale is 0 where the exponential of the distance is above
    e^-600. A mass so small that float64 does not resolve the exponent is given as 0.
    """
    width = (upper - lower) / scale
    low, high = (lower - mean) / scale, (upper - mean) / scale
    distance = np.maximum(low, -high)
    np.maximum(distance, 0.0, out=distance)
    exponent = -distance
    log_scale = split_off(exponent, scaled)
    mass = np.exp(exponent)
    mass *= -0.5 * np.expm1(-width)
    straddles = (low < 0.0) & (high > 0.0)
    if straddles.any():
        mass[straddles] = -0.5 * (np.expm1(low[straddles]) + np.expm1(-high[straddles]))
    # The mass at an infinite distance is exactly 0.
    np.minimum(distance, 1e300, out=distance)
    distance *= 3.0 * UNIT_ROUNDOFF
    distance += 24.0 * UNIT_ROUNDOFF
    if scaled:
        drop_unresolved(mass, distance, log_scale)
    return mass, distance, log_scale


def split_off(exponent: FloatArray, wanted: bool) -> FloatArray:
    """Take the exponents below -600 out of `exponent`, if wanted, and return them; 0 for the others."""
    log_scale = np.zeros(exponent.shape)
    if wanted:
        deep = exponent < _DEEP
        if deep.any():
            log_scale[deep] = exponent[deep]
            exponent[deep] = 0.0
    return log_scale


def drop_unresolved(mass: FloatArray, error: FloatArray, log_scale: FloatArray) -> None:
    """Set masses to 0 whose exponent float64 does not resolve: they are below e to the -10^12."""
    unresolved = (error > _LARGEST_INTERVAL_ERROR) & (log_scale < 0.0)
    if unresolved.any():
        mass[unresolved] = 0.0
        error[unresolved] = 0.0
        log_scale[unresolved] = 0.0


def gaussian_interval(
    lower: FloatArray,
    upper: FloatArray,
    scale: float | FloatArray,
    mean: float | FloatArray = 0.0,
    *,
    scaled: bool = False,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass of [lower, upper] under Gaussian noise, a bound on its relative error, and the logarithm of its factor.

    Theorem 6 of docs/theory.md. End points, scale (the standard deviation) and mean broadcast; ``lower <= upper``,
    infinite ones allowed. With `scaled`, the mass is ``mass * exp(log_scale)``, with log_scale = -z²/2 where that is
    below -600, else 0. A mass so small that float64 does not resolve the exponent is given as 0.
    """
    shape = np.broadcast_shapes(np.shape(lower), np.shape(upper), np.shape(scale), np.shape(mean))
    if shape[-1] <= _BLOCK:
        return _gaussian_block(lower, upper, scale, mean, scaled)
    mass, error, log_scale = np.empty(shape), np.empty(shape), np.empty(shape)
    for start in range(0, shape[-1], _BLOCK):
        block = (..., slice(start, start + _BLOCK))
        mass[block], error[block], log_scale[block] = _gaussian_block(
            lower[block], upper[block], _columns(scale, block), _columns(mean, block), scaled
        )
    return mass, error, log_scale


def _columns(parameter: float | FloatArray, block: Any) -> float | FloatArray:
    """Return a parameter's values for some of the intervals; it may be the same for all."""
    if not isinstance(parameter, np.ndarray) or parameter.ndim == 0 or parameter.shape[-1] == 1:
        return parameter
    columns: FloatArray = parameter[block]
    return columns


def _gaussian_block(
    lower: FloatArray, upper: FloatArray, scale: float | FloatArray, mean: float | FloatArray, scaled: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    # Values computed here for wide intervals, some of them infinite, are replaced below.
    with np.errstate(invalid="ignore", over="ignore"):
        w = (upper - lower) / scale
        z = (lower - mean) / scale + 0.5 * w
        extent = np.abs(z)
        extent += 1.0
        extent *= w
        wide = ~(extent <= 1.0)
        some_wide = bool(wide.any())
        if some_wide:
            extent[wide] = 0.0
        mass = _mean_of_any(z, w, extent)
        z *= z
        z *= -0.5
        error = z * (-8.0 * UNIT_ROUNDOFF)
        error += 22.0 * UNIT_ROUNDOFF
        log_scale = split_off(z, scaled)
        mass *= np.exp(z)
        mass *= w / _ROOT_TWO_PI
    if some_wide:
        low, high = np.broadcast_arrays((lower - mean) / scale, (upper - mean) / scale)
        mass[wide], error[wide], log_scale[wide] = _wide_intervals(low[wide], high[wide], scaled)
    if scaled:
        drop_unresolved(mass, error, log_scale)
    return mass, error, log_scale


def _mean_of_any(z: FloatArray, w: FloatArray, extent: FloatArray) -> FloatArray:
    """Return the series M, with many terms only for the few intervals that need them."""
    largest = float(extent.max(initial=0.0))
    if largest <= _USUAL or extent.size < _FEW:
        return _mean_of_narrow(z, w, largest)
    wider = extent > _USUAL
    if 4 * np.count_nonzero(wider) > extent.size:
        return _mean_of_narrow(z, w, largest)
    mean = _mean_of_narrow(z, w, _USUAL)
    mean[wider] = _mean_of_narrow(z[wider], np.broadcast_to(w, z.shape)[wider], largest)
    return mean


def _mean_of_narrow(z: FloatArray, w: FloatArray, extent: float) -> FloatArray:
    """Return the series M of `gaussian_interval` for intervals of at most that extent.

    By H_(2k+2) = (t - (4k+1) d) H_2k - 2k (2k-1) d² H_(2k-2) for H_n = He_n(z) w^n, t = z²w² and d = w².
    """
    terms = next(count for count, largest in _SERIES_TERMS if extent <= largest)
    t = z * w
    t *= t
    d = w * w
    common = _common_value(d)
    if common is not None:
        return _mean_of_equally_wide(t, common, terms)
    d_squared = d * d
    before: FloatArray | float = 1.0
    last = t - d
    total: FloatArray = last * _SERIES_FACTORS[1]
    for k in range(1, terms):
        following = t - (4 * k + 1) * d
        following *= last
        following -= (2 * k * (2 * k - 1)) * d_squared * before
        before, last = last, following
        total += last * _SERIES_FACTORS[k + 1]
    total += 1.0
    return total


def _common_value(d: FloatArray) -> FloatArray | None:
    """Return a value within 8u of all squared widths in a row, those of empty and endless intervals aside, or None."""
    middle = d.shape[-1] // 2
    common: FloatArray = d[..., middle : middle + 1]
    if d.shape[-1] < _FEW or not np.isfinite(common).all():
        return None
    off = np.abs(d - common)
    off[(d == 0.0) | (d == np.inf)] = 0.0
    return common if (off <= 8.0 * UNIT_ROUNDOFF).all() else None


def _mean_of_equally_wide(t: FloatArray, d: FloatArray, terms: int) -> FloatArray:
    """Return the series M as a polynomial in t, whose coefficients are polynomials in the common d."""
    coefficients = _SERIES_POLYNOMIALS[terms] @ d[..., None, :] ** np.arange(terms + 1.0)[:, None]
    mean: FloatArray = t * coefficients[..., terms, :]
    mean += coefficients[..., terms - 1, :]
    for j in range(terms - 2, -1, -1):
        mean *= t
        mean += coefficients[..., j, :]
    return mean


def _wide_intervals(low: FloatArray, high: FloatArray, scaled: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Mass, relative error and logarithm of the scale of wide intervals of the standard normal distribution."""
    # Beyond 1e154 scales a square overflows; the infinite error says that the mass is not resolved.
    with np.errstate(over="ignore", invalid="ignore"):
        return _of_wide(low, high, scaled)


def _of_wide(low: FloatArray, high: FloatArray, scaled: bool) -> tuple[FloatArray, FloatArray, FloatArray]:
    mirrored: BoolArray = np.abs(low) > np.abs(high)
    near, far = np.where(mirrored, -high, low), np.where(mirrored, -low, high)
    mass = special.ndtr(-near) - special.ndtr(-far)
    # Left of the mean the survival function is at least ½ and hardly moves with a rounding of z.
    steepness = np.where(np.isfinite(near) & (near > 0.0), near, 0.0)
    steepness *= steepness
    log_scale = split_off(-0.5 * steepness, scaled)
    deep = log_scale < 0.0
    if deep.any():
        n, f = near[deep], far[deep]
        beyond = special.erfcx(f * _HALF_ROOT) * np.exp(0.5 * (n - f) * (n + f))
        mass[deep] = 0.5 * (special.erfcx(n * _HALF_ROOT) - beyond)
    return mass, (64.0 + 16.0 * steepness) * UNIT_ROUNDOFF, log_scale


#: A picture of a Gaussian variable: deviations beyond its means at least, values a deviation, and values at most.
BEYOND = 12.0
_RESOLUTION, _MAX_VALUES = 6.0, 2000


def picture_values(low: float, high: float, deviation: float, beyond: float) -> FloatArray | None:
    """Equally spaced values of a Gaussian variable of any mean from `low` to `high`, and so many deviations beyond.

    None if they would be too many.
    """
    first, last = low - beyond * deviation, high + beyond * deviation
    count = (last - first) / deviation * _RESOLUTION
    return np.linspace(first, last, math.ceil(count) + 1) if count < _MAX_VALUES else None


def steepest_tilt(loss: FloatArray, log_mass: FloatArray, target: float) -> float:
    """Return about the tilt of at least 0 that gives point masses the mean loss `target`, or a bit less, by Newton."""
    tilt = 0.0
    for _ in range(12):
        exponent = log_mass + tilt * loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        mean = float(weight @ loss)
        variance = float(weight @ (loss - mean) ** 2)
        missing = target - mean
        if variance <= 0.0 or abs(missing) <= 0.1 * math.sqrt(variance):
            break
        tilt = max(tilt + missing / variance, 0.0)
    return tilt


def log_moment_of_tail(tilt: float, mean: float, deviation: float, start: float) -> float:
    """Upper bound of ln E[e^(tilt V); V > start] for V ~ N(mean, deviation²).

    Completing the square, the density becomes exp(tilt mean + tilt² deviation² / 2) times that of
    N(mean + tilt deviation², deviation²). Mean and deviation may be off by 4u relatively; all roundings of the exponent
    and of the tail's end are paid for by 16u of their terms, and scipy's ``log_ndtr`` is taken to be accurate to
    32u (1 + |value|).
    """
    if start == math.inf:
        return -math.inf
    shift = tilt * deviation * deviation
    exponent = tilt * mean + 0.5 * tilt * shift
    exponent_error = 16.0 * UNIT_ROUNDOFF * (abs(tilt * mean) + 0.5 * tilt * shift)
    if start == -math.inf:
        return exponent + exponent_error
    end = (start - mean - shift) / deviation
    end -= 16.0 * UNIT_ROUNDOFF * (abs(start) + abs(mean) + abs(shift)) / deviation
    tail = float(special.log_ndtr(-end))
    return rounded_up(exponent + exponent_error + tail + 32.0 * UNIT_ROUNDOFF * (1.0 + abs(tail)))


def log_moment_of_lines(
    ends: FloatArray, anchor: FloatArray, level: FloatArray, slope: FloatArray, *, mean: float, deviation: float
) -> float:
    """Upper bound of ln Σ_j E[e^(level_j + slope_j (V - anchor_j)); ends_j < V < ends_(j+1)], V ~ N(mean, deviation²).

    `ends`, shape (k + 1,), do not fall; the outermost ones may be infinite. The others, shape (k,), are finite;
    each level is an upper value. Mean and deviation may be off by 4u relatively.

    The square is completed as in `log_moment_of_tail`, piece by piece. The mean of each piece then errs by
    some u of its terms, and the deviation by 4u: with z the largest distance in question, in deviations, that is less
    than 32u (1 + z²) of a mass; the roundings of the exponent are paid for by 16u of their terms.
    """
    shift = slope * deviation * deviation
    centre = mean + shift
    mass, error, log_scale = gaussian_interval(ends[:-1], ends[1:], deviation, centre, scaled=True)
    finite = ends[np.isfinite(ends)]
    terms = (level, slope * anchor, slope * mean, 0.5 * slope * shift)
    exponent = terms[0] - terms[1] + terms[2] + terms[3]
    largest = np.abs(terms).max(axis=0)
    reach = float(np.abs(finite).max(initial=0.0) + abs(mean) + np.abs(shift).max()) / deviation
    present = ends[:-1] < ends[1:]
    if not present.any():
        return -math.inf
    # A mass that float64 does not resolve is below any float64.
    upper = np.maximum(mass, SMALLEST_MASS) * (1.0 + 2.0 * error)
    logs = (np.log(upper) + log_scale + exponent + 64.0 * UNIT_ROUNDOFF * (1.0 + largest))[present]
    total = float(np.logaddexp.reduce(logs))
    # Each sum in the reduction errs by 16u at most and by its rounding.
    slack = 32.0 * (1.0 + reach * reach) + 16.0 * logs.size * (1.0 + abs(total))
    return float(total + slack * UNIT_ROUNDOFF)
