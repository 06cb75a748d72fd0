"""Bounds on δ and on ε of one mechanism as xarray Datasets, without a store."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.arguments import (
    DEFAULT_TOLERANCE,
    Neighbours,
    check_choice,
    check_direction,
    check_flag,
    checked_neighbours,
    components_of,
)
from pbdist.mechanisms import Alternatives, Pair
from pbdist.pld import EpsilonTable
from pbdist.results import ENCLOSED, NO_LOWER, no_epsilon_meets, relative_width, warn_or_raise
from pbdist.rounding import brief, rounded_down, rounded_up
from pbdist.table import METHODS, bounds_table, epsilon_table_of
from pbdist.types import COMPOSITIONS, DELTA, DIRECTION, EPSILON, BoolArray, Direction, FloatArray, IntArray, TextArray

if TYPE_CHECKING:
    import xarray as xr

WITHIN, _WITHIN_NAME = "within_tolerance", "whether the bounds meet within the tolerance"
WHY, _WHY_NAME = "why_wide", "why they do not"
_LONG_NAMES = {
    "delta_lower": "certified lower bound on δ",
    "delta_upper": "certified upper bound on δ",
    "log_delta_lower": "natural logarithm of the certified lower bound on δ",
    "log_delta_upper": "natural logarithm of the certified upper bound on δ",
}


def privacy_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    method: str = "tight",
    tolerance: float | None = None,
    buckets: int | None = None,
    factor: float | None = None,
    direction: str = "both",
    floor: float | None = None,
    strict: bool = False,
    adjacency: str | None = None,
) -> "xr.Dataset":
    """Bound δ(ε) after r compositions from both sides.

    Parameters
    ----------
    mechanism : Pair or sequence of (Pair, int)
        One worst-case pair, or several with how often each occurs, composed together.
    compositions : int or array_like of int
        Numbers of compositions r, at least 1; for a sequence, of repeats of the whole sequence.
    epsilon : float or array_like of float
        ε >= 0, nats.
    method : {"tight", "buckets"}, optional
        ``"tight"``: a dominating pair on a grid from above, exact masses from below, both composed by Fourier
        transforms with certified rounding; see ``docs/pld.md``. ``"buckets"``: privacy buckets (Meiser & Mohammadi
        2018) with exact masses, the chord's upper bound and the lower bound by post-processing.
    tolerance : float, optional
        With ``"tight"``: the largest ``delta_upper / delta_lower - 1`` at any (r, ε), 1e-3 by default: of the larger of
        the two directions, or of each with ``direction="each"``. Number and width of the buckets follow from it.
    buckets : int, optional
        Number of finite loss buckets, even. With ``"buckets"``: 100,000 by default, rounded up to a multiple of 4,
        which the method needs. With ``"tight"`` it takes the place of the tolerance.
    factor : float, optional
        Factor f > 1 between the likelihood ratios of neighbouring buckets of one round. With ``"buckets"`` by default
        chosen from the pair and the largest r; with ``"tight"`` it takes the place of the tolerance. The choice moves
        the bounds, never across the truth.
    direction : {"both", "each"}, optional
        ``"both"``: δ as in approximate differential privacy, the larger of the two directions. ``"each"``: both, along
        a leading dimension ``direction``: "A||B" is the divergence of A from B, "B||A" that of B from A.
    floor : float, optional
        With ``"tight"``: where the upper bound on δ is at most this, the tolerance need not be met, and no closer bound
        is sought; 1e-40 by default, which is below 2^-128. 0 asks for the tolerance at any δ, and takes longer.
    strict : bool, optional
        Whether a missed tolerance is an error. By default the bounds are returned, with a warning.
    adjacency : {"add-or-remove", "add-or-remove-group", "replace-one", "zero-out"}, optional
        The neighbours assumed by the parameters of the mechanism, such as its sensitivity. A pair with neighbours of
        its own, such as `SubsampledGaussian`, needs none, and allows no others.

    Returns
    -------
    xarray.Dataset
        ``delta_lower <= δ <= delta_upper`` and their natural logarithms ``log_delta_lower``, ``log_delta_upper`` over
        (``compositions``, ``epsilon``), rounded outwards. A bound of 0 has the logarithm -inf. No upper bound is above
        1, and equal distributions have δ = 0, exactly. If there is a tolerance, ``within_tolerance`` is true at points
        where it is met, where the upper bound is at most `floor`, and where no better bound is possible, as at the
        largest loss: δ is 0 there, but exceeds the upper bound at an ε lower by a part in 10^6. The attribute
        ``adjacency`` names the neighbours of the bounds: `pbdist.mechanisms.Adjacency`.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; before any computation.
    PrecisionError
        If `strict`, and the tolerance is missed; the text names the reached precision and the remedy.

    Warns
    -----
    PrecisionWarning
        If the tolerance is missed; the text names the worst point. The bounds hold.

    Notes
    -----
    δ is that of the product distributions, which is δ after r compositions for a worst-case pair (Meiser &
    Mohammadi 2018, Theorem 2 and Corollary 1). Its lower bound is the larger of the two directions' lower bounds, where
    Theorem 2 takes the smaller: each is a lower bound.

    With ``"tight"``, rounds of untruncated Gaussian noise alone have a closed form, unless `buckets` or `factor` is
    given; `loss_width` is then that of a grid with about the same bounds.

    Examples
    --------
    >>> from pbdist import Gaussian, privacy_bounds
    >>> bounds = privacy_bounds(Gaussian(20.0), compositions=[1, 64], epsilon=[0.5, 1.0])
    >>> bool((bounds.delta_upper <= bounds.delta_lower * 1.001).all())
    True
    """
    check_choice("method", method, METHODS)
    check_direction(direction)
    check_flag("strict", strict)
    components = components_of(mechanism)
    neighbours = checked_neighbours(components, adjacency)
    table = bounds_table(
        components,
        compositions=compositions,
        epsilon=epsilon,
        method=method,
        tolerance=tolerance,
        buckets=buckets,
        factor=factor,
        joint_directions=direction == "both",
        floor=floor,
        strict=strict,
    )
    variables = {name: Variable(getattr(table, name), _LONG_NAMES[name]) for name in _LONG_NAMES}
    if method == "tight" and buckets is None and factor is None:
        within = np.ones(table.log_delta_lower.shape, bool) if table.within is None else table.within
        variables[WITHIN] = Variable(within, _WITHIN_NAME, "", np.all)
        pairs = [pair for pair, _ in components]
        closest = within if table.closest is None else table.closest
        unknown = (table.delta_lower == 0.0) & (table.delta_upper >= 1.0)
        variables[WHY] = Variable(why_wide(pairs, within, closest, unknown), _WHY_NAME, "", _some_text)
    found = bounds_dataset(
        variables,
        table.compositions,
        Axis(EPSILON, table.epsilon, "privacy loss ε in nats"),
        direction=direction,
        neighbours=neighbours,
        attributes={
            "method": method,
            "factor": table.factor,
            "loss_width": table.loss_width,
            **({} if table.half_width is None else {"buckets": 2 * table.half_width}),
        },
    )
    values = {name: each.values for name, each in found.variables.items()}
    if WITHIN in values:
        bounds = [values[name] for name in _LONG_NAMES]
        aimed = DEFAULT_TOLERANCE if tolerance is None else float(tolerance)
        points = table.compositions, table.epsilon
        missed = delta_missed(points, bounds, values[WITHIN], values[WHY], aimed)
        warn_or_raise(missed, strict=strict)
    return found


def epsilon_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]],
    *,
    compositions: Any,
    delta: Any,
    tolerance: float | None = None,
    direction: str = "both",
    strict: bool = False,
    adjacency: str | None = None,
) -> "xr.Dataset":
    """Bound ε(δ) after r compositions from both sides: the smallest ε with which (ε, δ) is met.

    Parameters
    ----------
    mechanism : Pair or sequence of (Pair, int)
        One worst-case pair, or several with how often each occurs, composed together.
    compositions : int or array_like of int
        Numbers of compositions r, at least 1; for a sequence, of repeats of the whole sequence.
    delta : float or array_like of float
        δ, from 0 to below 1; 0 is pure differential privacy.
    tolerance : float, optional
        The ``epsilon_upper / epsilon_lower - 1`` to aim at, 1e-3 by default. Where it is missed the bounds hold all the
        same, with a warning.
    direction : {"both", "each"}, optional
        ``"both"``: the ε that meets δ in both directions, the larger of the two. ``"each"``: both, along a leading
        dimension ``direction``.
    strict : bool, optional
        Whether a missed tolerance is an error.
    adjacency : {"add-or-remove", "add-or-remove-group", "replace-one", "zero-out"}, optional
        As for `privacy_bounds`.

    Returns
    -------
    xarray.Dataset
        ``epsilon_lower <= ε <= epsilon_upper``, nats, over (``compositions``, ``delta``). At ``epsilon_upper`` the
        upper bound on δ is at most the given δ; just below ``epsilon_lower`` no proof can succeed, because the lower
        bound exceeds it there. ``epsilon_upper`` is infinite where no ε is known to meet δ, as for a δ below the mass
        of the events that reveal the input. ``within_tolerance`` shows for each point whether the tolerance is met. A δ
        that provably no ε up to 1e9 meets is not a miss. The attribute ``adjacency`` names the neighbours of the
        bounds.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; before any computation.
    PrecisionError
        If `strict`, and the tolerance is missed.

    Warns
    -----
    PrecisionWarning
        If the tolerance is missed; the text names the worst point. The bounds hold.

    Examples
    --------
    >>> from pbdist import Gaussian, epsilon_bounds
    >>> bounds = epsilon_bounds(Gaussian(20.0), compositions=64, delta=1e-6)
    >>> bool((bounds.epsilon_upper <= 1.002 * bounds.epsilon_lower).all())
    True
    """
    check_direction(direction)
    check_flag("strict", strict)
    components = components_of(mechanism)
    neighbours = checked_neighbours(components, adjacency)
    found = epsilon_table_of(
        components, compositions=compositions, delta=delta, tolerance=tolerance, joint_directions=direction == "both"
    )
    aimed = DEFAULT_TOLERANCE if tolerance is None else float(tolerance)
    within, why, missed = epsilon_within(found, aimed, [pair for pair, _ in components])
    warn_or_raise(missed, strict=strict)
    return bounds_dataset(
        {
            "epsilon_lower": Variable(found.lower, "certified lower bound on ε in nats"),
            "epsilon_upper": Variable(found.upper, "certified upper bound on ε in nats"),
            WITHIN: Variable(within, _WITHIN_NAME, worse=np.all),
            WHY: Variable(why, _WHY_NAME, worse=_some_text),
        },
        found.compositions,
        Axis(DELTA, found.delta, "δ"),
        direction=direction,
        neighbours=neighbours,
        attributes={"method": "tight"},
    )


def _some_text(values: Any, axis: int) -> Any:
    """Return of two directions' texts the first that is not empty."""
    first, second = np.moveaxis(values, axis, 0)
    return np.where(first == "", second, first)


