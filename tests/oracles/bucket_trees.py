"""Operations on bucket states held as arrays in one process."""

from collections.abc import Iterator, Sequence
from dataclasses import fields

from pbdist.buckets import composition, delta
from pbdist.buckets.blocks import Work
from pbdist.buckets.leaf import leaf
from pbdist.buckets.state import VECTORS, BlockedState, BucketState, Grid, StateHead
from pbdist.mechanisms import Pair
from pbdist.types import Direction, FloatArray


def leaf_of(pair: Pair, grid: Grid, direction: Direction = Direction.A_TO_B) -> BucketState:
    """One round on exactly that grid; a product's is the composition of its factors' leaves."""
    states = [leaf(factor, grid, direction, Work()).gathered() for factor in pair.factors]
    result = states[0]
    for state in states[1:]:
        result = compose(result, state)
    return result


def in_blocks(state: BucketState, work: Work) -> BlockedState:
    """The same masses in blocks."""
    vectors = work.new_vectors(VECTORS, 2 * state.grid.half_width + 1)
    summaries = {name: vector.write(0, getattr(state, name)) for name, vector in vectors.items()}
    scalars = {field.name: getattr(state, field.name) for field in fields(StateHead) if field.name != "grid"}
    return BlockedState.of(state.grid, vectors, summaries, scalars)


def _both(first: BucketState, second: BucketState, work: Work) -> tuple[BlockedState, BlockedState]:
    one = in_blocks(first, work)
    return one, one if second is first else in_blocks(second, work)


def compose(first: BucketState, second: BucketState) -> BucketState:
    """The composition of two states."""
    work = Work()
    return composition.compose(*_both(first, second, work), work).gathered()


def compose_adaptively(first: BucketState, second: BucketState) -> BucketState:
    """The composition of two states, squared where masses overflow."""
    work = Work()
    return composition.composed_adaptively(*_both(first, second, work), work).gathered()


def square(state: BucketState) -> BucketState:
    """The state on the grid of the squared factor."""
    work = Work()
    return composition.square(in_blocks(state, work), work).gathered()


def powers(state: BucketState, compositions: Sequence[int]) -> Iterator[tuple[int, BucketState]]:
    """The number of rounds and the state of each."""
    work = Work()
    for r, power in composition.powers(in_blocks(state, work), compositions, work):
        yield r, power.gathered()


def delta_lower(state: BucketState, epsilon: FloatArray) -> FloatArray:
    """Lower bounds on δ."""
    work = Work()
    return delta.delta_lower(in_blocks(state, work), epsilon, work.mapper)


def delta_upper(state: BucketState, epsilon: FloatArray) -> FloatArray:
    """Upper bounds on δ."""
    work = Work()
    return delta.delta_upper(in_blocks(state, work), epsilon, work.mapper)
