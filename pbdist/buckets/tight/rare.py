"""Losses that are infinite, or rare and far above all others, told apart from the rest of a composition.

A rare loss far above the others can be tilted into sight only where the others are tilted out of it. So δ is cut in
two, Q being the outcomes of the composition with at least one far factor: H(A‖B; ε) is a sum over outcomes, hence that
over Q and that over the others, which are a composition of sub-measures like any other.

*Over Q, from above.* Change the leaf (step 2 of Theorem 2 in ``docs/theory.md``: P_B is lowered, outcomes without P_A
are dropped): below some floor P_B becomes at most e^-floor P_A, and of infinite, unknown or endless losses 0. With M
and I the sums of a leaf, of everything and of its far part, a sum over Q is Π M - Π (M - I), which rises in every M and
I, so that upper values give an upper one and lower values a lower one. By it, for any s > 1,

    Σ_Q (a - e^ε b)_+ = A(Q) - e^ε B(Q) + Σ_Q (e^ε b - a)_+
                     <= A(Q) - e^ε B(Q) + (s-1)^(s-1) / s^s e^(sε) Σ_Q a e^{-sL},

since (e^y - 1)_+ <= (s-1)^(s-1) / s^s e^{sy} for y = ε - L, the ratio being largest at e^-y = (s-1)/s. A computed loss
that may be off by η is taken as L - η there. *From below*: A(Q) - e^ε B(Q), Q being an event (Theorem 8 in
``docs/tight.md``), which is disjoint from those of the rest.

*The rest, from above.* Its infinite losses weigh at most M (1 - e^-ρ), as in Theorem 9, and its finite ones count for
at most Π E_A e^{θL} e^{-θε} θ^θ/(1+θ)^{1+θ} for any θ > 0 (as in Theorem 14), or nothing where ε exceeds them all:
often so little against the two other parts that nothing needs to be composed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from pbdist.buckets.tight.profile import LossProfile
from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, LossMasses, MassBounds, ScaledLossMasses
from pbdist.types import BoolArray, Direction, FloatArray, IntArray

__all__ = ["FarLosses", "NearOutcomes", "far_losses", "first_far_loss"]

#: A mass that is not 0 counts as at least this in an upper value.
_SMALLEST = 1e-290
#: A gap of so many standard deviations tells far losses from the others, if it is among so many of the largest losses.
_GAP, _MOST_FAR = 8.0, 64
#: Logarithm of the largest mass that they may have.
_LARGEST_RARE = -7.0
#: Ratio of one rate of Chernoff's bound to the next, how many at most, and what the largest may be worth, nats.
_RATIO, _MOST_RATES, _DEEPEST = 1.1, 160, 750.0
#: Rates of the bound on what Q has below ε, as multiples of one divided by a composition's standard deviation.
_DEVIATIONS = 5.0
#: Largest product of such a rate and a far loss.
_STEEPEST = 400.0
#: Cells of the losses that are no atoms.
_MOST_CELLS = 4096
#: Exponents are cut at this size.
_LARGEST_RATE = 1e200


def first_far_loss(profile: LossProfile) -> float:
    """Return a loss between the rare ones far above all others, single outcomes, and these; infinite if there is none.

    Any value is sound.
    """
    loss = profile.loss[-_MOST_FAR:]
    if loss.size < 2 or not math.isfinite(float(loss[-1])):
        return math.inf
    gaps = np.diff(loss)
    place = int(np.argmax(gaps))
    above = slice(profile.loss.size - loss.size + place + 1, None)
    single = bool(np.all(profile.lower[above] == profile.upper[above]))
    rare = float(np.logaddexp.reduce(profile.log_a[above])) < _LARGEST_RARE
    deviation = math.sqrt(profile.cumulant(0.0)[2])
    if not single or not rare or float(gaps[place]) <= _GAP * deviation or float(loss[place + 1]) <= 0.0:
        return math.inf
    return 0.5 * float(loss[place] + loss[place + 1])


@dataclass(frozen=True)
class NearOutcomes(ElementaryPair):
    """A pair without its atoms of losses above `far`, in one direction: the (A, B) or the (B, A) of a pair.

    Parameters
    ----------
    pair : ElementaryPair
    far : float
        Nats.
    far_mass : float
        About the P_A mass that is missing.
    """

    pair: ElementaryPair
    far: float
    far_mass: float

    @property
    def outcomes(self) -> int:
        """Those of the pair."""
        return self.pair.outcomes

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of (A, B)."""
        return self.scaled_loss_masses(edges).masses

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses in the direction asked for, the far atoms dropped."""
        masses = self.pair.scaled_loss_masses(edges, direction)
        return _chosen(masses, ~_is_far(masses, self.far))

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the pair, which bounds that of its part."""
        return self.pair.log_tail_moment(tilt, loss, direction)

    def rough_log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """That of the pair, which bounds that of its part."""
        return self.pair.rough_log_tail_moment(tilt, loss, direction)


