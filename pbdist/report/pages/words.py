"""How a report says what was studied: mechanisms, goals, noise and neighbours in words."""

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pbdist.mechanisms import MECHANISMS, Form, described, parameters_of
from pbdist.mechanisms.columns import is_composite, known_columns
from pbdist.mechanisms.texts import composite_text
from pbdist.query.lookup import is_set
from pbdist.query.settings import neighbours_by_label
from pbdist.report.pages.document import Block, Bullets, Column, Heading, Paragraph, Table, epsilon_text, named
from pbdist.rounding import exact
from pbdist.sizing.goal import Goal
from pbdist.study import StudySpec
from pbdist.study.spec import exponential
from pbdist.types import JsonValue


def goals_of(study: StudySpec) -> tuple[Goal, ...]:
    """Return the targets of a study file, each once."""
    return tuple(dict.fromkeys(Goal(one.compositions, one.epsilon, one.delta) for one in study.targets))


def target_in_words(goal: Goal) -> str:
    """Return a target in one phrase, with its numbers as they are."""
    rounds = "1 round" if goal.compositions == 1 else f"{goal.compositions:,} rounds"
    delta = repr(goal.delta).replace("e-0", "e-")
    return f"(ε {epsilon_text(goal.epsilon)}, δ {delta}) after {rounds}"


def meaning(goals: Sequence[Goal]) -> str:
    """Return what a target promises, and what the verdicts mean, in sentences."""
    powers = " or ".join(dict.fromkeys(f"{exponential(goal.epsilon):.6g}" for goal in goals))
    return (
        f"The target: whatever an observer of all rounds looks for, its probability under one of two neighbouring"
        f" inputs is at most e^ε = {powers} times that under the other one, plus δ. Meets: the proved upper bound on δ"
        " is at most the target's. Refuted: the proved lower bound exceeds it, so that no computation can show the"
        " opposite. Nothing is claimed of noise between the one that meets and the one that is refuted."
    )


#: How a draw becomes a number of noise messages.
READINGS_IN_WORDS: Mapping[str, str] = {
    "clamp-and-ceil": (
        "clamp-and-ceil: a draw below 0 becomes 0, any other is rounded up, as in the specification of Vuvuzela. A"
        " total below the shift reveals the input."
    ),
    "redraw-and-floor": (
        "redraw-and-floor: a draw below 0 is drawn again, any other is rounded down, as in the published code of"
        " Vuvuzela. A total below the shift reveals the input."
    ),
    "shift-inside": (
        "shift-inside: the true count is added before the result is cut at 0. A system that adds noise messages to real"
        " ones cannot do that: do not rely on this reading for one, it promises too much."
    ),
}


def does(kinds: Sequence[str]) -> tuple[str, ...]:
    """Return what mechanisms of some kinds do in a round."""
    return tuple(f"{kind}: {MECHANISMS[kind].does}" for kind in kinds)


def parameter_table(forms: Iterable[Mapping[str, JsonValue]]) -> Iterator[Table]:
    """Yield the parameters that numbers of some canonical forms are of, and what each is, with its unit."""
    found: dict[str, dict[str, str]] = {}
    for kind, name in dict.fromkeys(one for form in forms for one in _given(form)):
        found.setdefault(name, {})[kind] = parameters_of(MECHANISMS[kind])[name].described
    if found:
        rows = tuple((name, described(told)) for name, told in found.items())
        yield Table("Parameters and their units", (Column("parameter"), Column("meaning, unit")), rows)


