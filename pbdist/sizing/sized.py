"""Sized noise: its certificate, and how it is printed, rounded to the safe sides."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any

from pbdist.errors import PbdistError, PrecisionError
from pbdist.mechanisms import Pair, at_least_as_noisy
from pbdist.mechanisms.columns import row_of
from pbdist.quantities import counted
from pbdist.rounding import brief, exact, exponential, rounded_down, rounded_up
from pbdist.sizing.counts import mean_below
from pbdist.sizing.families import CountFamily, ScaleFamily, family_of, made
from pbdist.sizing.target import Certificate, Computed, Judge
from pbdist.study import Target
from pbdist.tables import Cell, Column, Printed, Sheet, Shown, head_of
from pbdist.types import Adjacency

#: Digits of printed noise, at least.
_DIGITS = 6
#: The columns of scanned noise, all of it refuted.
_SCANNED = ("scale", "mean", "delta_lower")


@dataclass(frozen=True)
class PrintedNoise:
    """Printed noise, and a bound on δ that holds for it: for the floats that its decimals are read as."""

    #: That noise.
    mechanism: Pair
    #: Its decimals; the mean is None where it is not sized.
    scale: str
    mean: str | None
    #: Of noise that meets the target an upper bound on δ, of refuted noise a lower one; not rounded yet.
    bound: float


@dataclass(frozen=True)
class PrintedSize:
    """Printed decimals of sized noise: the noise that meets the target, its messages, if any, and the refuted noise."""

    meets: PrintedNoise
    messages: float | None
    refuted: PrintedNoise


@dataclass(frozen=True, kw_only=True, repr=False)
class SizedNoise(Printed, Certificate):
    """The smallest noise of a family that meets a target, with its certificate; it prints as `pbdist size` does.

    The *certificate*: ``delta_upper <= delta`` for `mechanism`, and ``refuted_delta_lower > delta`` for
    `refuted_mechanism`, whose scale (and mean) is smaller by the tolerance; by more where `within_tolerance` is false.
    Both are certified bounds at ``compositions`` and ``epsilon``.

    Attributes
    ----------
    mechanism : Pair
        The mechanism with the smallest noise found.
    scale : float
        Its scale: the standard deviation of Gaussian noise, the scale of Laplace noise, the mean of Poisson noise, the
        probability 1 - p of a lie of randomized response; the argument of a callable family.
    mean : float or None
        The mean of the noise of a count, in messages, where that is sized too.
    compositions, epsilon, delta
        The target.
    tolerance : float
    delta_upper, delta_lower : float
        Certified bounds on the δ of `mechanism`, the larger of the two directions.
    refuted_mechanism : Pair
    refuted_scale : float
        The float product ``scale * (1 - tolerance)``; less where `within_tolerance` is false.
    refuted_mean : float or None
        ``mean * (1 - tolerance)``; of discrete noise the largest possible mean of at most that.
    refuted_delta_lower : float
        Certified lower bound on the δ of `refuted_mechanism`.
    ordered : bool
        Whether every scale of the family up to `refuted_scale` is refuted, because more noise is proved to be a
        post-processing of less (`pbdist.mechanisms.pair`). If not, the points of `scanned` are refuted, and nothing is
        claimed of the noise between them.
    scanned : tuple of ScannedPoint
        Smaller noises that were refuted one by one, each by a lower bound on its own δ or, where the order of the two
        is proved, on that of `refuted_mechanism`.
    expected_messages : float or None
        Messages of the noise in a round on average, E[N], where the family adds messages.
    evaluations : int
        How often bounds were computed, and not looked up in a store.
    within_tolerance : bool
        Whether the noise smaller by the tolerance is refuted. If not, a smaller one is, and nothing is known of those
        between.
    adjacency : Adjacency
        The neighbours of the bounds: those of the mechanism, or else as given.
    mean_step : int
        Means are whole multiples of this, as those of discrete noise are; 0 where any number is a mean.
    family : tuple or None
        The family and its parameters, as given to `size`; without these all digits are printed.

    Raises
    ------
    PrecisionError
        If the certificate does not hold: no such object can be made, whatever a search found.
    """

    compositions: int
    epsilon: float
    delta: float
    tolerance: float
    ordered: bool
    evaluations: int
    expected_messages: float | None
    adjacency: Adjacency = Adjacency.AS_STATED
    mean_step: int = 0
    family: tuple[Any, Mapping[str, Any]] | None = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        proved = (
            self.delta_lower <= self.delta_upper <= self.delta < self.refuted_delta_lower
            and self._less_is_refuted()
            and all(point.delta_lower > self.delta for point in self.scanned)
        )
        if not proved:
            raise PrecisionError(
                f"delta: expected a size whose bounds prove δ <= {exact(self.delta)}, and the opposite of one smaller"
                f" by {brief(self.tolerance)}, got scale {self.scale!r} with δ from {self.delta_lower!r} to"
                f" {self.delta_upper!r} and {self.refuted_scale!r} with δ from {self.refuted_delta_lower!r}: ask for"
                " another tolerance of the size"
            )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out a family that need not be picklable: a callable, or one that has such."""
        plain = self.family is not None and isinstance(self.family[0], type)
        return {**vars(self), **({} if plain else {"family": None})}

    def _less_is_refuted(self) -> bool:
        """Whether the refuted noise is smaller by the tolerance; by more only without a mean and `within_tolerance`."""
        part = 1.0 - self.tolerance
        if not self.within_tolerance:
            return self.mean is None and self.refuted_mean is None and 0.0 < self.refuted_scale < self.scale * part
        mean = None if self.mean is None else mean_below(self.mean * part, self.mean_step)
        return (self.refuted_scale, self.refuted_mean) == (self.scale * part, mean)

    @property
    def target(self) -> Target:
        """The target that it meets."""
        return Target(compositions=self.compositions, epsilon=self.epsilon, delta=self.delta)

    @property
    def less(self) -> str:
        """By how much the refuted noise is smaller, in percent."""
        return f"{rounded_up(Decimal(f'{100.0 * (1.0 - self.refuted_scale / self.scale):.12g}'), 3)} %"

    @cached_property
    def printed(self) -> PrintedSize:
        """The noise in 6 digits, or as many as the tolerance takes, with bounds that hold for these decimals.

        Noise that meets the target is rounded up, and refuted noise down. Where more noise is proved to be a
        post-processing of less, the bounds on δ hold for the rounded noise too. Elsewhere, as for counts, they are
        computed anew for the rounded noise; where they do not prove the same of it, the decimals are those of the exact
        floats.
        """
        family = None if self.family is None else family_of(*self.family)
        judge = Judge(self.target, Computed(self.target))
        meets, refuted = (self._decimals(family, judge, meets=one) for one in (True, False))
        amounts = float(meets.mean or 0.0), float(meets.scale)
        return PrintedSize(meets, self.expected_messages if family is None else family.messages(*amounts), refuted)

    def _decimals(self, family: ScaleFamily | CountFamily | None, judge: Judge, *, meets: bool) -> PrintedNoise:
        """Return the noise that meets the target, or the refuted one, rounded as far as that is proved."""
        mechanism, scale, mean, bound = (
            (self.mechanism, self.scale, self.mean, self.delta_upper)
            if meets
            else (self.refuted_mechanism, self.refuted_scale, self.refuted_mean, self.refuted_delta_lower)
        )
        unrounded = PrintedNoise(mechanism, exact(scale), None if mean is None else exact(mean), bound)
        digits = max(_DIGITS, 2 - math.floor(math.log10(self.tolerance)))
        rounded = rounded_up if meets else rounded_down
        short_scale = rounded(scale, digits)
        short_mean = unrounded.mean if mean is None or self.mean_step else rounded(mean, digits)
        short = None if family is None else made(family.pair, float(short_mean or 0.0), float(short_scale))
        if short is None:
            return unrounded
        if not at_least_as_noisy(*((short, mechanism) if meets else (mechanism, short))):
            found = judge.decided(short)
            if not (judge.meets(found) if meets else judge.refutes(found)):
                return unrounded
            bound = found.upper if meets else found.lower
        return PrintedNoise(short, short_scale, short_mean, bound)

    @property
    def sheet(self) -> Sheet:
        """The answer and the refuted noise, with a sentence on the proof."""
        meets, messages, refuted = self.printed.meets, self.printed.messages, self.printed.refuted
        columns = (
            Column("verdict", "", number=False),
            Column("scale", "scale"),
            Column("mean", "mean", printed=meets.mean is not None),
            Column("messages", "messages", printed=messages is not None),
            Column("delta_lower", "δ lower"),
            Column("delta_upper", "δ upper"),
        )
        target = (
            f"δ <= {exact(self.delta)} at e^ε = {brief(exponential(self.epsilon))} (ε = {exact(self.epsilon)}) after"
            f" {counted(self.compositions, 'composition')}"
        )
        rows: tuple[tuple[Cell, ...], ...] = (
            ("meets", meets.scale, meets.mean, Shown(_up(messages), messages), None, rounded_up(meets.bound)),
            ("refuted", refuted.scale, refuted.mean, None, rounded_down(refuted.bound), None),
        )
        about = target, str(meets.mechanism), f"neighbours: {self.adjacency.in_words}"
        family = None if self.family is None else self.family[0]
        kind = family if isinstance(family, type) else type(self.mechanism)
        data = answers_sheet("", [Answer(self.target, self, kind.__name__)], exactly=True)
        return Sheet(columns, rows, about, (_proved(self) + _wide(self),), data=data)


