"""The bounds of some settings of a store, read from sound batches only; and which points of large grids to show."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pbdist.query.stored import Union
from pbdist.query.study import Study
from pbdist.store import StoredStudy, read_values, read_within
from pbdist.store.layout import BOUNDS
from pbdist.types import BoolArray, FloatArray


@dataclass(frozen=True, eq=False)
class CellBounds:
    """The bounds on δ of one setting over (r, ε), the larger of the two directions; NaN where there are none.

    `within` tells where the study's tolerance is met; None for a setting that seeks none. `attained` tells whether
    lower bounds can be known.
    """

    lower: FloatArray
    upper: FloatArray
    within: BoolArray | None
    attained: bool


def bounds_of_cells(study: Study, parts: Sequence[StoredStudy], cells: Sequence[int]) -> Mapping[int, CellBounds]:
    """Return the stored bounds of some settings over the whole grids of the study.

    What is not computed, has failed or was changed since is NaN.
    """
    spec, union = study.spec, Union(parts)
    shape = len(spec.compositions), len(spec.epsilon)
    lower, upper, within = ({cell: np.full(shape, value) for cell in cells} for value in (np.nan, np.nan, False))
    for stored, batch in study.committed_batches():
        rows = union.rows(stored, batch)
        wanted = np.flatnonzero(np.isin(rows, list(cells)))
        if not wanted.size:
            continue
        r = [spec.compositions.index(value) for value in stored.study.compositions]
        e = [spec.epsilon.index(value) for value in stored.study.epsilon]
        whole = slice(batch.start, batch.stop)
        # NaN in either direction is NaN in the maximum.
        found = {name: read_values(stored, name, whole)[wanted].max(axis=1) for name in BOUNDS if "log" not in name}
        met = np.all(read_within(stored, whole)[wanted], axis=1) if spec.sought is not None else None
        for number, cell in enumerate(rows[wanted].tolist()):
            lower[cell][np.ix_(r, e)] = found["delta_lower"][number]
            upper[cell][np.ix_(r, e)] = found["delta_upper"][number]
            if met is not None:
                within[cell][np.ix_(r, e)] = met[number]
    told = {}
    for cell in cells:
        setting = spec.cells[cell]
        seeks = spec.seeks_tolerance(setting)
        told[cell] = CellBounds(
            lower[cell], upper[cell], within[cell].astype(bool) if seeks else None, setting.pair.attained_by_some
        )
    return told


def is_set(value: float | str) -> bool:
    """Whether a mechanism has the parameter with this entry in its column."""
    return value != "" if isinstance(value, str) else not math.isnan(value)


def spread(length: int, most: int, around: Sequence[int] = ()) -> list[int]:
    """Return at most about `most` indices, from the first to the last one, and all of `around`."""
    if length <= most:
        return list(range(length))
    left = max(2, most - len(set(around)))
    even = {round(step * (length - 1) / (left - 1)) for step in range(left)}
    return sorted(even | set(around))
