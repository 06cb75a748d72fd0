"""Pairs of finite distributions: randomized response, the worst case of (ε, δ), and measured histograms."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from numbers import Integral, Real
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import (
    LOSSES,
    Domain,
    Form,
    between,
    mechanism,
    parameter,
    probability,
    whole,
)
from pbdist.mechanisms.masses import SMALLEST_FLOAT, UNIT_ROUNDOFF, LossMasses, MassBounds, ScaledLossMasses, rounded_up
from pbdist.mechanisms.outcomes import masses_of_outcomes
from pbdist.mechanisms.pair import BoundedPair, ElementaryPair, NoiseOrder, ScaledPair, ordered
from pbdist.types import Adjacency, BoolArray, Direction, FloatArray, IntArray

#: How far from 1 the probabilities of a histogram may sum.
_SUM_TOLERANCE = 1e-9

#: Scaled masses below this are given with a factor of their own.
_FAINT_MASS = 1e-260
#: Histograms of more outcomes are composed on lattices alone.
_FEW_OUTCOMES = 64


@mechanism
class RandomizedResponse(BoundedPair):
    """Randomized response: the answer is true with probability p (Meiser & Mohammadi 2018, section 5.5).

    Examples
    --------
    >>> from pbdist import RandomizedResponse, privacy_bounds
    >>> found = privacy_bounds(RandomizedResponse(p=0.6), compositions=1, epsilon=0.0)
    >>> round(found.delta_upper.item(), 6)  # p - (1 - p)
    0.2
    """

    aliases = ("rr",)
    does = "A yes-or-no question is answered truthfully with probability p, else with a lie."
    assumes = "Each answer is drawn afresh and independently of all others."

    symmetric = True

    p: float = parameter(
        probability,
        "the probability of the true answer",
        aliases=(*LOSSES, "probability", "truth", "q"),
        hint="p is the probability of the truth, e^ε / (1 + e^ε) for the ε of one answer",
        example=[0.51, 0.55, 0.6],
        sized=True,
    )

    @classmethod
    def noise_amount(cls, form: Mapping[str, Any]) -> tuple[float, str]:
        """Return the probability of a lie, or of the truth where that is rarer."""
        return min(form["p"], 1.0 - form["p"]), "probability of a lie"

    @property
    def order(self) -> NoiseOrder | None:
        """By the probability of the rarer answer."""
        return ordered(self, RandomizedResponse, min(Fraction(self.p), 1 - Fraction(self.p)))

    def cost_class(self) -> tuple[float, ...]:
        """How far p is from 1/2 and from 1."""
        return abs(self.p - 0.5), 1.0 - self.p

    @property
    def identical(self) -> bool:
        """Only for p = 1/2."""
        return self.p == 0.5

    @property
    def exact_outcomes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The truth and the lie."""
        truth, lie = Fraction(self.p), 1 - Fraction(self.p)
        return (truth, lie), (lie, truth)

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Two atoms, at plus and minus ln(p / (1 - p))."""
        truth, lie = self.p, 1.0 - self.p
        return masses_of_outcomes(
            edges, np.array([truth, lie]), np.array([lie, truth]), error_a=UNIT_ROUNDOFF, error_b=UNIT_ROUNDOFF
        )

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        """The same atoms; where p is too faint for a float64 ratio, with ln p as factor and as loss.

        1 - p is never that faint: the smallest is 2^-53. ln p is off by 8u |ln p|, and ln(1 - p) is below 1e-260.
        """
        if not 0.0 < self.p < _FAINT_MASS:
            return super()._scaled_masses(edges)
        log_p = float(np.log(self.p))
        error = 9.0 * abs(log_p) * UNIT_ROUNDOFF
        atoms = MassBounds.around(np.ones(2), np.array([error, 0.0]))
        masses = LossMasses.of_atoms(edges, np.array([log_p, -log_p]), atoms, atoms.reversed(), error)
        log_scale = np.array([log_p, 0.0])
        return ScaledLossMasses.of_atoms(masses, log_scale, log_scale[::-1].copy())

    def log_moment_above(self, tilt: float) -> float | None:
        """Of p^(1 + t) (1 - p)^-t + (1 - p)^(1 + t) p^-t, in which the likelier answer stands for p."""
        # Below a half 1 - p is rounded, and p is not.
        lie, truth = (self.p, 1.0 - self.p) if self.p < 0.5 else (1.0 - self.p, self.p)
        if lie == 0.0:
            return None
        power = tilt * (math.log(truth) - math.log(lie))
        slack = 32.0 * UNIT_ROUNDOFF * (1.0 + (1.0 + tilt) * -math.log(lie))
        return power + math.log(truth + lie * math.exp(-2.0 * power)) + slack

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        if self.p in (0.0, 1.0):
            return -math.inf
        return rounded_up(rounded_up(abs(math.log(self.p) - math.log1p(-self.p))))


@mechanism
class ApproximateDP(ScaledPair, BoundedPair):
    """The worst pair that any (ε, δ)-ADP mechanism can have, M_{ε,δ}: whatever is shown for it holds for all of them.

    Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan 2016, Lemma 3.2; Meiser & Mohammadi 2018, section 2.1. With
    probability δ the input is revealed, otherwise it is randomized response with odds e^ε.

    Examples
    --------
    >>> from pbdist import ApproximateDP, epsilon_bounds
    >>> found = epsilon_bounds(ApproximateDP(epsilon=0.1, delta=1e-8), compositions=100, delta=1e-5)
    >>> round(found.epsilon_upper.item(), 3)  # basic composition gives 10
    4.33
    """

    aliases = ("adp",)
    does = "Any mechanism that is (ε, δ)-differentially private, with the ε and δ of one use."
    assumes = (
        "Each use meets the ε and δ given. That is taken on trust. The bounds are those of the worst mechanism that"
        " does; a particular one may be better."
    )

    noise_parameters = ("epsilon",)
    symmetric = True

    epsilon: float = parameter(
        between(0.0, 1e9), "the ε of one use", unit="nats", example=[0.01, 0.1], falls_with_noise=True
    )
    delta: float = parameter(probability, "the δ of one use", example=1e-9)

    @property
    def order(self) -> NoiseOrder | None:
        """By ε and by δ, which fall with the noise."""
        return ordered(self, ApproximateDP, -Fraction(self.epsilon), -Fraction(self.delta))

    @property
    def identical(self) -> bool:
        """Only for ε = 0 and δ = 0."""
        return self.epsilon == 0.0 and self.delta == 0.0

    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        """Atoms at exactly plus and minus ε, and mass δ that only one side has.

        e^-ε is the factor of the fainter atoms where it is small.
        """
        small = math.exp(-self.epsilon)
        faint = scaled and small < _FAINT_MASS
        rest = 1.0 - self.delta
        # 1 / (1 + e^-ε) and its complement, without overflow.
        atoms = np.array([rest / (1.0 + small), rest * (1.0 if faint else small) / (1.0 + small)])
        error = 16.0 * UNIT_ROUNDOFF
        revealed = MassBounds.around(self.delta, 0.0, occupied=self.delta > 0.0)
        common = self.delta < 1.0
        masses = LossMasses.of_atoms(
            edges,
            np.array([self.epsilon, -self.epsilon]),
            MassBounds.around(atoms, error, occupied=common),
            MassBounds.around(atoms[::-1], error, occupied=common),
        )
        log_scale = np.array([0.0, -self.epsilon if faint else 0.0])
        masses = replace(masses, only_a=revealed, only_b=revealed)
        return ScaledLossMasses.of_atoms(masses, log_scale, log_scale[::-1].copy())

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return -math.inf if self.delta == 1.0 else self.epsilon


_MASSES = Domain(lambda _, name, value: _distribution(name, value), Form.MASSES)


@mechanism
class Histogram(ElementaryPair):
    """Two measured or tabulated distributions over the same outcomes, A and B.

    Whole numbers of integer type are counts and are divided by their sum; floats are probabilities, which must sum to 1
    within 1e-9 and are then taken as the masses they are; δ is at most 1 all the same. Zeros are allowed on either
    side.

    Examples
    --------
    >>> from pbdist import Histogram, privacy_bounds
    >>> times = Histogram(p=[30, 50, 20], q=[20, 50, 30])  # how often each outcome was counted
    >>> round(privacy_bounds(times, compositions=1, epsilon=0.0).delta_upper.item(), 6)
    0.1
    """

    aliases = ("measured",)
    does = "What is seen follows one of two measured or tabulated distributions."
    assumes = (
        "The two distributions are taken as they were given. Whether what was measured is what an observer sees, how"
        " exact the measurement is, and whether these two inputs are the worst ones, is not checked. A round must be"
        " independent of the others."
    )
    checked_together = ("p", "q")

    p: tuple[int, ...] | tuple[float, ...] = parameter(
        _MASSES, "the counts or probabilities of the outcomes of A", example=(9600, 310, 90), columns=("pair_p",)
    )
    q: tuple[int, ...] | tuple[float, ...] = parameter(
        _MASSES, "the counts or probabilities of the outcomes of B", example=(9500, 400, 100), columns=("pair_q",)
    )

    def check(self) -> None:
        """Refuse distributions over different outcomes."""
        if len(self.p) != len(self.q):
            raise InvalidInputError(
                f"Histogram.q: expected as many outcomes as p has, {len(self.p)}, got {len(self.q)}"
            )

    @property
    def outcomes(self) -> int:
        """All of them."""
        return len(self.p)

    @property
    def identical(self) -> bool:
        """Whether every outcome has the same mass in both, as exact fractions."""
        return _same_distribution(self.p, self.q)

    @property
    def neutral(self) -> bool:
        """Whether both are the same, and their masses sum to exactly 1."""
        return self.identical and not any(self.mass_excess)

    @property
    def total_mass(self) -> tuple[float, float]:
        """Upper values of the sums of the masses."""
        excess_a, excess_b = self.mass_excess
        return _upper_total(excess_a), _upper_total(excess_b)

    @cached_property
    def mass_excess(self) -> tuple[Fraction, Fraction]:
        """By how much the masses of A and of B exceed 1, exactly."""
        return _excess(self.p), _excess(self.q)

    @cached_property
    def exact_outcomes(self) -> tuple[tuple[Fraction, Fraction], ...] | None:
        """All of them, where they are a few."""
        if len(self.p) > _FEW_OUTCOMES:
            return None
        return tuple(zip(_fractions(self.p), _fractions(self.q), strict=True))

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """One atom an outcome; correctly rounded masses, and losses also where a mass is faint."""
        a, b = _masses(self.p), _masses(self.q)
        faint = (a > 0.0) & (b > 0.0) & (np.minimum(a, b) < _FAINT_MASS)
        known_loss, known_error = np.full(a.size, np.nan), np.zeros(a.size)
        if faint.any():
            log_a, log_b = _log_masses(self.p, faint), _log_masses(self.q, faint)
            known_loss[faint] = log_a - log_b
            # Each logarithm errs by 9u of its size, and their difference by u.
            known_error[faint] = 16.0 * UNIT_ROUNDOFF * (np.abs(log_a) + np.abs(log_b))
        return masses_of_outcomes(
            edges,
            a,
            b,
            error_a=UNIT_ROUNDOFF,
            error_b=UNIT_ROUNDOFF,
            known_loss=known_loss if faint.any() else None,
            known_error=known_error if faint.any() else None,
        )

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        """The same atoms; a faint mass is given as 1 with its logarithm as the factor's, off by 16u relatively."""
        masses = self.loss_masses(edges)
        a, b = _masses(self.p), _masses(self.q)
        # The atoms are the outcomes that both have: every faint one has a known loss.
        both = (a > 0.0) & (b > 0.0)
        atoms_a, log_a = _split_off(masses.atoms_a, a[both], self.p, both)
        atoms_b, log_b = _split_off(masses.atoms_b, b[both], self.q, both)
        return ScaledLossMasses.of_atoms(replace(masses, atoms_a=atoms_a, atoms_b=atoms_b), log_a, log_b)


