"""Systems: what is observed in a round, the published noise, the goals, and the smallest noise that meets them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Gaussian, Laplace, NoisyCount, Product, Reversed
from pbdist.mechanisms.pair import ElementaryPair, Pair
from pbdist.results import NOTHING_KNOWN, Bracket, Verdict
from pbdist.sizing.api import size
from pbdist.sizing.certificate import SizedNoise
from pbdist.sizing.count_families import CountFamily
from pbdist.sizing.goal import Goal, computed_bracket

#: Tolerances of `judge`, one after the other until the verdict is YES or NO.
_TOLERANCES = (1e-3, 1e-4, 1e-6)
#: The noise that counts can have.
CountNoise: TypeAlias = type[Laplace] | type[Gaussian]


@dataclass(frozen=True)
class ObservedCount:
    """One of several counts that the adversary sees together.

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
        The readings of "noise on a count" to size and judge, the protocol's own first.
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
        Its name and its source.
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
class SystemTarget(Goal):
    """A goal of a system, and where it is from."""

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


def judge(mechanism: Pair, goal: Goal) -> Bracket:
    """Bound δ of a mechanism narrowly enough to tell whether it meets a goal, if the bounds can tell."""
    found = NOTHING_KNOWN
    for tolerance in _TOLERANCES:
        found = found.narrowed(computed_bracket(mechanism, goal, tolerance))
        if found.verdict(goal.delta) in (Verdict.YES, Verdict.NO):
            break
    return found


def size_system(
    system: System,
    target: SystemTarget,
    *,
    noise: CountNoise | None = None,
    reading: str | None = None,
    tolerance: float = 0.01,
    **options: Any,
) -> SizedNoise:
    """Return the smallest noise of a system that provably meets a target, with its certificate.

    Parameters
    ----------
    system : System
    target : SystemTarget
        One of the system's, or any other.
    noise : Laplace or Gaussian, optional
        For noisy counts: the class of the noise, by default that of the first published setting, or else Laplace.
    reading : str, optional
        For noisy counts: by default the protocol's own.
    tolerance : float, optional
        How much smaller the refuted noise is, relatively.
    **options
        Passed on to `pbdist.size`.

    Returns
    -------
    SizedNoise
        For noisy counts mean and scale are those of the system's noise, of which each count has its share, and
        ``expected_messages`` are those on all counts.

    Raises
    ------
    InvalidInputError
        If noise or reading is given to a system without noisy counts, the reading is none of the system's, or no noise
        is found that meets the target.
    PrecisionError
        If the bounds cannot tell δ from the goal where that decides.
    """
    family, parameters = system_family(system, noise, reading)
    return size(
        family,
        compositions=target.compositions,
        epsilon=target.epsilon,
        delta=target.delta,
        tolerance=tolerance,
        **parameters,
        **options,
    )


def system_family(
    system: System, noise: CountNoise | None = None, reading: str | None = None
) -> tuple[type[Pair] | CountFamily, dict[str, Any]]:
    """Return the family of a system's noise, and its parameters, as `pbdist.size` takes them.

    Raises
    ------
    InvalidInputError
        If noise or reading is given to a system without noisy counts, or the reading is none of the system's.
    """
    observation = system.observation
    if not isinstance(observation, NoisyCounts):
        for name, value in (("noise", noise), ("reading", reading)):
            if value is not None:
                raise InvalidInputError(f"{name}: expected none for {system.name}, got {shown(value)}")
        return observation.kind, dict(observation.parameters)
    chosen = reading or observation.readings[0]
    if chosen not in observation.readings:
        known = ", ".join(observation.readings)
        raise InvalidInputError(f"reading: expected one of {known} for {system.name}, got {shown(reading)}")
    published = next((setting.noise for setting in system.settings if setting.noise is not None), Laplace)
    kind = noise or published
    family = CountFamily(
        lambda mean, scale: observation.mechanism(kind, mean, scale, chosen),
        weights=tuple(count.messages for count in observation.counts),
    )
    return family, {}
