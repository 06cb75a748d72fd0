"""Trade-off curves and total variation of a mechanism.

A curve is read off a saved state. If no state is precise enough, and for untruncated Gaussian noise, whose δ is a
closed form, δ is bounded at more and more ε, chosen where the curve needs them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pbdist.arguments import check_totals, checked_components, checked_compositions, checked_numbers, checked_tolerance
from pbdist.curves.tradeoff import SupportCurve, Wholes, state_tradeoff, wholes_of
from pbdist.errors import PrecisionError
from pbdist.mechanisms import Pair, PairCounts, factor_counts
from pbdist.pld import LARGEST_READ, compute_states
from pbdist.pld.closed_form import gaussian_ratio
from pbdist.pld.loss_profile import loss_profile
from pbdist.quantities import counted
from pbdist.rounding import rounded_up
from pbdist.table import bounds_table
from pbdist.types import Direction, FloatArray, IntArray

#: ε of the first look at a curve, and the parts into which an interval is cut that is not yet fine enough.
_FIRST_POINTS, _CUTS = 33, 6
#: How often intervals are cut in a row without bringing the bounds a third closer.
_MAX_IDLE = 5
#: Fractions of the tolerance for which states are computed, one after the other.
_STATE_FRACTIONS = (1.0, 0.1)
#: Tilts at which a reach is looked for, and the smallest one, nats.
_TILTS: FloatArray = np.geomspace(1e-4, 1e4, 65)
_SMALLEST_REACH = 1e-12


@dataclass(frozen=True, eq=False)
class CurveTable:
    """Certified bounds over the numbers of compositions and one more axis."""

    #: Shape (R,).
    compositions: IntArray
    #: Type I errors or orders; of shape (1,) where there is no such axis. Shape (K,).
    axis: FloatArray
    #: First axis: A||B, B||A. Shape (2, R, K).
    lower: FloatArray
    upper: FloatArray


def checked_errors(type_one_error: Any) -> FloatArray:
    """Return type I errors from 0 to 1, shape (K,), or raise `InvalidInputError`."""
    return checked_numbers("type_one_error", type_one_error, "numbers from 0 to 1", lambda value: 0.0 <= value <= 1.0)


def tradeoff_table(
    components: Sequence[tuple[Pair, int]], *, compositions: Any, type_one_error: Any, tolerance: Any
) -> CurveTable:
    """Bound the type II error for every r and type I error.

    `tolerance` is the largest upper - lower; a missed one raises a `PrecisionError`.
    """
    parts = checked_components(components)
    rounds = checked_compositions(compositions)
    check_totals(parts, rounds)
    alpha = checked_errors(type_one_error)
    gap = checked_tolerance(tolerance)
    lower, upper = (np.empty((len(Direction), rounds.size, alpha.size)) for _ in range(2))
    known = _by_states(parts, rounds, alpha, gap)
    for row, r in enumerate(rounds.tolist()):
        lower[:, row], upper[:, row] = known[r] if r in known else _Search(parts, r, gap).bounds(alpha)
    if not all(pair.attained_by_some for pair, _ in parts):
        # No change is declared to attain the pair: errors are at most those of a test that ignores the outcome.
        upper[:] = np.nextafter(1.0 - alpha, 1.0)
    return CurveTable(rounds, alpha, lower, upper)


def total_variation_table(
    components: Sequence[tuple[Pair, int]], *, compositions: Any, tolerance: float | None
) -> CurveTable:
    """Bound the total variation distance, δ at ε = 0, for every r; a missed tolerance raises a `PrecisionError`."""
    table = bounds_table(components, compositions=compositions, epsilon=0.0, tolerance=tolerance)
    parts = checked_components(components)
    lower, upper = np.array(table.delta_lower), np.array(table.delta_upper)
    for row, r in enumerate(table.compositions.tolist()):
        lower[:, row, 0], upper[:, row, 0] = variation_of(lower[:, row, 0], upper[:, row, 0], wholes_of(parts, r))
    return CurveTable(table.compositions, np.zeros(1), lower, upper)


def variation_of(
    lower: FloatArray, upper: FloatArray, wholes: dict[Direction, Wholes]
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on δ(0) of both directions, shape (2,), each the better of the two.

    Σ max(0, P_A - P_B) and Σ max(0, P_B - P_A) differ by the difference of the totals: not at all where both are 1.
    """
    if any((whole.total_lower, whole.total_upper) != (1.0, 1.0) for whole in wholes.values()):
        return lower, upper
    return np.full(2, float(np.max(lower))), np.full(2, float(np.min(upper)))


