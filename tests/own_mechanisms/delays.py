"""A mechanism of one's own: messages that a mix delays by an exponential time, as in Loopix."""

import math

import numpy as np

from pbdist.mechanisms import (
    UNIT_ROUNDOFF,
    ElementaryPair,
    LossMasses,
    masses_of_outcomes,
    mechanism,
    parameter,
    positive,
)
from pbdist.types import FloatArray


@mechanism
class ExponentialDelay(ElementaryPair):
    """The time at which a message leaves: A = Exp(scale), B = shift + Exp(scale)."""

    aliases = ("stop-and-go", "loopix")
    noise_family = "Exponential"
    does = "A message is delayed by an exponentially distributed time."
    assumes = "The observer sees when a message leaves, and one individual moves its arrival by the shift."

    scale: float = parameter(positive, "the mean delay", unit="seconds", example=[2.0, 5.0], sized=True)
    shift: float = parameter(positive, "by how much an arrival moves", unit="seconds", default=1.0)

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Before the shift only A has mass; from there on the loss is -shift / scale."""
        ratio = self.shift / self.scale
        a, b = np.array([-math.expm1(-ratio), math.exp(-ratio)]), np.array([0.0, 1.0])
        # The quotient errs by u of itself, and so do its exponentials by that and by 8u of their own.
        return masses_of_outcomes(edges, a, b, error_a=(16.0 + ratio) * UNIT_ROUNDOFF, error_b=0.0)
