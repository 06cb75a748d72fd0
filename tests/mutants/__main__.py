"""Check that tests kill every mutant of `table.toml`: ``python -m tests.mutants [WORD ..]``.

Each mutant is applied to a copy of the package, never to the working tree, and the tests named for it run there, up to
the first that fails. Exit status 1 if one survives, if the tests fail without any mutant, or if the text that a mutant
replaces does not occur exactly once. With words, only mutants whose file, text or reason has one of them.
"""

import importlib
import os
import re
import shutil
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
#: What tests need of the working tree.
COPIED = ("pbdist", "tests", "data", "pyproject.toml")
#: Imported once, before all processes are forked.
SHARED = ("numpy", "scipy.fft", "scipy.special", "scipy.optimize", "scipy.stats", "mpmath", "flint", "pytest")
PROCESSES = 2


@dataclass(frozen=True)
class Mutant:
    """A change that makes bounds unsound, and the tests that are to notice it."""

    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    why: str

    @property
    def text(self) -> str:
        source = (ROOT / self.file).read_text(encoding="utf-8")
        if source.count(self.old) != 1:
            raise SystemExit(f"{self.file}: expected once, got {source.count(self.old)} times: {self.old}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True)
class Ran:
    """What came of some tests: pytest's exit status, its output, and CPU seconds."""

    status: int
    output: str
    seconds: float

    @property
    def failed(self) -> str | None:
        found = re.search(r"^FAILED (\S+)", self.output, re.MULTILINE)
        return found[1] if found and self.status == 1 else None


def table() -> list[Mutant]:
    document = tomllib.loads((HERE / "table.toml").read_text(encoding="utf-8"))
    return [
        Mutant(file, each["old"], each["new"], tuple(each.get("tests", part["tests"])), each["why"])
        for file, part in document.items()
        for each in part["mutants"]
    ]


def run(folder: Path, asked: Sequence[tuple[Mutant | None, tuple[str, ...]]]) -> Iterator[tuple[Mutant | None, Ran]]:
    """Run tests with each mutant, in copies of the working tree; yield what came of it as it ends."""
    free = [folder / str(number) for number in range(PROCESSES)]
    for copy in free:
        copy.mkdir(exist_ok=True)
        for name in COPIED:
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, copy / name, dirs_exist_ok=True)
            else:
                shutil.copy2(ROOT / name, copy / name)
    waiting, running = list(reversed(asked)), {}
    moment = time.time()
    while waiting or running:
        if waiting and free:
            (mutant, tests), copy = waiting.pop(), free.pop()
            if mutant is not None:
                (copy / mutant.file).write_text(mutant.text, encoding="utf-8")
                # Compiled files are told apart by the whole seconds of their sources.
                moment += 2.0
                os.utime(copy / mutant.file, (moment, moment))
            running[_started(copy, tests)] = mutant, copy
            continue
        process, status, used = os.wait4(-1, 0)
        mutant, copy = running.pop(process)
        output = (copy / "output").read_text(encoding="utf-8")
        if mutant is not None:
            shutil.copy2(ROOT / mutant.file, copy / mutant.file)
        free.append(copy)
        yield mutant, Ran(os.waitstatus_to_exitcode(status), output, used.ru_utime + used.ru_stime)


def _started(copy: Path, tests: tuple[str, ...]) -> int:
    """Start pytest in a copy; return the number of the process."""
    process = os.fork()
    if process:
        return process
    with (copy / "output").open("w", encoding="utf-8") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    os.chdir(copy)
    for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
        del sys.modules[name]
    sys.path.insert(0, str(copy))
    os.environ["PYTHONPATH"] = str(copy)
    status = sys.modules["pytest"].main(["-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--timeout", "120", *tests])
    sys.stdout.flush()
    os._exit(int(status))


def main(words: list[str]) -> int:
    chosen = [
        each for each in table() if not words or any(word in f"{each.file} {each.old} {each.why}" for word in words)
    ]
    for mutant in chosen:
        assert mutant.text
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    for name in SHARED:
        importlib.import_module(name)
    named = tuple(sorted({test for mutant in chosen for test in mutant.tests}))
    survivors, total = 0, 0.0
    with tempfile.TemporaryDirectory() as folder:
        for mutant, ran in run(Path(folder), [(None, named), *((each, each.tests) for each in chosen)]):
            good = ran.status == 0 if mutant is None else ran.failed is not None
            survivors += not good
            total += ran.seconds
            what = "without any mutant" if mutant is None else f"{mutant.file}: {mutant.why}"
            word = ("passed" if good else "FAILED") if mutant is None else ("killed" if good else "SURVIVED")
            print(f"{word} {ran.seconds:6.1f} s  {what}; {ran.failed or f'exit status {ran.status}'}", flush=True)
            if not good and ran.status:
                print(ran.output)
    print(f"{len(chosen)} mutants, {survivors} survived or failed, {total:.0f} CPU seconds")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
