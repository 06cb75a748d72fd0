"""Which datasets count as neighbours: what a worst-case pair was stated for."""

from enum import StrEnum

__all__ = ["Adjacency"]


class Adjacency(StrEnum):
    """The relation between neighbouring datasets that a pair is the worst case of.

    A bound holds for the neighbours of its pair alone: ε for one record added or removed says nothing of one record
    replaced, which may need twice as much.
    """

    #: One record is added or removed. The direction "A||B" is the removal, "B||A" the addition.
    ADD_OR_REMOVE = "add-or-remove"
    #: One record is replaced by another one; the number of records stays.
    REPLACE_ONE = "replace-one"
    #: One record is replaced by one that contributes nothing; the number of records stays.
    ZERO_OUT = "zero-out"
    #: The neighbours are those for which the parameters of the pair, such as its sensitivity, were stated.
    AS_STATED = "as-stated"
