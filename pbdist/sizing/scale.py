"""Find the smallest scale whose noise provably meets a target, and refute the scale smaller by a tolerance."""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from pbdist.enclosures import USUAL_PART
from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import Pair
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.results import Bracket
from pbdist.rounding import rounded_down, rounded_up
from pbdist.sizing.families import ScaleFamily, made
from pbdist.sizing.target import Certificate, Judge, ScannedPoint

#: Smallest and largest amount of a search, as mechanisms take them.
_LOWEST, _HIGHEST = 1e-30, 1e30
#: Where no order is proved, the search for a first scale goes up to this number of factors of 2 either way.
_DOUBLINGS = 24
#: It ends before where -ln δ, once above the first number, grows by less than the second in that number of doublings.
_BELOW_ONE, _GROWTH, _PATIENCE = 1e-6, 1.05, 3
#: Where ln δ lies between bounds through enclosures is known up to this part of their distance; by what factor bounds
#: are then narrower, and how wide they still are, in tolerances.
_UNSURE, _NARROWER, _WIDTH = 0.04, 25.0, 3.0
#: Bounds that are not narrower by this factor have come no closer.
_GAIN = 0.5
#: By what factor wider bounds through enclosures decide than others: little is to spare.
_DECIDING = 4.0
#: A target is refused if the estimate exceeds the largest noise of the family by this factor.
_WELL_ABOVE = 1.2

#: Where no order is proved, the scan goes down to the refuted scale divided by this, as far as there are bounds, ..
_SCAN_DEPTH = 100.0
#: .. in steps of at most this factor.
_SCAN_RATIO = 1.15

#: How far above the estimated smallest scale the answer is placed, in tolerances, so that bounds decide; of bounds
#: through enclosures so far that those of the answer and of the refuted scale can be about as far apart.
_MARGIN = 0.25
#: The smallest relative width of bounds on δ that decide, in tolerances.
_FINEST_PART = 0.01
#: How much less noise is tried, in tolerances, where bounds do not decide of the noise to be refuted.
_LESS = (0.05, 0.2, 0.5)
#: Steps that halve an interval in the worst case; a search takes about five.
_MAX_STEPS = 200
#: Answers that a scan may replace by smaller ones.
_MAX_SCANS = 30
#: Halvings that look for the largest refuted scale, where the one smaller by the tolerance is not refuted.
_HALVINGS = 6
#: Amounts in a row of which nothing is known before a search is given up; one of which nothing is known from below
#: alone, whose bounds take long, counts as several.
_MAX_UNKNOWN, _FROM_BELOW = 8, 3
#: A logarithm of δ this close to the target's is near it.
_NEAR_TARGET = 10.0


def smallest_scale(family: ScaleFamily, judge: Judge, tolerance: float, stored: Sequence[float] = ()) -> Certificate:
    """Return the smallest scale of a family that meets the target, with its certificate.

    `stored` has increasing scales whose bounds take no time: the search begins with them.
    """
    search = _Search(family, judge, tolerance)
    start = search.start(stored)
    low, high = search.bracket_in_order(*start) if family.ordered else search.bracket_anywhere(start[0])
    for _ in range(_MAX_SCANS):
        high = search.narrowed(low, high)
        try:
            high, answer = search.certificate_near(high)
        except PrecisionError as error:
            answer = search.wider(high, error)
        if answer is None:
            # The scale to be refuted meets the target: it is a better answer.
            low, high = search.below_edge(high)
            continue
        if family.ordered and at_least_as_noisy(answer.mechanism, answer.refuted_mechanism):
            return answer
        scanned, better = search.scan(answer)
        if better is None:
            return replace(answer, scanned=scanned)
        low, high = search.below(better)
    raise InvalidInputError(
        f"family: expected one whose δ falls with the scale by and large, but smaller and smaller scales meet"
        f" {judge.target}, the last one {high!r}"
    )