def _given(form: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """Yield the kinds and the names of the parameters of a canonical form that have a value; no mechanisms."""
    kind = form["mechanism"]
    for name, one in parameters_of(MECHANISMS[kind]).items():
        if one.domain.form is Form.MECHANISM:
            # The sensitivity of a noisy count is its shift.
            yield from _given({**form[name], "sensitivity": None} if one.domain.kinds else form[name])
        elif one.domain.form is Form.MECHANISMS:
            for inner in form[name]:
                yield from _given(inner)
        elif form[name] is not None and one.domain.form not in (Form.NAME, Form.MASSES):
            yield kind, name


def kinds_of(form: Mapping[str, JsonValue]) -> set[str]:
    """Return the kinds of mechanisms in a canonical form."""
    return {form["mechanism"], *(kind for one in _parts(form) for kind in kinds_of(one))}


def readings_of(form: Mapping[str, JsonValue]) -> set[str]:
    """Return the readings of the noisy counts in a canonical form."""
    own = {form["reading"]} if isinstance(form.get("reading"), str) else set()
    return {*own, *(reading for one in _parts(form) for reading in readings_of(one))}


def _parts(form: Mapping[str, JsonValue]) -> Iterator[Mapping[str, JsonValue]]:
    """Yield the mechanisms that one is made of, but for the noise within it."""
    for name, one in parameters_of(MECHANISMS[form["mechanism"]]).items():
        if one.nested and not one.domain.kinds:
            yield from form[name] if one.domain.form is Form.MECHANISMS else [form[name]]


def parameters(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> str:
    """Return the parameters of a canonical form in words, but `hidden` ones of a mechanism that is not a product."""
    kind = form["mechanism"]
    if kind == "WorstOf":
        return f"worst of {len(form['pairs'])}: {_joined([_of_factor(one) for one in form['pairs']], '; or ')}"
    if kind == "Product":
        return _together(form["pairs"])
    if kind == "Reversed":
        return f"reversed: {_of_factor(form['pair'])}"
    if is_composite(MECHANISMS[kind]):
        return composite_text(form)
    return ", ".join(_values(form, hidden))


def _together(pairs: Sequence[Mapping[str, JsonValue]]) -> str:
    """Return the factors of a product, with what all of them share said once."""
    simple = all("noise" in one or "scale" in one for one in pairs) and len({one["mechanism"] for one in pairs}) == 1
    if not simple:
        return f"together: {_joined([_of_factor(one) for one in pairs], '; and ')}"
    values = [_values(one) for one in pairs]
    shared = [text for text in values[0] if all(text in one for one in values)] if len(pairs) > 1 else []
    own = [", ".join(text for text in one if text not in shared) for one in values]
    kind = "noisy counts" if pairs[0]["mechanism"] == "NoisyCount" else f"{pairs[0]['mechanism']} noise"
    with_all = f"; all with {', '.join(shared)}" if shared else ""
    if not any(own):
        return f"together: {len(pairs)} times {kind}{with_all}"
    return f"together: {'' if kind == 'noisy counts' else kind + '; '}{_joined(own, ' and ')}{with_all}"


def _of_factor(form: Mapping[str, JsonValue]) -> str:
    if is_composite(MECHANISMS[form["mechanism"]]):
        return parameters(form)
    return ", ".join(([] if form["mechanism"] == "NoisyCount" else [form["mechanism"]]) + _values(form))


def _joined(parts: list[str], between: str) -> str:
    """Return parts of a whole, equal ones once."""
    counts = Counter(parts)
    told = [
        f"({text})" if times == 1 and len(counts) > 1 else text if times == 1 else f"{times} times {text}"
        for text, times in counts.items()
    ]
    more = [] if len(told) <= 4 else [f"{len(told) - 3} more"]
    return between.join([*told[: 4 if not more else 3], *more])


def _values(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> list[str]:
    found: list[str] = []
    for name, one in parameters_of(MECHANISMS[form["mechanism"]]).items():
        value = form[name]
        if isinstance(value, Mapping):
            found += [] if name in hidden else [f"{value['mechanism']} {name}"]
            found += _values({**value, "sensitivity": None})
        elif name in hidden or value is None:
            continue
        elif one.domain.form is Form.MASSES:
            found.append(f"{name} of {len(value):,} values")
        elif isinstance(value, list):
            between = " to " if one.domain.form is Form.LIMITS else " and "
            found.append(f"{name} {between.join(map(_number, value))}")
        else:
            found.append(f"{name} {_number(value)}")
    return found


def _number(value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return named(str(value))
    if isinstance(value, float):
        return exact(value)
    return str(value) if abs(value) < 10**15 else f"{Decimal(value):.6e}"


#: So many values of a parameter are listed.
_MOST_VALUES = 6


def studied(
    study: StudySpec, columns: Mapping[str, Sequence[Any]], forms: Sequence[Mapping[str, Any]]
) -> Iterator[Block]:
    """Yield what a study computes; `columns` as from `cell_columns`, `forms` the canonical pairs, one a cell."""
    kinds = sorted({kind for form in forms for kind in kinds_of(form)})
    yield Bullets(does(kinds))
    labels: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(columns["mechanism"], columns["kind"], strict=True)):
        labels.setdefault(key, []).append(row)
    neighbours = neighbours_by_label(study)
    rows = [
        (named(label), kind, f"{len(cells):,}", _ranges(columns, cells), neighbours[label].in_words)
        for (label, kind), cells in labels.items()
    ]
    names = (Column("label"), Column("kind"), Column("settings", True), Column("parameters"), Column("neighbours"))
    yield Table(f"Mechanisms of the study: {len(forms):,} noise settings", names, tuple(rows))
    yield from parameter_table(forms)
    r, epsilon = study.compositions, study.epsilon
    yield Paragraph(
        f"Rounds r: {len(r):,} values from {r[0]:,} to {r[-1]:,}. ε: {len(epsilon):,} values from"
        f" {epsilon_text(epsilon[0])} to {epsilon_text(epsilon[-1])} nats. For each noise setting, r and ε there is a"
        f" lower and an upper bound on δ: {len(forms) * len(r) * len(epsilon):,} points."
    )


def assumed(forms: Sequence[Mapping[str, Any]], neighbours: str = "", readings: Sequence[str] = ()) -> Iterator[Block]:
    """Yield what has to be true of a system for the bounds to be about it; `neighbours` is a sentence."""
    yield Heading("What is assumed")
    kinds = sorted({kind for form in forms for kind in kinds_of(form)})
    found = sorted({*readings, *(reading for form in forms for reading in readings_of(form))})
    stated = neighbours or (
        "Neighbours: the inputs that differ by one individual's contribution, as large as the sensitivity or the shift."
    )
    yield Bullets(
        (
            f"{stated} An individual who contributes more is protected less.",
            *(f"{kind}: {MECHANISMS[kind].assumes}" for kind in kinds),
            *(f"Reading {READINGS_IN_WORDS[one]}" for one in found if one in READINGS_IN_WORDS),
            "Worst case: the bounds are about one pair of distributions, of what is seen with one and with the other of"
            " two neighbouring inputs. Upper bounds hold for a system in which no neighbours are told apart more"
            " easily; a system in which this pair never occurs may be better than a refutation says.",
            "Rounds: r counts those in which one individual takes part, all seen by the same observer. Each may be"
            " chosen after the outcomes of the earlier ones.",
            "Nothing else is seen: not the noise, not what a dishonest server knows, no timing.",
        )
    )
    yield Paragraph(
        "Within this the bounds are proved, every rounding of the computation included. pbdist cannot check that it is"
        " true of your system."
    )


def _ranges(columns: Mapping[str, Sequence[Any]], cells: Sequence[int]) -> str:
    told = []
    for name in known_columns():
        if name in ("mechanism", "kind", "made_of") or name not in columns:
            continue
        found = list(dict.fromkeys(columns[name][cell] for cell in cells))
        values = list(filter(is_set, found))
        if values:
            told.append(f"{name.removeprefix('pair_').replace('_', ' ')} {_listed(values)}")
    return "; ".join(told) or "several outputs: see the settings below"


def _listed(values: Sequence[Any]) -> str:
    if isinstance(values[0], str):
        return ", ".join(named(value) for value in values)
    ordered = sorted(values)
    if len(ordered) <= _MOST_VALUES:
        return ", ".join(exact(value) for value in ordered)
    return f"{exact(ordered[0])} to {exact(ordered[-1])} ({len(ordered):,} values)"
