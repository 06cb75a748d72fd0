"""A run that cannot end before it is let go: after some number of commits its workers wait for a file.

What a test does in the middle of such a run happens there, however busy the machine is.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pbdist.run
from pbdist.cli import main
from pbdist.run import SerialExecutor, dask_executor
from pbdist.run.events import Done
from pbdist.run.task import Task
from pbdist.store import Place, open_store

_GATE, _COMMITS = "PBDIST_TEST_GATE", "PBDIST_TEST_COMMITS"


def held(gate: Path, commits: int, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """The command and environment of a run that makes `commits`, and more only when the file `gate` exists."""
    environment = {**os.environ, _GATE: str(gate), _COMMITS: str(commits)}
    return [sys.executable, __file__, "run", *map(str, arguments)], environment


def commits_of(place: Place) -> int:
    return int(open_store(place).progress().committed.sum())


class Singles(Iterator[Any]):
    """Tasks of one batch each, so that none goes on while its worker is held."""

    def __init__(self, items: Iterable[Any]) -> None:
        self._items = iter(items)
        self._next: list[Any] = []

    def __next__(self) -> Any:
        if not self._next:
            item = next(self._items)
            self._next = [item]
            if isinstance(item, Task):
                pairs = zip(item.batches, item.cells, strict=True)
                self._next = [replace(item, batches=(batch,), cells=(cells,)) for batch, cells in pairs]
        return self._next.pop(0)


def held_task(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A task that waits before each batch while the run is held; a file beside the gate tells of each that waits."""
    gate, commits = os.environ[_GATE], int(os.environ[_COMMITS])
    # Workers can call what other modules have; they cannot import this one.
    count, kind, exists, sleep, own = commits_of, Task, os.path.exists, time.sleep, os.getpid

    def waiting(item: Any) -> Any:
        if isinstance(item, kind) and not exists(gate) and count(item.head.place) >= commits:
            with open(f"{gate}.{own()}", "w", encoding="ascii"):
                pass
            while not exists(gate):
                sleep(0.05)
        return task(item)

    return waiting


class Held(dask_executor.DaskExecutor):
    """Workers that compute no further batch while they are held."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], *send: Any) -> Iterator[Done[Any, Any]]:
        return super().run(held_task(task), Singles(items), *send)


class HeldSerial(SerialExecutor):
    """This process, which computes no further batch while it is held."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any], *send: Any) -> Iterator[Done[Any, Any]]:
        return super().run(held_task(task), Singles(items), *send)


if __name__ == "__main__":
    dask_executor.DaskExecutor = Held  # type: ignore[misc]
    pbdist.run.SerialExecutor = HeldSerial  # type: ignore[misc]
    sys.exit(main())
