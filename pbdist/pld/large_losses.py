r"""Cuts between large losses and usual ones, for δ where sampling is rare.

Where sampling is rare, few usual losses and a single large one can count as much as many usual losses. Then no one tilt
brings all losses near ε. So the measure P of a round is cut softly into usual losses U and large ones, and δ is the sum
of those of U^n and of P^n - U^n, where at least one loss is large. Where Chernoff's bound shows that one of the two is
next to nothing, the other one is inverted by its own frequencies and tilt (section 15 of ``docs/pld.md``). Cuts are
chosen here; the bounds are those of `smoothing`.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property

import numpy as np

from pbdist.pld.loss_transform import LossTransform, Rounds, SoftCut
from pbdist.pld.smoothing import LargeLosses, Smoothed, Tilts, exactly
from pbdist.types import BoolArray, FloatArray

#: Width of the cut, in deviations; cuts lie at multiples of the second.
_BLUR, _STEPS = 0.1, 0.05
#: Parts, large losses and usual ones, and their cuts, relative to ε, in the order in which they are tried: large losses
#: are the more alike the higher the cut is, usual ones the lower it is.
_LARGE, _USUAL = 0, 1
_FRACTIONS = (
    *((_LARGE, fraction) for fraction in (0.93, 0.85, 0.65, 0.45)),
    *((_USUAL, fraction) for fraction in (0.3, 0.5, 0.65, 0.8)),
)
_FRACTIONS_LEAST = min(fraction for _, fraction in _FRACTIONS)
#: Cuts where both parts matter, relative to ε.
_MIDDLES = (0.65, 0.45)
#: Tilts of usual losses: how many, the least and the largest, relative to 1 / cut, and the largest one of outcomes that
#: it moves by so many deviations times 1 + 1 / b².
_TILTS, _LEAST_USUAL, _MOST_USUAL, _MOST_SHIFT = 121, 0.05, 100.0, 1000.0
#: Nothing is cut where a cut would see tilts up to less than this, relative to 1 / cut. No cut lies beyond such an
#: outcome: there is next to nothing.
_ENOUGH_TILTS, _FARTHEST = 2.0, 50.0
#: Part of the tolerance that the part left out may take.
_OF_OTHER = 0.02
#: Nats by which a saddle point may overstate ln δ of usual losses, and by which all losses seem to have more δ than
#: their parts where they are cut: at first, and where the tolerance was missed.
_DOUBT, _APART, _APART_MISSED = 2.0, 10.0, 5.0
#: Nats by which a part's saddle point may exceed what the part seems to have.
_SEEN = 10.0
#: A closer look at the part left out: ratio, relative to 1 / tilt, of its own and of the other part; cut, nats; and
#: frequencies, at most.
_CLOSE_RATIO, _OWN_RATIO, _CLOSE_CUT, _CLOSE_SIZE = 0.3, 0.05, 40.0, 4000
#: Modes so far above the cut see nothing of it, deviations.
_BEYOND = 6.0
#: Outcomes of one large loss that are looked at: step and reach, deviations.
_STEP, _REACH = 0.05, 10.0


class _Cut:
    """The two parts of a round's losses, whatever the number of rounds; made when first needed."""

    def __init__(self, rounds: Rounds, tilts: Tilts, outcome: float, loss: float) -> None:
        self._rounds, self._tilts, self._outcome, self._loss = rounds, tilts, outcome, loss

    @cached_property
    def large(self) -> LargeLosses:
        """Large losses."""
        transform, tilt = self._rounds.sampled[0][0], self._tilts.tilt
        part = SoftCut(self._outcome, _BLUR, large=True)
        log_moments = np.full(tilt.size, np.inf)
        seen = (1.0 + tilt) * transform.ratio <= self._outcome + _BEYOND
        if seen.any():
            log_moments[seen] = transform.log_real(1.0 + tilt[seen], part)
        return LargeLosses(part, log_moments)

    @cached_property
    def usual(self) -> Tilts:
        """Tilts of usual losses."""
        transform, _, count = self._rounds.sampled[0]
        part = SoftCut(self._outcome, _BLUR, large=False)
        most = min(_MOST_USUAL / self._loss, _MOST_SHIFT / transform.usual_ratio)
        tilt = exactly(np.geomspace(_LEAST_USUAL / self._loss, most, _TILTS))
        moments = count * transform.log_real(1.0 + tilt, part)
        moments += 0.5 * self._rounds.variance * (tilt + tilt * tilt)
        return Tilts(tilt, moments, moments + self._rounds.log_moment_error(tilt), part)


