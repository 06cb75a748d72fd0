"""What a page learns first: the grids, the groups of noise settings, and what is wrong with the store."""

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from pbdist.query.neighbours import neighbours_by_label, neighbours_words
from pbdist.query.noise_choice import NoiseGroup
from pbdist.report.explorer.packing import packed
from pbdist.report.explorer.snapshot import PartState, Snapshot
from pbdist.rounding import exact
from pbdist.study.extension import missing_parts
from pbdist.study.spec import exponential
from pbdist.types import JsonValue

_MOST_TOLD = 5


def contents(snapshot: Snapshot, groups: Sequence[NoiseGroup], left_out: str = "") -> dict[str, JsonValue]:
    """Return the compact index of a store, with some of its groups of noise settings.

    Cells are those of the groups, one after the other, each by increasing noise; `offsets` tells where they begin.
    Numbers of rounds are texts, as some are too large for the numbers of a page.
    """
    study = snapshot.union.study
    return {
        "title": study.name,
        "store": snapshot.name,
        "digest": snapshot.digest[:8],
        "token": snapshot.token,
        "method": study.method,
        "tolerance": study.sought,
        "compositions": [str(r) for r in study.compositions],
        "epsilon": packed(np.array(study.epsilon)),
        "exp_epsilon": packed(np.array([exponential(value) for value in study.epsilon])),
        "labels": [group.label for group in groups],
        "fixed": _fixed(groups),
        "what": [group.what for group in groups],
        "offsets": packed(np.cumsum([0, *(len(group.cells) for group in groups)])),
        "cells": packed(np.array([cell for group in groups for cell in group.cells], dtype=np.int64)),
        "amounts": packed(np.array([amount for group in groups for amount in group.amounts])),
        "notices": list(notices(snapshot)),
        "left_out": left_out,
    }


def notices(snapshot: Snapshot) -> Iterator[dict[str, JsonValue]]:
    """Yield what is to be said of a store before anything of it is shown, each with how bad it is."""
    study = snapshot.union.study
    if snapshot.problem is not None:
        yield _notice("error", f"This store is damaged, and nothing of it is shown: {snapshot.problem}")
        return
    cells, missing = len(study.cells), len(snapshot.lacking)
    if all(len(state.missing) == state.stored.batches for state in snapshot.parts):
        yield _notice("error", "This store is empty: none of its noise settings is computed yet. Run its study.")
    elif missing:
        yield _notice(
            "warning",
            f"This store is not complete: {missing:,} of {_settings(cells)} are not computed yet, or not at all r and"
            " ε. Run its study again, then load this page again.",
        )
    if missing_parts([state.stored.study for state in snapshot.parts], study):
        yield _notice("warning", "This store is not complete: an extension of its study was interrupted.")
    failed = [(state, row, why) for state in snapshot.parts for row, why in sorted(state.failed.items())]
    if failed:
        told = "; ".join(f"{_setting(state, row)}: {why}" for state, row, why in failed[:_MOST_TOLD])
        more = f"; and {len(failed) - _MOST_TOLD:,} more" if len(failed) > _MOST_TOLD else ""
        yield _notice("warning", f"{_settings(len(failed))} could not be computed: {told}{more}.")
    if snapshot.refined:
        yield _notice(
            "note",
            f"Queries have added {snapshot.refined:,} points to this store, and they are not shown here:"
            " pbdist query answers from them too.",
        )
    neighbours = neighbours_by_label(study)
    if any(relation.definite for relation in neighbours.values()):
        words = neighbours_words(neighbours.items())
        yield _notice("note", f"{words[0].upper()}{words[1:]}.")
    if snapshot.unattained.any():
        yield _notice(
            "note",
            f"Of {_settings(int(snapshot.unattained.sum()))} no lower bound is known, as no change is declared"
            " to attain their pairs: nothing refutes them.",
        )


def reading_notices(snapshot: Snapshot, points: int, missed: int) -> Iterator[dict[str, JsonValue]]:
    """Yield what was found while bounds were read: damage, and that the tolerance is missed at some of the points."""
    damaged = snapshot.damaged
    if damaged:
        cells = sum(len(state.stored.head.cells_of(batch)) for state, batch in damaged)
        yield _notice(
            "error",
            f"Part of this store is damaged: the files of {_settings(cells)} have"
            " changed or are missing. They are left out. Run the study again.",
        )
    if missed:
        yield _notice(
            "note",
            f"The bounds are wider than the study's tolerance, {snapshot.union.study.sought:g}, at {missed:,} of"
            f" {points:,} points read. They hold nevertheless.",
        )


def _settings(count: int) -> str:
    return f"{count:,} noise setting{'' if count == 1 else 's'}"


def _notice(level: str, text: str) -> dict[str, JsonValue]:
    return {"level": level, "text": text}


def _setting(state: PartState, row: int) -> str:
    return state.stored.study.cells[row].describe()


def _fixed(groups: Sequence[NoiseGroup]) -> list[str]:
    """Return for each group what tells it from the others of its label; a cell's number where no parameter does."""
    of_label: dict[str, list[NoiseGroup]] = {}
    for group in groups:
        of_label.setdefault(group.label, []).append(group)
    varying: dict[str, list[str]] = {}
    for label, alike in of_label.items():
        names = dict.fromkeys(name for group in alike for name in group.fixed)
        varying[label] = [name for name in names if len({group.fixed.get(name) for group in alike}) > 1]
        if all(group.fixed.get("noise", group.fixed.get("kind")) == group.fixed.get("kind") for group in alike):
            varying[label] = [name for name in varying[label] if name != "noise"]
    texts = [
        ", ".join(
            f"{name.replace('_', ' ')} {_text(group.fixed[name])}"
            for name in varying[group.label]
            if name in group.fixed
        )
        for group in groups
    ]
    times = Counter(zip((group.label for group in groups), texts, strict=True))
    return [
        text if times[group.label, text] == 1 else f"{text}{', ' if text else ''}setting {group.cells[0]}"
        for group, text in zip(groups, texts, strict=True)
    ]


def _text(value: float | str) -> str:
    return value if isinstance(value, str) else exact(value)
