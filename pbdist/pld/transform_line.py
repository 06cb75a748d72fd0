r"""The transform of a sampled Gaussian's losses on a line of the complex plane, with a bound on its error.

χ(ρ + it) is summed along outcomes y + ia, where e^{itX} decays. The sum is one of exponentials of t: many frequencies
are interpolated between Chebyshev points, panel by panel. Section 13 of ``docs/pld.md`` proves the errors.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.loss_transform import REACH, LossTransform, SoftCut
from pbdist.types import BoolArray, ComplexArray, FloatArray

_U = UNIT_ROUNDOFF
#: Terms that are left out, relative to the largest.
_LEFT_OUT = 1e-20
#: Degree of an interpolation. Width of the first panel; of later ones relative to where they begin and to the panel
#: before; factor by which a panel that is too wide is narrowed.
_DEGREE, _FIRST_PANEL, _GROWTH, _WIDER, _NARROWER = 24, 2.0, 0.8, 1.6, 0.7
#: Up to so many frequencies are summed one by one.
_FEW = 2000
#: Ellipses that are tried.
_ELLIPSES = np.array([1.8, 3.0, 5.5])
#: Error of an interpolation relative to the sizes of all terms; half the narrowest panel.
_INTERPOLATION, _NARROWEST = 1e-14, 1e-3
#: Terms e^{wX} below e to this are left out.
_FALLEN = -54.0
#: No frequency exceeds this.
_LARGEST_FREQUENCY = 1e8
#: Above this real part e^z - 1 is computed as e^z less 1.
_LARGE = 30.0
#: Error of `LossTransform.log_real`, times 1 + |w|.
_REAL_ERROR = 1e-11


class TransformLine:
    """χ(ρ + it) for t >= 0 on one line Re w = ρ, relative to e^{log_scale}, of all losses or of a `part` of them.

    Of a part ρ is at least 1. The phase t ln(1 - q) is left out.
    """

    def __init__(self, transform: LossTransform, exponent: float, part: SoftCut | None = None) -> None:
        self._exponent = exponent
        step, low, high = transform.rule(np.array([exponent]), shifted=True, part=part)
        strip = transform.strip(exponent, part)
        above = 0.5 * strip
        y: FloatArray = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1).astype(np.float64)
        excess, turn, error = transform.excess(y, above)
        least = exponent * transform.smallest_loss
        point = np.array([exponent])
        whole = float(transform.log_real(point, part)[0]) - least
        #: Whether all of 1 + G is summed, relative to its value at t = 0, instead of G alone, where that is small.
        self._direct = abs(whole) > 1.0 or part is not None
        self._scale = whole if self._direct else 0.0
        self.log_scale = least + self._scale
        #: Of the parts of `log_scale`, whose rounding it has.
        self.log_scale_size = abs(least) + abs(self._scale)
        #: ln(1 - q), by which the phase turns.
        self.smallest_loss = transform.smallest_loss
        rounded = _REAL_ERROR * (1.0 + abs(exponent)) + 64.0 * _U * (transform.ratio * exponent) ** 2
        self._log_largest = whole - self._scale + rounded
        log_normal = 0.5 * (above * above - y * y) + math.log(step / math.sqrt(2.0 * math.pi))
        phase, real = -above * y, exponent * excess
        # Of the masses, and their phases; sums are by pairs, of blocks of 128.
        off = _U * (3.0 * (y**2 + above**2 + np.abs(above * y)) + 4.0 * abs(self._scale) + 80.0 + y.size / 128.0)
        if part is not None:
            log_part, turned, doubt = part.at(y, above)
            log_normal, phase, off = log_normal + log_part, phase + turned, off + doubt
        move = error + 8.0 * _U * (excess + turn)
        # Rounded up.
        self._every_turn = turn
        self._weight = np.exp(log_normal + real - self._scale) * (1.0 + 2.0 * (off + abs(exponent) * move))
        sizes = self._sizes(log_normal, real, (abs(exponent) + _LARGEST_FREQUENCY) * np.hypot(excess, turn))
        kept = sizes > _LEFT_OUT * sizes.max()
        if part is None:
            edge = 2.0 * float(self._weight[0] + self._weight[-1] + np.exp(log_normal[0]) + np.exp(log_normal[-1]))
            beyond = edge * _beyond(transform, exponent, float(y[0]), step)
        else:
            ends = float(y[0]), float(y[-1])
            shift = exponent * transform.ratio
            beyond = math.exp(part.log_below(ends[0], above) + float(real[0]) - self._scale)
            # |e^{wX}| is largest on the real line.
            highest = exponent * float(transform.excess(y[-1:], 0.0)[0][0])
            beyond += math.exp(part.log_beyond(ends[1], above, shift, step) + highest - self._scale)
        lost = float(sizes[~kept].sum()) + beyond if math.isfinite(beyond) else math.inf
        self._excess, self._turn, self._log_normal = excess[kept], turn[kept], log_normal[kept]
        self._phase = phase[kept]
        self._error, self._move = off[kept], move[kept]
        steep = transform.log_growth(exponent, strip)
        # e^{itX} is at most 1; 1 + G is at most e as it is scaled, and 1 is summed besides or not.
        grown = 0.0 if part is None else part.log_growth(strip)
        quadrature = (
            math.exp(0.5 * strip * strip + grown) * (3.0 * math.exp(steep) + 1.0) / math.expm1(math.pi * strip / step)
        )
        #: What every value is off by, but for interpolation and rounding.
        self._constant_error = (2.02 * quadrature + lost) * (1.0 + 1e-6)
        self._panels: list[_Panel] = []

    def log_largest(self, t: float) -> float:
        r"""Return an upper bound on ln \|χ\| for all frequencies from t on, relative to e^{log_scale}."""
        terms = float(np.dot(self._weight, np.exp(-t * self._every_turn))) * (1.0 + 1e-9) + self._constant_error
        # It is nowhere larger than at t = 0.
        return min(math.log(terms), self._log_largest)

    def log_fall(self, t: float) -> float:
        r"""Return by how much ln \|χ\| is at least less than at t = 0, for all frequencies from t on; not a bound."""
        return self.log_largest(t) - self._log_largest

    def logarithms(self, spacing: float, number: int) -> tuple[ComplexArray, FloatArray]:
        """Return ln χ at t = spacing × 0, 1, .. number - 1, but for its phase t ln(1 - q).

        Besides, numbers x with e^x - 1 a bound on the relative error of χ.
        """
        if spacing * number > _LARGEST_FREQUENCY:
            return np.zeros(number, dtype=np.complex128), np.full(number, math.inf)
        values, errors = self._values(spacing, number)
        if self._direct:
            absolute = np.maximum(np.abs(values), 1e-300)
            result = np.log(np.where(absolute > 1e-300, values, 1e-300))
            errors = errors + 8.0 * _U * absolute
        else:
            square = np.abs(values) ** 2
            inner = 2.0 * values.real + square
            # ln(1 + G) by what 1 + G differs from 1, or by itself where it is small.
            small = inner < -0.5
            whole = 1.0 + values
            absolute = np.where(small, np.maximum(np.abs(whole), 1e-300), np.sqrt(1.0 + np.where(small, 0.0, inner)))
            size = np.where(small, np.log(absolute), 0.5 * np.log1p(np.where(small, 0.0, inner)))
            result = size + 1j * np.arctan2(whole.imag, whole.real)
            errors = errors + 8.0 * _U * np.sqrt(square) * (1.0 + np.sqrt(square)) / np.where(small, 1.0, absolute)
        return result, np.log1p(errors / absolute) + 8.0 * _U * np.abs(result)

    def _values(self, spacing: float, number: int) -> tuple[ComplexArray, FloatArray]:
        t: FloatArray = spacing * np.arange(number).astype(np.float64)
        if number <= _FEW:
            return self._one_by_one(t)
        self._extend(float(t[-1]))
        where = np.searchsorted(np.array([panel.end for panel in self._panels[:-1]]), t)
        middles, halves, centres, errors = np.array(
            [(panel.middle, panel.half, panel.centre, panel.error) for panel in self._panels]
        ).T
        # The difference is exact but for the first panels.
        moved = np.clip((t - middles[where]) / halves[where], -1.0, 1.0)
        coefficients = np.array([panel.coefficients for panel in self._panels]).T
        first = np.zeros(number, dtype=np.complex128)
        second = np.zeros(number, dtype=np.complex128)
        double = 2.0 * moved
        for coefficient in coefficients[:0:-1]:
            first, second = coefficient[where] + double * first - second, first
        result: ComplexArray = coefficients[0][where] + moved * first - second
        # The centre of a panel's losses was taken out of its phase.
        result *= np.exp(1j * (centres[where] * t))
        turned = 4.0 * _U * (centres[where] * t + 1.0) * np.abs(result)
        result += np.array([panel.constant for panel in self._panels])[where]
        return result, errors[where] + self._constant_error + turned

    def _one_by_one(self, t: FloatArray) -> tuple[ComplexArray, FloatArray]:
        """Sum at each frequency, in blocks over which few terms fall."""
        values, errors = np.empty(t.size, dtype=np.complex128), np.empty(t.size)
        first = 0
        while first < t.size:
            last = min(max(2 * first, first + 16), t.size)
            present = self._present(float(t[first]), float(t[last - 1]))
            values[first:last] = present.constant + self._even_terms(t[first:last], ~present.fallen)
            errors[first:last] = (present.rounding + present.off) * 1.01
            first = last
        return values, errors + self._constant_error

    def _present(self, begin: float, end: float) -> "_Present":
        """Return which terms there are at some frequencies, their sizes, and what their sum is off by."""
        exponent, wide = self._exponent, abs(self._exponent) + end
        # Where e^{wX} has fallen to nothing its term is the mass, less than 0, or none.
        fallen = self._log_normal + exponent * self._excess - begin * self._turn < _FALLEN + self._scale
        constant, gone, off = 0j, 0.0, math.exp(_FALLEN) * float(np.count_nonzero(fallen))
        if not self._direct:
            lost = np.exp(self._log_normal[fallen] + 1j * self._phase[fallen])
            constant, gone = -complex(np.sum(lost)), float(np.sum(np.abs(lost)))
            off += float(np.dot(np.abs(lost), self._error[fallen]))
        excess, turn, log_normal = self._excess[~fallen], self._turn[~fallen], self._log_normal[~fallen]
        real = exponent * excess - begin * turn
        sizes = self._sizes(log_normal, real, wide * np.hypot(excess, turn))
        # Of X, by e^z dz, and of everything else.
        grown = np.exp(log_normal + (real if self._direct else np.maximum(real, 0.0)) - self._scale)
        total = float(sizes.sum()) + gone
        rounding = float(np.dot(grown, wide * self._move[~fallen])) + float(np.dot(sizes, self._error[~fallen]))
        return _Present(fallen, constant, off, sizes, total, rounding + 4.0 * _U * total)

    def _extend(self, end: float) -> None:
        """Interpolate up to some frequency."""
        begin = self._panels[-1].end if self._panels else 0.0
        while begin <= end:
            width = max(_FIRST_PANEL, _GROWTH * begin)
            if self._panels:
                width = min(width, _WIDER * 2.0 * self._panels[-1].half)
            while True:
                panel = self._panel(begin + 0.5 * width, 0.5 * width)
                if panel is not None:
                    break
                width *= _NARROWER
            self._panels.append(panel)
            begin = panel.end

    def _panel(self, middle: float, half: float) -> "_Panel | None":
        begin, end, exponent = middle - half, middle + half, self._exponent
        present = self._present(begin, end)
        fallen, sizes = present.fallen, present.sizes
        if fallen.all():
            nothing = np.zeros(_DEGREE + 1, dtype=np.complex128)
            return _Panel(middle, half, 0.0, present.constant, nothing, present.off)
        excess, turn, log_normal = self._excess[~fallen], self._turn[~fallen], self._log_normal[~fallen]
        modulus, seen = np.hypot(excess, turn), excess[sizes >= 1e-12 * sizes.max()]
        centre = 0.5 * float(seen.max() + (seen.min() if self._direct else 0.0))
        # On an ellipse of frequencies u + iv, w = ρ - v + iu, and e^{it centre} is at most e^{|v| centre}.
        outer, inner = 0.5 * (_ELLIPSES + 1.0 / _ELLIPSES) * half, 0.5 * (_ELLIPSES - 1.0 / _ELLIPSES) * half
        sums = np.zeros(_ELLIPSES.size)
        for sign in (-1.0, 1.0):
            # e^{wX} e^{-it centre} and the term 1 × e^{-it centre}.
            growth = np.multiply.outer(exponent + sign * inner, excess) - np.multiply.outer(middle - outer, turn)
            wide = (abs(exponent) + inner + middle + outer)[:, None] * modulus
            shifted = log_normal - (sign * inner * centre)[:, None]
            sums = np.maximum(sums, self._sizes(shifted, growth, wide).sum(axis=1))
        bounds = 4.0 * sums * _ELLIPSES ** (-float(_DEGREE)) / (_ELLIPSES - 1.0)
        best = float(bounds.min())
        if best > _INTERPOLATION * present.total and half > _NARROWEST:
            return None
        points = middle + half * _CHEBYSHEV
        values = self._terms(points, ~fallen) * np.exp(-1j * centre * points)
        coefficients = _TO_COEFFICIENTS @ values
        rounding = present.rounding + 4.0 * _U * present.total * end * centre
        # Each step of Clenshaw's recurrence is off by at most 8u of its terms, which grows at most as U_k does; and
        # where in a panel a frequency lies is off by some u, relative to all frequencies.
        parts, degree = np.abs(coefficients), np.arange(_DEGREE + 1.0)
        stable = _U * float(np.dot(parts, 1.5 * (degree + 2.0) ** 3 + (6.0 + 2.0 * end / half) * degree**2))
        # Coefficients are sums of so many terms, whose factors are off by 8u of 2 / 25.
        stable += _U * (_DEGREE + 4.0) * float(np.dot(np.abs(_TO_COEFFICIENTS).sum(axis=0), np.abs(values)))
        stable += 20.0 * _U * float(np.abs(values).sum())
        error = (best + _LEBESGUE * rounding + present.off + stable) * 1.01
        return _Panel(middle, half, centre, present.constant, coefficients, error)

    def _sizes(self, log_normal: FloatArray, real: FloatArray, modulus: FloatArray) -> FloatArray:
        """Bound all terms: |e^z - 1| <= 2 min(|z|, 1) e^max(Re z, 0), or e^Re z where all of 1 + G is summed."""
        if self._direct:
            return np.asarray(np.exp(np.minimum(log_normal + real - self._scale, 600.0)))
        exponents = np.minimum(log_normal + np.maximum(real, 0.0), 600.0)
        return np.asarray(2.0 * np.minimum(modulus, 1.0) * np.exp(exponents))

    def _even_terms(self, t: FloatArray, chosen: BoolArray) -> ComplexArray:
        """Sum some terms at evenly spaced frequencies: e^{x+y} - 1 = (e^x - 1)(e^y - 1) + (e^x - 1) + (e^y - 1)."""
        near = max(math.isqrt(t.size), 1)
        excess, turn = self._excess[chosen], self._turn[chosen]
        first = t[::near]
        masses = np.exp(self._log_normal[chosen] + 1j * self._phase[chosen])
        moved = t[:near] - t[0]
        result = np.empty((first.size, near), dtype=np.complex128)
        if self._direct:
            far = self._single_terms(first, chosen)
            turned = np.exp(np.multiply.outer(moved, 1j * excess - turn))
            for index, each in enumerate(far):
                result[index] = np.sum(each * turned, axis=1)
            return result.reshape(-1)[: t.size]
        far, step = (
            self._single_terms(first, chosen),
            _less_one(-np.multiply.outer(moved, turn), np.multiply.outer(moved, excess)),
        )
        alone = np.sum(masses * step, axis=1)
        for index, each in enumerate(far):
            result[index] = np.sum(each * step + each, axis=1) + alone
        return result.reshape(-1)[: t.size]

    def _terms(self, t: FloatArray, chosen: BoolArray) -> ComplexArray:
        """Sum some terms at some frequencies."""
        return np.asarray(np.sum(self._single_terms(t, chosen), axis=1))

    def _single_terms(self, t: FloatArray, chosen: BoolArray) -> ComplexArray:
        """Return some terms at some frequencies."""
        excess, turn = self._excess[chosen], self._turn[chosen]
        real = self._exponent * excess - np.multiply.outer(t, turn)
        phase = self._exponent * turn + np.multiply.outer(t, excess)
        log_normal, turned = self._log_normal[chosen], self._phase[chosen]
        if self._direct:
            return np.asarray(np.exp(log_normal + real - self._scale + 1j * (phase + turned)))
        masses = np.exp(log_normal + 1j * turned)
        # Where e^z may be no float its mass makes it one.
        large = self._exponent * excess > _LARGE
        if not large.any():
            return np.asarray(_less_one(real, phase) * masses)
        small = ~large
        terms = np.empty(real.shape, dtype=np.complex128)
        terms[:, small] = _less_one(real[:, small], phase[:, small]) * masses[small]
        whole = np.exp((log_normal + real + 1j * (phase + turned))[:, large])
        terms[:, large] = whole - masses[large]
        return terms


def _less_one(real: FloatArray, phase: FloatArray) -> ComplexArray:
    """Return e^z - 1."""
    growth, angle = np.expm1(real), 0.5 * phase
    sine = np.sin(angle)
    square = 2.0 * sine * sine
    result = np.empty(real.shape, dtype=np.complex128)
    result.real = growth * (1.0 - square) - square
    result.imag = (growth + 1.0) * (2.0 * sine * np.cos(angle))
    return result


#: By tilt the transforms of all pairs of a round, whether each is taken as it is, and how often it occurs.
Lines: TypeAlias = dict[float, list[tuple[TransformLine, bool, int]]]


@dataclass(frozen=True, eq=False)
class _Present:
    """Terms at some frequencies: those that have fallen, their sum, and what it is off by; sizes of the others."""

    fallen: BoolArray
    constant: complex
    off: float
    sizes: FloatArray
    total: float
    rounding: float


@dataclass(frozen=True, eq=False)
class _Panel:
    middle: float
    half: float
    centre: float
    constant: complex
    coefficients: ComplexArray
    error: float

    @property
    def end(self) -> float:
        return self.middle + self.half


def _beyond(transform: LossTransform, exponent: float, first: float, step: float) -> float:
    """All terms beyond both ends, relative to the outermost ones.

    The logarithm of a term changes by -y + ρ Σ μ_k Re p_k, p_k = q_k e^{V_k} / C; no Re p_k is below 0, nor their sum
    above 1, as no angle exceeds π/2: above all modes it falls by at least the reach. Below the first outcome so it
    does, too, but for what the sum is there.
    """
    slope = REACH
    if exponent < 0.0:
        slope = min(slope, -first + exponent * transform.slope_below(first))
        if slope < 0.5 * REACH:
            return math.inf
    return 1.0 / -math.expm1(-step * slope)


_ANGLES = math.pi * (np.arange(_DEGREE + 1) + 0.5) / (_DEGREE + 1)
_CHEBYSHEV = np.cos(_ANGLES)
#: cos of k times each angle, of angles below 2π, so that each is off by at most 8u.
_TURNS = np.multiply.outer(np.arange(_DEGREE + 1), 2 * np.arange(_DEGREE + 1) + 1) % (4 * (_DEGREE + 1))
_TO_COEFFICIENTS = 2.0 / (_DEGREE + 1) * np.cos(math.pi * _TURNS / (2.0 * (_DEGREE + 1)))
_TO_COEFFICIENTS[0] *= 0.5
#: Of Chebyshev points of the first kind: at most 2/π ln(n + 1) + 1 (Rivlin).
_LEBESGUE = 2.0 / math.pi * math.log(_DEGREE + 1) + 1.0
