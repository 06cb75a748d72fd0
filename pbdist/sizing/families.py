"""Families of mechanisms whose noise is sized: by its scale, or by mean and scale together."""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

from pbdist.arguments import checked_numbers
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import (
    MECHANISMS,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    KaryRandomizedResponse,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    RandomizedResponse,
    noise_order,
    noise_parameter,
    parameters_of,
)
from pbdist.mechanisms.additive import AdditiveNoise
from pbdist.rounding import brief
from pbdist.sizing.target import gaussian_scale
from pbdist.study import Target
from pbdist.suggestions import did_you_mean

#: The noise that a count can have, with a mean and a scale.
CountNoise = type[Laplace] | type[Gaussian] | type[DiscreteLaplace] | type[DiscreteGaussian]
COUNT_NOISES: tuple[CountNoise, ...] = (Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian)


def constructed(kind: type, **parameters: Any) -> Any:
    """Return the mechanism of a class; parameters that it does not have, or that are missing, are refused by name."""
    known = parameters_of(kind)
    for name in parameters:
        if name not in known:
            raise InvalidInputError(f"{name}: is no parameter of {kind.__name__}, which has {', '.join(known)}")
    for name, one in known.items():
        if one.required and name not in parameters:
            raise InvalidInputError(f"{name}: expected a value for {kind.__name__}, got none")
    return kind(**parameters)


def made(make: Callable[..., Pair], *amounts: float) -> Pair | None:
    """Return the mechanism of some amounts; None where the family has none."""
    try:
        return make(*amounts)
    except InvalidInputError:
        return None


def _typical(make: Callable[..., Pair], known: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], Pair]:
    """Return the first amounts of which the family has a mechanism, and that mechanism; where none is, an error."""
    for amounts in known[:-1]:
        if (pair := made(make, *amounts)) is not None:
            return amounts, pair
    return known[-1], make(*known[-1])


def noise_class(noise: Any, *others: type[Any]) -> type[Any]:
    """Return the class of a count's noise of that name, or the class itself; `others` are allowed too."""
    kind: Any = MECHANISMS.get(noise) if isinstance(noise, str) else noise
    if isinstance(kind, list):
        families = " and ".join(f"'NoisyCount({one})'" for one in kind)
        raise InvalidInputError(f"noise: expected one, got {len(kind)}: to compare them, name the families {families}")
    if kind not in (*COUNT_NOISES, *others):
        names = [each.__name__ for each in (*COUNT_NOISES, *others)]
        expected = f"{', '.join(names[:-1])} or {names[-1]}"
        got, near = "none" if noise is None else shown(noise), did_you_mean(noise, names)
        raise InvalidInputError(f"noise: expected the class {expected}, or its name, got {got}{near}")
    return kind  # type: ignore[no-any-return]


