"""Read JSON that anybody may have written: few levels, however long it is."""

import json
import re

import numpy as np

from pbdist.types import JsonValue

#: The most levels of lists and mappings in each other. Those of a pair are few, and it is read level by level.
_MOST_LEVELS = 100
#: A text of JSON, or the rest of a document in which one has no end. It never goes back, and so takes linear time.
_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?+', re.DOTALL)


def json_of(data: bytes) -> JsonValue:
    """Return what a JSON document says; a `ValueError` where it is none, or has more levels than a store's has."""
    if data.count(b"[") + data.count(b"{") > _MOST_LEVELS:
        signs = np.frombuffer(_TEXT.sub(b"", data), dtype=np.uint8)
        opening, closing = ((signs == pair[0]) | (signs == pair[1]) for pair in (b"[{", b"]}"))
        steps = np.where(opening, np.int8(1), np.int8(-1))[opening | closing]
        levels = np.cumsum(steps, dtype=np.int32)
        if levels.max(initial=0) > _MOST_LEVELS:
            raise ValueError(f"expected at most {_MOST_LEVELS} levels of nesting, got more")
    try:
        return json.loads(data)
    except RecursionError as error:
        raise ValueError("expected a few levels of nesting, got more") from error
