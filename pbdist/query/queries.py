"""The questions of an opened study: arguments broadcast, answers judged by width, wrong arguments refused by name."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

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
from pbdist.query.answers import (
    BETWEEN,
    FACTOR,
    MISSED,
    Questions,
    between,
    bound_compositions,
    bound_delta,
    bound_epsilon,
    delta_within,
    frozen,
    missed_by,
    tell,
)
from pbdist.query.convex_delta import StateAt
from pbdist.query.lookup import check_flag, check_strict, given_array, noise_parameter, one_setting
from pbdist.query.refine import Failures, Point, narrow_compositions, narrow_epsilon, next_rounds
from pbdist.query.refine import refine as compute_points
from pbdist.query.settings import Setting, Settings, neighbours_of_settings
from pbdist.query.stored import DAMAGED, NOT_COMPUTED, Parts, PointReader
from pbdist.query.stored_curves import pair_renyi, state_renyi, stored_total_variation, stored_tradeoff
from pbdist.results import (
    ENCLOSED,
    NO_LOWER,
    CompositionBounds,
    CurveBounds,
    DeltaBounds,
    EpsilonBounds,
    log_relative_width,
    relative_width,
)
from pbdist.store import read_refinements
from pbdist.store.layout import BOUNDS
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.tables import HEADS
from pbdist.types import Adjacency, BoolArray, FloatArray, IntArray, TextArray

_LARGER_ALONE = "the study judges the larger of the two directions alone"
_CLOSEST = "as close as the bounds on δ tell there"
_LOGS = ("log_delta_lower", "log_delta_upper")

#: How a sentence on an answer ends that is wide for such a reason, and what the user can do about it.
_ENDS: Mapping[str, str] = {
    BETWEEN: "it lies between stored points: refine=True (pbdist query --refine) computes it",
    MISSED: "the study itself missed the tolerance there",
}
_TOO_FAR = "the stored points lie too far from it: refine=True (pbdist query --refine) computes closer ones"


@dataclass(frozen=True)
class _Asked:
    """The arguments of some questions, as vectors of one length."""

    mechanism: str | Pair
    shape: tuple[int, ...]
    #: Those beside the noise, by name, shape (n,).
    arguments: Mapping[str, Any]
    #: Parameters of the noise with a number for each question, shape (n,), and those that all share.
    varying: Mapping[str, FloatArray]
    fixed: Mapping[str, str | None]

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the questions in tables: texts, and arrays of the shape of the questions."""
        mechanism = self.mechanism if isinstance(self.mechanism, str) else type(self.mechanism).__name__
        texts = {name: "auto" if value is None else value for name, value in self.fixed.items()}
        arrays = {name: value.reshape(self.shape) for name, value in {**self.varying, **self.arguments}.items()}
        return {"mechanism": mechanism, **texts, **arrays}


def _asked(mechanism: str | Pair, noise: Mapping[str, Any], **arguments: Any) -> _Asked:
    given = {name: given_array(name, value) for name, value in arguments.items()}
    parameters = {name: noise_parameter(name, value) for name, value in noise.items()}
    varying = {name: value for name, value in parameters.items() if isinstance(value, np.ndarray)}
    try:
        arrays = np.broadcast_arrays(*given.values(), *varying.values())
    except ValueError as error:
        shapes = ", ".join(f"{name} {value.shape}" for name, value in {**given, **varying}.items())
        raise InvalidInputError(f"{next(iter(given))}: expected shapes that broadcast, got {shapes}") from error
    _check_mechanism(mechanism, noise)
    vectors = dict(zip((*given, *varying), (array.reshape(-1) for array in arrays), strict=True))
    return _Asked(
        mechanism,
        arrays[0].shape,
        {name: vectors[name] for name in given},
        {name: vectors[name] for name in varying},
        {name: value for name, value in parameters.items() if not isinstance(value, np.ndarray)},
    )


