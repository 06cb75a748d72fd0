"""A run that cannot end before it is let go: from some number of commits on its workers wait for a file.

What such a test does in the middle of a run then happens in its middle, however busy the machine is.
"""

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from pbdist.cli import main
from pbdist.run import dask_executor
from pbdist.run.batch import Task
from pbdist.run.executor import Done
from pbdist.store import Place

_GATE, _COMMITS = "PBDIST_TEST_GATE", "PBDIST_TEST_COMMITS"


def held(gate: Path, commits: int, *arguments: str | Path) -> tuple[list[str], dict[str, str]]:
    """The command and the environment of ``pbdist run`` that goes on to `commits`, and further when `gate` is there."""
    environment = {**os.environ, _GATE: str(gate), _COMMITS: str(commits)}
    return [sys.executable, __file__, "run", *map(str, arguments)], environment


def commits_of(place: Place) -> int:
    names = [name for name, _ in place.names("commits") if "batch-" in name and name.endswith("zarr.json")]
    return sum(b'"commit"' in place.read(name) for name in names)


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


class Held(dask_executor.DaskExecutor):
    """Workers that compute no further batch while they are held."""

    def run(self, task: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Done[Any, Any]]:
        gate, commits = os.environ[_GATE], int(os.environ[_COMMITS])
        # What another module has can be called by workers that cannot import this one.
        count, kind, exists, sleep = commits_of, Task, os.path.exists, time.sleep

        def waiting(item: Any) -> Any:
            while isinstance(item, kind) and not exists(gate) and count(item.head.place) >= commits:
                sleep(0.2)
            return task(item)

        return super().run(waiting, Singles(items))


if __name__ == "__main__":
    dask_executor.DaskExecutor = Held  # type: ignore[misc]
    sys.exit(main())