def _split_off(
    masses: MassBounds, computed: FloatArray, values: tuple[int, ...] | tuple[float, ...], both: BoolArray
) -> tuple[MassBounds, FloatArray]:
    """Return the masses of outcomes, the faint ones as 1, and the logarithms of their factors."""
    faint, log_scale = computed < _FAINT_MASS, np.zeros(computed.size)
    if not faint.any():
        return masses, log_scale
    log_scale[faint] = _log_masses(values, np.flatnonzero(both)[faint])
    ones = MassBounds.around(np.ones(computed.size), 16.0 * UNIT_ROUNDOFF * np.abs(log_scale))
    return (
        MassBounds(np.where(faint, ones.lower, masses.lower), np.where(faint, ones.upper, masses.upper)),
        log_scale,
    )


def _log_masses(values: tuple[int, ...] | tuple[float, ...], chosen: BoolArray | IntArray) -> FloatArray:
    """Natural logarithms of some masses that are not 0, however small, off by 9u relatively.

    A mass is taken as a fraction in (1/4, 2) and a power of 2. For a float that is exact, for subnormal ones too; the
    fraction of a count is rounded once, which moves its logarithm by 1.1u. The logarithm of the fraction is off by 8u
    of its size, which is below 1.4, and the product with ln 2 by 2u of its own: a faint mass has a power below -800.
    """
    positions = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
    indices = positions.tolist()
    if _is_counts(values):
        total = int(sum(values))
        shifts = [total.bit_length() - int(values[index]).bit_length() for index in indices]
        fraction = np.array(
            [(int(values[index]) << shift) / total for index, shift in zip(indices, shifts, strict=True)]
        )
        exponent = -np.array(shifts, dtype=np.float64)
    else:
        fraction, exponent = np.frexp(np.array([values[index] for index in indices], dtype=np.float64))
    return np.asarray(np.log(fraction) + exponent * math.log(2.0))