class _Search:
    """A search along the amounts of noise of a family; the judge's bounds have the proofs."""

    def __init__(self, family: ScaleFamily, judge: Judge, tolerance: float) -> None:
        self.family, self.judge, self.tolerance = family, judge, tolerance
        # Where a narrower bound would be needed, noise a little further away is quicker to decide.
        judge.finest = max(judge.finest, _FINEST_PART * tolerance)
        self.log_target = math.log(judge.target.delta)
        self.log_deltas: dict[float, float] = {}
        self.looked: dict[float, Bracket] = {}
        self.narrowest = math.inf
        self.narrows = True
        self.refusal = ""
        self.stalled: set[int] = set()

    def start(self, stored: Sequence[float]) -> tuple[float, float | None]:
        """Return where to begin: the smallest stored amount seen to meet the target, by halving, and the one below it.

        Where none is, the largest stored one; without stored ones, the amount that Gaussian noise needs.
        """
        amounts = [self.family.amount_of(scale) for scale in stored]
        if not amounts:
            amount = self.family.amount_of(self.family.start(self.judge.target))
            if not self.family.ordered:
                # It may be the very scale at which δ is the target's, and so may its half.
                amount *= 1.0 + 0.1 * self.tolerance
            return min(max(amount, _LOWEST), _HIGHEST), None
        low = bisect_left(amounts, True, key=lambda amount: self._meets(self._look(amount)))
        return amounts[min(low, len(amounts) - 1)], amounts[low - 1] if 0 < low < len(amounts) else None

    def bracket_in_order(self, amount: float, below: float | None) -> tuple[float, float]:
        """Return an amount that is not known to meet the target and a larger one that does, where δ falls with noise.

        The search begins at `amount`; `below`, if given, is not known to meet the target, while `amount` does.
        """
        if below is not None:
            return below, amount
        if self._pair(amount) is None:
            amount = self._nearest(amount)
        found = self._look(amount)
        if found is None:
            raise self._no_pair()
        downward = self.judge.meets(found)
        step, limit = 0.25, _LOWEST if downward else _HIGHEST
        while True:
            if amount == limit:
                raise self._all_meet(amount) if downward else self._none_meets()
            other = max(amount * math.exp(-step), limit) if downward else min(amount * math.exp(step), limit)
            if self._pair(other) is None:
                # The family ends here.
                limit = other = self._end(amount, other)
            found = self._look(other)
            if other == amount or found is None:
                continue
            if downward and not self.judge.decides(found):
                found = self._look(other, math.inf) or found
                if found.vacuous:
                    # No bounds are computed for such losses.
                    raise self._all_meet(amount)
            if self.judge.meets(found) is not downward:
                return (other, amount) if downward else (amount, other)
            amount, step = other, 2.0 * step

    def bracket_anywhere(self, start: float) -> tuple[float, float]:
        """Return the same where no order is proved: by factors of 2 from `start`, then near the smallest δ found.

        The factors go up to 2^24 either way, unless δ stops falling that way.
        """
        for doublings in sorted(range(-_DOUBLINGS, _DOUBLINGS + 1), key=lambda k: (abs(k), -k)):
            amount = start * 2.0**doublings
            if not self._stalled(start, doublings) and self._meets(self._look(amount)):
                return self.below(amount)
        return self.below(self._deepest())

    def below(self, amount: float) -> tuple[float, float]:
        """Return an amount that is not known to meet the target, and the smallest one above it that was seen to.

        An `InvalidInputError` if all meet it, down to the lowest.
        """
        ratio = 1.0 + 2.0 * self.tolerance
        while True:
            if amount <= _LOWEST:
                raise self._all_meet(amount)
            other = max(amount / ratio, _LOWEST)
            found = self._look(other, math.inf)
            if found is None:
                ratio **= 0.25
                if ratio - 1.0 < 1e-3 * self.tolerance:
                    raise self._all_meet(amount)
                continue
            if not self.judge.meets(found):
                return other, amount
            amount, ratio = other, min(ratio * ratio, 2.0)

    def narrowed(self, low: float, high: float) -> float:
        """Return an amount that meets the target, at most the tolerance above one that is not known to."""
        above: float | None = None
        unknown = 0
        for step in range(_MAX_STEPS):
            edge = self._edge(high)
            if (low >= edge and above is None) or (above is not None and above >= high):
                return high
            root = _root_between(self.log_deltas, low, high, self.log_target) if step < 8 or step % 2 else None
            if above is not None:
                root, aim, above = None, above, None
            elif root is None:
                aim = math.sqrt(low) * math.sqrt(high)
            elif root >= edge * (1.0 + 0.1 * self.tolerance):
                # The answer is well placed if its edge is refuted.
                aim = edge
            else:
                enclosed = _is_enclosed(self._pair(root))
                aim = root * (1.0 + (1.0 - USUAL_PART if enclosed else _MARGIN) * self.tolerance)
                # Where bounds take long an aim above the edge is better than one close to the root.
                aim = aim if enclosed else min(aim, edge)
                aim = max(aim, low * (1.0 + 0.1 * self.tolerance))
            gap = self._gap(aim)
            first = self._look_first(aim, gap)
            if first is not None and not self.judge.decides(first):
                # With these bounds the root is known better.
                continue
            found = self._look(aim, gap) if first is None else first
            less = 0 if found is None else self._unknown(found)
            unknown = unknown + less if less else 0
            if self._meets(found):
                high = aim
                continue
            if found is not None and unknown > _MAX_UNKNOWN:
                raise self.judge.undecided(self.family.make(self.family.scale_of(aim)), found)
            low = aim
            if found is not None and not self.judge.refutes(found):
                # Bounds do not decide there: half a tolerance further they may.
                above = aim * (1.0 + 0.5 * self.tolerance)
        return high

    def below_edge(self, amount: float) -> tuple[float, float]:
        """Return `below` of the amount whose scale is smaller by the tolerance, and meets the target."""
        refuted_scale = self.family.scale_of(amount) * (1.0 - self.tolerance)
        edge, larger = self.family.amount_of(refuted_scale), 1.0
        while self.family.scale_of(edge * larger) < refuted_scale and larger < 2.0:
            larger += max(larger - 1.0, 2.0**-52)
        edge *= larger
        found = self._look(edge, math.inf)
        if edge >= amount or not self._meets(found):
            pair = self.family.make(refuted_scale)
            raise self.judge.undecided(pair, self.judge.bounds(pair) if found is None else found)
        return self.below(edge)

    def certificate_near(self, amount: float) -> tuple[float, Certificate | None]:
        """Return an amount and its certificate.

        Where bounds do not decide of the scale below the amount's, an amount smaller by part of a tolerance is taken.
        """
        errors = []
        for part in (0.0, *_LESS):
            other = amount * (1.0 - part * self.tolerance)
            if part == 0.0 or self._meets(self._look(other, math.inf)):
                try:
                    return other, self._certificate(other)
                except PrecisionError as error:
                    errors.append(error)
        raise errors[0]

    def wider(self, amount: float, error: PrecisionError) -> Certificate:
        """Return the certificate of an amount with a refuted scale that is smaller by more than the tolerance.

        Raises `error` where no scale is refuted, or a smaller one meets the target.
        """
        scale = self.family.scale_of(amount)
        lowest = scale / _SCAN_DEPTH
        refuted: float | None = None
        near, part = scale * (1.0 - self.tolerance), self.tolerance
        while refuted is None:
            part *= 2.0
            other = max(scale * (1.0 - part), lowest) if part < 1.0 else lowest
            found = self._known_at(other)
            if found is not None and self.judge.refutes(found):
                refuted = other
            elif found is None or other <= lowest or self.judge.meets(found):
                # A scale that meets the target lies below undecided ones: the search cannot go on there.
                raise error
            else:
                near = other
        for _ in range(_HALVINGS):
            middle = 0.5 * (near + refuted)
            found = self._known_at(middle)
            if found is not None and self.judge.refutes(found):
                refuted = middle
            else:
                near = middle
        make = self.family.make
        return self.judge.certificate(scale, make(scale), refuted, make(refuted), within_tolerance=False)

    def scan(self, answer: Certificate) -> tuple[tuple[ScannedPoint, ...], float | None]:
        """Refute smaller scales one by one; return them, or an amount that meets the target after all.

        The mechanism of a scale of which the refuted one is a post-processing is refuted with it.
        """
        first = answer.refuted_scale
        number = 1 + math.ceil(math.log(_SCAN_DEPTH) / math.log(_SCAN_RATIO))
        scanned = []
        for scale in np.geomspace(first, first / _SCAN_DEPTH, number)[1:].tolist():
            pair = made(self.family.make, scale)
            if pair is None:
                break
            if at_least_as_noisy(answer.refuted_mechanism, pair):
                lower = answer.refuted_delta_lower
            else:
                found = self.judge.decided(pair)
                if self.judge.meets(found):
                    return (), self.family.amount_of(scale)
                if found.lower == 0.0:
                    # No bounds are computed for such losses: the scan ends above them.
                    break
                if not self.judge.refutes(found):
                    raise self.judge.undecided(pair, found)
                lower = found.lower
            scanned.append(ScannedPoint(mechanism=pair, scale=scale, mean=None, delta_lower=lower))
        return tuple(scanned), None

    def _pair(self, amount: float) -> Pair | None:
        """Return the mechanism of an amount of noise; None where the family has none, and why is remembered."""
        try:
            return self.family.make(self.family.scale_of(amount))
        except InvalidInputError as error:
            self.refusal = f": {error}"
            return None

    def _meets(self, found: Bracket | None) -> bool:
        """Whether there is a mechanism, and it is proved to meet the target."""
        return found is not None and self.judge.meets(found)

    def _look(self, amount: float, gap: float | None = None) -> Bracket | None:
        """Bound δ at an amount of noise, coarsely, or as narrowly as `gap` takes; None where there is no mechanism."""
        pair = self._pair(amount)
        if pair is None:
            return None
        return self._noted(amount, pair, self.judge.bounds(pair) if gap is None else self._decided(pair, gap))

    def _decided(self, pair: Pair, gap: float) -> Bracket:
        """Bound δ narrowly enough to decide; `gap` estimates how far ln δ is from the target's."""
        return self.judge.decided(pair, _DECIDING * gap if _is_enclosed(pair) else gap)

    def _look_first(self, amount: float, gap: float) -> Bracket | None:
        """Look less narrowly than `gap` takes where bounds take long and that gap is not known well; else None."""
        pair, before = self._pair(amount), self.narrowest
        if pair is None or not self.narrows or not _is_enclosed(pair):
            return None
        if gap >= _UNSURE * before or not math.isfinite(before):
            return None
        found = self._noted(amount, pair, self.judge.bounds(pair, max(before / _NARROWER, _WIDTH * self.tolerance)))
        # Where bounds come no closer, a second look is of no use.
        self.narrows = self.narrowest <= _GAIN * before
        return found

    def _noted(self, amount: float, pair: Pair, found: Bracket) -> Bracket:
        """Remember bounds, and estimate ln δ by them."""
        self.looked[amount] = found
        self.log_deltas[amount] = found.log_between(USUAL_PART) if _is_enclosed(pair) else found.log_middle
        self.narrowest = min(self.narrowest, found.log_upper - found.log_lower)
        return found

    def _stalled(self, start: float, doublings: int) -> bool:
        """Whether δ no longer falls along the doublings (or halvings) before this one."""
        side = 1 if doublings > 0 else -1
        if side not in self.stalled and abs(doublings) > _PATIENCE:
            amounts = [start * 2.0 ** (doublings - side * back) for back in (1, 1 + _PATIENCE)]
            last, first = (self.log_deltas.get(amount, math.nan) for amount in amounts)
            # Where the family has no mechanism the values are NaN, and the comparisons false.
            if -first > _BELOW_ONE and -last <= _GROWTH * -first:
                self.stalled.add(side)
        return side in self.stalled

    def _end(self, inside: float, outside: float) -> float:
        """Return, by halving, the last amount on the way from `inside` to `outside` that the family has."""
        while abs(outside - inside) > 1e-3 * self.tolerance * inside:
            middle = 0.5 * (inside + outside)
            inside, outside = (inside, middle) if self._pair(middle) is None else (middle, outside)
        return inside

    def _nearest(self, amount: float) -> float:
        """Return the amount nearest to the estimate of which the family has a mechanism.

        An `InvalidInputError` where there is none, or the largest is well below the estimate: its bounds take minutes.
        """
        for power in sorted(range(-50, 51), key=abs):
            other = amount * 4.0**power
            if _LOWEST <= other <= _HIGHEST and self._pair(other) is not None:
                self._pair(amount)
                end = self._end(other, amount)
                if amount > _WELL_ABOVE * end:
                    raise InvalidInputError(
                        f"delta: scales of {self.family.name} end at {self.family.scale_of(end):.6g}, and"
                        f" {self.judge.target} needs about {self.family.scale_of(amount):.6g} by a Gaussian"
                        f" estimate{self.refusal}"
                    )
                return end
        raise self._no_pair()

    def _deepest(self) -> float:
        """Return an amount that meets the target, near that of the smallest δ found; an error where there is none."""
        if not self.looked:
            raise self._no_pair()
        best = min(self.looked, key=lambda amount: self.log_deltas[amount])
        ratio = math.sqrt(2.0)
        while ratio > 1.0 + 0.5 * self.tolerance:
            for amount in (best * ratio, best / ratio):
                if self._meets(self._look(amount)):
                    return amount
            best = min(self.looked, key=lambda amount: self.log_deltas[amount])
            ratio = math.sqrt(ratio)
        raise self._none_meets()

    def _known_at(self, scale: float) -> Bracket | None:
        """Return bounds of the mechanism of a scale, as narrow as decides; None where there is no mechanism."""
        pair = made(self.family.make, scale)
        return None if pair is None else self.judge.decided(pair)

    def _edge(self, amount: float) -> float:
        """Return the smallest amount of which both the amount and its scale are smaller by at most the tolerance."""
        of_scale = self.family.amount_of(self.family.scale_of(amount) * (1.0 - self.tolerance))
        return max(amount * (1.0 - self.tolerance), of_scale)

    def _certificate(self, amount: float) -> Certificate | None:
        """Return the answer with the refuted scale smaller by the tolerance; None if that one meets the target."""
        scale = self.family.scale_of(amount)
        refuted_scale = scale * (1.0 - self.tolerance)
        refuted = made(self.family.make, refuted_scale)
        if refuted is None:
            raise self._all_meet(amount)
        below = self._decided(refuted, self._gap(self.family.amount_of(refuted_scale)))
        if not self.judge.decides(below):
            raise self.judge.undecided(refuted, below)
        meets = self.judge.meets(below)
        return None if meets else self.judge.certificate(scale, self.family.make(scale), refuted_scale, refuted)

    def _gap(self, amount: float) -> float:
        """Estimate how far ln δ at an amount is from the target's; infinite where there is no estimate."""
        gap = abs(_log_delta_at(self.log_deltas, amount) - self.log_target)
        return gap if math.isfinite(gap) else math.inf

    def _unknown(self, found: Bracket) -> int:
        """Return how much bounds count as unknown: also those near the target of which nothing is known from below."""
        if found.vacuous:
            return 1
        return _FROM_BELOW if found.lower == 0.0 and found.log_upper - self.log_target < _NEAR_TARGET else 0

    def _no_pair(self) -> InvalidInputError:
        return InvalidInputError(f"family: {self.family.name} has no mechanism of any scale{self.refusal}")

    def _none_meets(self) -> InvalidInputError:
        """Return the error of a target that no amount tried is known to meet."""
        best = min(self.looked, key=lambda amount: self.looked[amount].upper)
        bracket = self.looked[best]
        first, last, scale = (self.family.scale_of(one) for one in (min(self.looked), max(self.looked), best))
        return InvalidInputError(
            f"delta: no scale of {self.family.name} is found to meet {self.judge.target}: none of the"
            f" {len(self.looked)} scales tried, from {first:.6g} to {last:.6g}, provably does; the smallest δ found is"
            f" between {rounded_down(bracket.lower)} and {rounded_up(bracket.upper)}, at scale {scale:.6g}"
            f"{self.family.remedy}"
        )

    def _all_meet(self, amount: float) -> InvalidInputError:
        """Return the error of a target that every amount tried meets, down to the one given."""
        return InvalidInputError(
            f"delta: every scale of {self.family.name} tried, down to {self.family.scale_of(amount):.6g}, meets"
            f" {self.judge.target}, so that none can be refuted"
        )


