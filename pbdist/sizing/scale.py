"""Find the smallest scale whose noise provably meets a goal, and refute the scale smaller by a tolerance."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pbdist.enclosures import USUAL_PART
from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import Pair
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.results import Bracket
from pbdist.sizing.bracket import Bracketing, is_enclosed, log_delta_at, root_between
from pbdist.sizing.certificate import Certificate, ScannedPoint
from pbdist.sizing.families import ScaleFamily
from pbdist.sizing.goal import Judge

#: Where no order is proved, the scan goes down to the refuted scale divided by this, as far as there are bounds, unless
#: a limit is given ..
_SCAN_DEPTH = 100.0
#: .. in steps of at most this factor.
_SCAN_RATIO = 1.15

#: How far above the estimated smallest scale the answer is placed, in tolerances, so that bounds tell δ from the goal;
#: of bounds through enclosures so far that those of the answer and of the refuted scale can be about as far apart.
_MARGIN = 0.25
#: How much less noise is tried, in tolerances, where bounds cannot tell δ of the noise to be refuted from the goal.
_LESS = (0.05, 0.2, 0.5)
#: Steps that halve an interval in the worst case; a search takes about five.
_MOST_STEPS = 200
#: Answers that a scan may replace by smaller ones.
_MOST_SCANS = 30
#: Halvings that look for the largest refuted scale, where the one smaller by the tolerance is not refuted.
_HALVINGS = 6
#: Amounts in a row of which nothing is known before a search is given up; one of which nothing is known from below
#: alone, whose bounds take long, counts as several.
_MOST_UNKNOWN, _FROM_BELOW = 8, 3
#: A logarithm of δ within so much of the goal's is near it.
_NEAR_GOAL = 10.0


def smallest_scale(
    family: ScaleFamily,
    judge: Judge,
    tolerance: float,
    limits: tuple[float, float] | None,
    stored: Sequence[float] = (),
) -> Certificate:
    """Return the smallest scale of a family that meets the goal, with its certificate.

    `limits` are the smallest and the largest scale; `stored` has increasing scales whose bounds take no time: the
    search begins with them.

    Notes
    -----
    Proved are δ_upper <= goal at the scale, and δ_lower > goal at the refuted one, which is smaller by more than the
    tolerance where the bounds cannot tell δ from the goal any closer. Where the family's order is proved, no scale up
    to the refuted one meets the goal, as the refuted noise is a post-processing of less noise. Else the scales of the
    scan are refuted, and nothing is claimed of those between them.

    Raises
    ------
    InvalidInputError
        If no scale is found to meet the goal, or all do.
    PrecisionError
        If bounds cannot tell δ from the goal where that decides.
    """
    search = _Search(family, judge, tolerance, limits)
    start = search.start(stored)
    if family.ordered:
        low, high = search.bracket_in_order(*start)
    else:
        low, high = search.bracket_anywhere(start[0])
    for _ in range(_MOST_SCANS):
        high = search.narrowed(low, high)
        try:
            high, answer = search.certificate_near(high)
        except PrecisionError as error:
            answer = search.wider(high, error)
        if answer is None:
            # The scale to be refuted meets the goal: it is a better answer.
            low, high = search.below_edge(high)
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


class _Search(Bracketing):
    """A search along the amounts of noise of a family; what it proves is in the judge's bounds."""

    def narrowed(self, low: float, high: float) -> float:
        """Return an amount that meets the goal, at most the tolerance above one that is not known to."""
        goal = math.log(self.judge.goal.delta)
        above: float | None = None
        unknown = 0
        for step in range(_MOST_STEPS):
            edge = self._edge(high)
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
                enclosed = self._is_enclosed(root)
                aim = root * (1.0 + (1.0 - USUAL_PART if enclosed else _MARGIN) * self.tolerance)
                # Where bounds take long an aim above the edge is better than one close to the root.
                aim = aim if enclosed else min(aim, edge)
                aim = max(aim, low * (1.0 + 0.1 * self.tolerance))
            gap = self._gap(aim, goal)
            first = self.look_first(aim, gap)
            if first is not None and not self.judge.settles(first):
                # With what it tells the root is known better.
                continue
            found = self.look(aim, gap) if first is None else first
            less = 0 if found is None else _unknown(found, goal)
            unknown = unknown + less if less else 0
            holds = found is not None and self.judge.holds(found)
            if found is not None and unknown > _MOST_UNKNOWN and not holds:
                raise self.judge.unsettled(self.family.make(self.family.scale_of(aim)), found)
            if holds:
                high = aim
                continue
            low = aim
            if found is not None and not self.judge.refutes(found):
                # Bounds cannot tell δ from the goal there: half a tolerance further they may.
                above = aim * (1.0 + 0.5 * self.tolerance)
        return high

    def below_edge(self, amount: float) -> tuple[float, float]:
        """Return `below` of the amount whose scale is smaller by the tolerance, and meets the goal."""
        refuted_scale = self.family.scale_of(amount) * (1.0 - self.tolerance)
        edge, larger = self.family.amount_of(refuted_scale), 1.0
        while self.family.scale_of(edge * larger) < refuted_scale and larger < 2.0:
            larger += max(larger - 1.0, 2.0**-52)
        edge *= larger
        found = self.look(edge, math.inf)
        if edge >= amount or found is None or not self.judge.holds(found):
            pair = self.family.make(refuted_scale)
            raise self.judge.unsettled(pair, self.judge.bounds(pair) if found is None else found)
        return self.below(edge)

    def certificate_near(self, amount: float) -> tuple[float, Certificate | None]:
        """Return an amount and its certificate.

        Where bounds cannot tell δ below the amount from the goal, an amount smaller by part of a tolerance is taken.
        """
        try:
            return amount, self.certificate(amount)
        except PrecisionError:
            for part in _LESS:
                other = amount * (1.0 - part * self.tolerance)
                found = self.look(other, math.inf) if other >= self.lowest else None
                if found is not None and self.judge.holds(found):
                    try:
                        return other, self.certificate(other)
                    except PrecisionError:
                        continue
            raise

    def wider(self, amount: float, error: PrecisionError) -> Certificate:
        """Return the certificate of an amount with a refuted scale that is smaller by more than the tolerance.

        Raises `error` where no scale is refuted, or a smaller one meets the goal.
        """
        scale = self.family.scale_of(amount)
        lowest = self.family.scale_of(self.lowest) if self.given else scale / _SCAN_DEPTH
        refuted: tuple[float, Pair, Bracket] | None = None
        near, part = scale * (1.0 - self.tolerance), self.tolerance
        while refuted is None:
            part *= 2.0
            other = max(scale * (1.0 - part), lowest) if part < 1.0 else lowest
            found = self._known_at(other)
            if found is not None and self.judge.refutes(found[1]):
                refuted = (other, *found)
            elif found is None or other <= lowest or self.judge.holds(found[1]):
                # A scale that meets the goal lies below some whose verdict is undecided: the search cannot go on there.
                raise error
            else:
                near = other
        for _ in range(_HALVINGS):
            middle = 0.5 * (near + refuted[0])
            found = self._known_at(middle)
            if found is not None and self.judge.refutes(found[1]):
                refuted = (middle, *found)
            else:
                near = middle
        mechanism = self.family.make(scale)
        return Certificate(scale, mechanism, self.judge.bounds(mechanism), *refuted, scanned=(), within=False)

    def _known_at(self, scale: float) -> tuple[Pair, Bracket] | None:
        """Return the mechanism of a scale and bounds as narrow as the goal takes; None where there is no mechanism."""
        try:
            pair = self.family.make(scale)
        except InvalidInputError:
            return None
        return pair, self.judge.settled(pair)

    def _edge(self, amount: float) -> float:
        """Return the smallest amount of which both the amount and its scale are smaller by at most the tolerance."""
        of_scale = self.family.amount_of(self.family.scale_of(amount) * (1.0 - self.tolerance))
        return max(amount * (1.0 - self.tolerance), of_scale)

    def certificate(self, amount: float) -> Certificate | None:
        """Return the answer with the refuted scale smaller by the tolerance; None if that one meets the goal."""
        scale = self.family.scale_of(amount)
        refuted_scale = scale * (1.0 - self.tolerance)
        mechanism = self.family.make(scale)
        try:
            refuted = self.family.make(refuted_scale)
        except InvalidInputError:
            raise self.all_hold(amount) from None
        goal = math.log(self.judge.goal.delta)
        below = self.settled(refuted, self._gap(self.family.amount_of(refuted_scale), goal))
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
        last = min(self.family.scale_of(self.lowest) if self.given else first / _SCAN_DEPTH, first)
        number = 1 + math.ceil(math.log(first / last) / math.log(_SCAN_RATIO))
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
                    # No bounds are computed for such losses: the scan ends above them.
                    break
                if not self.judge.refutes(found):
                    raise self.judge.unsettled(pair, found)
                lower = found.lower
            scanned.append(ScannedPoint(mechanism=pair, scale=scale, mean=None, delta_lower=lower))
        return tuple(scanned), None

    def _is_enclosed(self, amount: float) -> bool:
        """Whether the mechanism of an amount is known through an enclosure alone."""
        try:
            return is_enclosed(self.family.make(self.family.scale_of(amount)))
        except InvalidInputError:
            return False

    def _gap(self, amount: float, goal: float) -> float:
        """Estimate how far ln δ at an amount is from the goal's; infinite where there is no estimate."""
        gap = abs(log_delta_at(self.log_deltas, amount) - goal)
        return gap if math.isfinite(gap) else math.inf


def _unknown(found: Bracket, goal: float) -> int:
    """Return how much bounds count as unknown: also those near the goal of which nothing is known from below."""
    if found.vacuous:
        return 1
    return _FROM_BELOW if found.lower == 0.0 and found.log_upper - goal < _NEAR_GOAL else 0
