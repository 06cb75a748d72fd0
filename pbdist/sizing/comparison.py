"""`size_families`: the smallest noise of every family that meets a target, side by side, by its cost."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pbdist.arguments import checked_number
from pbdist.errors import InvalidInputError, PrecisionError, shown
from pbdist.mechanisms import MECHANISMS, NoisyCount, Pair, Poisson, checked_adjacency, noise_parameter, parameters_of
from pbdist.progress import reported
from pbdist.quantities import counted
from pbdist.rounding import brief, exact, exponential
from pbdist.sizing.api import checked_part, size
from pbdist.sizing.families import COUNT_NOISES, CountFamily, noise_class
from pbdist.sizing.sized import Answer, SizedNoise, answers_sheet, noise_deviation
from pbdist.sizing.target import checked_target
from pbdist.study import Target
from pbdist.suggestions import did_you_mean
from pbdist.tables import Printed, Sheet

#: A family as `size` takes it.
Family = type[Pair] | CountFamily | Callable[[float], Pair]


@dataclass(frozen=True, repr=False)
class SizedFamilies(Printed):
    """The smallest noise of several families that meets a target, the cheapest first; it prints as the command does.

    Attributes
    ----------
    target : Target
    answers : tuple of Answer
        One for each family: its name (`family`), and its noise (`sized`), or an error with the reason.
        The cost of a family is its messages where every answer has them, or else the standard deviation of its noise;
        families without either come after these, and those without an answer last.
    """

    target: Target
    answers: tuple[Answer, ...]

    @property
    def sized(self) -> dict[str, SizedNoise]:
        """The noise of each family that has an answer, by name, the cheapest first."""
        return {one.family: one.sized for one in self.answers if isinstance(one.sized, SizedNoise)}

    @property
    def reasons(self) -> dict[str, str]:
        """Why the others have none, by name."""
        return {one.family: str(one.sized) for one in self.answers if not isinstance(one.sized, SizedNoise)}

    @property
    def sheet(self) -> Sheet:
        """The printed table: the families with an answer as rows, and below them those without, with the reason."""
        caption = (
            f"The smallest noise of each family for δ <= {exact(self.target.delta)} at e^ε ="
            f" {brief(exponential(self.target.epsilon))} (ε = {brief(self.target.epsilon)}) after"
            f" {counted(self.target.compositions, 'composition')}"
        )
        found = [one for one in self.answers if isinstance(one.sized, SizedNoise)]
        sheet = answers_sheet(caption, found, compared=True)
        names: dict[str, list[str]] = {}
        for name, reason in self.reasons.items():
            names.setdefault(reason, []).append(name)
        without = [f"{'; '.join(names[reason])}: {reason}" for reason in sorted(names)]
        notes = (*sheet.notes, *(("Without an answer:", *without) if without else ()))
        return replace(sheet, notes=notes, data=answers_sheet("", self.answers, compared=True, exactly=True))


def size_families(
    families: str | Iterable[str] | Mapping[str, Family] = "all",
    *,
    compositions: int,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float,
    tolerance: float = 0.01,
    message_bytes: float | None = None,
    adjacency: str | None = None,
    **parameters: Any,
) -> SizedFamilies:
    """Return the smallest noise of several families that provably meets a target, the cheapest first.

    Parameters
    ----------
    families : str, iterable of str, or mapping, optional
        Names of mechanism classes, such as ``"Gaussian, Laplace"``; ``"all"`` are all that can be sized. `NoisyCount`
        stands for one family for each noise that a count can have: as ``noise`` says, or all of them. A mapping from
        names to what `size` takes as a family compares these.
    compositions, epsilon, exp_epsilon, delta, tolerance, adjacency
        The target, and the others as of `size`.
    message_bytes : float, optional
        The size of a message in bytes: the cost of a family in a round is then given in bytes too.
    **parameters
        Parameters of the mechanisms, such as ``sensitivity``, ``rate`` or ``shift``. A family that does not take one of
        them, or needs another one, does not apply: it is listed with that reason.

    Returns
    -------
    SizedFamilies
        Every family with its noise and certificate, or with the reason why it has none.

    Raises
    ------
    InvalidInputError
        If the target is wrong, a family is not known, or no family takes a parameter.

    Warns
    -----
    PrecisionWarning
        As of `size`, for each family.

    Examples
    --------
    >>> import pbdist
    >>> found = pbdist.size_families("Gaussian, Laplace", compositions=100, epsilon=1.0, delta=1e-6)
    >>> list(found.sized)
    ['Gaussian', 'Laplace']
    """
    target = checked_target(compositions, epsilon, exp_epsilon, delta)
    settings = {"tolerance": checked_part(tolerance), "adjacency": checked_adjacency(adjacency).value}
    if message_bytes is not None:
        checked_number("message_bytes", message_bytes, "a finite number above 0", lambda size: 0.0 < size < math.inf)
    chosen = list(_chosen(families, parameters))
    for name in parameters:
        if not any(name in _taken(family) for _, family, _ in chosen):
            raise InvalidInputError(f"{name}: is no parameter of any of the families")
    problems = {name: _not_applying(family, {**extra, **parameters}) for name, family, extra in chosen}
    if all(problems.values()):
        first = " ".join(next(iter(problems.items())))
        both = {"shift", "sensitivity"} <= parameters.keys()
        remedy = ": leave out shift, which noisy counts take, or sensitivity, which others do" if both else ""
        raise InvalidInputError(f"family: expected one to which all parameters apply, got none: {first}{remedy}")
    answers = []
    for name, family, extra in reported("family", chosen):
        if problems[name]:
            found = Answer(target, InvalidInputError(problems[name]), name)
        else:
            found = answer_of(name, family, target, **settings, **{**parameters, **extra})
        answers.append(replace(found, message_bytes=message_bytes))
    sizes = [one.sized for one in answers if isinstance(one.sized, SizedNoise)]
    cost = partial(_cost, by_messages=all(sized.expected_messages is not None for sized in sizes))
    return SizedFamilies(target, tuple(sorted(answers, key=cost)))


def answer_of(name: str, family: Family, target: Target, **settings: Any) -> Answer:
    """Return the noise of a family of that name for a target, or an error with the reason; settings as of `size`."""
    point = {name: getattr(target, name) for name in ("compositions", "epsilon", "delta")}
    try:
        return Answer(target, size(family, **point, **settings), name)
    except (InvalidInputError, PrecisionError) as error:
        return Answer(target, error, name)


def sized_kinds() -> dict[str, type[Pair]]:
    """Return the kinds of mechanisms whose noise can be sized, by name."""
    return {name: kind for name, kind in MECHANISMS.items() if kind.in_studies and noise_parameter(kind)}


def family_names() -> list[str]:
    """Return the names that ``pbdist size --family`` takes."""
    return [*sized_kinds(), *_counts(), "all"]


def _counts(noise: Any = None) -> dict[str, type[Any]]:
    """Return the noise of the families of noisy counts, by their names; with a noise given, that one alone."""
    noises = (*COUNT_NOISES, Poisson) if noise is None else (noise_class(noise, Poisson),)
    return {f"NoisyCount({one.__name__})": one for one in noises}


def _cost(answer: Answer, *, by_messages: bool) -> tuple[float, float]:
    """Return the sort key of an answer: whether there is noise of a known cost, and that cost."""
    if not isinstance(answer.sized, SizedNoise):
        return 2.0, 0.0
    known = answer.sized.expected_messages if by_messages else noise_deviation(answer.sized.mechanism)
    return (1.0, 0.0) if known is None else (0.0, known)


def _chosen(
    families: str | Iterable[str] | Mapping[str, Family], parameters: Mapping[str, Any]
) -> Iterator[tuple[str, Family, dict[str, Any]]]:
    """Yield the families by name, with the parameters that make them: of noisy counts the noise."""
    if isinstance(families, Mapping):
        yield from ((name, family, {}) for name, family in families.items())
        return
    kinds, counts = sized_kinds(), _counts(parameters.get("noise"))
    known = [*kinds, *counts]
    names = [one.strip() for one in families.split(",")] if isinstance(families, str) else list(families)
    names = [*kinds] if names == ["all"] else names
    names = [one for name in names for one in (counts if name == "NoisyCount" else [name])]
    for index, name in enumerate(names):
        if name not in known:
            near = ": leave out noise, which it names" if name in _counts() else did_you_mean(name, known)
            expected = f"all by itself, or some of {', '.join(known)}"
            raise InvalidInputError(f"family: expected {expected}, got {shown(name)}{near}")
        if name in names[:index]:
            raise InvalidInputError(f"family: expected each family once, got {name} again")
        yield (name, NoisyCount, {"noise": counts[name]}) if name in counts else (name, kinds[name], {})


def _taken(family: Family) -> dict[str, Any]:
    """Return the parameters that a family takes beside the sized one; other families than classes take none."""
    if not isinstance(family, type):
        return {}
    return {name: one for name, one in parameters_of(family).items() if name == "noise" or not one.sized}


def _not_applying(family: Family, parameters: Mapping[str, Any]) -> str:
    """Return the reason why a family does not apply to these parameters; empty if it does."""
    taken = _taken(family)
    for name in parameters:
        if name not in taken:
            return f"takes no {name}"
    missing = sorted(name for name, one in taken.items() if one.required and name not in {*parameters, "mean"})
    return f"needs {' and '.join(missing)}" if missing else ""
