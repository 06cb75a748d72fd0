"""How a report says what was studied: mechanisms, targets, noise and neighbours in words."""

from collections.abc import Container, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pbdist.mechanisms import MECHANISMS, Form, described, parameters_of
from pbdist.mechanisms.columns import composite_text, is_composite
from pbdist.quantities import counted
from pbdist.report.pages.document import Block, Bullets, Heading, Paragraph, epsilon_text, text_table
from pbdist.rounding import brief, exact, exponential
from pbdist.study import Target
from pbdist.types import JsonValue


def target_in_words(target: Target) -> str:
    """Return a target in one phrase, with its numbers as they are."""
    point = f"(ε {epsilon_text(target.epsilon)}, δ {exact(target.delta)})"
    return f"{point} after {counted(target.compositions, 'round')}"


def meaning(targets: Sequence[Target]) -> str:
    """Return what a target promises, and what the verdicts mean, in sentences."""
    powers = " or ".join(dict.fromkeys(brief(exponential(target.epsilon)) for target in targets))
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


def _found(form: JsonValue, key: str, skipped: Container[str] = ()) -> set[str]:
    """Return the texts of a key in a canonical form, at any depth but in the values of keys that are skipped."""
    if isinstance(form, list):
        return {text for one in form for text in _found(one, key, skipped)}
    if not isinstance(form, Mapping):
        return set()
    own = {form[key]} if isinstance(form.get(key), str) else set()
    return own | {text for name, one in form.items() if name not in skipped for text in _found(one, key, skipped)}


def parameters(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> str:
    """Return the parameters of a canonical form in words, but `hidden` ones; those of composites are shortened."""
    if is_composite(MECHANISMS[form["mechanism"]]):
        return composite_text(form)
    return ", ".join(_values(form, hidden))


def _values(form: Mapping[str, JsonValue], hidden: Container[str] = ()) -> Iterator[str]:
    for name, one in parameters_of(MECHANISMS[form["mechanism"]]).items():
        value = form[name]
        if isinstance(value, Mapping):
            yield from [] if name in hidden else [f"{value['mechanism']} {name}"]
            yield from _values({**value, "sensitivity": None})
        elif name in hidden or value is None:
            continue
        elif one.domain.form is Form.MASSES:
            yield f"{name} of {len(value):,} values"
        elif isinstance(value, list):
            between = " to " if one.domain.form is Form.LIMITS else " and "
            yield f"{name} {between.join(map(_number, value))}"
        else:
            yield f"{name} {_number(value)}"


def _number(value: JsonValue) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, float):
        return exact(value)
    return str(value) if abs(value) < 10**15 else f"{Decimal(value):.6e}"


def explained(forms: Sequence[Mapping[str, JsonValue]]) -> Iterator[Block]:
    """Yield what mechanisms of some canonical forms do in a round, and what their parameters are, with units."""
    yield Bullets(tuple(f"{kind}: {MECHANISMS[kind].does}" for kind in _kinds(forms)))
    found: dict[str, dict[str, str]] = {}
    for kind in sorted(_found(list(forms), "mechanism")):
        for name, one in parameters_of(MECHANISMS[kind]).items():
            found.setdefault(name, {})[kind] = one.described
    if found:
        rows = ((name, described(of_kinds)) for name, of_kinds in found.items())
        yield text_table("Parameters and their units", ("parameter", "meaning, unit"), rows)


def _kinds(forms: Sequence[Mapping[str, JsonValue]]) -> list[str]:
    """Return the kinds of mechanisms in canonical forms, without those of the noise within counts."""
    return sorted(_found(list(forms), "mechanism", ("noise",)))


def assumed(forms: Sequence[Mapping[str, Any]], neighbours: str = "", readings: Sequence[str] = ()) -> Iterator[Block]:
    """Yield what has to be true of a system for the bounds to be about it; `neighbours` is a sentence."""
    yield Heading("What is assumed")
    found = sorted({*readings, *_found(list(forms), "reading")})
    stated = neighbours or (
        "Neighbours: the inputs that differ by one individual's contribution, as large as the sensitivity or the shift."
    )
    yield Bullets(
        (
            f"{stated} An individual who contributes more is protected less.",
            *(f"{kind}: {MECHANISMS[kind].assumes}" for kind in _kinds(forms)),
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


def software(found: Mapping[str, JsonValue]) -> str:
    """Return the versions of `provenance` in a line."""
    names = ("pbdist", "python", "numpy", "scipy", "zarr")
    versions = [f"{name} {found[name]}" for name in names if found.get(name)]
    return ", ".join([*versions, f"git revision of pbdist {found.get('git_revision') or 'not known'}"])
