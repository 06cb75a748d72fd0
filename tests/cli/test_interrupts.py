"""The end of a command by a signal: one line, exit code 130, and what was held is released."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import start_code
from tests.run.test_signals import Run, until
from tests.studies import write_study

pytestmark = pytest.mark.slow

#: `main`, in which a command does what stands in its place.
PROGRAM = """
import os, signal, time
import pbdist.cli
from pbdist.cli import entry, main

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)

def command(arguments):
    {}

entry.run_command = command
main()
"""
CLEANS_UP = """
    try:
        interrupt()
        time.sleep(3600)
    finally:
        interrupt()
        time.sleep(0.2)
        open("cleaned", "w").close()
"""
MAKES_ANOTHER_ERROR = """
    try:
        interrupt()
        time.sleep(3600)
    except BaseException as error:
        raise ImportError("no interrupt any more") from error
"""
IS_INTERRUPTED_AGAIN = """
    pbdist.cli._PATIENCE = 0.0
    try:
        interrupt()
        time.sleep(3600)
    finally:
        interrupt()
        time.sleep(3600)
"""


@pytest.mark.parametrize("body", [CLEANS_UP, MAKES_ANOTHER_ERROR, IS_INTERRUPTED_AGAIN])
def test_a_signal_is_one_line(body: str, tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROGRAM.format(body.strip())]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "pbdist: interrupted\n")
    assert (tmp_path / "cleaned").exists() == (body is CLEANS_UP)


@pytest.mark.parametrize("resumes", [True, False])
def test_only_a_command_that_saves_results_is_said_to_go_on(tmp_path: Path, resumes: bool) -> None:
    code = """
import os, signal, sys, time
from pbdist.cli import main
from pbdist.sizing import comparison
def never(*_, **__):
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(3600)
comparison.answer_of = never
main()
"""
    size = ["size", "--family", "Laplace", "--compositions", "7", "--epsilon", "1", "--delta", "1e-6"]
    store = ["--store", str(tmp_path / "s.zarr")] if resumes else []
    with start_code(code, *size, *store) as process:
        done = process.wait()
    goes_on = ": the same command goes on where this one stopped" if resumes else ""
    assert (done.returncode, done.stderr) == (130, f"pbdist: interrupted{goes_on}\n")


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
        _, errors = process.communicate()
    assert process.returncode == 0, errors
