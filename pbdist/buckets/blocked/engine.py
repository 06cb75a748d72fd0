"""Bounds on δ by privacy buckets with giant vectors, block by block: the engine, and a table of it."""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np

from pbdist.arguments import checked_components, checked_compositions, checked_epsilon, checked_factor
from pbdist.buckets.blocked.convolution import Convolution, convolution_of
from pbdist.buckets.blocked.layout import Layout
from pbdist.buckets.blocked.state import (
    BlockedState,
    Folded,
    Leaves,
    Overflow,
    Paired,
    Points,
    fill_leaf,
    head_of,
    lower_part,
    overflow_part,
    summed_part,
    upper_part,
    write_folded,
    write_paired,
)
from pbdist.buckets.blocked.vectors import BlockedVector, Mapper, Summary, VectorStore, groups
from pbdist.buckets.bucket_table import BoundsTable, bucket_table
from pbdist.buckets.composition import (
    AT_INFINITY,
    ROUNDINGS,
    composed_limit,
    composed_scalars,
    rounded_total,
    squared_scalars,
)
from pbdist.buckets.delta import lower_from_sums, upper_from_sums
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule
from pbdist.buckets.leaf import (
    check_leaf,
    corner_mass,
    fits_block,
    leaf_blocks,
    leaf_frame,
    leaf_scalars,
    leaf_state,
)
from pbdist.buckets.state import VECTORS, BucketState, Grid
from pbdist.buckets.sums import PIECE, total
from pbdist.errors import InvalidInputError
from pbdist.fourier.vectors import ranges
from pbdist.mechanisms import ElementaryPair, Pair
from pbdist.types import Direction, FloatArray

__all__ = ["BlockedEngine", "blocked_table"]


