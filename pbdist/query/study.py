"""An opened study: what its store holds, as a Dataset and as rows, and its answers to questions at any point."""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np

from pbdist import arguments, results
from pbdist.curves.tradeoff_table import checked_errors
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import Pair
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.mechanisms.pair import noise_order
from pbdist.quantities import counted
from pbdist.query import answers, settings
from pbdist.query.answers import Losses, Questions
from pbdist.query.refine import Failures, Point, narrow_compositions, narrow_epsilon, next_compositions
from pbdist.query.refine import refine as compute_points
from pbdist.query.settings import Selection, Setting, Settings
from pbdist.query.stored import ABOUT, BOTH, DAMAGED, NOT_COMPUTED, STATUS, Block, Parts, PointReader, attained_of
from pbdist.results import ENCLOSED, NO_LOWER, CompositionBounds, CurveBounds, DeltaBounds, EpsilonBounds
from pbdist.rounding import brief, exponential
from pbdist.store import Place, open_parts, read_refinements
from pbdist.store.layout import BOUNDS, COMPUTED, WITHIN
from pbdist.study.columns import cell_columns, column_descriptions
from pbdist.study.spec import missing_parts
from pbdist.tables import HEADS, Printed, Sheet
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, BoolArray, Direction, FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pbdist.query.status import StudyContents

#: Why an answer is wide: `DeltaBounds.why_wide`.
BETWEEN, BEYOND = "between stored points", "beyond the stored points"
MISSED = "the study missed its tolerance there"
APART = "the stored points lie far apart"
FACTOR = "a factor takes the place of the tolerance"
_LARGER_ALONE = "the study judges the larger of the two directions alone"
_CLOSEST = "as close as the bounds on δ allow there"
#: How a sentence on an answer ends that is wide for such a reason, and what the user can do about it.
_ENDS: Mapping[str, str] = {
    **{one: f"it lies {one}: refine=True (pbdist query --refine) computes it" for one in (BETWEEN, BEYOND)},
    MISSED: "the study itself missed the tolerance there",
    APART: "the ε of the study lie too far apart, or this r or ε = 0 is not stored: refine=True computes these",
}
_Answer = TypeVar("_Answer", DeltaBounds, EpsilonBounds, CompositionBounds, CurveBounds)


