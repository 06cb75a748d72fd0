"""What a mechanism is to pbdist: a worst-case pair of distributions, and its exact masses on given bins."""

import math
from abc import ABC, abstractmethod
from dataclasses import fields
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from pbdist.mechanisms.masses import LossMasses, ScaledLossMasses
from pbdist.types import Direction, FloatArray, JsonValue

__all__ = ["ElementaryPair", "Pair"]


class Pair(ABC):
    """A worst-case pair (A, B): the output distributions of a mechanism on two neighbouring inputs.

    Subclasses are frozen, validated and hashable dataclasses; two equal pairs have the same canonical form.
    """

    @property
    def symmetric(self) -> bool:
        """Whether (A, B) and (B, A) have the same loss distribution, so that one direction serves both."""
        return False

    @property
    def identical(self) -> bool:
        """Whether A and B are the same distribution, exactly: then nothing is revealed, and every δ is 0."""
        return all(factor.identical for factor in self.factors)

    @property
    @abstractmethod
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The independent pairs whose product this pair is."""

    def canonical(self) -> dict[str, JsonValue]:
        """Canonical form: the mechanism's name and its parameters, as JSON takes them.

        Equal pairs have equal forms, and `pbdist.mechanisms.pair_from_canonical` is the inverse. A parameter that is
        added later gets a default, and a name is never given a new meaning, so that a stored form stays readable.
        """
        form: dict[str, JsonValue] = {"mechanism": type(self).__name__}
        for name in _field_names(type(self)):
            value = getattr(self, name)
            form[name] = value if type(value) is float else _plain(value)
        return form


class ElementaryPair(Pair):
    """A pair whose masses on bins have a closed form."""

    @property
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The pair itself."""
        return (self,)

    @property
    def identical(self) -> bool:
        """False: noise tells neighbouring inputs apart, but for the mechanisms that say otherwise."""
        return False

    @property
    def neutral(self) -> bool:
        """Whether composing another pair with this one changes no δ: A and B are the same, and have the mass 1."""
        return self.identical

    @property
    def total_mass(self) -> tuple[float, float]:
        """Upper values of P_A and P_B of everything; 1 but for a `Histogram` whose masses sum to a little more."""
        return (1.0, 1.0)

    @property
    def mass_excess(self) -> tuple[Fraction, Fraction]:
        """By how much the masses of A and of B exceed 1, exactly; 0 but for a `Histogram`."""
        return Fraction(0), Fraction(0)

    @property
    def outcomes(self) -> int:
        """How many outcomes are looked at one by one, whatever the bins; 0 where none are."""
        return 0

    def loss_picture(self, target: float) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """A rough picture of the losses, on which no bound rests.

        Parameters
        ----------
        target : float
            The largest mean that an exponential tilt is to give the loss in either direction, nats.

        Returns
        -------
        (ndarray, ndarray) or None
            Losses, increasing, nats, and natural logarithms of P_A's masses at them, up to a common summand; None where
            there is nothing quicker than the masses of many bins.
        """
        return None

    @abstractmethod
    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of A and B on the bins between `edges`.

        Parameters
        ----------
        edges : ndarray, shape (m,)
            Loss edges in nats, finite and increasing.

        Returns
        -------
        LossMasses
            Certified masses: every event is counted, none twice in a lower value.
        """

    def keeps_order(self, edges: FloatArray) -> bool:  # noqa: ARG002
        """Whether the masses of the bins between `edges` may be asked for part by part.

        Then one part's last bin ends where the first bin of the next one begins, bit by bit, and no bin reaches into
        another. Checked, not assumed, where a bin's end points are not plain sums and products of its edges.
        """
        return True

    def directed_loss_masses(self, edges: FloatArray, direction: Direction) -> LossMasses:
        """Masses for one direction: of (A, B), or of (B, A) with the roles exchanged."""
        if direction is Direction.A_TO_B:
            return self.loss_masses(edges)
        return self.loss_masses(np.ascontiguousarray(-edges[::-1])).swapped()

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses for one direction, those below what float64 holds included where the mechanism knows them.

        Parameters
        ----------
        edges : ndarray, shape (m,)
            Loss edges in nats, finite and increasing.
        direction : Direction, optional
            Which of the two distributions plays P_A.

        Returns
        -------
        ScaledLossMasses
            As `directed_loss_masses`, each mass with the logarithm of a factor, which is 0 for an ordinary mass.
        """
        if direction is Direction.A_TO_B:
            return self._scaled_masses(edges)
        return self._scaled_masses(np.ascontiguousarray(-edges[::-1])).swapped()

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞], with A and L those of the direction.

        Parameters
        ----------
        tilt : float
            At least 0.
        loss : float
            Nats; may be infinite.
        direction : Direction
            Which of the two distributions plays P_A.

        Returns
        -------
        float
            Rounded up; -inf where no finite loss lies above `loss`, +inf where the mechanism has no closed form.
        """
        return math.inf

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        """Masses of (A, B) as `scaled_loss_masses` returns them; without factors where no mechanism knows better."""
        return ScaledLossMasses.unscaled(self.loss_masses(edges))


@cache
def _field_names(kind: type[Pair]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))  # type: ignore[arg-type]  # every subclass is a dataclass


def _plain(value: Any) -> JsonValue:
    if isinstance(value, Pair):
        return value.canonical()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
