"""What is observed of a system in a round, the noise that was published for it, and the goals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from pbdist.mechanisms import Gaussian, Laplace, NoisyCount, Product, Reversed
from pbdist.mechanisms.pair import ElementaryPair, Pair

__all__ = [
    "CountNoise",
    "NoiseObservation",
    "NoisyCounts",
    "ObservedCount",
    "PublishedSetting",
    "System",
    "SystemTarget",
]

#: The noise that counts can have.
CountNoise: TypeAlias = type[Laplace] | type[Gaussian]


@dataclass(frozen=True)
class ObservedCount:
    """One of the counts that are seen together.

    Attributes
    ----------
    shift
        By how much one user's action changes the true count, at least 1.
    share
        Mean and scale of the noise on it, as multiples of those of the system's noise.
    reversed
        Whether the count falls where the first one rises.
    messages
        How many messages it takes to raise the count by 1.
    """

    shift: int
    share: float
    reversed: bool
    messages: float


@dataclass(frozen=True)
class NoisyCounts:
    """Counts to which whole-numbered noise is added, each with an independent draw in every round.

    One user's action changes all of them at once. Where a request moves from the count n to the count m, the true
    counts are (n + 1, m) under one input and (n, m + 1) under the other one, so that what is seen is (n + 1 + N, m + M)
    or (n + N, m + 1 + M), N and M independent. Everybody else's requests n and m are known to the adversary: taken
    away, they leave (1 + N, M) against (N, 1 + M). With (A, B) = (N, 1 + N) of `NoisyCount` for the first count and
    (A', B') for the second one this is B × A' against A × B': one factor is reversed, and the pair is
    ``Product(NoisyCount(..), Reversed(NoisyCount(..)))``. Nothing is lost: the map is a bijection, and counts that do
    not change are independent of both and equally distributed under both. Where N and M have the same distribution,
    exchanging the two coordinates exchanges the two inputs, so that both directions are the same, and it makes no
    difference whether the request moves one way in some rounds and the other way in others.

    Attributes
    ----------
    counts
        The counts.
    readings
        The readings of "noise on a count" that are looked at, the protocol's own first.
    """

    counts: tuple[ObservedCount, ...]
    readings: tuple[str, ...]

    def mechanism(self, noise: CountNoise, mean: float, scale: float, reading: str | None = None) -> Pair:
        """Return the worst-case pair of one round.

        Raises
        ------
        InvalidInputError
            If a parameter is out of its range.
        """
        pairs = tuple(
            self._count(count, noise, mean, scale, self.readings[0] if reading is None else reading)
            for count in self.counts
        )
        return pairs[0] if len(pairs) == 1 else Product(*pairs)

    def expected_messages(self, noise: CountNoise, mean: float, scale: float, reading: str | None = None) -> float:
        """Return how many messages the noise on all counts takes a round on average; about 12 digits, no bound."""
        chosen = self.readings[0] if reading is None else reading
        return sum(
            count.messages * self._noise(count, noise, mean, scale, chosen).expected_count for count in self.counts
        )

    @staticmethod
    def _noise(count: ObservedCount, noise: CountNoise, mean: float, scale: float, reading: str) -> NoisyCount:
        return NoisyCount(noise(count.share * scale), count.share * mean, count.shift, reading)

    def _count(
        self, count: ObservedCount, noise: CountNoise, mean: float, scale: float, reading: str
    ) -> ElementaryPair:
        pair = self._noise(count, noise, mean, scale, reading)
        return Reversed(pair) if count.reversed else pair


@dataclass(frozen=True)
class NoiseObservation:
    """One outcome of a mechanism that has a single amount of noise.

    Attributes
    ----------
    kind
        The class of the mechanism.
    parameters
        The other arguments of its constructor, by name.
    """

    kind: type[Pair]
    parameters: tuple[tuple[str, float], ...]

    def mechanism(self, amount: float) -> Pair:
        """Return the pair with that amount of noise: a scale, the mean of a Poisson number, or the p of a response.

        Raises
        ------
        InvalidInputError
            If a parameter is out of its range.
        """
        construct: Callable[..., Pair] = self.kind
        return construct(amount, **dict(self.parameters))


@dataclass(frozen=True)
class PublishedSetting:
    """Noise that was published.

    Attributes
    ----------
    name, origin
        What it is called, and where it is from.
    noise, mean, scale
        The noise on counts; None for another observation.
    compositions
        The rounds for which it was published, if any.
    mechanisms
        The worst-case pair under each of the readings, one pair where there are none.
    """

    name: str
    origin: str
    noise: CountNoise | None
    mean: float | None
    scale: float | None
    compositions: int | None
    mechanisms: tuple[Pair, ...]


@dataclass(frozen=True)
class SystemTarget:
    """A goal: δ(ε) <= delta after that many rounds.

    Attributes
    ----------
    compositions, epsilon, delta
        The goal, ε in nats.
    origin
        Where it is from.
    """

    compositions: int
    epsilon: float
    delta: float
    origin: str


@dataclass(frozen=True)
class System:
    """A system, its published noise and its goals.

    Attributes
    ----------
    name, description
        Text.
    sources
        Citations.
    observation
        What is seen in a round.
    settings
        Noise that was published.
    targets
        Goals, at least one.
    """

    name: str
    description: str
    sources: tuple[str, ...]
    observation: NoisyCounts | NoiseObservation
    settings: tuple[PublishedSetting, ...]
    targets: tuple[SystemTarget, ...]
