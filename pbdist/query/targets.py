"""Which noise settings meet a target: yes, no, or undecided; never a guess."""

import math
from dataclasses import dataclass
from enum import Enum

from pbdist.query.study import Study
from pbdist.study import Cell, Target

__all__ = ["TargetResult", "Verdict", "judge_target"]


class Verdict(Enum):
    """What the bounds say about δ <= target."""

    YES = "yes"
    NO = "no"
    UNDECIDED = "undecided"
    MISSING = "not computed"


@dataclass(frozen=True)
class TargetResult:
    """A noise setting's bounds at a target's point, and the verdict.

    Attributes
    ----------
    cell
        The noise setting.
    delta_lower, delta_upper
        The bounds on δ(ε), the larger of the two directions.
    verdict
        YES if the upper bound is at most the target's δ, NO if the lower bound is above it.
    """

    cell: Cell
    delta_lower: float
    delta_upper: float
    verdict: Verdict


def judge_target(study: Study, target: Target) -> tuple[TargetResult, ...]:
    """Return the result of every noise setting of the study, in the study's order."""
    lower, upper = study.maxima(
        study.spec.compositions.index(target.compositions), study.spec.epsilon.index(target.epsilon)
    )
    return tuple(
        TargetResult(cell, float(low), float(high), _verdict(float(low), float(high), target.delta))
        for cell, low, high in zip(study.spec.cells, lower, upper, strict=True)
    )


def _verdict(lower: float, upper: float, delta: float) -> Verdict:
    if math.isnan(lower) or math.isnan(upper):
        return Verdict.MISSING
    if upper <= delta:
        return Verdict.YES
    return Verdict.NO if lower > delta else Verdict.UNDECIDED
