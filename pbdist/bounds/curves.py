"""Trade-off curves, total variation and Rényi divergences of one mechanism as xarray Datasets, without a store."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr

from pbdist.arguments import Neighbours, check_direction, checked_neighbours, components_of
from pbdist.bounds.delta import Axis, Variable, bounds_dataset
from pbdist.curves.renyi import renyi_table
from pbdist.curves.tradeoff_table import CurveTable, total_variation_table, tradeoff_table
from pbdist.mechanisms import Pair

TYPE_ONE_ERROR, ORDER = "type_one_error", "order"

#: Name, what it bounds, units, and which of the two directions is the worse one.
_QUANTITIES: Mapping[str, tuple[str, str, Callable[..., Any]]] = {
    "type_two_error": ("the smallest type II error", "1", np.min),
    "total_variation": ("the total variation distance", "1", np.max),
    "renyi": ("the Rényi divergence", "nat", np.max),
}
_AXES: Mapping[str, str] = {
    TYPE_ONE_ERROR: "type I error α, the probability to reject the true hypothesis",
    ORDER: "order α of the Rényi divergence; 1 is the Kullback-Leibler divergence",
}


def tradeoff_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]],
    *,
    compositions: Any,
    type_one_error: Any,
    tolerance: float = 1e-3,
    direction: str = "both",
) -> xr.Dataset:
    """Bound the trade-off curve (f-DP) after r compositions: the smallest type II error of a test at a type I error.

    Parameters
    ----------
    mechanism : Pair or sequence of (Pair, int)
        One worst-case pair, or several with how often each occurs, composed together.
    compositions : int or array_like of int
        Numbers of compositions r, at least 1; for a sequence, of repeats of the whole sequence.
    type_one_error : float or array_like of float
        α, from 0 to 1: the probability with which a test of one input against the other may reject the true one.
    tolerance : float, optional
        Largest ``type_two_error_upper - type_two_error_lower``.
    direction : {"both", "each"}, optional
        ``"both"``: the smaller type II error of the two tests. ``"each"``: both, along a leading dimension
        ``direction``: under "A||B" the type I error is made under A and the type II error under B.

    Returns
    -------
    xarray.Dataset
        ``type_two_error_lower <= β(α) <= type_two_error_upper`` over (``compositions``, ``type_one_error``), rounded
        outwards. The lower bound is the promise: no test of the two inputs does better. Without a declared worst
        change, as for `BoundedRange`, the upper bound is that of a test that ignores the outcome, 1 - α.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; before any computation.
    PrecisionError
        If the tolerance cannot be reached.

    Notes
    -----
    β(α) = sup_{y>=0} 1 - δ_{B||A}(ln y) - y α (Dong, Roth & Su 2022, Proposition 6), from bounds on δ at finitely many
    ε of both directions, and between them by convexity: see `pbdist.curves.tradeoff`. δ is bounded where the curve
    needs it. If the probabilities of a histogram do not sum to 1, errors and δ are masses.

    Examples
    --------
    >>> from pbdist import Gaussian, tradeoff_bounds
    >>> curve = tradeoff_bounds(Gaussian(20.0), compositions=64, type_one_error=[0.01, 0.1, 0.5])
    >>> bool((curve.type_two_error_upper - curve.type_two_error_lower <= 1e-3).all())
    True
    """
    check_direction(direction)
    components = components_of(mechanism)
    neighbours = checked_neighbours(components, None)
    table = tradeoff_table(components, compositions=compositions, type_one_error=type_one_error, tolerance=tolerance)
    return _curve_dataset("type_two_error", table, TYPE_ONE_ERROR, neighbours, direction=direction, tolerance=tolerance)


def total_variation_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]], *, compositions: Any, tolerance: float = 1e-3, direction: str = "both"
) -> xr.Dataset:
    """Bound the total variation distance after r compositions: δ at ε = 0.

    Parameters
    ----------
    mechanism, compositions
        As for `tradeoff_bounds`.
    tolerance : float, optional
        Largest ``total_variation_upper / total_variation_lower - 1``.
    direction : {"both", "each"}, optional
        ``"each"``: Σ max(0, P_A - P_B) and Σ max(0, P_B - P_A) along a leading dimension ``direction``. They are equal,
        and each gets the better of the two's bounds, unless a histogram's probabilities do not sum to 1.

    Returns
    -------
    xarray.Dataset
        ``total_variation_lower <= total variation <= total_variation_upper`` over ``compositions``, rounded outwards.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; before any computation.
    PrecisionError
        If the tolerance cannot be reached.

    Examples
    --------
    >>> from pbdist import RandomizedResponse, total_variation_bounds
    >>> bounds = total_variation_bounds(RandomizedResponse(0.75), compositions=1)
    >>> bool((bounds.total_variation_lower <= 0.5) & (0.5 <= bounds.total_variation_upper))
    True
    """
    check_direction(direction)
    components = components_of(mechanism)
    neighbours = checked_neighbours(components, None)
    table = total_variation_table(components, compositions=compositions, tolerance=tolerance)
    return _curve_dataset("total_variation", table, None, neighbours, direction=direction, tolerance=tolerance)


def renyi_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]],
    *,
    compositions: Any,
    order: Any,
    tolerance: float = 1e-3,
    direction: str = "both",
) -> xr.Dataset:
    """Bound the Rényi divergence after r compositions.

    Parameters
    ----------
    mechanism, compositions
        As for `tradeoff_bounds`.
    order : float or array_like of float
        Orders α: 1, the Kullback-Leibler divergence, or from 1.000001 to 1e6.
    tolerance : float, optional
        Largest ``renyi_upper / renyi_lower - 1``; divergences of one round below 1e-24 count as 0.
    direction : {"both", "each"}, optional
        ``"both"``: the larger of the two directions. ``"each"``: both, along a leading dimension ``direction``.

    Returns
    -------
    xarray.Dataset
        ``renyi_lower <= D_α <= renyi_upper``, nats, over (``compositions``, ``order``), rounded outwards; both
        infinite where one input has outputs that the other cannot have. Without a declared worst change the lower is 0.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range; before any computation.
    PrecisionError
        If the tolerance cannot be reached; the message names the mechanism and the order that failed, and the bounds
        on its divergence that are certain. See the notes for when to expect it.

    Notes
    -----
    The divergence of a product is the sum of those of its factors. Those of untruncated Gaussian and of discrete
    Gaussian noise are closed forms, rounded outwards, at every order: see `ElementaryPair.renyi_divergence`. Others
    are bounded on a grid of losses: see `pbdist.renyi`. There `PrecisionError` is to be expected

    - at large orders of noise with unbounded losses, where events with masses too small for float64 matter, so the
      upper bound stays far off or infinite: for ``SubsampledGaussian(1.0, 0.01)`` from order 2e4 on, for
      ``Poisson(40.0)`` from 500 on, for ``NoisyCount(Gaussian(2.0), 5.0, 1)`` from 100 on;
    - for a histogram with a probability of about 1e-300 or less against 0, which may count as 0 or not;
    - for divergences near 0: for counts in the billions that hardly differ, for probabilities that do not sum to 1, for
      sampling rates so small that the divergence is near 1e-24;
    - with tolerances near the smallest, as a grid has at most a million losses.

    One order that fails makes the call fail; call again without it for the others.

    Examples
    --------
    >>> from pbdist import Gaussian, renyi_bounds
    >>> bounds = renyi_bounds(Gaussian(20.0), compositions=64, order=8.0)
    >>> bool((bounds.renyi_lower <= 8 * 64 / 800) & (8 * 64 / 800 <= bounds.renyi_upper))
    True
    """
    check_direction(direction)
    components = components_of(mechanism)
    neighbours = checked_neighbours(components, None)
    table = renyi_table(components, compositions=compositions, order=order, tolerance=tolerance)
    return _curve_dataset("renyi", table, ORDER, neighbours, direction=direction, tolerance=tolerance)


def _curve_dataset(
    quantity: str, table: CurveTable, axis: str | None, neighbours: Neighbours, *, direction: str, tolerance: Any
) -> xr.Dataset:
    """Wrap a table of bounds, with its units and names."""
    text, units, worse = _QUANTITIES[quantity]
    last = None if axis is None else Axis(axis, table.axis, _AXES[axis])
    return bounds_dataset(
        {
            f"{quantity}_{side}": Variable(
                values if axis else values[..., 0], f"certified {side} bound on {text}", units, worse
            )
            for side, values in (("lower", table.lower), ("upper", table.upper))
        },
        table.compositions,
        last,
        direction=direction,
        neighbours=neighbours,
        attributes={"tolerance": tolerance},
        directions_of="test" if axis == TYPE_ONE_ERROR else "divergence",
    )
