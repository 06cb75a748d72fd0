"""Other names for the keys and kinds of study files, and what the right key means.

People come with the words of their own field or library: ``variance`` for a scale, ``steps`` for compositions. Those
for the parameters of a mechanism are declared with it.
"""

import re
from collections.abc import Iterable, Mapping

from pbdist.mechanisms import MECHANISMS, parameters_of
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: The owners of keys that are no kind of mechanism.
STUDY, TARGET = "study", "target"

_ROUNDS = ("r", "n", "k", "steps", "rounds", "iterations", "queries", "num_steps", "number_of_compositions")
_OF_ROUNDS = ("compositions", "compositions is r, how often a mechanism is run: rounds, steps or queries")
_OF_EPSILON = ("epsilon", "epsilon is ε, in nats")
_OF_EXP_EPSILON = ("exp_epsilon", "exp_epsilon is e^ε")
_GRID_KEYS: Mapping[str, tuple[str, str]] = {
    **dict.fromkeys(_ROUNDS, _OF_ROUNDS),
    **dict.fromkeys(("eps", "epsilons", "ε"), _OF_EPSILON),
    **dict.fromkeys(("exp_eps", "e_epsilon", "e^epsilon", "e^eps", "e^ε", "exp(epsilon)"), _OF_EXP_EPSILON),
}
_OTHER_KEYS: Mapping[str, Mapping[str, tuple[str, str]]] = {
    STUDY: {
        **_GRID_KEYS,
        **dict.fromkeys(("accuracy", "precision", "rtol"), ("tolerance", "")),
        **dict.fromkeys(("bins", "number_of_buckets"), ("buckets", "")),
        **dict.fromkeys(("goals", "questions"), ("targets", "")),
        **dict.fromkeys(("noise", "settings", "kinds"), ("mechanisms", "mechanisms is a list of entries, each a kind")),
        "delta": ("targets", "a δ belongs to a target: targets: [{epsilon: .., delta: .., compositions: ..}]"),
        **dict.fromkeys(
            ("neighbours", "neighbors", "neighbouring", "neighboring", "neighbouring_relation", "neighboring_relation"),
            ("adjacency", "adjacency is for which neighbours: add-or-remove, replace-one or zero-out"),
        ),
        "version": ("format", ""),
        "title": ("description", ""),
    },
    TARGET: _GRID_KEYS,
}
_ARITHMETIC = re.compile(r"[\d.,_\s]*(e\^|exp|ln|log|sqrt|√|\^|\*\*|/|[\d][,_]\d)[\w.,^*/()\s+-]*")


def other_kinds() -> dict[str, str]:
    """Return what people also call the kinds of mechanisms that a study can have, in lower case."""
    return {alias: name for name, kind in MECHANISMS.items() if kind.in_studies for alias in kind.aliases}


def meant_key(owner: str, key: str, known: Iterable[str]) -> tuple[str | None, str]:
    """Return the key that an unknown key is likely to mean, and what to say of it at the end of an error."""
    names = tuple(known)
    word = key.lower().replace("-", "_").replace(" ", "_")
    meant, told = _OTHER_KEYS.get(owner, {}).get(word, ("", ""))
    for one in parameters_of(MECHANISMS[owner]).values() if owner in MECHANISMS else ():
        if not meant and word in one.aliases:
            meant, told = one.name, one.hint
    if not meant and word in ("mechanism", "type", "family", "noise"):
        meant = "kind"
    if meant in names:
        return meant, f": {told}" if told else f": did you mean {meant}?"
    return likely(key, names), did_you_mean(key, names)


def unknown_key(owner: str, key: str, known: Iterable[str]) -> str:
    """Return what is wrong with a key that is not known."""
    names = tuple(known)
    return f"expected one of {', '.join(names)}, got an unknown key{meant_key(owner, key, names)[1]}"


def number_hint(value: JsonValue) -> str:
    """Return what to write instead of a text that is arithmetic, for the end of an error; nothing for other values."""
    return ": write out the number" if isinstance(value, str) and _ARITHMETIC.fullmatch(value) else ""


def is_exponential(value: JsonValue) -> bool:
    """Whether a value is a text like ``e^0.5`` or ``ln 2``, with which people mean e^ε."""
    return isinstance(value, str) and value.lstrip().startswith(("e^", "exp", "ln", "log")) and bool(number_hint(value))
