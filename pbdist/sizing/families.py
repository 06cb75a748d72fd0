"""Families of mechanisms that noise of a single scale makes more private, or may."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import NoisyCount, Pair, RandomizedResponse
from pbdist.mechanisms.order import NOISE_PARAMETER, noise_order
from pbdist.sizing.count_families import noise_class, wrong_parameters
from pbdist.sizing.goal import Goal
from pbdist.sizing.interpolation import gaussian_scale

__all__ = ["ScaleFamily", "family_of"]

#: Scales at which the other parameters of a family are looked at, the last one for their error.
_TYPICAL = (1.0, 1e3, 1e-3, 1e6, 100.0)
#: Below this 1 - lie would round the probability of a lie by more than a part in 10^7.
_RAREST_LIE = 1e-9
#: An amount of noise at which the probability of a lie is 1/2 in float64.
_OF_A_COIN = 1e17


@dataclass(frozen=True)
class ScaleFamily:
    """What is sized: a mechanism for every scale.

    Attributes
    ----------
    name : str
    make : callable of float
        The mechanism of a scale; raises `InvalidInputError` where the family has none.
    ordered : bool
        Whether a larger scale is proved to be a post-processing of a smaller one (`pbdist.mechanisms.order`).
    first : callable of float
        Where a search begins: the scale that is about as private as Gaussian noise of a standard deviation at
        sensitivity 1.
    scale_of, amount_of : callable of float
        The scale of an amount of noise, increasing, and its inverse. The search goes by the amount; both are the same
        but where scales end at a finite one.
    """

    name: str
    make: Callable[[float], Pair]
    ordered: bool
    first: Callable[[float], float]
    scale_of: Callable[[float], float] = float
    amount_of: Callable[[float], float] = float

    def start(self, goal: Goal) -> float:
        """Return the scale at which a search begins."""
        deviation = gaussian_scale(goal.compositions, goal.epsilon, math.log(goal.delta))
        return self.first(min(max(deviation, 1e-12), 1e12))


def family_of(family: Any, parameters: Mapping[str, Any]) -> ScaleFamily:
    """Return the family of a mechanism class with its other parameters, or of a callable from scales to mechanisms.

    Raises
    ------
    InvalidInputError
        If it is neither, the class has no parameter that makes noise, or parameters are missing, unknown or wrong.
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
        return _responses(parameters)
    if kind is NoisyCount:
        return _counts(parameters)
    name = kind.__name__
    if not issubclass(kind, Pair) or (
        kind not in NOISE_PARAMETER and "scale" not in getattr(kind, "__match_args__", ())
    ):
        known = ", ".join(sorted(other.__name__ for other in NOISE_PARAMETER))
        raise InvalidInputError(f"family: expected one of {known}, NoisyCount or a callable, got {name}")
    parameter = NOISE_PARAMETER.get(kind, "scale")
    if parameter in parameters:
        raise InvalidInputError(
            f"{parameter}: expected none, for it is what is sized, got {shown(parameters[parameter])}"
        )

    construct: Callable[..., Pair] = kind

    def make(scale: float) -> Pair:
        return construct(**{**parameters, parameter: scale})

    try:
        typical = _any_of(make)
    except TypeError as error:
        raise wrong_parameters(kind, [*parameters, parameter], error) from error
    sensitivity = float(parameters.get("sensitivity", 1.0))
    rate = float(parameters.get("rate", 1.0))
    squared = parameter == "mean"

    def first(deviation: float) -> float:
        noise = sensitivity * deviation * rate
        return max(noise * noise, 1.0) if squared else noise if rate == 1.0 else max(noise, 0.5 * sensitivity)

    ordered = kind in NOISE_PARAMETER and noise_order(typical) is not None
    return ScaleFamily(name=name, make=make, ordered=ordered, first=first)


def _counts(parameters: Mapping[str, Any]) -> ScaleFamily:
    """Noisy counts of a given mean, by the scale of their noise: no order is proved of them."""
    noise = noise_class(parameters.get("noise"))
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
    """Return the mechanism of some scale; what is wrong with the other parameters shows at each."""
    for scale in _TYPICAL[:-1]:
        try:
            return make(scale)
        except InvalidInputError:
            continue
    return make(_TYPICAL[-1])


def _responses(parameters: Mapping[str, Any]) -> ScaleFamily:
    """Randomized response by the probability of a lie, of which 1/2 tells nothing.

    The amount of noise is 1 / ln((1 - lie) / lie): the loss of one answer is its inverse, as that of Gaussian noise is
    about the inverse of the standard deviation.
    """
    if parameters:
        raise InvalidInputError(f"{next(iter(parameters))}: expected no parameters with RandomizedResponse, got one")

    def make(lie: float) -> Pair:
        if not _RAREST_LIE <= lie <= 0.5:
            raise InvalidInputError(f"scale: expected a probability of a lie from {_RAREST_LIE:g} to 1/2, got {lie!r}")
        return RandomizedResponse(1.0 - lie)

    def amount_of(lie: float) -> float:
        loss = math.log1p(-lie) - math.log(lie) if lie < 0.5 else 0.0
        return 1.0 / loss if loss > 0.0 else _OF_A_COIN

    return ScaleFamily(
        name="RandomizedResponse",
        make=make,
        ordered=True,
        first=lambda deviation: _lie_of(0.5 * deviation),
        scale_of=_lie_of,
        amount_of=amount_of,
    )


def _lie_of(amount: float) -> float:
    small = math.exp(-1.0 / amount) if amount > 0.0 else 0.0
    return small / (1.0 + small)


def _checked_pair(pair: Any) -> Pair:
    if not isinstance(pair, Pair):
        raise InvalidInputError(f"family: expected a callable that returns mechanisms, got {shown(pair)}")
    return pair
