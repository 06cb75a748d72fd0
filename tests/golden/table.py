"""The golden table as a file, how its answers are computed in all places alike, and how they are compared."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import scipy

from tests.golden.questions import Answer

__all__ = ["PATH", "computed", "differences", "machine", "read", "write"]

PATH = Path(__file__).with_name("answers.json")
#: Instructions that all 64-bit processors of Intel and AMD have: others change last bits, and with them, now and then,
#: which of two equally good lattices is chosen.
_ALIKE = {"NPY_DISABLE_CPU_FEATURES": "X86_V3 X86_V4 AVX512_ICL AVX512_SPR", "OPENBLAS_CORETYPE": "Nehalem"}
#: Where other versions or processors compute, answers differ by no more than brackets are wide.
_RELATIVE = 2e-3


def machine() -> dict[str, str]:
    """Return what the last bits of an answer depend on."""
    return {
        "python": ".".join(platform.python_version_tuple()[:2]),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "libc": " ".join(platform.libc_ver()),
        "processor": platform.machine(),
        "instructions": " ".join(np.show_config(mode="dicts")["SIMD Extensions"].get("found", [])),
    }


def computed(groups: Sequence[str]) -> tuple[dict[str, str], dict[str, Answer]]:
    """Return the answers of some groups, and where they were computed: in a process with common instructions alone."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.golden", "--answers", *groups]
    environment = {**os.environ, **_ALIKE, "OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True)
    where, answers = json.loads(done.stdout)
    return where, answers


def read() -> tuple[dict[str, str], dict[str, Answer]]:
    """Return where the table was computed, and all answers."""
    document = json.loads(PATH.read_text(encoding="utf-8"))
    return document["machine"], document["answers"]


def write(where: Mapping[str, str], answers: Mapping[str, Answer]) -> None:
    """Write the table, an answer a line, so that a changed answer is a changed line."""
    lines = ",\n".join(f"    {json.dumps(name)}: {json.dumps(answers[name], ensure_ascii=False)}" for name in answers)
    text = f'{{\n  "machine": {json.dumps(where)},\n  "answers": {{\n{lines}\n  }}\n}}\n'
    PATH.write_text(text, encoding="utf-8")


def differences(expected: Mapping[str, Answer], found: Mapping[str, Answer], *, exact: bool) -> list[str]:
    """Return a line for each answer that is missing, new or different."""
    lines = [f"{name}: missing" for name in expected if name not in found]
    lines += [f"{name}: new" for name in found if name not in expected]
    for name, answer in found.items():
        if name in expected and not _same(expected[name], answer, exact=exact):
            lines.append(f"{name}: expected {expected[name]}, got {answer}")
    return lines


def _same(expected: Answer, found: Answer, *, exact: bool) -> bool:
    if exact or isinstance(expected, str) is not isinstance(found, str):
        return repr(expected) == repr(found)
    first, second = _values(expected), _values(found)
    return len(first) == len(second) and bool(np.allclose(second, first, rtol=_RELATIVE, atol=0.0, equal_nan=True))


def _values(answer: Answer) -> list[float]:
    """Return the numbers of an answer, printed or not."""
    return [float(each) for each in re.findall(r"\d[\d.e-]*", answer)] if isinstance(answer, str) else answer
