"""Verify a finished store: complete, unchanged, and at sampled points in agreement with exact integer arithmetic.

The exact bounds (`pbdist.verify.exact`) take the masses of the mechanisms from the same code as the fast methods, and
share no grid, transform or rounding with them. They hold on a grid of any width, and tend to the truth on finer grids.
So each point is computed on finer and finer grids, until the stored bounds are proved or refuted, or the next grid
would need more bins than allowed.
"""

import math
import random
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pbdist.errors import InvalidInputError, StoreDamagedError
from pbdist.mechanisms import Pair
from pbdist.progress import reported
from pbdist.store import Place, Refinement, StoredStudy, check_skeleton, open_parts, read_refinements
from pbdist.store.layout import BOUNDS, COMPUTED
from pbdist.study import Cell
from pbdist.types import Direction, FloatArray
from pbdist.verify.exact import ExactBounds, exact_bounds
from pbdist.verify.exact_power import flint_module
from pbdist.verify.verification import Sample, Verdict, Verification

#: The most bins of a grid of the exact arithmetic: a few seconds a point.
DEFAULT_CELLS = 100_000
#: The most width of the first grid, in nats, if the stored one is finer.
_WIDEST = 0.25
#: Stored widths above this, in nats, are not checked.
_LARGEST = 100.0
#: The width of the last grid is 2 to this power times the stored one.
_FINEST = -4
#: Bits of the exact masses: the least, the most, those beyond the leading zeros of δ, and their steps.
_MIN_BITS, _MAX_BITS, _GUARD_BITS, _BIT_STEP = 128, 1088, 64, 64

#: Lower and upper bound on δ, then on ln δ.
_Bounds: TypeAlias = tuple[float, float, float, float]


def verify_store(
    where: str | Path | Place, *, sample: int = 20, seed: int = 0, max_cells: int = DEFAULT_CELLS
) -> Verification:
    """Check a store, and recompute `sample` of its sound points, all equally likely to be chosen.

    Results, metadata, coordinates and the points that queries have added are compared with their checksums. A
    `Verdict.CONFIRMED` proves both stored bounds, a `Verdict.CONTRADICTED` proves that they do not both hold. A
    `Verdict.CONSISTENT` proves neither; but an upper bound below the truth by more than the width of the exact bracket
    would have been contradicted. Of a δ below about 1e-300 it says only that it is so small.

    Parameters
    ----------
    where
        The store: a path, or a URL ``s3://BUCKET/PREFIX``.
    sample
        How many points to recompute; 0 for none.
    seed
        Seed of the choice: the same store and seed give the same points on any machine.
    max_cells
        The most bins of a grid of the exact arithmetic; time and memory grow with it.
    """
    for field, value, least in (("sample", sample, 0), ("seed", seed, 0), ("max_cells", max_cells, 4)):
        if not least <= value <= 2**40:
            raise InvalidInputError(f"{field}: expected a whole number from {least} to 2^40, got {value}")
    if sample:
        flint_module()
    parts = open_parts(where)
    for stored in parts:
        check_skeleton(stored)
    batches = [(stored, index) for stored in parts for index in range(stored.batches)]
    missing: list[int] = []
    changed: list[int] = []
    failed = 0
    points: list[_Points] = []
    for number, (stored, index) in enumerate(batches):
        try:
            batch = stored.read(index)
        except StoreDamagedError:
            changed.append(number)
            continue
        if batch is None:
            missing.append(number)
        else:
            failed += int(batch.failed.sum())
            sound = np.array(stored.cells_of(index))[~batch.failed]
            points.append(_stored_points(stored, sound.tolist()))
    damaged: list[str] = []
    points += map(_refined_points, read_refinements(parts[0], damaged=damaged))
    counts = list(accumulate((math.prod(some.shape) for some in points), initial=0))
    chosen = sorted(random.Random(seed).sample(range(counts[-1]), min(sample, counts[-1])))  # noqa: S311 -- no secret
    found = [(bisect_right(counts, number) - 1, number) for number in chosen]
    return Verification(
        batches=len(batches),
        missing=tuple(missing),
        changed=tuple(changed),
        failed=failed,
        damaged=tuple(damaged),
        points=counts[-1],
        seed=seed,
        max_cells=max_cells,
        samples=tuple(_sample(points[i], number - counts[i], max_cells) for i, number in reported("point", found)),
    )


