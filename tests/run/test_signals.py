"""Ctrl-C and SIGTERM at drawn moments of a real run, from the first import to the last table.

A moment is drawn, the phase that it lies in is not: the process is stopped first, then it is looked at what it has
done, and if that is what the phase is made of, it gets the signal and goes on. Nothing is asserted on time.
"""

import ctypes
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest

from pbdist.run import SerialExecutor, run_study
from pbdist.study import load_study
from tests.effort import SEED, times
from tests.run.processes import PATIENCE
from tests.studies import Finished, results_of, write_study

pytestmark = pytest.mark.timeout(1200)

STUDY = """\
format: 1
name: signals
mechanisms:
  - {kind: Laplace, scale: {linspace: [2, 21, 8]}}
method: buckets
buckets: 4000
keep_states: true
compositions: [1, 2, 3]
epsilon: {linspace: [0, 1, 5]}
targets:
  - {epsilon: 1, delta: 0.2, compositions: 3}
"""
#: One whose reading and planning take a while, and that is never computed here.
LARGE = STUDY.replace("linspace: [2, 21, 8]", "linspace: [2, 21, 50000]")

INTERRUPTED = "pbdist: interrupted: the same command goes on where this one stopped"
#: How long the phases take on an idle machine, in seconds: only what moments are drawn from.
TYPICAL = {"import": 0.6, "plan": 2.5, "cluster start": 2.5, "computing": 1.5, "last tables": 0.8}
#: What a run tells of itself, whether it is interrupted or not.
TOLD = re.compile(r"waiting for workers |computing on |to compute: |[\d,]+ of [\d,]+ cells|\s*$")
#: Attempts at a moment that lies in the phase.
ATTEMPTS = 30


@dataclass
class Run:
    """A run that goes on, as it is seen from outside."""

    process: "subprocess.Popen[str]"
    opened: int
    log: Path
    read: bool = False

    def catches(self, number: int) -> bool:
        """Whether the process has a handler of its own for a signal."""
        for line in self._status():
            if line.startswith("SigCgt:"):
                return bool(int(line.split()[1], 16) >> (number - 1) & 1)
        return False

    def stopped(self) -> bool:
        return any(re.match(r"State:\s+T", line) for line in self._status())

    def over(self) -> bool:
        return any(re.match(r"State:\s+[ZX]", line) for line in self._status())

    def _status(self) -> list[str]:
        try:
            return Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        except OSError:
            return ["State: X"]

    def reads_study(self) -> bool:
        """Whether it has opened the study."""
        with suppress(BlockingIOError):
            self.read = self.read or bool(os.read(self.opened, 4096))
        return self.read

    def has_children(self) -> bool:
        return any(path.read_text() for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"))

    def events(self) -> list[str]:
        lines = self.log.read_text().split("\n")[:-1] if self.log.exists() else []
        return [json.loads(line)["event"] for line in lines]

    def computes(self) -> bool:
        return "run_started" in self.events()

    def computed(self) -> bool:
        return self.events().count("batch_finished") == 8


@dataclass(frozen=True)
class Phase:
    """A phase of a run, by what tells from outside that it has begun and that it is over."""

    text: str
    begun: Callable[[Run], bool]
    over: Callable[[Run], bool]


PHASES = {
    "import": Phase(STUDY, lambda run: run.catches(signal.SIGTERM), Run.reads_study),
    "plan": Phase(LARGE, Run.reads_study, Run.has_children),
    "cluster start": Phase(STUDY, Run.has_children, Run.computes),
    "computing": Phase(STUDY, Run.computes, Run.computed),
    "last tables": Phase(STUDY, Run.computed, lambda run: not run.catches(signal.SIGTERM)),
}


def others_of(session: int) -> list[psutil.Process]:
    """The processes of a session but for the first one: workers, and Python's process that cleans up."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != session and os.getsid(process.pid) == session:
                found.append(process)
        except OSError:
            continue
    return found


def until(condition: Callable[[], bool], what: str) -> None:
    """Wait for a condition; the time is only there for a machine on which it never comes true."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited for {what}"
        time.sleep(0.01)


def watch_of(path: Path) -> int:
    """A descriptor from which something can be read once a file was opened (Linux, inotify)."""
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor: int = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    opened = 0x20
    if descriptor < 0 or libc.inotify_add_watch(descriptor, os.fsencode(path), opened) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), str(path))
    return descriptor


