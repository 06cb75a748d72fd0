"""Expand an entry of a study's list of mechanisms into pairs, and check its keys and values."""

import itertools
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import Form, Pair, Parameter
from pbdist.study.acceptance import accepted_grid
from pbdist.study.alternatives import NESTED, Entry, choices, other_choices
from pbdist.study.document import Document, Keys, Problems, shown
from pbdist.study.entry_kinds import elementary_kinds, model_of, study_kinds
from pbdist.study.hints import other_kinds
from pbdist.study.pair_grid import PairGrid
from pbdist.study.parameters import Choices
from pbdist.study.refusals import refuse, refuse_invalid, value_at
from pbdist.suggestions import did_you_mean, likely
from pbdist.types import JsonValue

#: Larger studies are refused.
MOST_SETTINGS = 20_000_000
#: So many pairs are made at once: those that mechanisms are made of.
MOST_MADE = 2_000_000
#: After so many wrong noise settings of an entry the others are not tried.
_MOST_WRONG = 100

_CONSTRUCTOR_PROBLEM = re.compile(r"(?P<owner>\w+)\.(?P<field>\w+)(\[(?P<index>\d+)\])?: (?P<problem>.*)", re.DOTALL)


def expand_entry(document: Document, keys: Keys, kinds: tuple[str, ...] | None = None) -> list[tuple[Pair, Keys]]:
    """Return the pairs of the entry at `keys`, each with the keys for later errors, as `grids_of_entry` has them.

    Raises
    ------
    StudyFileError
        As `grids_of_entry`; or there are too many pairs to make them all.
    """
    grids = grids_of_entry(document, keys, study_kinds() if kinds is None else kinds)
    count = sum(map(len, grids))
    if count > MOST_MADE:
        refuse(document, keys, f"expected at most {MOST_MADE} noise settings, got {count}")
    return [(pair, keys) for grid in grids for pair in grid]


def grids_of_entry(document: Document, keys: Keys, kinds: tuple[str, ...], own: tuple[str, ...] = ()) -> list[PairGrid]:
    """Return the pairs of the entry at `keys`, those of each of its settings as a grid.

    `kinds` are the allowed kinds; `own` are keys of the entry that are not parameters of the mechanism.

    Raises
    ------
    StudyFileError
        A key is unknown, missing or has a wrong value, or a mechanism refuses its parameters.
    """
    entry = value_at(document, keys)
    if not isinstance(entry, dict):
        refuse(document, keys, f"expected a mapping with a kind, got {shown(entry)}")
    kind = entry.get("kind")
    if kind not in kinds:
        refuse(document, *_no_kind(keys, entry, kinds))
    also = (*own, "settings")
    shared: dict[str, Keys] = {key: (*keys, key) for key in entry if key not in also}
    problems = Problems()
    found: list[PairGrid] = []
    for setting in settings_of(document, keys, entry, shared):
        with problems.collected():
            found.append(_expand(document, keys, kind, {**shared, **setting}, also))
    problems.refuse()
    return found


def _no_kind(keys: Keys, entry: dict[str, JsonValue], kinds: tuple[str, ...]) -> tuple[Keys, str]:
    """Return where and why an entry has no kind that is known."""
    kind = entry.get("kind")
    expected = f"expected a kind among {', '.join(kinds)}, got {shown(kind)}"
    if "kind" in entry:
        return (*keys, "kind"), f"{expected}{did_you_mean(kind, kinds, other_kinds())}"
    # The key may be misspelt.
    misspelt = next((key for key in entry if likely(key, ("kind",)) or entry[key] in kinds), None)
    if misspelt is None:
        return keys, expected
    return (*keys, misspelt), f"{expected}: did you mean the key kind?"


def settings_of(
    document: Document, keys: Keys, entry: dict[str, JsonValue], shared: Mapping[str, Keys]
) -> list[dict[str, Keys]]:
    """Return for each of the entry's ``settings`` the keys of the parameters in it."""
    if "settings" not in entry:
        return [{}]
    listed, at = entry["settings"], (*keys, "settings")
    if not isinstance(listed, list) or not listed:
        refuse(document, at, f"expected a list of mappings of parameters, got {shown(listed)}")
    result: list[dict[str, Keys]] = []
    problems = Problems()
    for index, setting in enumerate(listed):
        here = (*at, index)
        with problems.collected():
            if not isinstance(setting, dict) or not setting:
                refuse(document, here, f"expected a mapping of parameters, got {shown(setting)}")
            for key in setting:
                if key in shared:
                    refuse(document, (*here, key), "expected each parameter once, got it beside the settings too")
            result.append({key: (*here, key) for key in setting})
    problems.refuse()
    return result


