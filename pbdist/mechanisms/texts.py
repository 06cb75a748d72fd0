"""Pairs and their parameters as text, from canonical forms."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from pbdist.types import JsonValue

#: Longer texts are cut, and end with a digest of all.
_MAX_OF_LIST, _MAX_OF_PAIRS = 80, 240
#: So many values stand before the digest of a long list.
_FIRST = 3


def list_text(values: Sequence[float]) -> str:
    """Return the text of a list of numbers, ``[0, 0.5, 1]``; of a long one its beginning, its length and a digest."""
    text = f"[{', '.join(map(_number, values))}]"
    if len(text) <= _MAX_OF_LIST:
        return text
    return f"[{', '.join(map(_number, values[:_FIRST]))}, ..: {len(values)} values, {_digest(text)}]"


def as_list_text(given: str) -> str:
    """Return the text that `list_text` makes of numbers that are given as text, and any other text as it is.

    Brackets and spaces do not matter, nor how a number is written: ``0,1.0`` is ``[0, 1]``.
    """
    try:
        parts = [part.strip() for part in given.strip("[]() ").split(",")]
        # A count may have more digits than a float.
        values = [int(part) if part.isdecimal() else float(part) for part in parts]
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
        pairs = zip(form["pairs"], form["attained"], strict=True)
        text = "; ".join(f"{_text(pair)}{'' if attained else ' (upper bounds only)'}" for pair, attained in pairs)
        if form.get("neighbours") is not None:
            text += f"; {form['neighbours']}"
    if len(text) <= _MAX_OF_PAIRS:
        return text
    whole = json.dumps(form, sort_keys=True)
    return f"{text[: _MAX_OF_PAIRS // 2]}.. ({_digest(whole)})"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):
        # Sorted, as in the canonical text.
        names = sorted(name for name, inner in value.items() if name != "mechanism" and inner is not None)
        return f"{value['mechanism']}({', '.join(f'{name}={_text(value[name])}' for name in names)})"
    if isinstance(value, list | tuple):
        numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in value)
        return list_text(value) if numbers else f"[{', '.join(map(_text, value))}]"
    return _number(value) if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _number(value: float) -> str:
    """Return the shortest decimal of a number, the same for a whole float and for its integer."""
    return repr(value).removesuffix(".0")


def _digest(text: str) -> str:
    return f"sha256 {hashlib.sha256(text.encode()).hexdigest()[:16]}"


#: In a short text: the pairs of a worst of several and the factors of each, the values of a list, and the least whole
#: number that is rounded.
_MAX_SHOWN, _LONG_LIST, _LONG_NUMBER = 2, 4, 10**15


def short_text(form: Mapping[str, JsonValue]) -> str:
    """Return the parameters of a canonical pair as ``(scale=200, ..)``; of the worst of several, its first pairs."""
    if form["mechanism"] != "WorstOf":
        given = ((name, value) for name, value in form.items() if name != "mechanism" and value is not None)
        return f"({', '.join(f'{name}={_shown(value)}' for name, value in given)})"
    pairs = form["pairs"]
    texts = [_product(pair) for pair in pairs[:_MAX_SHOWN]]
    more = [f"{len(pairs) - _MAX_SHOWN} more"] if len(pairs) > _MAX_SHOWN else []
    return f" ({texts[0]})" if len(pairs) == 1 else f" (worst of {len(pairs)}: {' or '.join([*texts, *more])})"


def _product(form: Mapping[str, JsonValue]) -> str:
    """Return a product as text: its different factors, each with how often it occurs."""
    counts = Counter(map(_shown, form["pairs"] if form["mechanism"] == "Product" else [form]))
    texts = [text if times == 1 else f"{times} x {text}" for text, times in counts.items()]
    more = [f"{len(texts) - _MAX_SHOWN} more"] if len(texts) > _MAX_SHOWN else []
    return " and ".join([*texts[:_MAX_SHOWN], *more])


def _shown(value: JsonValue) -> str:
    if isinstance(value, Mapping):
        return f"{value['mechanism']}{short_text(value)}"
    if isinstance(value, list):
        return f"[{', '.join(map(_shown, value))}]" if len(value) <= _LONG_LIST else f"[{len(value)} values]"
    if isinstance(value, int) and abs(value) >= _LONG_NUMBER:
        return f"{Decimal(value):.6e}"
    return f"{value:.10g}" if isinstance(value, float) else str(value)
