"""Write the golden table: ``python -m tests.golden``. Say in the commit which digits change, and why.

``--answers`` prints the answers of some groups and where they were computed, as JSON; run it by `table.computed`.
"""

import json
import sys
import tempfile
from pathlib import Path

from tests.golden import table
from tests.golden.questions import GROUPS, Answer, answers_of


def _answers(groups: list[str]) -> dict[str, Answer]:
    answers: dict[str, Answer] = {}
    for group in groups:
        with tempfile.TemporaryDirectory() as folder:
            answers.update(answers_of(group, Path(folder)))
    return answers


def _write() -> None:
    where, answers = table.computed(list(GROUPS))
    expected = table.read()[1] if table.PATH.exists() else {}
    for line in table.differences(expected, answers, exact=True):
        print(line)
    table.write(where, answers)
    print(f"{len(answers)} answers written to {table.PATH}")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--answers"]:
        print(json.dumps([table.machine(), _answers(sys.argv[2:])]))
    else:
        _write()