def _is_far(masses: ScaledLossMasses, far: float) -> BoolArray:
    loss = masses.masses.atom_loss
    return (loss > far) & (loss < np.inf)


def _chosen(masses: ScaledLossMasses, kept: BoolArray) -> ScaledLossMasses:
    """Keep some of the atoms."""
    plain = masses.masses
    if np.all(kept):
        return masses
    return replace(
        masses,
        masses=replace(
            plain,
            atom_loss=plain.atom_loss[kept],
            atoms_a=MassBounds(plain.atoms_a.lower[kept], plain.atoms_a.upper[kept]),
            atoms_b=MassBounds(plain.atoms_b.lower[kept], plain.atoms_b.upper[kept]),
        ),
        atoms_log_scale_a=masses.atoms_log_scale_a[kept],
        atoms_log_scale_b=masses.atoms_log_scale_b[kept],
    )


@dataclass(frozen=True, eq=False)
class FarLosses:
    """Sums over one direction of a round; what is a logarithm or a rate adds up under composition.

    A rate is -ln(1 - I/M) for a part I of a total M, so that after composition the outcomes with a factor in that part
    weigh M (1 - e^-ρ), which rises in all M and I. Sides are given by name.

    Attributes
    ----------
    log_a_upper, log_a_lower, log_b_upper, log_b_lower : float
        Totals; the last one without what has a loss lower than the lowest that is looked at.
    far_a_upper, far_a_lower, far_b_upper, far_b_lower : float
        Rates of the far losses.
    infinite_upper, infinite_lower : float
        Rates of the infinite losses: in the lower value of those that B surely lacks.
    falling : ndarray, shape (S,)
        Rates s > 1.
    log_falling, far_falling : ndarray, shape (S,)
        Upper values: ln E_A e^{-sL} over finite losses, and the rate of the far ones in it.
    rising, log_rising : ndarray, shape (Θ,)
        θ > 0, and upper values of ln E_A e^{θL} over finite losses that are not far.
    highest : float
        No finite loss that is not far exceeds this.
    """

    log_a_upper: float
    log_a_lower: float
    log_b_upper: float
    log_b_lower: float
    far_a_upper: float
    far_a_lower: float
    far_b_upper: float
    far_b_lower: float
    infinite_upper: float
    infinite_lower: float
    falling: FloatArray
    log_falling: FloatArray
    far_falling: FloatArray
    rising: FloatArray
    log_rising: FloatArray
    highest: float

    @property
    def uncertain(self) -> bool:
        """Whether nothing is known from below of a mass at infinity that is counted from above."""
        return self.infinite_upper > 0.0 and self.infinite_lower == 0.0

    def log_infinite_upper(self, rounds: IntArray) -> FloatArray:
        """Upper value of the logarithm of the P_A mass of infinite losses, shape (R,)."""
        r = rounds.astype(np.float64)
        return _log_share(r * self.log_a_upper, r * self.infinite_upper, 1.0)

    def log_far_upper(self, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
        """Upper bound of ln Σ_Q (a - e^ε b)_+, shape (R, E)."""
        r = rounds.astype(np.float64)[:, None]
        log_a = _log_share(r * self.log_a_upper, r * self.far_a_upper, 1.0)
        if self.far_a_upper == 0.0:
            return np.full((rounds.size, epsilon.size), -np.inf)
        log_b = epsilon + _log_share(r * self.log_b_lower, r * self.far_b_lower, -1.0)
        log_b -= 4.0 * UNIT_ROUNDOFF * np.abs(epsilon)
        # (e^y - 1) e^-sy is at most (s-1)^(s-1) / s^s.
        s = self.falling
        largest = (s - 1.0) * np.log(s - 1.0) - s * np.log(s)
        r, e = r[..., None], epsilon[:, None]
        below = np.min(
            _log_share(r * self.log_falling, r * self.far_falling, 1.0)
            + s * e
            + largest
            + 32.0 * UNIT_ROUNDOFF * (s * (np.abs(e) + np.log(s)) + 1.0),
            axis=-1,
        )
        result = np.minimum(np.logaddexp(_log_difference(log_a, log_b), below), log_a)
        return _outwards(result, 1.0)

    def log_far_lower(self, rounds: IntArray, epsilon: FloatArray, *, infinite: bool = False) -> FloatArray:
        """Lower bound of ln (A(Q) - e^ε B(Q)), -inf where that is not positive, shape (R, E).

        With the `infinite` losses, Q is what has a far or an infinite factor.
        """
        r = rounds.astype(np.float64)[:, None]
        rate = self.far_a_lower + (self.infinite_lower if infinite else 0.0)
        log_a = _log_share(r * self.log_a_lower, r * rate, -1.0)
        log_b = epsilon + _log_share(r * self.log_b_upper, r * self.far_b_upper, 1.0)
        log_b += 4.0 * UNIT_ROUNDOFF * np.abs(epsilon)
        return _outwards(_log_difference(np.broadcast_to(log_a, log_b.shape), log_b), -1.0)

    def log_infinite_lower(self, rounds: IntArray) -> FloatArray:
        """Lower value of the logarithm of the P_A mass of what B surely lacks, shape (R,)."""
        r = rounds.astype(np.float64)
        return _log_share(r * self.log_a_lower, r * self.infinite_lower, -1.0)

    def log_near_upper(self, rounds: IntArray, epsilon: FloatArray) -> FloatArray:
        """Upper bound of ln Σ (a - e^ε b)_+ over the outcomes with finite losses only, none far, shape (R, E).

        Chernoff's: (1 - e^-y)_+ is at most e^{θy} θ^θ/(1+θ)^{1+θ}.
        """
        r, e = rounds.astype(np.float64)[:, None], epsilon
        result = np.full((rounds.size, epsilon.size), np.inf)
        for theta, log_moment in zip(self.rising.tolist(), self.log_rising.tolist(), strict=True):
            factor = -theta * math.log1p(1.0 / theta) - math.log1p(theta)
            slack = 16.0 * UNIT_ROUNDOFF * (np.abs(r * log_moment) + theta * np.abs(e) + theta + 8.0)
            np.minimum(result, r * log_moment - theta * e + factor + slack, out=result)
        result[e >= r * self.highest + 8.0 * UNIT_ROUNDOFF * np.abs(r * self.highest)] = -np.inf
        return result


def far_losses(
    parts: Sequence[tuple[ElementaryPair, int, LossProfile, float]],
    direction: Direction,
    rounds: IntArray,
    epsilon: FloatArray,
) -> FarLosses:
    """Sum up a round.

    Parameters
    ----------
    parts : sequence of (ElementaryPair, int, LossProfile, float)
        Pairs, how often each occurs, their pictures, and the loss from which on atoms are far.
    direction : Direction
    rounds : ndarray of int64
        Numbers of rounds for which the sums are to do well.
    epsilon : ndarray
        The same of ε, nats.
    """
    variance = sum(count * profile.capped(far).cumulant(0.0)[2] for _, count, profile, far in parts)
    deviation = np.sqrt(np.geomspace(float(rounds.min()), float(rounds.max()), 5) * max(variance, 1e-30))
    # A far loss must not count for less than floats tell.
    largest = max([float(profile.loss[-1]) for _, _, profile, far in parts if far < math.inf], default=1.0)
    falling = np.unique(1.0 + np.minimum(_DEVIATIONS / deviation, _STEEPEST / largest))
    positive = epsilon[epsilon > 0.0]
    rising = np.zeros(0)
    if positive.size:
        low, high = 0.5 / float(positive.max()), _DEEPEST / float(positive.min())
        rising = np.geomspace(low, high, min(2 + int(math.log(high / low) / math.log(_RATIO)), _MOST_RATES))
    sums: list[tuple[int, FarLosses]] = []
    for pair, count, profile, far in parts:
        edges = _edges(profile, far)
        masses = pair.scaled_loss_masses(edges, direction)
        sums.append((count, _LeafSums(masses, edges, far, falling, rising).result))
    # What adds up is moved to its side by the rounding of the additions.
    values: dict[str, Any] = {}
    for field in fields(FarLosses):
        if field.name not in {"falling", "rising"}:
            terms = [count * getattr(each, field.name) for count, each in sums]
            rounding = 4.0 * (len(terms) + 2.0) * UNIT_ROUNDOFF * sum(np.abs(term) for term in terms)
            values[field.name] = sum(terms) + (-rounding if field.name.endswith("_lower") else rounding)
    return FarLosses(falling=falling, rising=rising, **values)


class _LeafSums:
    """The sums of one pair: masses moved to their sides, and every sum by its number of terms."""

    def __init__(
        self,
        masses: ScaledLossMasses,
        edges: FloatArray,
        far: float,
        falling: FloatArray,
        rising: FloatArray,
    ) -> None:
        plain = masses.masses
        loss, error = plain.atom_loss, plain.loss_error
        is_far = _is_far(masses, far)
        floor = float(edges[0])
        # Below the floor P_B is lowered to e^-floor times P_A; of what is endless P_B is dropped.
        atoms_known = (loss >= floor) & (loss < np.inf)
        factor = [np.exp(masses.atoms_log_scale_a), np.exp(masses.atoms_log_scale_b)]
        cell_factor = [np.exp(masses.log_scale_a), np.exp(masses.log_scale_b)]
        a = _Sums(plain.atoms_a, factor[0], plain.cells_a, cell_factor[0])
        b = _Sums(plain.atoms_b, factor[1], plain.cells_b, cell_factor[1])
        atoms, cells = np.ones(loss.size, dtype=bool), np.ones(edges.size + 1, dtype=bool)
        last = np.arange(edges.size + 1) == edges.size
        total_a = (a.lower(atoms, cells) + _sum(plain.only_a.lower), a.upper(atoms, cells) + _sum(plain.only_a.upper))
        total_b_upper = b.upper(atoms, cells) + _sum(plain.only_b.upper)
        total_b_lower = b.lower(atoms_known, ~last & (np.arange(edges.size + 1) > 0))
        none = np.zeros(edges.size + 1, dtype=bool)
        infinite_upper = a.upper(loss == np.inf, last) + _sum(plain.only_a.upper)
        slack = 1.0 + (loss.size + edges.size + 64.0) * UNIT_ROUNDOFF

        def log(value: float, side: float) -> float:
            if side < 0.0 and value <= 0.0:
                return -math.inf
            value = max(value, _SMALLEST)
            return math.log(value * slack**side) + side * 8.0 * UNIT_ROUNDOFF * (1.0 + abs(math.log(value)))

        def rate(part: float, total: float, side: float) -> float:
            share = part / total * slack ** (2.0 * side) if total > 0.0 else 0.0
            found = -math.log1p(-share) if share < 1.0 else _LARGEST_RATE
            return min(found * (1.0 + side * 16.0 * UNIT_ROUNDOFF), _LARGEST_RATE)

        # Where each finite loss lies: cells by their ends, atoms by what is computed.
        with np.errstate(divide="ignore"):
            log_atoms = np.log(plain.atoms_a.upper) + masses.atoms_log_scale_a
            log_cells = (np.log(plain.cells_a.upper) + masses.log_scale_a)[:-1]
        finite = loss < np.inf
        lowest = np.concatenate((np.maximum(loss[finite], floor), [floor], edges[:-1])) - error
        weights = np.concatenate((log_atoms[finite], log_cells))
        far_finite = np.concatenate((is_far[finite], np.zeros(edges.size, dtype=bool)))
        all_below = _log_moments(weights, lowest, -falling)
        far_below = _log_moments(weights[far_finite], lowest[far_finite], -falling)
        far_rates = np.array(
            [
                rate(max(math.exp(min(f - every, 0.0)), _SMALLEST), 1.0, 1.0) if f > -math.inf else 0.0
                for f, every in zip(far_below.tolist(), all_below.tolist(), strict=True)
            ]
        )
        near_finite = finite & ~is_far
        highest = np.concatenate((np.maximum(loss[near_finite], floor), edges)) + error
        weights = np.concatenate((log_atoms[near_finite], log_cells))
        there = weights > -np.inf
        self.result = FarLosses(
            log_a_upper=log(total_a[1], 1.0),
            log_a_lower=log(total_a[0], -1.0),
            log_b_upper=log(total_b_upper, 1.0),
            log_b_lower=log(total_b_lower, -1.0),
            far_a_upper=rate(a.upper(is_far, none), total_a[1], 1.0),
            far_a_lower=rate(a.lower(is_far, none), total_a[0], -1.0),
            far_b_upper=rate(b.upper(is_far, none), total_b_upper, 1.0),
            far_b_lower=rate(b.lower(is_far, none), total_b_lower, -1.0),
            infinite_upper=rate(infinite_upper, total_a[1], 1.0),
            infinite_lower=rate(_sum(plain.only_a.lower), total_a[0], -1.0),
            falling=falling,
            log_falling=all_below,
            far_falling=far_rates,
            rising=rising,
            log_rising=_log_moments(weights[there], highest[there], rising),
            highest=float(np.max(highest[there], initial=floor)),
        )


class _Sums:
    """Sums of lower and of upper masses, of atoms and of cells."""

    def __init__(self, atoms: MassBounds, atom_factor: FloatArray, cells: MassBounds, factor: FloatArray) -> None:
        up, down = 1.0 + 16.0 * UNIT_ROUNDOFF, 1.0 - 16.0 * UNIT_ROUNDOFF
        self._lower = (atoms.lower * atom_factor * down, cells.lower * factor * down)
        self._upper = tuple(
            np.where(bounds.upper > 0.0, np.maximum(bounds.upper * scale * up, _SMALLEST), 0.0)
            for bounds, scale in ((atoms, atom_factor), (cells, factor))
        )

    def lower(self, atoms: BoolArray, cells: BoolArray) -> float:
        return _sum(self._lower[0][atoms]) + _sum(self._lower[1][cells])

    def upper(self, atoms: BoolArray, cells: BoolArray) -> float:
        return _sum(self._upper[0][atoms]) + _sum(self._upper[1][cells])


def _sum(values: FloatArray) -> float:
    return math.fsum(np.atleast_1d(values).tolist())


def _edges(profile: LossProfile, far: float) -> FloatArray:
    """Edges for the losses that are no atoms: those of the picture."""
    near = profile.loss <= far
    lower, upper = profile.lower[near], profile.upper[near]
    if not lower.size:
        return np.array([0.0])
    if np.all(lower == upper):
        return np.unique([lower[0], upper[-1]])
    edges = np.unique(np.concatenate((lower, upper)))
    return (
        edges
        if edges.size <= _MOST_CELLS
        else edges[np.unique(np.linspace(0, edges.size - 1, _MOST_CELLS).astype(int))]
    )


def _log_moments(weights: FloatArray, loss: FloatArray, rates: FloatArray) -> FloatArray:
    """Upper values of ln Σ e^{weight + rate · loss}, rate by rate; -inf for an empty sum."""
    if not loss.size:
        return np.full(rates.size, -np.inf)
    found = np.empty(rates.size)
    size = float(np.max(np.abs(loss)))
    terms = float(np.max(np.abs(weights), initial=0.0, where=np.isfinite(weights)))
    for place, rate in enumerate(rates.tolist()):
        exponent = weights + rate * loss
        largest = float(exponent.max())
        if largest == -np.inf:
            found[place] = -np.inf
            continue
        total = largest + math.log(float(np.exp(exponent - largest).sum()))
        found[place] = total + (loss.size + 64.0 + 16.0 * (abs(rate) * size + terms + abs(total))) * UNIT_ROUNDOFF
    return found


def _log_share(log_total: FloatArray, rate: FloatArray, side: float) -> FloatArray:
    """Return ln (M (1 - e^-ρ)), moved to a side."""
    with np.errstate(divide="ignore"):
        result = log_total + np.log(-np.expm1(-rate))
    return result + side * 64.0 * UNIT_ROUNDOFF * (
        1.0 + np.abs(log_total) + np.where(np.isfinite(result), np.abs(result), 0.0)
    )


def _log_difference(log_a: FloatArray, log_b: FloatArray) -> FloatArray:
    """Return ln (a - b), -inf where that is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(log_b == -np.inf, -np.inf, log_b - log_a)
        return np.where(ratio < 0.0, log_a + np.log(-np.expm1(np.minimum(ratio, 0.0))), -np.inf)


def _outwards(value: FloatArray, side: float) -> FloatArray:
    return value + side * 64.0 * UNIT_ROUNDOFF * (1.0 + np.where(np.isfinite(value), np.abs(value), 0.0))
