"""Families of mechanisms whose noise is sized by its scale."""

import inspect
import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    DiscreteGaussian,
    DiscreteLaplace,
    ElementaryPair,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    RandomizedResponse,
    noise_order,
    noise_parameter,
)
from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.sizing.goal import Goal
from pbdist.suggestions import did_you_mean


def wrong_parameters(kind: type, given: Collection[str], error: TypeError) -> InvalidInputError:
    """Return the error of a parameter that a class does not have, or lacks."""
    fields = list(inspect.signature(kind).parameters.values())
    names = [field.name for field in fields]
    unknown = [name for name in given if name not in names]
    if unknown:
        return InvalidInputError(f"{kind.__name__}: expected one of {', '.join(names)}; got {unknown[0]}")
    missing = [field.name for field in fields if field.default is field.empty and field.name not in given]
    if missing:
        return InvalidInputError(f"{missing[0]}: expected a value for {kind.__name__}, got none")
    return InvalidInputError(f"{kind.__name__}: {' '.join(str(error).split())}")


def noise_class(noise: Any, *, whole: bool = False) -> type[Any]:
    """Return the class of additive noise of that name, or the class itself; with `whole` also of discrete noise.

    Raises
    ------
    InvalidInputError
        If it is neither.
    """
    kind: Any = MECHANISMS.get(noise) if isinstance(noise, str) else noise
    known: tuple[type[Any], ...] = (Laplace, Gaussian, *((DiscreteLaplace, DiscreteGaussian) if whole else ()))
    if kind not in known:
        names = [each.__name__ for each in known]
        expected = f"{', '.join(names[:-1])} or {names[-1]}"
        near = did_you_mean(noise, names)
        raise InvalidInputError(f"noise: expected the class {expected}, or its name, got {shown(noise)}{near}")
    return kind  # type: ignore[no-any-return]


#: Scales at which the other parameters of a family are checked; the last one raises their error.
_TYPICAL = (1.0, 1e3, 1e-3, 1e6, 100.0)
#: Below this 1 - lie would round the probability of a lie by more than a part in 10^7.
_RAREST_LIE = 1e-9
#: An amount of noise at which the probability of a lie is 1/2 in float64.
_OF_A_COIN = 1e17


@dataclass(frozen=True)
class ScaleFamily:
    """A mechanism for every scale."""

    name: str
    #: The mechanism of a scale; raises `InvalidInputError` where the family has none.
    make: Callable[[float], Pair]
    #: Whether a larger scale is proved to be a post-processing of a smaller one (`pbdist.mechanisms.pair`).
    ordered: bool
    #: Where a search begins: the scale that is about as private as Gaussian noise of a given standard deviation at
    #: sensitivity 1.
    first: Callable[[float], float]
    #: The scale of an amount of noise, increasing, and its inverse. The search varies the amount. Both are equal, but
    #: where scales end at a finite one.
    scale_of: Callable[[float], float] = float
    amount_of: Callable[[float], float] = float

    def start(self, goal: Goal) -> float:
        """Return the scale at which a search begins."""
        return self.first(min(max(goal.gaussian_scale, 1e-12), 1e12))


def family_of(family: Any, parameters: Mapping[str, Any]) -> ScaleFamily:
    """Return the family of a mechanism class with its other parameters, or of a callable from scales to mechanisms.

    Raises
    ------
    InvalidInputError
        If it is neither, the class has no parameter that says how much noise it has, or parameters are missing,
        unknown or wrong.
    """
    if isinstance(family, type):
        return _of_class(family, parameters)
    if not callable(family):
        raise InvalidInputError(
            f"family: expected a mechanism class or a callable from a scale to a mechanism, got {shown(family)}"
        )
    if parameters:
        raise InvalidInputError(f"{next(iter(parameters))}: expected no parameters beside a callable family, got one")
    return ScaleFamily(
        name=getattr(family, "__name__", type(family).__name__),
        make=lambda scale: _checked_pair(family(scale)),
        ordered=False,
        first=float,
    )


