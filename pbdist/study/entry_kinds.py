"""The models of entries: derived from what each kind of mechanism declares, when they are needed."""

from collections.abc import Container
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import create_model

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import MECHANISMS, ElementaryPair, Histogram, Pair, load_histograms, parameters_of
from pbdist.study.alternatives import Entry
from pbdist.study.parameters import Files, Names, field_type


def study_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms that an entry may have."""
    return tuple(name for name, kind in MECHANISMS.items() if kind.in_studies)


def elementary_kinds() -> tuple[str, ...]:
    """Return those of them that are one pair with masses of its own."""
    return tuple(name for name in study_kinds() if issubclass(MECHANISMS[name], ElementaryPair))


def _histogram_of_files(file: tuple[Path, ...], columns: tuple[str, ...] | None = None) -> Pair:
    """Read the counts: the study then holds them itself, and its digest depends on them and not on the file's place."""
    try:
        return load_histograms(*file, columns=columns)
    except InvalidInputError as error:
        field = "columns" if str(error).startswith("columns: ") else "file"
        raise InvalidInputError(f"Histogram.{field}: {str(error).removeprefix('columns: ')}") from error


class _HistogramOfFilesEntry(Entry):
    construct_pair = staticmethod(_histogram_of_files)
    file: Files
    columns: Names | None = None


#: The parameters of a histogram whose counts are in files, in place of those that it declares.
FILE_FIELDS = ("file", "columns")


def model_of(kind: str, given: Container[str] = ()) -> type[Entry]:
    """Return the model of an entry of a kind that has some keys: its fields are the parameters."""
    pair: type[Pair] = MECHANISMS[kind]
    return _HistogramOfFilesEntry if pair is Histogram and "file" in given else _model(pair)


# A class that is registered anew under its name has a model of its own.
@cache
def _model(kind: type[Pair]) -> type[Entry]:
    types = {name: (field_type(one.domain), one.required) for name, one in parameters_of(kind).items()}
    fields: dict[str, Any] = {
        name: (found, ...) if required else (found | None, None) for name, (found, required) in types.items()
    }
    model: type[Entry] = create_model(f"{kind.__name__}Entry", __base__=Entry, __module__=__name__, **fields)
    model.construct_pair = kind
    model.declared = parameters_of(kind)
    return model
