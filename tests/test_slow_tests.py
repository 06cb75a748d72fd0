"""The list of slow tests: every name in it exists, and measurements become such a list."""

import ast
from pathlib import Path

from tests.slow_tests import LIST, slow_functions

ROOT = Path(__file__).parents[1]


def test_every_name_in_the_list_is_that_of_a_test() -> None:
    names = LIST.read_text(encoding="utf-8").split()
    assert len(names) == len(set(names)) > 100
    missing = []
    for file in sorted({name.partition("::")[0] for name in names}):
        path = ROOT / file
        tree = ast.parse(path.read_text(encoding="utf-8")) if path.is_file() else ast.Module([], [])
        functions = {f"{file}::{node.name}" for node in tree.body if isinstance(node, ast.FunctionDef)}
        missing += [name for name in names if name.startswith(f"{file}::") and name not in functions]
    assert missing == []


def test_functions_are_slow_by_one_case_or_by_all_of_them() -> None:
    lines = [
        "0.41s call     tests/a/test_b.py::test_one[x y]",
        "0.39s call     tests/a/test_b.py::test_quick[1]",
        *(f"0.35s call     tests/a/test_b.py::test_many[{number}]" for number in range(3)),
        "9.00s setup    tests/a/test_b.py::test_first_to_use_a_fixture",
        "9.00s call     tests/test_exact_values.py::test_of_soundness",
        "= 3 passed in 1.00s =",
    ]
    assert slow_functions(lines) == ["tests/a/test_b.py::test_many", "tests/a/test_b.py::test_one"]
