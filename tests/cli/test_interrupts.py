"""The end of a command by a signal: in real processes, at moments that Python or a library would make nothing of."""

import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.cli.interrupts import ANEW
from tests.effort import SEED, times
from tests.processes import run_code
from tests.run.test_signals import INTERRUPTED, Run, until
from tests.studies import TINY, write_study

pytestmark = pytest.mark.slow

PRELUDE = """
import os, signal, sys, time
from pbdist.cli import interrupts

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def wait():
    while True:
        time.sleep(3600)

interrupts.watch()
"""
DROPPED_IN_A_FINALIZER = """
class Dropping:
    def __del__(self):
        interrupt()

with interrupts.in_good_order():
    Dropping()
    wait()
"""
DROPPED_BY_A_LIBRARY = """
with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    except BaseException:
        pass
    wait()
"""
MADE_ANOTHER_ERROR = """
with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    except BaseException as error:
        raise ValueError("no interrupt any more") from error
"""
IN_AN_IMPORT = """
from pathlib import Path
Path("hostile.py").write_text('''
import __main__
try:
    __main__.interrupt()
    for _ in range(1000):
        pass
except BaseException:
    raise ImportError("numpy._core.multiarray failed to import")
''')
sys.path.insert(0, "")
with interrupts.in_good_order():
    import hostile
    wait()
"""
IN_CLEANING_UP = """
with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    finally:
        for _ in range(3):
            interrupt()
            time.sleep(0.2)
        open("cleaned", "w").close()
"""
AGAIN_LATER = """
interrupts._PATIENCE_SECONDS = 0.0
with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    finally:
        interrupt()
        wait()
"""
NEVER_DONE = """
interrupts._DEADLINE_SECONDS = 0.3
with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    finally:
        wait()
"""
COMPLAINING = """
import logging, threading, warnings

class Complaining:
    def __del__(self):
        raise OSError("dropped")

def thread():
    raise OSError("in a thread")

with interrupts.in_good_order():
    try:
        interrupt()
        wait()
    finally:
        Complaining()
        logging.getLogger("distributed.nanny").critical("lost")
        warnings.warn("unclosed")
        one = threading.Thread(target=thread)
        one.start()
        one.join()
"""
OUTSIDE = """
try:
    interrupt()
    wait()
finally:
    print("not reached")
"""


def called(program: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", PRELUDE + program]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=240, check=False)


@pytest.mark.parametrize(
    "program",
    [
        DROPPED_IN_A_FINALIZER,
        DROPPED_BY_A_LIBRARY,
        MADE_ANOTHER_ERROR,
        IN_AN_IMPORT,
        IN_CLEANING_UP,
        AGAIN_LATER,
        NEVER_DONE,
        COMPLAINING,
        OUTSIDE,
    ],
)
def test_a_signal_is_never_lost_and_says_one_line(program: str, tmp_path: Path) -> None:
    done = called(program, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", f"{INTERRUPTED}\n")
    assert (tmp_path / "cleaned").exists() == (program is IN_CLEANING_UP)


def test_without_stderr_no_other_file_gets_the_line(tmp_path: Path) -> None:
    program = "exec 2>&-; exec {} -c '{}'".format(
        sys.executable,
        f'{PRELUDE}first = os.open("first", os.O_WRONLY | os.O_CREAT)\nassert first == 2\ninterrupt()\nwait()'.replace(
            "'", '"'
        ),
    )
    assert subprocess.run(["bash", "-c", program], cwd=tmp_path, timeout=240, check=False).returncode == 130
    assert (tmp_path / "first").read_bytes() == b""


def test_what_is_ignored_stays_ignored(tmp_path: Path) -> None:
    """As under nohup, or in the background of a script."""
    study = write_study(tmp_path)
    run = f"{sys.executable} -m pbdist run {study} --serial --store {tmp_path / 's.zarr'}"
    command = ["bash", "-c", f"trap '' INT HUP; exec {run}"]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True) as process:
        # From here on they are ignored.
        run_of = Run(process, 0, study, read=True)
        until(lambda: run_of.catches(signal.SIGTERM), "the handler of SIGTERM")
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.send_signal(signal.SIGHUP)
            try:
                process.wait(0.05)
            except subprocess.TimeoutExpired:
                continue
        _, told = process.communicate()
    assert process.returncode == 0, told


@pytest.fixture(scope="module")
def folder(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its finished store."""
    folder = tmp_path_factory.mktemp("commands")
    shutil.copytree(tiny_store, folder / "data/tiny.zarr")
    write_study(folder, TINY)
    return folder


POINT = ["data/tiny.zarr", "--mechanism", "Laplace", "--epsilon", "0.3"]
COMMANDS = {
    "plan": ["plan", "study.yaml"],
    "status": ["status", "data/tiny.zarr", "--check"],
    "query": ["query", *POINT, "--scale", "2.5", "--compositions", "4"],
    "refine": ["query", *POINT, "--scale", "2.25", "2.75", "--compositions", "5", "6", "--refine"],
    "size": ["size", "--family", "Laplace", "--compositions", "7", "--epsilon", "1", "--delta", "1e-6"],
    "verify": ["verify", "data/tiny.zarr"],
}
#: A command that a signal ends at its call of some number, or that tells how many Python functions it calls.
COUNTED = """
import os, sys
from pathlib import Path
from pbdist.cli import interrupts, main
last, number, *sys.argv[1:] = int(sys.argv[1]), int(sys.argv[2]), *sys.argv[3:]
calls, watch = 0, interrupts.watch
def count(frame, event, argument):
    global calls
    calls += event == "call"
    if 0 < last == calls:
        sys.setprofile(None)
        os.kill(os.getpid(), number)
def watched():
    watch()
    sys.setprofile(count)
interrupts.watch = watched
code = main()
sys.setprofile(None)
Path("calls").write_text(str(calls))
sys.exit(code)
"""


@pytest.mark.parametrize(
    ("name", "number"),
    [*((name, signal.SIGINT) for name in COMMANDS), ("query", signal.SIGTERM), ("size", signal.SIGTERM)],
)
def test_every_command_ends_the_same_way(
    folder: Path, name: str, number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def called(where: str, last: int) -> tuple[int, str]:
        monkeypatch.chdir(shutil.copytree(folder, tmp_path / where))
        done = run_code(COUNTED, last, int(number), *COMMANDS[name])
        return done.returncode, done.stderr

    assert called("whole", 0)[0] == 0
    calls = int(Path("calls").read_text())
    draw = random.Random(f"{SEED} {name} {number}")  # noqa: S311 -- no secret
    for last in (draw.randint(1, calls) for _ in range(times(7))):
        code, told = called(str(last), last)
        # Before it is known which command it is, all may go on.
        assert (code, told in (f"{INTERRUPTED}\n", ANEW)) == (130, True), f"call {last} of {calls}: {told}"
        # What a query adds it adds as a whole, and the lock is given back.
        assert not Path("data/.tiny.zarr.lock").exists()
        assert main(["status", "data/tiny.zarr", "--check"]) == 0


def test_a_command_that_begins_anew_does_not_say_that_it_goes_on(tmp_path: Path) -> None:
    program = """
interrupts.begins_anew()
with interrupts.in_good_order():
    pass
interrupt()
wait()
"""
    assert called(program, tmp_path).stderr == ANEW
