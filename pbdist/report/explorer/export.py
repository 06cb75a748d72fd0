"""The explorer as one static file: the same page, with the table of the chosen noise settings in it."""

from collections.abc import Sequence

from pbdist.errors import InvalidInputError, shown
from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.commands import query_command
from pbdist.report.explorer.contents import contents, reading_notices
from pbdist.report.explorer.packing import embedded_json, packed
from pbdist.report.explorer.page import exported_page
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.report.explorer.tables import CellTables, cell_tables
from pbdist.store.layout import BOUNDS
from pbdist.types import JsonValue

#: The most bytes of the tables in an exported file.
MOST_BYTES = 32 << 20
#: Of one point in base64: four bounds, and whether the tolerance is met.
_BYTES_OF_POINT = (len(BOUNDS) * 8 + 1) * 4 // 3 + 1


def exported(snapshot: Snapshot, mechanisms: Sequence[str] | None = None) -> str:
    """Return the page as one file, the same for the same store.

    Parameters
    ----------
    snapshot
        The store.
    mechanisms
        The labels of the mechanisms to take; by default all.

    Raises
    ------
    InvalidInputError
        The store has no such mechanism, or the file would be too large.
    """
    labels = list(dict.fromkeys(group.label for group in snapshot.groups))
    for label in mechanisms or ():
        if label not in labels:
            raise InvalidInputError(f"--mechanism: expected one of {', '.join(labels)}, got {shown(label)}")
    chosen = [group for group in snapshot.groups if mechanisms is None or group.label in mechanisms]
    _check_size(snapshot, chosen)
    cells = [cell for group in chosen for cell in group.cells]
    found = cell_tables(snapshot, cells)
    left_out = ""
    if mechanisms is not None:
        others = [label for label in labels if label not in mechanisms]
        left_out = f"This file leaves out the mechanisms {', '.join(others)} of its store." if others else ""
    index = contents(snapshot, chosen, left_out)
    index["notices"] = [*index["notices"], *reading_notices(snapshot, *found.missed(snapshot.union.study))]
    data: dict[str, JsonValue] = {
        "contents": index,
        "tables": {**{name: packed(values) for name, values in found.values.items()}, "within": packed(found.within)},
        "settings": _settings(snapshot, cells, found),
    }
    return exported_page(snapshot.union.study.name, embedded_json(data))


def _check_size(snapshot: Snapshot, groups: Sequence[NoiseGroup]) -> None:
    study = snapshot.union.study
    of_cell = len(study.compositions) * len(study.epsilon) * _BYTES_OF_POINT
    size = of_cell * sum(len(group.cells) for group in groups)
    if size <= MOST_BYTES:
        return
    of_label: dict[str, int] = {}
    for group in groups:
        of_label[group.label] = of_label.get(group.label, 0) + of_cell * len(group.cells)
    small = sorted((bytes_, label) for label, bytes_ in of_label.items() if bytes_ <= MOST_BYTES)
    fitting = ", ".join(f"{label} ({bytes_ / 2**20:.1f} MiB)" for bytes_, label in small[:8])
    advice = f"choose with --mechanism LABEL: {fitting}" if fitting else "no mechanism of it alone is small enough"
    raise InvalidInputError(
        f"--export: expected at most {MOST_BYTES >> 20} MiB of bounds, got {size / 2**20:.0f} MiB: {advice}"
    )


def _settings(snapshot: Snapshot, cells: Sequence[int], found: CellTables) -> list[JsonValue]:
    """Return what is said of each cell, in the order of the index."""
    return [
        {
            "setting": snapshot.union.study.cells[cell].describe(),
            "command": query_command(snapshot, cell),
            "gaps": gaps,
            "judged": bool(judged),
        }
        for cell, gaps, judged in zip(cells, found.gaps, found.judged, strict=True)
    ]
