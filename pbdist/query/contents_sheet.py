"""What a store holds as a sheet, and the parameters of a mechanism in words."""

from collections.abc import Iterator, Sequence

from pbdist.query.contents import MechanismContents, StudyContents
from pbdist.query.sheet import Column, Sheet, Shown, Value, text_of
from pbdist.study.spec import exponential

#: Of longer lists of values print has the ends and the number.
_MOST_LISTED = 8


def contents_sheet(contents: StudyContents) -> Sheet:
    """Return what a store holds as a sheet: rows of the study first, which have no mechanism; in CSV all values."""
    columns = (
        Column("mechanism", "mechanism", number=False),
        Column("what", "what", number=False),
        Column("number", "number"),
        Column("values", "values", number=False),
    )
    rows = [("", *row) for row in _of_study(contents)]
    for one in contents.mechanisms:
        rows += [(one.label, *row) for row in _of_mechanism(one)]
    state = "complete" if contents.complete else "NOT complete"
    notes = [] if contents.complete else [f"{_progress(contents)}: pbdist status says which and why"]
    return Sheet(columns, tuple(rows), (f"{contents.name}, {state}, at {contents.store}",), tuple(notes))


def parameters_in_words(contents: StudyContents, label: str) -> str:
    """Return the parameters of a label's settings, and which values they have, on one line."""
    told = dict.fromkeys(
        f"{name} {_listed(values, name)}"
        for one in contents.mechanisms
        if one.label == label
        for name, values in one.parameters.items()
    )
    return "; ".join(told) or "no parameters"


def _of_study(contents: StudyContents) -> Iterator[tuple[str, int | None, Shown]]:
    study = contents.study
    powers = [exponential(value) for value in study.epsilon]
    facts: dict[str, Value] = {
        "study": contents.name,
        "complete": contents.complete,
        "method": study.method,
        "tolerance": study.tolerance,
        "buckets": study.buckets,
        "floor": study.floor if study.sought is not None else None,
        "direction": study.direction if study.sought is not None else None,
        "keep_states": study.keep_states,
    }
    for name, fact in facts.items():
        if fact is not None:
            yield name, None, Shown(text_of(fact), _plain(fact))
    yield "compositions", len(study.compositions), _values(study.compositions, "compositions")
    yield "epsilon", len(study.epsilon), _values(study.epsilon, "epsilon")
    yield "exp_epsilon", len(powers), _values(powers, "exp_epsilon")
    yield "settings", contents.settings, Shown(_progress(contents), _progress(contents))
    yield "parts", contents.parts, Shown("", None)
    yield "refined_points", contents.refined_points, _values(contents.refined_settings, "refined")


def _of_mechanism(one: MechanismContents) -> Iterator[tuple[str, int | None, Shown]]:
    yield "kind", None, Shown(one.kind, one.kind)
    yield "neighbours", None, Shown(one.adjacency.in_words, one.adjacency.value)
    yield "settings", one.settings, Shown(_progress(one), _progress(one))
    for name, values in one.parameters.items():
        yield name, len(values), _values(values, name)


def _progress(one: StudyContents | MechanismContents) -> str:
    computed = one.settings - one.missing - one.failed
    if computed == one.settings:
        return "all computed"
    return f"{computed:,} of {one.settings:,} computed, {one.missing:,} missing, {one.failed:,} failed"


def _values(values: Sequence[float | str | None], name: str) -> Shown:
    return Shown(_listed(values, name), "; ".join(_plain(_named(value, name)) for value in values))


def _plain(value: Value) -> str:
    return value if isinstance(value, str) else repr(value).lower()


def _listed(values: Sequence[float | str | None], name: str) -> str:
    """Return values as text: all of them, or the ends of many numbers."""
    told = [text_of(_named(value, name)) for value in values]
    if len(told) <= _MOST_LISTED:
        return ", ".join(told)
    if isinstance(values[-1], str):
        return f"{', '.join(told[:_MOST_LISTED])}, .."
    start = [told[0]] if values[0] is None else []
    first = told[1] if start else told[0]
    return ", ".join([*start, f"{first} to {told[-1]}"])


def _named(value: float | str | None, name: str) -> float | str:
    """Return a value, or the word for none."""
    return ("auto" if name == "factor" else "none") if value is None else value
