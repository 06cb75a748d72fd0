"""A part of a store as a process needs it to read and write results: its place, its batches and its shards."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from pbdist.store.fence import Fence
from pbdist.store.layout import most_chunk_bytes, result_names
from pbdist.store.place import Place
from pbdist.study import StudySpec


@dataclass(frozen=True)
class PartHead:
    """A part of a store as a process needs it to read and write results. Small and picklable.

    Attributes
    ----------
    place
        The place of the part.
    part
        Its path in the store; empty for the first one.
    digest
        SHA-256 of the study, as in the root attributes.
    cells, cells_per_batch, batches_per_shard
        The number of cells, of those in one batch, and of the batches in one shard.
    settings
        The study without its cells.
    fence
        Keeps the workers of a run that has lost the store from writing there; None where it is not written by workers.
    """

    place: Place
    part: str
    digest: str
    cells: int
    cells_per_batch: int
    batches_per_shard: int
    settings: StudySpec
    fence: Fence | None = field(default=None, compare=False, repr=False)

    def look(self) -> None:
        """Note in a worker whether it sees the lock; a `StoreTakenError` where another run has taken the store over."""
        if self.fence is not None:
            self.fence.look()

    def check(self) -> None:
        """Raise a `StoreTakenError` where another run has taken the store over."""
        if self.fence is not None:
            self.fence.check()

    def write(self, name: str, data: bytes) -> None:
        """Write a file of the part; a `StoreTakenError` where another run has taken the store over."""
        self.check()
        self.place.write(name, data)

    def remove_all(self, names: Sequence[str]) -> None:
        """Remove some files of the part, those that are there; errors as of `write`."""
        self.check()
        self.place.remove_all(names)

    @property
    def results(self) -> tuple[str, ...]:
        """The names of the arrays of results."""
        return result_names(self.settings)

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.cells // self.cells_per_batch)

    @property
    def shards(self) -> int:
        """The number of shards."""
        return -(-self.batches // self.batches_per_shard)

    def cells_of(self, index: int) -> range:
        """Return the cells of a batch."""
        start = index * self.cells_per_batch
        return range(start, min(start + self.cells_per_batch, self.cells))

    def shard_of(self, index: int) -> int:
        """Return the shard of a batch."""
        return index // self.batches_per_shard

    def batches_of(self, shard: int) -> range:
        """Return the batches of a shard."""
        start = shard * self.batches_per_shard
        return range(start, min(start + self.batches_per_shard, self.batches))

    def chunk_bytes(self, name: str) -> int:
        """Return the most bytes of a batch in an array of results."""
        return most_chunk_bytes(self.settings, name, self.cells_per_batch)

    @property
    def shard_bytes(self) -> int:
        """The most bytes of the files of results of one shard together."""
        return self.batches_per_shard * sum(map(self.chunk_bytes, self.results))

    @property
    def shape(self) -> tuple[int, int, int]:
        """The lengths of the batches and shards, and the number of cells, as records name them."""
        return self.cells_per_batch, self.batches_per_shard, self.cells