@dataclass(frozen=True)
class _Points:
    """The points of some cells, in row-major order of cell, direction, r and ε; `read` reads a cell by its row."""

    cells: int
    compositions: tuple[int, ...]
    epsilon: tuple[float, ...]
    read: Callable[[int], tuple[int, Cell, Mapping[str, FloatArray]]]

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of cells, directions, r and ε."""
        return self.cells, len(Direction), len(self.compositions), len(self.epsilon)


def _stored_points(stored: StoredStudy, numbers: list[int]) -> _Points:
    """Return the points of some cells of a batch."""

    def read(row: int) -> tuple[int, Cell, Mapping[str, FloatArray]]:
        number = numbers[row]
        return number, stored.study.cells[number], {name: stored.values(name, number) for name in (*BOUNDS, *COMPUTED)}

    return _Points(len(numbers), stored.study.compositions, stored.study.epsilon, read)


def _refined_points(refinement: Refinement) -> _Points:
    """Return the points of a refinement, of one cell with the number -1."""
    values = dict(zip(BOUNDS, refinement.values, strict=True), loss_width=np.array(refinement.loss_width))
    return _Points(1, refinement.compositions, refinement.epsilon, lambda _: (-1, refinement.cell, values))


def _sample(points: _Points, number: int, max_cells: int) -> Sample:
    """Recompute the point of a number."""
    row, axis, r, e = map(int, np.unravel_index(number, points.shape))
    cell_number, cell, values = points.read(row)
    compositions, epsilon, direction = points.compositions[r], points.epsilon[e], tuple(Direction)[axis]
    lower, upper, log_lower, log_upper = (float(values[name][axis, r, e]) for name in BOUNDS)
    stored = (lower, upper, log_lower, log_upper)
    # A NaN is neither above nor below anything.
    verdict = Verdict.UNCHECKED if lower <= upper and log_lower <= log_upper else Verdict.CONTRADICTED
    found, width = None, float(values["loss_width"])
    tried, bits = 1.0, _bits(log_upper, epsilon)
    for multiple in _multiples(width) if verdict is Verdict.UNCHECKED else ():
        bounds = partial(
            exact_bounds,
            compositions=compositions,
            epsilon=[epsilon],
            direction=direction,
            loss_width=multiple * width,
            bits=bits,
            max_bins=max_cells,
        )
        try:
            exact = bounds([(cell.pair, 1)])
            verdict = _judge_attained(cell.pair, stored, _judge(stored, exact), bounds)
        except InvalidInputError:
            # Finer grids need still more bins.
            break
        found, tried = exact, multiple
        # So small a δ has too few bits to be resolved on finer grids.
        if verdict is not Verdict.CONSISTENT or exact.log_upper[0] < (_GUARD_BITS - bits) * math.log(2.0):
            break
    return Sample(
        cell=cell_number,
        setting=cell.describe(),
        compositions=compositions,
        epsilon=epsilon,
        direction=direction,
        stored=stored,
        exact=None if found is None else _rounded(found),
        loss_width=tried * width,
        multiple=tried,
        verdict=verdict,
    )


def _judge(stored: _Bounds, exact: ExactBounds) -> Verdict:
    lower, upper, log_lower, log_upper = stored
    if not (exact.meets([lower], [upper])[0] and exact.meets([log_lower], [log_upper], log=True)[0]):
        return Verdict.CONTRADICTED
    holds = lower <= exact.lower[0] and log_lower <= exact.log_lower[0]
    holds = holds and exact.upper[0] <= upper and exact.log_upper[0] <= log_upper
    return Verdict.CONFIRMED if holds else Verdict.CONSISTENT


def _judge_attained(
    pair: Pair, stored: _Bounds, verdict: Verdict, bounds: Callable[[list[tuple[Pair, int]]], ExactBounds]
) -> Verdict:
    """Compare the lower bound with the attained pairs alone; without any it must be 0."""
    attained = [one for one, there in pair.choices if there and one.attained_by_some]
    if len(attained) == len(pair.choices):
        return verdict
    lower, _, log_lower, _ = stored
    if not attained:
        return verdict if lower == 0.0 and log_lower == -math.inf else Verdict.CONTRADICTED
    exact = ExactBounds.worst_of([bounds([(one, 1)]) for one in attained])
    below = _judge((lower, math.inf, log_lower, math.inf), exact)
    order = (Verdict.CONTRADICTED, Verdict.CONSISTENT, Verdict.CONFIRMED)
    return min(verdict, below, key=order.index)


def _multiples(width: float) -> Iterator[float]:
    """Yield multiples of the stored loss width, from a coarse grid to one finer than the stored one."""
    if 0.0 < width <= _LARGEST:
        for exponent in range(max(0, math.floor(math.log2(_WIDEST / width))), _FINEST - 1, -1):
            yield 2.0**exponent


def _bits(log_upper: float, epsilon: float) -> int:
    """Return how many bits resolve a δ of that size, and its P_B masses."""
    digits = -log_upper / math.log(2.0) if log_upper > -_MAX_BITS else float(_MAX_BITS)
    enough = math.ceil((max(0.0, digits) + epsilon / math.log(2.0) + _GUARD_BITS) / _BIT_STEP) * _BIT_STEP
    return min(max(enough, _MIN_BITS), _MAX_BITS)


def _rounded(exact: ExactBounds) -> _Bounds:
    """Return exact bounds as floats, rounded outwards."""
    lower, upper = float(exact.lower[0]), float(exact.upper[0])
    if lower > exact.lower[0]:
        lower = math.nextafter(lower, -math.inf)
    if upper < exact.upper[0]:
        upper = math.nextafter(upper, math.inf)
    return lower, upper, exact.log_lower[0], exact.log_upper[0]
