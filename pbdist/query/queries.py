"""The questions of an opened study: arguments broadcast, answers judged by width, wrong arguments refused by name."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pbdist.arguments import (
    MAX_COMPOSITIONS,
    check_direction,
    check_either,
    checked_compositions,
    checked_delta,
    checked_epsilon,
)
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import Pair
from pbdist.query.answers import Questions, bound_compositions, bound_delta, bound_epsilon, stored_within
from pbdist.query.judging import BETWEEN, FACTOR, MISSED, between, delta_within, missed_by
from pbdist.query.lookup import check_flag, given_array, noise_parameter, one_setting
from pbdist.query.refine import Failures, Point, narrow_compositions, narrow_epsilon, next_rounds
from pbdist.query.settings import Setting, Settings, neighbours_of_settings
from pbdist.results import (
    ENCLOSED,
    NO_LOWER,
    CompositionBounds,
    DeltaBounds,
    EpsilonBounds,
    log_relative_width,
    relative_width,
)
from pbdist.store.layout import BOUNDS
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import Adjacency, BoolArray, FloatArray, IntArray, TextArray

_LARGER_ALONE = "the study judges the larger of the two directions alone"
_CLOSEST = "as close as the bounds on δ tell there"

#: How a sentence on an answer ends that is wide for such a reason, and what the user can do about it.
_ENDS: Mapping[str, str] = {
    BETWEEN: "it lies between stored points: refine=True (pbdist query --refine) computes it",
    MISSED: "the study itself missed the tolerance there",
}
_TOO_FAR = "the stored points lie too far from it: refine=True (pbdist query --refine) computes closer ones"


def why_delta(
    study: StudySpec,
    asked: Questions,
    epsilon: FloatArray,
    answers: FloatArray,
    *,
    judged: tuple[BoolArray, FloatArray],
    stored: BoolArray,
) -> tuple[TextArray, str | None]:
    """Return why answers on δ are wide, empty text for those that are not, and the sentence on the widest.

    `answers` are the arrays of `BOUNDS`; `judged` says which are within the tolerance, and how wide they are; `stored`,
    shape (n,), which points are stored.
    """
    within, width = judged
    lower, upper = (answers[list(BOUNDS).index(name)] for name in ("delta_lower", "delta_upper"))
    # Directions apart: the larger of them alone is judged, and nothing that is computed is meant to be closer.
    alone = np.zeros(stored.shape, dtype=bool)
    if within.ndim > 1 and study.direction == "both":
        alone = (stored | _larger_is_close(study, answers)) & asked.attained
    # Without a lower bound only the study itself can tell how closely a point was computed.
    cases = {
        NO_LOWER: ~asked.attained,
        BETWEEN: ~stored & asked.attained,
        MISSED: stored & asked.attained,
        ENCLOSED: stored & asked.attained & asked.enclosed,
        _LARGER_ALONE: alone,
        FACTOR: ~_sought(asked),
    }
    why = _worded(within, cases)
    missed = ~within & _sought(asked)

    def worst(index: tuple[int, ...]) -> str:
        n, end = index[-1], str(why[index])
        end = _ENDS.get(end, end)
        between_them = int(np.count_nonzero(missed & (why == BETWEEN)))
        if why[index] != BETWEEN and between_them:
            end += f"; {between_them:,} of the others lie between stored points: refine=True (--refine) computes them"
        at = f"{_setting(asked, n)}, r = {int(asked.compositions[n])}, ε = {float(epsilon[n]):.6g}"
        known = between("δ", math.nan if end == NO_LOWER else float(lower[index]), float(upper[index]))
        return f"{at}: {known}" if end == NO_LOWER else f"{at}: {known}: {end}"

    return why, missed_by(missed, width, study, "delta_upper / delta_lower - 1", worst)


def why_epsilon(
    study: StudySpec, asked: Questions, delta: FloatArray, bounds: tuple[FloatArray, FloatArray], *, refined: bool
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    """Return which answers on ε are within the tolerance, why the others are wide, and the sentence on the widest.

    None where the study has no tolerance.
    """
    closest = np.full(delta.size, refined)

    def point(n: int) -> str:
        return f"r = {int(asked.compositions[n])}"

    return _why_indirect(study, asked, delta, bounds, names=("epsilon", "ε"), point=point, closest=closest)


def why_rounds(
    study: StudySpec,
    asked: Questions,
    epsilon: FloatArray,
    delta: FloatArray,
    bounds: tuple[Any, FloatArray],
    *,
    refined: bool,
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    """Return the same of answers on r."""
    if study.sought is None:
        return None, None, None
    closest = np.full(delta.size, refined) | _next_is_stored(asked, epsilon, *bounds)

    def point(n: int) -> str:
        return f"ε = {float(epsilon[n]):.6g}"

    return _why_indirect(study, asked, delta, bounds, names=("compositions", "r"), point=point, closest=closest)


def _why_indirect(
    study: StudySpec,
    asked: Questions,
    delta: FloatArray,
    bounds: tuple[Any, FloatArray],
    *,
    names: tuple[str, str],
    point: Callable[[int], str],
    closest: BoolArray,
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    if study.sought is None:
        return None, None, None
    lower, upper = bounds
    width = relative_width(lower, upper)
    within = np.asarray(width <= study.sought)
    why = _worded(within, {BETWEEN: ~closest, _CLOSEST: closest, FACTOR: ~_sought(asked), NO_LOWER: ~asked.attained})

    def worst(index: tuple[int, ...]) -> str:
        n, end = index[-1], str(why[index])
        known = between(names[1], math.nan if end == NO_LOWER else float(lower[index]), float(upper[index]))
        end = _TOO_FAR if end == BETWEEN else end
        at = f"{_setting(asked, n)}, {point(n)}, δ = {float(delta[n]):g}"
        return f"{at}: {known}" if end == NO_LOWER else f"{at}: {known}: {end}"

    missed = ~within & _sought(asked)
    return within, why, missed_by(missed, width, study, f"{names[0]}_upper / {names[0]}_lower - 1", worst)


def _larger_is_close(study: StudySpec, answers: FloatArray) -> BoolArray:
    """Return at which points the larger of the two directions is within the tolerance."""
    lower, upper = (answers[list(BOUNDS).index(name)].max(axis=0) for name in ("log_delta_lower", "log_delta_upper"))
    return np.asarray((log_relative_width(lower, upper) <= (study.sought or 0.0)) | (upper <= log_floor(study)))


def _worded(within: BoolArray, cases: Mapping[str, BoolArray]) -> TextArray:
    """Return for each answer the last text whose case holds, empty text where it is within; each case of shape (n,)."""
    why = np.full(within.shape, "", dtype=object)
    for text, holds in cases.items():
        why[~within & holds] = text
    return why


def _next_is_stored(asked: Questions, epsilon: FloatArray, lower: Any, upper: FloatArray) -> BoolArray:
    """Return where the r that would be computed next is stored at that ε: its bounds lie on both sides of δ."""
    found = np.zeros(epsilon.size, dtype=bool)
    for index in np.flatnonzero(lower < upper).tolist():
        points, r = asked.settings[int(asked.setting[index])].equal, next_rounds(int(lower[index]), float(upper[index]))
        if points is not None and r <= MAX_COMPOSITIONS:
            found[index] = bool(points.stored(np.array([r]), epsilon[[index]])[0][0])
    return found


def _sought(asked: Questions) -> BoolArray:
    """Return which questions the study's tolerance is for: a cell with a factor of its own has none."""
    return np.array([setting.cell.factor is None for setting in asked.settings], dtype=bool)[asked.setting]


