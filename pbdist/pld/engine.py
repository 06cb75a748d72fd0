"""The tight method: chooses closed form, exact transforms, few frequencies or ladder to meet a tolerance."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from pbdist.arguments import Request
from pbdist.errors import PrecisionError
from pbdist.mechanisms import UNIT_ROUNDOFF, PairCounts
from pbdist.pld.closed_form import (
    few_outcomes,
    gaussian_bounds,
    gaussian_ratio,
    gaussian_width,
    log_least_known,
    one_round,
)
from pbdist.pld.cost import AVERAGE_CLIMBS, FEW_SECONDS, SECONDS_OF_PARTS, chosen_rows, frequency_cost, ladder_cost
from pbdist.pld.fallback import Fallback, bounds_near_the_largest_loss
from pbdist.pld.ladder import CLIMBS, given_width_bounds, ladder_bounds
from pbdist.pld.many_rounds import bounds_below_floor, many_round_bounds
from pbdist.pld.question import Question
from pbdist.pld.state import LARGEST_READ
from pbdist.pld.transform_bounds import TransformRows, has_transforms
from pbdist.progress import report
from pbdist.rounding import brief, rounded_down, rounded_up
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

_U = UNIT_ROUNDOFF
#: Smallest float64 of full precision, rounded up.
_SMALLEST_NORMAL = 2.3e-308

#: Width for pairs without any loss, nats.
TRIVIAL_WIDTH = 1e-6
#: Passes of few frequencies at most, the least and the greatest refinement of the next one, and its target fraction.
_MAX_PASSES, _MIN_REFINEMENT, _MAX_REFINEMENT, _TARGET_FRACTION = 3, 0.7, 1.0 / 16.0, 0.75
#: Limits on the projected seconds and bytes of an optional ladder.
_MAX_OPTIONAL_SECONDS, _MAX_OPTIONAL_BYTES = 30.0, 2_000_000_000
#: Rows from which on, and seconds of one of them above which, transforms are compared with a ladder; and how much of
#: these seconds fewer rounds take.
_MIN_ROWS, _SLOW_ROW, _FEWER_ROUNDS = 6, 0.01, 0.5
#: For at most so many points all frequencies of their rows take less time than a ladder.
_FEW_POINTS = 8
#: Rows that are bounded by transforms before a ladder is considered again.
_ROWS_AT_ONCE = 2
#: An ε so many deviations below the mean loss has a δ next to 1.
_USUAL_DEVIATIONS = 3.0
#: Brackets beyond this are bounded again by `Fallback`.
_WIDE_BRACKET = 0.05
#: No ladder looks deeper.
MIN_FLOOR = 1e-130
#: ln of a mass of single outcomes below which it counts as 0.
_UNRESOLVED = -600.0


@dataclass(frozen=True, eq=False)
class TightBounds:
    """Bounds of both directions."""

    #: Shape (2, R, E).
    log_lower: FloatArray
    log_upper: FloatArray
    #: The smallest spacing used, nats.
    width: float
    #: Where the tolerance is met, or no better bound is possible; the same in both directions, where these are joint.
    #: None where no tolerance was aimed at. Shape (2, R, E), or None.
    within: BoolArray | None = None


def tight_bounds(
    counts: PairCounts,
    rounds: IntArray,
    epsilon: FloatArray,
    request: Request,
    *,
    known: tuple[FloatArray, FloatArray] | None = None,
) -> TightBounds:
    """Bound δ for every r and ε.

    `counts` are the pairs of one round; `known` are logarithms of lower and upper bounds, shape (2, R, E). A
    `PrecisionError` is raised if a strict request is missed, or if the losses need too many positions.
    """
    question = Question(counts, rounds, epsilon, request.tolerance, request.floor, request.joint_directions)
    if request.given_width:
        lower, upper, used = given_width_bounds(question, width=request.width, positions=request.buckets)
        log_lower, log_upper = log_below(lower), np.minimum(log_above(upper), 0.0)
        if known is not None:
            log_lower, log_upper = np.maximum(log_lower, known[0]), np.minimum(log_upper, known[1])
        return TightBounds(log_lower, log_upper, used)
    table = _Table(question)
    if known is not None:
        table.take(range(rounds.size), *known)
    table.solve()
    if request.strict:
        table.check()
    return TightBounds(table.log_lower, table.log_upper, min(table.widths, default=TRIVIAL_WIDTH), table.within)


class _Table:
    """The best bounds so far."""

    def __init__(self, question: Question) -> None:
        self.question = question
        self._log_floor = math.log(question.floor) if question.floor > 0.0 else -math.inf
        shape = (2, question.rounds.size, question.epsilon.size)
        # No δ of distributions exceeds 1, also where a histogram's masses sum to a little more.
        self.log_lower, self.log_upper = np.full(shape, -np.inf), np.zeros(shape)
        #: Where the losses end, so that no better bound is possible: an ε lower by a part in 10^6 has a larger δ.
        self.ended = np.zeros(shape, bool)
        self._known: FloatArray | None = None
        self.widths: list[float] = []

    def solve(self) -> None:
        """Fill the table."""
        self._by_engines()
        # The engines above see no farther.
        self._few_frequencies(self._narrowed(self.question), self._missed_rows(_WIDE_BRACKET))
        for row in self._missed_rows(_WIDE_BRACKET):
            self._fall_back(row)

    def _by_engines(self) -> None:
        self._exact_rows()
        if has_transforms(self.question):
            # Such pairs reveal nothing, and few frequencies do not serve where transforms do not.
            self._by_transforms()
            return
        self._closed_form()
        if not self._missed_rows():
            return
        if self.question.rounds.size * self.question.epsilon.size == 1 and self._seems_usual():
            self._few_frequencies(self.question, [0])
            if not self._missed_rows():
                return
        self._revealed()
        if not self._missed_rows():
            return
        # A δ that is little beside the known ones need not be bounded closely.
        relaxed = self.question.beside(float(self._judged_lower().min()))
        *near, self.ended = bounds_near_the_largest_loss(relaxed)
        self.take(range(self.question.rounds.size), *near)
        above = bounds_below_floor(relaxed, self.log_upper)
        self.take(range(self.question.rounds.size), np.full_like(above, -np.inf), above)
        rows = self._missed_rows()
        if not rows:
            return
        relaxed = self._narrowed(relaxed)
        few = rows if len(rows) * relaxed.epsilon.size <= _FEW_POINTS else chosen_rows(relaxed, rows)[0]
        self._few_frequencies(relaxed, few)
        self._ladder(relaxed, self._missed_rows())
        # Rows that the ladder does not serve, or not well.
        left = [row for row in self._missed_rows() if row not in few]
        self._few_frequencies(relaxed, [row for row in left if frequency_cost(relaxed, row) is not None])

    def _seems_usual(self) -> bool:
        """Whether the only δ seems to lie above the floor, well below 1, and below the largest loss."""
        question = self.question
        if replace(question, rough=True).mean_deviations() > _USUAL_DEVIATIONS:
            return False
        found = [question.saddle_points(direction, question.top) for direction in question.directions]
        larger = max(found, key=lambda each: float(each.log_delta[0]))
        return bool((larger.reached_by_losses & (larger.log_delta > self._log_floor + 1.0))[0])

    def _closed_form(self) -> None:
        question = self.question
        ratio = gaussian_ratio(question.counts)
        if ratio is None:
            return
        lower, upper = gaussian_bounds(ratio, question.rounds, question.epsilon)
        self.take(range(question.rounds.size), np.stack((lower, lower)), np.stack((upper, upper)))
        self.widths.append(
            gaussian_width(ratio, question.rounds, question.epsilon, question.leaves, question.tolerance)
        )

    def _exact_rows(self) -> None:
        """Bound rows of few outcomes, and of one round of one pair."""
        question = self.question
        for row, r in enumerate(question.rounds.tolist()):
            known = few_outcomes(question.counts, r, question.epsilon.size * question.rounds.size)
            readers = [] if known is None else [[known[side].log_delta for side in Direction]]
            if r * question.leaves == 1:
                readers.append([partial(one_round, next(iter(question.counts)), side) for side in Direction])
            for both in readers:
                self.take([row], *np.stack([reader(question.epsilon) for reader in both], axis=1)[:, :, None])

    def _revealed(self) -> None:
        """Bound δ from below by outcomes that only one input has, and where δ is nearly 1."""
        question = self.question
        lower = log_least_known(question.counts, question.rounds, question.epsilon)
        self.take(range(question.rounds.size), lower, np.zeros_like(self.log_upper))

    def _rows_by_transforms(self, transforms: TransformRows, rows: Sequence[int], *, parts: bool) -> None:
        """Bound rows by exact transforms."""
        question = self.question
        for row in rows:
            known = self.log_lower[:, row], self.log_upper[:, row]
            lower, upper = transforms.row(row, known, parts=parts)
            self.take([row], lower[:, None], upper[:, None])
            if question.rounds.size > 1:
                report("by transforms, rows", question.rounds.size - len(self._missed_rows()), question.rounds.size)
        if math.isfinite(transforms.width):
            self.widths.append(transforms.width)

    def _by_transforms(self) -> None:
        """Bound all by exact transforms, and what is left by parts of losses or by a ladder."""
        rows = sorted(self._missed_rows(), key=lambda row: int(self.question.rounds[row]))
        if not rows:
            return
        transforms = TransformRows(self.question)
        # Of many rows, one climb of a ladder may be quicker for all that have fewer rounds.
        may_climb, chosen = len(rows) >= _MIN_ROWS, 0
        while rows:
            before, last = _seconds(transforms), [rows.pop()]
            self._rows_by_transforms(transforms, last, parts=False)
            each = _seconds(transforms) - before
            if may_climb and not chosen and rows and each > _SLOW_ROW:
                # Rows of fewer rounds may have fewer δ above the floor.
                middle = SECONDS_OF_PARTS * transforms.cuts_for(rows[len(rows) // 2])
                if self._climbs_now(0.5 * (each + middle), rows + last):
                    missed, may_climb = self._missed_rows(), False
                    rows = [row for row in rows if row in missed]
                    transforms.left_to_parts = 0
                    continue
                chosen = _ROWS_AT_ONCE
            if chosen:
                chosen -= 1
                if last[0] in self._missed_rows():
                    self._rows_by_transforms(transforms, last, parts=True)
                transforms.left_to_parts = 0
        if not self._missed_rows():
            return
        # A δ that is little beside the known ones need not be bounded closely.
        relaxed = self.question.beside(float(self._judged_lower().min()))
        # A ladder bounds many points as quickly as one.
        seconds = SECONDS_OF_PARTS * transforms.left_to_parts
        ladder_first = seconds > FEW_SECONDS and _not_too_long(relaxed, self._missed_rows(), seconds)
        if ladder_first:
            self._ladder(relaxed, self._missed_rows())
        self._rows_by_transforms(transforms, self._missed_rows(), parts=True)
        rows = self._missed_rows()
        if rows and not ladder_first and _not_too_long(relaxed, rows):
            self._ladder(relaxed, rows)

    def _climbs_now(self, each: float, rows: Sequence[int]) -> bool:
        """Climb a ladder for rows if it is quicker than transforms, at so many seconds each, of all or the last few."""
        relaxed = self.question.beside(float(self._judged_lower().min()))
        rows = [row for row in rows if row in self._missed_rows()]
        few = rows[:-_ROWS_AT_ONCE]
        climb, later = (ladder_cost(relaxed, some).seconds / AVERAGE_CLIMBS if some else 0.0 for some in (rows, few))
        if not 0.0 < climb <= each * min(len(rows), later / each + _ROWS_AT_ONCE):
            return False
        self._ladder(relaxed, rows, climbs=1)
        return True

    def _few_frequencies(self, question: Question, rows: Sequence[int]) -> None:
        """Bound rows by few frequencies, with finer lattices where the tolerance is missed and that may help."""
        wanted = dict.fromkeys(rows, 1.0)
        before: dict[int, float] = {}
        for attempt in range(_MAX_PASSES):
            widths = {}
            for row, spacing, lower, upper in many_round_bounds(question, wanted, both=attempt > 0):
                self.widths.append(spacing)
                self.take([row], lower[:, None], upper[:, None])
                widths[row] = float(self._brackets()[:, row].max())
            again = {}
            for row, bracket in widths.items():
                if bracket <= question.tolerance or bracket > 0.8 * before.get(row, math.inf):
                    continue
                # By the square of the spacing at first; next to atoms, in proportion to it.
                finer = (_TARGET_FRACTION * question.tolerance / bracket) ** (1.0 if before else 0.5)
                again[row] = wanted[row] * min(max(finer, _MAX_REFINEMENT), _MIN_REFINEMENT)
            if not again:
                break
            wanted, before = again, widths

    def _fall_back(self, row: int) -> None:
        """Bound points with wide brackets by `Fallback`."""
        question = self.question
        wide = self._brackets()[:, row] > max(_WIDE_BRACKET, question.tolerance)
        shape = (2, 1, question.epsilon.size)
        lower, upper = np.full(shape, -np.inf), np.zeros(shape)
        for direction in question.directions:
            axis = list(Direction).index(direction)
            columns = np.flatnonzero(wide[axis])
            if columns.size:
                known = Fallback(question, int(question.rounds[row]), direction)
                lower[axis, 0, columns] = known.log_delta_below(question.epsilon[columns])
                upper[axis, 0, columns] = known.log_delta_above(question.epsilon[columns])
        if question.symmetric:
            lower[1], upper[1] = lower[0], upper[0]
        self.take([row], lower, upper)

    def _narrowed(self, question: Question) -> Question:
        """Request one direction alone if the other one meets the tolerance, as where its losses have a bound."""
        met = np.all(self._brackets() <= self.question.tolerance, axis=(1, 2)).tolist()
        left = tuple(direction for direction, known in zip(Direction, met, strict=True) if not known)
        return question if question.symmetric or not left else replace(question, requested=left)

    def _ladder(self, question: Question, rows: Sequence[int], *, climbs: int = CLIMBS) -> None:
        if not rows:
            return
        # Beyond the largest ε that can be read δ is at most what it is there.
        missed = ~(self._brackets()[:, list(rows)] <= question.tolerance).all(axis=(0, 1))
        within = np.flatnonzero(missed & (question.epsilon <= LARGEST_READ))
        beyond = np.flatnonzero(missed & (question.epsilon > LARGEST_READ))
        readable = replace(
            question,
            epsilon=np.append(question.epsilon[within], [LARGEST_READ] if beyond.size else []),
            floor=max(question.floor, MIN_FLOOR),
        )
        found = ladder_bounds(readable, rows, climbs=climbs)
        if found is None:
            return
        shape = (2, len(rows), question.epsilon.size)
        lower, upper = np.full(shape, -np.inf), np.zeros(shape)
        lower[:, :, within] = log_below(found.lower)[:, :, : within.size]
        upper[:, :, within] = log_above(found.upper)[:, :, : within.size]
        upper[:, :, beyond] = log_above(found.upper)[:, :, -1:]
        self.take(rows, lower, upper)
        self.widths.append(found.spacing)

    def take(self, rows: Sequence[int], log_lower: FloatArray, log_upper: FloatArray) -> None:
        """Keep the better bounds, and their consequences: δ does not rise with ε."""
        chosen, self._known = list(rows), None
        lower, upper = (
            np.maximum(self.log_lower[:, chosen], log_lower),
            np.minimum(self.log_upper[:, chosen], log_upper),
        )
        if self.question.epsilon.size > 1:
            order = np.argsort(self.question.epsilon, kind="stable")
            back = np.argsort(order, kind="stable")
            lower = np.maximum.accumulate(lower[..., order[::-1]], axis=-1)[..., ::-1][..., back]
            upper = np.minimum.accumulate(upper[..., order], axis=-1)[..., back]
        self.log_lower[:, chosen], self.log_upper[:, chosen] = np.minimum(lower, 0.0), np.minimum(upper, 0.0)

    def _judged_lower(self) -> FloatArray:
        """The lower bounds that upper ones are judged by: the larger direction's, if that alone is to be met."""
        if self.question.joint_directions:
            return np.asarray(np.maximum(self.log_lower, self.log_lower[::-1]))
        return self.log_lower

    def _brackets(self) -> FloatArray:
        """Return upper / lower - 1, 0 where nothing is aimed at and infinite where nothing is known from below."""
        if self._known is not None:
            return self._known
        lower, upper = self._judged_lower(), self.log_upper
        met = (upper == -np.inf) | (upper <= lower) | (upper <= self._log_floor) | self.ended
        # -inf where no bound is known from below.
        gap = np.where(met, 0.0, upper - np.maximum(lower, -1e300))
        self._known = np.where(gap < 1e299, np.expm1(np.minimum(gap, 700.0)), np.inf)
        return self._known

    def _missed_rows(self, bracket: float = 0.0) -> list[int]:
        missed = ~(self._brackets() <= max(bracket, self.question.tolerance))
        return np.flatnonzero(missed.any(axis=(0, 2))).tolist()

    @property
    def within(self) -> BoolArray:
        """Where the tolerance is met, or no better bound is possible."""
        met = (self._brackets() <= self.question.tolerance) | (self.log_upper < _UNRESOLVED)
        return np.array(np.broadcast_to(met.all(axis=0), met.shape) if self.question.joint_directions else met)

    def check(self) -> None:
        """Refuse a table if a point misses the tolerance although better bounds are possible."""
        missed = np.where(self.within, 0.0, self._brackets())
        if missed.any():
            axis, row, column = np.unravel_index(int(np.argmax(missed)), missed.shape)
            self._refuse(int(axis), int(row), int(column))

    def _refuse(self, axis: int, row: int, column: int) -> None:
        question, at = self.question, (axis, row, column)
        width = min(self.widths, default=TRIVIAL_WIDTH)
        raise PrecisionError(
            f"tolerance: expected upper / lower - 1 <= {brief(question.tolerance)} for every r and ε, got"
            f" {self._brackets()[at]:.3g} at r = {int(question.rounds[row])},"
            f" ε = {brief(question.epsilon[column])} (ln δ between"
            f" {rounded_down(self._judged_lower()[at])} and {rounded_up(self.log_upper[at])})"
            f" with loss buckets of {width:.3g} nats; allow a larger tolerance, or pass"
            " `factor` instead of a tolerance"
        )


