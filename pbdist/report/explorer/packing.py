"""Arrays as JSON values that a page reads back bit by bit, and JSON that may stand inside a page."""

import base64
import json
from typing import Any

import numpy as np

from pbdist.types import JsonValue

#: How arrays are packed: little-endian, by the name under which a page finds them.
_KINDS = {"f": ("f8", "<f8"), "i": ("u4", "<u4"), "u": ("u4", "<u4"), "b": ("u1", "|u1")}
#: What could end a script element or a line of a script, as JSON may write it too.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}


def packed(values: Any) -> dict[str, JsonValue]:
    """Return an array as base64 of float64, uint32 or (of bool) uint8, in row order, under the name of its kind."""
    array = np.asarray(values)
    name, dtype = _KINDS[array.dtype.kind]
    return {name: base64.b64encode(np.ascontiguousarray(array, dtype=dtype).tobytes()).decode("ascii")}


def embedded_json(value: JsonValue) -> str:
    """Return JSON for a script element of a page: no text in it can end the element or a line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).translate(_ESCAPES)
