"""The layout of a store: names of files and arrays, and what a worker has to know of it. See docs/store-format.md."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from pbdist.store.place import Place
from pbdist.study import StudySpec
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Direction, JsonValue

#: The version of the layout.
STORE_FORMAT = 6

CELL, QUANTITY, DETAIL = "cell", "quantity", "detail"
BOUNDS_ARRAY, DETAILS_ARRAY = "bounds", "details"
STATES, FAILURES = "states", "failures"
#: The file of a group or an array.
METADATA = "zarr.json"
#: The longest chunk of a column that describes cells, so that a large study is never in memory as a whole.
COLUMN_CHUNK = 65_536
_EXTENSION, _REFINED = "extension-", "refined-"


#: The bounds, over the dimensions (cell, direction, compositions, epsilon), and their long names.
BOUNDS: Mapping[str, str] = {
    "delta_lower": "lower bound on delta(epsilon) after r-fold composition",
    "delta_upper": "upper bound on delta(epsilon) after r-fold composition",
    "log_delta_lower": "natural logarithm of the lower bound on delta(epsilon)",
    "log_delta_upper": "natural logarithm of the upper bound on delta(epsilon)",
}
#: Where the bounds meet within the tolerance: 1 or 0, and NaN in a study without a tolerance.
WITHIN = "within_tolerance"
#: The coordinate ``quantity`` of the array ``bounds``.
QUANTITIES = (*BOUNDS, WITHIN)

#: Facts about a computed cell that users see, and their long names.
COMPUTED: Mapping[str, str] = {
    "factor_used": "factor f between the buckets of the leaf",
    "loss_width": "width ln f of a bucket of the leaf, in nats",
}
#: At how many points of a cell the tolerance is required and missed; the checksum of its states' files, and its own.
SOUGHT, MISSED, STATES_CHECKSUM, CHECKSUM = "sought", "missed", "states_checksum", "checksum"
#: The coordinate ``detail`` of the array ``details``.
DETAILS = (*COMPUTED, SOUGHT, MISSED, STATES_CHECKSUM, CHECKSUM)

#: The coordinates of the grids, and their long names.
GRIDS: Mapping[str, str] = {
    COMPOSITIONS: "number r of compositions",
    EPSILON: "epsilon, in nats",
    "exp_epsilon": "e to the power of epsilon",
    DIRECTION: "direction of the hockey-stick divergence",
}


def described(long_name: str) -> dict[str, JsonValue]:
    """Return the CF attributes of an array of numbers without a unit, or in nats."""
    return {"long_name": long_name, "units": "1"}


def bounds_file(index: int) -> str:
    """Return the name of the file with the bounds of a batch: where it is there, the batch is committed."""
    return f"{BOUNDS_ARRAY}/{index}.0.0.0.0"


def details_file(index: int) -> str:
    """Return the name of the file with the details of a batch."""
    return f"{DETAILS_ARRAY}/{index}.0"


def failures_file(index: int) -> str:
    """Return the name of the file that says which cells of a batch could not be computed, and why."""
    return f"{FAILURES}/{index}/{METADATA}"


def cell_states(cell: int) -> str:
    """Return the path of the states of a cell."""
    return f"{STATES}/{cell}"


def dimension(name: str, part: str) -> str:
    """Return the name of a dimension in a part: xarray has no two sizes of one name in a tree."""
    shared = name in (QUANTITY, DETAIL, DIRECTION)
    return name if shared or not part else f"{name}_{part.rpartition('-')[2]}"


def is_extension(name: str) -> bool:
    """Whether a folder of a store is a part that a later study has added."""
    return name.startswith(_EXTENSION)


def is_refined(name: str) -> bool:
    """Whether a folder of a store has points that a query has added."""
    return name.startswith(_REFINED)


def extension_name(taken: Iterable[str]) -> str:
    """Return the path of the next part that extends a store."""
    numbers = {int(end) for name in taken if is_extension(name) and (end := name.removeprefix(_EXTENSION)).isdecimal()}
    return f"{_EXTENSION}{min(set(range(1, len(numbers) + 2)) - numbers):03d}"


def refined_name(digest: str) -> str:
    """Return the path of some refined points, by the digest of their study: the same points have the same path."""
    return f"{_REFINED}{digest[:8]}"


@dataclass(frozen=True)
class PartHead:
    """A part of a store as a worker needs it to write results. Small and picklable."""

    #: The place of the part.
    place: Place
    #: Its path in the store; empty for the first one.
    part: str
    #: SHA-256 of the study, as in the attributes.
    digest: str
    #: The number of cells, and of those in one batch.
    cells: int
    cells_per_batch: int
    #: The study without its cells.
    settings: StudySpec

    @property
    def batches(self) -> int:
        """The number of batches."""
        return -(-self.cells // self.cells_per_batch)

    def cells_of(self, index: int) -> range:
        """Return the cells of a batch."""
        start = index * self.cells_per_batch
        return range(start, min(start + self.cells_per_batch, self.cells))

    @property
    def point_shape(self) -> tuple[int, int, int]:
        """The numbers of directions, r and ε."""
        return len(Direction), len(self.settings.compositions), len(self.settings.epsilon)
