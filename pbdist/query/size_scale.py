"""The smallest scale whose noise provably meets a goal, and the proof that none smaller by a tolerance does."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.order import at_least_as_noisy
from pbdist.query.size_certificate import Certificate, ScannedPoint
from pbdist.query.size_families import ScaleFamily
from pbdist.query.size_goal import Bracket, Judge
from pbdist.query.size_interpolation import log_delta_at, root_between

__all__ = ["SCAN_DEPTH", "SCAN_RATIO", "smallest_scale"]

#: Where no order is proved, scales down to the refuted one divided by this are looked at, as far as there are bounds on
#: them, unless a limit is given..
SCAN_DEPTH = 100.0
#: .. each at most this much smaller than the one before.
SCAN_RATIO = 1.15

#: Scales that the search keeps to, unless limits are given: what mechanisms take.
_LOWEST, _HIGHEST = 1e-30, 1e30
#: Where no order is proved, the search for a first scale goes this far either way, by factors of 2.
_DOUBLINGS = 24
#: How far above the estimated smallest scale the answer is placed, in tolerances: its δ is to be told from the goal's.
_MARGIN = 0.25
#: Steps that halve an interval in the worst case; a search takes about five.
_MOST_STEPS = 200
#: Answers that a scan may replace by smaller ones.
_MOST_SCANS = 30


def smallest_scale(
    family: ScaleFamily,
    judge: Judge,
    tolerance: float,
    limits: tuple[float, float] | None,
    stored: Sequence[float] = (),
) -> Certificate:
    """Return the smallest scale of a family that meets the goal, with its certificate.

    Parameters
    ----------
    family : ScaleFamily
    judge : Judge
        Knows the goal.
    tolerance : float
        In (0, 1): the scale smaller by this part is refuted.
    limits : (float, float) or None
        Smallest and largest scale that are looked at.
    stored : sequence of float, optional
        Scales, increasing, whose bounds take no time: the search begins with them.

    Notes
    -----
    What is proved: δ_upper <= goal at the scale, δ_lower > goal at the refuted one. Where the family's order is proved,
    no scale up to the refuted one does, for its noise would be a post-processing of the refuted one's. Else the scales
    of the scan are refuted, and nothing is said of those between them.

    Raises
    ------
    InvalidInputError
        If no scale is found to meet the goal, or all do.
    PrecisionError
        If δ of a scale that decides cannot be told from the goal's.
    """
    search = _Search(family, judge, tolerance, limits)
    start = search.start(stored)
    if family.ordered:
        low, high = search.bracket_in_order(*start)
    else:
        low, high = search.bracket_anywhere(start[0])
    for _ in range(_MOST_SCANS):
        high = search.narrowed(low, high)
        answer = search.certificate(high)
        if answer is None:
            # The refuted scale to be meets the goal: a better answer.
            low, high = search.below(high * (1.0 - tolerance))
            continue
        if family.ordered and at_least_as_noisy(answer.mechanism, answer.refuted_mechanism):
            return answer
        scanned, better = search.scan(answer)
        if better is None:
            return replace(answer, scanned=scanned)
        low, high = search.below(better)
    raise InvalidInputError(
        f"family: expected one whose δ falls with the scale by and large, got ever smaller ones that meet {judge.goal},"
        f" the last one {high!r}"
    )


class _Search:
    """A search along the amounts of noise of a family; what it proves is in the judge's bounds."""

    def __init__(self, family: ScaleFamily, judge: Judge, tolerance: float, limits: tuple[float, float] | None) -> None:
        self.family, self.judge, self.tolerance = family, judge, tolerance
        self.given = limits is not None
        self.lowest, self.highest = _LOWEST, _HIGHEST
        if limits is not None:
            self.lowest = max(family.amount_of(limits[0]), _LOWEST)
            self.highest = min(family.amount_of(limits[1]), _HIGHEST)
        self.log_deltas: dict[float, float] = {}
        self.looked: dict[float, Bracket] = {}
        self.refusal = ""

    def look(self, amount: float, gap: float | None = None) -> Bracket | None:
        """Bound δ at an amount of noise, coarsely or (`gap`) as narrowly as it takes; None where there is no pair."""
        try:
            pair = self.family.make(self.family.scale_of(amount))
        except InvalidInputError as error:
            self.refusal = f": {error}"
            return None
        found = self.judge.bounds(pair) if gap is None else self.judge.settled(pair, gap)
        self.looked[amount] = found
        self.log_deltas[amount] = found.log_middle
        return found

    def start(self, stored: Sequence[float]) -> tuple[float, float | None]:
        """Return where to begin: the smallest stored amount seen to meet the goal, by halving, and the one below it.

        Where none is, the largest stored one; without stored ones, what Gaussian noise would need.
        """
        amounts = [amount for amount in map(self.family.amount_of, stored) if self.lowest <= amount <= self.highest]
        if not amounts:
            amount = self.family.amount_of(self.family.start(self.judge.goal))
            return min(max(amount, self.lowest), self.highest), None
        low, high = 0, len(amounts)
        while low < high:
            middle = (low + high) // 2
            found = self.look(amounts[middle])
            low, high = (low, middle) if found is not None and self.judge.holds(found) else (middle + 1, high)
        return amounts[min(low, len(amounts) - 1)], amounts[low - 1] if 0 < low < len(amounts) else None

    def bracket_in_order(self, amount: float, below: float | None) -> tuple[float, float]:
        """Return amounts of which the second meets the goal and the first is not known to, where δ falls with them.

        Parameters
        ----------
        amount : float
            Where to begin.
        below : float or None
            An amount that is not known to meet the goal, if the first one does.
        """
        if below is not None:
            return below, amount
        found = self.look(amount)
        if found is None:
            amount, found = self._anywhere(amount)
        downward = self.judge.holds(found)
        step, limit = 0.25, self.lowest if downward else self.highest
        while True:
            if amount == limit:
                raise self._all_hold(amount) if downward else self._none_holds()
            other = max(amount * math.exp(-step), limit) if downward else min(amount * math.exp(step), limit)
            found = self.look(other)
            if found is None:
                # The family ends here.
                step *= 0.25
                if step < 1e-3 * self.tolerance:
                    raise self._all_hold(amount) if downward else self._none_holds()
                continue
            if downward and not self.judge.settles(found):
                found = self.look(other, math.inf) or found
                if not self.judge.settles(found):
                    # Losses beyond what bounds are computed for.
                    raise self._all_hold(amount)
            if self.judge.holds(found) is not downward:
                return (other, amount) if downward else (amount, other)
            amount, step = other, 2.0 * step

    def bracket_anywhere(self, start: float) -> tuple[float, float]:
        """Return the same where nothing is known of how δ goes: on a grid of factors of 2, then about its best point.

        Without limits the grid reaches 2^24 times either way from `start`.
        """
        for position in sorted(range(-_DOUBLINGS, _DOUBLINGS + 1), key=lambda k: (abs(k), -k)):
            amount = start * 2.0**position
            if self.given and not self.lowest <= amount <= self.highest:
                continue
            found = self.look(amount)
            if found is not None and self.judge.holds(found):
                return self.below(amount)
        if self.given:
            for amount in (self.lowest, self.highest):
                found = self.look(amount)
                if found is not None and self.judge.holds(found):
                    return self.below(amount)
        amount = self._deepest()
        return self.below(amount)

    def below(self, amount: float) -> tuple[float, float]:
        """Return an amount that is not known to meet the goal, and the smallest one above it that was seen to.

        Raises
        ------
        InvalidInputError
            If all do, down to the lowest.
        """
        ratio = 1.0 + 2.0 * self.tolerance
        while True:
            if amount <= self.lowest:
                raise self._all_hold(amount)
            other = max(amount / ratio, self.lowest)
            found = self.look(other)
            if found is None:
                ratio **= 0.25
                if ratio - 1.0 < 1e-3 * self.tolerance:
                    raise self._all_hold(amount)
                continue
            if not self.judge.holds(found):
                return other, amount
            amount, ratio = other, min(ratio * ratio, 2.0)

    def narrowed(self, low: float, high: float) -> float:
        """Return an amount that meets the goal, above one by no more than the tolerance that is not known to."""
        goal = math.log(self.judge.goal.delta)
        above: float | None = None
        for step in range(_MOST_STEPS):
            edge = high * (1.0 - self.tolerance)
            if (low >= edge and above is None) or (above is not None and above >= high):
                return high
            root = root_between(self.log_deltas, low, high, goal) if step < 8 or step % 2 else None
            if above is not None:
                root, aim, above = None, above, None
            elif root is None:
                aim = math.sqrt(low) * math.sqrt(high)
            elif root >= edge * (1.0 + 0.1 * self.tolerance):
                # The answer is well placed if its edge is refuted.
                aim = edge
            else:
                aim = min(root * (1.0 + _MARGIN * self.tolerance), edge)
                aim = max(aim, low * (1.0 + 0.1 * self.tolerance))
            found = self.look(aim, self._gap(aim, goal))
            if found is not None and self.judge.holds(found):
                high = aim
                continue
            low = aim
            if found is not None and not self.judge.refutes(found):
                # δ is the goal's there, as far as can be told: half a tolerance further it is not.
                above = aim * (1.0 + 0.5 * self.tolerance)
        return high

    def certificate(self, amount: float) -> Certificate | None:
        """Return the answer with what refutes the scale smaller by the tolerance; None if that meets the goal."""
        scale = self.family.scale_of(amount)
        refuted_scale = scale * (1.0 - self.tolerance)
        mechanism = self.family.make(scale)
        try:
            refuted = self.family.make(refuted_scale)
        except InvalidInputError:
            raise self._all_hold(amount) from None
        goal = math.log(self.judge.goal.delta)
        below = self.judge.settled(refuted, self._gap(self.family.amount_of(refuted_scale), goal))
        if not self.judge.settles(below):
            raise self.judge.unsettled(refuted, below)
        if self.judge.holds(below):
            return None
        return Certificate(
            scale=scale,
            mechanism=mechanism,
            bracket=self.judge.bounds(mechanism),
            refuted_scale=refuted_scale,
            refuted_mechanism=refuted,
            refuted_bracket=below,
            scanned=(),
        )

    def scan(self, answer: Certificate) -> tuple[tuple[ScannedPoint, ...], float | None]:
        """Refute smaller scales one by one; return them, or an amount that meets the goal after all.

        The mechanism of a scale of which the refuted one is a post-processing is refuted with it.
        """
        first = answer.refuted_scale
        last = min(self.family.scale_of(self.lowest) if self.given else first / SCAN_DEPTH, first)
        number = 1 + math.ceil(math.log(first / last) / math.log(SCAN_RATIO))
        scanned = []
        for scale in np.geomspace(first, last, number)[1:].tolist():
            try:
                pair = self.family.make(scale)
            except InvalidInputError:
                break
            if at_least_as_noisy(answer.refuted_mechanism, pair):
                lower = answer.refuted_bracket.lower
            else:
                found = self.judge.settled(pair)
                if self.judge.holds(found):
                    return (), self.family.amount_of(scale)
                if found.lower == 0.0 and not self.given:
                    # Losses beyond what bounds are computed for: the scan ends above them.
                    break
                if not self.judge.refutes(found):
                    raise self.judge.unsettled(pair, found)
                lower = found.lower
            scanned.append(ScannedPoint(mechanism=pair, scale=scale, mean=None, delta_lower=lower))
        return tuple(scanned), None

    def _gap(self, amount: float, goal: float) -> float:
        """Estimate how far ln δ at an amount is from the goal's; infinite where nothing tells."""
        gap = abs(log_delta_at(self.log_deltas, amount) - goal)
        return gap if math.isfinite(gap) else math.inf

    def _anywhere(self, amount: float) -> tuple[float, Bracket]:
        """Return the amount nearest to one given, by factors of 4, of which the family has a mechanism."""
        for position in sorted(range(-50, 51), key=abs):
            other = amount * 4.0**position
            if self.lowest <= other <= self.highest:
                found = self.look(other)
                if found is not None:
                    return other, found
        raise self._no_pair()

    def _deepest(self) -> float:
        """Return an amount that meets the goal near the best one seen, where no other does."""
        if not self.looked:
            raise self._no_pair()
        best = min(self.looked, key=lambda amount: self.log_deltas[amount])
        ratio = math.sqrt(2.0)
        while ratio > 1.0 + 0.5 * self.tolerance:
            for amount in (best * ratio, best / ratio):
                found = self.look(amount) if self.lowest <= amount <= self.highest else None
                if found is not None and self.judge.holds(found):
                    return amount
            best = min(self.looked, key=lambda amount: self.log_deltas[amount])
            ratio = math.sqrt(ratio)
        raise self._none_holds()

    def _no_pair(self) -> InvalidInputError:
        text = f"family: expected {self.family.name} to have a mechanism of some scale, got none{self.refusal}"
        return InvalidInputError(text)

    def _range(self) -> str:
        looked = sorted(self.looked) or [self.lowest, self.highest]
        return f"{self.family.scale_of(looked[0]):.6g} to {self.family.scale_of(looked[-1]):.6g}"

    def _none_holds(self) -> InvalidInputError:
        best = min(self.looked, key=lambda amount: self.looked[amount].upper)
        bracket, goal = self.looked[best], self.judge.goal
        return InvalidInputError(
            f"delta: expected a goal that some scale of {self.family.name} within the limits meets, got {goal}: none of"
            f" the {len(self.looked)} scales looked at, from {self._range()}, provably does; the smallest δ found is"
            f" between {bracket.lower:.6g} and {bracket.upper:.6g}, at scale {self.family.scale_of(best):.6g}"
        )

    def _all_hold(self, amount: float) -> InvalidInputError:
        return InvalidInputError(
            f"delta: expected a goal that small scales of {self.family.name} miss, got {self.judge.goal}: every scale"
            f" looked at, down to {self.family.scale_of(amount):.6g}, meets it, so that none can be refuted"
        )
