"""Answers that do not change unnoticed: bit for bit with the versions that wrote them, on any x86-64 processor."""

import pytest

from tests.golden import table
from tests.golden.questions import GROUPS

MACHINE, ANSWERS = table.read()
PARTS = 6


@pytest.mark.slow(reason="fifty answers, in a process of its own")
@pytest.mark.parametrize("part", range(PARTS))
def test_answers_are_those_of_the_table(part: int) -> None:
    groups = list(GROUPS)[part::PARTS]
    expected = {name: answer for name, answer in ANSWERS.items() if name.rpartition(": ")[0] in groups}
    where, found = table.computed(groups)
    assert len(found) > 30
    assert table.differences(expected, found, exact=where == MACHINE) == []


def test_the_table_has_the_answers_to_all_questions_and_no_others() -> None:
    assert len(ANSWERS) >= 280
    assert {name.rpartition(": ")[0] for name in ANSWERS} == set(GROUPS)


def test_a_changed_digit_is_found() -> None:
    for answer in ([1.0, 0.5, float("inf"), float("nan")], "0.5000 exit code 0"):
        assert table.differences({"a": answer}, {"a": answer}, exact=True) == []
        assert table.differences({"a": answer}, {"a": answer}, exact=False) == []
    least, more = {"a": [0.5 * (1.0 + 3e-16)]}, {"a": [0.5 * (1.0 + 3e-3)]}
    assert table.differences({"a": [0.5]}, least, exact=False) == []
    assert len(table.differences({"a": [0.5]}, least, exact=True)) == 1
    assert len(table.differences({"a": [0.5]}, more, exact=False)) == 1
    assert len(table.differences({"a": "0.5000"}, {"a": "0.5001"}, exact=True)) == 1
    assert table.differences({"a": [0.5]}, {"b": [0.5]}, exact=False) == ["a: missing", "b: new"]
