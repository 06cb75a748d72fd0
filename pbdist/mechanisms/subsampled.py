"""The Gaussian mechanism on a Poisson sample: the pair of differentially private stochastic gradient descent."""

import math
from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import validation
from pbdist.mechanisms.intervals import gaussian_interval
from pbdist.mechanisms.pair import ElementaryPair, LossMasses
from pbdist.mechanisms.rounding import UNIT_ROUNDOFF, MassBounds
from pbdist.types import FloatArray

__all__ = ["SubsampledGaussian"]


@dataclass(frozen=True)
class SubsampledGaussian(ElementaryPair):
    """Gaussian noise after Poisson sampling: A = (1-q) N(0, scale²) + q N(sensitivity, scale²), B = N(0, scale²).

    Abadi et al. 2016; Meiser & Mohammadi 2018, section 5.4. The direction "A||B" is the one in which the individual is
    removed, "B||A" the one in which it is added.

    Parameters
    ----------
    scale : float
        Standard deviation of the noise, above 0 (the noise multiplier, where the sensitivity is 1).
    rate : float
        Sampling probability q, in (0, 1].
    sensitivity : float, optional
        The clipping norm, above 0.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """

    scale: float
    rate: float
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "scale", validation.size(name, "scale", self.scale))
        object.__setattr__(self, "sensitivity", validation.size(name, "sensitivity", self.sensitivity))
        rate = validation.probability(name, "rate", self.rate)
        if rate == 0.0:
            raise InvalidInputError(f"{name}.rate: expected a probability in (0, 1], got {self.rate!r}")
        object.__setattr__(self, "rate", rate)

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the loss cells, each an interval of x, along which the loss rises from ln(1 - q)."""
        # Rounding must not let neighbouring cells overlap.
        at_edges = np.maximum.accumulate(self._location(edges))
        ends = np.concatenate(([-np.inf], at_edges, [np.inf]))
        lower, upper = ends[:-1], ends[1:]
        present = lower < upper
        lower, upper = np.where(present, lower, 0.0), np.where(present, upper, 0.0)
        without, without_error = gaussian_interval(lower, upper, self.scale)
        sampled, sampled_error = gaussian_interval(lower, upper, self.scale, self.sensitivity)
        mixture = (1.0 - self.rate) * without + self.rate * sampled
        absolute = (1.0 - self.rate) * without * without_error + self.rate * sampled * sampled_error
        mixture_error = np.divide(absolute, mixture, out=np.zeros_like(mixture), where=mixture > 0.0)
        mixture_error = mixture_error + 8.0 * UNIT_ROUNDOFF
        return LossMasses(
            cells_a=MassBounds.around(mixture, mixture_error, occupied=present),
            cells_b=MassBounds.around(without, without_error, occupied=present),
            atom_loss=np.zeros(0),
            atoms_a=MassBounds.zeros(0),
            atoms_b=MassBounds.zeros(0),
            only_a=MassBounds.zeros(1),
            only_b=MassBounds.zeros(1),
            loss_error=self._edge_error(edges, at_edges),
        )

    def _location(self, loss: FloatArray) -> FloatArray:
        """Return the x of a loss; -inf where the loss is at most ln(1 - q), which no event has."""
        q, s = self.rate, self.sensitivity
        if q == 1.0:
            gain = loss
        else:
            # e^loss - (1 - q), from whichever form has the smaller absolute error.
            excess = np.where(
                loss < -0.5, np.exp(np.minimum(loss, 0.0)) - (1.0 - q), np.expm1(np.minimum(loss, 700.0)) + q
            )
            with np.errstate(divide="ignore"):
                gain = np.log(np.maximum(excess, 0.0)) - math.log(q)
            small = np.abs(loss) < 0.5 * q
            gain = np.where(small, np.log1p(np.expm1(np.where(small, loss, 0.0)) / q), gain)
            gain = np.where(loss > 700.0, loss - math.log(q), gain)
        return self.scale * (self.scale / s) * gain + 0.5 * s

    def _edge_error(self, edges: FloatArray, at_edges: FloatArray) -> float:
        """Bound the distance between the edges asked for and the exact losses at the end points used.

        The loss at x is ln(1 - q + q e^v) with v = (s / scale²)(x - s/2), computed to (4 + 8|v|) u absolutely, for it
        moves by no more than v does.
        """
        found = np.isfinite(at_edges)
        q, s, x = self.rate, self.sensitivity, at_edges[found]
        v = (s / self.scale) * ((x - 0.5 * s) / self.scale)
        # Both forms are right; near a loss of 0 the first keeps its relative accuracy.
        with np.errstate(over="ignore"):
            change = q * np.expm1(np.minimum(v, 700.0))
        near = np.log1p(np.where(np.abs(change) < 0.5, change, 0.0))
        rest = math.log1p(-q) if q < 1.0 else -np.inf
        far = np.logaddexp(rest, math.log(q) + v)
        computed = np.where(np.abs(change) < 0.5, near, far)
        constant = abs(math.log(q)) + (abs(rest) if q < 1.0 else 0.0)
        size = np.where(np.abs(change) < 0.5, np.abs(change), 1.0 + constant)
        # x - s/2 cancels where x is near s/2: its error is of the order of u s, not of the difference.
        rounding = (8.0 * np.abs(v) + 8.0 * size + 2.0 * (s / self.scale) ** 2) * UNIT_ROUNDOFF
        # Edges at which no event was found though some may lie just below them.
        missed = edges[at_edges == -np.inf] - rest
        missed = np.where(missed > 0.0, missed, 0.0) + 4.0 * UNIT_ROUNDOFF * abs(rest) if q < 1.0 else missed[:0]
        return float(max(np.max(np.abs(computed - edges[found]) + rounding, initial=0.0), np.max(missed, initial=0.0)))
