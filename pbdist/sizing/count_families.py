"""Families of noisy counts whose noise is sized by its mean and its scale."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ElementaryPair, NoisyCount, Pair, Poisson
from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.sizing.family_arguments import noise_class, wrong_parameters


@dataclass(frozen=True)
class CountFamily:
    """Noisy counts whose noise has one mean and one scale, both of which are sized.

    Parameters
    ----------
    make : callable of (float, float)
        From mean and scale, in messages, to a `NoisyCount` or a `Product` of such; any of them may be reversed.
    weights : tuple of float, optional
        Messages that each count is worth, in the order of the factors; 1 each by default. Two messages that are
        counted as one are worth 2.

    Raises
    ------
    InvalidInputError
        If `make` is no callable, or a weight is no finite number above 0.

    Examples
    --------
    Vuvuzela's conversation protocol: single requests, and pairs of them with half the noise.

    >>> from pbdist import CountFamily, Laplace, NoisyCount, Product
    >>> family = CountFamily(
    ...     lambda mean, scale: Product(
    ...         NoisyCount(Laplace(scale), mean, shift=2), NoisyCount(Laplace(scale / 2), mean / 2, shift=1)
    ...     ),
    ...     weights=(1.0, 2.0),
    ... )
    """

    make: Callable[[float, float], Pair]
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise InvalidInputError(
                f"CountFamily.make: expected a callable from a mean and a scale, got {shown(self.make)}"
            )
        if self.weights is None:
            return
        weights: Any = self.weights
        if not isinstance(weights, tuple | list) or not all(map(_is_weight, weights)):
            raise InvalidInputError(
                f"CountFamily.weights: expected finite numbers above 0, one for each count, got {shown(weights)}"
            )
        object.__setattr__(self, "weights", tuple(map(float, weights)))

    def pair(self, mean: float, scale: float) -> Pair:
        """Return the mechanism of a mean and a scale.

        Raises
        ------
        InvalidInputError
            If it is anything but noisy counts, or not as many as there are weights.
        """
        pair: Any = self.make(mean, scale)
        if not isinstance(pair, Pair) or None in map(_count_of, pair.factors):
            raise InvalidInputError(f"CountFamily.make: expected a NoisyCount or a Product of such, got {shown(pair)}")
        if any(not isinstance(count.noise, AdditiveNoise) for count in map(_count_of, pair.factors) if count):
            raise InvalidInputError(
                "CountFamily.make: expected Laplace or Gaussian noise, got discrete noise, whose mean is whole: size"
                " its scale at a given mean, with the family NoisyCount"
            )
        if self.weights is not None and len(self.weights) != len(pair.factors):
            raise InvalidInputError(
                f"CountFamily.weights: expected one for each of {len(pair.factors)} counts, got {shown(self.weights)}"
            )
        return pair

    def check(self) -> None:
        """Raise the error of a family that is wrong at every mean and scale."""
        for mean, scale in ((1.0, 1.0), (1e4, 1e3)):
            try:
                self.pair(mean, scale)
            except InvalidInputError:
                continue
            return
        self.pair(1e2, 1e1)

    def messages(self, mean: float, scale: float) -> float:
        """Return how many messages the noise takes on average."""
        counts = [_count_of(factor) for factor in self.pair(mean, scale).factors]
        weights = self.weights or (1.0,) * len(counts)
        return math.fsum(
            weight * count.expected_count for weight, count in zip(weights, counts, strict=True) if count is not None
        )


def expected_messages(pair: Pair) -> float | None:
    """Return how many messages the noise of a mechanism takes on average; None where it is no noise of messages."""
    total = 0.0
    for factor in pair.factors:
        count = _count_of(factor)
        if count is not None:
            total += count.expected_count
        elif isinstance(factor, Poisson):
            total += factor.mean
        else:
            return None
    return total


def _is_weight(weight: Any) -> bool:
    number = isinstance(weight, Real) and not isinstance(weight, bool)
    return number and 0.0 < float(weight) < math.inf


def _count_of(factor: ElementaryPair) -> NoisyCount | None:
    """Return the noisy count that a factor is, reversed or not; None if it is something else."""
    return factor.inner if isinstance(factor.inner, NoisyCount) else None


def count_family_of(family: Any, parameters: Mapping[str, Any]) -> CountFamily:
    """Return the family of a `CountFamily`, or of `NoisyCount` with ``noise``, ``shift`` and ``reading``.

    Raises
    ------
    InvalidInputError
        If a parameter is missing, unknown or wrong.
    """
    if isinstance(family, CountFamily):
        if parameters:
            raise InvalidInputError(f"{next(iter(parameters))}: expected no parameters beside a CountFamily, got one")
        return family
    others = {name: value for name, value in parameters.items() if name not in {"noise", "mean"}}
    kind = noise_class(parameters.get("noise"))

    def make(mean: float, scale: float) -> Pair:
        return NoisyCount(noise=kind(scale), mean=mean, **others)

    try:
        make(1.0, 1.0)
    except TypeError as error:
        raise wrong_parameters(NoisyCount, [*parameters, "noise", "mean"], error) from error
    return CountFamily(make)