@dataclass(frozen=True, eq=False)
class Variable:
    """One array over both directions, all r and, if there is one, the last axis."""

    #: First axis: A||B, B||A. Shape (2, R, K) or (2, R).
    values: Any
    long_name: str
    units: str = "1"
    #: Reduces the directions to the worse of the two, along ``axis``.
    worse: Callable[..., Any] = np.max


@dataclass(frozen=True, eq=False)
class Axis:
    """The last dimension: ε, δ, the order or the type I error."""

    name: str
    values: Any
    long_name: str


def bounds_dataset(
    variables: Mapping[str, Variable],
    compositions: IntArray,
    axis: Axis | None,
    *,
    direction: str,
    neighbours: Neighbours,
    attributes: Mapping[str, Any],
    directions_of: str = "divergence",
) -> "xr.Dataset":
    """Return the Dataset of `variables`, over the directions where `direction` is "each".

    Its attribute ``adjacency`` says for which neighbours the bounds are, and that of the directions, ``comment``, which
    of them is a removal, where one is known to be.
    """
    import xarray as xr  # noqa: PLC0415 -- it takes half a second, and no worker needs it
    from xarray.indexes import PandasIndex  # noqa: PLC0415

    from pbdist.bounds.dataset import Bounds  # noqa: PLC0415

    # Of arrays nothing is to be inferred: xarray would import dask to look for its own.
    variable = partial(xr.Variable, fastpath=True)
    rounds = {"long_name": "number of compositions r", "units": "1"}
    coords = {COMPOSITIONS: variable(COMPOSITIONS, compositions, rounds)}
    if axis is not None:
        coords[axis.name] = variable(axis.name, axis.values, {"long_name": axis.long_name, "units": "1"})
    dims: tuple[str, ...] = tuple(coords)
    if direction == "each":
        dims = (DIRECTION, *dims)
        about = {"long_name": f"direction of the {directions_of}"}
        about |= {} if neighbours.directions is None else {"comment": neighbours.directions}
        coords[DIRECTION] = variable(DIRECTION, np.array([item.value for item in Direction]), about)
    arrays = {
        name: variable(
            dims,
            one.values if direction == "each" else one.worse(one.values, axis=0),
            {"long_name": one.long_name} | ({"units": one.units} if one.units else {}),
        )
        for name, one in variables.items()
    }
    indexes = {name: PandasIndex(each.data, name) for name, each in coords.items()}
    attributes = {**attributes, "adjacency": neighbours.adjacency.value}
    # Where xarray has this, nothing is aligned or checked, which would take longer than many a δ.
    direct = getattr(Bounds, "_construct_direct", None)
    if direct is None:
        return Bounds(arrays, coords=xr.Coordinates(coords, indexes), attrs=attributes)
    made: Bounds = direct({**arrays, **coords}, set(coords), attrs=attributes, indexes=indexes)
    return made


