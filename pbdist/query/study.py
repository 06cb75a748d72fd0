"""An opened study: its bounds as a Dataset, and its answers to questions at any point."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.errors import InvalidInputError, StoreDamagedError, StoreUnreachableError
from pbdist.mechanisms import Pair
from pbdist.query.convex_delta import StateAt
from pbdist.query.judging import tell
from pbdist.query.labelled import LabelledPoints
from pbdist.query.lookup import check_strict
from pbdist.query.queries import Queries
from pbdist.query.refine import Point
from pbdist.query.refine import refine as refine_points
from pbdist.query.settings import Settings
from pbdist.query.stored import PointReader
from pbdist.query.stored_curves import pair_renyi, state_renyi, stored_total_variation, stored_tradeoff
from pbdist.results import CompositionBounds, CurveBounds, DeltaBounds, EpsilonBounds
from pbdist.store import (
    Place,
    open_parts,
    read_refinements,
)
from pbdist.types import Adjacency, FloatArray

if TYPE_CHECKING:
    import xarray as xr

    from pbdist.query.status import StudyContents


class Study(LabelledPoints):
    """A study in a store; of one that was extended, all of it. Made by `open_study`.

    Attributes
    ----------
    where
        The path or URL of the store.
    """

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
        # Before xarray looks: sound bytes under other metadata are other numbers.
        self._check()
        # xarray takes half a second to import, and no look-up needs it.
        dataset = import_module("pbdist.query.dataset")
        try:
            bounds: xr.Dataset = dataset.bounds_of(self._union)
        except StoreUnreachableError:
            raise
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            raise _damaged(self.where, error) from error
        return bounds

    def contents(self) -> "StudyContents":
        """Return what the store holds: mechanisms, the values of their parameters, r and ε, and how complete it is.

        By a listing of now; checksums are not compared (``pbdist status --check`` does).
        """
        # The words for it import rich.
        status = import_module("pbdist.query.status")
        parts = [status.part_status(stored) for stored in self._parts]
        found: StudyContents = status.contents_of(self._union, self.where, parts, read_refinements(self._parts[0]))
        return found

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
        assumed. A point that is stored has the bounds that `lookup` returns. Where states are kept
        (method tight, ``keep_states: true``) every ε up to the largest one of the study, and every δ that is met there,
        is answered from them at each stored r, about as closely as the study's tolerance.

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
            Beside a label, as many parameters as tell one setting from the others, as for `lookup`. Those that are
            numbers may differ from all stored ones where an order of noise is proved.

        Numbers may be scalars or arrays; all of them broadcast.

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
        found, missed = self.queries.delta(
            mechanism,
            noise,
            compositions=compositions,
            epsilon=epsilon,
            exp_epsilon=exp_epsilon,
            direction=direction,
            refine=refine,
        )
        tell(missed, strict=strict)
        return found

    def describe(self, mechanism: str | Pair, **noise: Any) -> str:
        """Return the one setting that a mechanism, or a label with parameters, names, as text.

        Raises
        ------
        OffGridError, InvalidInputError
            As `delta`.
        """
        return self.queries.setting(mechanism, noise).cell.describe()

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
        found, missed = self.queries.epsilon(
            mechanism, noise, compositions=compositions, delta=delta, direction=direction, refine=refine
        )
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
        found, missed = self.queries.compositions(
            mechanism, noise, epsilon=epsilon, exp_epsilon=exp_epsilon, delta=delta, refine=refine
        )
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
        return self._of_neighbours(found, mechanism, noise)

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
        return self._of_neighbours(found, mechanism, noise)

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
        pair = self._pair(mechanism, noise)
        if not from_states:
            found = pair_renyi(pair, compositions=compositions, order=order, tolerance=tolerance, direction=direction)
            return self._of_neighbours(found, mechanism, noise)
        cells = [cell for cell, one in enumerate(self.spec.cells) if one.pair == pair]
        kept = [found for cell in cells for found in self._union.rows_of(cell)]
        state_at = self._states(mechanism, noise)
        found = state_renyi(kept, state_at, pair, compositions=compositions, order=order, direction=direction)
        return self._of_neighbours(found, mechanism, noise)

    def neighbours(self, mechanism: str | Pair, **noise: Any) -> Adjacency:
        """Return for which neighbours the bounds of one setting are, named as for `describe`; errors as there."""
        return self.queries.neighbours(mechanism, [self.queries.setting(mechanism, noise)])

    @cached_property
    def queries(self) -> Queries:
        """What answers; it returns the sentence on wide answers instead of warning."""

        def refined(points: Iterable[Point]) -> Settings:
            self._reader = self._reader.with_refinements(
                refine_points(self._parts[0], self.spec, points, self._reader.refinements)
            )
            self._settings = Settings(self.spec, self._reader)
            return self._settings

        return Queries(self.where, self.spec, self._settings, refined)

    @cached_property
    def _settings(self) -> Settings:
        return Settings(self.spec, self._reader)

    @cached_property
    def _reader(self) -> PointReader:
        self._check()
        return PointReader(self._union, self._is_committed, read_refinements(self._parts[0]))

    def _of_neighbours(self, found: CurveBounds, mechanism: str | Pair, noise: Mapping[str, Any]) -> CurveBounds:
        return replace(found, adjacency=self.neighbours(mechanism, **noise))

    def _states(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> StateAt:
        """Return what reads the kept states of a setting."""
        equal = self.queries.setting(mechanism, noise).equal
        states = None if equal is None else equal.states
        return (lambda _: None) if states is None else states

    def _pair(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Pair:
        return self.queries.setting(mechanism, noise).cell.pair

    def _one_pair(self, mechanism: str | Pair, noise: Mapping[str, Any]) -> Pair:
        pair = self._pair(mechanism, noise).alone
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
            found, _ = self.queries.delta(
                mechanism,
                noise,
                compositions=r,
                epsilon=epsilon,
                exp_epsilon=None,
                direction="each",
                refine=refine and state_at(r) is None,
            )
            return found

        return delta_at


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


def _damaged(where: str, error: Exception) -> StoreDamagedError:
    if isinstance(error, StoreDamagedError):
        return error
    text = " ".join(str(error).split())[:200]
    return StoreDamagedError(f"{where}: expected readable bounds, got: {text}: run the study again with --check")
