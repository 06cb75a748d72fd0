"""Read study files, and plan studies. Nothing here computes or stores."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbdist.study.columns import Cell
from pbdist.study.plan import Batch, Plan, Planner, plan_study
from pbdist.study.spec import StudySpec, Target

if TYPE_CHECKING:
    from pbdist.study.load import load_study

__all__ = ["Batch", "Cell", "Plan", "Planner", "StudySpec", "Target", "load_study", "plan_study"]


def __getattr__(name: str) -> Any:
    """Import the reader of study files when it is used: a look-up in a store does not wait for YAML."""
    if name != "load_study":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module("pbdist.study.load").load_study
