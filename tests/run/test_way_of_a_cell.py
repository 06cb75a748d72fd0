"""The way of one cell from a study file to the disk stays short: who changes it has to read few files."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType

import pbdist
from pbdist.run import SerialExecutor, run_study
from pbdist.study import load_study
from tests.studies import write_study

#: Rooms that know nothing of studies: they bound a pair, and are the same for `pbdist.privacy_bounds`.
CORE = {
    "mechanisms",
    "fourier",
    "pld",
    "buckets",
    "enclosures",
    "renyi",
    "curves",
    "table.py",
    "arguments.py",
    "types.py",
}
MAX_FILES = 25
TEXT = """\
format: 1
name: one
mechanisms:
  - {kind: Laplace, scale: 2}
tolerance: 0.01
compositions: [1, 4]
epsilon: [0.1, 0.5]
"""


def test_few_files_are_entered_for_one_cell(tmp_path: Path) -> None:
    root, path, entered = Path(pbdist.__file__).parent, write_study(tmp_path, TEXT), Counter[str]()

    def note(frame: FrameType, event: str, _: object) -> None:
        file = frame.f_code.co_filename
        # Not what runs when a module is imported.
        if event == "call" and file.startswith(str(root)) and frame.f_code.co_name != "<module>":
            entered[Path(file).relative_to(root).as_posix()] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        run_study(load_study(path), tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    finally:
        sys.setprofile(before)
    shell = sorted(file for file in entered if file.partition("/")[0] not in CORE)
    assert {"run/run.py", "store/batches.py", "study/load.py"} <= set(shell)
    assert len(shell) <= MAX_FILES, shell