@dataclass(frozen=True)
class Answer:
    """A target, and the noise that was found, or why there is none.

    `family` names the family or the system; `message_bytes` is the size of a message, if that is known.
    """

    target: Target
    sized: SizedNoise | PbdistError
    family: str
    message_bytes: float | None = None


def answers_sheet(caption: str, answers: Sequence[Answer], *, compared: bool = False, exactly: bool = False) -> Sheet:
    """Return several answers as a sheet, a row each; in CSV and JSON everything is unrounded.

    With `compared` they are of several families. With `exactly`, printed numbers are left out, as they take time.
    """
    found = [answer.sized for answer in answers if isinstance(answer.sized, SizedNoise)]
    several = len({answer.target for answer in answers}) > 1 or not compared
    # ε or e^ε, whichever is the shorter number.
    powers = any(len(exact(exponential(one.target.epsilon))) < len(exact(one.target.epsilon)) for one in answers)
    means = any(sized.mean is not None for sized in found)
    messages = [sized.expected_messages is not None for sized in found]
    sizes = any(answer.message_bytes is not None for answer in answers)
    wide = len(found) < len(answers) or not all(sized.within_tolerance for sized in found)
    # The parameters beside the noise, which is not the same where it is refuted.
    forms = [row_of(one.canonical()) for sized in found for one in (sized.mechanism, sized.refuted_mechanism)]
    first = forms[0] if forms and not compared else {}
    same = [name for name, value in first.items() if all(form.get(name) == value for form in forms)]
    fixed = {name: first[name] for name in same if name not in ("kind", "scale", "mean")}
    hidden = partial(Column, head="", number=False, printed=False)
    columns = (
        Column("mechanism", "family", number=False, printed=compared, shared=not compared),
        *(hidden(name, shared=True) for name in fixed),
        hidden("setting"),
        Column("compositions", "r", printed=several),
        Column("epsilon", "ε", printed=several and not powers),
        Column("exp_epsilon", "e^ε", printed=several and powers),
        Column("delta", "δ <=", printed=several),
        hidden("tolerance", shared=True),
        Column("scale", "scale that meets", side="upper"),
        Column("mean", "mean that meets", printed=means, side="upper"),
        Column("expected_messages", "its messages", printed=any(messages), side="upper"),
        Column("expected_bytes", "its bytes", printed=sizes and any(messages), side="upper"),
        Column("deviation", "its deviation", printed=compared and not all(messages)),
        hidden("delta_lower"),
        Column("delta_upper", head_of("delta_upper")),
        hidden("refuted_setting"),
        Column("refuted_scale", "refuted scale", side="lower"),
        Column("refuted_mean", "refuted mean", printed=means, side="lower"),
        Column("refuted_delta_lower", head_of("delta_lower")),
        hidden("within_tolerance"),
        hidden("ordered"),
        *(hidden(f"scanned_{name}", side="lower") for name in _SCANNED),
        hidden("evaluations"),
        Column("problem", "", number=False, printed=wide),
        hidden("adjacency", shared=not compared),
    )
    claims = tuple(dict.fromkeys(map(_proved, found)))
    if len(claims) > 1:
        claims = (_one_by_one(answers),)
    if sizes and not any(messages):
        claims = (*claims, "No bytes: the noise of none of these families consists of messages.")
    neighbours = dict.fromkeys(f"neighbours: {sized.adjacency.in_words}" for sized in found)
    rows = tuple((answer.family, *fixed.values(), *_answer_row(answer, exactly=exactly)) for answer in answers)
    return Sheet(columns, rows, (caption, *neighbours), claims)


