"""Runs in processes of their own: started, watched, held in the middle, and ended."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pbdist.store import place_at
from tests.batches import committed
from tests.run.held import held

#: Sixteen cells in sixteen batches, quickly computed.
LIGHT = """\
format: 1
name: light
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 17, 16]}}
method: buckets
buckets: 400
compositions: [1, 2, 4]
epsilon: [0.1, 0.5]
"""
#: Twelve cells of two kinds in twelve batches, with their states.
STATES = """\
format: 1
name: states
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 9, 8]}}
  - {kind: NoisyCount, noise: {kind: Laplace, scale: [2, 3, 5, 7]}, mean: 60, shift: 2}
method: buckets
buckets: 400
keep_states: true
compositions: [1, 2, 4]
epsilon: [0.1, 0.5]
"""
#: What keeps a test that fails from waiting for ever; nothing takes so long.
PATIENCE = 240


def command(path: Path, store: Path | str, *options: str | Path) -> list[str]:
    return [sys.executable, "-m", "pbdist", "run", str(path), "--store", str(store), *map(str, options)]


def run(path: Path, store: Path | str, *options: str | Path, **more: object) -> "subprocess.CompletedProcess[str]":
    """Run a study to its end."""
    return subprocess.run(
        command(path, store, *options), capture_output=True, text=True, timeout=PATIENCE, check=False, **more
    )


@contextmanager
def started(
    path: Path,
    store: Path | str,
    *options: str | Path,
    hold: tuple[Path, int] | None = None,
    environment: Mapping[str, str] | None = None,
    **more: object,
) -> Iterator["subprocess.Popen[str]"]:
    """A run that goes on, and is killed in the end.

    With `hold` it computes so many batches, and the others when that file is there; it is started when they are there.
    """
    line, variables = command(path, store, *options), dict(os.environ)
    if hold is not None:
        line, variables = held(*hold, path, "--store", store, *options)
    with subprocess.Popen(
        line, stdout=-1, stderr=-1, text=True, env={**variables, **(environment or {})}, **more
    ) as driver:
        try:
            if hold is not None:
                until(lambda: commits(store) >= hold[1], driver)
            yield driver
        finally:
            driver.kill()


def until(condition: Callable[[], bool], process: "subprocess.Popen[str] | None" = None) -> None:
    """Wait for a condition, as long as a process lives."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)


def commits(store: Path | str) -> int:
    return committed(place_at(store))


def names(log: Path) -> list[str]:
    """The events of a log, by name."""
    return [json.loads(line)["event"] for line in log.read_text().splitlines()] if log.exists() else []
