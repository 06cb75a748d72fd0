"""Pairs of lower and upper bounds: their width, and the verdict on a target."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, Literal

import numpy as np

from pbdist.errors import PrecisionError, PrecisionWarning
from pbdist.rounding import rounded_down, rounded_up
from pbdist.tables import Column, Printed, Sheet, Shown, head_of
from pbdist.types import Adjacency, BoolArray, Direction, FloatArray, IntArray, TextArray

#: Why bounds are wide although no tolerance was missed (`DeltaBounds.why_wide`): no closer bounds exist.
NO_LOWER = "no lower bound is known"
ENCLOSED = "the worst case lies between two pairs"
#: From this many nats between two logarithms on, upper / lower counts as infinite.
_INFINITE_GAP = 700.0


class Verdict(Enum):
    """The verdict of the bounds on δ <= target."""

    MEETS = "meets"
    REFUTED = "refuted"
    UNDECIDED = "undecided"
    MISSING = "not computed"


def verdict_of(lower: float, upper: float, target: float) -> Verdict:
    """Return MEETS if the upper bound is at most the target, REFUTED if the lower one exceeds it; MISSING for NaN."""
    if math.isnan(lower) or math.isnan(upper):
        return Verdict.MISSING
    if upper <= target:
        return Verdict.MEETS
    return Verdict.REFUTED if lower > target else Verdict.UNDECIDED


def relative_width(lower: Any, upper: Any) -> FloatArray:
    """Return upper / lower - 1: 0 where they are equal, infinite where the lower one is 0 or the upper one infinite."""
    low, high = np.asarray(lower, dtype=np.float64), np.asarray(upper, dtype=np.float64)
    open_ = high > low
    with np.errstate(over="ignore"):
        ratio = np.divide(high, low, out=np.full(high.shape, np.inf), where=open_ & (low > 0.0)) - 1.0
    return np.where(open_, ratio, 0.0)


def log_relative_width(log_lower: Any, log_upper: Any) -> FloatArray:
    """Return upper / lower - 1 from logarithms, also where the bounds themselves underflow; NaN where one is NaN.

    Infinite where the lower bound is 0 and the upper one is not.
    """
    lower, upper = np.asarray(log_lower, dtype=np.float64), np.asarray(log_upper, dtype=np.float64)
    # Of equal bounds, which may both be of 0, it is 0.
    gap = np.subtract(upper, lower, out=np.zeros(np.broadcast(lower, upper).shape), where=~(upper <= lower))
    return np.where(gap >= _INFINITE_GAP, np.inf, np.expm1(np.minimum(gap, _INFINITE_GAP)))


@dataclass(frozen=True)
class Bracket:
    """Certified bounds on the δ of one point, in one direction or the larger of both, and their natural logarithms."""

    lower: float
    upper: float
    log_lower: float
    log_upper: float

    @property
    def relative_width(self) -> float:
        """The ratio upper / lower - 1, by the logarithms."""
        return float(log_relative_width(self.log_lower, self.log_upper))

    @property
    def log_middle(self) -> float:
        """About ln δ; an estimate, no bound."""
        return self.log_between(0.5)

    def log_between(self, part: float) -> float:
        """Interpolate between the logarithms: 0 is the lower bound, 1 the upper one; an estimate, no bound."""
        if self.log_lower == -math.inf:
            return self.log_upper
        return (1.0 - part) * self.log_lower + part * self.log_upper

    @property
    def vacuous(self) -> bool:
        """Whether it holds for every δ."""
        return self.lower == 0.0 and self.upper == 1.0

    def narrowed(self, other: "Bracket") -> "Bracket":
        """Return the larger lower and the smaller upper bound of two brackets of the same δ."""
        return Bracket(
            max(self.lower, other.lower),
            min(self.upper, other.upper),
            max(self.log_lower, other.log_lower),
            min(self.log_upper, other.log_upper),
        )

    def verdict(self, target: float) -> Verdict:
        """Return whether δ <= target is proved, refuted or neither."""
        return verdict_of(self.lower, self.upper, target)


#: Bounds that hold for every δ.
NOTHING_KNOWN = Bracket(0.0, 1.0, -math.inf, 0.0)


#: The largest ε of a search: a lower bound this large means that no ε meets δ.
LARGEST_EPSILON = 1e9


def no_epsilon_meets(lower: Any, upper: Any) -> BoolArray:
    """Return where bounds on ε say that none up to the largest one meets δ: they are a complete answer."""
    return np.asarray((np.asarray(lower) >= LARGEST_EPSILON) & np.isinf(upper))


#: Text in place of a bound that is not known, was not found, or does not exist; and why there is no lower bound.
NOT_KNOWN, NOT_FOUND, NONE_MEETS = "not known", "no bound found", "no ε meets δ"
UNATTAINED = "no lower bound is known: no change is declared to attain the pairs that dominate it"


@dataclass(frozen=True, eq=False, repr=False)
class _Answers(Printed):
    """Bounds on a quantity, with the questions that they answer; printed as a table with a row for each."""

    lower: Any
    upper: Any
    #: The columns of the bounds by the names of the fields, and the notes below the table.
    names: ClassVar[Mapping[str, str]]
    _notes: ClassVar[tuple[str, ...]] = ()
    #: The arguments by name: arrays of the shape of the answers, or one text or number shared by all.
    question: Mapping[str, Any] = field(default_factory=dict, kw_only=True, repr=False)
    within_tolerance: BoolArray | None = field(default=None, kw_only=True)
    why_wide: TextArray | None = field(default=None, kw_only=True)
    adjacency: Adjacency = field(default=Adjacency.AS_STATED, kw_only=True)

    @property
    def sheet(self) -> Sheet:
        """The questions and their answers as a table, a row for each, or for each direction of each."""
        question = dict(self.question)
        settings = question.pop("setting", None)
        fixed = {name: value for name, value in question.items() if isinstance(value, str | int | float)}
        varying = {name: np.asarray(value) for name, value in question.items() if name not in fixed}
        shape, size = np.shape(self.lower), int(np.size(self.lower))
        each = len(shape) > max((value.ndim for value in varying.values()), default=len(shape))

        def flat(values: Any) -> list[Any]:
            """Return an entry for each row: the directions of a question are next to each other."""
            if values is None:
                return [None] * size
            array = np.broadcast_to(values, shape)
            flattened: list[Any] = (np.moveaxis(array, 0, -1) if each else array).reshape(-1).tolist()
            return flattened

        rows = [flat(value) for value in varying.values()]
        if each:
            rows.append([one.value for one in Direction] * (size // len(Direction)))
        bounds = {name: flat(getattr(self, source)) for source, name in self.names.items()}
        within, why = flat(self.within_tolerance), flat(self.why_wide)
        substitutes = flat(self._substitutes())
        reasons = [_reason_cell(reason, text) for reason, text in zip(why, substitutes, strict=True)]
        columns = (
            *(Column(name, name, number=False, printed=False, shared=True) for name in fixed),
            *([] if settings is None else [Column("setting", "setting", number=False, printed=False)]),
            *(Column(name, head_of(name), number=value.dtype.kind in "iuf") for name, value in varying.items()),
            *([Column("direction", "direction", number=False)] if each else []),
            *(Column(name, head_of(name)) for name in bounds),
            Column("within_tolerance", "within", number=False, printed=False),
            Column("why_wide", "", number=False, printed=any(reason.text for reason in reasons)),
            Column("adjacency", "neighbours", number=False, printed=False, shared=True),
        )
        cells = [
            [bound_cell(name, one, text) for one, text in zip(values, substitutes, strict=True)]
            for name, values in bounds.items()
        ]
        neighbours = [self.adjacency.value] * size
        texts: list[list[Any]] = [[value] * size for value in fixed.values()]
        texts += [] if settings is None else [flat(settings)]
        caption = " ".join(str(value) if name == "mechanism" else f"{name}={value}" for name, value in fixed.items())
        if settings is not None and len(set(texts[-1])) == 1:
            caption = str(texts[-1][0])
        unattained = NO_LOWER in why or any(math.isnan(one) for one in next(iter(bounds.values())))
        return Sheet(
            columns,
            tuple(zip(*texts, *rows, *cells, within, reasons, neighbours, strict=True)),
            (*([caption] if caption else []), f"neighbours: {self.adjacency.in_words}"),
            (*self._notes, *([UNATTAINED] if unattained else [])),
        )

    def _substitutes(self) -> Any:
        """Return the text printed in place of both bounds where there are none; empty text elsewhere."""
        return ""


def _reason_cell(why: str | None, substitute: str) -> Shown:
    """Return the printed reason for wide bounds; a missing lower bound is explained below the table."""
    text = f"because {why}" if substitute == NOT_FOUND else f"wide: {why}"
    return Shown(text if why not in ("", None, NO_LOWER) else "", why or None)


def bound_cell(name: str, value: float, substitute: str = "") -> Shown:
    """Return a bound or its substitute; a lower bound above 0 is printed whatever the upper one is."""
    lower, whole = name.endswith("lower"), name.startswith("compositions")
    if substitute and not (substitute != NONE_MEETS and lower and value > 0.0):
        text = substitute
    elif math.isnan(value) or (whole and math.isinf(value)):
        text = NOT_KNOWN
    else:
        text = str(int(value)) if whole else rounded_down(value) if lower else rounded_up(value)
    return Shown(text, int(value) if whole and math.isfinite(value) else value)


@dataclass(frozen=True, eq=False, repr=False)
class DeltaBounds(_Answers):
    """Certified bounds on δ, and on its natural logarithm; rounded outwards, read-only.

    Attributes
    ----------
    lower, upper, log_lower, log_upper
        Of the shape to which the arguments broadcast; with ``direction="each"`` a leading axis of A||B and B||A. The
        logarithm of 0 is -inf. Unknown lower bounds, as for a release plan without a declared worst change, are NaN.
    within_tolerance
        Of the same shape: whether upper / lower - 1 is at most the study's tolerance, the upper bound is at most its
        floor, or no closer bounds can be computed. None if the study has no tolerance.
    why_wide
        Of the same shape: why the bounds are not within the tolerance, such as ``between stored points``, which
        ``refine=True`` mends; empty text where they are. For a mechanism without one exact worst case also why the
        closest bounds are apart: ``the worst case lies between two pairs`` or ``no lower bound is known``. None if
        the study has no tolerance.
    adjacency
        The neighbours: `pbdist.mechanisms.Adjacency`. If the mechanism itself adds or removes a record, as
        `pbdist.SubsampledGaussian` does, A||B is the removal; if it is reversed, the addition.

    Examples
    --------
    >>> import numpy as np
    >>> from pbdist.results import DeltaBounds
    >>> bounds = DeltaBounds(np.array(1e-6), np.array(2e-6), np.log(1e-6), np.log(2e-6))
    >>> bounds.bracket().verdict(1e-5).value
    'meets'
    """

    lower: FloatArray
    upper: FloatArray
    log_lower: FloatArray
    log_upper: FloatArray
    names: ClassVar[Mapping[str, str]] = {
        "lower": "delta_lower",
        "upper": "delta_upper",
        "log_lower": "log_delta_lower",
        "log_upper": "log_delta_upper",
    }

    @property
    def unknown(self) -> BoolArray:
        """Where no bound was found: 0 and 1 are bounds on every δ."""
        return np.asarray((self.lower == 0.0) & (self.upper >= 1.0))

    def _substitutes(self) -> Any:
        return np.where(self.unknown, NOT_FOUND, "")

    def bracket(self, *index: int) -> Bracket:
        """Return the bounds of one point."""
        values = (self.lower, self.upper, self.log_lower, self.log_upper)
        return Bracket(*(float(each[index]) for each in values))


@dataclass(frozen=True, eq=False, repr=False)
class CurveBounds(_Answers):
    """Certified bounds on a trade-off curve: on the smallest type II errors; read-only.

    Attributes
    ----------
    lower, upper
        Of the shape to which the arguments broadcast; with ``direction="each"`` a leading axis of A||B and B||A.
    within_tolerance
        Of the same shape: whether the bounds meet the tolerance; None without a tolerance.
    why_wide, adjacency
        As in `DeltaBounds`.
    """

    lower: FloatArray
    upper: FloatArray
    names: ClassVar[Mapping[str, str]] = {"lower": "type_two_error_lower", "upper": "type_two_error_upper"}
    _notes: ClassVar[tuple[str, ...]] = ("α: type I error; β: smallest type II error of a test",)


@dataclass(frozen=True, eq=False, repr=False)
class EpsilonBounds(_Answers):
    """Certified bounds on ε(δ), the smallest ε with which δ is met; nats, read-only.

    Attributes
    ----------
    lower
        Just below this ε the lower bound on δ exceeds the given δ; 0 if it never does.
    upper
        At this ε the upper bound on δ is at most the given δ; infinite if no upper bound in the store is.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance, or no ε up to 1e9 meets δ; None if the study has no
        tolerance.
    why_wide, adjacency
        As in `DeltaBounds`.
    """

    lower: FloatArray
    upper: FloatArray
    names: ClassVar[Mapping[str, str]] = {"lower": "epsilon_lower", "upper": "epsilon_upper"}

    @property
    def unknown(self) -> BoolArray:
        """Where no ε that meets δ was found, although one may exist."""
        return np.isinf(self.upper) & ~no_epsilon_meets(self.lower, self.upper)

    def _substitutes(self) -> Any:
        return np.where(self.unknown, NOT_FOUND, np.where(np.isinf(self.upper), NONE_MEETS, ""))


@dataclass(frozen=True, eq=False, repr=False)
class CompositionBounds(_Answers):
    """Certified bounds on the number of rounds that meet a target; read-only.

    Attributes
    ----------
    lower
        This many rounds meet the target: the largest stored r whose upper bound is at most δ, or 0.
    upper
        More rounds do not: one less than the smallest stored r whose lower bound exceeds δ; infinite if none does.
    within_tolerance
        Whether upper / lower - 1 is at most the study's tolerance; None if the study has no tolerance.
    why_wide, adjacency
        As in `DeltaBounds`.
    """

    lower: IntArray
    upper: FloatArray
    names: ClassVar[Mapping[str, str]] = {"lower": "compositions_lower", "upper": "compositions_upper"}


def warn_or_raise(missed: str | None, *, strict: bool | Literal["silent"], depth: int = 3) -> None:
    """Warn of wide answers, raise `PrecisionError` if `strict`, or say nothing if it is ``"silent"``.

    The warning names the line `depth` frames up: by default the caller of the function that calls this.
    """
    if missed is None or strict == "silent":
        return
    if strict:
        raise PrecisionError(missed)
    warnings.warn(missed, PrecisionWarning, stacklevel=depth)


def frozen(values: Any) -> Any:
    """Return an array that is read-only."""
    values = np.asarray(values)
    values.setflags(write=False)
    return values