def _answer_row(answer: Answer, *, exactly: bool) -> tuple[Cell, ...]:
    target, sized = answer.target, answer.sized
    point = (target.compositions, target.epsilon, exponential(target.epsilon), target.delta)
    if isinstance(sized, PbdistError):
        return (None, *point, *[None] * 18, Shown(f"none: {sized}", str(sized)), None)
    printed = None if exactly else sized.printed

    def cell(text: Callable[[PrintedSize], str | None], value: float | None) -> Cell:
        return Shown("" if printed is None else text(printed) or "", value)

    size, messages = answer.message_bytes, sized.expected_messages
    return (
        str(sized.mechanism),
        *point,
        sized.tolerance,
        cell(lambda one: one.meets.scale, sized.scale),
        cell(lambda one: one.meets.mean, sized.mean),
        cell(lambda one: _up(one.messages), messages),
        cell(lambda one: _up(one.messages, size), None if size is None or messages is None else size * messages),
        cell(lambda one: _deviation(one.meets.mechanism), noise_deviation(sized.mechanism)),
        sized.delta_lower,
        cell(lambda one: rounded_up(one.meets.bound), sized.delta_upper),
        str(sized.refuted_mechanism),
        cell(lambda one: one.refuted.scale, sized.refuted_scale),
        cell(lambda one: one.refuted.mean, sized.refuted_mean),
        cell(lambda one: rounded_down(one.refuted.bound), sized.refuted_delta_lower),
        sized.within_tolerance,
        sized.ordered,
        *(tuple(getattr(one, name) for one in sized.scanned) for name in _SCANNED),
        sized.evaluations,
        Shown("" if sized.within_tolerance else f"wide: {sized.less} less is refuted", None),
        sized.adjacency.value,
    )


