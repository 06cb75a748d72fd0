"""Starting what signals of the terminal do not reach, and giving it up."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import active_children
from pathlib import Path

import pytest

from pbdist.run import run_study
from pbdist.run.cluster_profile import LocalProfile
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.sheltered import SHELTERED, start_sheltered
from pbdist.study import load_study
from tests.run.processes import PATIENCE
from tests.run.test_signals import STUDY, others_of, until
from tests.studies import TINY, Finished, results_of, write_study

#: Tells the signals that are blocked, and those that are ignored, in a process of its own.
MASKS = """
import json, re
status = open("/proc/self/status").read()
print(json.dumps([int(re.search(name + r":\\s+(\\w+)", status)[1], 16) for name in ("SigBlk", "SigIgn")]))
"""


def test_what_is_started_does_not_get_the_signals_of_the_terminal_and_this_thread_does() -> None:
    handlers = {number: signal.getsignal(number) for number in SHELTERED}

    def start(given_up: threading.Event) -> list[int]:
        assert not given_up.is_set()
        done = subprocess.run([sys.executable, "-c", MASKS], capture_output=True, text=True, check=True)
        found: list[int] = json.loads(done.stdout)
        return found

    blocked, ignored = start_sheltered(start, lambda _: None)
    for number in SHELTERED:
        assert blocked >> (number - 1) & 1
        # What starts may still decide for itself.
        assert not ignored >> (number - 1) & 1
    assert not SHELTERED & signal.pthread_sigmask(signal.SIG_BLOCK, ())
    assert {number: signal.getsignal(number) for number in SHELTERED} == handlers


def test_what_cannot_be_started_is_raised_here() -> None:
    def start(_: threading.Event) -> None:
        raise ArithmeticError("not this one")

    with pytest.raises(ArithmeticError, match="not this one"):
        start_sheltered(start, lambda _: None)


@pytest.fixture
def interrupts_of_python() -> Iterator[None]:
    """Ctrl-C as Python has it: a package that another test imports may have changed it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interrupts_of_python")
def test_an_interrupt_ends_the_waiting_and_what_was_started() -> None:
    stopped: list[str] = []

    def start(given_up: threading.Event) -> str:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert given_up.wait(PATIENCE)
        return "started"

    with pytest.raises(KeyboardInterrupt):
        start_sheltered(start, stopped.append)
    assert stopped == ["started"]


LEAVING = """
import os, threading
from multiprocessing import get_context
from pbdist.run.sheltered import start_sheltered

if __name__ == "__main__":
    queue = start_sheltered(lambda _: get_context("spawn").Queue(), lambda _: None)
    assert "PYTHONWARNINGS" not in os.environ
    os._exit(7)
"""


@pytest.mark.slow
def test_what_a_process_leaves_behind_is_removed_without_a_word(tmp_path: Path) -> None:
    """As where an interrupt ends it while queues to its workers are there."""
    (tmp_path / "program.py").write_text(LEAVING)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
    command = [sys.executable, "program.py"]
    # The tracker has the same stderr, so that its end is waited for too.
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert (done.returncode, done.stderr) == (7, "")


LIBRARY = """
import multiprocessing, signal
from pathlib import Path
from pbdist.run import run_study
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.cluster_profile import LocalProfile
from pbdist.study import load_study

if __name__ == "__main__":
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
    try:
        executor = DaskExecutor(LocalProfile(workers=2, dashboard_port=0))
        run_study(load_study(Path("study.yaml")), "s.zarr", executor, lambda _: None)
    except KeyboardInterrupt:
        assert not multiprocessing.active_children()
        print("interrupted", flush=True)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == handlers
"""


@pytest.mark.nightly
def test_who_calls_it_from_python_gets_the_interrupt_and_keeps_the_handlers(tmp_path: Path) -> None:
    write_study(tmp_path, STUDY)
    (tmp_path / "program.py").write_text(LIBRARY)
    command = [sys.executable, "program.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-1, stderr=-1, text=True, start_new_session=True) as process:
        # Python's process that cleans up is the first, the workers are the next.
        until(lambda: process.poll() is not None or len(others_of(process.pid)) > 1, "workers that start")
        os.killpg(process.pid, signal.SIGINT)
        told, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, errors
    assert told == "interrupted\n"
    assert "KeyboardInterrupt" not in errors


@pytest.mark.slow
def test_workers_start_from_any_thread_as_in_a_server(finished_store: Finished, tmp_path: Path) -> None:
    study, executor = load_study(write_study(tmp_path)), DaskExecutor(LocalProfile(workers=1, dashboard_port=0))
    before = active_children()
    with ThreadPoolExecutor(1) as server:
        server.submit(run_study, study, tmp_path / "s.zarr", executor, lambda _: None).result(timeout=PATIENCE)
    assert not [child for child in active_children() if child not in before and child.is_alive()]
    assert results_of(tmp_path / "s.zarr") == results_of(finished_store(TINY))