class LossCuts:
    """Cuts of one direction's losses: of one pair with a transform, besides Gaussian mechanisms."""

    def __init__(self, rounds: Rounds, tilts: Tilts) -> None:
        self._rounds, self._tilts = rounds, tilts
        self._cuts: dict[tuple[float, int], _Cut] = {}

    @staticmethod
    def serves(rounds: Rounds) -> bool:
        """Whether these losses are cut: those of one pair, under its mixture."""
        return len(rounds.sampled) == 1 and rounds.sampled[0][1]

    def needed(self, side: Smoothed, epsilon: FloatArray, *, missed: bool = False) -> BoolArray:
        """Where one tilt of all losses does not do: it seems to have far more δ than both parts.

        With `missed` bounds by one tilt have missed the tolerance.
        """
        result, most = side.between_modes(epsilon), side.saddle(epsilon)[1] - (_APART_MISSED if missed else _APART)
        result &= most > -np.inf
        result[result] = [self.sees(each) for each in epsilon[result].tolist()]
        result[result] = self._log_single(side.number, epsilon[result]) < most[result]
        for index in np.flatnonzero(result).tolist():
            usual = self.parts(side.number, _MIDDLES[0] * float(epsilon[index]), [_USUAL])[0]
            result[index] = self.log_delta(usual, epsilon[index : index + 1])[0] < most[index]
        return result

    def sees(self, epsilon: float) -> bool:
        """Whether cuts for an ε see tilts that matter."""
        ratio = self._rounds.sampled[0][0].usual_ratio
        return _FRACTIONS_LEAST * epsilon * _MOST_SHIFT > _ENOUGH_TILTS * ratio

    def log_delta_of_both(self, number: int, epsilon: float) -> float:
        """Return about ln δ of both parts at one ε that is seen."""
        parts, points = next(self.both(number, epsilon)), np.array([epsilon])
        return max(float(self.log_delta(part, points)[0]) for part in parts)

    def log_delta(self, part: Smoothed, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ of a part, rather less than more: of one large loss alone, or by the saddle point."""
        if part.large is None:
            return part.saddle(epsilon)[1] - _DOUBT
        return np.minimum(self._log_single(part.number, epsilon), part.saddle(epsilon)[1])

    def _log_single(self, number: int, epsilon: FloatArray) -> FloatArray:
        """Return about ln δ of one large loss alone."""
        transform, _, count = self._rounds.sampled[0]
        return _log_single(transform, number * count, epsilon)

    def part(self, number: int, epsilon: FloatArray, tolerance: float) -> tuple[Smoothed, BoolArray] | None:
        """Return the part that has nearly all δ of the smallest ε, if one has, and which ε it serves."""
        alone, little = np.array([float(np.min(epsilon))]), math.log(_OF_OTHER * tolerance)
        for closely in (False, True):
            for which, fraction in _FRACTIONS:
                loss = fraction * float(alone[0])
                [part] = self.parts(number, loss, [which])
                about = self.log_delta(part, alone)[0]
                if part.saddle(alone)[1][0] > about + _SEEN:
                    continue
                [part.left_out] = self.parts(number, loss, [1 - which])
                if closely and not self.look_closely(part, part.left_out, alone, little):
                    continue
                if part.log_left_out(alone, 0.0)[0] < about + little:
                    served = part.log_left_out(epsilon, 0.0) < self.log_delta(part, epsilon) + little
                    return part, np.asarray(served)
        return None

    def both(self, number: int, least: float) -> Iterator[tuple[Smoothed, ...]]:
        """Cut so that each part has some of δ for the smallest ε, and leave nothing out; in more than one way."""
        for fraction in _MIDDLES:
            yield tuple(self.parts(number, fraction * least, (_LARGE, _USUAL)))

    def parts(self, number: int, loss: float, which: Sequence[int] = (_LARGE, _USUAL)) -> list[Smoothed]:
        """Cut at about a loss, and return some of the parts: large losses, usual ones."""
        outcome = _STEPS * math.floor(min(self._rounds.sampled[0][0].outcome(loss), _FARTHEST) / _STEPS)
        # Of the farthest one losses may differ much.
        key = outcome, math.frexp(loss)[1]
        cut = self._cuts.setdefault(key, _Cut(self._rounds, self._tilts, outcome, loss))
        return [
            Smoothed(self._rounds, number, cut.usual)
            if each == _USUAL
            else Smoothed(self._rounds, number, self._tilts, cut.large)
            for each in which
        ]

    def look_closely(self, part: Smoothed, other: Smoothed, epsilon: FloatArray, little: float) -> bool:
        """Bound the part left out at an ε by its own frequencies, if it seems to be less by `little` nats."""
        about = self.log_delta(other, epsilon)
        if about[0] > self.log_delta(part, epsilon)[0] + little:
            return False
        tilt, log_delta = other.saddle(epsilon)
        chosen = other.gentler(float(tilt[0]))
        ratio = max(_CLOSE_RATIO / chosen, _OWN_RATIO / float(part.saddle(epsilon)[0][0]))
        period = other.period(epsilon, np.minimum(log_delta, about), chosen, 1.0)
        if other.size(chosen, ratio, period, _CLOSE_CUT) > _CLOSE_SIZE:
            return False
        part.left_out_bounds = other.at(chosen, ratio, period, _CLOSE_CUT)
        return True


def _log_single(transform: LossTransform, number: int, epsilon: FloatArray) -> FloatArray:
    """Return about ln δ of one large loss among so many rounds; -inf where that is no float."""
    result = np.full(epsilon.size, -np.inf)
    for index, each in enumerate(epsilon.tolist()):
        first = transform.outcome(each - transform.smallest_loss)
        y: FloatArray = first + _STEP * np.arange(1.0, math.ceil(_REACH / _STEP))
        losses = transform.excess(y, 0.0)[0] + transform.smallest_loss
        with np.errstate(under="ignore", over="ignore"):
            mass = float(np.sum(np.exp(each - 0.5 * y * y) * np.expm1(np.maximum(losses - each, 0.0))))
        if mass > 0.0:
            result[index] = math.log(mass) + math.log(number * _STEP / math.sqrt(2.0 * math.pi))
    return result
