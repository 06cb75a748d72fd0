"""Giant cells: privacy buckets too many for one worker's memory, computed in blocks over all workers."""

from contextlib import suppress
from uuid import uuid4

from pbdist.arguments import DEFAULT_BUCKETS, half_width_of
from pbdist.buckets import BoundsTable, Layout, Mapper, Work, blocked_table, layout_within
from pbdist.buckets import projected_bytes as task_bytes
from pbdist.errors import InvalidInputError
from pbdist.run.scratch import Scratch, scratch_at
from pbdist.study import Cell, StudySpec

__all__ = [
    "BASE_BYTES",
    "USABLE",
    "compute",
    "layout_of",
    "projected_bytes",
    "scratch_at",
    "scratch_bytes",
]

#: What a worker's process takes before it computes anything.
BASE_BYTES = 220 << 20
#: The part of a worker's memory that is used: Dask stops a worker that takes more than 80 % from taking up tasks.
USABLE = 0.78


def compute(study: StudySpec, cell: Cell, mapper: Mapper, scratch: Scratch, worker_bytes: int) -> BoundsTable:
    """Compute a cell of privacy buckets in blocks.

    Parameters
    ----------
    study : StudySpec
        With the method ``buckets``.
    cell : Cell
        The cell.
    mapper : Mapper
        Who works. This process itself plans, adds up and holds some numbers for each block.
    scratch : Scratch
        Where the blocks lie, seen by every worker. Emptied before and afterwards.
    worker_bytes : int
        The memory of the smallest worker.

    Returns
    -------
    BoundsTable
        Bit by bit that of `pbdist.bounds_table`. With ``keep_states`` its states are held whole by this
        process: 32 bytes for each bucket, direction and r.

    Raises
    ------
    InvalidInputError
        The study has another method, or the smallest blocks are too large for a worker; both figures are named.
    """
    if study.method != "buckets":
        raise InvalidInputError(f"giant cell: expected method buckets, got {study.method}")
    # What a worker of an earlier run may still write gets in nobody's way.
    work = Work(scratch, mapper, layout_of(study, worker_bytes), name=uuid4().hex)
    scratch.clear()
    try:
        return blocked_table(
            [(cell.pair, 1)],
            compositions=study.compositions,
            epsilon=study.epsilon,
            buckets=study.buckets,
            factor=cell.factor,
            keep_states=study.keep_states,
            work=work,
        )
    finally:
        # What cannot be removed now is when the next cell, or the run, is done; it hides no failure, and no result.
        with suppress(OSError):
            scratch.clear()


def layout_of(study: StudySpec, worker_bytes: int) -> Layout:
    """Return the sizes of the blocks and tasks with which a worker of that memory suffices.

    Raises
    ------
    InvalidInputError
        None do; both figures are named.
    """
    return layout_within(_buckets(study), int(worker_bytes * USABLE) - BASE_BYTES)


def projected_bytes(study: StudySpec, worker_bytes: int) -> int:
    """Return the projected peak memory of a worker process, in bytes.

    Raises
    ------
    InvalidInputError
        As `layout_of`.
    """
    return BASE_BYTES + task_bytes(_buckets(study), layout_of(study, worker_bytes))


def scratch_bytes(study: StudySpec) -> int:
    """Return an upper bound on the room that a cell takes on its scratch at any one time."""
    size = _buckets(study) + 1
    rungs = study.compositions[-1].bit_length()
    # The ladder, a result, its partner and two squared lists; spectra of both vectors, sums and their finer cuts.
    return 8 * size * (4 * (rungs + 4) + 4 + 4 + 8)


def _buckets(study: StudySpec) -> int:
    return 2 * half_width_of(DEFAULT_BUCKETS if study.buckets is None else study.buckets)