def _of_class(kind: type, parameters: Mapping[str, Any]) -> ScaleFamily:
    if kind is RandomizedResponse:
        if parameters:
            raise InvalidInputError(
                f"{next(iter(parameters))}: expected no parameters with RandomizedResponse, got one"
            )
        return _responses("RandomizedResponse", 2, RandomizedResponse)
    if kind is KaryRandomizedResponse:
        return _answers(parameters)
    if kind is NoisyCount:
        return _counts(parameters)
    told = noise_parameter(kind) if issubclass(kind, Pair) else None
    if told is None:
        known = ", ".join(sorted(name for name, other in MECHANISMS.items() if noise_parameter(other)))
        raise InvalidInputError(f"family: expected one of {known} or a callable, got {kind.__name__}")
    if told.name in parameters:
        raise InvalidInputError(
            f"{told.name}: expected none, for it is what is sized, got {shown(parameters[told.name])}"
        )
    construct: Callable[..., Pair] = kind

    def make(scale: float) -> Pair:
        return construct(**{**parameters, told.name: scale})

    try:
        typical = _any_of(make)
    except TypeError as error:
        raise wrong_parameters(kind, [*parameters, told.name], error) from error
    return ScaleFamily(
        name=kind.__name__,
        make=make,
        ordered=noise_order(typical) is not None,
        first=lambda deviation: typical.usual_noise(deviation, parameters),
    )


def _counts(parameters: Mapping[str, Any]) -> ScaleFamily:
    """Noisy counts of a given mean, by the scale of their noise: no order is proved of them."""
    noise = noise_class(parameters.get("noise"), whole=True)
    others = {name: value for name, value in parameters.items() if name != "noise"}

    def make(scale: float) -> Pair:
        return NoisyCount(noise=noise(scale), **others)

    try:
        make(1.0)
    except TypeError as error:
        raise wrong_parameters(NoisyCount, parameters, error) from error
    shift = float(others["shift"])
    return ScaleFamily(name="NoisyCount", make=make, ordered=False, first=lambda deviation: shift * deviation)


def _any_of(make: Callable[[float], Pair]) -> Pair:
    """Return the mechanism of some scale; wrong other parameters are refused at every scale."""
    for scale in _TYPICAL[:-1]:
        try:
            return make(scale)
        except InvalidInputError:
            continue
    return make(_TYPICAL[-1])


def _answers(parameters: Mapping[str, Any]) -> ScaleFamily:
    """k-ary randomized response of a given k, by the probability of a lie."""
    if set(parameters) != {"k"}:
        raise wrong_parameters(KaryRandomizedResponse, [*parameters, "p"], TypeError(f"got {sorted(parameters)}"))
    answers = KaryRandomizedResponse(0.5, parameters["k"]).k
    return _responses("KaryRandomizedResponse", answers, lambda p: KaryRandomizedResponse(p, answers))


def _responses(name: str, answers: int, construct: Callable[[float], Pair]) -> ScaleFamily:
    """Randomized response by the probability of a lie: at most that of an answer drawn at random, 1 - 1/k.

    The amount of noise is the inverse of the loss of one answer, ln((k - 1) (1 - lie) / lie), as the standard deviation
    is about that of Gaussian noise.
    """
    others, most = answers - 1.0, 1.0 - 1.0 / answers

    def make(lie: float) -> Pair:
        if not _RAREST_LIE <= lie <= most:
            limit = f"1 - 1/{answers}" if answers > 2 else "1/2"
            raise InvalidInputError(
                f"scale: expected a probability of a lie from {_RAREST_LIE:g} to {limit}, got {lie!r}"
            )
        return construct(1.0 - lie)

    def amount_of(lie: float) -> float:
        loss = math.log(others) + math.log1p(-lie) - math.log(lie) if lie < most else 0.0
        return 1.0 / loss if loss > 0.0 else _OF_A_COIN

    def lie_of(amount: float) -> float:
        small = others * math.exp(-1.0 / amount) if amount > 0.0 else 0.0
        return min(small / (1.0 + small), most)

    return ScaleFamily(
        name=name,
        make=make,
        ordered=True,
        first=lambda deviation: lie_of(0.5 * deviation),
        scale_of=lie_of,
        amount_of=amount_of,
    )


def _checked_pair(pair: Any) -> Pair:
    if not isinstance(pair, Pair):
        raise InvalidInputError(f"family: expected a callable that returns mechanisms, got {shown(pair)}")
    if not pair.attained_by_some:
        raise InvalidInputError(
            "family: expected mechanisms of which a lower bound can be known, got one whose pairs no change is declared"
            " to attain: no smaller noise can be refuted"
        )
    return pair


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
