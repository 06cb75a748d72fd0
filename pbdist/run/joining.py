"""Join the batches of a shard once all of them are there: in a worker, or here if nothing else is to be done."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from pbdist.run.events import CleanUpFailed, Listener
from pbdist.run.executor import one_line
from pbdist.store import JoinedShard, PartHead, at_once, join_shard
from pbdist.study import Batch

#: Shards that are joined here at the same time, at most: so many, and of so many bytes together.
_MOST_JOINED, _MOST_BYTES = 8, 1 << 26


@dataclass(frozen=True)
class JoinTask:
    """A shard to join: its number, and the part of the store that it is in."""

    head: PartHead
    shard: int


def run_join(task: JoinTask) -> JoinedShard:
    """Join a shard; errors as of `join_shard`."""
    try:
        return join_shard(task.head, task.shard)
    except OSError:
        # What the next run has removed meanwhile is missing here: that it has taken the store over is the cause.
        task.head.check()
        raise


def join_here(tasks: Sequence[JoinTask], listener: Listener) -> None:
    """Join shards in this process, several small ones at the same time.

    One that cannot be joined is an event, and is left to the next run.
    """

    def join(task: JoinTask) -> None:
        try:
            run_join(task)
        except OSError as error:
            listener(CleanUpFailed(f"batches that were not joined: {one_line(error)}"))

    largest = max((task.head.shard_bytes for task in tasks), default=1)
    for _ in at_once(join, tasks, max(1, min(_MOST_JOINED, _MOST_BYTES // largest))):
        pass


class Joins:
    """Counts the batches that each shard still lacks, and says which shards are to be joined."""

    def __init__(self, left: Iterable[tuple[PartHead, Batch]]) -> None:
        self._heads: dict[str, PartHead] = {}
        self._lacking: dict[tuple[str, int], int] = {}
        #: Shards that are being joined.
        self._open: set[tuple[str, int]] = set()
        for head, batch in left:
            self._heads[head.part] = head
            key = head.part, head.shard_of(batch.index)
            self._lacking[key] = self._lacking.get(key, 0) + 1

    @property
    def open(self) -> bool:
        """Whether some shard is being joined."""
        return bool(self._open)

    def begin(self, task: JoinTask) -> JoinTask:
        """Note that a shard is being joined."""
        self._heads[task.head.part] = task.head
        self._open.add((task.head.part, task.shard))
        return task

    def end(self, task: JoinTask) -> None:
        """Note that a shard is joined, or given up."""
        self._open.discard((task.head.part, task.shard))

    def clear(self) -> None:
        """Give up all that is not joined yet: the next run does it."""
        self._open.clear()

    def written(self, part: str, index: int) -> JoinTask | None:
        """Note that a batch is written; return the task that joins its shard, if nothing of it is left."""
        head = self._heads[part]
        key = part, head.shard_of(index)
        self._lacking[key] -= 1
        return self.begin(JoinTask(head, key[1])) if self._lacking[key] == 0 else None
