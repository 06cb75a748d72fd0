"""Seconds and memory of a study of many cells: ``python -m tests.benchmarks.planning [CELLS]``, a million by default.

Loading, the digest, the plan, the columns of a store, and what a store with half of the cells lacks.
"""

import json
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

from tests.benchmarks.side_by_side import peak_bytes

#: The most values of a linspace.
_LONGEST = 1_000_000
_TEXT = """\
format: 1
name: many
mechanisms:
  - {{kind: Laplace, scale: {{geomspace: [10, 1000, {side}]}}, sensitivity: {{linspace: [1, 2, {side}]}}}}
  - {{kind: Gaussian, scale: {{geomspace: [10, 1000, {side}]}}, sensitivity: {{linspace: [1, 2, {side}]}}}}
  - {{kind: SubsampledGaussian, scale: {{geomspace: [1, 100, {side}]}}, rate: {{geomspace: [1e-4, 0.5, {side}]}}}}
  - {{kind: RandomizedResponse, p: {{linspace: [0.5001, 0.99, {count}]}}}}
  - {{kind: NoisyCount, noise: {{kind: Laplace, scale: {{linspace: [5, 50, {side}]}}}},
     mean: {{linspace: [80, 280, {side}]}}, shift: 2}}
compositions: {{powers_of_two: [0, 16]}}
epsilon: {{linspace: [0.1, 2, 20]}}
"""


def many_cells(cells: int) -> str:
    """Return the text of a study of about so many cells, of five kinds."""
    side = round(((cells - min(cells / 5, _LONGEST)) / 4) ** 0.5)
    return _TEXT.format(side=side, count=min(max(cells - 4 * side * side, 2), _LONGEST))


def measure(path: Path) -> dict[str, float]:
    """Load, digest and plan the study at `path` in this process: CPU seconds, and MiB of the process at its largest."""
    from pbdist.store.layout import COLUMN_CHUNK
    from pbdist.study import load_study, plan_study
    from pbdist.study.columns import cell_columns
    from pbdist.study.spec import missing_points

    moments = [time.process_time()]
    study = load_study(path)
    moments.append(time.process_time())
    digest = study.digest
    moments.append(time.process_time())
    plan = plan_study(study)
    moments.append(time.process_time())
    most = peak_bytes()
    columns = cell_columns(study.cells[: 4 * COLUMN_CHUNK])
    moments.append(time.process_time())
    half = replace(study, cells=study.cells[: len(study.cells) // 2], epsilon=study.epsilon[:5])
    parts = missing_points([half], study)
    moments.append(time.process_time())
    load, digested, planned, described, compared = (after - before for before, after in pairwise(moments))
    return {
        "cells": len(study.cells),
        "batches": len(plan.batches),
        "lacking parts": len(parts),
        "load, s": load,
        "digest, s": digested * bool(digest),
        "plan, s": planned,
        "columns, µs a cell": 1e6 * described / len(columns["pair"]),
        "what half a store lacks, s": compared,
        # Of load, digest and plan.
        "MiB": most / 2**20,
    }


def in_own_process(cells: int) -> dict[str, float]:
    """Measure in a fresh process, whose memory is nobody else's."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "many.yaml"
        path.write_text(many_cells(cells), encoding="utf-8")
        call = "import json, pathlib, sys; from tests.benchmarks.planning import measure; "
        call += "print(json.dumps(measure(pathlib.Path(sys.argv[1]))))"
        done = subprocess.run([sys.executable, "-c", call, str(path)], capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    sys.stdout.write(f"{in_own_process(int(sys.argv[1]) if sys.argv[1:] else 1_000_000)}\n")