def _is_enclosed(pair: Pair | None) -> bool:
    """Whether bounds of a pair come through an enclosure: narrow ones take long."""
    return pair is not None and any(factor.enclosed for factor in pair.factors)


def _root_between(log_deltas: Mapping[float, float], low: float, high: float, target: float) -> float | None:
    """Estimate the amount of noise between `low` and `high` at which ln δ is `target`; None where there is no estimate.

    -ln δ is about a power of the noise, so that a line through the logarithms of both gives the root. No bound rests
    on it. `log_deltas` has ln δ by amounts; the target is missed at `low` and met at `high`.
    """
    wanted = _double_log(target)
    points = sorted((abs(_double_log(value) - wanted), amount) for amount, value in log_deltas.items() if value < 0.0)
    finite = [amount for far, amount in points if math.isfinite(far)]
    for ends in (finite[:2], [low, high]):
        if len(ends) == 2 and set(ends) <= set(finite):
            first, second = ends
            x, y = (math.log(first), math.log(second)), tuple(_double_log(log_deltas[a]) for a in (first, second))
            if y[0] == y[1]:
                continue
            root = x[0] + (wanted - y[0]) * (x[1] - x[0]) / (y[1] - y[0])
            if math.log(low) < root < math.log(high):
                return math.exp(root)
    return None


def _log_delta_at(log_deltas: Mapping[float, float], amount: float) -> float:
    """Estimate ln δ at an amount of noise from the two nearest amounts; NaN where they give no estimate."""
    near = sorted(log_deltas, key=lambda other: abs(math.log(other / amount)))[:2]
    values = [_double_log(log_deltas[other]) for other in near]
    if len(near) < 2 or not all(map(math.isfinite, values)):
        return math.nan
    slope = (values[1] - values[0]) / math.log(near[1] / near[0])
    return -math.exp(min(values[0] + slope * math.log(amount / near[0]), 700.0))


def _double_log(log_delta: float) -> float:
    """Return ln(-ln δ); infinite where δ is 0, and minus infinity where it is 1."""
    return math.log(-log_delta) if log_delta < 0.0 else -math.inf
