"""Goals of a report: from arguments or a study file, and in words."""

from collections.abc import Iterable

from pbdist.report.pages.numerals import epsilon_text
from pbdist.sizing.goal import Goal
from pbdist.study import StudySpec
from pbdist.study.spec import exponential


def goals_of(study: StudySpec) -> tuple[Goal, ...]:
    """Return the targets of a study file, each once."""
    return tuple(dict.fromkeys(Goal(one.compositions, one.epsilon, one.delta) for one in study.targets))


def goal_in_words(goal: Goal) -> str:
    """Return a goal in one phrase, with its numbers as they are."""
    rounds = "1 round" if goal.compositions == 1 else f"{goal.compositions:,} rounds"
    power = exponential(goal.epsilon)
    return f"δ ≤ {goal.delta!r} at ε = {epsilon_text(goal.epsilon)} (e^ε = {power:.6g}) after {rounds}"


def meaning(goals: Iterable[Goal]) -> str:
    """Return what a goal promises, in a sentence."""
    told = "; ".join(goal_in_words(goal) for goal in goals)
    return (
        f"Goal: {told}. That is: whatever an observer of all rounds looks for, its probability under one of two"
        " neighbouring inputs is at most e^ε times that under the other one, plus δ."
    )
