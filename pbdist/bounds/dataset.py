"""Wrap arrays of bounds as xarray Datasets with dimensions, names and units."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.arguments import Neighbours
from pbdist.types import COMPOSITIONS, DIRECTION, Direction, IntArray

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, eq=False)
class Variable:
    """One array over both directions, all r and, if there is one, the last axis.

    Attributes
    ----------
    values : ndarray, shape (2, R, K) or (2, R)
        First axis: A||B, B||A.
    long_name, units : str
    worse : callable
        Reduces the directions to the worse of the two, along ``axis``.
    """

    values: Any
    long_name: str
    units: str = "1"
    worse: Callable[..., Any] = np.max


@dataclass(frozen=True, eq=False)
class Axis:
    """The last dimension: ε, δ, the order or the type I error."""

    name: str
    values: Any
    long_name: str


def bounds_dataset(
    variables: Mapping[str, Variable],
    compositions: IntArray,
    axis: Axis | None,
    *,
    direction: str,
    neighbours: Neighbours,
    attributes: Mapping[str, Any],
    directions_of: str = "divergence",
) -> "xr.Dataset":
    """Return the Dataset of `variables`, over the directions where `direction` is "each".

    Its attribute ``adjacency`` says for which neighbours the bounds are, and that of the directions, ``comment``, which
    of them is a removal, where one is known to be.
    """
    dims: tuple[str, ...] = (COMPOSITIONS,) if axis is None else (COMPOSITIONS, axis.name)
    coords: dict[str, Any] = {
        COMPOSITIONS: (COMPOSITIONS, compositions, {"long_name": "number of compositions r", "units": "1"})
    }
    if axis is not None:
        coords[axis.name] = (axis.name, axis.values, {"long_name": axis.long_name, "units": "1"})
    if direction == "each":
        dims = (DIRECTION, *dims)
        coords[DIRECTION] = (
            DIRECTION,
            [item.value for item in Direction],
            {"long_name": f"direction of the {directions_of}"}
            | ({} if neighbours.directions is None else {"comment": neighbours.directions}),
        )
    import xarray as xr  # noqa: PLC0415 -- it takes half a second, and no worker needs it

    return xr.Dataset(
        {
            name: (
                dims,
                one.values if direction == "each" else one.worse(one.values, axis=0),
                {"long_name": one.long_name} | ({"units": one.units} if one.units else {}),
            )
            for name, one in variables.items()
        },
        coords=coords,
        attrs={**attributes, "adjacency": neighbours.adjacency.value},
    )