#: Reasons for wide bounds of which no property of the mechanism is the cause; and for missing ones.
_NOT_FOUND, _UNKNOWN = "closer bounds were not found", "no bound that is known holds so far out"


def _no_closer(pairs: Iterable[Pair]) -> str:
    """Return why bounds stay apart however closely those of each pair are computed; empty text where they need not."""
    known = list(pairs)
    if not all(pair.attained_by_some for pair in known):
        return NO_LOWER
    several = (pair for pair in known if isinstance(pair, Alternatives))
    return ENCLOSED if any(not there for pair in several for _, there in pair.choices) else ""


def why_wide(pairs: Iterable[Pair], within: BoolArray, closest: BoolArray, unknown: BoolArray) -> TextArray:
    """Return why bounds are wider than the tolerance, of the shape of `within`; empty text where they are not.

    `closest` marks bounds of the pairs that meet the tolerance, `unknown` points without bounds.
    """
    pairs = list(pairs)
    why = np.where(closest, _no_closer(pairs) or _NOT_FOUND, _NOT_FOUND)
    found: TextArray = np.where(within, "", np.where(unknown, _no_closer(pairs) or _UNKNOWN, why)).astype(object)
    return found


def delta_missed(
    points: tuple[IntArray, FloatArray],
    bounds: Sequence[FloatArray],
    within: BoolArray,
    why: TextArray,
    tolerance: float,
) -> str | None:
    """Return in a sentence how many bounds on δ miss the tolerance, and which are the widest; None for none.

    `points` are the compositions and ε; `bounds` the lower and upper bounds on δ and on its logarithm; `why` are the
    reasons of `why_wide`. All but the points have the shape (.., R, E).
    """
    if within.all():
        return None
    lower, upper, log_lower, log_upper = bounds
    with np.errstate(invalid="ignore"):
        gap = np.where(within, -1.0, np.where(log_lower > -np.inf, log_upper - log_lower, np.inf))
    worst = np.unravel_index(int(np.argmax(gap)), gap.shape)
    return (
        f"tolerance: expected delta_upper / delta_lower - 1 <= {brief(tolerance)}, missed at"
        f" {int(np.count_nonzero(~within))} of {within.size} points, most at r = {int(points[0][worst[-2]])},"
        f" ε = {brief(points[1][worst[-1]])}: δ is between"
        f" {rounded_down(lower[worst])} and {rounded_up(upper[worst])}"
        f"{_reason(str(why[worst]))}"
    )


