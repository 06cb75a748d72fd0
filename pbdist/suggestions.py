"""Suggestions for misspelt names."""

import difflib
from collections.abc import Iterable, Mapping

#: Least similarity of two names, from 0 to 1.
_MIN_SIMILARITY = 0.65
#: Longer names are no typing errors.
_MAX_LENGTH = 60


def likely(wrong: object, known: Iterable[str], other_names: Mapping[str, str] | None = None) -> str | None:
    """Return the known name that `wrong` is likely to mean, or None.

    `other_names` has, in lower case, other words for some of the known names.
    """
    if not isinstance(wrong, str) or not 0 < len(wrong) <= _MAX_LENGTH:
        return None
    names = {_plain(name): name for name in reversed(tuple(known))}
    word = _plain(wrong)
    meant = (other_names or {}).get(wrong.lower())
    if meant in names.values():
        return meant
    if word in names:
        return names[word]
    close = difflib.get_close_matches(word, names, n=1, cutoff=_MIN_SIMILARITY)
    begun = [name for name in names if len(word) > 2 and (name.startswith(word) or name.endswith(word))]
    found = close or (begun if len(begun) == 1 else [])
    return names[found[0]] if found else None


def did_you_mean(wrong: object, known: Iterable[str], other_names: Mapping[str, str] | None = None) -> str:
    """Return ``: did you mean NAME?`` for the end of an error message; nothing if no known name is similar."""
    name = likely(wrong, known, other_names)
    return "" if name is None or name == wrong else f": did you mean {name}?"


def _plain(name: str) -> str:
    """Return a name in lower case, without separators of words."""
    return name.lower().replace("_", "").replace("-", "").replace(" ", "")
