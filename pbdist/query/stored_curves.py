"""Trade-off curves, total variation and Rényi divergences of one setting, from what a store holds."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pbdist.arguments import check_direction, checked_compositions
from pbdist.buckets.state import BucketState
from pbdist.curves.renyi import checked_orders, renyi_table, state_renyi_bounds
from pbdist.curves.tradeoff import SupportCurve, state_tradeoff, wholes_of
from pbdist.curves.tradeoff_table import checked_errors, variation_of
from pbdist.errors import InvalidInputError, OffGridError, StoreFormatError
from pbdist.mechanisms import Pair
from pbdist.query.answers import between, widest_answer
from pbdist.query.convex_delta import StateAt
from pbdist.query.settings import given_array
from pbdist.results import CurveBounds, DeltaBounds, frozen, relative_width
from pbdist.store import StoredStudy, read_state
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import BoolArray, Direction, FloatArray

#: δ of both directions, shape (2, E), after r compositions at some ε.
DeltaAt = Callable[[int, FloatArray], DeltaBounds]
#: Lower and upper bounds of both directions, shape (2, n), after r compositions at some points of a curve.
CurveAt = Callable[[int, FloatArray], tuple[FloatArray, FloatArray]]


def tradeoff_curve(delta_at: DeltaAt, state_at: StateAt, pair: Pair, epsilon: FloatArray) -> CurveAt:
    """Return the type II error by the bounds on δ at some ε, and by the saved state where there is one."""

    def bounds(r: int, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        known, wholes = delta_at(r, epsilon), wholes_of([(pair, 1)], r)
        curves = [SupportCurve.from_deltas(epsilon, test, known.lower, known.upper, wholes) for test in Direction]
        lower = np.stack([curve.lower_bound(alpha)[0] for curve in curves])
        upper = np.stack([curve.upper_bound(alpha)[0] for curve in curves])
        state = state_at(r)
        if state is not None:
            below, above = zip(*(state_tradeoff(state, test, alpha, wholes) for test in Direction), strict=True)
            lower, upper = np.maximum(lower, np.stack(below)), np.minimum(upper, np.stack(above))
        return lower, upper

    return bounds


def variation_curve(delta_at: DeltaAt, pair: Pair) -> CurveAt:
    """Return the total variation distance by the bounds on δ at ε = 0."""

    def bounds(r: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        known = delta_at(r, np.zeros(1))
        lower, upper = variation_of(known.lower[:, 0], known.upper[:, 0], wholes_of([(pair, 1)], r))
        return lower[:, None] + 0.0 * points, upper[:, None] + 0.0 * points

    return bounds


def renyi_curve(pair: Pair, tolerance: float) -> CurveAt:
    """Return the Rényi divergence by a computation of its own; a tolerance that cannot be reached is an error."""

    def bounds(r: int, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = renyi_table([(pair, 1)], compositions=r, order=orders, tolerance=tolerance)
        return table.lower[:, 0], table.upper[:, 0]

    return bounds


def state_renyi_curve(rows: Sequence[tuple[StoredStudy, int]], pair: Pair) -> CurveAt:
    """Return the Rényi divergence by saved bucket lists, of cells given by part and row."""

    def bounds(r: int, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
        sides = [Direction.A_TO_B] if pair.symmetric else list(Direction)
        found = [state_renyi_bounds(_bucket_state(rows, side, r), orders) for side in sides]
        lower, upper = (np.broadcast_to(np.stack(part), (2, orders.size)) for part in zip(*found, strict=True))
        return lower, upper

    return bounds


def _bucket_state(rows: Sequence[tuple[StoredStudy, int]], direction: Direction, compositions: int) -> BucketState:
    for stored, row in rows:
        try:
            state = read_state(stored, row, direction, compositions)
        except (FileNotFoundError, StoreFormatError):
            continue
        if isinstance(state, BucketState):
            return state
    raise OffGridError(
        f"compositions: expected a number of compositions with a saved bucket list, got {compositions}: a study with"
        " method: buckets and keep_states: true saves those of its own numbers"
    )


#: What checks the argument beside r.
_CHECKS: dict[str, Callable[[Any], FloatArray]] = {"type_one_error": checked_errors, "order": checked_orders}


def curve_bounds(curve: CurveAt, direction: str, compositions: Any, **points: Any) -> CurveBounds:
    """Return a curve at some r, and at the points of one more argument if there is one, in the shape of both."""
    check_direction(direction)
    given = {name: given_array(name, value) for name, value in {"compositions": compositions, **points}.items()}
    name = next(iter(points), "compositions")
    try:
        arrays = dict(zip(given, np.broadcast_arrays(*given.values()), strict=True))
    except ValueError as error:
        raise InvalidInputError(f"{name}: its shape does not broadcast with that of compositions") from error
    shape = arrays[name].shape
    rounds = checked_compositions(arrays["compositions"].reshape(-1))
    values = _CHECKS[name](arrays[name].reshape(-1)) if points else np.zeros(rounds.size)
    lower, upper = (np.empty((len(Direction), values.size)) for _ in range(2))
    for r in np.unique(rounds).tolist():
        here = rounds == r
        lower[:, here], upper[:, here] = curve(r, values[here])
    if direction == "both":
        # The smaller error is the worse one.
        worse = np.min if name == "type_one_error" else np.max
        lower, upper = worse(lower, axis=0), worse(upper, axis=0)
        found = lower.reshape(shape), upper.reshape(shape)
    else:
        found = lower.reshape(2, *shape), upper.reshape(2, *shape)
    return CurveBounds(*map(frozen, found), question=dict(sorted(arrays.items())))


def curve_within(found: CurveBounds, study: StudySpec, pair: Pair) -> tuple[BoolArray | None, str | None]:
    """Return which bounds are within the study's tolerance, if it has one, and a sentence on those that are not.

    Of type II errors the difference counts, of the total variation the ratio, as in `pbdist.bounds.curves`.
    """
    if study.required_tolerance is None:
        return None, None
    errors = "type_one_error" in found.question
    if errors:
        width = found.upper - found.lower
        within = width <= study.required_tolerance
    else:
        width = relative_width(found.lower, found.upper)
        with np.errstate(divide="ignore"):
            within = (width <= study.required_tolerance) | (np.log(found.upper) <= log_floor(study))

    def describe(index: tuple[int, ...]) -> str:
        at = index[len(index) - found.question["compositions"].ndim :]
        point = f", α = {float(found.question['type_one_error'][at]):g}" if errors else ""
        name = "the type II error" if errors else "the total variation"
        known = between(name, float(found.lower[index]), float(found.upper[index]))
        return (
            f"{pair}, r = {int(found.question['compositions'][at])}{point}: {known}: this r, or ε = 0, is not stored"
            " (refine=True computes it), or the ε of the study lie too far apart"
        )

    ratio = "total_variation_upper / total_variation_lower - 1"
    ratio = "type_two_error_upper - type_two_error_lower" if errors else ratio
    within = np.asarray(within)
    return frozen(within), widest_answer(~within, np.asarray(width), study, ratio, describe)
