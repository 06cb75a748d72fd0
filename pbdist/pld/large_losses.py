r"""δ by the parts of large losses and of usual ones, where sampling is rare.

No one tilt brings losses near ε there, for few usual losses and one that is rare and large count as much as many. So
the measure P of a round is cut softly into usual losses U and large ones, and δ is the sum of what U^n has, and of what
P^n - U^n has, where at least one loss is large. Where Chernoff's bound shows that one of the two is next to nothing the
other one is inverted by its own frequencies, with its own tilt. Section 15 of ``docs/pld.md``.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.pld.frequencies import Powers
from pbdist.pld.loss_transform import LossTransform, TransformLine
from pbdist.pld.rounds import Rounds
from pbdist.pld.smoothing import Smoothed, SmoothedBounds, Tilts, exactly
from pbdist.pld.soft_cut import SoftCut
from pbdist.types import BoolArray, ComplexArray, FloatArray

__all__ = ["LargeLosses", "LossCuts", "LossPart", "UsualLosses"]

_U = UNIT_ROUNDOFF
#: Width of the cut, in deviations, and its places: multiples of this.
_BLUR, _PLACES = 0.1, 0.05
#: Parts, large losses and usual ones, and their cuts, relative to ε, in the order in which they are tried: large losses
#: are the more alike the higher the cut is, usual ones the lower it is.
_FRACTIONS = ((0, 0.93), (0, 0.85), (0, 0.65), (0, 0.45), (1, 0.3), (1, 0.5), (1, 0.65), (1, 0.8))
_FRACTIONS_LEAST = min(fraction for _, fraction in _FRACTIONS)
#: Where both parts matter.
_MIDDLES = (0.65, 0.45)
#: Tilts of usual losses: how many, the least and the largest, relative to 1 / cut, and the largest one of outcomes that
#: it moves by so many deviations times 1 + 1 / b².
_TILTS, _LEAST_USUAL, _MOST_USUAL, _MOST_SHIFT = 121, 0.05, 100.0, 1000.0
#: Nothing is cut where a cut would see tilts up to less than this, relative to 1 / cut, or lie beyond such an outcome.
_ENOUGH_TILTS, _FARTHEST = 2.0, 60.0
#: Part of the tolerance that what is left out may take.
_OF_OTHER = 0.02
#: Nats by which a saddle point may tell too much, and by which all losses seem to have more δ than their parts where
#: they are cut.
_DOUBT, _APART, _APART_MISSED = 2.0, 10.0, 5.0
#: Nats by which a part's saddle point may exceed what the part seems to have.
_SEEN = 10.0
#: A closer look at what is left out: ratio, relative to 1 / tilt, of its own and of what is looked for; cut, nats; and
#: frequencies, at most.
_CLOSE_RATIO, _OWN_RATIO, _CLOSE_CUT, _CLOSE_SIZE = 0.3, 0.05, 40.0, 4000
#: Modes so far above the cut see nothing of it, deviations.
_BEYOND = 6.0
#: Outcomes of one large loss that are looked at: step and reach, deviations.
_STEP, _REACH = 0.05, 10.0
#: More than what a difference is off by where floats are no full ones any more.
_FAINT = 1e-299
#: From here on the large losses' part of a transform is no small one.
_LARGEST_PART = 0.9


class _Cut:
    """The two parts of a round's losses, whatever the number of rounds."""

    def __init__(self, rounds: Rounds, tilts: Tilts, outcome: float, loss: float) -> None:
        self.large, self.usual = SoftCut(outcome, _BLUR, large=True), SoftCut(outcome, _BLUR, large=False)
        self._rounds, self._tilts, self._loss = rounds, tilts, loss
        self.large_lines: dict[float, TransformLine] = {}

    @cached_property
    def log_large(self) -> FloatArray:
        """Logarithm of the large losses' moment at all tilts, infinite where nothing is told."""
        transform, tilt = self._rounds.sampled[0][0], self._tilts.tilt
        result = np.full(tilt.size, np.inf)
        seen = (1.0 + tilt) * transform.ratio <= self.large.outcome + _BEYOND
        if seen.any():
            result[seen] = transform.log_real(1.0 + tilt[seen], self.large)
        return result

    @cached_property
    def usual_tilts(self) -> Tilts:
        """Tilts of usual losses."""
        transform, _, count = self._rounds.sampled[0]
        most = min(_MOST_USUAL / self._loss, _MOST_SHIFT / transform.ratio)
        tilt = exactly(np.geomspace(_LEAST_USUAL / self._loss, most, _TILTS))
        moments = count * transform.log_real(1.0 + tilt, self.usual)
        moments += 0.5 * self._rounds.variance * (tilt + tilt * tilt)
        return Tilts(tilt, moments, moments + self._rounds.log_moment_error(tilt))


