"""Commands on a store, in this process and in a limited one, and the state of a folder before and after."""

import os
import resource
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import cache
from io import StringIO
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from pathlib import Path

from pbdist.cli import main

STUDY = """\
format: 1
name: linked
mechanisms:
  - {label: Laplace, kind: Laplace, scale: [2, 3]}
method: buckets
buckets: 40
factors: 1.5
keep_states: true
compositions: [1]
epsilon: [0, 0.5]
"""
LARGER = STUDY.replace("[2, 3]", "[2, 3, 5]")
QUERY = ("--mechanism", "Laplace", "--scale", "2", "--compositions", "1", "--epsilon", "0.5")
REFINED = ("--mechanism", "Laplace", "--scale", "2", "--compositions", "1", "--epsilon", "0.25", "--refine")
#: The most memory and time of a process that meets a file without end.
MOST_MEMORY, MOST_SECONDS = 6 << 30, 60

Answer = tuple[int, str]


def ask(*arguments: object) -> Answer:
    """Give a command in this process, and return its exit code and all that it prints."""
    text = StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        code = main([str(argument) for argument in arguments])
    return code, text.getvalue()


def state_of(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """Kind, time of the last change and content of all entries of a folder, and of the folder itself."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mode,
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() and not path.is_symlink() else b"",
        )
        for path in (folder, *sorted(folder.rglob("*")))
    }


def run(store: Path) -> tuple[object, ...]:
    return "run", store.parent / "study.yaml", "--store", store, "--serial", "--check"


def assert_refused(answer: Answer, path: Path, what: str) -> None:
    code, text = answer
    errors = [line for line in text.splitlines() if line.startswith("pbdist: error: ")]
    assert (code, len(errors)) == (2, 1), text
    assert str(path) in errors[0]
    assert f"got a {what}" in errors[0]
    assert "Traceback" not in text


@cache
def _processes() -> ForkServerContext:
    """Processes that begin with the imports done, by fork of a server that does nothing else."""
    context = get_context("forkserver")
    context.set_forkserver_preload(["pbdist.cli", "pbdist.query", "pbdist.store", "pbdist.verify.store"])
    return context


def _limited(folder: str, told: Connection, arguments: Sequence[str]) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    os.chdir(folder)
    told.send(ask(*arguments))


def in_a_process(*arguments: object) -> Answer:
    """As `ask`, in a process of limited memory and time: nothing may wait or read without end."""
    reader, writer = _processes().Pipe(duplex=False)
    process = _processes().Process(target=_limited, args=(os.getcwd(), writer, [str(one) for one in arguments]))
    process.start()
    writer.close()
    try:
        if not reader.poll(MOST_SECONDS):
            raise TimeoutError(f"expected an end within {MOST_SECONDS} s: {arguments}")
        answer: Answer = reader.recv()
        return answer
    finally:
        process.kill()
        process.join()
        process.close()
        reader.close()
