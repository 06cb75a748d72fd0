"""Kept states as zarr groups: arrays and attributes in, the same state out."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from pbdist.buckets.state import BucketState
from pbdist.buckets.tight import TiltedMasses
from pbdist.store.create import COMPRESSOR, SERIALIZER
from pbdist.types import FloatArray, JsonValue

__all__ = ["read_state_group", "write_state_group"]

#: The attribute that tells tilted masses from a bucket state, which has none such.
_KIND, _TILTED = "state", "tilted-masses"
#: Dimensions of the arrays of `TiltedMasses`; one with fewer has the first ones.
_DIMENSIONS = ("member", "row", "position")


def write_state_group(folder: Path, state: BucketState | TiltedMasses) -> None:
    """Write a state as a new zarr group in `folder`."""
    arrays: Mapping[str, FloatArray]
    attributes: dict[str, JsonValue]
    if isinstance(state, TiltedMasses):
        content = {field.name: getattr(state, field.name) for field in fields(state)}
        arrays = {name: value for name, value in content.items() if isinstance(value, np.ndarray)}
        plain = {name: _listed(value) for name, value in content.items() if name not in arrays}
        attributes = {_KIND: _TILTED, **plain}
    else:
        arrays, attributes = state.to_arrays()
    group = zarr.open_group(folder, mode="w-", zarr_format=3, attributes=attributes)
    for name, values in arrays.items():
        array = group.create_array(
            name,
            shape=values.shape,
            chunks=tuple(max(1, size) for size in values.shape),
            dtype=np.dtype("f8"),
            fill_value=np.nan,
            serializer=SERIALIZER,
            compressors=COMPRESSOR,
            dimension_names=_DIMENSIONS[: values.ndim] if isinstance(state, TiltedMasses) else ("bucket",),
            config={"write_empty_chunks": True},
        )
        array[...] = values


def read_state_group(folder: Path) -> BucketState | TiltedMasses:
    """Read the state that `write_state_group` has written, bit for bit; its arrays are read-only.

    Raises
    ------
    FileNotFoundError
        There is no group at `folder`.
    """
    group = zarr.open_group(folder, mode="r")
    arrays: dict[str, Any] = {name: _read_only(array) for name, array in group.arrays()}
    attributes: dict[str, Any] = dict(group.attrs)
    if attributes.get(_KIND) != _TILTED:
        return BucketState.from_arrays(arrays, attributes)
    del attributes[_KIND]
    content: dict[str, Any] = {name: _frozen(value) for name, value in attributes.items()}
    return TiltedMasses(**arrays, **content)


def _listed(value: Any) -> JsonValue:
    """Return tuples as lists, which JSON keeps."""
    return [_listed(item) for item in value] if isinstance(value, tuple) else value


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value


def _read_only(array: Any) -> FloatArray:
    values = np.asarray(array[...], dtype=np.float64)
    values.setflags(write=False)
    return values
