"""Into what sizes the work on giant vectors is cut, and the memory that one task then takes."""

from dataclasses import dataclass

from pbdist.buckets.leaf import LEAF_BLOCK
from pbdist.buckets.sums import PIECE
from pbdist.errors import InvalidInputError
from pbdist.fourier.cuts import longest_chunk, most_chunks

__all__ = ["SMALLEST_LAYOUT", "Layout", "layout_within", "projected_bytes"]


@dataclass(frozen=True)
class Layout:
    """Sizes that move memory and time, never a result.

    Attributes
    ----------
    block
        Elements of a stored block of a vector, a multiple of the pieces of `pbdist.buckets.sums` and of a leaf's blocks
        if the leaf has several.
    task
        Elements of a vector that a task works on, a multiple of `block`.
    spectra
        Complex numbers that a task holds while it adds up products.
    """

    block: int = 1 << 20
    task: int = 1 << 22
    spectra: int = 1 << 23

    def __post_init__(self) -> None:
        if self.block % PIECE or self.block < 1 or self.task % self.block or self.task < 1:
            raise InvalidInputError(
                f"layout: expected blocks of whole pieces ({PIECE}), and tasks of blocks, got {self}"
            )


#: With less, files are too many and too small.
SMALLEST_LAYOUT = Layout(task=1 << 20, spectra=1 << 21)
_LAYOUTS = (Layout(), Layout(task=1 << 21, spectra=1 << 22), SMALLEST_LAYOUT)

#: Bytes of a leaf's temporary arrays for each bucket of one of its blocks: some mechanisms hold two rows of many.
_LEAF_BYTES = 560
#: Memory that every task may take besides.
_FIXED_BYTES = 24 << 20


def projected_bytes(buckets: int, layout: Layout) -> int:
    """Upper bound on the memory that one task takes, above what the process holds before.

    Parameters
    ----------
    buckets : int
        Number of finite buckets.
    layout : Layout
        The sizes.

    Notes
    -----
    Counted are the arrays that are alive together in the largest step of each kind of task.
    """
    size = buckets + 1
    chunk = min(longest_chunk(size), size)
    chunks = most_chunks(size)
    block, task = min(layout.block, size), min(layout.task, 2 * size)
    rows = max(4, (1 << 15) // chunk)
    # Padded rows, their spectra, the chunks and blocks they are read from, tilts.
    transform = 8 * (2 * rows * chunk) * 4 + 16 * block
    spectra = transform + 16 * (max(task, chunk) + chunk) * 2
    # The spectra of all chunks at some frequencies, those of one group twice, and sums of one.
    products = 16 * max(layout.spectra, 2 * chunks * 64) + 16 * max(layout.spectra // 2, 2 * 64 * rows)
    # Values and bounds, sums and their transforms, rounding, one shifted read.
    output = 8 * (task + 3 * chunk) * 10 + transform
    return _FIXED_BYTES + max(
        spectra, products, output, _LEAF_BYTES * min(size, LEAF_BLOCK) + 40 * block, 30 * block * 8
    )


def layout_within(buckets: int, limit: int) -> Layout:
    """Return the largest layout with which a task takes at most `limit` bytes.

    Raises
    ------
    InvalidInputError
        There is none; the text names both figures.
    """
    for layout in _LAYOUTS:
        if projected_bytes(buckets, layout) <= limit:
            return layout
    needed = projected_bytes(buckets, SMALLEST_LAYOUT)
    raise InvalidInputError(
        f"buckets: {buckets} buckets in blocks need {needed / 2**20:.0f} MiB for each task,"
        f" got {limit / 2**20:.0f} MiB for it"
    )
