"""How the states of privacy buckets are held and computed: sizes of blocks and tasks, and the memory of a task."""

from dataclasses import dataclass
from itertools import count

from pbdist.buckets.blocked_vectors import (
    PIECE,
    BlockedVector,
    Mapper,
    MemoryVectors,
    SerialMapper,
    VectorStore,
    groups,
)
from pbdist.errors import InvalidInputError
from pbdist.fourier.chunk_sizes import longest_chunk, most_chunks

#: Positions of a leaf that are filled at once: its masses and what they are computed from stay small.
LEAF_BLOCK = 1 << 18


@dataclass(frozen=True)
class Layout:
    """Sizes that move memory and time, never a result.

    Attributes
    ----------
    block
        Elements of a stored block of a vector, a multiple of the pieces of `pbdist.buckets.blocked_vectors`, and of a
        leaf's blocks if the leaf has several.
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


#: From the largest to the smallest: with less, files are too many and too small.
_LAYOUTS = (Layout(), Layout(task=1 << 21, spectra=1 << 22), Layout(task=1 << 20, spectra=1 << 21))
#: One block and one task, however long the vectors are.
_ONE_BLOCK = Layout(block=1 << 62, task=1 << 62, spectra=1 << 62)


class Work:
    """How states are held and computed: the bounds do not depend on it.

    Parameters
    ----------
    store : VectorStore, optional
        Where the blocks lie; every task reads and writes there. This process's memory by default.
    mapper : Mapper, optional
        Runs the tasks; this process by default.
    layout : Layout, optional
        The sizes of blocks and tasks. Without one, every vector is one block and is convolved whole in this process.
    name : str, optional
        What all names in the store begin with. No array is written twice with another content, so that a task which is
        done once more, however late, does no harm; two users of one store need different names.
    """

    def __init__(
        self,
        store: VectorStore | None = None,
        mapper: Mapper | None = None,
        layout: Layout | None = None,
        name: str = "state",
    ) -> None:
        self.store: VectorStore = MemoryVectors() if store is None else store
        self.mapper: Mapper = SerialMapper() if mapper is None else mapper
        #: Whether every vector is one block in this process.
        self.in_one_block = layout is None
        self.layout = _ONE_BLOCK if layout is None else layout
        self._names = (f"{name}-{number:04d}" for number in count())

    def new_vectors(self, names: tuple[str, ...], size: int) -> dict[str, BlockedVector]:
        """Return vectors of that size, still without elements, under a new name in the store."""
        name = next(self._names)
        return {part: BlockedVector(self.store, f"{name}/{part}", self.layout.block, 0, size) for part in names}

    def groups(self, size: int) -> list[list[tuple[int, int]]]:
        """Cut positions into blocks, and gather the blocks of each task."""
        if self.in_one_block:
            return [[(0, size)]]
        blocks = -(-size // self.layout.block)
        share = -(-blocks // (2 * self.mapper.parallel))
        return groups(0, size, self.layout.block, min(self.layout.task // self.layout.block, share))


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
    needed = projected_bytes(buckets, _LAYOUTS[-1])
    raise InvalidInputError(
        f"buckets: {buckets} buckets in blocks need {needed / 2**20:.0f} MiB for each task,"
        f" got {limit / 2**20:.0f} MiB for it"
    )
