"""The layout of a store: names and attributes. See docs/store-format.md."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pbdist.study import StudySpec
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, JsonValue

#: The version of the layout.
STORE_FORMAT = 5

CELL = "cell"
COMMITS = "commits"
EXTENSIONS = "extensions"
REFINEMENTS = "refinements"
STATES = "states"

#: The folder of batches that are not yet joined into a shard.
LOOSE = f"{COMMITS}/batches"

#: The root attributes of a part, their copy, and the list of the parts that extend a store.
ROOT_FILE, COPY_FILE, PARTS_FILE = "zarr.json", f"{COMMITS}/zarr.json", f"{EXTENSIONS}/zarr.json"

#: Root attributes of a store that was extended, for readers that know nothing of parts: a sentence, and the paths of
#: the other parts.
PART_OF, OTHER_PARTS = "part_of", "other_parts"

#: The longest chunk of a column that describes cells, so that a large study is never in memory as a whole.
COLUMN_CHUNK = 65_536

#: The most batches of a shard, and the most bytes of their numbers: a shard is joined in memory.
_MOST_BATCHES, _MOST_SHARD_BYTES = 64, 1 << 27
#: Batches whose files lie in one folder, until they are joined.
_FOLDER_LENGTH = 1000


@dataclass(frozen=True)
class ArrayAttributes:
    """The CF attributes of an array."""

    long_name: str
    units: str = "1"

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the attributes as zarr takes them."""
        return {"long_name": self.long_name, "units": self.units}


#: The bounds, over the dimensions (cell, direction, compositions, epsilon).
BOUNDS: Mapping[str, ArrayAttributes] = {
    "delta_lower": ArrayAttributes("lower bound on delta(epsilon) after r-fold composition"),
    "delta_upper": ArrayAttributes("upper bound on delta(epsilon) after r-fold composition"),
    "log_delta_lower": ArrayAttributes("natural logarithm of the lower bound on delta(epsilon)"),
    "log_delta_upper": ArrayAttributes("natural logarithm of the upper bound on delta(epsilon)"),
}

#: Where the bounds meet within the tolerance, over the dimensions of the bounds.
WITHIN = "within_tolerance"

#: What a computed cell has once, over the dimension (cell).
COMPUTED: Mapping[str, ArrayAttributes] = {
    "factor_used": ArrayAttributes("factor f between the buckets of the leaf"),
    "loss_width": ArrayAttributes("width ln f of a bucket of the leaf, in nats"),
}

#: The coordinates of the grids.
GRIDS: Mapping[str, ArrayAttributes] = {
    COMPOSITIONS: ArrayAttributes("number r of compositions"),
    EPSILON: ArrayAttributes("epsilon, in nats"),
    "exp_epsilon": ArrayAttributes("e to the power of epsilon"),
    DIRECTION: ArrayAttributes("direction of the hockey-stick divergence"),
}


def result_names(settings: StudySpec) -> tuple[str, ...]:
    """Return the names of the arrays of results of a part; `WITHIN` only where the study has a tolerance."""
    return (*BOUNDS, *([WITHIN] if settings.sought is not None else []), *COMPUTED)


def batch_shape(settings: StudySpec, name: str, cells: int) -> tuple[int, ...]:
    """Return the shape of an array of results for so many cells."""
    inner = (len(Direction), len(settings.compositions), len(settings.epsilon))
    return (cells,) if name in COMPUTED else (cells, *inner)


def most_chunk_bytes(settings: StudySpec, name: str, cells_per_batch: int) -> int:
    """Return the most bytes of a batch in an array of results: those of numbers that cannot be compressed."""
    plain = _plain_bytes(settings, name, cells_per_batch)
    # zstd adds 1/256 and some bytes to data that it cannot compress.
    return plain + plain // 128 + 1024


def shard_length(settings: StudySpec, cells_per_batch: int) -> int:
    """Return how many batches a shard of a new part has: a function of the study and of the length of its batches."""
    plain = sum(_plain_bytes(settings, name, cells_per_batch) for name in result_names(settings))
    batches = -(-len(settings.cells) // cells_per_batch)
    return max(1, min(_MOST_BATCHES, _MOST_SHARD_BYTES // plain, batches))


def part_name(number: int) -> str:
    """Return the path of a part that extends a store, numbered from 1."""
    return f"{EXTENSIONS}/{number:03d}"


def batch_file(index: int) -> str:
    """Return the name of the file that holds a batch until it is joined into a shard."""
    return f"{LOOSE}/{index // _FOLDER_LENGTH:03d}/batch-{index:06d}"


def shard_record(shard: int) -> str:
    """Return the name of the file that holds the commit record of a shard."""
    return f"{COMMITS}/shard-{shard:06d}/zarr.json"


def cell_group(index: int) -> str:
    """Return the path of the kept states of a cell."""
    return f"{STATES}/cell-{index:06d}"


def shard_file(name: str, shard: int) -> str:
    """Return the name of the file that holds a shard of one array of results."""
    return f"{name}/c/{shard}" if name in COMPUTED else f"{name}/c/{shard}/0/0/0"


def _plain_bytes(settings: StudySpec, name: str, cells: int) -> int:
    return (1 if name == WITHIN else 8) * math.prod(batch_shape(settings, name, cells))
