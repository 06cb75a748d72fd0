"""What the tight engine's first pass will be like: lengths and numbers, from which time and memory are projected.

Nothing is composed, and nothing here is a bound. How often a pass is repeated with finer grids is not known before.
"""

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.buckets.tight.engine import Family, outside_weight, spans
from pbdist.buckets.tight.frequencies import LONGEST_LOOK, MOST_FREQUENCIES, MOST_WORK
from pbdist.buckets.tight.ladder import RADIX, STEP
from pbdist.buckets.tight.outline import LONGEST, LONGEST_GIVEN
from pbdist.buckets.tight.plan import Group
from pbdist.buckets.tight.state import ROWS
from pbdist.buckets.tight.table import TightTable, factor_counts
from pbdist.mechanisms import Pair, SubsampledGaussian
from pbdist.types import Direction, FloatArray, IntArray

__all__ = ["GroupForecast", "tight_forecast"]

#: As in the Chernoff bounds of few frequencies.
_NEAR = 0.375
#: Cells of a window beside the range of the losses.
_MORE_CELLS = 3.0
#: Logarithm of a δ that takes more passes than others.
_FAINT = -50.0


@dataclass(frozen=True)
class GroupForecast:
    """What the points of one tilt take.

    Attributes
    ----------
    directions, families : int
        How many there are.
    points, faint, rounds : int
        Number of points, of those whose δ is so small that passes are often repeated, and of different r among them.
    few, extended, sampled : bool
        Whether few frequencies are expected to do, transforms are in extended precision, and a pair is a mixture, whose
        masses take longer.
    cells : float
        Cells of all leaves.
    outcomes : int
        Outcomes of all leaves that are counted one by one.
    frequencies : float
        Where few do, the sum over all r of how many.
    stages : int
        How often the grid is made coarser.
    stage_length : float
        Elements of a transform of a stage.
    lengths : tuple of float
        Elements of the vector of each r; empty where few frequencies do.
    """

    directions: int
    families: int
    points: int
    faint: int
    rounds: int
    few: bool
    extended: bool
    sampled: bool
    cells: float
    outcomes: int
    frequencies: float
    stages: int
    stage_length: float
    lengths: tuple[float, ...]


def tight_forecast(
    pair: Pair,
    compositions: IntArray,
    epsilon: FloatArray,
    *,
    tolerance: float,
    width: float | None,
    buckets: int | None,
    keep_states: bool,
) -> list[GroupForecast]:
    """Return what a first pass takes; nothing where a closed form gives every bound. Parameters as for `tight_bounds`.

    Takes some milliseconds.
    """
    table = TightTable(
        factor_counts([(pair, 1)]),
        compositions,
        epsilon,
        tolerance=tolerance,
        width=width,
        buckets=buckets,
        keep_states=keep_states,
    )
    if not table.fixed and not keep_states and table.solved_in_closed_form():
        return []
    found: list[GroupForecast] = []
    groups = deque(table.first_groups())
    while groups:
        group = groups.popleft()
        forecast = _forecast(table, group)
        if group.few and not forecast.few:
            # As in the engine: all of it by transforms.
            groups.extend(table.groups([point.without_few(tolerance) for point in group.points]))
        else:
            found.append(forecast)
    return found


def _forecast(table: TightTable, group: Group) -> GroupForecast:
    width, families = table.width_of(group), table.families_of(group)
    per_round = sum(family.leaves for family in families)
    cells = sum(span / width + _MORE_CELLS for span in spans(families, group, table.tolerance))
    outcomes = len(group.directions) * sum(pair.outcomes for family in families for pair in family.pairs)
    outside = outside_weight(group, table.tolerance)
    spread_of = _spread(families, group)
    second, fourth = spread_of.second, spread_of.fourth
    rounds = np.array(sorted({point.leaves // per_round for point in group.points}), dtype=np.float64)
    spread = 2.0 * np.sqrt(2.0 * math.log(4.0 / outside) * second * rounds) / width
    stages = table.stages_of(group)
    stage_length = min(RADIX * cells, float(spread[0] / math.sqrt(rounds[0])) * math.sqrt(RADIX) + cells)
    few, frequencies = False, 0.0
    if group.few and second > 0.0:
        cut = np.sqrt(math.log(8.0 / outside) / (_NEAR * rounds * second))
        kept = cut * np.maximum(spread, cells) * width / math.tau
        near = min(math.sqrt(second / fourth) / 2.0, math.pi / width)
        # The look beyond must tell the frequencies from 0.
        narrow = (cut <= near) & (near * width * max(2.0 * cells, LONGEST_LOOK) >= math.tau)
        narrow &= spread_of.returning * rounds <= math.log(outside)
        few = bool(np.all(narrow) and kept.max() <= min(MOST_FREQUENCIES, MOST_WORK / (ROWS * cells)))
        frequencies = float(np.sum(kept))
    lengths = np.minimum(cells * rounds, spread + cells)
    if table.lattice > 0.0:
        # Positions and labels drift half a cell apart in every leaf, and no grid gets coarser.
        lengths = np.maximum(lengths, np.minimum(cells, 1.03) * rounds * per_round)
    if stages:
        lengths = np.minimum(lengths, STEP * stage_length)
    longest = LONGEST_GIVEN if table.fixed else LONGEST
    return GroupForecast(
        directions=len(group.directions),
        families=len(families),
        points=len(group.points),
        faint=sum(point.log_delta < _FAINT for point in group.points),
        rounds=rounds.size,
        few=few,
        extended=group.extended,
        sampled=any(isinstance(pair, SubsampledGaussian) for family in families for pair in family.pairs),
        cells=cells,
        outcomes=outcomes,
        frequencies=frequencies if few else 0.0,
        stages=stages,
        stage_length=min(stage_length, longest) if stages else 0.0,
        lengths=() if few else tuple(np.minimum(lengths, longest).tolist()),
    )


@dataclass(frozen=True)
class _Spread:
    """How the tilted losses of a round spread.

    Variance, Σ E D⁴/24 for differences D of two losses of a leaf, and the largest logarithm of |E e^{itL}| that is
    found away from t = 0.

    Losses that are nearly on a lattice, such as those of two heavy outcomes, bring the product of many back to 1.
    """

    second: float
    fourth: float
    returning: float


def _spread(families: Sequence[Family], group: Group) -> _Spread:
    second = fourth = 0.0
    direction: Direction = group.directions[0]
    found: list[tuple[FloatArray, FloatArray, int]] = []
    frequencies: list[float] = []
    for family in families:
        profile = family.profiles[direction]
        if not profile.loss.size:
            continue
        exponent = profile.log_a + group.tilt * profile.loss
        weight = np.exp(exponent - exponent.max())
        weight /= weight.sum()
        x = profile.loss - float(weight @ profile.loss)
        variance = float(weight @ x**2)
        second += family.leaves * variance
        fourth += family.leaves * (float(weight @ x**4) + 3.0 * variance**2) / 12.0
        found.append((weight, x, family.leaves))
        if profile.heaviest_atom > 0.0 and x.size > 1:
            one, other = np.argpartition(weight, -2)[-2:]
            frequencies.append(math.tau / max(abs(float(x[one] - x[other])), 1e-300))
    returning = max(
        (
            sum(leaves * math.log(abs(complex(weight @ np.exp(1j * t * x))) + 1e-300) for weight, x, leaves in found)
            for t in frequencies
        ),
        default=-math.inf,
    )
    return _Spread(second, fourth, returning)
