"""Bounds for sizing from a store: what its table says, else points that are computed and added to it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pbdist.errors import InvalidInputError, OffGridError, PrecisionError, StoreMismatchError
from pbdist.mechanisms import NoisyCount, Pair, RandomizedResponse, Reversed
from pbdist.query.study import Study, open_study
from pbdist.sizing.goal import NOTHING_KNOWN, Bracket, Goal, Source
from pbdist.store import Place

__all__ = ["StoredSource", "stored_counts", "stored_scales", "study_of"]


def study_of(store: Study | str | Path | Place) -> Study:
    """Return a study, opened if it is not yet."""
    return store if isinstance(store, Study) else open_study(store)


class StoredSource:
    """Bounds of a study at a goal; where they say too little, such as are computed.

    Attributes
    ----------
    evaluations : int
        How often bounds were computed, added to the store or not.

    Notes
    -----
    First the study is asked, which answers by equality and by proved orders alone (`Study.delta`). What it cannot tell
    is computed as the study does and added to its store, so that the next time it can; a store that cannot be added to
    loses nothing but that. Bounds narrower than the study's own are computed and not kept.
    """

    def __init__(self, study: Study, goal: Goal, source: Source) -> None:
        self.evaluations = 0
        self._study, self._goal, self._source = study, goal, source

    def __call__(self, pair: Pair, tolerance: float) -> Bracket:
        """Bound δ of a pair with about that relative width, or as well as settles the goal."""
        try:
            found = self._asked(pair, refine=False)
        except OffGridError:
            found = NOTHING_KNOWN
        if self._enough(found, tolerance):
            return found
        try:
            refined = self._asked(pair, refine=True)
            self.evaluations += 1
            found = found.narrowed(refined)
        except (OffGridError, StoreMismatchError, InvalidInputError, PrecisionError, PermissionError):
            # Not to be added to: an old format, held by a run, or read only.
            pass
        if self._enough(found, tolerance):
            return found
        self.evaluations += 1
        return found.narrowed(self._source(pair, tolerance))

    def _asked(self, pair: Pair, *, refine: bool) -> Bracket:
        # Wide answers are told of the size, where they decide.
        answer, _ = self._study.queries.delta(
            pair,
            {},
            compositions=self._goal.compositions,
            epsilon=self._goal.epsilon,
            exp_epsilon=None,
            direction="both",
            refine=refine,
        )
        return Bracket(*(float(value) for value in (answer.lower, answer.upper, answer.log_lower, answer.log_upper)))

    def _enough(self, found: Bracket, tolerance: float) -> bool:
        settled = found.upper <= self._goal.delta or found.lower > self._goal.delta
        return settled or found.log_upper - found.log_lower <= tolerance


def stored_scales(study: Study, make: Callable[[float], Pair]) -> list[float]:
    """Return the scales, in order, whose mechanisms the study has."""
    found = set()
    for cell in study.spec.cells:
        for scale in _amounts(cell.pair):
            if _made(make, scale) == cell.pair:
                found.add(scale)
                break
    return sorted(found)


def stored_counts(study: Study, make: Callable[[float, float], Pair]) -> list[tuple[float, float]]:
    """Return the means and scales whose mechanisms the study has."""
    found = set()
    for cell in study.spec.cells:
        for mean, scale in _means_and_scales(cell.pair):
            if _made(make, mean, scale) == cell.pair:
                found.add((mean, scale))
                break
    return sorted(found)


def _amounts(pair: Pair) -> Iterator[float]:
    """Yield the numbers that may be the scale of a pair."""
    for factor in pair.factors:
        one: Any = factor.pair if isinstance(factor, Reversed) else factor
        if isinstance(one, RandomizedResponse):
            yield 1.0 - one.p
        elif isinstance(one, NoisyCount):
            yield one.noise.scale
        else:
            yield from (getattr(one, name) for name in ("scale", "mean") if hasattr(one, name))


def _means_and_scales(pair: Pair) -> Iterator[tuple[float, float]]:
    for factor in pair.factors:
        one = factor.pair if isinstance(factor, Reversed) else factor
        if isinstance(one, NoisyCount):
            yield one.mean, one.noise.scale


def _made(make: Callable[..., Pair], *amounts: float) -> Pair | None:
    try:
        return make(*amounts)
    except InvalidInputError:
        return None