def _distribution(field: str, values: Any) -> tuple[int, ...] | tuple[float, ...]:
    plain = values.tolist() if isinstance(values, np.ndarray) else values
    if isinstance(plain, str | Mapping) or not isinstance(plain, Iterable):
        raise InvalidInputError(
            f"Histogram.{field}: expected a sequence of counts or probabilities, got {shown(values)}"
        )
    items = list(plain)
    for position, item in enumerate(items):
        if isinstance(item, bool) or not isinstance(item, Real) or not _is_mass(item):
            raise InvalidInputError(
                f"Histogram.{field}[{position}]: expected a count or probability of at least 0, got {shown(item)}"
            )
    if all(isinstance(item, Integral) for item in items):
        counts = tuple(int(item) for item in items)
        if sum(counts) == 0:
            raise InvalidInputError(f"Histogram.{field}: expected counts that are not all 0, got {len(counts)} zeros")
        # A single count is a probability of 1, by whichever type it is given.
        return counts if sum(counts) > 1 else tuple(float(count) for count in counts)
    for position, item in enumerate(items):
        if item > 1 + _SUM_TOLERANCE:
            raise InvalidInputError(
                f"Histogram.{field}[{position}]: expected counts (whole numbers) or probabilities, got {shown(item)}"
            )
    # -0.0 becomes 0.0: equal histograms have one form.
    probabilities = tuple(float(item) + 0.0 for item in items)
    total = math.fsum(probabilities)
    if abs(total - 1.0) > _SUM_TOLERANCE:
        raise InvalidInputError(
            f"Histogram.{field}: expected counts (whole numbers) or probabilities that sum to 1 within"
            f" {_SUM_TOLERANCE:g}, got a sum of {total!r}"
        )
    return probabilities


