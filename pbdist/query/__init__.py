"""Look up what a store holds. Never computes, never writes."""

from pbdist.query.lookup import Bounds
from pbdist.query.precision import Precision, WidestBracket, reached_precision
from pbdist.query.study import Study, open_study
from pbdist.query.targets import TargetResult, Verdict, judge_target

__all__ = [
    "Bounds",
    "Precision",
    "Study",
    "TargetResult",
    "Verdict",
    "WidestBracket",
    "judge_target",
    "open_study",
    "reached_precision",
]
