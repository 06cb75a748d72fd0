"""The `pbdist query` command that asks for the points of one noise setting."""

import math

import numpy as np

from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query.lookup import matches
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.report.pages.shell import command


def query_command(snapshot: Snapshot, cell: int) -> str | None:
    """Return the command without r and ε, which are to follow; None where no options tell the setting from others."""
    label = snapshot.columns["mechanism"][cell]
    found = np.flatnonzero(snapshot.columns["mechanism"] == label)
    words = ["pbdist", "query", snapshot.name, f"--mechanism={label}"]
    for name in known_columns():
        if name == "mechanism" or name not in snapshot.columns or found.size == 1:
            continue
        column = snapshot.columns[name]
        mine = column[cell] if is_text(name) else float(column[cell])
        without = mine == "" or (isinstance(mine, float) and math.isnan(mine))
        if without and name != "factor":
            continue
        alike = found[matches(name, column[found], None if without else mine)]
        if alike.size == found.size:
            continue
        found = alike
        words.append(f"--{name.replace('_', '-')}={'auto' if without else mine if is_text(name) else repr(mine)}")
    # It is copied into a terminal.
    return command(*words) if found.size == 1 else None
