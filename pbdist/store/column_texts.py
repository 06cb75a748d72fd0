"""Short texts of parameters that are no single numbers: the same text for the same values, and another for others."""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from pbdist.types import JsonValue

#: Longer texts are cut, and end with a digest of all.
_MOST_OF_LIST, _MOST_OF_PAIRS = 80, 240
#: So many values stand before the digest of a long list.
_FIRST = 3


def list_text(values: Sequence[float]) -> str:
    """Return the text of a list of numbers, ``[0, 0.5, 1]``; of a long one its beginning, its length and a digest."""
    text = f"[{', '.join(map(_number, values))}]"
    if len(text) <= _MOST_OF_LIST:
        return text
    return f"[{', '.join(map(_number, values[:_FIRST]))}, ..: {len(values)} values, {_digest(text)}]"


def as_list_text(given: str) -> str:
    """Return the text that `list_text` makes of numbers that are given as text, and any other text as it is.

    Brackets and spaces do not matter, nor how a number is written: ``0,1.0`` is ``[0, 1]``.
    """
    try:
        values = [_parsed(part.strip()) for part in given.strip("[]() ").split(",")]
    except ValueError:
        return given
    return list_text(values) if all(map(math.isfinite, values)) else given


def composite_text(form: Mapping[str, JsonValue]) -> str:
    """Return the text of the pairs that a product, a reversed pair or the worst of several pairs is made of.

    `form` is its canonical form. A long text is cut and ends with a digest of the form.
    """
    kind = form["mechanism"]
    if kind == "Reversed":
        text = _text(form["pair"])
    elif kind == "Product":
        text = " * ".join(map(_text, form["pairs"]))
    elif kind != "WorstOf":
        text = _text(form)
    else:
        told = zip(form["pairs"], form["attained"], strict=True)
        text = "; ".join(f"{_text(pair)}{'' if there else ' (upper bounds only)'}" for pair, there in told)
        if form.get("neighbours") is not None:
            text += f"; {form['neighbours']}"
    if len(text) <= _MOST_OF_PAIRS:
        return text
    whole = json.dumps(form, sort_keys=True)
    return f"{text[: _MOST_OF_PAIRS // 2]}.. ({_digest(whole)})"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        # Sorted, as in the canonical text.
        names = sorted(name for name, inner in value.items() if name != "mechanism" and inner is not None)
        told = (f"{name}={_text(value[name])}" for name in names)
        return f"{value['mechanism']}({', '.join(told)})"
    if isinstance(value, list | tuple):
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
        return list_text(value) if numbers else f"[{', '.join(map(_text, value))}]"
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _parsed(text: str) -> float:
    # A count may have more digits than a float.
    return int(text) if text.isdecimal() else float(text)


def _number(value: float) -> str:
    """Return the shortest decimal of a number, the same for a whole float and for its integer."""
    return repr(value).removesuffix(".0")


def _digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"
