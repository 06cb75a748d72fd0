"""What ``pbdist plan`` prints of a plan."""

from collections import Counter
from typing import TYPE_CHECKING

from pbdist.errors import printable

if TYPE_CHECKING:
    from rich.console import Console

    from pbdist.study import Plan, StudySpec
    from pbdist.types import JsonValue

#: So many values that targets added are listed.
_MOST_LISTED = 6


def print_plan(console: "Console", plan: "Plan") -> None:
    """Print a plan as a table."""
    from rich.table import Table

    from pbdist.study.plan import duration, size

    study = plan.study
    seconds = plan.batches.seconds
    title = f"{study.name}: {study.description}" if study.description else study.name
    console.print(printable(title), markup=False, highlight=False, soft_wrap=True)
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    rows = {
        "cells (noise settings)": f"{len(study.cells):,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(study.epsilon):,}, {study.epsilon[0]:.6g} to {study.epsilon[-1]:.6g}",
        "points, both directions": f"{_points(study):,}",
        "method": _method(study),
        "batches": f"{len(plan.batches):,}, cells in each: {plan.cells_per_batch:,}",
        "projected time of a batch, one core": f"{seconds.min():.3g} to {seconds.max():.3g} s",
        "projected time of the study, one core": duration(plan.seconds),
        "projected peak memory of a worker": size(plan.worker_bytes),
        "projected size of the store, at most": size(plan.store_bytes),
        "bucket states": "kept" if study.keep_states else "not kept",
        "study digest": study.digest[:16],
    }
    for what, how_much in rows.items():
        table.add_row(what, how_much)
    console.print(table)
    if study.target_compositions or study.target_epsilon:
        console.print(_growth(study), markup=False, highlight=False, soft_wrap=True)


def plan_as_json(plan: "Plan") -> "dict[str, JsonValue]":
    """Return a plan as JSON values, unrounded, with the grids."""
    study = plan.study
    return {
        "name": study.name,
        "description": study.description,
        "digest": study.digest,
        "cells": len(study.cells),
        "cells_by_label": _by_label(study),
        "compositions": list(study.compositions),
        "epsilon": list(study.epsilon),
        "points": _points(study),
        "method": study.method,
        "tolerance": study.tolerance,
        "buckets": study.buckets,
        "floor": study.floor,
        "direction": study.direction,
        "keep_states": study.keep_states,
        "targets": [
            {"epsilon": target.epsilon, "delta": target.delta, "compositions": target.compositions}
            for target in study.targets
        ],
        "added_by_targets": {
            "compositions": list(study.target_compositions),
            "epsilon": list(study.target_epsilon),
            "points": _points(study) - _points_without_targets(study),
        },
        "batches": len(plan.batches),
        "cells_per_batch": plan.cells_per_batch,
        "batch_seconds": {"min": float(plan.batches.seconds.min()), "max": float(plan.batches.seconds.max())},
        "seconds": plan.seconds,
        "worker_bytes": plan.worker_bytes,
        "store_bytes": plan.store_bytes,
    }


def _by_label(study: "StudySpec") -> dict[str, int]:
    """Return how many cells each label has."""
    from pbdist.study.spec import KnownCells

    cells = study.cells
    return cells.labels() if isinstance(cells, KnownCells) else dict(Counter(cell.label for cell in cells))


def _points(study: "StudySpec") -> int:
    """Return the number of points, both directions."""
    return 2 * len(study.cells) * len(study.compositions) * len(study.epsilon)


def _points_without_targets(study: "StudySpec") -> int:
    rounds = len(study.compositions) - len(study.target_compositions)
    return 2 * len(study.cells) * rounds * (len(study.epsilon) - len(study.target_epsilon))


def _growth(study: "StudySpec") -> str:
    """Return what targets off the grids add to a study."""
    added = []
    if study.target_compositions:
        added.append(f"compositions {_listed([f'{r:,}' for r in study.target_compositions])}")
    if study.target_epsilon:
        added.append(f"epsilon {_listed([f'{value:.6g}' for value in study.target_epsilon])}")
    before = _points_without_targets(study)
    more = f"{before:,} points become {_points(study):,}, since every r is computed with every epsilon"
    return f"targets off the grids add {' and '.join(added)}: {more}"


def _listed(texts: list[str]) -> str:
    more = len(texts) - _MOST_LISTED
    return ", ".join(texts[:_MOST_LISTED]) + (f" and {more} more" if more > 0 else "")


def _method(study: "StudySpec") -> str:
    if study.method == "buckets" or study.buckets is not None:
        return f"{study.method}, {study.buckets:,} buckets"
    return f"{study.method}, tolerance {study.tolerance:g}"
