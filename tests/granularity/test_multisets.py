"""Multisets have one form each, and their operations are those of the multiplicities."""

from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from math import nan
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.granularity.databases import listed_multisets, multiset, one_sided, symmetric_difference_size

ALL = listed_multisets("tables", "ab", range(4)).databases
assert ALL is not None
PAIRS = list(product(ALL, repeat=2))


@pytest.mark.parametrize(
    "records",
    [
        ["b", "a", "b"],
        [frozenset({1, 2}), frozenset({2, 3}), frozenset({1}), frozenset()],
        [("u", frozenset({"x", "y"})), ("u", frozenset({"y"})), ("t", None), ("t", 1)],
        [1, "1", b"1", None, (1,), Fraction(1, 2)],
    ],
)
def test_the_order_of_the_records_does_not_matter(records: list[Any]) -> None:
    assert len({multiset(one) for one in permutations(records)}) == 1
    assert Counter(multiset(records)) == Counter(records)


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_differences_are_those_of_the_multiplicities(first: Any, second: Any) -> None:
    counts = [(first.count(record), second.count(record)) for record in "ab"]
    assert one_sided(first, second) == tuple(
        sum(max(0, x - y) for x, y in each) for each in (counts, [c[::-1] for c in counts])
    )
    assert symmetric_difference_size(first, second) == sum(abs(x - y) for x, y in counts)


def test_all_multisets_are_listed_once() -> None:
    assert len(ALL) == 1 + 2 + 3 + 4


@pytest.mark.parametrize("wrong", [("b", "a"), ["a"], "a", ({},), (nan,), (object(),)])
def test_what_is_no_multiset_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"^(database|record): expected"):
        symmetric_difference_size(wrong, ())