def _is_mass(value: Real) -> bool:
    """Whether a number is finite and at least 0; a whole number may be larger than any float."""
    return (isinstance(value, Integral) or math.isfinite(value)) and value >= 0  # type: ignore[operator]


def _is_counts(values: tuple[int, ...] | tuple[float, ...]) -> bool:
    return isinstance(values[0], int)


def _masses(values: tuple[int, ...] | tuple[float, ...]) -> FloatArray:
    if not _is_counts(values):
        return np.array(values, dtype=np.float64)
    total = int(sum(values))
    # Division of Python ints is correctly rounded however large they are; a mass that underflows is not 0.
    return np.array([max(count / total, SMALLEST_FLOAT) if count else 0.0 for count in values], dtype=np.float64)


def _fractions(values: tuple[int, ...] | tuple[float, ...]) -> list[Fraction]:
    total = _total(values)
    return [Fraction(value) / total for value in values]


def _total(values: tuple[int, ...] | tuple[float, ...]) -> int:
    """Return what the values of a distribution are divided by."""
    return int(sum(values)) if _is_counts(values) else 1


def _same_distribution(p: tuple[int, ...] | tuple[float, ...], q: tuple[int, ...] | tuple[float, ...]) -> bool:
    """Whether two sequences, each of counts or of probabilities, stand for exactly the same masses."""
    total_p, total_q = _total(p), _total(q)
    # Whole numbers are compared as they are, which is quicker.
    exact = Fraction if total_p == 1 or total_q == 1 else int
    return all(exact(x) * total_q == exact(y) * total_p for x, y in zip(p, q, strict=True))


