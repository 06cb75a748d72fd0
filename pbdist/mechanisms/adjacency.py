"""Which datasets count as neighbours: what pairs say of it together, and what a person may state of them."""

from collections.abc import Iterable
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.suggestions import did_you_mean
from pbdist.types import Adjacency

#: What people also call the relations, in lower case.
_OTHER_NAMES = {
    **dict.fromkeys(
        ("add-remove", "add_remove", "add", "remove", "unbounded", "add_or_remove_one", "add-or-remove-one"),
        Adjacency.ADD_OR_REMOVE.value,
    ),
    **dict.fromkeys(("replace", "bounded", "substitute", "swap", "change-one"), Adjacency.REPLACE_ONE.value),
    **dict.fromkeys(("zero", "zeroout", "replace-special", "replace_special"), Adjacency.ZERO_OUT.value),
}


def joined(found: Iterable[tuple[Adjacency, str]], field: str) -> Adjacency:
    """Return the relation of things that are seen together; what is as stated goes with any other one.

    Parameters
    ----------
    found : iterable of (Adjacency, str)
        The relation of each, and what the thing is called.
    field : str
        What an error names.

    Raises
    ------
    InvalidInputError
        If two of them are for different neighbours: a bound on both together would hold for neither.
    """
    relations: dict[Adjacency, str] = {}
    for relation, name in found:
        if relation.definite:
            relations.setdefault(relation, name)
    if len(relations) > 1:
        (first, one), (second, other), *_ = relations.items()
        raise InvalidInputError(
            f"{field}: expected pairs for the same neighbours, got {one} for {first} and {other} for {second}"
        )
    return next(iter(relations), Adjacency.AS_STATED)


def alike(found: Iterable[Adjacency]) -> Adjacency:
    """Return the one relation of things that stand side by side; as stated where they do not all have it."""
    relations = set(found)
    return relations.pop() if len(relations) == 1 else Adjacency.AS_STATED


def checked_adjacency(given: Any, field: str = "adjacency") -> Adjacency:
    """Return a relation that is given by its name; None is as stated.

    Raises
    ------
    InvalidInputError
        If it is no such name.
    """
    if given is None:
        return Adjacency.AS_STATED
    names = tuple(relation.value for relation in Adjacency)
    if not isinstance(given, str) or given not in names:
        near = did_you_mean(given, names, _OTHER_NAMES)
        raise InvalidInputError(f"{field}: expected one of {', '.join(names)}, got {shown(given)}{near}")
    return Adjacency(given)


def stated(own: Adjacency, given: Adjacency, field: str, name: str) -> Adjacency:
    """Return the relation that a bound is for: what its pair says itself, or else what a person states.

    Raises
    ------
    InvalidInputError
        If a person states another relation than the pair says: its bounds are about no other neighbours.
    """
    if not own.definite or not given.definite or own is given:
        return own if own.definite else given
    raise InvalidInputError(
        f"{field}: expected {own}, as {name} is the worst case of {own.in_words}, got {given}: its bounds say nothing"
        f" of {given.in_words}"
    )
