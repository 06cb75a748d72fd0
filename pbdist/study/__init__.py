"""Study files: a YAML file in, a validated study and a plan out. Nothing here computes or stores."""

from pbdist.study.load import load_study
from pbdist.study.plan import Batch, Plan, plan_study
from pbdist.study.spec import Cell, StudySpec, Target

__all__ = ["Batch", "Cell", "Plan", "StudySpec", "Target", "load_study", "plan_study"]