def _expand(
    document: Document, keys: Keys, kind: str, key_paths: Mapping[str, Keys], also: tuple[str, ...]
) -> PairGrid:
    """Return the product of the grids of one setting, the first field of the model varying slowest."""
    model = model_of(kind, key_paths)
    values = {key: value_at(document, at) for key, at in key_paths.items()}
    problems = Problems()
    alternatives: dict[str, Choices] = {}
    sound = True
    with problems.collected():
        try:
            alternatives |= choices(document, model, values, key_paths)
        except ValidationError as error:
            others = other_choices(document, model, values, key_paths, error)
            sound = others is not None
            alternatives |= others or {}
            refuse_invalid(document, error, model, keys=keys, paths=key_paths, owner=kind, also=also)
    for field, one in model.nested().items():
        # Also where other parameters are wrong, so that all that is wrong is told.
        if isinstance(values.get(field), NESTED[one.domain.form]):
            with problems.collected():
                alternatives.update(_nested(document, key_paths[field], one))
    given = {name.partition("[")[0] for name in alternatives}
    if not sound or (problems.found and given != {*values} - {"kind"}):
        problems.refuse()
    count = math.prod(map(len, alternatives.values()))
    if count > MOST_SETTINGS:
        problems.refuse()
        refuse(document, keys, f"expected at most {MOST_SETTINGS} noise settings, got {count}")
    fields = list(model.model_fields)
    in_order = dict(sorted(alternatives.items(), key=lambda item: fields.index(item[0].partition("[")[0])))
    found = PairGrid.listed([])
    with problems.collected():
        # Also where some values are wrong: the mechanism may refuse others.
        found = _accepted(document.known_wrong() if problems.found else document, keys, model, kind, in_order)
    problems.refuse()
    return found


def _nested(document: Document, keys: Keys, one: Parameter) -> dict[str, Choices]:
    """Return the alternatives of a parameter that is made of entries; those of each one of a list by themselves."""
    if one.domain.form is Form.MECHANISM:
        return {one.name: tuple(expand_entry(document, keys, one.domain.kinds or elementary_kinds()))}
    listed = value_at(document, keys)
    if not listed:
        refuse(document, keys, "expected at least one mechanism, got []")
    problems = Problems()
    factors: dict[str, Choices] = {}
    for index in range(len(listed)):
        with problems.collected():
            pairs = expand_entry(document, (*keys, index), one.domain.kinds or study_kinds())
            factors[f"{one.name}[{index}]"] = tuple((pair, keys) for pair, _ in pairs)
    problems.refuse()
    return factors


def _accepted(
    document: Document, keys: Keys, model: type[Entry], kind: str, alternatives: Mapping[str, Choices]
) -> PairGrid:
    """Return the pairs of all combinations, which the constructor accepts."""
    fields = tuple(alternatives)
    refused: InvalidInputError | None = None
    if document.most_tried is None:
        grids = {field: [value for value, _ in choices] for field, choices in alternatives.items()}
        try:
            return accepted_grid(kind, grids, lambda values: _made(model, fields, values))
        except InvalidInputError as error:
            # All are tried, to tell which ones are wrong.
            refused = error
    problems, wrong = Problems(), 0
    found: list[Pair] = []
    for choice in itertools.islice(itertools.product(*alternatives.values()), document.most_tried):
        try:
            pair = _construct(document, keys, model, fields, choice)
            if refused is None:
                found.append(pair)
        except StudyFileError as error:
            problems.found += error.problems
            wrong += 1
            if wrong == _MOST_WRONG:
                break
    problems.refuse()
    if refused is not None:
        refuse(document, keys, str(refused))
    return PairGrid.listed(found)


def _made(model: type[Entry], fields: Sequence[str], values: Iterable[Any]) -> Pair:
    """Return the pair of one value of each parameter."""
    arguments = dict(zip(fields, values, strict=True))
    # Constructors take a list of mechanisms one by one.
    listed = [arguments.pop(field) for field in fields if field.endswith("]")]
    return model.construct_pair(*listed, **arguments)


def _construct(document: Document, keys: Keys, model: type[Entry], fields: tuple[str, ...], choice: Choices) -> Pair:
    try:
        return _made(model, fields, (value for value, _ in choice))
    except StudyFileError:
        raise
    except InvalidInputError as error:
        chosen = dict(zip(fields, choice, strict=True))
        told = _CONSTRUCTOR_PROBLEM.fullmatch(str(error))
        if told and told["field"] in chosen:
            at = chosen[told["field"]][1]
            refuse(document, at if told["index"] is None else (*at, int(told["index"])), told["problem"])
        refuse(document, keys, str(error))
