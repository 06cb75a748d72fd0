"""The choices of a panel: a panel is made for each, with its values for ``$name``."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from pbdist.study.document import Document, Keys
from pbdist.study.refusals import refuse
from pbdist.types import JsonValue

#: What stands for a choice of ``for_each``.
_NAME = re.compile(r"\$([A-Za-z_][A-Za-z0-9_]*)")
#: Keys whose values stay texts.
_TEXTS = ("title", "label")


def filled(data: JsonValue, keys: Keys, chosen: Mapping[str, Any]) -> JsonValue:
    """Return the content of a file with the chosen values in the panel at `keys`, for ``$name`` in it."""
    if not keys:
        return _replaced(data, chosen)
    first, *rest = keys
    if isinstance(data, list):
        return [filled(x, tuple(rest), chosen) if i == first else x for i, x in enumerate(data)]
    return {key: filled(x, tuple(rest), chosen) if key == first else x for key, x in data.items()}


def _replaced(value: JsonValue, chosen: Mapping[str, Any], *, text: bool = False) -> JsonValue:
    """Put values for ``$name``: as they are where the text is nothing else, as text inside a longer one."""
    if isinstance(value, dict):
        return {
            key: item if key == "for_each" else _replaced(item, chosen, text=key in _TEXTS)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_replaced(item, chosen) for item in value]
    if not isinstance(value, str):
        return value
    whole = None if text else _NAME.fullmatch(value)
    if whole and whole[1] in chosen:
        return chosen[whole[1]]
    return _NAME.sub(lambda found: str(chosen.get(found[1], found[0])), value)


def _names_in(value: JsonValue) -> set[str]:
    """Return the names after ``$`` in all texts of a value."""
    if isinstance(value, dict):
        return set().union(*(_names_in(item) for key, item in value.items() if key != "for_each"))
    if isinstance(value, list):
        return set().union(*map(_names_in, value))
    return set(_NAME.findall(value)) if isinstance(value, str) else set()


def check_names(document: Document, keys: Keys, choices: Mapping[str, Sequence[Any]]) -> None:
    """Refuse names that stand for nothing, or that nothing uses, and lists without a choice."""
    data = document.data
    for part in keys:
        data = data[part]
    used = _names_in(data)
    for name, listed in choices.items():
        if not listed:
            refuse(document, (*keys, "for_each", name), "expected at least one choice, got []")
        if name not in used:
            refuse(document, (*keys, "for_each", name), f"expected a name that the panel uses as ${name}, got {name}")
    for name in sorted(used - set(choices)):
        refuse(document, keys, f"expected names that for_each lists, got ${name}")
