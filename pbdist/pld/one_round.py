"""δ of one round of one pair at every ε, from its exact masses on bins that end at these ε: no lattice, no loss."""

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair
from pbdist.types import BoolArray, Direction, FloatArray

_U = UNIT_ROUNDOFF


def log_delta_above(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Return natural logarithms of upper bounds on δ of one round at increasing ε, shape (E,).

    Guaranteed: at least δ. Let h bound the error of losses. The events S whose computed loss is above ε - h are split
    off; all others have losses of at most ε and add nothing to δ = Σ max(0, P_A - e^ε P_B). Those in S have losses of
    at least ε - 2h, so that P_A - e^(ε-2h) P_B is at least 0 for each, and at least P_A - e^ε P_B. The sum over S of
    upper masses of A and lower masses of B is therefore an upper bound. Each logarithm is known to a few units of
    rounding of its size, which the last line adds.
    """
    pair = pair.dominating
    error = _loss_error(pair, epsilon, direction)
    edges = epsilon - error
    log_a, log_b, starts = _events(pair, edges, direction, above=True)
    seen = _seen(starts, edges) & (log_a > -np.inf)
    size = np.where(log_a > -np.inf, np.abs(log_a), 0.0)
    odds = (epsilon - 2.0 * error)[:, None] + np.where(seen, log_b - np.where(seen, log_a, 0.0), -np.inf)
    slack = 8.0 * _U * (1.0 + 2.0 * size + epsilon[:, None])
    with np.errstate(divide="ignore"):
        terms = np.where(seen, log_a + np.log(-np.expm1(np.minimum(odds - slack, 0.0))), -np.inf)
    return log_sum_above(terms, float(size.max(initial=0.0)))


def log_delta_below(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> FloatArray:
    """Return natural logarithms of lower bounds on δ of one round at increasing ε, shape (E,).

    Guaranteed: at most δ, which is at least Σ max(0, P_A - e^ε P_B) over any disjoint events: lower masses of A and
    upper ones of B of the bins and atoms above ε.
    """
    log_a, log_b, starts = _events(pair, epsilon, direction, above=False)
    seen = _seen(starts, epsilon) & (log_a > -np.inf)
    size = np.where(log_a > -np.inf, np.abs(log_a), 0.0) + np.where(np.isfinite(log_b), np.abs(log_b), 0.0)
    odds = epsilon[:, None] + np.where(seen, log_b - np.where(seen, log_a, 0.0), 0.0)
    slack = 8.0 * _U * (1.0 + size + epsilon[:, None])
    with np.errstate(divide="ignore"):
        terms = np.where(seen, log_a + np.log(-np.expm1(np.minimum(odds + slack, 0.0))), -np.inf)
    largest = np.maximum(terms.max(axis=-1), -1e300)
    with np.errstate(divide="ignore"):
        total = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=-1))
    rounding = 16.0 * _U * (terms.shape[-1] + float(size.max(initial=0.0)) + np.abs(np.maximum(total, -1e300)))
    return np.where(total > -1e299, np.minimum(total - rounding, 0.0), -np.inf)


def _seen(starts: FloatArray, edges: FloatArray) -> BoolArray:
    """Which events lie above each edge, shape (E, n): bins from it on, and what is above it."""
    seen = starts >= edges[:, None]
    seen[:, edges.size :] &= starts[edges.size :] > edges[:, None]
    return np.asarray(seen)


def _events(
    pair: ElementaryPair, edges: FloatArray, direction: Direction, *, above: bool
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return ln P_A, ln P_B and the loss, or the lower end, of the bins above the edges, of atoms, and of what reveals.

    Upper values of A and lower ones of B, or the other way round.
    """
    scaled = pair.scaled_loss_masses(edges, direction)
    masses = scaled.masses
    own, other = ("upper", "lower") if above else ("lower", "upper")
    only = getattr(masses.only_a, own)
    with np.errstate(divide="ignore"):
        log_a = np.concatenate(
            (
                np.log(getattr(masses.bins_a, own)[1:]) + scaled.log_scale_a[1:],
                np.log(getattr(masses.atoms_a, own)) + scaled.atoms_log_scale_a,
                np.log(only),
            )
        )
        log_b = np.concatenate(
            (
                np.log(getattr(masses.bins_b, other)[1:]) + scaled.log_scale_b[1:],
                np.log(getattr(masses.atoms_b, other)) + scaled.atoms_log_scale_b,
                np.full(only.size, -np.inf),
            )
        )
    return log_a, log_b, np.concatenate((edges, masses.atom_loss, np.full(only.size, np.inf)))


def log_sum_above(terms: FloatArray, size: float) -> FloatArray:
    """Return ln Σ e^term along the last axis, rounded up; each term may be off by 8u (1 + size)."""
    largest = np.maximum(terms.max(axis=-1), -1e300)
    with np.errstate(divide="ignore"):
        total = largest + np.log(np.exp(terms - largest[..., None]).sum(axis=-1))
    count = terms.shape[-1]
    rounded = total + 16.0 * _U * (count + size + np.abs(np.maximum(total, -1e300)))
    # What is no number bounds nothing.
    return np.where(total <= -1e299, -np.inf, rounded)


def _loss_error(pair: ElementaryPair, epsilon: FloatArray, direction: Direction) -> float:
    """Return a bound on the error of losses that also holds for edges moved by it."""
    error = pair.scaled_loss_masses(epsilon, direction).masses.loss_error
    while True:
        moved = pair.scaled_loss_masses(epsilon - 2.0 * error, direction).masses.loss_error
        if moved <= 2.0 * error:
            return 2.0 * error + 4.0 * _U * float(epsilon.max())
        error = moved