#: Scales at which the other parameters of a family are checked; the last one raises their error.
_TYPICAL = ((1.0,), (1e3,), (1e-3,), (1e6,), (100.0,))
#: Means and scales at which a family of counts is checked. Of the first one many parts are whole.
_TYPICAL_COUNTS = ((5040.0, 500.0), (1.0, 1.0), (1e4, 1e3), (1e2, 1e1))
#: The most messages that the mean of a family of counts may go up by.
_MAX_STEP = 1000
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
    #: The likely reason, and the remedy, where no scale meets a target.
    remedy: str = ""

    #: Only a scale is sized, and no mean.
    joint: ClassVar[bool] = False
    mean_step: ClassVar[int] = 0

    def start(self, target: Target) -> float:
        """Return the scale at which a search begins."""
        return self.first(min(max(gaussian_scale(target), 1e-12), 1e12))

    def pair(self, mean: float, scale: float) -> Pair:  # noqa: ARG002 -- as of `CountFamily`
        """Return the mechanism of a scale."""
        return self.make(scale)

    def messages(self, mean: float, scale: float) -> float | None:  # noqa: ARG002 -- as of `CountFamily`
        """Return how many messages the noise takes on average; None where it is no noise of messages."""
        return expected_messages(self.make(scale))


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
    joint: ClassVar[bool] = True
    ordered: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not callable(self.make):
            raise InvalidInputError(
                f"CountFamily.make: expected a callable from a mean and a scale, got {shown(self.make)}"
            )
        if self.weights is not None:
            expected = "finite numbers above 0, one for each count"
            weights = checked_numbers("CountFamily.weights", self.weights, expected, lambda one: 0.0 < one < math.inf)
            object.__setattr__(self, "weights", tuple(weights.tolist()))

    def pair(self, mean: float, scale: float) -> Pair:
        """Return the mechanism of a mean and a scale.

        Raises
        ------
        InvalidInputError
            If it is anything but noisy counts, or not as many as there are weights.
        """
        pair: Any = self.make(mean, scale)
        if not isinstance(pair, Pair) or not all(isinstance(one.inner, NoisyCount) for one in pair.factors):
            raise InvalidInputError(f"CountFamily.make: expected a NoisyCount or a Product of such, got {shown(pair)}")
        if self.weights is not None and len(self.weights) != len(pair.factors):
            raise InvalidInputError(
                f"CountFamily.weights: expected one for each of {len(pair.factors)} counts, got {shown(self.weights)}"
            )
        return pair

    @cached_property
    def mean_step(self) -> int:
        """Means are whole multiples of this, as those of discrete noise are; 0 where any number is a mean.

        Raises
        ------
        InvalidInputError
            If the family is wrong at every mean and scale.
        """
        (_, scale), typical = _typical(self.pair, _TYPICAL_COUNTS)
        if all(isinstance(factor.inner.noise, AdditiveNoise) for factor in typical.factors):  # type: ignore[attr-defined]
            return 0
        for step in range(1, _MAX_STEP + 1):
            if made(self.pair, float(step), scale) and made(self.pair, 3.0 * step, scale):
                return step
        raise InvalidInputError(
            f"CountFamily.make: expected pairs at all multiples of some mean from 1 to {_MAX_STEP}, got none"
        )

    def messages(self, mean: float, scale: float) -> float:
        """Return how many messages the noise takes on average."""
        return expected_messages(self.pair(mean, scale), self.weights) or 0.0


def family_of(family: Any, parameters: Mapping[str, Any]) -> ScaleFamily | CountFamily:
    """Return the family of a mechanism class with its other parameters, of a `CountFamily`, or of a callable.

    Of `NoisyCount` without a mean, mean and scale are sized together; with Poisson noise, its mean.
    """
    if isinstance(family, type):
        return _of_class(family, parameters)
    joint = isinstance(family, CountFamily)
    if not callable(family) and not joint:
        raise InvalidInputError(
            f"family: expected a mechanism class or a callable from a scale to a mechanism, got {shown(family)}"
        )
    for name in parameters:
        raise InvalidInputError(f"{name}: a {'CountFamily' if joint else 'callable family'} takes no parameters")
    if isinstance(family, CountFamily):
        return family

    def make(scale: float) -> Pair:
        pair: Any = family(scale)
        if not isinstance(pair, Pair):
            raise InvalidInputError(f"family: expected a callable that returns mechanisms, got {shown(pair)}")
        if not pair.attained_by_some:
            raise InvalidInputError(
                "family: expected mechanisms of which a lower bound can be known, got one whose pairs no change is"
                " declared to attain: no smaller noise can be refuted"
            )
        return pair

    return ScaleFamily(getattr(family, "__name__", type(family).__name__), make, ordered=False, first=float)


