"""Fixtures of all tests: signals, finished stores."""

import fcntl
import hashlib
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

# Before anything imports NumPy; processes that tests start inherit it. On small matrices more threads only spin.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
if sys.dont_write_bytecode:
    # Compiled once, and not beside the sources.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(
        Path(tempfile.gettempdir()) / f"pbdist-pycache-{os.getuid()}"
    )

from tests.budget import CpuTimes

if TYPE_CHECKING:
    from tests.studies import Finished


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", type=Path, help="write the CPU seconds of every test to this JSON file")
    parser.addoption("--cpu-budget", action="store_true", help="fail where a test takes too many CPU seconds")


def pytest_configure(config: pytest.Config) -> None:
    """Keep the files of quick tests in memory if there is room: stores are many small files, each of them synced."""
    worker = hasattr(config, "workerinput")
    path, judge = (None, False) if worker else (config.option.cpu_times, config.option.cpu_budget)
    config.pluginmanager.register(CpuTimes(path, judge=judge))
    memory = Path("/dev/shm")  # noqa: S108 -- the root of pytest's own folders
    usable = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 4 << 30
    if usable and "not ci" in config.option.markexpr:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(memory))


@pytest.fixture(scope="session", autouse=True)
def signals_as_in_a_terminal() -> Iterator[None]:
    """Processes that tests start must get the signals that are sent to them: a shell ignores some in the background."""
    ignored = [
        number
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if signal.getsignal(number) is signal.SIG_IGN
    ]
    for number in ignored:
        signal.signal(number, signal.SIG_DFL)
    yield
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)


@pytest.fixture(scope="session")
def finished_store(tmp_path_factory: pytest.TempPathFactory) -> Iterator["Finished"]:
    """The finished store of any study, computed once a session; beside it lies its ``study.yaml``."""
    # Imported here: the process that hands out the tests to others needs none of it.
    from tests.studies import compute_store, files_of

    base = tmp_path_factory.getbasetemp()
    shared = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "stores"
    shared.mkdir(exist_ok=True)
    stores: dict[str, Path] = {}
    files: dict[Path, dict[str, str]] = {}

    def finished(text: str) -> Path:
        if text not in stores:
            name = hashlib.sha256(text.encode()).hexdigest()[:12]
            folder, done = shared / name, shared / f"{name}.done"
            with (shared / f"{name}.lock").open("w") as lock:
                # Of several test processes one computes it, and the others wait.
                fcntl.flock(lock, fcntl.LOCK_EX)
                folder.mkdir(exist_ok=True)
                stores[text] = folder / "s.zarr" if done.exists() else compute_store(folder, text)
                done.touch()
            files[folder] = files_of(folder)
        return stores[text]

    yield finished
    changed = [text for text, store in stores.items() if files_of(store.parent) != files[store.parent]]
    assert changed == [], "a test has written into a store that others read: use store_copy"


@pytest.fixture(scope="session")
def tiny_store(finished_store: "Finished") -> Path:
    """The finished store of `TINY`, for reading only."""
    from tests.studies import TINY

    return finished_store(TINY)


@pytest.fixture
def store_copy(finished_store: "Finished", tmp_path: Path) -> "Finished":
    """A copy of the finished store of any study, ``s.zarr`` in the test's own folder, to write to."""
    return lambda text: Path(shutil.copytree(finished_store(text), tmp_path / "s.zarr"))
