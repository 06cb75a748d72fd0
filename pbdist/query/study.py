"""An opened study: what its store holds, as a Dataset and as rows, and its answers to questions at any point."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, StoreDamagedError, StoreUnreachableError, shown
from pbdist.mechanisms import Pair
from pbdist.mechanisms.columns import known_columns
from pbdist.notebook import html_of_fields
from pbdist.query.blocks import BOTH, BlockReader, about_rows, grid_of, rows_of
from pbdist.query.convex_delta import StateAt
from pbdist.query.judging import tell
from pbdist.query.lookup import Selection, check_strict, selected
from pbdist.query.queries import Queries
from pbdist.query.refine import Point
from pbdist.query.refine import refine as refine_points
from pbdist.query.settings import Settings
from pbdist.query.stored import DAMAGED, FAILED, NOT_COMPUTED, PointReader, Union
from pbdist.query.stored_curves import pair_renyi, state_renyi, stored_total_variation, stored_tradeoff
from pbdist.results import CompositionBounds, CurveBounds, DeltaBounds, EpsilonBounds
from pbdist.store import Place, StoredStudy, check_skeleton, open_parts, read_refinements
from pbdist.store.layout import WITHIN
from pbdist.study import StudySpec
from pbdist.study.extension import missing_parts
from pbdist.types import Adjacency, Direction, FloatArray

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pbdist.query.status import StudyContents

#: So many rows are made at once, but at least those of one cell.
_ROWS_AT_ONCE = 1 << 15


class Study:
    """A study in a store; of one that was extended, all of it. Made by `open_study`.

    Attributes
    ----------
    where
        The path or URL of the store.
    parts
        The parts of the store, in the order in which they were added.
    """

    def __init__(self, parts: tuple[StoredStudy, ...]) -> None:
        self.parts = parts
        self.where = parts[0].where
        self._committed: dict[tuple[str, int], bool] = {}

    def __repr__(self) -> str:
        """Return the name, the size and where it is."""
        spec = self.spec
        return (
            f"<Study {spec.name!r}: {len(spec.cells)} cells, {len(spec.compositions)} compositions, "
            f"{len(spec.epsilon)} epsilon, at {self.where}>"
        )

    def __str__(self) -> str:
        """Return what the store holds, as `pbdist query STORE` prints it."""
        return str(self.contents())

    def _repr_html_(self) -> str:
        """Return what is in the store, and whether all of it is, as a small table for notebooks."""
        parts = {} if len(self.parts) == 1 else {"parts": f"{len(self.parts)}"}
        try:
            results = "complete" if self.complete else "INCOMPLETE: pbdist status says what is missing"
        except OSError as error:
            results = f"not known: {error}"
        about = {"store": self.where, **self.spec.summary(), **parts, "digest": self.spec.digest[:16]}
        return html_of_fields(f"Study {self.spec.name}", {**about, "results": results})

    @cached_property
    def _union(self) -> Union:
        return Union(self.parts)

    @property
    def spec(self) -> StudySpec:
        """What the study computes, without description and targets."""
        return self._union.study

    @cached_property
    def complete(self) -> bool:
        """Whether every part that the root lists is there, every batch is committed, and no cell has failed."""
        if not set(self.parts[0].extensions) <= {stored.part for stored in self.parts}:
            return False
        committed = all(stored.known_progress.complete for stored in self.parts)
        return committed and not missing_parts([stored.study for stored in self.parts], self.spec)

    @cached_property
    def bounds(self) -> "xr.Dataset":
        """The bounds, loaded chunk by chunk when their values are used; those of an extended store at once.

        ``delta_lower``, ``delta_upper``, ``log_delta_lower`` and ``log_delta_upper`` over the dimensions ``cell``,
        ``direction``, ``compositions`` and ``epsilon``, with ``factor_used`` and ``loss_width`` over ``cell``. Of a
        study with a tolerance ``within_tolerance`` tells where it is met, over the dimensions of the bounds. The
        parameters of the cells are the levels of one index, so that any of them selects::

            study.bounds.sel(mechanism="Laplace", scale=200.0, compositions=512, epsilon=0.1)

        ``exp_epsilon`` selects along ``epsilon`` too. A parameter that a mechanism does not have is empty text or not
        a number. What is not computed is not a number, and not within the tolerance.

        Raises
        ------
        StoreDamagedError
            The metadata or the coordinates in the store are not those of the study, or the values cannot be read.
        """
        self._check()
        # xarray takes half a second to import, and no look-up needs it.
        dataset = import_module("pbdist.query.dataset")
        try:
            bounds: xr.Dataset = dataset.bounds_of(self._union)
        except (StoreUnreachableError, StoreDamagedError):
            raise
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            text = " ".join(str(error).split())[:200]
            raise StoreDamagedError(
                f"{self.where}: expected readable bounds, got: {text}: run the study again with --check"
            ) from error
        return bounds

    def contents(self) -> "StudyContents":
        """Return what the store holds: mechanisms, the values of their parameters, r and ε, and how complete it is.

        By a listing of now; checksums are not compared (``pbdist status --check`` does).
        """
        status = import_module("pbdist.query.status")
        parts = [status.part_status(stored) for stored in self.parts]
        found: StudyContents = status.contents_of(self._union, self.where, parts, read_refinements(self.parts[0]))
        return found

    def frame(self, *, columns: Sequence[str] | None = None, direction: str = BOTH, **labels: Any) -> "pd.DataFrame":
        """Return stored points as a table of pandas, one row a point.

        Only what is asked for is read. ``study.frame(mechanism="Laplace", scale=[200, 400], compositions=512)`` has a
        row for each ε.

        Parameters
        ----------
        columns
            Which columns, in this order. By default all: ``cell`` (its number), ``setting`` (the cell in words), its
            parameters, ``factor_used``, ``loss_width``, ``direction``, ``compositions``, ``epsilon``, ``exp_epsilon``,
            ``delta_lower``, ``delta_upper``, ``log_delta_lower``, ``log_delta_upper``, ``within_tolerance`` where the
            study has a tolerance, and ``status``.
        direction
            ``"both"``: the larger of the two directions. ``"each"``: a row for A||B and one for B||A.
        **labels
            ``mechanism`` (the label) and any parameters, ``compositions``, and ``epsilon`` or ``exp_epsilon``: one
            value, or a list of which any counts.

        Returns
        -------
        DataFrame
            A bound that is not known is NaN, and ``status`` says why: ``missing`` (not computed), ``failed``,
            ``damaged``. ``upper only``: a release plan that no change is declared to attain has no lower bound. A
            parameter that a mechanism does not have is empty text or NaN. The natural logarithm of 0 is -inf.

        Raises
        ------
        OffGridError
            Nothing stored has these labels; the text says what is stored.
        InvalidInputError
            A label or a column is unknown.
        StoreDamagedError
            The stored values cannot be read.
        """
        _check_direction(direction)
        known = self.row_columns
        names = tuple(known) if columns is None else tuple(columns)
        for name in names:
            if name not in known:
                raise InvalidInputError(f"columns: expected some of {', '.join(known)}, got {shown(name)}")
        chosen = selected(self.spec, labels)
        pieces = [{name: rows[name] for name in names} for rows in self.rows(chosen, direction)]
        # pandas comes with xarray, and takes a third of a second to import.
        frame: pd.DataFrame = import_module("pandas").DataFrame(
            {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
        )
        return frame

    def select(self, *, direction: str = BOTH, **labels: Any) -> "xr.Dataset":
        """Return stored points as a Dataset over plain dimensions, as xarray plots it.

        Its dimensions are those parameters that tell the selected cells apart, ``compositions`` and ``epsilon``. One of
        which a single value was asked for is no dimension. So this draws a line for each scale::

            study.select(mechanism="Laplace", compositions=512).delta_upper.plot(x="epsilon", hue="scale", yscale="log")

        Arguments, errors and what is not known are as for `frame`, with ``status`` as a variable. Cells that are no
        grid over parameters are an `InvalidInputError`, whose text says what to give too.
        """
        _check_direction(direction)
        chosen = selected(self.spec, labels)
        kept = [name for name in labels if name in known_columns() and name not in chosen.scalar]
        grid = grid_of([self.spec.cells[cell] for cell in chosen.cells.tolist()], kept)
        make = import_module("pbdist.query.dataset").selected_dataset
        dataset: xr.Dataset = make(self.blocks, self.spec, chosen, direction, grid)
        return dataset

    @cached_property
    def row_columns(self) -> Mapping[str, str]:
        """The columns of `frame`, and of an export with a row for each point, and what each holds."""
        found = about_rows(self.spec.cells)
        return {name: what for name, what in found.items() if name != WITHIN or self.spec.sought is not None}

    def rows(self, chosen: Selection, direction: str) -> Iterator[dict[str, Any]]:
        """Yield chosen points as columns; of some cells at a time, so that few are in memory."""
        inner = len(Direction) * len(self.spec.compositions) * len(self.spec.epsilon)
        length = max(1, _ROWS_AT_ONCE // inner)
        for start in range(0, len(chosen.cells), length):
            block = self.blocks.read(chosen.cells[start : start + length])
            yield rows_of(block, self.spec, chosen.compositions, chosen.epsilon, direction, names=self.row_columns)

    @cached_property
    def blocks(self) -> BlockReader:
        """What reads the points of some cells."""
        self._check()
        return BlockReader(self._union, self._is_committed)

    def delta(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        epsilon: Any = None,
        exp_epsilon: Any = None,
        direction: str = "both",
        refine: bool = False,
        strict: bool = False,
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
            Whether an answer that is wider than the study's tolerance is an error.
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
            If answers are wider than the tolerance; the text says how many, names the widest, and why it is.
        """
        check_strict(self.spec, strict)
        point = {"compositions": compositions, "epsilon": epsilon, "exp_epsilon": exp_epsilon}
        found, missed = self.queries.delta(mechanism, noise, **point, direction=direction, refine=refine)
        tell(missed, strict=strict)
        return found

    def epsilon(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        delta: Any,
        direction: str = "both",
        refine: bool = False,
        strict: bool = False,
        **noise: Any,
    ) -> EpsilonBounds:
        """Bound the smallest ε with which δ is met, by what is stored; arguments and errors as for `delta`.

        Guaranteed: at ``upper`` the upper bound on δ is at most `delta`; it is infinite where no stored upper bound is.
        Just below ``lower``, if that is above 0, the lower bound on δ exceeds `delta`. With `refine` some points next
        to it are computed and stored where the two are further apart than the tolerance, or than 0.2 %; they then are
        about as close as the brackets. Points that cannot be computed are left out: the bounds are those without them.
        """
        check_strict(self.spec, strict)
        point = {"compositions": compositions, "delta": delta}
        found, missed = self.queries.epsilon(mechanism, noise, **point, direction=direction, refine=refine)
        tell(missed, strict=strict)
        return found

    def compositions(
        self,
        mechanism: str | Pair,
        *,
        epsilon: Any = None,
        exp_epsilon: Any = None,
        delta: Any,
        refine: bool = False,
        strict: bool = False,
        **noise: Any,
    ) -> CompositionBounds:
        """Bound how many compositions meet (ε, δ) in both directions, by what is stored; as for `delta`.

        Guaranteed: ``lower`` rounds do, 0 if none is known to; more than ``upper`` do not, which is infinite where
        no stored lower bound exceeds `delta`. With `refine` points of other r are computed and stored, halving the
        interval between the two, until they meet, the bounds at an r are on both sides of `delta`, or that r cannot be
        computed.
        """
        check_strict(self.spec, strict)
        point = {"epsilon": epsilon, "exp_epsilon": exp_epsilon, "delta": delta}
        found, missed = self.queries.compositions(mechanism, noise, **point, refine=refine)
        tell(missed, strict=strict)
        return found

    def tradeoff(
        self,
        mechanism: str | Pair,
        *,
        compositions: Any,
        type_one_error: Any,
        direction: str = "both",
        refine: bool = False,
        strict: bool = False,
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
        strict: bool = False,
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
        pair = self.queries.setting(mechanism, noise).cell.pair
        asked = {"compositions": compositions, "order": order, "direction": direction}
        if from_states:
            cells = [cell for cell, one in enumerate(self.spec.cells) if one.pair == pair]
            kept = [row for cell in cells for row in self._union.rows_of(cell)]
            found = state_renyi(kept, self._states(mechanism, noise), pair, **asked)
        else:
            found = pair_renyi(pair, tolerance=tolerance, **asked)
        return self._about(found, mechanism, noise)

    def describe(self, mechanism: str | Pair, **noise: Any) -> str:
        """Return the one setting that a mechanism, or a label with parameters, names, as text; errors as `delta`."""
        return self.queries.setting(mechanism, noise).cell.describe()

    def neighbours(self, mechanism: str | Pair, **noise: Any) -> Adjacency:
        """Return for which neighbours the bounds of one setting are, named as for `describe`; errors as there."""
        return self.queries.neighbours(mechanism, [self.queries.setting(mechanism, noise)])

    @cached_property
    def queries(self) -> Queries:
        """What answers; it returns the sentence on wide answers instead of warning."""

        def refined(points: Iterable[Point]) -> Settings:
            self._reader = self._reader.with_refinements(
                refine_points(self.parts[0], self.spec, points, self._reader.refinements)
            )
            return Settings(self.spec, self._reader)

        return Queries(self.where, self.spec, Settings(self.spec, self._reader), refined, self._gap)

    @cached_property
    def _reader(self) -> PointReader:
        self._check()
        return PointReader(self._union, self._is_committed, read_refinements(self.parts[0]))

    def _about(self, found: CurveBounds, mechanism: str | Pair, noise: Mapping[str, Any]) -> CurveBounds:
        """Return bounds with what they are about."""
        setting = self.describe(mechanism, **noise)
        label = mechanism if isinstance(mechanism, str) else type(mechanism).__name__
        asked = {"mechanism": label, "setting": np.array(setting, dtype=object), **found.asked}
        return replace(found, adjacency=self.neighbours(mechanism, **noise), asked=asked)

    def _states(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> StateAt:
        """Return what reads the kept states of a setting."""
        equal = self.queries.setting(mechanism, noise).equal
        states = None if equal is None else equal.states
        return (lambda _: None) if states is None else states

    def _one_pair(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Pair:
        pair = self.queries.setting(mechanism, noise).cell.pair.alone
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
            point = {"compositions": r, "epsilon": epsilon, "exp_epsilon": None}
            more = refine and state_at(r) is None
            return self.queries.delta(mechanism, noise, **point, direction="each", refine=more)[0]

        return delta_at

    def maxima(self, compositions: int, epsilon: int) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds of every cell at one point, the larger of the two directions.

        `compositions` and `epsilon` are indices in the study's grids. The bounds, of shape (cells,), are NaN where a
        cell is not committed, or its files are damaged.
        """
        self._check()
        found = {name: np.full(len(self.spec.cells), np.nan) for name in ("delta_lower", "delta_upper")}
        for stored, cells in self.committed_batches():
            indices = self._union.grid_indices(stored, compositions, epsilon)
            if indices is None:
                continue
            for name, maxima in found.items():
                values = stored.values(name, (slice(cells.start, cells.stop), slice(None), *indices))
                # NaN in either direction is NaN in the maximum.
                maxima[self._union.rows(stored, cells)] = values.max(axis=1)
        return found["delta_lower"], found["delta_upper"]

    def gaps(self, cells: Iterable[int]) -> dict[int, str]:
        """Return why cells lack bounds, some or all: not computed, failed, or damaged; other cells are left out."""
        self._check()
        found: dict[int, str] = {}
        for cell in cells:
            for stored, row in self._union.rows_of(cell):
                batch = row // stored.cells_per_batch
                if not stored.known_progress.committed[batch]:
                    found[cell] = NOT_COMPUTED
                elif not self._is_committed(stored, row):
                    found[cell] = DAMAGED
                elif row in stored.failures(batch):
                    found[cell] = FAILED
        return found

    def _gap(self, cell: int) -> str | None:
        """Return in words why a cell has no bounds, and what to do; None where it has."""
        why = self.gaps([cell]).get(cell)
        if why == FAILED:
            causes = (
                stored.failures(row // stored.cells_per_batch).get(row) for stored, row in self._union.rows_of(cell)
            )
            return f"could not be computed: {next(filter(None, causes), 'its cause is lost')}"
        again = {NOT_COMPUTED: "is not computed yet: run the study again"}
        again[DAMAGED] = "was computed, but its files have changed or are missing: run the study again with --check"
        return None if why is None else again[why]

    def committed_batches(self) -> Iterator[tuple[StoredStudy, range]]:
        """Yield part and cells of each batch that is committed and sound; a cell that failed has NaN there."""
        for stored in self.parts:
            for index in range(stored.batches):
                cells = stored.cells_of(index)
                if self._is_committed(stored, cells.start):
                    yield stored, cells

    def recorded_points(self) -> Iterator[tuple[StoredStudy, range, int, int]]:
        """Yield part and cells of each committed batch, and at how many points the tolerance was sought and missed.

        Bounds are not read, and checksums are not compared.
        """
        for stored in self.parts:
            for index, (sought, missed) in stored.judged(stored.known_progress).items():
                yield stored, stored.cells_of(index), sought, missed

    @cached_property
    def _checked(self) -> bool:
        for stored in self.parts:
            check_skeleton(stored)
        return True

    def _check(self) -> None:
        """Compare the store's metadata and coordinates with the study, once: under others sound bytes mislead."""
        _ = self._checked

    def _is_committed(self, stored: StoredStudy, cell: int) -> bool:
        """Whether the batch of a cell of a part is committed and sound."""
        key = stored.part, cell // stored.cells_per_batch
        if key not in self._committed:
            self._committed[key] = stored.is_sound(key[1])
        return self._committed[key]


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
    """
    return Study(open_parts(where))


def _check_direction(direction: str) -> None:
    if direction not in (BOTH, "each"):
        raise InvalidInputError(f"direction: expected 'both' or 'each', got {shown(direction)}")