def _by_states(
    parts: Sequence[tuple[Pair, int]], rounds: IntArray, alpha: FloatArray, tolerance: float
) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Return lower and upper bounds, shape (2, K), for those r whose states give the curve within the tolerance."""
    counts = factor_counts(parts)
    found: dict[int, tuple[FloatArray, FloatArray]] = {}
    if gaussian_ratio(counts) is not None:
        return found
    for finer in _STATE_FRACTIONS:
        wanted = np.array([r for r in np.unique(rounds).tolist() if r not in found])
        if not wanted.size:
            break
        # δ is at most 1, so that its absolute error is at most its relative error.
        aim, floor = max(0.5 * finer * tolerance, 1e-9), 0.05 * finer * tolerance
        reach = _rough_reach(counts, int(wanted[-1]), floor)
        for r, state in compute_states(counts, wanted, np.array([reach]), tolerance=aim, floor=floor).states.items():
            wholes = wholes_of(parts, r)
            lower, upper = zip(*(state_tradeoff(state, test, alpha, wholes) for test in Direction), strict=True)
            if max(float(np.max(high - low)) for low, high in zip(lower, upper, strict=True)) <= tolerance:
                found[r] = np.stack(lower), np.stack(upper)
    return found


def _rough_reach(counts: PairCounts, rounds: int, floor: float) -> float:
    """Return an ε at which δ is about `floor` at most in both directions, by Chernoff's bound; only a choice."""
    profiles = [(loss_profile(pair, 1.0, 1.0), count) for pair, count in counts.items()]
    reach = 0.0
    for tilts in (_TILTS, -1.0 - _TILTS):
        cumulant = sum(count * profile.moments(tilts)[0] for profile, count in profiles if profile.loss.size)
        reach = max(reach, float(np.min((rounds * cumulant - math.log(floor)) / _TILTS)))
    return min(max(reach, _SMALLEST_REACH), LARGEST_READ)


class _Search:
    """Bounds on δ for one r at more and more ε, chosen where the curve needs them."""

    def __init__(self, parts: Sequence[tuple[Pair, int]], compositions: int, tolerance: float) -> None:
        self._parts = parts
        self._compositions = compositions
        self._tolerance = tolerance
        self._wholes = wholes_of(parts, compositions)
        self._epsilon: FloatArray = np.zeros(0)
        self._lower: FloatArray = np.zeros((2, 0))
        self._upper: FloatArray = np.zeros((2, 0))

    def bounds(self, alpha: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return lower and upper bounds, shape (2, K) each."""
        self._look(np.zeros(1))
        self._look(np.linspace(0.0, self._reach(), _FIRST_POINTS)[1:])
        worst, idle = math.inf, 0
        while idle < _MAX_IDLE:
            curves = [
                SupportCurve.from_deltas(self._epsilon, test, self._lower, self._upper, self._wholes)
                for test in Direction
            ]
            below, above = ([each(curve, alpha) for curve in curves] for each in _SIDES)
            lower, upper = (np.stack([value for value, _ in side]) for side in (below, above))
            gaps = upper - lower
            previous, worst = worst, min(worst, float(np.max(gaps)))
            idle = 0 if worst < 0.7 * previous else idle + 1
            if float(np.max(gaps)) <= self._tolerance:
                return lower, upper
            wanted = []
            for curve, (_, node), (_, interval), gap in zip(curves, below, above, gaps, strict=True):
                nodes = np.concatenate((node, node - 1, interval, interval + 1, interval - 1)).reshape(5, -1)
                wanted.append(_cuts(curve.y, np.unique(nodes[:, gap > self._tolerance])))
            self._look(np.concatenate(wanted))
        allow = f"allow {1.1 * worst:.2g}" if 1.1 * worst <= 1.0 else "losses above 600 nats matter"
        raise PrecisionError(
            f"tolerance: expected upper - lower <= {self._tolerance:.3g} for the trade-off curve after"
            f" {counted(self._compositions, 'composition')}, got {rounded_up(worst, 3)}: {allow}"
        )

    def _reach(self) -> float:
        """Return an ε beyond which δ is about the mass of the events that reveal the input.

        Only the choice of the nodes depends on it, no bound does.
        """
        epsilon = min(max(4.0 * float(np.max(self._upper)), 1e-6), 1.0)
        revealed = np.array([self._wholes[direction].alone_lower for direction in Direction])
        while epsilon < LARGEST_READ:
            self._look(np.array([epsilon]))
            position = int(np.searchsorted(self._epsilon, epsilon))
            if np.all(self._upper[:, position] - revealed <= 0.1 * self._tolerance):
                return epsilon
            epsilon *= 2.0
        return LARGEST_READ

    def _look(self, epsilon: FloatArray) -> None:
        """Bound δ at those ε that are new."""
        new = np.setdiff1d(epsilon, self._epsilon)
        new = new[new <= LARGEST_READ]
        if new.size == 0:
            return
        table = bounds_table(
            self._parts,
            compositions=self._compositions,
            epsilon=new,
            tolerance=max(0.2 * self._tolerance, 1e-9),
            strict=False,
        )
        order = np.argsort(np.concatenate((self._epsilon, new)))
        self._epsilon = np.concatenate((self._epsilon, new))[order]
        self._lower = np.concatenate((self._lower, table.delta_lower[:, 0]), axis=1)[:, order]
        self._upper = np.concatenate((self._upper, table.delta_upper[:, 0]), axis=1)[:, order]


_SIDES = (SupportCurve.lower_bound, SupportCurve.upper_bound)


def _cuts(y: FloatArray, intervals: IntArray) -> FloatArray:
    """Return ε that cut intervals between nodes; the interval next to 0 and the one beyond the last node stay uncut."""
    chosen = intervals[(intervals >= 1) & (intervals < y.size - 1)]
    ends = np.log(y[chosen]), np.log(y[chosen + 1])
    steps = np.arange(1, _CUTS) / _CUTS
    cuts = ends[0][:, None] + (ends[1] - ends[0])[:, None] * steps
    return np.unique(np.abs(cuts))
