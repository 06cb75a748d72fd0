"""The largest loss of the compositions, where losses are bounded: δ is 0 from there on, and little just before it."""

import math

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.pld.loss_profile import LossProfile
from pbdist.pld.question import Question
from pbdist.types import Direction, FloatArray

_U = UNIT_ROUNDOFF
#: Below such a part of the largest loss, other bounds are closer.
_NEAR = 0.999
#: How often the last bin is halved to find where its events end.
_HALVINGS = 40


def bounds_near_the_largest_loss(question: Question) -> FloatArray:
    """Return logarithms of upper bounds on δ, shape (2, R, E): -inf from the largest loss on, 0 where nothing is known.

    Where the losses of pair i are at most ℓ_i and its masses at most M_i, and d_i of each are composed, δ(ε) is at most
    Π M_i^d_i (1 - e^(ε - Σ d_i ℓ_i)), and 0 from that sum on (Theorem 49 of docs/pld.md).
    """
    result = np.zeros((2, question.rounds.size, question.epsilon.size))
    least = float(question.rounds.min())
    for axis, direction in enumerate(question.directions):
        about = sum(count * _about(profile, direction) for profile, count in question.profiles)
        if not question.largest >= _NEAR * least * about:
            continue
        parts = [
            (largest_loss_of(pair, profile, direction), count)
            for (pair, count), (profile, _) in zip(question.counts.items(), question.profiles, strict=True)
        ]
        if all(math.isfinite(loss) for loss, _ in parts):
            size = math.fsum(count * abs(loss) for loss, count in parts)
            largest = math.fsum(count * loss for loss, count in parts) + 8.0 * _U * size
            rounds = question.rounds.astype(np.float64)[:, None]
            result[axis] = _log_bound(question, direction, rounds, rounds * largest + 4.0 * _U * rounds * size)
    if question.symmetric:
        result[1] = result[0]
    return result


def largest_loss_of(pair: ElementaryPair, profile: LossProfile, direction: Direction) -> float:
    """Return an upper bound on all losses of a pair in a direction, nats; infinite where none is found.

    `profile` only tells where to look. Of an enclosure nothing is told: its masses are those of the dominated pair.
    """
    declared = pair.loss_bound(direction)
    if declared is not None:
        return declared
    if pair.dominating is not pair or not math.isfinite(_about(profile, direction)):
        return math.inf
    ends = (profile.loss[-1], profile.upper[-1])
    if direction is Direction.B_TO_A:
        ends = (-profile.loss[0], -profile.lower[0])
    within, beyond = map(float, ends)
    found = _with_error(pair, within, direction)
    if math.isfinite(found):
        return found
    found = _with_error(pair, beyond, direction)
    # Spread events may end anywhere within the last bin.
    for _ in range(_HALVINGS if pair.outcomes == 0 and math.isfinite(found) else 0):
        middle = 0.5 * (within + beyond)
        closer = _with_error(pair, middle, direction)
        if math.isfinite(closer):
            beyond, found = middle, closer
        else:
            within = middle
    return found


def _with_error(pair: ElementaryPair, loss: float, direction: Direction) -> float:
    """Return a loss and the error of all losses, if no event lies beyond; infinite if some may."""
    masses = pair.directed_loss_masses(np.array([loss]), direction)
    far_atoms = (masses.atom_loss > loss) & (masses.atoms_a.upper > 0.0)
    if masses.only_a.upper.any() or masses.bins_a.upper[-1] > 0.0 or far_atoms.any():
        return math.inf
    return math.nextafter(loss + masses.loss_error, math.inf)


def _about(profile: LossProfile, direction: Direction) -> float:
    """Return the largest loss of a profile, infinite where some is or where there is none."""
    forwards = direction is Direction.A_TO_B
    if profile.loss.size == 0 or (profile.only_a if forwards else profile.only_b) > 0.0:
        return math.inf
    return float(profile.loss[-1] if forwards else -profile.loss[0])


def _log_bound(question: Question, direction: Direction, rounds: FloatArray, largest: FloatArray) -> FloatArray:
    """Return ln(Π M^d (1 - e^(ε - L))), rounded up; -inf where ε >= L. Shape (R, E)."""
    side = 0 if direction is Direction.A_TO_B else 1
    excess = sum(count * max(float(pair.mass_excess[side]), 0.0) for pair, count in question.counts.items())
    # ε and L are two floats: their difference errs by half a unit of its own.
    left = np.maximum(largest - question.epsilon, 0.0) * (1.0 + 2.0 * _U)
    with np.errstate(divide="ignore"):
        log = np.log(-np.expm1(-left))
    rounded = log + 8.0 * _U * (1.0 + np.where(left > 0.0, np.abs(log), 0.0))
    result: FloatArray = np.minimum(rounded + rounds * excess * (1.0 + 16.0 * _U), 0.0)
    return result