def _setting(asked: Questions, index: int) -> str:
    return asked.settings[int(asked.setting[index])].cell.describe()


class Queries:
    """Answers questions to one store, each with a sentence on those answers that miss the study's tolerance, if any do.

    `where` is the store's path or URL, for messages; `refine` computes points, adds them to the store, and returns the
    settings with them.
    """

    def __init__(
        self, where: str, study: StudySpec, settings: Settings, refine: Callable[[Iterable[Point]], Settings]
    ) -> None:
        self._where, self._study, self._settings, self._refine = where, study, settings, refine

    def delta(
        self,
        mechanism: str | Pair,
        noise: Mapping[str, Any],
        *,
        compositions: Any,
        epsilon: Any,
        exp_epsilon: Any,
        direction: str,
        refine: bool,
    ) -> tuple[DeltaBounds, str | None]:
        """As `Study.delta`."""
        check_direction(direction)
        refine = check_flag("refine", refine)
        given = _given_epsilon(epsilon, exp_epsilon)
        shape, (rounds, losses), settings, number = self._asked(mechanism, noise, compositions=compositions, **given)
        asked = Questions(settings, number, checked_compositions(rounds))
        values, around = _losses(losses, given)
        answers, stored, bounded = bound_delta(asked, values, around)
        if refine and not stored.all():
            missing = np.flatnonzero(~stored).tolist()
            cells = [settings[index].cell for index in number[missing].tolist()]
            points = zip(cells, asked.compositions[missing].tolist(), values[missing].tolist(), strict=True)
            asked = self._asking_again(mechanism, noise, asked, compositions=compositions, **given)(points)
            answers, stored, bounded = bound_delta(asked, values, around)
        self._refuse_unbounded(asked, bounded, values)
        answers = answers.max(axis=1) if direction == "both" else answers
        logs = [answers[list(BOUNDS).index(name)] for name in _LOGS]
        judged = delta_within(self._study, logs[0], logs[1], stored_within(asked, values))
        whole = _with_directions(shape, direction)
        within, why, missed = None, None, None
        if judged is not None:
            reasons, missed = why_delta(self._study, asked, values, answers, judged=judged, stored=stored)
            within, why = _frozen(judged[0].reshape(whole)), _frozen(reasons.reshape(whole))
        for name in ("delta_lower", "log_delta_lower"):
            answers[list(BOUNDS).index(name)][..., ~asked.attained] = np.nan
        lower, upper, log_lower, log_upper = (
            _frozen(answers[list(BOUNDS).index(name)].reshape(whole)) for name in ("delta_lower", "delta_upper", *_LOGS)
        )
        told = self.neighbours(mechanism, asked.settings)
        return DeltaBounds(lower, upper, log_lower, log_upper, within, why, adjacency=told), missed

    def epsilon(
        self,
        mechanism: str | Pair,
        noise: Mapping[str, Any],
        *,
        compositions: Any,
        delta: Any,
        direction: str,
        refine: bool,
    ) -> tuple[EpsilonBounds, str | None]:
        """As `Study.epsilon`."""
        check_direction(direction)
        refine = check_flag("refine", refine)
        shape, (rounds, wanted), settings, number = self._asked(
            mechanism, noise, compositions=compositions, delta=delta
        )
        asked = Questions(settings, number, checked_compositions(rounds))
        targets = checked_delta(wanted)
        failed: Failures = {}
        if refine:
            again = self._asking_again(mechanism, noise, asked, compositions=compositions, delta=delta)
            asked, failed = narrow_epsilon(asked, targets, again, self._study.sought)
        lower, upper, bounded = bound_epsilon(asked, targets)
        _raise_first(failed, ~bounded)
        self._refuse_unbounded(asked, bounded, None)
        if direction == "both":
            lower, upper = lower.max(axis=0), upper.max(axis=0)
        whole = _with_directions(shape, direction)
        within, why, missed = why_epsilon(self._study, asked, targets, (lower, upper), refined=refine)
        judged = _shaped(within, whole), _shaped(why, whole)
        lower[..., ~asked.attained] = np.nan
        told = self.neighbours(mechanism, asked.settings)
        bounds = _frozen(lower.reshape(whole)), _frozen(upper.reshape(whole))
        return EpsilonBounds(*bounds, *judged, adjacency=told), missed

    def compositions(
        self,
        mechanism: str | Pair,
        noise: Mapping[str, Any],
        *,
        epsilon: Any,
        exp_epsilon: Any,
        delta: Any,
        refine: bool,
    ) -> tuple[CompositionBounds, str | None]:
        """As `Study.compositions`."""
        refine = check_flag("refine", refine)
        given = _given_epsilon(epsilon, exp_epsilon)
        shape, (losses, wanted), settings, number = self._asked(mechanism, noise, **given, delta=delta)
        values, around = _losses(losses, given)
        asked = Questions(settings, number, np.ones(wanted.size, dtype=np.int64))
        targets = checked_delta(wanted)
        failed: Failures = {}
        if refine:
            again = self._asking_again(mechanism, noise, asked, **given, delta=delta)
            asked, failed = narrow_compositions(asked, values, targets, around, again)
        unknown = np.array([not _any_above(setting) for setting in asked.settings], dtype=bool)
        _raise_first(failed, unknown[asked.setting])
        for setting in asked.settings:
            self._refuse_unknown(setting)
        lower, upper = bound_compositions(asked, values, targets, around)
        within, why, missed = why_rounds(self._study, asked, values, targets, (lower, upper), refined=refine)
        judged = _shaped(within, shape), _shaped(why, shape)
        told = self.neighbours(mechanism, asked.settings)
        bounds = _frozen(lower.reshape(shape)), _frozen(upper.reshape(shape))
        return CompositionBounds(*bounds, *judged, adjacency=told), missed

    def setting(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Setting:
        """Return the one setting that a mechanism, or a label with parameters, names."""
        _check_mechanism(mechanism, noise)
        if isinstance(mechanism, Pair):
            return self._settings.of_pair(mechanism)
        return self._settings.of_label(mechanism, one_setting(noise))

    def neighbours(self, mechanism: str | Pair, settings: Sequence[Setting]) -> Adjacency:
        """Return for which neighbours the answers about some settings are; as stated where they differ."""
        return neighbours_of_settings(self._study, mechanism, settings)

    def _asking_again(
        self, mechanism: str | Pair, noise: Mapping[str, Any], asked: Questions, **arguments: Any
    ) -> Callable[[Iterable[Point]], Questions]:
        """Return what has points computed, and then returns the same questions to the store that holds them."""

        def again(points: Iterable[Point]) -> Questions:
            self._settings = self._refine(points)
            _, _, settings, number = self._asked(mechanism, noise, **arguments)
            return Questions(settings, number, asked.compositions)

        return again

    def _asked(
        self, mechanism: str | Pair, noise: Mapping[str, Any], **arguments: Any
    ) -> tuple[tuple[int, ...], tuple[Any, ...], Sequence[Setting], IntArray]:
        """Return the common shape, the arguments as vectors, the settings, and the number of each one's setting."""
        given = {name: given_array(name, value) for name, value in arguments.items()}
        parameters = {name: noise_parameter(name, value) for name, value in noise.items()}
        varying = {name: value for name, value in parameters.items() if isinstance(value, np.ndarray)}
        fixed = {name: value for name, value in parameters.items() if not isinstance(value, np.ndarray)}
        try:
            arrays = np.broadcast_arrays(*given.values(), *varying.values())
        except ValueError as error:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in {**given, **varying}.items())
            raise InvalidInputError(f"{next(iter(given))}: expected shapes that broadcast, got {shapes}") from error
        shape = arrays[0].shape
        vectors = [array.reshape(-1) for array in arrays]
        asked, amounts = vectors[: len(arguments)], vectors[len(arguments) :]
        _check_mechanism(mechanism, noise)
        if isinstance(mechanism, Pair):
            return shape, tuple(asked), [self._settings.of_pair(mechanism)], np.zeros(asked[0].size, dtype=np.int64)
        if not varying:
            return shape, tuple(asked), [self._settings.of_label(mechanism, fixed)], np.zeros(asked[0].size, np.int64)
        table = np.stack(amounts, axis=1)
        rows, number = np.unique(table, axis=0, return_inverse=True)
        settings = [
            self._settings.of_label(mechanism, {**fixed, **dict(zip(varying, row, strict=True))})
            for row in rows.tolist()
        ]
        return shape, tuple(asked), settings, number.reshape(-1)

    def _refuse_unbounded(self, asked: Questions, bounded: BoolArray, epsilon: FloatArray | None) -> None:
        """Raise the error of the first question without an upper bound, if there is one."""
        missing = np.flatnonzero(~bounded)
        if not missing.size:
            return
        first = int(missing[0])
        setting, r = asked.settings[int(asked.setting[first])], int(asked.compositions[first])
        self._refuse_unknown(setting)
        name = setting.cell.describe()
        others = f" (and {missing.size - 1} more points)" if missing.size > 1 else ""
        at = "" if epsilon is None else f", epsilon = {float(epsilon[first])!r}"
        most = max((int(points.compositions[-1]) for points in setting.above if points.compositions.size), default=0)
        told = f"compositions: expected at most {most}, the largest stored number that bounds it, got {r}"
        if r <= most:
            # Of a histogram whose masses do not sum to exactly 1.
            told = f"compositions: expected a stored number, as δ need not rise with r for such masses, got {r}"
        raise OffGridError(
            f"{self._where}: {told}: {name}, r = {r}{at}{others}: add {r} to the study's compositions and run it again,"
            " or let refine=True (pbdist query --refine) compute it"
        )

    def _refuse_unknown(self, setting: Setting) -> None:
        """Raise the error of a setting for which no stored cell gives an upper bound, if none does."""
        if _any_above(setting):
            return
        name = setting.cell.describe()
        why = (
            "no stored setting is provably less noisy"
            if setting.ordered
            else "it is not computed, and no order is known between noise settings of its kind"
        )
        raise OffGridError(
            f"{self._where}: expected a stored noise setting, got {name}: {why}: add it to the study's mechanisms,"
            " unless it is there, and run it again, or let refine=True (pbdist query --refine) compute it"
        )