def _reason(why: str) -> str:
    return f"; {why}" if why not in ("", _NOT_FOUND) else ""


def epsilon_within(
    found: EpsilonTable, tolerance: float, pairs: Iterable[Pair]
) -> tuple[BoolArray, TextArray, str | None]:
    """Return where bounds on ε are within the tolerance, why the others are not, and a sentence on the widest of them.

    Both arrays are of shape (2, R, D).
    """
    lower, upper = found.lower, found.upper
    ratio = np.where(no_epsilon_meets(lower, upper), 0.0, relative_width(lower, upper))
    within = np.asarray(ratio <= tolerance)
    computed = lower if found.computed_lower is None else found.computed_lower
    why = why_wide(pairs, within, relative_width(computed, upper) <= tolerance, np.isinf(upper))
    if within.all():
        return within, why, None
    worst = np.unravel_index(int(np.argmax(ratio)), ratio.shape)
    missed = (
        f"tolerance: expected epsilon_upper / epsilon_lower - 1 <= {brief(tolerance)}, got {ratio[worst]:.3g} at"
        f" r = {int(found.compositions[worst[1]])}, δ = {brief(found.delta[worst[2]])}:"
        f" ε is between {rounded_down(lower[worst])} and {rounded_up(upper[worst])}{_reason(str(why[worst]))}"
    )
    return within, why, missed
