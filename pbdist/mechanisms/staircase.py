"""Staircase noise: a density of steps, each e^-ε as high as the one before, that meets ε-differential privacy."""

import math
from typing import Any

import numpy as np

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms.declaration import (
    SPREADS,
    Domain,
    between,
    checked_number,
    mechanism,
    parameter,
    sensitivity_of,
)
from pbdist.mechanisms.masses import UNIT_ROUNDOFF, LossMasses, MassBounds
from pbdist.mechanisms.pair import BoundedPair
from pbdist.types import Direction, FloatArray

#: Above the largest ε a step would be next to float64's smallest numbers, and such noise hides nothing.
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-30, 500.0


def _checked_split(owner: str, name: str, value: Any) -> float | None:
    share = None if value is None else checked_number(owner, name, value)
    if share is not None and not 0.0 < share < 1.0:
        raise InvalidInputError(f"{owner}.{name}: expected a number between 0 and 1, got {shown(value)}")
    return share


@mechanism
class Staircase(BoundedPair):
    """Staircase noise N on a real-valued query: A = N, B = N + sensitivity (Geng & Viswanath 2015).

    The density of N is even. With the sensitivity s it is a on [0, split · s), a e^-ε on [split · s, (1 + split) s),
    a e^-2ε on the next stretch of length s, and so on. Of all noise that makes a query ε-differentially private, one of
    this shape has the least cost, if the cost grows with the size of N alone.

    The pair has the losses ε, 0 and -ε only, and it dominates every smaller shift (Theorem 31 of docs/theory.md). They
    do not depend on the sensitivity; the cost does. The default split 1 / (1 + e^(ε/2)) has the least mean size of N
    (the same authors).

    Examples
    --------
    >>> from pbdist import Staircase, privacy_bounds
    >>> noise = Staircase(1.0)
    >>> round(noise.split, 4), round(noise.mean_absolute_noise, 4), round(noise.noise_variance, 4)
    (0.3775, 0.9595, 1.9197)
    >>> privacy_bounds(noise, compositions=1, epsilon=1.0).delta_upper.item() < 1e-12
    True
    """

    noise_family = "Staircase"
    does = "Staircase noise is added to an answer that is a number."
    assumes = "One individual moves the answer by at most the sensitivity; the noise is a real number."

    noise_parameters = ("epsilon", "split")
    checked_together = ()
    symmetric = True

    epsilon: float = parameter(
        between(_SMALLEST_EPSILON, _LARGEST_EPSILON),
        "the ε of one round, which says how much noise there is",
        unit="nats",
        aliases=SPREADS,
        example=[0.01, 0.1],
        falls_with_noise=True,
    )
    sensitivity: float = sensitivity_of("by how much one record moves the answer")
    split: float = parameter(
        Domain(_checked_split),
        "the place in a stretch of one sensitivity where the density of the noise falls",
        default=None,
    )

    def check(self) -> None:
        """Choose the split where none is given."""
        given: Any = self.split
        if given is None:
            half = math.exp(-0.5 * self.epsilon)
            object.__setattr__(self, "split", half / (1.0 + half))

    @property
    def mean_absolute_noise(self) -> float:
        """E abs(N), not rounded outwards: s (q / (1 - q) + (g² + q (1 - g²)) / (2D)), D = g + q (1 - g), g the split.

        q is e^-ε. With the default split it is s e^(ε/2) / (e^ε - 1).
        """
        q, rest = self._ratio
        second = self._moment_of_first_stretch(2)
        return self.sensitivity * (q / rest + second / (2.0 * self._steps))

    @property
    def noise_variance(self) -> float:
        """E N², not rounded outwards: s² (q (1 + q) / (1 - q)² + q m₂ / ((1 - q) D) + m₃ / (3D)).

        m_k is g^k + q (1 - g^k); q, g and D are those of the mean.
        """
        q, rest = self._ratio
        second, third = self._moment_of_first_stretch(2), self._moment_of_first_stretch(3)
        far = q * (1.0 + q) / rest**2
        return self.sensitivity**2 * (far + q / rest * second / self._steps + third / (3.0 * self._steps))

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Atoms at exactly ε, 0 and -ε, without that at 0 if the split is 1/2.

        Masses: Theorem 31 of docs/theory.md. q = e^-ε and 1 - q (`expm1`) are off by 8u, D = g + q (1 - g) by 11u, the
        numerator of the mass of ε by 10u, and no mass by more than 31u, as all terms are positive. What underflows in
        2g (1 - q) is below 1e-100 q.
        """
        q, rest = self._ratio
        twice = 2.0 * self.split
        if twice <= 1.0:
            above, level = (twice * rest + q) / (2.0 * self._steps), (1.0 - twice) * q * rest / (2.0 * self._steps)
        else:
            above, level = 1.0 / (2.0 * self._steps), (twice - 1.0) * rest / (2.0 * self._steps)
        loss, masses = np.array([self.epsilon, 0.0, -self.epsilon]), np.array([above, level, above * q])
        occurring = masses > 0.0
        atoms = MassBounds.around(masses[occurring], 40.0 * UNIT_ROUNDOFF)
        return LossMasses.of_atoms(edges, loss[occurring], atoms, atoms.reversed())

    def _largest_loss(self, direction: Direction) -> float:  # noqa: ARG002
        return self.epsilon

    @property
    def _ratio(self) -> tuple[float, float]:
        """The ratio q = e^-ε between steps, and 1 - q."""
        return math.exp(-self.epsilon), -math.expm1(-self.epsilon)

    @property
    def _steps(self) -> float:
        """D = g + q (1 - g): the mass of the first stretch over that of a density that does not fall in it."""
        return self.split + self._ratio[0] * (1.0 - self.split)

    def _moment_of_first_stretch(self, order: int) -> float:
        power = self.split**order
        return power + self._ratio[0] * (1.0 - power)