def _excess(values: tuple[int, ...] | tuple[float, ...]) -> Fraction:
    return Fraction(0) if _is_counts(values) else sum(map(Fraction, values), Fraction(-1))


def _upper_total(excess: Fraction) -> float:
    return 1.0 if excess <= 0 else math.nextafter(float(1 + excess), math.inf)


#: Up to here every number of answers is a float64.
_MAX_ANSWERS = 2**53


@mechanism
class KaryRandomizedResponse(ElementaryPair):
    """One of k answers: the truth with probability p, each other answer with probability (1 - p) / (k - 1).

    A and B are the answers of two individuals whose truths differ: all such pairs are the same up to the names of the
    answers, so that this is the exact worst case (Theorem 40 of docs/theory.md). For k = 2 it is `RandomizedResponse`.
    Source: Kairouz, Bonawitz & Ramage 2016, "Discrete Distribution Estimation under Local Privacy".

    Examples
    --------
    >>> from pbdist import KaryRandomizedResponse, privacy_bounds
    >>> answer = KaryRandomizedResponse(p=0.4754, k=4)
    >>> round(privacy_bounds(answer, compositions=1, epsilon=0.0).delta_upper.item(), 4)  # p - (1 - p) / 3
    0.3005
    """

    aliases = ("krr", "k-rr", "grr", "generalizedrandomizedresponse")
    does = (
        "A question with k answers is answered truthfully with probability p, else with another answer, each as likely."
    )
    assumes = (
        "Each answer is drawn afresh and independently of all others. Neighbouring data sets differ in the true"
        " answer of one individual."
    )

    symmetric = True
    adjacency = Adjacency.REPLACE_ONE

    p: float = parameter(
        probability,
        "the probability of the true answer",
        aliases=(*LOSSES, "probability", "truth", "q", "noise_parameter", "flip_probability"),
        hint="p is the probability of the truth: e^ε / (e^ε + k - 1) for the ε of one answer, and 1 - f (k - 1) / k for"
        " an answer drawn with probability f",
        example=[0.27, 0.3, 0.35],
        sized=True,
    )
    k: int = parameter(
        whole(2, _MAX_ANSWERS),
        "the number of answers",
        aliases=("answers", "num_buckets", "buckets", "d", "n"),
        example=4,
    )

    @classmethod
    def noise_amount(cls, form: Mapping[str, Any]) -> tuple[float, str]:
        """Return the probability of a lie, or of the true answer where that is rarer than each false one."""
        rare = form["p"] * form["k"] < 1.0
        return (form["p"], "probability of the true answer") if rare else (1.0 - form["p"], "probability of a lie")

    @property
    def order(self) -> NoiseOrder | None:
        """By how far p is from 1/k, of equally many answers and of truths on the same side of it."""
        distance = Fraction(self.p) - Fraction(1, self.k)
        return ordered(self, KaryRandomizedResponse, -abs(distance), family=(self.k, distance < 0))

    @property
    def identical(self) -> bool:
        """Only where the truth is as likely as each other answer, p = 1/k exactly."""
        return Fraction(self.p) * self.k == 1

    @property
    def largest_loss(self) -> float:
        """The ε of one answer, nats, not rounded outwards; infinite for p = 0 or 1."""
        return abs(self._loss()[0]) if 0.0 < self.p < 1.0 else math.inf

    @property
    def exact_outcomes(self) -> tuple[tuple[Fraction, Fraction], ...]:
        """The truths of both, and all other answers together."""
        truth, lie = Fraction(self.p), (1 - Fraction(self.p)) / (self.k - 1)
        return (truth, lie), (lie, truth), (lie * (self.k - 2), lie * (self.k - 2))

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Atoms at plus and minus ln(p (k - 1) / (1 - p)), and one at exactly 0 for the k - 2 other answers.

        1 - p, k - 1 and their quotient are off by u each, and so are the other answers by two more roundings.
        """
        lie = (1.0 - self.p) / (self.k - 1.0)
        others = (1.0 - self.p) * ((self.k - 2.0) / (self.k - 1.0))
        return masses_of_outcomes(
            edges,
            np.array([self.p, lie, others]),
            np.array([lie, self.p, others]),
            error_a=6.0 * UNIT_ROUNDOFF,
            error_b=6.0 * UNIT_ROUNDOFF,
            known_loss=np.array([np.nan, np.nan, 0.0]),
        )

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        """The same atoms; where p is too faint for a float64 ratio, with ln p as factor. 1 - p is then 1 in float64."""
        if not 0.0 < self.p < _FAINT_MASS:
            return super()._scaled_masses(edges)
        loss, error = self._loss()
        log_p, lie = float(np.log(self.p)), 1.0 / (self.k - 1.0)
        chosen = slice(None) if self.k > 2 else slice(2)
        a = MassBounds.around(
            np.array([1.0, lie, (self.k - 2.0) / (self.k - 1.0)])[chosen],
            np.array([9.0 * abs(log_p), 6.0, 6.0])[chosen] * UNIT_ROUNDOFF,
        )
        exchanged = np.array([1, 0, 2])[chosen]
        b = MassBounds(a.lower[exchanged], a.upper[exchanged])
        log_scale = np.array([log_p, 0.0, 0.0])[chosen]
        masses = LossMasses.of_atoms(edges, np.array([loss, -loss, 0.0])[chosen], a, b, error)
        return ScaledLossMasses.of_atoms(masses, log_scale, log_scale[exchanged].copy())

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: tilt times the larger loss, where above `loss`."""
        size = 0.0
        if 0.0 < self.p < 1.0:
            computed, error = self._loss()
            size = (abs(computed) + error) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        elif self.p == 1.0 or self.k == 2:
            return -math.inf
        return tilt * size * (1.0 + 4.0 * UNIT_ROUNDOFF) if loss < size else -math.inf

    def _loss(self) -> tuple[float, float]:
        """Return ln(p (k - 1) / (1 - p)) and a bound on its error, for p that is neither 0 nor 1.

        Each logarithm is off by 8u of its size and by the u of its argument, and two sums by u of the sizes.
        """
        parts = (float(np.log(self.p)), -float(np.log1p(-self.p)), float(np.log(self.k - 1.0)))
        return parts[0] + parts[1] + parts[2], 12.0 * UNIT_ROUNDOFF * (1.0 + sum(map(abs, parts)))