@dataclass(frozen=True)
class _Arguments:
    """The arguments of some questions, as vectors of one length."""

    mechanism: str | Pair
    shape: tuple[int, ...]
    #: Those beside the noise, by name, shape (n,).
    points: Mapping[str, Any]
    #: Parameters of the noise with a number for each question, shape (n,), and those that all share.
    varying: Mapping[str, FloatArray]
    fixed: Mapping[str, str | None]

    @classmethod
    def of(cls, mechanism: str | Pair, noise: Mapping[str, Any], **points: Any) -> "_Arguments":
        """Check arguments and broadcast them."""
        given = {name: settings.given_array(name, value) for name, value in points.items()}
        parameters = {name: settings.noise_parameter(name, value) for name, value in noise.items()}
        numbers = {**given, **{name: one for name, one in parameters.items() if isinstance(one, np.ndarray)}}
        try:
            arrays = np.broadcast_arrays(*numbers.values())
        except ValueError as error:
            shapes = ", ".join(f"{name} {value.shape}" for name, value in numbers.items())
            raise InvalidInputError(f"{next(iter(given))}: expected shapes that broadcast, got {shapes}") from error
        if not isinstance(mechanism, str | Pair):
            raise InvalidInputError(f"mechanism: expected a label of the study or a mechanism, got {shown(mechanism)}")
        if isinstance(mechanism, Pair) and noise:
            raise InvalidInputError(f"{next(iter(noise))}: a mechanism has its own parameters; do not pass it")
        vectors = dict(zip(numbers, (array.reshape(-1) for array in arrays), strict=True))
        return cls(
            mechanism,
            arrays[0].shape,
            {name: vectors[name] for name in given},
            {name: vector for name, vector in vectors.items() if name not in given},
            {name: one for name, one in parameters.items() if not isinstance(one, np.ndarray)},
        )

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the questions in tables: texts, and arrays of the shape of the questions."""
        mechanism = self.mechanism if isinstance(self.mechanism, str) else type(self.mechanism).__name__
        texts = {name: "auto" if value is None else value for name, value in self.fixed.items()}
        arrays = {name: value.reshape(self.shape) for name, value in {**self.varying, **self.points}.items()}
        return {"mechanism": mechanism, **texts, **arrays}

    def noise_at(self, index: int) -> dict[str, Any]:
        """Return the parameters of the noise in a question."""
        return {**self.fixed, **{name: float(values[index]) for name, values in self.varying.items()}}

    def point(self, index: int) -> str:
        """Return the arguments of a question beside the noise, in words."""
        values = {name: array[index] for name, array in self.points.items()}
        return ", ".join(
            f"{HEADS[name]} = {int(value) if name == COMPOSITIONS else brief(value)}" for name, value in values.items()
        )


def checked_losses(points: Mapping[str, Any]) -> Losses:
    """Return ε as floats; where e^ε was given, with floats below and above its logarithm, which is no float itself.

    Where the nearest float is a stored ε, that one is meant, as in a study file.
    """
    if "epsilon" in points:
        return Losses.exactly(arguments.checked_epsilon(points["epsilon"]))
    values = points["exp_epsilon"]
    numbers = values.tolist() if values.dtype.kind in "iuf" else []
    if not numbers or not all(math.isfinite(value) and value >= 1.0 for value in numbers):
        raise InvalidInputError(f"exp_epsilon: expected finite numbers of at least 1, got {shown(values.tolist())}")
    losses = np.array([math.log(value) for value in numbers])
    # math.log errs by less than an ulp; of 1 it is exact.
    inner = losses > 0.0
    below, above = (np.where(inner, np.nextafter(losses, end), losses) for end in (0.0, np.inf))
    return Losses(losses, below, above)


def given_epsilon(epsilon: Any, exp_epsilon: Any) -> dict[str, Any]:
    """Return the one of the two that is given, by its name."""
    arguments.check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    return {"epsilon": epsilon} if exp_epsilon is None else {"exp_epsilon": exp_epsilon}


class Study(Parts, Printed):
    """A study in a store; of one that was extended, all of it. Made by `open_study`.

    Attributes
    ----------
    where
        The path or URL of the store.
    parts
        The parts of the store, in the order in which they were added.

    Examples
    --------
    >>> study = open_study("data/quickstart.zarr")
    >>> found = study.delta("Laplace", scale=200, compositions=512, epsilon=0.1)
    >>> bool(0.0 < found.lower <= found.upper <= 1.001 * found.lower)
    True
    """

    def __repr__(self) -> str:
        """Return the name, the size and where it is."""
        spec = self.spec
        sizes = f"{counted(len(spec.cells), 'cell')}, {counted(len(spec.compositions), 'composition')}"
        return f"<Study {spec.name!r}: {sizes}, {len(spec.epsilon)} epsilon, at {self.where}>"

    @property
    def sheet(self) -> Sheet:
        """The contents of the store, as `pbdist query STORE` prints them."""
        return self.contents().sheet

    @cached_property
    def complete(self) -> bool:
        """Whether every part that the root lists is there, every batch is committed, and no cell has failed."""
        lacking = self.parts_missing or missing_parts([stored.study for stored in self.parts], self.spec)
        return not lacking and all(stored.known_progress.complete for stored in self.parts)

    @cached_property
    def bounds(self) -> "xr.Dataset":
        """The bounds, loaded chunk by chunk when their values are used; those of an extended store at once.

        ``delta_lower``, ``delta_upper``, ``log_delta_lower`` and ``log_delta_upper`` over the dimensions ``cell``,
        ``direction``, ``compositions`` and ``epsilon``, with ``factor_used`` and ``loss_width`` over ``cell``. Of a
        study with a tolerance ``within_tolerance`` says where it is met, over the dimensions of the bounds. The
        parameters of the cells are the levels of one index, so that any of them selects::

            study.bounds.sel(mechanism="Laplace", scale=200.0, compositions=512, epsilon=0.1)

        ``exp_epsilon`` selects along ``epsilon`` too. A parameter that a mechanism does not have is empty text or not
        a number. What is not computed is not a number, and not within the tolerance.

        Raises
        ------
        StoreDamagedError
            The metadata or the coordinates in the store are not those of the study, or the values cannot be read.
        """
        # xarray takes half a second to import, and no look-up needs it.
        bounds: xr.Dataset = import_module("pbdist.query.dataset").bounds_of(self.checked)
        return bounds

    def contents(self) -> "StudyContents":
        """Return what the store holds: mechanisms, the values of their parameters, r and ε, and how complete it is.

        By a listing of now; checksums are not compared (``pbdist status --check`` does).
        """
        found: StudyContents = import_module("pbdist.query.status").contents_of(self)
        return found

    def frame(self, *, direction: str = BOTH, **labels: Any) -> "pd.DataFrame":
        """Return stored points as a table of pandas, one row a point.

        Only these points are read. ``study.frame(mechanism="Laplace", scale=[200, 400], compositions=512)`` has a row
        for each ε.

        Parameters
        ----------
        direction
            ``"both"``: the larger of the two directions. ``"each"``: a row for A||B and one for B||A.
        **labels
            ``mechanism`` (the label) and any parameters, ``compositions``, and ``epsilon`` or ``exp_epsilon``: one
            value, or a list of which any counts.

        Returns
        -------
        DataFrame
            The columns are ``cell`` (its number), ``setting`` (the cell in words), its parameters, ``factor_used``,
            ``loss_width``, ``direction``, ``compositions``, ``epsilon``, ``exp_epsilon``, ``delta_lower``,
            ``delta_upper``, ``log_delta_lower``, ``log_delta_upper``, ``within_tolerance`` where the study has a
            tolerance, and ``status``.

            A bound that is not known is NaN, and ``status`` says why: ``missing`` (not computed), ``failed``,
            ``damaged``. ``upper only``: a release plan that no change is declared to attain has no lower bound. A
            parameter that a mechanism does not have is empty text or NaN. The natural logarithm of 0 is -inf.

        Raises
        ------
        OffGridError
            Nothing stored has these labels; the text says what is stored.
        InvalidInputError
            A label is unknown.
        StoreDamagedError
            The stored values cannot be read.
        """
        arguments.check_direction(direction)
        chosen = settings.selected(self.spec, labels)
        # pandas comes with xarray, and takes a third of a second to import.
        pandas = import_module("pandas")
        frames = [
            pandas.DataFrame(self.rows(block, direction, chosen), columns=list(self.row_columns))
            for block in self.blocks(chosen.cells)
        ]
        frame: pd.DataFrame = pandas.concat(frames, ignore_index=True)
        return frame

    @cached_property
    def row_columns(self) -> Mapping[str, str]:
        """The columns of `frame`, and of an export with a row for each point, and what each holds."""
        found = {
            "cell": "number of the cell in the study, from 0",
            "setting": "the cell in words",
            **column_descriptions(self.spec.cells),
            **ABOUT,
        }
        if self.spec.required_tolerance is None:
            del found[WITHIN]
        return found

    def rows(self, block: Block, direction: str, chosen: Selection | None = None) -> dict[str, Any]:
        """Return the points of a block, at all r and ε or at those chosen, as columns of equal length.

        The last index changes fastest: cell, direction, r, ε. Text is an array of objects.
        """
        study, cells = self.spec, [self.spec.cells[cell] for cell in block.cells.tolist()]
        r = list(range(len(study.compositions)) if chosen is None else chosen.compositions)
        e = list(range(len(study.epsilon)) if chosen is None else chosen.epsilon)
        attained, names = attained_of(cells), self.row_columns
        directions = [BOTH] if direction == BOTH else [one.value for one in Direction]
        of_cells: dict[str, Any] = {
            "cell": block.cells,
            "setting": np.array([cell.describe() for cell in cells], dtype=object),
        }
        for name, column in cell_columns(cells, names).items():
            if name in known_columns() and name in names:
                of_cells[name] = np.array(column, dtype=object if is_text(name) else np.float64)
        of_cells |= {name: block.values[name] for name in COMPUTED}
        of_cells["adjacency"] = np.array([study.neighbours_of(cell).value for cell in cells], dtype=object)
        values = {name: column[:, None, None, None] for name, column in of_cells.items()}
        losses = [study.epsilon[index] for index in e]
        values |= {
            DIRECTION: np.array(directions, dtype=object)[:, None, None],
            COMPOSITIONS: np.array([study.compositions[index] for index in r], dtype=np.int64)[:, None],
            EPSILON: np.array(losses),
            "exp_epsilon": np.array([exponential(value) for value in losses]),
        }
        at = (..., *np.ix_(r, e))
        values |= {name: bounds[at] for name, bounds in block.bounds(attained, direction).items()}
        values[STATUS] = block.status(attained)[at][:, None]
        shape = len(cells), len(directions), len(r), len(e)
        return {name: np.broadcast_to(column, shape).reshape(-1) for name, column in values.items()}

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
        assumed. A point that is stored has its stored bounds. Where states are saved (method tight,
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
            Beside a label, as many parameters as single out one setting: ``scale``, ``reading``, ``factor``, ..; a
            ``factor`` of None or ``"auto"`` is the automatic one. Those that are numbers may differ from all
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
        given = _Arguments.of(mechanism, noise, compositions=compositions, **given_epsilon(epsilon, exp_epsilon))
        losses = checked_losses(given.points)
        questions = self._questions(given, arguments.checked_compositions(given.points["compositions"]))
        found = answers.bound_delta(questions, losses)
        if refine and not found.stored.all():
            missing = np.flatnonzero(~found.stored).tolist()
            again = self._refining(given, questions)
            questions = again(questions.point(n, float(losses.nearest[n])) for n in missing)
            found = answers.bound_delta(questions, losses)
        self._refuse_unbounded(questions, found.bounded)
        values = dict(zip(BOUNDS, found.values.max(axis=1) if direction == "both" else found.values, strict=True))
        within = answers.delta_within(self.spec, values["log_delta_lower"], values["log_delta_upper"], found.within)
        known = found.stored & questions.attained
        # Without a lower bound only the study itself knows how closely a point was computed.
        cases = {
            NO_LOWER: ~questions.attained,
            BETWEEN: ~found.stored & questions.attained,
            BEYOND: ~found.stored & questions.attained & self._outside(questions, losses.nearest),
            MISSED: known,
            ENCLOSED: known & questions.enclosed,
        }
        if direction == "each" and self.spec.direction == "both":
            # The larger direction alone is judged, and nothing that is computed is meant to be closer.
            larger = [values[name].max(axis=0) for name in ("log_delta_lower", "log_delta_upper")]
            close = answers.delta_within(self.spec, larger[0], larger[1], np.zeros_like(found.within))
            cases[_LARGER_ALONE] = (found.stored | close) & questions.attained
        cases[FACTOR] = ~questions.judged
        fields = {name.replace("delta_", ""): value for name, value in values.items()}
        return self._answer(
            DeltaBounds, given, questions, fields, cases=cases, within=within, direction=direction, strict=strict
        )

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
        given = _Arguments.of(mechanism, noise, compositions=compositions, delta=delta)
        questions = self._questions(given, arguments.checked_compositions(given.points["compositions"]))
        targets = arguments.checked_delta(given.points["delta"])
        failed: Failures = {}
        if refine:
            again, tolerance = self._refining(given, questions), self.spec.required_tolerance
            questions, failed = narrow_epsilon(questions, targets, again, tolerance)
        lower, upper, bounded = answers.bound_epsilon(questions, targets)
        _raise_first(failed, ~bounded)
        self._refuse_unbounded(questions, bounded)
        if direction == "both":
            lower, upper = lower.max(axis=0), upper.max(axis=0)
        fields = {"lower": lower, "upper": upper}
        cases = _cases(questions, np.full(targets.size, refine), self._outside(questions, upper))
        return self._answer(EpsilonBounds, given, questions, fields, cases=cases, direction=direction, strict=strict)

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
        given = _Arguments.of(mechanism, noise, **given_epsilon(epsilon, exp_epsilon), delta=delta)
        losses, targets = checked_losses(given.points), arguments.checked_delta(given.points["delta"])
        questions = self._questions(given, np.ones(targets.size, dtype=np.int64))
        failed: Failures = {}
        if refine:
            questions, failed = narrow_compositions(questions, losses, targets, self._refining(given, questions))
        _raise_first(failed, questions.of_each(lambda setting: not setting.bounded))
        for setting in questions.settings:
            self._refuse_unknown(setting)
        lower, upper = answers.bound_compositions(questions, losses, targets)
        closest = np.full(targets.size, refine)
        for n in np.flatnonzero(lower < upper).tolist():
            # Where the r that would be computed next is stored, its bounds lie on both sides of δ.
            points = questions.settings[int(questions.setting[n])].equal
            r = next_compositions(int(lower[n]), float(upper[n]))
            if points is not None and r <= arguments.MAX_COMPOSITIONS:
                closest[n] |= points.stored(np.array([r]), losses.nearest[[n]])[0][0]
        outside = np.isinf(upper) | (upper < self.spec.compositions[0])
        fields, cases = {"lower": lower, "upper": upper}, _cases(questions, closest, outside)
        return self._answer(CompositionBounds, given, questions, fields, cases=cases, direction="both", strict=strict)

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

        Parameters and errors as for `delta` and `pbdist.tradeoff_bounds`. The bounds rest on those on δ at the ε of the
        study and at ε = 0: how close they are depends on these ε. With `refine` the missing ones are computed and
        stored. Where a state is saved (method tight, ``keep_states: true``) the whole curve is read off it, and nothing
        is refined. The tolerance of the study counts for ``upper - lower``.
        """
        self._check_options(direction, refine, strict)
        given = _Arguments.of(mechanism, noise, compositions=compositions, type_one_error=type_one_error)
        questions = self._questions(given, arguments.checked_compositions(given.points["compositions"]))
        alpha = checked_errors(given.points["type_one_error"])
        epsilon = np.unique([0.0, *self.spec.epsilon])
        lower, upper = np.empty((2, len(Direction), alpha.size))
        for number, r in {*zip(questions.setting.tolist(), questions.compositions.tolist(), strict=True)}:
            setting = questions.settings[number]
            pair, state = setting.cell.pair.sole_pair, setting.equal and setting.equal.states(r)
            if pair is None:
                raise InvalidInputError(
                    "mechanism: expected one worst-case pair, got the worst of several: delta bounds their δ at any"
                    " epsilon"
                )
            here = np.flatnonzero((questions.setting == number) & (questions.compositions == r))
            known = self.delta(
                mechanism,
                compositions=r,
                epsilon=epsilon,
                direction="each",
                refine=refine and state is None,
                strict="silent",
                **given.noise_at(int(here[0])),
            )
            lower[:, here], upper[:, here] = answers.bound_errors(pair, r, alpha[here], known, state)
        if direction == "both":
            # The smaller error is the worse one.
            lower, upper = lower.min(axis=0), upper.min(axis=0)
        fields = {"lower": lower, "upper": upper}
        cases = {APART: np.ones(alpha.size, dtype=bool)}
        return self._answer(CurveBounds, given, questions, fields, cases=cases, direction=direction, strict=strict)

    def _check_options(self, direction: str, refine: Any, strict: Any) -> None:
        settings.check_strict(self.spec, strict)
        arguments.check_direction(direction)
        arguments.check_flag("refine", refine)

    def _questions(self, given: _Arguments, compositions: IntArray) -> Questions:
        """Return questions with the settings that they name, each setting once."""
        if isinstance(given.mechanism, Pair):
            return Questions([self._settings.of_pair(given.mechanism)], np.zeros_like(compositions), compositions)
        # Without varying parameters one row of none.
        table = np.stack([*given.varying.values(), np.zeros(compositions.size)], axis=1)
        rows, number = np.unique(table, axis=0, return_inverse=True)
        noises = ({**given.fixed, **dict(zip(given.varying, row, strict=False))} for row in rows.tolist())
        every = [self._settings.of_label(given.mechanism, noise) for noise in noises]
        return Questions(every, number.reshape(-1), compositions)

    def _outside(self, questions: Questions, epsilon: FloatArray) -> BoolArray:
        """Return which questions, with their ε, lie beyond the study's grids, or beyond its settings."""
        noisiest = ~questions.of_each(lambda setting: bool(setting.below))
        return (epsilon > self.spec.epsilon[-1]) | (questions.compositions < self.spec.compositions[0]) | noisiest

    def _refining(self, given: _Arguments, questions: Questions) -> Callable[[Iterable[Point]], Questions]:
        """Return a function that has points computed, and returns the same questions to the store that holds them."""

        def again(points: Iterable[Point]) -> Questions:
            more = compute_points(self.parts[0], self.spec, points, self._reader.refinements)
            self._reader = self._reader.with_refinements(more)
            self._settings = Settings(self.spec, self._reader)
            return self._questions(given, questions.compositions)

        return again

    def _answer(
        self,
        kind: type[_Answer],
        given: _Arguments,
        questions: Questions,
        fields: Mapping[str, Any],
        *,
        cases: Mapping[str, BoolArray],
        within: BoolArray | None = None,
        direction: str,
        strict: bool | Literal["silent"],
    ) -> _Answer:
        """Return an answer with read-only arrays in the shape of the question; warn where it is wide.

        `cases` say why answers are wide: the last text that holds. `within` is needed of δ alone.
        """
        lower, upper, name = fields["lower"], fields["upper"], kind.names["lower"].removesuffix("_lower")
        width, ratio = results.relative_width(lower, upper), f"{name}_upper / {name}_lower - 1"
        if name == "epsilon":
            width = np.where(results.no_epsilon_meets(lower, upper), 0.0, width)
        elif name == "delta":
            width = results.log_relative_width(fields["log_lower"], fields["log_upper"])
        elif name == "type_two_error":
            width, ratio = upper - lower, f"{name}_upper - {name}_lower"
        why = None
        if self.spec.required_tolerance is None:
            within = None
        else:
            within = np.asarray(width <= self.spec.required_tolerance) if within is None else within
            why = np.full(within.shape, "", dtype=object)
            for text, holds in cases.items():
                why[~within & holds] = text

            def describe(index: tuple[int, ...]) -> str:
                n, reason = index[-1], str(why[index])
                low = math.nan if reason == NO_LOWER else float(lower[index])
                known = answers.between(HEADS[name], low, float(upper[index]))
                known = f"{questions.cell(n).describe()}, {given.point(n)}: {known}"
                return known if reason == NO_LOWER else f"{known}: {_ENDS.get(reason, reason)}"

            sentence = answers.widest_answer(~within & questions.judged, width, self.spec, ratio, describe)
            results.warn_or_raise(sentence, strict=strict, depth=4)
        for field, values in fields.items():
            if field.endswith("lower") and values.dtype.kind == "f" and kind is not CurveBounds:
                values[..., ~questions.attained] = np.nan
        shape = (2, *given.shape) if direction == "each" else given.shape
        arrays: dict[str, Any] = {**fields, "within_tolerance": within, "why_wide": why}
        found = {field: results.frozen(one.reshape(shape)) for field, one in arrays.items() if one is not None}
        texts = np.array([setting.cell.describe() for setting in questions.settings], dtype=object)
        setting = texts[questions.setting].reshape(given.shape)
        adjacency = settings.neighbours_of_settings(self.spec, given.mechanism, questions.settings)
        return kind(**found, adjacency=adjacency, question={"setting": setting, **given.columns})

    def _refuse_unbounded(self, questions: Questions, bounded: BoolArray) -> None:
        """Raise the error of the first question without an upper bound, if there is one."""
        missing = np.flatnonzero(~bounded).tolist()
        if not missing:
            return
        setting, r = questions.settings[int(questions.setting[missing[0]])], int(questions.compositions[missing[0]])
        self._refuse_unknown(setting)
        others = f" (and {len(missing) - 1} more points)" if len(missing) > 1 else ""
        most = max(int(found[-1]) for pair in setting.above if (found := setting.points(pair).compositions).size)
        expected = f"at most {most}, the largest stored number"
        if r <= most:
            # Of a histogram whose masses do not sum to exactly 1.
            expected = "a stored number, as δ need not rise with r for such masses"
        raise OffGridError(
            f"compositions: expected {expected}, got {r} for {setting.cell.describe()}{others}: add {r} to the study's"
            " compositions and run it again, or let refine=True (pbdist query --refine) compute it"
        )

    def _refuse_unknown(self, setting: Setting) -> None:
        """Raise the error of a setting for which no stored cell gives an upper bound, if none does."""
        if setting.bounded:
            return
        name, gaps = setting.cell.describe(), self.gaps(setting.stored)
        for cell, gap in gaps.items():
            causes = (stored.failures(row // stored.cells_per_batch).get(row) for stored, row in self.rows_of(cell))
            why = {
                NOT_COMPUTED: "is not computed yet: run the study again",
                DAMAGED: "is damaged, as its files have changed or are missing: pbdist run STUDY --check repairs them",
            }.get(gap) or f"could not be computed: {next(filter(None, causes), 'its cause is lost')}"
            raise OffGridError(f"{self.where}: {name} {why}, or let refine=True (pbdist query --refine) compute it")
        why = "no order is known between noise settings of its kind"
        why = "no stored setting is provably less noisy" if noise_order(setting.cell.pair) else why
        raise OffGridError(
            f"{self.where}: expected a stored noise setting, got {name}: {why}: add it to the study's mechanisms and"
            " run it again, or let refine=True (pbdist query --refine) compute it"
        )


def _cases(questions: Questions, closest: BoolArray, outside: BoolArray) -> dict[str, BoolArray]:
    """Return why answers on ε or r are wide; `closest` are those as close as the bounds on δ allow."""
    cases = {BETWEEN: ~closest, BEYOND: ~closest & outside, _CLOSEST: closest}
    return {**cases, FACTOR: ~questions.judged, NO_LOWER: ~questions.attained}


def _raise_first(failed: Failures, unknown: BoolArray) -> None:
    """Raise why points could not be computed: of the first question that has no answer without them."""
    for index in np.flatnonzero(unknown).tolist():
        if index in failed:
            raise failed[index]


def open_study(where: str | Path | Place) -> Study:
    """Open the store of a study for reading: a path, or a URL ``s3://BUCKET/PREFIX``.

    Raises
    ------
    NotAStoreError
        `where` is not a pbdist store.
    StoreFormatError
        It was written in another format version.
    StoreDamagedError
        The study in it cannot be read.

    Examples
    --------
    >>> open_study("data/quickstart.zarr").complete
    True
    """
    return Study(open_parts(where))
