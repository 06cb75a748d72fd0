"""Vuvuzela's own bounds: of one round, and of many by advanced composition (van den Hooff et al. 2015).

The conversation protocol hides two counts under max(0, Laplace(μ, γ)) rounded up, the second with half of μ and γ; a
round is (4/γ, e^((2 - μ)/γ))-private. The dialing protocol hides one; a round is (2/γ, ½ e^((1 - μ)/γ))-private.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class VuvuzelaRound:
    """What the protocol's authors promise of one round, nats and a probability."""

    epsilon: float
    delta: float

    def composed(self, rounds: int, slack: float = 1e-5) -> tuple[float, float]:
        """Return (ε', δ') of many rounds: ε √(2 r ln(1/d)) + r ε (e^ε - 1) and r δ + d, for the authors' d = 1e-5."""
        spread = self.epsilon * math.sqrt(2.0 * rounds * math.log(1.0 / slack))
        return spread + rounds * self.epsilon * math.expm1(self.epsilon), rounds * self.delta + slack


def conversation(mean: float, scale: float) -> VuvuzelaRound:
    """Return the promise of one round of conversations with noise of that mean and scale, in messages."""
    return VuvuzelaRound(4.0 / scale, math.exp((2.0 - mean) / scale))


def dialing(mean: float, scale: float) -> VuvuzelaRound:
    """Return the promise of one round of dialing with noise of that mean and scale, in messages."""
    return VuvuzelaRound(2.0 / scale, 0.5 * math.exp((1.0 - mean) / scale))
