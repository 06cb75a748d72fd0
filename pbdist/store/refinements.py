"""Store and read refinements: points that queries add to a store, each a document beside the parts of the study.

A refinement is one file, written in one step and sealed with a SHA-256. It contains its number and the digest of the
store's first study, so that none is taken for another. The study is complete without them.
"""

import json
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from pbdist.errors import InvalidInputError, LostResultsWarning, PbdistError, printable
from pbdist.mechanisms import Pair, pair_from_canonical
from pbdist.store.documents import (
    ATTRIBUTES_SEAL,
    group_document,
    is_refinement_form,
    provenance,
    read_attributes,
    read_or_none,
    seal,
    unsealed,
)
from pbdist.store.files import MOST_DOCUMENT
from pbdist.store.layout import BOUNDS, REFINEMENTS, WITHIN
from pbdist.store.lock import Held
from pbdist.store.open import StoredStudy
from pbdist.study import Cell
from pbdist.types import BoolArray, Direction, FloatArray, JsonValue

_LIST_FILE = f"{REFINEMENTS}/zarr.json"
_FILE = re.compile(rf"{REFINEMENTS}/([0-9]{{6,9}})/zarr\.json")
#: The attribute that holds a refinement.
_KEY = "refinement"
#: How many documents are read at the same time: an object store takes milliseconds for each.
_READERS = 16
#: So many refinements may be missing, beside as many as are there, before the list is not believed.
_MOST_MISSING = 10_000
#: The most bytes of the list.
_MOST_LIST = 1 << 16
#: The most bytes in a document of a float as hexadecimal text, of a truth value, and of keys and brackets.
_FLOAT_BYTES, _BOOL_BYTES, _OTHER_BYTES = len('"-0x1.fffffffffffffp-1022", '), len("false, "), 4096


@dataclass(frozen=True, eq=False)
class Refinement:
    """Bounds of one setting at each of some r and each of some ε."""

    #: The setting, with the label that the query gave it, if any.
    cell: Cell
    #: Increasing; ε in nats.
    compositions: tuple[int, ...]
    epsilon: tuple[float, ...]
    #: The arrays of `BOUNDS`, shape (4, 2, compositions, epsilon); no NaN.
    values: FloatArray
    #: Width of a bucket of the leaf, nats.
    loss_width: float
    #: Its number in the store; 0 where it is not in a store.
    number: int = 0
    #: Where the tolerance is met; None where that is not known.
    within: BoolArray | None = None

    @property
    def pair(self) -> Pair:
        """The pair."""
        return self.cell.pair


def read_refinements(stored: StoredStudy, after: int = 0) -> tuple[Refinement, ...]:
    """Return the undamaged refinements of a store, by its first part: those with numbers above `after`."""
    contents = (_content(stored, number, data) for number, data in _documents(stored, after))
    found = (_refinement(content) for content in contents if content is not None)
    return tuple(one for one in found if one is not None)


def add_refinement(stored: StoredStudy, refinement: Refinement, held: Held) -> None:
    """Add a refinement to a store, by its first part; for the process that holds the store.

    It is stored as a whole or not at all. No other file of the store is changed but, afterwards, the number of
    refinements. An `InvalidInputError` where another process has taken the store over meanwhile.
    """
    if refinement.values.shape[2:] != (len(refinement.compositions), len(refinement.epsilon)):
        raise InvalidInputError(f"refinement: expected values at each point, got shape {refinement.values.shape}")
    if not held.confirmed():
        raise InvalidInputError(f"{stored.where}: expected to be the one who writes to it, got another at work")
    if _listed(stored) is None:
        # First, so that readers of zarr never find a folder that is no group.
        _write_list(stored, 0)
    number = _last(stored) + 1
    # An existing file, whoever wrote it, is not replaced.
    while not stored.place.create(_file(number), _document(stored, number, refinement)):
        number += 1
    _write_list(stored, number)


