"""What a cell takes with the tight method: projected from the tolerance, generously.

The grids are chosen from the losses of the pair, and more than once where the tolerance is not reached at first; none
of that is done here. What is projected is the length of the longest transform. It grows like 1 / sqrt(tolerance), and
the time and the memory of a cell grow with it.
"""

import math

from pbdist.buckets.arguments import DEFAULT_TOLERANCE
from pbdist.buckets.tight.profile import loss_profile
from pbdist.mechanisms import ApproximateDP, Histogram, Pair, RandomizedResponse
from pbdist.study.spec import Cell, StudySpec

__all__ = ["cell_bytes", "cell_seconds", "state_bytes"]

#: Cells of a leaf at a tolerance of 1, and the length of a transform in leaves.
_LEAF_CELLS, _LEAVES_PER_TRANSFORM = 100.0, 64
#: Pairs whose directions differ have faint tails, and need finer grids: at least so long, and so many times as long.
_TWO_SIDED_LEAST, _TWO_SIDED_FACTOR = 2**20, 8
#: The longest transform: where the grid is chosen, and where it is given.
_LONGEST, _LONGEST_GIVEN = 2**22, 2**25
#: Peak bytes and seconds for each element of the longest transform, for each direction; measured on one core of a
#: 2-core machine for tolerances from 1e-2 to 1e-5. The bytes are an upper estimate, the seconds right within a factor
#: of 5: how often a grid is refined depends on the pair.
_BYTES_PER_ELEMENT, _SECONDS_PER_ELEMENT = 600, 6.0e-6
#: Each point, and a cell without any.
_SECONDS_PER_POINT, _SECONDS_PER_CELL = 2.0e-4, 0.05
#: On a grid that is given: logarithm of the faintest mass of one round that counts, and how many standard deviations of
#: the losses are kept.
_FAINTEST, _DEVIATIONS = -600.0, 30.0
#: Three vectors of a state, and how long they are at most, and on an average, of the longest transform.
_STATE_BYTES, _STATE_SHARE = 24, 0.25


def cell_seconds(study: StudySpec, cell: Cell) -> float:
    """Return the projected time of a cell on one core."""
    work = _SECONDS_PER_ELEMENT * _longest_transform(study, cell)
    points = _SECONDS_PER_POINT * len(study.compositions) * len(study.epsilon)
    return _SECONDS_PER_CELL + _directions(cell) * (work + points)


def cell_bytes(study: StudySpec, cell: Cell) -> int:
    """Return the projected peak memory of a cell; every r leaves a state behind."""
    directions = _directions(cell)
    states = _STATE_SHARE * directions * len(study.compositions) * state_bytes(study, cell)
    return round(directions * _BYTES_PER_ELEMENT * _longest_transform(study, cell) + states)


def state_bytes(study: StudySpec, cell: Cell) -> int:
    """Return the largest number of bytes of a kept state."""
    return _STATE_BYTES * _longest_transform(study, cell)


def _directions(cell: Cell) -> int:
    return 1 if cell.pair.symmetric else 2


def _longest_transform(study: StudySpec, cell: Cell) -> int:
    if cell.factor is not None:
        return _given_transform(study, cell.pair, cell.factor)
    if study.buckets is not None:
        return min(_LEAVES_PER_TRANSFORM * study.buckets, _LONGEST_GIVEN)
    tolerance = DEFAULT_TOLERANCE if study.tolerance is None else study.tolerance
    length = _LEAVES_PER_TRANSFORM * _LEAF_CELLS / math.sqrt(tolerance)
    if not cell.pair.symmetric:
        length = max(_TWO_SIDED_LEAST, _TWO_SIDED_FACTOR * length)
    if all(isinstance(pair, RandomizedResponse | ApproximateDP | Histogram) for pair in cell.pair.factors):
        # Losses on a lattice keep its grid, however many there are.
        length = max(length, 4.0 * len(cell.pair.factors) * study.compositions[-1])
    return min(math.ceil(length), _LONGEST)


def _given_transform(study: StudySpec, pair: Pair, factor: float) -> int:
    """Return the longest transform on a grid that does not evolve: how far the losses of the most rounds spread."""
    rounds = study.compositions[-1]
    span = variance = 0.0
    for part in pair.factors:
        profile = loss_profile(part, study.epsilon[-1] / rounds)
        known = profile.loss[profile.log_a > _FAINTEST]
        if known.size:
            span += float(known[-1] - known[0])
            variance += profile.cumulant(0.0)[2]
    spread = min(span * rounds, span + _DEVIATIONS * math.sqrt(rounds * variance))
    return min(math.ceil(2.0 * spread / math.log(factor)) + 1, _LONGEST_GIVEN)