@contextmanager
def started(folder: Path, text: str) -> Iterator[Run]:
    """A run in a session of its own, as a terminal starts it."""
    folder.mkdir(parents=True, exist_ok=True)
    study, log = write_study(folder, text), folder / "run.jsonl"
    log.unlink(missing_ok=True)
    opened = watch_of(study)
    command = [sys.executable, "-m", "pbdist", "run", str(study), "--store", str(folder / "s.zarr")]
    process = subprocess.Popen(
        [*command, "--log", str(log), "--workers", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield Run(process, opened, log)
    finally:
        os.close(opened)
        others = others_of(process.pid)
        process.kill()
        process.communicate()
        # They end by themselves, Python's tracker last: it removes what the others leave behind.
        for left in psutil.wait_procs(others, timeout=PATIENCE)[1]:
            left.kill()


def hold_in(run: Run, phase: Phase, seconds: float, number: signal.Signals) -> bool:
    """Stop a run some time after a phase has begun; return whether it is in that phase then, with a handler."""
    until(lambda: phase.begun(run), "the beginning of the phase")
    time.sleep(seconds)
    run.process.send_signal(signal.SIGSTOP)
    until(lambda: run.stopped() or run.over(), "the run to be stopped")
    return run.catches(number) and not phase.over(run)


def check_end(run: Run, why: str) -> None:
    """Check that an interrupted run ends with its line and nothing else, and leaves no process behind."""
    left = others_of(run.process.pid)
    _, told = run.process.communicate(timeout=PATIENCE)
    assert run.process.returncode == 130, f"{why}: {run.process.returncode}: {told}"
    lines = told.split("\n")
    # Before the command is known nothing is said of it.
    assert lines[-2] in (INTERRUPTED, "pbdist: interrupted"), f"{why}: {told}"
    assert all(TOLD.match(line) for line in lines[:-2]), f"{why}: {told}"
    _, alive = psutil.wait_procs([*left, *others_of(run.process.pid)], timeout=PATIENCE)
    assert not alive, why


def interrupt_somewhere(folder: Path, name: str, sender: str, draw: random.Random, seconds: float) -> None:
    """Send a run a signal at a random moment of a phase that takes about so long, and check how it ends."""
    phase, (send, number) = PHASES[name], SENDERS[sender]
    for attempt in range(ATTEMPTS):
        after = seconds * draw.random()
        with started(folder / str(attempt), phase.text) as run:
            if hold_in(run, phase, after, number):
                send(run)
                run.process.send_signal(signal.SIGCONT)
                while sender == IMPATIENT and run.process.poll() is None:
                    send(run)
                    time.sleep(0.05)
                check_end(run, f"{name}, {sender} {after:.4f} s after its beginning")
                return
        # The phase was over.
        seconds = after
    pytest.fail(f"no attempt met: {name}")


def to_the_group(run: Run) -> None:
    """Ctrl-C: a terminal sends it to all processes at once."""
    os.killpg(run.process.pid, signal.SIGINT)


def to_the_driver(run: Run) -> None:
    run.process.send_signal(signal.SIGTERM)


def to_all(run: Run) -> None:
    """The end of a job."""
    os.killpg(run.process.pid, signal.SIGTERM)


IMPATIENT = "Ctrl-C again and again"
#: Of each phase and sender.
MOMENTS = times(3)

SENDERS = {
    "Ctrl-C": (to_the_group, signal.SIGINT),
    IMPATIENT: (to_the_group, signal.SIGINT),
    "SIGTERM": (to_the_driver, signal.SIGTERM),
    "SIGTERM to all": (to_all, signal.SIGTERM),
}


#: One sender of each phase beside the default tests, every night all of them.
QUICK = {
    ("import", "SIGTERM"),
    ("plan", "Ctrl-C"),
    ("cluster start", IMPATIENT),
    ("computing", "SIGTERM to all"),
    ("last tables", "Ctrl-C"),
}
CASES = [
    pytest.param(name, sender, marks=pytest.mark.ci if (name, sender) in QUICK else pytest.mark.nightly)
    for name in PHASES
    for sender in SENDERS
]


@pytest.mark.parametrize(("name", "sender"), CASES)
def test_a_signal_at_any_moment_of_a_phase(tmp_path: Path, finished_store: Finished, name: str, sender: str) -> None:
    expected = results_of(finished_store(STUDY))
    draw = random.Random(f"{SEED} {name} {sender}")  # noqa: S311 -- no secret
    for position in range(MOMENTS):
        folder = tmp_path / str(position)
        interrupt_somewhere(folder, name, sender, draw, TYPICAL[name])
        last = max(folder.iterdir(), key=lambda path: int(path.name))
        if name in ("import", "plan"):
            assert not (last / "s.zarr").exists(), position
        elif (last / "s.zarr").exists():
            # The same study goes on in the store to the same bytes.
            run_study(load_study(write_study(last, STUDY)), last / "s.zarr", SerialExecutor(), lambda _: None)
            assert results_of(last / "s.zarr") == expected, position
