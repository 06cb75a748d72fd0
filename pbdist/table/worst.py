"""Tables of the worst of several pairs, from those of each."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pbdist.types import BoolArray, FloatArray

if TYPE_CHECKING:
    from pbdist.table.delta import BoundsTable
    from pbdist.table.epsilon import EpsilonTable


def worst_table(found: Sequence[tuple["BoundsTable", bool]], *, together: bool) -> "BoundsTable":
    """Bound the worst of several pairs: in all rounds the same one is followed, so that δ is the largest of theirs.

    Each table comes with whether its pair is attained.

    The largest of upper bounds is one. Lower bounds of pairs that are attained alone are lower bounds of δ. Where the
    bounds of the pair with the largest upper one meet within the tolerance, so do the largest of each kind, up to what
    is not attained.
    """
    tables = [table for table, _ in found]
    first = tables[0]
    attained = [table for table, there in found if there]
    return replace(
        first,
        loss_width=min(table.loss_width for table in tables),
        half_width=None,
        delta_lower=_largest([table.delta_lower for table in attained], first.delta_lower, 0.0),
        delta_upper=np.max([table.delta_upper for table in tables], axis=0),
        log_delta_lower=_largest([table.log_delta_lower for table in attained], first.log_delta_lower, -np.inf),
        log_delta_upper=np.max([table.log_delta_upper for table in tables], axis=0),
        states={},
        within=_within(tables, together=together),
    )


def _within(tables: Sequence["BoundsTable"], *, together: bool) -> BoolArray | None:
    """Return where the pair with the largest upper bound is within the tolerance; None where none is aimed at.

    A table without it is of pairs that reveal nothing.
    """
    aiming = [table for table in tables if table.within is not None]
    if not aiming:
        return None
    upper = np.array([table.log_delta_upper for table in aiming])
    if together:
        upper = np.broadcast_to(upper.max(axis=1, keepdims=True), upper.shape)
    met = np.array([table.within for table in aiming])
    return np.asarray(np.all(met | (upper <= np.where(met, upper, -np.inf).max(axis=0)), axis=0))


def worst_epsilon_table(found: Sequence[tuple["EpsilonTable", bool]]) -> "EpsilonTable":
    """Bound ε of the worst of several pairs: the largest of theirs; from below that of the pairs that are attained."""
    tables = [table for table, _ in found]
    first = tables[0]
    attained = [table.lower for table, there in found if there]
    return replace(
        first,
        lower=_largest(attained, first.lower, 0.0),
        upper=np.max([table.upper for table in tables], axis=0),
        computed_lower=np.max(
            [table.lower if table.computed_lower is None else table.computed_lower for table in tables], axis=0
        ),
    )


def _largest(found: Sequence[FloatArray], like: FloatArray, least: float) -> FloatArray:
    """Return the elementwise maximum; `least` everywhere where there is nothing."""
    return np.asarray(np.max(found, axis=0)) if found else np.full_like(like, least)
