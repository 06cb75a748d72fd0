"""What goes wrong in the middle of a run: cells that fail or kill, full disks, other drivers, extended studies."""

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import dask
import numpy as np
import pytest

from pbdist.errors import BatchError
from pbdist.query import open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.run.clients import local_cluster
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import BatchFinished, CellFailed, Done, Event, RunFinished
from pbdist.run.task import Task
from pbdist.store import open_parts, open_store
from pbdist.study import load_study
from tests.run.processes import PATIENCE
from tests.studies import TINY, Finished, files_of, results_of, write_study

pytestmark = pytest.mark.slow

#: Thirty-two cells in sixteen batches.
EVEN = TINY.replace("scale: [2, 3, 5]", "scale: {linspace: [2, 33, 29]}")
#: Eight cells. The probabilities of the third one sum to a little more than 1, which its many rounds make too much.
POISONED = """\
format: 1
name: poisoned
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
  - {kind: Histogram, p: [0.5000000004, 0.5], q: [0.25, 0.75]}
  - {kind: Laplace, scale: {linspace: [5, 10, 5]}}
method: buckets
buckets: 400
compositions: [1, 1099511627776]
epsilon: [0.1, 0.5]
"""


def test_a_poisoned_cell_is_told_and_the_rest_finishes(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, POISONED))
    events: list[Event] = []
    with pytest.raises(BatchError, match=r"1 of 8 cells could not be computed: Histogram.*probabilities"):
        run_study(study, tmp_path / "s.zarr", SerialExecutor(), events.append)
    poisoned = [2]
    told = [event for event in events if isinstance(event, CellFailed)]
    assert sorted(event.cell for event in told) == poisoned
    assert {event.setting for event in told} == {study.cells[number].describe() for number in poisoned}
    assert all("Traceback (most recent call last)" in event.traceback for event in told)
    assert sum(event.cells - event.failed_cells for event in events if isinstance(event, BatchFinished)) == 7
    stored = open_store(tmp_path / "s.zarr")
    assert sorted(stored.progress().failed) == poisoned
    bounds = open_study(Path(stored.place.url)).bounds["delta_upper"].values
    assert np.isnan(bounds[poisoned]).all()
    assert np.isfinite(np.delete(bounds, poisoned, axis=0)).all()
    # Once more: what failed is tried again, and nothing else.
    kept = results_of(Path(stored.place.url))
    with pytest.raises(BatchError, match="1 of 8 cells"):
        run_study(study, Path(stored.place.url), SerialExecutor(), lambda _: None)
    assert results_of(Path(stored.place.url)) == kept


class Killing(DaskExecutor):
    """Workers that die of one cell: of its sight, as of a cell that takes all memory."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], *send: Any) -> Iterator[Done[Any, Any]]:
        def deadly(item: Any) -> Any:
            if isinstance(item, Task):
                for batch in item.batches:
                    cells = {item.probed} if item.probed is not None else set(range(batch.start, batch.stop))
                    if 5 in cells - set(item.refused):
                        os.kill(os.getpid(), signal.SIGKILL)
            return task(item)

        return super().run(deadly, items, *send)


@pytest.mark.ci
def test_a_cell_that_kills_its_workers_is_told_and_the_rest_finishes(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, EVEN))
    events: list[Event] = []
    executor = Killing(local_cluster(2))
    died = r"1 of 32 cells could not be computed: .*the workers that computed it died"
    with dask.config.set({"distributed.scheduler.allowed-failures": 1}), pytest.raises(BatchError, match=died):
        run_study(study, tmp_path / "s.zarr", executor, events.append)
    assert [event.cell for event in events if isinstance(event, CellFailed)] == [5]
    assert isinstance(events[-1], RunFinished)
    run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    run_study(study, tmp_path / "serial.zarr", SerialExecutor(), lambda _: None)
    assert results_of(tmp_path / "s.zarr") == results_of(tmp_path / "serial.zarr")


@pytest.mark.nightly
def test_a_full_disk_ends_the_run_with_one_line_and_it_goes_on_later(tmp_path: Path) -> None:
    """A limit on the size of files stands for the disk: what does not fit is an error in the middle of a write."""
    text = EVEN.replace("compositions: [1, 2, 4, 7]", "compositions: {linspace: [1, 40, 40]}")
    text = text.replace("exp_epsilon: [1, 1.5, 2]", "exp_epsilon: {linspace: [1, 2, 60]}")
    path, store = (
        write_study(tmp_path, text.replace("targets:\n  - {exp_epsilon: 2, delta: 0.2, compositions: 4}\n", "")),
        tmp_path / "s.zarr",
    )

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (24_000, 24_000))

    command = [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(store), "--serial"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE, preexec_fn=limited)
    assert done.returncode == 1, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.count("failed") == 0
    again = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert again.returncode == 0, again.stderr
    run_study(load_study(path), tmp_path / "whole.zarr", SerialExecutor(), lambda _: None)
    assert results_of(store) == results_of(tmp_path / "whole.zarr")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("p: [0.6, 0.7]", "p: [0.6, 0.7, 0.8]"),
        ("compositions: [1, 2, 4, 7]", "compositions: [1, 2, 3, 4, 7]"),
        ("exp_epsilon: [1, 1.5, 2]", "exp_epsilon: [1, 1.25, 1.5, 2, 4]"),
        ("[1, 2, 4, 7]\nexp_epsilon: [1, 1.5, 2]", "[1, 2, 4, 7, 9]\nexp_epsilon: [1, 1.25, 1.5, 2]"),
    ],
)
def test_a_larger_study_computes_what_is_new_alone(tmp_path: Path, store_copy: Finished, old: str, new: str) -> None:
    small, large = (load_study(write_study(tmp_path, text)) for text in (TINY, TINY.replace(old, new)))
    store_copy(TINY)
    before = files_of(tmp_path / "s.zarr")
    events: list[Event] = []
    run_study(large, tmp_path / "s.zarr", SerialExecutor(), events.append)
    # The root lists the new parts.
    changed = before.items() - files_of(tmp_path / "s.zarr").items()
    assert {name for name, _ in changed} == {"zarr.json"}
    parts = open_parts(tmp_path / "s.zarr")
    points = [len(part.study.cells) * len(part.study.compositions) * len(part.study.epsilon) for part in parts]
    assert sum(points) == len(large.cells) * len(large.compositions) * len(large.epsilon)
    finished = [event for event in events if isinstance(event, BatchFinished)]
    assert finished
    assert all(event.part.startswith("extension-") for event in finished)
    # Either study finds all it asks for, and nothing is left to do.
    for study in (small, large):
        events.clear()
        run_study(study, tmp_path / "s.zarr", SerialExecutor(), events.append)
        assert [type(event) for event in events] == [RunFinished]
    fresh = run_study(large, tmp_path / "fresh.zarr", SerialExecutor(), lambda _: None)
    ours, theirs = (open_study(where).bounds for where in (tmp_path / "s.zarr", fresh.place.url))
    for name in ("compositions", "epsilon"):
        assert ours[name].values.tolist() == theirs[name].values.tolist()
    order = [ours["pair"].values.tolist().index(pair) for pair in theirs["pair"].values.tolist()]
    assert np.all(ours["delta_lower"].values[order] <= theirs["delta_upper"].values)
    assert np.all(theirs["delta_lower"].values <= ours["delta_upper"].values[order])
