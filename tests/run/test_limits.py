"""Limits of the machine in the middle of a run: a disk that fills up, and the memory of a worker's control group."""

import os
import subprocess
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from pbdist.errors import BatchError
from pbdist.run import SerialExecutor, run_study
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import BatchFinished, CellFailed, Done, Event
from pbdist.run.task import Task
from pbdist.study import load_study
from tests.needs import missing
from tests.run.processes import LIGHT, PATIENCE, run, started, until
from tests.run.test_lost_scheduler import dask
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.timeout(900)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of 8 MiB."""
    folder.mkdir()
    if os.geteuid() != 0:
        missing("needs root, to mount a file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", str(folder)], capture_output=True, text=True, check=False
    )
    if mounted.returncode != 0:
        missing(f"needs the right to mount a file system: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(path: Path) -> None:
    """Leave no room on the disk of a new file."""
    with suppress(OSError), path.open("wb", buffering=0) as file:
        while True:
            file.write(b"\0" * 4096)


@pytest.mark.ci
def test_a_full_disk_ends_the_run_with_one_line(finished_store: Finished, tmp_path: Path) -> None:
    path, gate = write_study(tmp_path, LIGHT), tmp_path / "go on"
    with small_disk(tmp_path / "disk") as disk:
        with started(path, disk / "s.zarr", "--workers", "2", hold=(gate, 3)) as driver:
            fill(disk / "filler")
            gate.touch()
            _, errors = driver.communicate(timeout=PATIENCE)
        assert driver.returncode == 1, errors
        last = errors.splitlines()[-1]
        assert last.startswith("pbdist: error: the store cannot be written: ")
        assert "No space left on device" in last
        assert last.endswith("of 16 cells are in the store: the same command goes on where this one stopped")
        assert "Traceback" not in errors
        (disk / "filler").unlink()
        again = run(path, disk / "s.zarr", "--workers", "2")
        assert again.returncode == 0, again.stderr
        assert "in the store already" in again.stderr
        assert results_of(disk / "s.zarr") == results_of(finished_store(LIGHT))


class ControlGroup:
    """A control group with a limit of memory, version 1 or 2 of the kernel's interface."""

    def __init__(self, folder: Path, version: int) -> None:
        self.folder, self._version = folder, version

    def enter(self) -> None:
        """Move this process, before it runs another program."""
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def killed(self) -> int:
        """How many of its processes the kernel has ended for want of memory."""
        lines = (
            (self.folder / ("memory.oom_control" if self._version == 1 else "memory.events")).read_text().split("\n")
        )
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


@contextmanager
def control_group(limit: int) -> Iterator[ControlGroup]:
    root = Path("/sys/fs/cgroup")
    version = 2 if (root / "cgroup.controllers").exists() else 1
    folder = (root if version == 2 else root / "memory") / f"pbdist-test-{uuid4().hex[:8]}"
    try:
        folder.mkdir()
        (folder / ("memory.max" if version == 2 else "memory.limit_in_bytes")).write_text(str(limit))
    except OSError as error:
        with suppress(OSError):
            folder.rmdir()
        missing(f"needs the right to make a control group: {error}")
    try:
        yield ControlGroup(folder, version)
    finally:
        until(lambda: not (folder / "cgroup.procs").read_text().strip())
        folder.rmdir()


class Greedy(DaskExecutor):
    """Workers that take a gigabyte of memory for one cell."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], *send: Any) -> Iterator[Done[Any, Any]]:
        def taking(item: Any) -> Any:
            if isinstance(item, Task):
                for batch in item.batches:
                    cells = {item.probed} if item.probed is not None else set(range(batch.start, batch.stop))
                    if 5 in cells - set(item.refused):
                        bytearray(b"\1") * 2**30
            return task(item)

        return super().run(taking, items, *send)


@pytest.mark.nightly
def test_a_worker_that_its_control_group_ends_for_memory(
    finished_store: Finished, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cell that takes too much is isolated, and the others are computed."""
    study, file = load_study(write_study(tmp_path, LIGHT)), tmp_path / "scheduler.json"
    monkeypatch.setenv("DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES", "0")
    page = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
    events: list[Event] = []
    with ExitStack() as stack:
        group = stack.enter_context(control_group(600 * 2**20))
        where = ["--host", "127.0.0.1", "--port", "0", "--scheduler-file", str(file)]
        stack.enter_context(dask("scheduler", *where, *page))
        options = ["--scheduler-file", str(file), "--nthreads", "1", "--memory-limit", "0", *page]
        stack.enter_context(dask("worker", *options, enter=group.enter))
        until(file.exists)
        with pytest.raises(
            BatchError, match=r"^1 of 16 cells could not be computed: .*the workers that computed it died"
        ):
            run_study(study, tmp_path / "s.zarr", Greedy(scheduler=file), events.append)
        assert group.killed() >= 2
    assert [event.cell for event in events if isinstance(event, CellFailed)] == [5]
    assert sum(event.cells - event.failed_cells for event in events if isinstance(event, BatchFinished)) == 15
    # Where there is more memory, the same study is completed.
    run_study(study, tmp_path / "s.zarr", SerialExecutor(), lambda _: None)
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(LIGHT))
