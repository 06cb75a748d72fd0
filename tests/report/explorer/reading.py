"""Read what a page and a command answer."""

import base64
from typing import Any

import numpy as np

DTYPES = {"f8": "<f8", "u4": "<u4", "u1": "|u1"}


def unpacked(packed: dict[str, str]) -> Any:
    ((kind, text),) = packed.items()
    return np.frombuffer(base64.b64decode(text), dtype=DTYPES[kind])


def leaves(document: Any) -> dict[str, Any]:
    """The numbers and texts of a JSON answer by their names, wherever they stand; of two of a name the last."""
    found: dict[str, Any] = {}
    for name, value in document.items() if isinstance(document, dict) else enumerate(document):
        found |= leaves(value) if isinstance(value, dict | list) else {name: value}
    return found
