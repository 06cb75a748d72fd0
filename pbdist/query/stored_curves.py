"""Trade-off curves, total variation and Rényi divergences from what a store holds."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbdist.arguments import check_direction, checked_compositions
from pbdist.buckets.state import BucketState
from pbdist.curves.renyi import checked_orders, pair_state_renyi_bounds, renyi_table, state_renyi_bounds
from pbdist.curves.tradeoff import SupportCurve, state_tradeoff, wholes_of
from pbdist.curves.tradeoff_table import checked_errors, variation_of
from pbdist.errors import InvalidInputError, OffGridError, StoreFormatError
from pbdist.mechanisms import Pair
from pbdist.query.answers import between, frozen, missed_by
from pbdist.query.convex_delta import StateAt
from pbdist.query.lookup import given_array
from pbdist.results import CurveBounds, DeltaBounds, relative_width
from pbdist.store import StoredStudy, read_state
from pbdist.study import StudySpec
from pbdist.study.spec import log_floor
from pbdist.types import Direction, FloatArray

#: δ of both directions, shape (2, E), after r compositions at some ε.
DeltaAt = Callable[[int, FloatArray], DeltaBounds]


def stored_tradeoff(
    delta_at: DeltaAt,
    state_at: StateAt,
    pair: Pair,
    epsilon: FloatArray,
    *,
    compositions: Any,
    type_one_error: Any,
    direction: str,
    study: StudySpec,
) -> tuple[CurveBounds, str | None]:
    """Bound the type II error as `Study.tradeoff`; with a sentence on those that miss the study's tolerance, if any do.

    They come from the bounds on δ at ε = 0 and at the ε of the study, and from the kept state, where there is one.
    """

    def bounds(r: int, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        known, wholes = delta_at(r, epsilon), wholes_of([(pair, 1)], r)
        curves = [SupportCurve.from_deltas(epsilon, test, known.lower, known.upper, wholes) for test in Direction]
        lower, upper = (
            np.stack([side(curve, alpha)[0] for curve in curves])
            for side in (SupportCurve.lower_bound, SupportCurve.upper_bound)
        )
        state = state_at(r)
        if state is not None:
            below, above = zip(*(state_tradeoff(state, test, alpha, wholes) for test in Direction), strict=True)
            lower, upper = np.maximum(lower, np.stack(below)), np.minimum(upper, np.stack(above))
        return lower, upper

    axis = _Axis("type_one_error", type_one_error, checked_errors, np.min)
    return _judged(_answered(bounds, compositions, axis, direction), study, axis, pair)


def stored_total_variation(
    delta_at: DeltaAt, pair: Pair, *, compositions: Any, direction: str, study: StudySpec
) -> tuple[CurveBounds, str | None]:
    """Bound the total variation distance as `Study.total_variation`, by the bounds on δ at ε = 0.

    With a sentence on bounds that miss the study's tolerance, if any do.
    """

    def bounds(r: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        known = delta_at(r, np.zeros(1))
        lower, upper = variation_of(known.lower[:, 0], known.upper[:, 0], wholes_of([(pair, 1)], r))
        return lower[:, None] + 0.0 * points, upper[:, None] + 0.0 * points

    axis = _Axis("compositions", 0.0, lambda zeros: zeros, np.max)
    return _judged(_answered(bounds, compositions, axis, direction), study, axis, pair)


def pair_renyi(pair: Pair, *, compositions: Any, order: Any, tolerance: float, direction: str) -> CurveBounds:
    """Bound the Rényi divergence of a pair, by a computation of its own; as `Study.renyi`."""

    def bounds(r: int, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
        table = renyi_table([(pair, 1)], compositions=r, order=orders, tolerance=tolerance)
        return table.lower[:, 0], table.upper[:, 0]

    found = _answered(bounds, compositions, _Axis("order", order, checked_orders, np.max), direction)
    # A tolerance that cannot be reached is an error.
    return replace(found, within_tolerance=frozen(np.ones(found.lower.shape, dtype=bool)))


def state_renyi(
    kept: list[tuple[StoredStudy, int]],
    state_at: StateAt,
    pair: Pair,
    *,
    compositions: Any,
    order: Any,
    direction: str,
) -> CurveBounds:
    """Bound the Rényi divergence by kept states, as `Study.renyi` with ``from_states``; `kept` lists parts and rows.

    Raises
    ------
    OffGridError
        No state of that r is kept.
    StoreDamagedError
        One was, but its files have changed.
    """

    def bounds(r: int, orders: FloatArray) -> tuple[FloatArray, FloatArray]:
        state = state_at(r)
        if state is not None:
            wholes = wholes_of([(pair, 1)], r)
            found = [pair_state_renyi_bounds(state, orders, side, wholes) for side in Direction]
            return np.stack([low for low, _ in found]), np.stack([high for _, high in found])
        sides = [Direction.A_TO_B] if pair.symmetric else list(Direction)
        found = [state_renyi_bounds(_kept_state(kept, side, r), orders) for side in sides]
        lower, upper = (np.stack(part) for part in zip(*found, strict=True))
        return np.broadcast_to(lower, (2, orders.size)), np.broadcast_to(upper, (2, orders.size))

    return _answered(bounds, compositions, _Axis("order", order, checked_orders, np.max), direction)


def _kept_state(kept: list[tuple[StoredStudy, int]], direction: Direction, compositions: int) -> BucketState:
    for stored, row in kept:
        try:
            state = read_state(stored, row, direction, compositions)
        except (FileNotFoundError, StoreFormatError):
            continue
        if isinstance(state, BucketState):
            return state
    raise OffGridError(
        f"compositions: expected a number of compositions whose state is kept, got {compositions}: a study with"
        " keep_states: true keeps those of its own"
    )


@dataclass(frozen=True)
class _Axis:
    """The argument beside r: its name, its values, what checks them, and what picks the worse of the two directions."""

    name: str
    points: Any
    checked: Callable[[Any], FloatArray]
    worse: Callable[..., Any]


def _answered(
    bounds: Callable[[int, FloatArray], tuple[FloatArray, FloatArray]], compositions: Any, axis: _Axis, direction: str
) -> CurveBounds:
    """Call `bounds` once for each r; return the answers in the shape of the arguments."""
    check_direction(direction)
    rounds_given, points_given = given_array("compositions", compositions), given_array(axis.name, axis.points)
    try:
        given = np.broadcast_arrays(rounds_given, points_given)
    except ValueError as error:
        raise InvalidInputError(
            f"{axis.name}: expected a shape that broadcasts with compositions, got others"
        ) from error
    shape = given[0].shape
    rounds, values = checked_compositions(given[0].reshape(-1)), axis.checked(given[1].reshape(-1))
    lower, upper = (np.empty((len(Direction), values.size)) for _ in range(2))
    for r in np.unique(rounds).tolist():
        here = rounds == r
        lower[:, here], upper[:, here] = bounds(r, values[here])
    if direction == "both":
        lower, upper = (axis.worse(side, axis=0).reshape(shape) for side in (lower, upper))
    else:
        lower, upper = (side.reshape((len(Direction), *shape)) for side in (lower, upper))
    asked = {axis.name: given[1], "compositions": given[0]}
    return CurveBounds(frozen(lower), frozen(upper), asked=dict(sorted(asked.items())))


def _judged(found: CurveBounds, study: StudySpec, axis: _Axis, pair: Pair) -> tuple[CurveBounds, str | None]:
    """Return bounds with whether they are within the study's tolerance, and a sentence on those that miss it.

    Of errors the difference counts, of the total variation the ratio, as in `pbdist.bounds.curves`.
    """
    if study.required_tolerance is None:
        return found, None
    errors = axis.name == "type_one_error"
    width = found.upper - found.lower if errors else relative_width(found.lower, found.upper)
    within = width <= study.required_tolerance
    if not errors:
        with np.errstate(divide="ignore"):
            within |= np.log(found.upper) <= log_floor(study)
    rounds, points = found.asked["compositions"], found.asked[axis.name]
    name = "the type II error" if errors else "the total variation"

    def worst(index: tuple[int, ...]) -> str:
        at = index[len(index) - rounds.ndim :]
        point = f", α = {float(points[at]):g}" if errors else ""
        known = between(name, float(found.lower[index]), float(found.upper[index]))
        return (
            f"{pair}, r = {int(rounds[at])}{point}: {known}: this r, or ε = 0, is not stored (refine=True computes it),"
            " or the ε of the study lie too far apart"
        )

    what = "total_variation_upper / total_variation_lower - 1"
    what = "type_two_error_upper - type_two_error_lower" if errors else what
    missed = missed_by(np.asarray(~within), width, study, what, worst)
    return replace(found, within_tolerance=frozen(np.asarray(within))), missed
