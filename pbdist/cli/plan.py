"""``pbdist plan``: what a study will take, before anything runs."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from pbdist.cli.output import page

if TYPE_CHECKING:
    from pbdist.study import StudySpec

__all__ = ["add_to"]


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("plan", help="show what a study will take, before anything runs")
    parser.add_argument("study", metavar="FILE", type=Path, help="a study file")
    parser.set_defaults(action=_plan)


def _plan(options: argparse.Namespace) -> int:
    from rich.table import Table

    from pbdist.study import load_study, plan_study
    from pbdist.study.plan import duration, size

    plan = plan_study(load_study(options.study))
    study = plan.study
    seconds = [batch.seconds for batch in plan.batches]
    console = page()
    title = f"{study.name}: {study.description}" if study.description else study.name
    console.print(title, markup=False, highlight=False, soft_wrap=True)
    table = Table(show_header=False)
    table.add_column("what")
    table.add_column("how much", justify="right")
    points = len(study.cells) * len(study.compositions) * len(study.epsilon)
    rows = {
        "cells (noise settings)": f"{len(study.cells):,}",
        "numbers of compositions": f"{len(study.compositions):,}, up to {study.compositions[-1]:,}",
        "values of epsilon": f"{len(study.epsilon):,}, {study.epsilon[0]:.6g} to {study.epsilon[-1]:.6g}",
        "points, both directions": f"{2 * points:,}",
        "method": _method(study),
        "batches": f"{len(plan.batches):,}, cells in each: {plan.cells_per_batch:,}",
        "projected time of a batch, one core": f"{min(seconds):.3g} to {max(seconds):.3g} s",
        "projected time of the study, one core": duration(plan.seconds),
        "projected peak memory of a worker": size(plan.worker_bytes),
        "projected size of the store, at most": size(plan.store_bytes),
        "bucket states": "kept" if study.keep_states else "not kept",
        "study digest": study.digest[:16],
    }
    for what, how_much in rows.items():
        table.add_row(what, how_much)
    console.print(table)
    return 0


def _method(study: "StudySpec") -> str:
    if study.method == "buckets" or study.buckets is not None:
        return f"{study.method}, {study.buckets:,} buckets"
    return f"{study.method}, tolerance {study.tolerance:g}"
