"""What is known of δ before anything is computed: from below what is revealed, from above what lies below the floor."""

import math
from collections.abc import Mapping

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses
from pbdist.pld.exponents import SaddlePoints
from pbdist.pld.leaf import leaf_state
from pbdist.pld.many_rounds import chernoff_bound, lattices_for
from pbdist.pld.question import Question
from pbdist.pld.reading import LARGEST_SHIFT
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["bounds_below_floor", "log_least_known", "log_revealed_mass"]

#: By how many nats δ seems to be less than the floor.
_LESS = 2.0
#: Spacing, in deviations of a leaf's loss under the tilt.
_SPACING = 0.1


def bounds_below_floor(question: Question) -> FloatArray:
    """Return logarithms of upper bounds on δ, shape (2, R, E): 0 where δ does not seem to lie below the floor."""
    shape = (2, question.rounds.size, question.epsilon.size)
    result = np.zeros(shape)
    if question.floor <= 0.0:
        return result
    level = math.log(question.floor) - _LESS
    deep = {
        direction: np.array([_deep(question, direction, r, level) for r in question.rounds.tolist()])
        for direction in question.directions
    }
    if question.together:
        # Where the larger direction does not, the smaller one is bounded with it.
        everywhere: BoolArray = np.all(list(deep.values()), axis=0)
        deep = dict.fromkeys(deep, everywhere)
    for axis, direction in enumerate(question.directions):
        exponents = question.exponents(direction)
        for row, r in enumerate(question.rounds.tolist()):
            columns = np.flatnonzero(deep[direction][row])
            if columns.size:
                epsilon = question.epsilon[columns]
                nearest = np.array([min(float(epsilon.min()), exponents.deepest(r, level))])
                result[axis, row, columns] = _bounds(
                    question, direction, exponents.saddle_points(r, nearest), r, epsilon
                )
    if question.symmetric:
        result[1] = result[0]
    return result


def _deep(question: Question, direction: Direction, rounds: int, level: float) -> BoolArray:
    saddles = question.saddle_points(direction, rounds)
    return np.asarray((saddles.log_delta < level) | ~saddles.told.astype(bool))


def _bounds(
    question: Question, direction: Direction, nearest: SaddlePoints, rounds: int, epsilon: FloatArray
) -> FloatArray:
    """Bound ln δ at some ε by the tilt of one."""
    tilt = float(nearest.tilt[0])
    spacing = _SPACING * math.sqrt(float(nearest.variance[0]) / (rounds * question.leaves))
    nothing = np.zeros(epsilon.size)
    chosen = lattices_for(question, spacing, question.top) if spacing > 0.0 else None
    if chosen is None:
        return nothing
    factors = [
        (leaf_state(pair.scaled_loss_masses(lattice.edges), lattice, ()), count * rounds)
        for (pair, count), lattice in zip(question.counts.items(), chosen.lattices, strict=True)
    ]
    shift = sum(power * state.shift for state, power in factors) * (1.0 + 1e-12)
    if not shift <= LARGEST_SHIFT:
        return nothing
    return chernoff_bound(factors, direction, tilt, epsilon, shift)


_U = UNIT_ROUNDOFF
#: Loss edges, nats, and exponents that are tried.
_PROBES: FloatArray = np.geomspace(1e-9, 1e3, 97)
_EDGES: FloatArray = np.concatenate((-_PROBES[::-1], [0.0], _PROBES))
_EXPONENTS: FloatArray = np.linspace(0.04, 0.96, 24)
#: Where ln(1 - δ) does not seem to be less, it is not looked at with all exponents.
_NEARLY = -1.0

#: Masses of the pairs of a round in one direction, and how often each occurs.
_Masses = list[tuple[LossMasses, int]]


def log_revealed_mass(counts: Mapping[ElementaryPair, int], rounds: IntArray, direction: Direction) -> FloatArray:
    """Logarithms of lower bounds on the P_A mass of outcomes that P_B lacks, after some numbers of rounds, shape (R,).

    Of factors of masses M, of which m has none of P_B, it is Π M^d (1 - Π (1 - m/M)^d), which rises in every M and m.
    """
    masses = [(pair.directed_loss_masses(np.zeros(1), direction), count) for pair, count in counts.items()]
    return _log_revealed(masses, rounds)