def _seconds(transforms: TransformRows) -> float:
    """Return about the seconds of transforms as they would be for fewer rounds, with points that are left to parts."""
    return _FEWER_ROUNDS * transforms.seconds + SECONDS_OF_PARTS * transforms.left_to_parts


def _not_too_long(question: Question, rows: Sequence[int], seconds: float = _MAX_OPTIONAL_SECONDS) -> bool:
    """Whether a ladder that need not be climbed is worth it."""
    cost = ladder_cost(question, rows)
    return 0.0 < cost.seconds <= seconds and cost.peak_bytes <= _MAX_OPTIONAL_BYTES


def delta_above(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded up; above 0 wherever the logarithm is more than -inf."""
    values = np.exp(log_delta) * (1.0 + 8.0 * _U)
    return np.where(log_delta > -np.inf, np.maximum(values, _SMALLEST_NORMAL), 0.0)


def delta_below(log_delta: FloatArray) -> FloatArray:
    """Return δ from its logarithm, rounded down; 0 where it is no normal float64."""
    values = np.exp(np.minimum(log_delta, 0.0)) * (1.0 - 8.0 * _U)
    return np.where(values >= _SMALLEST_NORMAL, values, 0.0)


def log_above(delta: FloatArray) -> FloatArray:
    """Return the logarithm of δ, rounded up; -inf for 0."""
    return _log(delta, 1.0)


def log_below(delta: FloatArray) -> FloatArray:
    """Return the logarithm of δ, rounded down; -inf for 0."""
    return _log(delta, -1.0)


def _log(delta: FloatArray, side: float) -> FloatArray:
    with np.errstate(divide="ignore"):
        log = np.log(delta)
    return np.asarray(log + side * 4.0 * _U * (1.0 + np.where(delta > 0.0, np.abs(log), 0.0)))
