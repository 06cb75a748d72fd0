"""k-ary randomized response: one of k answers, the truth more often than each of the others."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import (
    LOSSES,
    checked_between,
    checked_integer,
    checked_probability,
    mechanism,
    parameter,
    probability,
    whole,
)
from pbdist.mechanisms.masses import UNIT_ROUNDOFF, LossMasses, MassBounds, ScaledLossMasses
from pbdist.mechanisms.outcomes import masses_of_outcomes
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, ordered
from pbdist.types import Adjacency, Direction, FloatArray

_NAME = "KaryRandomizedResponse"

#: Up to here every number of answers is a float64.
_MAX_ANSWERS = 2**53
#: Below this p is given as the logarithm of a factor.
_FAINT_MASS = 1e-260
#: Nearer to 1, the complement of a probability has fewer than 7 digits.
_RAREST_LIE = 1e-9
#: `math.exp` is off by less than this, relatively.
_ERROR_OF_EXP = Fraction(8, 2**53)


@mechanism
class KaryRandomizedResponse(ElementaryPair):
    """One of k answers: the truth with probability p, each other answer with probability (1 - p) / (k - 1).

    A and B are the answers of two individuals whose truths differ: all such pairs are the same up to the names of the
    answers, so that this is the exact worst case (Theorem 40 of docs/theory.md). For k = 2 it is `RandomizedResponse`.
    Source: Kairouz, Bonawitz & Ramage 2016, "Discrete Distribution Estimation under Local Privacy".

    Examples
    --------
    >>> from pbdist import KaryRandomizedResponse, privacy_bounds
    >>> answer = KaryRandomizedResponse.from_epsilon(1.0, k=4)
    >>> round(answer.p, 4), round(answer.largest_loss, 4)
    (0.4754, 1.0)
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
        """Return the probability of a lie; of a truth that is rarer than each lie that of the mechanism as noisy."""
        return min(1.0 - form["p"], form["p"] * (form["k"] - 1.0)), "probability of a lie"

    @classmethod
    def from_epsilon(cls, epsilon: float, k: int) -> "KaryRandomizedResponse":
        """Return the pair of p = e^ε / (e^ε + k - 1), rounded up, so that it dominates the one with exactly that p.

        Parameters
        ----------
        epsilon : float
            ε >= 0 of one answer, nats.
        k : int
            How many answers there are.

        Raises
        ------
        InvalidInputError
            If ε is below 0, or so large that a lie is rarer than 1e-9: give p itself then.
        """
        answers = checked_integer(_NAME, "k", k, minimum=2, maximum=_MAX_ANSWERS)
        loss = checked_between(_NAME, "epsilon", epsilon, low=0.0, high=700.0)
        odds = Fraction(math.exp(loss)) * (1 + _ERROR_OF_EXP) if loss else Fraction(1)
        return cls(_rounded_up("epsilon", epsilon, odds / (odds + answers - 1)), answers)

    @classmethod
    def from_noise(cls, noise: float, k: int) -> "KaryRandomizedResponse":
        """Return the pair of an answer that is drawn at random, from all k, with probability `noise`.

        That is dp-accounting's form: p = 1 - noise (k - 1) / k, rounded up, so that the pair dominates the one with
        exactly that p.

        Parameters
        ----------
        noise : float
            Probability, in [0, 1], with which the truth is replaced by a uniform answer, which may be the truth.
        k : int
            How many answers there are.

        Raises
        ------
        InvalidInputError
            If `noise` is no probability, or so small that a lie is rarer than 1e-9: give p itself then.
        """
        answers = checked_integer(_NAME, "k", k, minimum=2, maximum=_MAX_ANSWERS)
        share = Fraction(checked_probability(_NAME, "noise", noise))
        return cls(_rounded_up("noise", noise, 1 - share * (answers - 1) / answers), answers)

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


def _rounded_up(field: str, given: Any, exact: Fraction) -> float:
    """Return the least float64 that is at least a probability, or refuse one whose complement it would not tell."""
    if exact < 1 and 1 - exact < _RAREST_LIE:
        raise InvalidInputError(
            f"{_NAME}.{field}: expected lies of a probability of {_RAREST_LIE:g} or more, got {shown(given)}: give p"
        )
    value = float(exact)
    return value if Fraction(value) >= exact else math.nextafter(value, math.inf)