def blocked_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    engine: "BlockedEngine",
    buckets: int | None = None,
    factor: float | None = None,
    keep_states: bool = False,
    rule: SquaringRule = SHARP_RULE,
) -> BoundsTable:
    """Compute bounds for every r and ε asked for by privacy buckets, with the lists in blocks.

    Parameters
    ----------
    components, compositions, epsilon, buckets, factor, keep_states, rule
        As `pbdist.buckets.bounds_table` takes them. Kept states are returned whole, in the memory of this process.
    engine : BlockedEngine
        What holds the lists, and who works.

    Returns
    -------
    BoundsTable
        Bit by bit that of `pbdist.buckets.bounds_table` with ``method="buckets"``.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    return bucket_table(
        checked_components(components),
        checked_compositions(compositions),
        checked_epsilon(epsilon),
        engine,
        buckets=buckets,
        width=None if factor is None else math.log1p(checked_factor(factor) - 1.0),
        keep_states=keep_states,
        rule=rule,
    )


class BlockedEngine:
    """Holds bucket lists in blocks; see `pbdist.buckets.ladder.Engine`.

    Parameters
    ----------
    store : VectorStore
        Where the blocks lie; every task reads and writes there.
    mapper : Mapper
        Who works.
    layout : Layout
        The sizes of blocks and tasks.
    name : str, optional
        What all names in the store begin with. No array is written twice with another content, so that a task which is
        done once more, however late, does no harm; where several engines may use one store, each needs its own name.
    """

    def __init__(self, store: VectorStore, mapper: Mapper, layout: Layout, name: str = "state") -> None:
        self._store = store
        self._mapper = mapper
        self._layout = layout
        self._names = (f"{name}-{number:04d}" for number in count())

    def leaf(self, pair: ElementaryPair, grid: Grid, direction: Direction) -> BlockedState:
        """Return the list of one round of one pair.

        Raises
        ------
        InvalidInputError
            As `leaf_state`, or if the buckets are so narrow that rounding puts their edges out of order.
        """
        size = 2 * grid.half_width + 1
        if fits_block(grid):
            return self._scattered(leaf_state(pair, grid, direction))
        blocks = leaf_blocks(pair, grid, direction)
        if len(blocks) == 1:
            raise InvalidInputError(
                f"buckets: expected buckets wide enough for float64 to tell their edges apart, got {grid}"
            )
        frame = leaf_frame(pair, grid, direction, blocks)
        vectors = self._new_vectors(size)
        light = replace(frame, atoms=())
        step = self._layout.block // blocks[0][1]
        tasks = [
            Leaves(
                pair,
                grid,
                direction,
                light,
                tuple(blocks[first : first + step]),
                frame.atoms[first : first + step],
                vectors,
            )
            for first in range(0, len(blocks), step)
        ]
        parts = list(self._mapper.map(fill_leaf, tasks))
        summaries = {name: Summary.joined(part[name] for part, _ in parts) for name in VECTORS}
        state = self._state(grid, vectors, summaries, leaf_scalars(pair, grid, frame, [error for _, error in parts]))
        check_leaf(
            pair,
            total(summaries["a_upper"].sums) + state.infinity_a_upper,
            total(summaries["b_upper"].sums) + state.infinity_b_upper,
        )
        return state

    def compose(self, first: BlockedState, second: BlockedState) -> BlockedState:
        """Return the composition of two lists on one grid, as `pbdist.buckets.compose` does."""
        mass_limit = composed_limit(first, second)
        n = first.grid.half_width
        vectors = self._new_vectors(2 * n + 1)
        summaries: dict[str, Summary] = {}
        beyond: dict[str, float] = {}
        corner = 0.0
        for name, rounding in ROUNDINGS.items():
            x = first.vector(name)
            y = x if second is first else second.vector(name)
            convolution = convolution_of(
                x,
                y,
                rounding=rounding,
                mass_limit=mass_limit,
                mapper=self._mapper,
                layout=self._layout,
                name=f"{vectors[name].name}-work",
            )
            below = rounded_total(self._sums(convolution, 0, n + 1), n + 1, rounding)
            beyond[name] = rounded_total(self._sums(convolution, 3 * n + 1, n), n, rounding)
            if name == "a_lower":
                corner = corner_mass(below, first.grid)
            lowest = corner if name == "b_real_lower" else below
            summaries[name] = self._folded(convolution, vectors[name], name, first.grid, lowest)
            convolution.remove()
        totals = {
            name: [rounded_total(state.summaries[name].sums, 2 * n + 1, ROUNDINGS[name]) for state in (first, second)]
            for name in AT_INFINITY
        }
        return self._state(first.grid, vectors, summaries, composed_scalars(first, second, totals, beyond))

    def square(self, state: BlockedState) -> BlockedState:
        """Return the list on the grid of the squared factor, as `pbdist.buckets.square` does."""
        size = 2 * state.grid.half_width + 1
        vectors = self._new_vectors(size)
        tasks = [
            Paired(state.vectors[name], vectors[name], name, state.grid, tuple(blocks))
            for name in VECTORS
            for blocks in self._groups(size)
        ]
        parts: dict[str, list[Summary]] = {name: [] for name in VECTORS}
        for task, found in zip(tasks, self._mapper.map(write_paired, tasks), strict=True):
            parts[task.name].extend(found)
        summaries = {name: Summary.joined(found) for name, found in parts.items()}
        return self._state(state.grid.squared, vectors, summaries, squared_scalars(state))

    def overflow(self, first: BlockedState, second: BlockedState) -> float:
        """Return the lower P_A mass that the composition of two lists would send above n."""
        n = first.grid.half_width
        x, y = first.vectors["a_lower"], second.vectors["a_lower"]
        pieces = list(ranges(n + 1, 2 * n + 1, PIECE))
        kept = second.summaries["a_lower"].sums
        # The first and the last piece may be parts of one.
        sums = [
            kept[start // PIECE] if stop - start == PIECE else float(np.sum(y[start:stop])) for start, stop in pieces
        ]
        above = [total(sums[position + 1 :]) for position in range(len(pieces))]
        step = self._layout.block // PIECE
        tasks = [
            Overflow(x, y, n, tuple(pieces[start : start + step]), tuple(above[start : start + step]))
            for start in range(0, len(pieces), step)
        ]
        return total(value for part in self._mapper.map(overflow_part, tasks) for value in part)

    def lower(self, state: BlockedState, epsilon: FloatArray) -> FloatArray:
        """Return the bounds of `pbdist.buckets.delta_lower`."""
        sums = self._at_points(lower_part, state, epsilon, ("a_lower", "b_upper"))
        return lower_from_sums(state, epsilon, sums, 2 * state.grid.half_width + 1)

    def upper(self, state: BlockedState, epsilon: FloatArray) -> FloatArray:
        """Return the bounds of `pbdist.buckets.delta_upper`."""
        sums = self._at_points(upper_part, state, epsilon, ("a_upper", "b_real_lower"))
        return upper_from_sums(state, sums, 2 * state.grid.half_width + 1)

    def gathered(self, state: BlockedState) -> BucketState:
        """Return the list held in memory as a whole."""
        return state.gathered()

    def release(self, state: BlockedState) -> None:
        """Remove the blocks of a list."""
        state.remove()

    def _at_points(self, function: Any, state: BlockedState, epsilon: FloatArray, names: tuple[str, str]) -> Any:
        a, b = (state.vectors[name] for name in names)
        tasks = [Points(head_of(state), epsilon, a, b, start, stop) for start, stop in a.blocks()]
        sums: list[list[float]] = [[] for _ in epsilon]
        for part in self._mapper.map(function, tasks):
            for values, more in zip(sums, part, strict=True):
                values.extend(more)
        return sums

    def _groups(self, size: int) -> list[list[tuple[int, int]]]:
        blocks = -(-size // self._layout.block)
        share = -(-blocks // (2 * self._mapper.parallel))
        return groups(0, size, self._layout.block, min(self._layout.task // self._layout.block, share))

    def _sums(self, convolution: Convolution, offset: int, size: int) -> list[float]:
        """Sum the pieces of a part of a convolution."""
        tasks = [(convolution, offset, part[0][0], part[-1][1]) for part in self._groups(size)]
        return [value for part in self._mapper.map(summed_part, tasks) for value in part]

    def _folded(self, convolution: Convolution, vector: BlockedVector, name: str, grid: Grid, lowest: float) -> Summary:
        """Write a vector of a composition, with that mass in its first bucket."""
        tasks = [Folded(convolution, vector, name, grid, tuple(blocks), lowest) for blocks in self._groups(vector.size)]
        return Summary.joined(part for found in self._mapper.map(write_folded, tasks) for part in found)

    def _new_vectors(self, size: int) -> dict[str, BlockedVector]:
        name = next(self._names)
        return {part: BlockedVector(self._store, f"{name}/{part}", self._layout.block, 0, size) for part in VECTORS}

    def _scattered(self, state: BucketState) -> BlockedState:
        """Write a list that was made in memory."""
        vectors = self._new_vectors(2 * state.grid.half_width + 1)
        summaries = {
            name: Summary.joined(
                vector.write_block(start, getattr(state, name)[start:stop]) for start, stop in vector.blocks()
            )
            for name, vector in vectors.items()
        }
        scalars = {name: value for name, value in vars(state).items() if name not in {*VECTORS, "grid"}}
        return self._state(state.grid, vectors, summaries, scalars)

    def _state(
        self, grid: Grid, vectors: dict[str, BlockedVector], summaries: dict[str, Summary], scalars: dict[str, Any]
    ) -> BlockedState:
        known = {name: replace(vector, largest=summaries[name].largest) for name, vector in vectors.items()}
        return BlockedState(grid=grid, vectors=known, summaries=summaries, **scalars)
