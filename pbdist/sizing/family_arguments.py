"""Arguments of families of mechanisms: which noise, and which parameter is wrong."""

import inspect
from collections.abc import Collection
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import MECHANISMS, DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace
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
