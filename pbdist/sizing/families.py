"""Families of mechanisms whose noise is sized by its scale."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    KaryRandomizedResponse,
    NoisyCount,
    Pair,
    RandomizedResponse,
    noise_order,
    noise_parameter,
)
from pbdist.sizing.family_arguments import noise_class, wrong_parameters
from pbdist.sizing.goal import Goal

#: Scales at which the other parameters of a family are checked; the last one raises their error.
_TYPICAL = (1.0, 1e3, 1e-3, 1e6, 100.0)
#: Below this 1 - lie would round the probability of a lie by more than a part in 10^7.
_RAREST_LIE = 1e-9
#: An amount of noise at which the probability of a lie is 1/2 in float64.
_OF_A_COIN = 1e17


@dataclass(frozen=True)
class ScaleFamily:
    """A mechanism for every scale.

    Attributes
    ----------
    name : str
    make : callable of float
        The mechanism of a scale; raises `InvalidInputError` where the family has none.
    ordered : bool
        Whether a larger scale is proved to be a post-processing of a smaller one (`pbdist.mechanisms.pair`).
    first : callable of float
        Where a search begins: the scale that is about as private as Gaussian noise of a given standard deviation at
        sensitivity 1.
    scale_of, amount_of : callable of float
        The scale of an amount of noise, increasing, and its inverse. The search varies the amount. Both are equal, but
        where scales end at a finite one.
    """

    name: str
    make: Callable[[float], Pair]
    ordered: bool
    first: Callable[[float], float]
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
