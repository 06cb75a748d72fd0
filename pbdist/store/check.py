"""Check every file of a store against its checksums; nothing is computed, and nothing is written."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from pbdist.errors import StoreDamagedError
from pbdist.progress import reported
from pbdist.store.layout import (
    BOUNDS_ARRAY,
    DETAILS,
    DETAILS_ARRAY,
    FAILURES,
    METADATA,
    STATES,
    STATES_CHECKSUM,
    bounds_file,
    cell_states,
    details_file,
    failures_file,
    is_extension,
    is_refined,
)
from pbdist.store.open import StoredStudy, changed_files, files_checksum, open_parts, read_refinements
from pbdist.store.place import Place, place_at
from pbdist.store.skeleton import digest_of


@dataclass(frozen=True)
class StoreCheck:
    """The result of a check."""

    #: The number of batches, and of those that are committed and sound.
    batches: int
    committed: int
    #: The number of cells in all parts.
    cells: int
    #: Batches that are not committed: the path of the part, empty for the first one, and the number.
    missing: tuple[tuple[str, int], ...]
    #: Files that are missing or changed, and what is wrong with each.
    damaged: tuple[tuple[str, str], ...]
    #: Cells that could not be computed: the path of the part, the number of the cell, and the cause.
    failed: tuple[tuple[str, int, str], ...]
    #: Files that are not of the store, which do no harm.
    strays: tuple[str, ...]

    @property
    def healthy(self) -> bool:
        """Whether the store is complete and all its files are unchanged."""
        return not (self.missing or self.damaged or self.failed)


def check_store(where: str | Path | Place) -> StoreCheck:
    """Check every file of a store: metadata, coordinates, results, states and refined points.

    Errors are those of `open_parts`.
    """
    place = place_at(where)
    parts = open_parts(place)
    names = {name for name, _ in place.names()}
    damaged: dict[str, str] = {}
    missing: list[tuple[str, int]] = []
    failed: list[tuple[str, int, str]] = []
    known: set[str] = set()
    committed = 0
    for stored in parts:
        start = f"{stored.part}/" if stored.part else ""
        damaged |= {f"{start}{name}": what for name, what in changed_files(stored).items()}
        known |= {f"{start}{name}" for name in (METADATA, *stored.files)}
        progress = stored.progress()
        missing += [(stored.part, index) for index in progress.missing]
        failed += [(stored.part, cell, cause) for cell, cause in progress.failed.items()]
        found = damaged_batches(stored)
        damaged |= {f"{start}{name}": what for files in found.values() for name, what in files.items()}
        committed += int(progress.committed.sum()) - len(found)
        folders = tuple(f"{start}{name}/" for name in (BOUNDS_ARRAY, DETAILS_ARRAY, STATES, FAILURES))
        known |= {name for name in names if name.startswith(folders)}
    lost = [part for part in parts[0].extensions if part not in {stored.part for stored in parts}]
    damaged |= {f"{part}/{METADATA}": "missing" for part in lost}
    refined: list[str] = []
    read_refinements(parts[0], damaged=refined)
    damaged |= dict.fromkeys(refined, "refined points that cannot be read")
    known |= {name for name in names if is_refined(name) or (is_extension(name) and name.partition("/")[0] in lost)}
    return StoreCheck(
        batches=sum(stored.batches for stored in parts),
        committed=committed,
        cells=sum(len(stored.study.cells) for stored in parts),
        missing=tuple(missing),
        damaged=tuple(sorted(damaged.items())),
        failed=tuple(failed),
        strays=tuple(sorted(names - known)),
    )


def damaged_batches(stored: StoredStudy) -> dict[int, dict[str, str]]:
    """Return the committed batches of a part whose files are damaged: the files, and what is wrong with each."""
    committed = [index for index, there in enumerate(stored.progress().committed.tolist()) if there]
    states: dict[int, list[str]] = {}
    if stored.study.keep_states:
        for name, _ in stored.place.names(STATES):
            cell = name.split("/")[1]
            # Such as .DS_Store.
            hidden = name.rpartition("/")[2].startswith(".")
            if cell.isdecimal() and not hidden:
                states.setdefault(int(cell), []).append(name)
    found = stored.place.at_once(lambda index: _damage(stored, index, states), committed)
    return {index: files for index, files in zip(reported("batch", committed), found, strict=True) if files}


def _damage(stored: StoredStudy, index: int, states: Mapping[int, Sequence[str]]) -> dict[str, str]:
    try:
        batch = stored.read(index)
    except StoreDamagedError as error:
        return {bounds_file(index): str(error).partition("(")[2].partition(")")[0]}
    if batch is None:
        return {details_file(index): "missing"}
    found: dict[str, str] = {}
    without = np.flatnonzero(batch.failed) + stored.cells_of(index).start
    if {*without.tolist()} != set(stored.failures(index)):
        found[failures_file(index)] = "not of the cells without bounds"
    if stored.study.keep_states:
        expected = batch.details[:, DETAILS.index(STATES_CHECKSUM)].tolist()
        for cell, checksum, failed in zip(stored.cells_of(index), expected, batch.failed.tolist(), strict=True):
            digests = {name: digest_of(stored.place.read(name)) for name in states.get(cell, ())}
            if not failed and files_checksum(digests) != checksum:
                found[cell_states(cell)] = "a state is missing or changed"
    return found