def log_least_known(counts: Mapping[ElementaryPair, int], rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (2, R, E): of what is revealed, and near 0 where inputs are told apart."""
    masses = [(pair.directed_loss_masses(_EDGES, Direction.A_TO_B), count) for pair, count in counts.items()]
    swapped = [(each.swapped(), count) for each, count in masses]
    return np.stack(
        [
            np.maximum(_log_revealed(own, rounds)[:, None], _nearly_all(own, rounds, epsilon))
            for own in (masses, swapped)
        ]
    )


def _log_revealed(pairs: _Masses, rounds: IntArray) -> FloatArray:
    log_total = rate = size = 0.0
    for masses, count in pairs:
        parts = (masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower)
        only, *others = (float(np.sum(part)) * (1.0 - (part.size + 4.0) * _U) for part in parts)
        total = (only + sum(others)) * (1.0 - 8.0 * _U)
        if only > 0.0:
            rate += count * (-math.log1p(-only / total) if only < total else math.inf)
        if total > 0.0:
            log_total += count * math.log(total)
            size += count * (abs(math.log(total)) + 2.0)
    if rate == 0.0:
        return np.full(rounds.size, -np.inf)
    r = rounds.astype(np.float64)
    result = r * (log_total - 16.0 * _U * size) + np.log(-np.expm1(-rate * r * (1.0 - 32.0 * _U)))
    return np.asarray(result - 16.0 * _U * (1.0 + np.abs(result)))


def _nearly_all(pairs: _Masses, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
    """Logarithms of lower bounds on δ, shape (R, E), of use where it is near 1.

    With T the P_A mass of all, δ = T - Σ min(a, e^ε b) >= T - e^{λε} Σ a^{1-λ} b^λ for 0 < λ < 1; the sum is the
    product of those of the rounds, and joining outcomes makes it larger (Hölder), so that upper values of cells serve.
    """
    r = rounds.astype(np.float64)[:, None, None]
    for exponents in (np.array([0.5]), _EXPONENTS):
        log_sum, error = _shared(pairs, exponents)
        shared = np.min(r * log_sum + epsilon[:, None] * exponents + r * error, axis=-1)
        if not (shared < _NEARLY).any():
            return np.full(shared.shape, -np.inf)
    parts = [(masses.only_a.lower, masses.bins_a.lower, masses.atoms_a.lower, count) for masses, count in pairs]
    log_total = sum(
        count * math.log(max(sum(float(np.sum(part)) for part in masses), 1e-300)) for *masses, count in parts
    )
    total = r[:, :, 0] * (log_total - error)
    slack = 1e-12 * (1.0 + np.abs(np.maximum(shared, -1e300)))
    with np.errstate(divide="ignore"):
        result = total + np.log1p(-np.exp(np.minimum(shared + slack - total, 0.0)))
    return np.asarray(result - 1e-12 * (1.0 + np.abs(total)))


def _shared(pairs: _Masses, exponents: FloatArray) -> tuple[FloatArray, float]:
    """Return ln Σ a^{1-λ} b^λ of a round from upper values, and by how much it and ln T may be off."""
    result, error = np.zeros(exponents.size), 0.0
    for masses, count in pairs:
        own = np.concatenate((masses.bins_a.upper, masses.atoms_a.upper))
        other = np.concatenate((masses.bins_b.upper, masses.atoms_b.upper))
        both = (own > 0.0) & (other > 0.0)
        each = np.multiply.outer(1.0 - exponents, np.log(own[both])) + np.multiply.outer(exponents, np.log(other[both]))
        result += count * np.logaddexp.reduce(each, axis=1)
        # Logarithms of masses are at most 750 in size; sums are made one by one.
        error += count * _U * (4.0 * own.size + 4000.0)
    return result, error
