"""Make a figure: compute its study into a store, and write its data and drawings."""

import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from pbdist.query import open_study
from pbdist.report.figures.drawing import FORMATS, draw
from pbdist.report.figures.figure import Figure, contradictions, curve_points, figure_csv
from pbdist.report.pages.files import write_whole
from pbdist.run import Executor, SerialExecutor, run_study
from pbdist.run.events import Event

CSV = "csv"


@dataclass(frozen=True)
class MadeFigure:
    """What was written of a figure."""

    #: In the order of the formats.
    files: tuple[Path, ...]
    #: Sentences on curves that contradict each other; empty if all is well.
    problems: tuple[str, ...]


def make_figure(
    figure: Figure,
    store: str | Path,
    folder: str | Path,
    *,
    formats: Sequence[str] = (CSV, *FORMATS),
    executor: Executor | None = None,
    listener: Callable[[Event], None] = lambda _: None,
    told: Callable[[str], None] = lambda _: None,
) -> MadeFigure:
    """Compute what `store` lacks of a figure's study, and write the figure's files into `folder`.

    Parameters
    ----------
    figure
        The figure.
    store
        The path of the study's store. It is not touched where the figure has no certified curve.
    folder
        Where ``NAME.csv``, ``NAME.svg`` and ``NAME.png`` are put; it is created. A file appears as a whole or not at
        all.
    formats
        Of ``csv``, ``svg`` and ``png``.
    executor
        Where to compute; by default in this process.
    listener
        Called with the events of the run.
    told
        Called with a few words on what is computed next.

    Raises
    ------
    PbdistError
        As `pbdist.run.run_study` and `pbdist.earlier_bounds`, or matplotlib is missing.
    OSError
        A file cannot be written.
    """
    target = Path(folder)
    target.mkdir(parents=True, exist_ok=True)
    opened = None
    if figure.study is not None:
        told("study")
        stored = run_study(figure.study, store, SerialExecutor() if executor is None else executor, listener)
        opened = open_study(stored.place)
    points = curve_points(figure, opened, told)
    written = []
    for kind in formats:
        told(kind)
        content = figure_csv(figure, points).encode() if kind == CSV else draw(figure, points, kind)
        path = target / f"{figure.name}.{kind}"
        write_whole(path, content)
        written.append(path)
    return MadeFigure(tuple(written), tuple(contradictions(figure, points)))


#: How often processes are looked at, seconds.
_PAUSE = 0.1
#: How long a process may take to end in good order, seconds.
_GOOD_ORDER = 10.0


@dataclass(frozen=True)
class Ended:
    """How the process of one figure ended."""

    #: What it was called.
    name: str
    #: Its exit code.
    code: int
    #: What it printed.
    output: str
    error: str
    #: How long it took.
    seconds: float


def at_once(
    commands: Sequence[tuple[str, Sequence[str]]],
    workers: int,
    ended: Callable[[Ended], None],
    running: Callable[[Sequence[str]], None] = lambda _: None,
) -> None:
    """Run ``python -m pbdist ARGUMENTS`` for each (name, arguments), at most `workers` at once, in their order.

    `ended` is called as each ends, `running` with the names of those at work whenever they change. If this is
    interrupted, all of them are ended before it returns.
    """
    left, at_work = deque(commands), list[tuple[str, subprocess.Popen[str], float]]()
    try:
        while left or at_work:
            while left and len(at_work) < workers:
                name, arguments = left.popleft()
                at_work.append((name, _started(arguments), time.monotonic()))
                running([name for name, *_ in at_work])
            for one in [*at_work]:
                name, process, since = one
                try:
                    output, error = process.communicate(timeout=_PAUSE / len(at_work))
                except subprocess.TimeoutExpired:
                    continue
                at_work.remove(one)
                ended(Ended(name, process.returncode, output, error, time.monotonic() - since))
                running([name for name, *_ in at_work])
    finally:
        for _, process, _ in at_work:
            process.terminate()
        for _, process, _ in at_work:
            try:
                process.communicate(timeout=_GOOD_ORDER)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()


def _started(arguments: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-m", "pbdist", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        # A session of its own: Ctrl-C reaches this process alone, which ends the others.
        start_new_session=True,
    )
