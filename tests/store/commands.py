"""Commands on a store, in this process and in a limited one, and the state of a folder before and after."""

from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path

from pbdist.cli import main
from tests.processes import run_command

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
#: The most memory of a process that meets a file without end.
MOST_MEMORY = 6 << 30

Answer = tuple[int, str]


def ask(*arguments: object) -> Answer:
    """Give a command in this process, and return its exit code and all that it prints."""
    text = StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        code = main([str(argument) for argument in arguments])
    return code, text.getvalue()


def in_a_process(*arguments: object) -> Answer:
    """As `ask`, in a process of limited memory and time: nothing may wait or read without end."""
    done = run_command(*arguments, memory=MOST_MEMORY)
    return done.returncode, done.stdout + done.stderr


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