class LossCuts:
    """Cuts of one direction's losses.

    Parameters
    ----------
    rounds : Rounds
        One pair with a transform, its loss that under the mixture, besides Gaussian mechanisms.
    tilts : Tilts
    """

    def __init__(self, rounds: Rounds, tilts: Tilts) -> None:
        self._rounds, self._tilts = rounds, tilts
        self._cuts: dict[float, _Cut] = {}

    @staticmethod
    def serves(rounds: Rounds) -> bool:
        """Whether these losses are cut."""
        return len(rounds.sampled) == 1 and rounds.sampled[0][1]

    def needed(self, side: Smoothed, epsilon: FloatArray, *, missed: bool = False) -> BoolArray:
        """Whether no one tilt of all losses does, as it tells far more than there seems to be; or `missed` already."""
        result, most = side.between_modes(epsilon), side.saddle(epsilon)[1] - (_APART_MISSED if missed else _APART)
        result &= most > -np.inf
        result[result] = [self.sees(each) for each in epsilon[result].tolist()]
        result[result] = self._log_single(side.number, epsilon[result]) < most[result]
        for place in np.flatnonzero(result).tolist():
            usual = self._part(1, side.number, float(epsilon[place]), _MIDDLES[0])
            result[place] = usual.about(epsilon[place : place + 1])[0] < most[place]
        return result

    def sees(self, epsilon: float) -> bool:
        """Whether cuts for an ε see tilts that matter, of outcomes that are not too far away."""
        transform = self._rounds.sampled[0][0]
        if _FRACTIONS_LEAST * epsilon * _MOST_SHIFT <= _ENOUGH_TILTS * transform.ratio:
            return False
        return transform.outcome(epsilon) < _FARTHEST

    def about(self, number: int, epsilon: float) -> float:
        """Return about ln δ of both parts at one ε that is seen."""
        points = np.array([epsilon])
        return max(float(part.about(points)[0]) for part in next(self.both(number, epsilon)))

    def _log_single(self, number: int, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ of one large loss alone."""
        transform, _, count = self._rounds.sampled[0]
        return log_single(transform, number * count, epsilon)

    def part(self, number: int, epsilon: FloatArray, tolerance: float) -> "tuple[LossPart, BoolArray] | None":
        """Return what has nearly all δ of the smallest ε, if a part has, and which ε it serves."""
        alone, little = np.array([float(np.min(epsilon))]), math.log(_OF_OTHER * tolerance)
        for closely in (False, True):
            for place, fraction in _FRACTIONS:
                part = self._part(place, number, float(alone[0]), fraction)
                about = part.about(alone)[0]
                if part.saddle(alone)[1][0] > about + _SEEN or (closely and not part.look_closely(alone, little)):
                    continue
                if part.log_left_out(alone, 0.0)[0] < about + little:
                    return part, np.asarray(part.log_left_out(epsilon, 0.0) < part.about(epsilon) + little)
        return None

    def both(self, number: int, least: float) -> "Iterator[tuple[LossPart, ...]]":
        """Cut so that each part has some of δ for the smallest ε, and leave nothing out; in more than one way."""
        for fraction in _MIDDLES:
            parts = tuple(self._part(place, number, least, fraction) for place in (0, 1))
            for part in parts:
                part.alone = True
            yield parts

    def _part(self, place: int, number: int, epsilon: float, fraction: float) -> "LossPart":
        kind = (LargeLosses, UsualLosses)[place]
        return kind(self._rounds, number, self._tilts, self.cut(fraction * epsilon))

    def cut(self, loss: float) -> _Cut:
        """Cut at about a loss."""
        outcome = _PLACES * math.floor(self._rounds.sampled[0][0].outcome(loss) / _PLACES)
        if outcome not in self._cuts:
            self._cuts[outcome] = _Cut(self._rounds, self._tilts, outcome, loss)
        return self._cuts[outcome]


class LossPart(Smoothed, ABC):
    """δ of one part of the losses, in one direction; the other one is left out and bounded.

    Parameters
    ----------
    rounds : Rounds
    number : int
        r.
    tilts : Tilts
        Of all losses.
    cut : _Cut
    """

    def __init__(self, rounds: Rounds, number: int, tilts: Tilts, cut: _Cut) -> None:
        self._all_tilts, self._cut = tilts, cut
        self._transform, _, self._count = rounds.sampled[0]
        self._inverted: SmoothedBounds | None = None
        self._counterpart: LossPart | None = None
        #: Whether it is told alone, without what is left out.
        self.alone = False
        super().__init__(rounds, number, self._own_tilts())

    @property
    @abstractmethod
    def soft_cut(self) -> SoftCut:
        """Which losses these are."""

    @abstractmethod
    def _own_tilts(self) -> Tilts: ...

    @abstractmethod
    def about(self, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ, rather less than more."""

    @property
    @abstractmethod
    def other(self) -> "LossPart":
        """The part that is left out."""

    def _left_out_by(self, kind: "type[LossPart]") -> "LossPart":
        if self._counterpart is None:
            self._counterpart = kind(self.rounds, self.number, self._all_tilts, self._cut)
        return self._counterpart

    def log_left_out(self, epsilon: FloatArray, ratio: float) -> FloatArray:
        """Bound ln δ of the other part, by Chernoff's bound or as `look_closely` found it."""
        if self.alone:
            return super().log_left_out(epsilon, ratio)
        result = self.other.chernoff(epsilon, ratio)
        # With a larger ratio it has more.
        if self._inverted is not None and ratio <= self._inverted.ratio:
            result = np.minimum(result, self._inverted.log_most(epsilon))
        return result

    def look_closely(self, epsilon: FloatArray, little: float) -> bool:
        """Bound the other part at an ε by its own frequencies, if it seems to be less by `little` nats."""
        other = self.other
        if other.about(epsilon)[0] > self.about(epsilon)[0] + little:
            return False
        tilt, log_delta = other.saddle(epsilon)
        chosen = other.gentler(float(tilt[0]))
        ratio = max(_CLOSE_RATIO / chosen, _OWN_RATIO / float(self.saddle(epsilon)[0][0]))
        period = other.period(epsilon, np.minimum(log_delta, other.about(epsilon)), chosen, 1.0)
        if other.size(chosen, ratio, period, _CLOSE_CUT) > _CLOSE_SIZE:
            return False
        self._inverted = other.at(chosen, ratio, period, _CLOSE_CUT)
        return True


class LargeLosses(LossPart):
    """δ of what has at least one large loss: of P^n - U^n."""

    @property
    def soft_cut(self) -> SoftCut:
        """Large losses."""
        return self._cut.large

    def _own_tilts(self) -> Tilts:
        return self._all_tilts

    def _moments(self) -> tuple[FloatArray, FloatArray]:
        """P^n - U^n <= n (P - U) P^(n-1), and at most P^n."""
        tilt, number = self.tilts.tilt, self.number * self._count
        whole, upper = super()._moments()
        single = (self.tilts.log_moments - 0.5 * self.rounds.variance * (tilt + tilt * tilt)) / self._count
        large = math.log(number) + self._cut.log_large - single
        off = 3.0 * self.rounds.log_moment_error(tilt)
        return np.minimum(whole, whole + large), np.minimum(upper, upper + large + off)

    def about(self, epsilon: FloatArray) -> FloatArray:
        """Return ln δ of one large loss alone."""
        one = log_single(self._transform, self.number * self._count, epsilon)
        return np.minimum(one, self.saddle(epsilon)[1])

    @property
    def other(self) -> LossPart:
        """Usual losses alone."""
        return self._left_out_by(UsualLosses)

    def log_fall(self, tilt: float, t: float) -> float:
        """By how much terms are less from frequency t on than at 0, but for Gaussian mechanisms; about."""
        line, part = self.lines_at(tilt)[0][0], self._large(tilt)
        number = self.number * self._count
        return _log_most(line, part, number, t) - _log_most(line, part, number, 0.0)

    def powers(self, tilt: float, ratio: float, period: float, cut: float) -> Powers:
        """Return P^n - U^n at all frequencies that matter, with a mechanism of ratio s."""
        return _Differences(
            self._large(tilt),
            self.lines_at(tilt),
            self.number,
            self.number * self.rounds.variance,
            tilt=tilt,
            spacing=2.0 * math.pi / period,
            size=self.size(tilt, ratio, period, cut),
        )

    def _large(self, tilt: float) -> TransformLine:
        lines = self._cut.large_lines
        if tilt not in lines:
            lines[tilt] = self._transform.line(1.0 + tilt, self._cut.large)
        return lines[tilt]


class UsualLosses(LossPart):
    """δ of usual losses alone: of U^n."""

    @property
    def soft_cut(self) -> SoftCut:
        """Usual losses."""
        return self._cut.usual

    def _own_tilts(self) -> Tilts:
        return self._cut.usual_tilts

    def about(self, epsilon: FloatArray) -> FloatArray:
        """Return ln δ by the saddle point."""
        return self.saddle(epsilon)[1] - _DOUBT

    @property
    def other(self) -> LossPart:
        """What has a large loss."""
        return self._left_out_by(LargeLosses)

    def lines_at(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transform on the line of a tilt."""
        lines = self.tilts.lines
        if tilt not in lines:
            lines[tilt] = [(self._transform.line(1.0 + tilt, self._cut.usual), True, self._count)]
        return lines[tilt]


class _Differences(Powers):
    """P^n - U^n = P^n (1 - (1 - V / P)^n) at all frequencies, V of large losses."""

    def __init__(
        self,
        part: TransformLine,
        lines: Sequence[tuple[TransformLine, bool, int]],
        number: int,
        variance: float,
        *,
        tilt: float,
        spacing: float,
        size: int,
    ) -> None:
        self._part, self._line = part, lines[0][0]
        self._number = number * lines[0][2]
        super().__init__(lines, number, variance, tilt=tilt, spacing=spacing, size=size)

    def _scaled(self) -> None:
        line, part, number = self._line, self._part, self._number
        log_whole, doubt = line.logarithms(self._spacing, self._t.size)
        log_part, part_doubt = part.logarithms(self._spacing, self._t.size)
        ratio = np.exp(np.minimum((log_part - log_whole).real + (part.log_scale - line.log_scale), 300.0)) * np.exp(
            1j * (log_part - log_whole).imag
        )
        scales = line.log_scale_size + part.log_scale_size
        doubts = doubt + part_doubt + 8.0 * _U * (4.0 + scales + np.abs(log_part - log_whole))
        less, error = _one_less_power(ratio, np.abs(ratio) * np.expm1(np.minimum(doubts, 300.0)), number)
        size = np.maximum(np.abs(less), 1e-300)
        self._exponent += np.log(np.where(size > 1e-300, less, 1e-300))
        # What is that small was no full float, or is put in the place of one.
        self._doubt += np.log1p((error + _FAINT * (1.0 + number)) / size)
        self._doubt[doubts > 300.0] = math.inf
        self._log_beyond = _log_most(line, part, number, float(self._t[-1])) - self._log_scale
        super()._scaled()


def _one_less_power(part: ComplexArray, off: FloatArray, number: int) -> tuple[ComplexArray, FloatArray]:
    """Return 1 - (1 - v)^n, and a bound on its error where v is off by so much; that is infinite for a large v."""
    size = np.abs(part)
    known = size + off < _LARGEST_PART
    v = np.where(known, part, 0.0)
    size = np.abs(v)
    power = number * (0.5 * np.log1p(size**2 - 2.0 * v.real) + 1j * np.arctan2(-v.imag, 1.0 - v.real))
    doubt = number * (off + 32.0 * _U * size) / (1.0 - _LARGEST_PART) + 8.0 * _U * np.abs(power)
    # |1 - v| may exceed 1, where v has turned.
    real = np.minimum(power.real, 600.0)
    sine = np.sin(0.5 * power.imag)
    grown = np.exp(real)
    result = -(np.expm1(real) * np.cos(power.imag) - 2.0 * sine * sine) - 1j * grown * np.sin(power.imag)
    error = grown * np.expm1(np.minimum(doubt, 1.0)) + 16.0 * _U * (
        np.abs(np.expm1(real)) + 2.0 * np.abs(sine) * (1.0 + grown)
    )
    return result, np.where(known & (doubt < 1.0) & (power.real < 600.0), error, np.inf)


def _log_most(line: TransformLine, part: TransformLine, number: int, t: float) -> float:
    r"""Bound ln \|P^n - U^n\| from frequency t on: \|U\| <= \|P\| + \|V\|, and n factors differ by V."""
    log_part = part.log_largest(t) + part.log_scale
    log_both = float(np.logaddexp(line.log_largest(t) + line.log_scale, log_part))
    several = math.log(number) + log_part + (number - 1) * log_both
    slack = 16.0 * _U * number * (abs(log_both) + line.log_scale_size + part.log_scale_size) + 1e-12
    return min(several, math.log(2.0) + number * log_both) + slack


def log_single(transform: LossTransform, number: int, epsilon: FloatArray) -> FloatArray:
    """Return about ln δ of one large loss among so many rounds; -inf where that is no float."""
    result = np.full(epsilon.size, -np.inf)
    for place, each in enumerate(epsilon.tolist()):
        first = transform.outcome(each - transform.smallest_loss)
        y: FloatArray = first + _STEP * np.arange(1.0, math.ceil(_REACH / _STEP))
        losses = transform.excess(y, 0.0)[0] + transform.smallest_loss
        with np.errstate(under="ignore", over="ignore"):
            mass = float(np.sum(np.exp(each - 0.5 * y * y) * np.expm1(np.maximum(losses - each, 0.0))))
        if mass > 0.0:
            result[place] = math.log(number * mass * _STEP / math.sqrt(2.0 * math.pi))
    return result
