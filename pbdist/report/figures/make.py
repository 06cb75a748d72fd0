"""Make a figure: compute its study into a store, and write its data and drawings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from pbdist.query import open_study
from pbdist.report.figures.consistency import contradictions
from pbdist.report.figures.curves import curve_points
from pbdist.report.figures.drawing import FORMATS, draw
from pbdist.report.figures.figure import Figure
from pbdist.report.figures.figure_csv import figure_csv
from pbdist.run import Executor, SerialExecutor, run_study
from pbdist.run.events import Event

CSV = "csv"


@dataclass(frozen=True)
class MadeFigure:
    """What was written of a figure.

    Attributes
    ----------
    files
        In the order of the formats.
    problems
        Sentences on curves that contradict each other; empty if all is well.
    """

    files: tuple[Path, ...]
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
        unfinished = path.with_name(f".{path.name}.{uuid4().hex}")
        try:
            unfinished.write_bytes(content)
            unfinished.replace(path)
        finally:
            unfinished.unlink(missing_ok=True)
        written.append(path)
    return MadeFigure(tuple(written), tuple(contradictions(figure, points)))
