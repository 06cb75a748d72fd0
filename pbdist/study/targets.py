"""The targets of a study: where they do not lie on its grids, the grids gain their r and ε."""

import math
from collections.abc import Sequence
from dataclasses import replace

from pydantic import ValidationError

from pbdist.arguments import problem_of_either
from pbdist.study.document import Document, Keys, shown
from pbdist.study.grids import nearest_exponential, nearest_match
from pbdist.study.hints import TARGET
from pbdist.study.models import TargetModel
from pbdist.study.refusals import refuse, refuse_invalid, value_at
from pbdist.study.spec import StudySpec, Target


def checked_target(document: Document, keys: Keys) -> TargetModel:
    """Return the target at some keys.

    Raises
    ------
    StudyFileError
        A key is unknown, missing or has a wrong value, or not exactly one of ε and e^ε is given.
    """
    value = value_at(document, keys)
    if not isinstance(value, dict):
        names = ", ".join(TargetModel.model_fields)
        refuse(document, keys, f"expected a mapping with {names}, got {shown(value)}")
    try:
        target = TargetModel.model_validate(value)
    except ValidationError as error:
        refuse_invalid(document, error, TargetModel, keys=keys, owner=TARGET)
    problem = problem_of_either(epsilon=target.epsilon, exp_epsilon=target.exp_epsilon)
    if problem is not None:
        refuse(document, keys, problem)
    return target


def with_targets(study: StudySpec, targets: Sequence[TargetModel]) -> StudySpec:
    """Return a study with targets; its grids are extended by the r and ε of targets that they lack."""
    found: list[Target] = []
    rounds, losses = list(study.compositions), list(study.epsilon)
    for target in targets:
        if target.compositions not in rounds:
            rounds.append(target.compositions)
        index = _index_of_epsilon(losses, target)
        if index is None:
            index = len(losses)
            losses.append(math.log(target.exp_epsilon or 1.0) if target.epsilon is None else target.epsilon)
        found.append(Target(losses[index], target.delta, target.compositions))
    return replace(
        study,
        compositions=tuple(sorted(rounds)),
        epsilon=tuple(sorted(losses)),
        targets=tuple(found),
        target_compositions=tuple(sorted(rounds[len(study.compositions) :])),
        target_epsilon=tuple(sorted(losses[len(study.epsilon) :])),
    )


def _index_of_epsilon(losses: Sequence[float], target: TargetModel) -> int | None:
    """Return which of some ε that of a target is, but for rounding; None where it is none of them."""
    if target.epsilon is None:
        return nearest_exponential(losses, target.exp_epsilon or 1.0)
    return nearest_match(losses, target.epsilon)
