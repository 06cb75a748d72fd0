"""Sized noise in few digits: what will do rounded up, what is refuted rounded down, and bounds that hold for these."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import NoisyCount, Pair
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.certificate import SizedNoise
from pbdist.sizing.count_families import CountFamily, count_family_of, expected_messages
from pbdist.sizing.families import family_of
from pbdist.sizing.goal import Computed, Goal, Judge

_DIGITS = 6


@dataclass(frozen=True)
class PrintedNoise:
    """Noise as it is printed, and the bound on δ that holds for it: for the floats that its decimals are read as.

    Attributes
    ----------
    mechanism
        That noise.
    scale, mean
        Its decimals; the mean is None where it is not sized.
    bound
        Of noise that will do an upper bound on δ, of refuted noise a lower one; not rounded yet.
    """

    mechanism: Pair
    scale: str
    mean: str | None
    bound: float


@dataclass(frozen=True)
class PrintedSize:
    """Sized noise as it is printed: what will do, the messages it takes, if any, and what is refuted."""

    enough: PrintedNoise
    messages: float | None
    refuted: PrintedNoise


def printed_size(sized: SizedNoise, family: Any, parameters: Mapping[str, Any]) -> PrintedSize:
    """Return sized noise in 6 digits, or as many as the tolerance takes; `family` and `parameters` as for `size`.

    What will do is rounded up, and what is refuted down. Where more noise is proved to be a post-processing of less,
    the bounds on δ hold for the rounded noise too. Elsewhere, as for counts, they are computed anew for the rounded
    noise; where they do not prove the same of it, the decimals are those of the exact floats.
    """
    make, messages = _made_by(family, parameters)
    goal = Goal(sized.compositions, sized.epsilon, sized.delta)
    judge = Judge(goal, Computed(goal))
    digits = max(_DIGITS, 2 - math.floor(math.log10(sized.tolerance)))

    def holds(rounded: Pair) -> float | None:
        if at_least_as_noisy(rounded, sized.mechanism):
            return sized.delta_upper
        found = judge.settled(rounded)
        return found.upper if judge.holds(found) else None

    def refuted(rounded: Pair) -> float | None:
        if at_least_as_noisy(sized.refuted_mechanism, rounded):
            return sized.refuted_delta_lower
        found = judge.settled(rounded)
        return found.lower if judge.refutes(found) else None

    enough = _rounded(make, (sized.scale, sized.mean), lambda value: rounded_up(value, digits), holds)
    less = _rounded(make, (sized.refuted_scale, sized.refuted_mean), lambda value: rounded_down(value, digits), refuted)
    enough = enough or PrintedNoise(sized.mechanism, *_exactly(sized.scale, sized.mean), sized.delta_upper)
    if less is None:
        decimals = _exactly(sized.refuted_scale, sized.refuted_mean)
        less = PrintedNoise(sized.refuted_mechanism, *decimals, sized.refuted_delta_lower)
    return PrintedSize(enough, messages(enough), less)


def _made_by(
    family: Any, parameters: Mapping[str, Any]
) -> tuple[Callable[[float, float | None], Pair], Callable[[PrintedNoise], float | None]]:
    """Return what makes the mechanism of a scale and a mean, and what tells how many messages one takes."""
    if isinstance(family, CountFamily) or (family is NoisyCount and parameters.get("mean") is None):
        counts = count_family_of(family, parameters)

        def messages(noise: PrintedNoise) -> float | None:
            return counts.messages(float(noise.mean or 0.0), float(noise.scale))

        return lambda scale, mean: counts.pair(mean or 0.0, scale), messages
    scales = family_of(family, parameters)
    return lambda scale, _: scales.make(scale), lambda noise: expected_messages(noise.mechanism)


def _rounded(
    make: Callable[[float, float | None], Pair],
    amounts: tuple[float, float | None],
    shorten: Callable[[float], str],
    proved: Callable[[Pair], float | None],
) -> PrintedNoise | None:
    """Return noise with rounded amounts and what is proved of it; None where nothing is."""
    scale, mean = shorten(amounts[0]), None if amounts[1] is None else shorten(amounts[1])
    try:
        mechanism = make(float(scale), None if mean is None else float(mean))
    except InvalidInputError:
        return None
    bound = proved(mechanism)
    return None if bound is None else PrintedNoise(mechanism, scale, mean, bound)


def _exactly(scale: float, mean: float | None) -> tuple[str, str | None]:
    return exact(scale), None if mean is None else exact(mean)
