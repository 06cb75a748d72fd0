"""What the tabulated bounds of one group of noise settings prove at a target; nothing is said between settings."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.packing import packed
from pbdist.results import Verdict
from pbdist.types import BoolArray, FloatArray, IntArray, JsonValue

#: The verdicts by the numbers that pages use.
VERDICTS = (Verdict.YES, Verdict.NO, Verdict.UNDECIDED, Verdict.MISSING)
_YES, _NO, _UNDECIDED, _MISSING = range(4)
#: So many settings are sent to be drawn; all are judged.
_MOST_DRAWN = 400
#: So many on either side of where the verdict changes are among them.
_AROUND = 20


@dataclass(frozen=True, eq=False)
class Judged:
    """The verdicts on the settings of a group, by increasing noise.

    Attributes
    ----------
    verdicts
        Indices of `VERDICTS`.
    smallest
        The position of the least noise whose upper bound is at most δ; None where there is none.
    refuted
        Of the settings with less noise, or of all where `smallest` is None: the position of the most noise whose lower
        bound exceeds δ; None where there is none.
    """

    verdicts: IntArray
    smallest: int | None
    refuted: int | None


def judged(lower: FloatArray, upper: FloatArray, delta: float) -> Judged:
    """Judge settings, by increasing noise, as `pbdist.results.verdict_of` does; a lower bound not known is 0 here."""
    verdicts = np.full(upper.shape, _UNDECIDED, dtype=np.int64)
    with np.errstate(invalid="ignore"):
        verdicts[lower > delta] = _NO
        verdicts[upper <= delta] = _YES
    verdicts[np.isnan(lower) | np.isnan(upper)] = _MISSING
    yes = np.flatnonzero(verdicts == _YES)
    smallest = int(yes[0]) if yes.size else None
    no = np.flatnonzero(verdicts[:smallest] == _NO)
    return Judged(verdicts, smallest, int(no[-1]) if no.size else None)


def judged_as_json(
    group: NoiseGroup, values: Mapping[str, FloatArray], unattained: BoolArray, delta: float
) -> dict[str, JsonValue]:
    """Return the verdicts on a group as a page takes them: counts, the certificate, and points to draw.

    `values` has the bounds of the group's cells; `unattained` says of which cells no lower bound is known.
    """
    found = judged(values["delta_lower"], values["delta_upper"], delta)
    told = {name: np.where(unattained & name.endswith("lower"), np.nan, each) for name, each in values.items()}
    drawn = _drawn(len(group.cells), found)
    cells, amounts = np.array(group.cells), np.array(group.amounts)
    return {
        "counts": [int(np.count_nonzero(found.verdicts == code)) for code in range(len(VERDICTS))],
        "smallest": found.smallest,
        "refuted": found.refuted,
        "positions": packed(drawn),
        "cells": packed(cells[drawn]),
        "amounts": packed(amounts[drawn]),
        "verdicts": packed(found.verdicts[drawn]),
        "of": len(group.cells),
        **{name: packed(each[drawn]) for name, each in told.items()},
    }


def _drawn(count: int, found: Judged) -> IntArray:
    """Return the positions of the settings that are drawn: all, or evenly spaced ones and those that matter."""
    if count <= _MOST_DRAWN:
        return np.arange(count)
    chosen = [np.linspace(0, count - 1, _MOST_DRAWN - 4 * _AROUND - 2).astype(np.int64)]
    chosen += [
        np.arange(max(0, position - _AROUND), min(count, position + _AROUND + 1))
        for position in (found.smallest, found.refuted)
        if position is not None
    ]
    return np.unique(np.concatenate(chosen))
