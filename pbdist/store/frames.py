"""Check how much a compressed chunk says that it unpacks to, before it is unpacked: a few bytes may say terabytes."""

import math
from collections.abc import Mapping

from pbdist.errors import shown
from pbdist.store.json_text import json_of
from pbdist.types import JsonValue

__all__ = ["HEAD_BYTES", "MOST_UNPACKED", "check_chunks", "check_frame"]

#: The most bytes that a chunk of texts, or one whose array is not known, unpacks to.
MOST_UNPACKED = 1 << 30
#: The most elements of an array that is read as a whole.
_MOST_ELEMENTS = 1 << 28
#: The most bytes of the head of a frame.
HEAD_BYTES = 18
_MAGIC = (0xFD2FB528).to_bytes(4, "little")
#: Bytes of an element, by the type of the array; texts have any length.
_BYTES = {"bool": 1, "float64": 8, "int64": 8}
#: RFC 8878, section 3.1.1.1: bytes of the number of the dictionary, and of the size of the content, by their flags.
_DICTIONARY, _SIZE = (0, 1, 2, 4), (0, 2, 4, 8)


def check_frame(data: bytes, most: int = MOST_UNPACKED, *, exactly: bool = False) -> None:
    """Refuse a zstd frame that does not say its size, or says more than `most` bytes, by a `ValueError`.

    With `exactly` also one that says less. What is no frame is left to whoever unpacks it, as is a frame that unpacks
    to more than it says: the memory is taken before.
    """
    if data[:4] != _MAGIC:
        return
    size = _size(data)
    if size is None:
        raise ValueError("expected a compressed chunk that says its size, got one that does not")
    if size > most or (exactly and size != most):
        expected = f"{'' if exactly else 'at most '}{most:,} bytes"
        raise ValueError(f"expected a chunk that unpacks to {expected}, got one of {size:,} bytes")


def check_chunks(files: Mapping[str, bytes]) -> None:
    """Refuse arrays that are larger than what is read, and chunks that unpack to more than their arrays have.

    For metadata that was checked before. Raises `ValueError`.
    """
    for name, data in files.items():
        if name.rpartition("/")[2] == "zarr.json":
            continue
        # The names of chunks are ARRAY/c/0/0.
        array = json_of(files.get(f"{f'{name}/'.partition('/c/')[0]}/zarr.json", b"{}"))
        if isinstance(array, dict) and array.get("data_type") in _BYTES:
            elements = math.prod(_lengths(array, "shape"))
            chunk = math.prod(_lengths(array["chunk_grid"]["configuration"], "chunk_shape"))
            if max(elements, chunk) > _MOST_ELEMENTS:
                got = shown(array["shape"])
                raise ValueError(f"expected an array of at most {_MOST_ELEMENTS:,} elements, got the shape {got}")
            check_frame(data, chunk * _BYTES[array["data_type"]], exactly=True)
        else:
            check_frame(data)


def _lengths(settings: Mapping[str, JsonValue], name: str) -> list[int]:
    lengths: list[int] = settings[name]
    return lengths


def _size(data: bytes) -> int | None:
    """Return the size of the content that the head of a zstd frame says; None where it says none, or is cut short."""
    flags = data[4] if len(data) > 4 else 0
    single = bool(flags & 0x20)
    start = 5 + (not single) + _DICTIONARY[flags & 3]
    length = _SIZE[flags >> 6] or int(single)
    field = data[start : start + length]
    if not length or len(field) < length:
        return None
    # Sizes in two bytes begin where those in one end.
    return int.from_bytes(field, "little") + (256 if length == 2 else 0)