def _up(messages: float | None, size: float | None = 1.0) -> str:
    """Round up messages of printed noise, or their bytes."""
    return "" if size is None or messages is None else rounded_up(Decimal(size) * Decimal(messages))


def _deviation(pair: Pair) -> str:
    """Round up a deviation, of which about 12 digits are known."""
    value = noise_deviation(pair)
    return "" if value is None else rounded_up(Decimal(f"{value:.12g}"))


def noise_deviation(pair: Pair) -> float | None:
    """Return the standard deviation of the noise that a mechanism adds to an answer; None where that is not plain.

    About 12 digits, no bound.
    """
    kind, scale = pair.noise_family, getattr(pair, "scale", None)
    if getattr(pair, "truncate", None) is not None or kind not in _DEVIATIONS:
        return None
    return _DEVIATIONS[kind](pair.mean if scale is None else scale)  # type: ignore[attr-defined]  # Poisson's mean


def _discrete_gaussian_deviation(scale: float) -> float:
    if scale >= 5.0:
        # It is the scale, but for e^(-2 π² scale²).
        return scale
    weights = [(k * k, math.exp(-0.5 * (k / scale) ** 2)) for k in range(1, math.ceil(12.0 * scale) + 2)]
    return math.sqrt(2.0 * sum(k * w for k, w in weights) / (1.0 + 2.0 * sum(w for _, w in weights)))


#: The standard deviation of noise of a scale, by the family of the noise; of Poisson noise by its mean.
_DEVIATIONS: Mapping[str, Callable[[float], float]] = {
    "Gaussian": float,
    "Laplace": lambda scale: math.sqrt(2.0) * scale,
    "DiscreteGaussian": _discrete_gaussian_deviation,
    "DiscreteLaplace": lambda scale: math.sqrt(2.0) * math.exp(-0.5 / scale) / -math.expm1(-1.0 / scale),
    "Poisson": math.sqrt,
}


def _wide(sized: SizedNoise) -> str:
    """Return in a sentence that the refuted noise is smaller by more than the tolerance; nothing if it is not."""
    if sized.within_tolerance:
        return ""
    return (
        f" Wide: the refuted scale is smaller by {sized.less}, not by {100.0 * sized.tolerance:g} %; of those between"
        " them nothing is known."
    )


def _one_by_one(answers: Sequence[Answer]) -> str:
    """Return in a sentence for which answers nothing is claimed of the noise between what was refuted."""
    found = [(one.family, one.sized.ordered) for one in answers if isinstance(one.sized, SizedNoise)]
    names = ", ".join(dict.fromkeys(name for name, ordered in found if not ordered))
    which = f" for {names}" if any(ordered for _, ordered in found) else ""
    return f"No order is proved{which}: smaller noise is refuted one by one, and nothing is claimed between."


def _proved(sized: SizedNoise) -> str:
    """Return a sentence or two on the proof about smaller noise."""
    if sized.ordered:
        return "No smaller scale than the refuted one meets the target: more noise is a post-processing of less."
    if not sized.scanned:
        return "Nothing is claimed of other noise than the refuted one."
    scales = sorted(point.scale for point in sized.scanned)
    where = f"{len(scales)} scales from {scales[0]:.6g} to {scales[-1]:.6g}"
    if sized.mean is not None:
        least = "at most " if sized.mean_step else ""
        return (
            f"At {where}, the mean that takes {least}{1.0 - sized.tolerance:g} times the messages is refuted too."
            " Nothing is claimed between these scales."
        )
    return f"Refuted too: {where}. No order is proved, and nothing is claimed between them."
