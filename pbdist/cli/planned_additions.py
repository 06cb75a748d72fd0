"""What ``pbdist plan --store`` prints: what a run would add to a store."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from pbdist.study import Plan, StudySpec
    from pbdist.study.addition import Addition
    from pbdist.types import JsonValue


def additions(asked: "StudySpec | Addition", store: str) -> "list[Plan]":
    """Return the plans of the parts that a run would add to a store; none where it has all points.

    Raises
    ------
    PbdistError
        What lies there is no store, or one of another study.
    """
    from pbdist.run.extending import asked_of
    from pbdist.store import is_there, open_parts, place_at
    from pbdist.study import plan_study

    wanted, place = asked_of(asked, store), place_at(store)
    # Where nothing is, all is new.
    missing = wanted.missing([part.study for part in open_parts(place)]) if is_there(place) else (wanted.study,)
    return [plan_study(part) for part in missing]


def print_additions(console: "Console", store: str, plans: "Sequence[Plan]") -> None:
    """Print what a run would add to a store: a row for each part, and all together."""
    from rich.table import Table

    from pbdist.study.plan import duration, size

    def told(text: str) -> None:
        console.print(text, markup=False, highlight=False, soft_wrap=True)

    if not plans:
        told(f"{store}: has all points of the file, nothing would be added")
        return
    table = Table()
    for head in ("cells", "compositions", "epsilon", "points, both directions", "batches", "time, one core", "store"):
        table.add_column(head, justify="right")
    for plan in plans:
        study = plan.study
        row = (len(study.cells), len(study.compositions), len(study.epsilon), _points(plan), len(plan.batches))
        table.add_row(*(f"{count:,}" for count in row), duration(plan.seconds), f"up to {size(plan.store_bytes)}")
    console.print(table)
    seconds, memory = sum(plan.seconds for plan in plans), max(plan.worker_bytes for plan in plans)
    told(
        f"{store}: {sum(map(_points, plans)):,} points would be added,"
        f" projected {duration(seconds)} on one core and up to {size(memory)} a worker"
    )


def additions_as_json(store: str, plans: "Sequence[Plan]") -> "dict[str, JsonValue]":
    """Return what a run would add as JSON values, unrounded, with the grids."""
    return {
        "store": store,
        "points": sum(map(_points, plans)),
        "seconds": sum(plan.seconds for plan in plans),
        "parts": [
            {
                "cells": len(plan.study.cells),
                "compositions": list(plan.study.compositions),
                "epsilon": list(plan.study.epsilon),
                "points": _points(plan),
                "batches": len(plan.batches),
                "cells_per_batch": plan.cells_per_batch,
                "seconds": plan.seconds,
                "worker_bytes": plan.worker_bytes,
                "store_bytes": plan.store_bytes,
            }
            for plan in plans
        ],
    }


def _points(plan: "Plan") -> int:
    """Return the number of points, both directions."""
    return 2 * len(plan.study.cells) * len(plan.study.compositions) * len(plan.study.epsilon)
