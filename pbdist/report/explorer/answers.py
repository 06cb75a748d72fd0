"""What a page asks for: the bounds of one noise setting along one axis, and verdicts; the same served or embedded."""

import threading
from collections import OrderedDict

import numpy as np

from pbdist.report.explorer.commands import query_command
from pbdist.report.explorer.packing import packed
from pbdist.report.explorer.slabs import Slabs
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.report.explorer.tables import CellTables, cell_tables
from pbdist.report.explorer.verdicts import judged_as_json
from pbdist.types import JsonValue

#: The most memory of the tables of single cells that are kept.
_MOST_BYTES = 64 << 20


class Answers:
    """Answers from one state of a store; from any thread, one at a time."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        # Found before the reading begins, which would slow it down.
        self._found = snapshot.groups, snapshot.unattained
        self.slabs = Slabs(snapshot)
        self._tables: OrderedDict[tuple[int, int], CellTables] = OrderedDict()
        self._lock = threading.Lock()

    def close(self) -> None:
        """End the background reading."""
        self.slabs.close()

    def bounds(self, cell: int, *, compositions: int | None = None, epsilon: int | None = None) -> dict[str, JsonValue]:
        """Return the bounds of a cell over ε at one r, or over r at one ε; the one that is given, by its index."""
        with self._lock:
            table = self._table(cell)
        row = np.index_exp[0, :, epsilon] if compositions is None else np.index_exp[0, compositions, :]
        setting = self.snapshot.union.study.cells[cell]
        return {
            "cell": cell,
            "setting": setting.describe(),
            "command": query_command(self.snapshot, cell),
            "gaps": table.gaps[0],
            "within": packed(table.within[row]) if table.judged[0] else None,
            **{name: packed(values[row]) for name, values in table.values.items()},
        }

    def verdicts(self, group: int, compositions: int, epsilon: int, delta: float) -> dict[str, JsonValue]:
        """Return the verdicts on a group at a target, or how much of what they need is read."""
        members = self.snapshot.groups[group]
        values = self.slabs.at(compositions, epsilon, members.cells)
        if values is None:
            return {"progress": self.slabs.progress(compositions, epsilon)}
        return judged_as_json(members, values, self.snapshot.unattained[np.array(members.cells)], delta)

    def _table(self, cell: int) -> CellTables:
        # Read anew after damage was found, which may be in what was read before.
        key = cell, len(self.snapshot.damaged)
        if key not in self._tables:
            found = cell_tables(self.snapshot, [cell])
            size = sum(values.nbytes for values in found.values.values())
            while self._tables and (len(self._tables) + 1) * size > _MOST_BYTES:
                self._tables.popitem(last=False)
            self._tables[key] = found
        self._tables.move_to_end(key)
        return self._tables[key]