_LOGS = ("log_delta_lower", "log_delta_upper")


def _check_mechanism(mechanism: Any, noise: Mapping[str, Any]) -> None:
    if not isinstance(mechanism, str | Pair):
        raise InvalidInputError(f"mechanism: expected a label of the study or a mechanism, got {shown(mechanism)}")
    if isinstance(mechanism, Pair) and noise:
        raise InvalidInputError(f"{next(iter(noise))}: expected none beside a mechanism, got one")


def _any_above(setting: Setting) -> bool:
    """Whether a stored cell gives an upper bound for a setting."""
    return any(points.compositions.size for points in setting.above)


def _raise_first(failed: Failures, unknown: BoolArray) -> None:
    """Raise why points could not be computed: of the first question that has no answer without them."""
    for index in np.flatnonzero(unknown).tolist():
        if index in failed:
            raise failed[index]


def _given_epsilon(epsilon: Any, exp_epsilon: Any) -> dict[str, Any]:
    """Return the one of the two that is given, by its name."""
    check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    return {"epsilon": epsilon} if exp_epsilon is None else {"exp_epsilon": exp_epsilon}


def _losses(values: Any, given: Mapping[str, Any]) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
    """Return ε as floats; where e^ε was given, also floats below and above its logarithm, which is no float itself.

    Where the nearest float is a stored ε, that one is meant, as in a study file.
    """
    if "epsilon" in given:
        return checked_epsilon(values), None
    numbers = values.tolist() if values.dtype.kind in "iuf" else []
    if not numbers or not all(math.isfinite(value) and value >= 1.0 for value in numbers):
        raise InvalidInputError(f"exp_epsilon: expected finite numbers of at least 1, got {shown(values.tolist())}")
    losses = np.array([math.log(value) for value in numbers])
    # math.log errs by less than an ulp; of 1 it is exact.
    inner = losses > 0.0
    below = np.where(inner, np.nextafter(losses, 0.0), losses)
    return losses, (below, np.where(inner, np.nextafter(losses, np.inf), losses))


def _with_directions(shape: tuple[int, ...], direction: str) -> tuple[int, ...]:
    return (2, *shape) if direction == "each" else shape


def _shaped(values: Any, shape: tuple[int, ...]) -> Any:
    return None if values is None else _frozen(values.reshape(shape))


def _frozen(values: Any) -> Any:
    values.setflags(write=False)
    return values
