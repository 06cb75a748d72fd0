"""What a plot has to say in words: what is missing, and how wide brackets are that are too thin to be seen."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pbdist.errors import OffGridError
from pbdist.query.neighbours import neighbours_words
from pbdist.results import log_relative_width
from pbdist.rounding import rounded_up
from pbdist.types import Adjacency, BoolArray, FloatArray

NO_LOWER = "no lower bound is known: no change is declared to attain the pairs that dominate it"
#: What names the curves of a store.
_NAMES = ("study", "mechanism")
_REASONS = {
    "not computed": "not computed",
    "failed": "missing: they could not be computed",
    "damaged": "missing: damaged files",
}


def gap_notes(missing: Iterable[tuple[BoolArray, str]]) -> list[str]:
    """Return how many points have no bounds, and why; `missing` has for each curve where, and the reason."""
    counts: Counter[str] = Counter()
    total = 0
    for where, reason in missing:
        total += where.size
        count = int(np.count_nonzero(where))
        if count:
            counts[reason or "not computed"] += count
    return [
        f"{count:,} of {total:,} points {'is' if count == 1 else 'are'} {_REASONS.get(reason, reason)}"
        for reason, count in counts.items()
    ]


def neighbours_notes(found: Iterable[tuple[Mapping[str, Any], Adjacency]]) -> list[str]:
    """Return for which neighbours curves are, and whether they compare; nothing where none says it.

    `found` has for each curve the parameters that name it, and the relation.
    """
    told = [(" ".join(str(one[name]) for name in _NAMES if name in one), relation) for one, relation in found]
    return [neighbours_words(told)] if any(relation.definite for _, relation in told) else []


def refuse_nothing(missing: Sequence[tuple[BoolArray, str]], what: str) -> None:
    """Refuse a picture without a single bound.

    Raises
    ------
    OffGridError
        All points are missing.
    """
    if all(where.all() for where, _ in missing):
        raise OffGridError(f"{what}: expected bounds to draw, got none: {'; '.join(gap_notes(missing)) or 'no points'}")


def width_note(log_lower: Iterable[FloatArray], log_upper: Iterable[FloatArray], lowest: float = -np.inf) -> list[str]:
    """Return how wide brackets are: upper / lower - 1, rounded up; nothing where none has a lower bound.

    Those with an upper bound below `lowest`, a natural logarithm, do not count.
    """
    lower, upper = np.concatenate([*log_lower, np.empty(0)]), np.concatenate([*log_upper, np.empty(0)])
    known = ~np.isnan(lower) & (upper >= lowest)
    if not known.any():
        return []
    width = log_relative_width(lower[known], upper[known])
    endless = int(np.isinf(width).sum())
    finite = width[np.isfinite(width)]
    told = []
    if finite.size:
        told.append(f"upper / lower - 1 is at most {rounded_up(float(finite.max()), 2)} at the points drawn")
    if endless:
        told.append(f"the lower bound is 0 at {endless:,} of {known.sum():,} points")
    return ["; ".join(told)]


def zero_note(log_upper: Iterable[FloatArray]) -> list[str]:
    """Return at how many points δ is 0, which no axis of powers of ten has."""
    upper = np.concatenate([*log_upper, np.empty(0)])
    count = int(np.isneginf(upper).sum())
    return [f"δ is 0 at {count:,} of {upper.size:,} points, which no axis of powers of ten has"] if count else []