def _of_class(kind: type, parameters: Mapping[str, Any]) -> ScaleFamily | CountFamily:
    if kind in (RandomizedResponse, KaryRandomizedResponse):
        return _responses(kind, parameters)
    if kind is NoisyCount:
        return _counts(parameters)
    sized = noise_parameter(kind) if issubclass(kind, Pair) else None
    if sized is None:
        known = ", ".join(sorted(name for name, other in MECHANISMS.items() if noise_parameter(other)))
        raise InvalidInputError(f"family: expected one of {known} or a callable, got {kind.__name__}")
    if sized.name in parameters:
        raise InvalidInputError(f"{sized.name}: cannot be given: it is the noise that is sized")

    def make(scale: float) -> Pair:
        pair: Pair = constructed(kind, **{**parameters, sized.name: scale})
        return pair

    _, typical = _typical(make, _TYPICAL)
    return ScaleFamily(
        name=kind.__name__,
        make=make,
        ordered=noise_order(typical) is not None,
        first=lambda deviation: typical.usual_noise(deviation, parameters),
    )


def _counts(parameters: Mapping[str, Any]) -> ScaleFamily | CountFamily:
    """Noisy counts: by mean and scale, or by the scale at a given mean; no order is proved of either."""
    noise = noise_class(parameters.get("noise"), Poisson)
    others = {name: value for name, value in parameters.items() if name != "noise"}
    mean = others.pop("mean", None)
    if noise is Poisson:
        if mean is not None:
            raise InvalidInputError("mean: cannot be given with Poisson noise: it is what is sized")
        # With noise of any other kind: the parameters are those of a count. Poisson noise is whole and never negative:
        # all readings of it are one.
        constructed(NoisyCount, noise=Laplace(1.0), mean=1.0, **others)
        return _of_class(Poisson, {"sensitivity": others["shift"]})

    def make(mean: float, scale: float) -> Pair:
        pair: Pair = constructed(NoisyCount, noise=noise(scale), mean=mean, **others)
        return pair

    make(1.0 if mean is None else mean, 1.0)
    if mean is None:
        return CountFamily(make)
    shift = float(others["shift"])
    remedy = f"; the mean of {brief(mean)} may be too small: leave it out, and mean and scale are sized together"
    return ScaleFamily("NoisyCount", partial(make, mean), False, lambda deviation: shift * deviation, remedy=remedy)


def _responses(kind: type, parameters: Mapping[str, Any]) -> ScaleFamily:
    """Randomized response by the probability of a lie: at most that of an answer drawn at random, 1 - 1/k.

    The amount of noise is the inverse of the loss of one answer, ln((k - 1) (1 - lie) / lie), as the standard deviation
    is about that of Gaussian noise.
    """
    answers = getattr(constructed(kind, p=0.5, **parameters), "k", 2)
    others, most = answers - 1.0, 1.0 - 1.0 / answers

    def make(lie: float) -> Pair:
        if not _RAREST_LIE <= lie <= most:
            limit = f"1 - 1/{answers}" if answers > 2 else "1/2"
            raise InvalidInputError(
                f"scale: expected a probability of a lie from {_RAREST_LIE:g} to {limit}, got {lie!r}"
            )
        pair: Pair = constructed(kind, p=1.0 - lie, **parameters)
        return pair

    def amount_of(lie: float) -> float:
        loss = math.log(others) + math.log1p(-lie) - math.log(lie) if lie < most else 0.0
        return 1.0 / loss if loss > 0.0 else _OF_A_COIN

    def lie_of(amount: float) -> float:
        small = others * math.exp(-1.0 / amount) if amount > 0.0 else 0.0
        return min(small / (1.0 + small), most)

    return ScaleFamily(kind.__name__, make, True, lambda deviation: lie_of(0.5 * deviation), lie_of, amount_of)


def expected_messages(pair: Pair, weights: Sequence[float] | None = None) -> float | None:
    """Return how many messages the noise of a mechanism takes on average; None where it is no noise of messages.

    `weights` are the messages that each count is worth.
    """
    found = []
    for factor in pair.factors:
        if isinstance(factor.inner, NoisyCount):
            found.append(factor.inner.expected_count)
        elif isinstance(factor, Poisson):
            found.append(factor.mean)
        else:
            return None
    return math.fsum(map(operator.mul, weights or (1.0,) * len(found), found))