def check_refinement_size(
    stored: StoredStudy, cell: Cell, compositions: Sequence[int], epsilon: Sequence[float]
) -> None:
    """Refuse a refinement whose document might be too large to be read again, before its points are computed.

    Raises `InvalidInputError`; a document that this lets through is never larger.
    """
    points = len(compositions) * len(epsilon)
    form = len(json.dumps(cell.canonical())) + len(_document(stored, 0, None))
    grids = sum(len(str(r)) + 2 for r in compositions) + _FLOAT_BYTES * len(epsilon)
    values = len(Direction) * points * (len(BOUNDS) * _FLOAT_BYTES + _BOOL_BYTES)
    size = form + grids + values + _OTHER_BYTES
    if size > MOST_DOCUMENT:
        fewer = max(1, points * (MOST_DOCUMENT - form) // max(1, size - form))
        text = f"expected points whose bounds take at most {MOST_DOCUMENT:,} bytes in the store, got {points:,} points"
        raise InvalidInputError(
            f"{stored.where}: {text} of one setting, which may take {size:,}: ask for at most {fewer:,} at a time"
        )


def damaged_refinements(stored: StoredStudy) -> tuple[set[str], dict[str, str]]:
    """Return the files that refinements have or should have, and what is wrong with each damaged one."""
    damaged, known = {}, set()
    for number, data in _documents(stored):
        known.add(_file(number))
        if _content(stored, number, data) is None:
            damaged[_file(number)] = "missing" if data is None else "other content"
    if known or read_or_none(stored.place, _LIST_FILE) is not None:
        known.add(_LIST_FILE)
        if _listed(stored) is None:
            damaged[_LIST_FILE] = "missing or other content"
    return known, damaged


def restore_refinements(stored: StoredStudy) -> None:
    """Write an empty refinement for each that is damaged or missing, with a warning; for the one driver of a store."""
    last = 0
    for number, data in _documents(stored):
        last = number
        if _content(stored, number, data) is None:
            stored.place.write(_file(number), _document(stored, number, None))
            text = f"{stored.where}/{_file(number)}: points that a query had added cannot be read any more: they are"
            text = f"{text} computed again when they are asked for"
            warnings.warn(printable(text), LostResultsWarning, stacklevel=2)
    listed = _listed(stored)
    there = read_or_none(stored.place, _LIST_FILE) is not None
    if (last or there) and listed != last:
        _write_list(stored, last)


def _documents(stored: StoredStudy, after: int = 0) -> Iterator[tuple[int, bytes | None]]:
    """Yield the number and the document of every refinement, None for one that is missing; few at a time in memory."""
    numbers = range(after + 1, _last(stored) + 1)
    if len(numbers) < _READERS:
        yield from ((number, read_or_none(stored.place, _file(number))) for number in numbers)
        return
    with ThreadPoolExecutor(_READERS) as readers:
        for start in range(0, len(numbers), _READERS):
            some = numbers[start : start + _READERS]
            yield from zip(
                some, readers.map(lambda number: read_or_none(stored.place, _file(number)), some), strict=True
            )


def _last(stored: StoredStudy) -> int:
    """Return how many refinements there are, or should be."""
    found = _numbers(stored)
    listed = _listed(stored, found)
    last = listed or 0
    if listed is None:
        # Only numbers that a document itself confirms: anybody may have put a file of any number there.
        near = (n for n in found if n <= _most(found))
        own = (n for n in near if _content(stored, n, read_or_none(stored.place, _file(n))) is not None)
        last = max(own, default=0)
    # A process that ended early has added a document, and not its number to the list.
    while last + 1 in found:
        last += 1
    return last


def _numbers(stored: StoredStudy) -> set[int]:
    """Return the numbers of the files that are there."""
    matches = (_FILE.fullmatch(name) for name, _ in stored.place.names(REFINEMENTS))
    return {int(match.group(1)) for match in matches if match}


def _most(found: set[int]) -> int:
    """Return the largest number that is believed, by those that are there: each up to it is looked for."""
    return 2 * len(found) + _MOST_MISSING


def _file(number: int) -> str:
    return f"{REFINEMENTS}/{number:06d}/zarr.json"


def _listed(stored: StoredStudy, found: set[int] | None = None) -> int | None:
    """Return the least number of refinements, from the list; None where it cannot be read, or is far too large.

    `found` are the numbers that are there, if they are known already.
    """
    content = unsealed(read_attributes(read_or_none(stored.place, _LIST_FILE, _MOST_LIST)), ATTRIBUTES_SEAL)
    if content is None or content.get("study_digest") != stored.head.digest:
        return None
    count = content.get("count")
    if type(count) is not int or count < 0:
        return None
    return count if count <= _MOST_MISSING or count <= _most(_numbers(stored) if found is None else found) else None


def _write_list(stored: StoredStudy, count: int) -> None:
    content = {"count": count, "study_digest": stored.head.digest}
    stored.place.write(_LIST_FILE, group_document(seal(content, ATTRIBUTES_SEAL)))


def _document(stored: StoredStudy, number: int, refinement: Refinement | None) -> bytes:
    content: dict[str, JsonValue] = {"number": number, "study_digest": stored.head.digest, "provenance": provenance()}
    if refinement is not None:
        content["cell"] = refinement.cell.canonical()
        content["compositions"] = list(refinement.compositions)
        content["epsilon"] = [value.hex() for value in refinement.epsilon]
        content["loss_width"] = refinement.loss_width.hex()
        content["bounds"] = {
            name: [value.hex() for value in values.ravel().tolist()]
            for name, values in zip(BOUNDS, refinement.values, strict=True)
        }
        if refinement.within is not None:
            content[WITHIN] = refinement.within.ravel().tolist()
    return group_document({_KEY: seal(content, ATTRIBUTES_SEAL)})


def _content(stored: StoredStudy, number: int, data: bytes | None) -> dict[str, JsonValue] | None:
    """Return the content of a document, None where it is not the one of that number and store."""
    content = unsealed((read_attributes(data) or {}).get(_KEY), ATTRIBUTES_SEAL)
    if content is None or (content.get("number"), content.get("study_digest")) != (number, stored.head.digest):
        return None
    return content


def _refinement(content: Mapping[str, JsonValue]) -> Refinement | None:
    """Return the refinement of a sealed document; None where it is empty, in place of a lost one, or is none."""
    try:
        return _decoded(content)
    except (KeyError, TypeError, ValueError, OverflowError, PbdistError):
        return None


def _decoded(content: Mapping[str, JsonValue]) -> Refinement:
    if not is_refinement_form(content):
        raise ValueError("expected a cell, grids, and a number for each point")
    form = content["cell"]
    compositions = tuple(int(r) for r in content["compositions"])
    epsilon = tuple(float.fromhex(value) for value in content["epsilon"])
    shape = (len(Direction), len(compositions), len(epsilon))
    values = np.array([_floats(content["bounds"][name]) for name in BOUNDS]).reshape(len(BOUNDS), *shape)
    if np.isnan(values).any():
        raise ValueError("expected numbers")
    values.setflags(write=False)
    factor = None if form["factor"] is None else float.fromhex(form["factor"])
    cell = Cell(label=form["label"], pair=pair_from_canonical(form["pair"]), factor=factor)
    width, number = float.fromhex(content["loss_width"]), int(content["number"])
    within = np.array(content[WITHIN], dtype=bool).reshape(shape) if WITHIN in content else None
    return Refinement(cell, compositions, epsilon, values, width, number, within)


def _floats(values: Sequence[str]) -> list[float]:
    return [float.fromhex(value) for value in values]