def _check_mechanism(mechanism: Any, noise: Mapping[str, Any]) -> None:
    if not isinstance(mechanism, str | Pair):
        raise InvalidInputError(f"mechanism: expected a label of the study or a mechanism, got {shown(mechanism)}")
    if isinstance(mechanism, Pair) and noise:
        raise InvalidInputError(f"{next(iter(noise))}: expected none beside a mechanism, got one")


class Queries(Parts):
    """The questions that a store answers at any point, stored or not."""

    @cached_property
    def _reader(self) -> PointReader:
        return PointReader(self.checked, read_refinements(self.parts[0]))

    @cached_property
    def _settings(self) -> Settings:
        return Settings(self.spec, self._reader)

    def delta(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        epsilon: Any = None,
        exp_epsilon: Any = None,
        direction: str = "both",
        refine: bool = False,
        strict: bool | Literal["silent"] = False,
        **noise: Any,
    ) -> DeltaBounds:
        """Bound δ at any points, stored or not, by what is stored.

        Guaranteed: ``lower <= δ <= upper``. As a function of e^ε, δ is convex and does not rise; it does not fall with
        r; and it does not rise with noise where more noise is proved to be post-processing of less. Nothing else is
        assumed. A point that is stored has its stored bounds. Where states are kept (method tight,
        ``keep_states: true``) every ε up to the largest one of the study, and every δ that is met there, is answered
        from them at each stored r, about as closely as the study's tolerance.

        Parameters
        ----------
        mechanism
            The label that the study gives the mechanism, or a mechanism itself, such as ``pbdist.Gaussian(210.0)``.
        compositions
            Numbers r of compositions, at most the largest stored one.
        epsilon, exp_epsilon
            Exactly one of ε in nats and e^ε; ε is at least 0.
        direction
            ``"both"``: the larger of the two directions. ``"each"``: both, along a leading axis: A||B and B||A.
        refine
            Whether to compute the points that are not stored, as the study would, and add them to the store, for every
            process that opens it later. The study itself stays as it is.
        strict
            Whether an answer that is wider than the study's tolerance is an error; with ``"silent"`` it is not even a
            warning.
        **noise
            Beside a label, as many parameters as tell one setting from the others: ``scale``, ``reading``, ``factor``,
            ..; a ``factor`` of None or ``"auto"`` is the automatic one. Those that are numbers may differ from all
            stored ones where an order of noise is proved.

        Numbers may be scalars or arrays; all of them broadcast. `print` shows an answer as `pbdist query` does, and its
        method ``frame`` returns it as a table of pandas.

        Raises
        ------
        OffGridError
            Nothing stored bounds δ from above there; the text names the point, and what to add to the study.
        InvalidInputError
            A parameter is unknown or out of its range, or several settings are meant.
        StoreDamagedError
            The stored values cannot be read.
        PrecisionError
            If `strict`, and an answer is wider than the tolerance.

        Warns
        -----
        PrecisionWarning
            If answers are wider than the tolerance, unless `strict` is ``"silent"``; the text says how many, names the
            widest, and why it is.
        """
        self._check_options(direction, refine, strict)
        given = _asked(mechanism, noise, compositions=compositions, **_given_epsilon(epsilon, exp_epsilon))
        losses, around = _losses(given)
        asked = self._questions(given, checked_compositions(given.arguments["compositions"]))
        answers, stored, bounded, met = bound_delta(asked, losses, around)
        if refine and not stored.all():
            missing = np.flatnonzero(~stored).tolist()
            asked = self._asking_again(given, asked)(asked.point(n, float(losses[n])) for n in missing)
            answers, stored, bounded, met = bound_delta(asked, losses, around)
        self._refuse_unbounded(asked, bounded, losses)
        answers = answers.max(axis=1) if direction == "both" else answers
        values = dict(zip(BOUNDS, answers, strict=True))
        judged = delta_within(self.spec, values[_LOGS[0]], values[_LOGS[1]], met)
        within, why, missed = None, None, None
        if judged is not None:
            within, width = judged
            # Directions apart: the larger of them alone is judged, and nothing that is computed is meant to be closer.
            alone = np.zeros(stored.shape, dtype=bool)
            if within.ndim > 1 and self.spec.direction == "both":
                alone = (stored | _larger_is_close(self.spec, values)) & asked.attained
            # Without a lower bound only the study itself can tell how closely a point was computed.
            cases = {
                NO_LOWER: ~asked.attained,
                BETWEEN: ~stored & asked.attained,
                MISSED: stored & asked.attained,
                ENCLOSED: stored & asked.attained & asked.enclosed,
                _LARGER_ALONE: alone,
                FACTOR: ~asked.sought,
            }
            why, missed = _explained(
                self.spec,
                asked,
                "delta",
                (values["delta_lower"], values["delta_upper"]),
                judged=(within, width),
                cases=cases,
                place=lambda n: f"r = {int(asked.compositions[n])}, ε = {float(losses[n]):.6g}",
            )
        for name in ("delta_lower", "log_delta_lower"):
            values[name][..., ~asked.attained] = np.nan
        arrays = (values[name] for name in ("delta_lower", "delta_upper", *_LOGS))
        tell(missed, strict=strict)
        return DeltaBounds(**self._result(given, asked, (*arrays, within, why), direction, _LOGS_TOO))

    def epsilon(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        delta: Any,
        direction: str = "both",
        refine: bool = False,
        strict: bool | Literal["silent"] = False,
        **noise: Any,
    ) -> EpsilonBounds:
        """Bound the smallest ε with which δ is met, by what is stored; arguments and errors as for `delta`.

        Guaranteed: at ``upper`` the upper bound on δ is at most `delta`; it is infinite where no stored upper bound is.
        Just below ``lower``, if that is above 0, the lower bound on δ exceeds `delta`. With `refine` some points next
        to it are computed and stored where the two are further apart than the tolerance, or than 0.2 %; they then are
        about as close as the brackets. Points that cannot be computed are left out: the bounds are those without them.
        """
        self._check_options(direction, refine, strict)
        given = _asked(mechanism, noise, compositions=compositions, delta=delta)
        asked = self._questions(given, checked_compositions(given.arguments["compositions"]))
        targets = checked_delta(given.arguments["delta"])
        failed: Failures = {}
        if refine:
            asked, failed = narrow_epsilon(
                asked, targets, self._asking_again(given, asked), self.spec.required_tolerance
            )
        lower, upper, bounded = bound_epsilon(asked, targets)
        _raise_first(failed, ~bounded)
        self._refuse_unbounded(asked, bounded, None)
        if direction == "both":
            lower, upper = lower.max(axis=0), upper.max(axis=0)
        within, why, missed = _indirect(
            self.spec,
            asked,
            "epsilon",
            (lower, upper),
            closest=np.full(targets.size, refine),
            place=lambda n: f"r = {int(asked.compositions[n])}, δ = {float(targets[n]):g}",
        )
        lower[..., ~asked.attained] = np.nan
        tell(missed, strict=strict)
        return EpsilonBounds(**self._result(given, asked, (lower, upper, within, why), direction))

    def compositions(
        self,
        mechanism: str | Pair,
        *,
        epsilon: Any = None,
        exp_epsilon: Any = None,
        delta: Any,
        refine: bool = False,
        strict: bool | Literal["silent"] = False,
        **noise: Any,
    ) -> CompositionBounds:
        """Bound how many compositions meet (ε, δ) in both directions, by what is stored; as for `delta`.

        Guaranteed: ``lower`` rounds do, 0 if none is known to; more than ``upper`` do not, which is infinite where
        no stored lower bound exceeds `delta`. With `refine` points of other r are computed and stored, halving the
        interval between the two, until they meet, the bounds at an r are on both sides of `delta`, or that r cannot be
        computed.
        """
        self._check_options("both", refine, strict)
        given = _asked(mechanism, noise, **_given_epsilon(epsilon, exp_epsilon), delta=delta)
        losses, around = _losses(given)
        targets = checked_delta(given.arguments["delta"])
        asked = self._questions(given, np.ones(targets.size, dtype=np.int64))
        failed: Failures = {}
        if refine:
            asked, failed = narrow_compositions(asked, losses, targets, around, self._asking_again(given, asked))
        unknown = np.array([not _any_above(setting) for setting in asked.settings], dtype=bool)
        _raise_first(failed, unknown[asked.setting])
        for setting in asked.settings:
            self._refuse_unknown(setting)
        lower, upper = bound_compositions(asked, losses, targets, around)
        within, why, missed = _indirect(
            self.spec,
            asked,
            "compositions",
            (lower, upper),
            closest=np.full(targets.size, refine) | _next_is_stored(asked, losses, lower, upper),
            place=lambda n: f"ε = {float(losses[n]):.6g}, δ = {float(targets[n]):g}",
        )
        tell(missed, strict=strict)
        return CompositionBounds(**self._result(given, asked, (lower, upper, within, why), "both"))

    def tradeoff(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        type_one_error: Any,
        direction: str = "both",
        refine: bool = False,
        strict: bool | Literal["silent"] = False,
        **noise: Any,
    ) -> CurveBounds:
        """Bound the smallest type II error of a test at a type I error (f-DP), by what is stored.

        Parameters as for `delta` and `pbdist.tradeoff_bounds`; `noise` names one setting. The bounds rest on those on
        δ at the ε of the study and at ε = 0: how close they are depends on these ε. With `refine` the missing ones are
        computed and stored. Where a state is kept (method tight, ``keep_states: true``) the whole curve is read off
        it, and nothing is refined. The tolerance of the study counts for ``upper - lower``.
        """
        check_strict(self.spec, strict)
        found, missed = stored_tradeoff(
            self._delta_at(mechanism, noise, refine=refine),
            self._states(mechanism, noise),
            self._one_pair(mechanism, noise),
            np.unique([0.0, *self.spec.epsilon]),
            compositions=compositions,
            type_one_error=type_one_error,
            direction=direction,
            study=self.spec,
        )
        tell(missed, strict=strict)
        return self._about(found, mechanism, noise)

    def total_variation(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        direction: str = "both",
        refine: bool = False,
        strict: bool | Literal["silent"] = False,
        **noise: Any,
    ) -> CurveBounds:
        """Bound the total variation distance, δ at ε = 0, by what is stored; arguments as for `tradeoff`.

        The tolerance of the study counts for ``upper / lower - 1``.
        """
        check_strict(self.spec, strict)
        found, missed = stored_total_variation(
            self._delta_at(mechanism, noise, refine=refine),
            self._one_pair(mechanism, noise),
            compositions=compositions,
            direction=direction,
            study=self.spec,
        )
        tell(missed, strict=strict)
        return self._about(found, mechanism, noise)

    def renyi(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        order: Any,
        tolerance: float = 1e-3,
        from_states: bool = False,
        direction: str = "both",
        **noise: Any,
    ) -> CurveBounds:
        """Bound the Rényi divergence of one setting by a computation, as `pbdist.renyi_bounds` does.

        With ``from_states`` it is read off the kept states instead, those of a study with ``keep_states: true``, at
        stored r, and `tolerance` does not count. States with mass at infinity, as unbounded losses have, prove no upper
        bound.

        Raises
        ------
        OffGridError
            No such setting, or no state of that r is stored.
        PrecisionError
            The tolerance cannot be reached.
        """
        pair = self.setting(mechanism, noise).cell.pair
        asked = {"compositions": compositions, "order": order, "direction": direction}
        if from_states:
            cells = [cell for cell, one in enumerate(self.spec.cells) if one.pair == pair]
            kept = [row for cell in cells for row in self.rows_of(cell)]
            found = state_renyi(kept, self._states(mechanism, noise), pair, **asked)
        else:
            found = pair_renyi(pair, tolerance=tolerance, **asked)
        return self._about(found, mechanism, noise)

    def describe(self, mechanism: str | Pair, **noise: Any) -> str:
        """Return the one setting that a mechanism, or a label with parameters, names, as text; errors as `delta`."""
        return self.setting(mechanism, noise).cell.describe()

    def neighbours(self, mechanism: str | Pair, **noise: Any) -> Adjacency:
        """Return for which neighbours the bounds of one setting are, named as for `describe`; errors as there."""
        return neighbours_of_settings(self.spec, mechanism, [self.setting(mechanism, noise)])

    def setting(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Setting:
        """Return the one setting that a mechanism, or a label with parameters, names."""
        _check_mechanism(mechanism, noise)
        if isinstance(mechanism, Pair):
            return self._settings.of_pair(mechanism)
        return self._settings.of_label(mechanism, one_setting(noise))

    def _check_options(self, direction: str, refine: Any, strict: Any) -> None:
        check_strict(self.spec, strict)
        check_direction(direction)
        # Nothing else is taken for a truth value, as a query that refines writes to the store.
        check_flag("refine", refine)

    def _questions(self, given: _Asked, compositions: IntArray) -> Questions:
        """Return questions with the settings that they name, each setting once."""
        if isinstance(given.mechanism, Pair):
            return Questions([self._settings.of_pair(given.mechanism)], np.zeros_like(compositions), compositions)
        if not given.varying:
            setting = self._settings.of_label(given.mechanism, given.fixed)
            return Questions([setting], np.zeros_like(compositions), compositions)
        table = np.stack([*given.varying.values()], axis=1)
        rows, number = np.unique(table, axis=0, return_inverse=True)
        settings = [
            self._settings.of_label(given.mechanism, {**given.fixed, **dict(zip(given.varying, row, strict=True))})
            for row in rows.tolist()
        ]
        return Questions(settings, number.reshape(-1), compositions)

    def _asking_again(self, given: _Asked, asked: Questions) -> Callable[[Iterable[Point]], Questions]:
        """Return what has points computed, and then returns the same questions to the store that holds them."""

        def again(points: Iterable[Point]) -> Questions:
            more = compute_points(self.parts[0], self.spec, points, self._reader.refinements)
            self._reader = self._reader.with_refinements(more)
            self._settings = Settings(self.spec, self._reader)
            return self._questions(given, asked.compositions)

        return again

    def _result(
        self,
        given: _Asked,
        asked: Questions,
        arrays: Sequence[Any],
        direction: str,
        names: Sequence[str] = ("lower", "upper"),
    ) -> dict[str, Any]:
        """Return the fields of an answer: read-only arrays in the shape of the question."""
        shape = (2, *given.shape) if direction == "each" else given.shape
        fields = dict(zip((*names, "within_tolerance", "why_wide"), arrays, strict=True))
        found = {name: None if one is None else frozen(one.reshape(shape)) for name, one in fields.items()}

        def settings() -> TextArray:
            """Return each setting in words."""
            texts = np.array([setting.cell.describe() for setting in asked.settings], dtype=object)
            return texts[asked.setting].reshape(given.shape)

        adjacency = neighbours_of_settings(self.spec, given.mechanism, asked.settings)
        columns = {"setting": settings, **given.columns}
        return {**found, "adjacency": adjacency, "asked": columns}

    def _refuse_unbounded(self, asked: Questions, bounded: BoolArray, epsilon: FloatArray | None) -> None:
        """Raise the error of the first question without an upper bound, if there is one."""
        missing = np.flatnonzero(~bounded)
        if not missing.size:
            return
        first = int(missing[0])
        setting, r = asked.settings[int(asked.setting[first])], int(asked.compositions[first])
        self._refuse_unknown(setting)
        others = f" (and {missing.size - 1} more points)" if missing.size > 1 else ""
        at = "" if epsilon is None else f", epsilon = {float(epsilon[first])!r}"
        most = max((int(points.compositions[-1]) for points in setting.above if points.compositions.size), default=0)
        expected = f"compositions: expected at most {most}, the largest stored number that bounds it, got {r}"
        if r <= most:
            # Of a histogram whose masses do not sum to exactly 1.
            expected = f"compositions: expected a stored number, as δ need not rise with r for such masses, got {r}"
        raise OffGridError(
            f"{self.where}: {expected}: {setting.cell.describe()}, r = {r}{at}{others}: add {r} to the study's"
            " compositions and run it again, or let refine=True (pbdist query --refine) compute it"
        )

    def _refuse_unknown(self, setting: Setting) -> None:
        """Raise the error of a setting for which no stored cell gives an upper bound, if none does."""
        if _any_above(setting):
            return
        name = setting.cell.describe()
        gap = next((text for text in map(self._gap, setting.stored) if text), None)
        if gap is not None:
            raise OffGridError(f"{self.where}: {name} {gap}, or let refine=True (pbdist query --refine) compute it")
        why = "no order is known between noise settings of its kind"
        why = "no stored setting is provably less noisy" if setting.ordered else why
        raise OffGridError(
            f"{self.where}: expected a stored noise setting, got {name}: {why}: add it to the study's mechanisms and"
            " run it again, or let refine=True (pbdist query --refine) compute it"
        )

    def _gap(self, cell: int) -> str | None:
        """Return in words why a cell has no bounds, and what to do; None where it has."""
        why = self.gaps([cell]).get(cell)
        if why is None:
            return None
        if why == NOT_COMPUTED:
            return "is not computed yet: run the study again"
        if why == DAMAGED:
            return "was computed, but its files have changed or are missing: run the study again with --check"
        failures = (stored.failures(row // stored.cells_per_batch).get(row) for stored, row in self.rows_of(cell))
        cause = next(filter(None, failures), "its cause is lost")
        return f"could not be computed: {cause}"

    def _about(self, found: CurveBounds, mechanism: str | Pair, noise: Mapping[str, Any]) -> CurveBounds:
        """Return bounds with what they are about."""
        setting = self.describe(mechanism, **noise)
        label = mechanism if isinstance(mechanism, str) else type(mechanism).__name__
        asked = {"mechanism": label, "setting": np.array(setting, dtype=object), **found.asked}
        return replace(found, adjacency=self.neighbours(mechanism, **noise), asked=asked)

    def _states(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> StateAt:
        """Return what reads the kept states of a setting."""
        equal = self.setting(mechanism, noise).equal
        states = None if equal is None else equal.states
        return (lambda _: None) if states is None else states

    def _one_pair(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Pair:
        pair = self.setting(mechanism, noise).cell.pair.sole_pair
        if pair is None:
            raise InvalidInputError(
                "mechanism: expected one worst-case pair, got the worst of several: delta tells their δ at any epsilon"
            )
        return pair

    def _delta_at(
        self, mechanism: str | Pair, noise: Mapping[str, Any], *, refine: bool
    ) -> Callable[[int, FloatArray], DeltaBounds]:
        """Return what bounds δ in both directions after r compositions at some ε; it warns of nothing."""
        state_at = self._states(mechanism, noise)

        def delta_at(r: int, epsilon: FloatArray) -> DeltaBounds:
            more = refine and state_at(r) is None
            point = {"compositions": r, "epsilon": epsilon}
            return self.delta(mechanism, **point, direction="each", refine=more, strict="silent", **noise)

        return delta_at


_LOGS_TOO = ("lower", "upper", "log_lower", "log_upper")


def _explained(
    study: StudySpec,
    asked: Questions,
    name: str,
    bounds: tuple[FloatArray, FloatArray],
    *,
    judged: tuple[BoolArray, FloatArray],
    cases: Mapping[str, BoolArray],
    place: Callable[[int], str],
) -> tuple[TextArray, str | None]:
    """Return why answers are wide, empty text for those that are not, and the sentence on the widest.

    `judged` says which are within the tolerance, and how wide they are. The last text of `cases` that holds, each of
    shape (n,), is the reason. `place` tells in words what was asked beside the setting.
    """
    within, width = judged
    why = np.full(within.shape, "", dtype=object)
    for text, holds in cases.items():
        why[~within & holds] = text
    missed = ~within & asked.sought

    def worst(index: tuple[int, ...]) -> str:
        n, reason = index[-1], str(why[index])
        lower = math.nan if reason == NO_LOWER else float(bounds[0][index])
        known = f"{asked.cell(n).describe()}, {place(n)}: {between(HEADS[name], lower, float(bounds[1][index]))}"
        if reason == NO_LOWER:
            return known
        end = _TOO_FAR if reason == BETWEEN and name != "delta" else _ENDS.get(reason, reason)
        others = 0 if reason == BETWEEN else int(np.count_nonzero(missed & (why == BETWEEN)))
        more = f"; {others:,} of the others lie between stored points: refine=True (--refine) computes them"
        return f"{known}: {end}{more if others else ''}"

    return why, missed_by(missed, width, study, f"{name}_upper / {name}_lower - 1", worst)


def _indirect(
    study: StudySpec,
    asked: Questions,
    name: str,
    bounds: tuple[Any, FloatArray],
    *,
    closest: BoolArray,
    place: Callable[[int], str],
) -> tuple[BoolArray | None, TextArray | None, str | None]:
    """Return which answers on ε or r are within the tolerance, why the others are not, and the sentence on the widest.

    None where the study has no tolerance.
    """
    if study.required_tolerance is None:
        return None, None, None
    width = relative_width(*bounds)
    within = np.asarray(width <= study.required_tolerance)
    cases = {BETWEEN: ~closest, _CLOSEST: closest, FACTOR: ~asked.sought, NO_LOWER: ~asked.attained}
    return within, *_explained(study, asked, name, bounds, judged=(within, width), cases=cases, place=place)


def _larger_is_close(study: StudySpec, values: Mapping[str, FloatArray]) -> BoolArray:
    """Return at which points the larger of the two directions is within the tolerance."""
    lower, upper = (values[name].max(axis=0) for name in _LOGS)
    return np.asarray(
        (log_relative_width(lower, upper) <= (study.required_tolerance or 0.0)) | (upper <= log_floor(study))
    )


def _next_is_stored(asked: Questions, epsilon: FloatArray, lower: Any, upper: FloatArray) -> BoolArray:
    """Return where the r that would be computed next is stored at that ε: its bounds lie on both sides of δ."""
    found = np.zeros(epsilon.size, dtype=bool)
    for index in np.flatnonzero(lower < upper).tolist():
        points, r = asked.settings[int(asked.setting[index])].equal, next_rounds(int(lower[index]), float(upper[index]))
        if points is not None and r <= MAX_COMPOSITIONS:
            found[index] = bool(points.stored(np.array([r]), epsilon[[index]])[0][0])
    return found


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


def _losses(given: _Asked) -> tuple[FloatArray, tuple[FloatArray, FloatArray] | None]:
    """Return ε as floats; where e^ε was given, also floats below and above its logarithm, which is no float itself.

    Where the nearest float is a stored ε, that one is meant, as in a study file.
    """
    if "epsilon" in given.arguments:
        return checked_epsilon(given.arguments["epsilon"]), None
    values = given.arguments["exp_epsilon"]
    numbers = values.tolist() if values.dtype.kind in "iuf" else []
    if not numbers or not all(math.isfinite(value) and value >= 1.0 for value in numbers):
        raise InvalidInputError(f"exp_epsilon: expected finite numbers of at least 1, got {shown(values.tolist())}")
    losses = np.array([math.log(value) for value in numbers])
    # math.log errs by less than an ulp; of 1 it is exact.
    inner = losses > 0.0
    below = np.where(inner, np.nextafter(losses, 0.0), losses)
    return losses, (below, np.where(inner, np.nextafter(losses, np.inf), losses))
