"""Read the alternatives of each parameter of an entry, also those beside wrong ones."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import ClassVar

from pydantic import BaseModel, ValidationError

from pbdist.mechanisms import Form, Pair, Parameter
from pbdist.study.document import Document, Keys
from pbdist.study.parameters import Choices
from pbdist.study.refusals import STRICT
from pbdist.types import JsonValue

#: The forms of parameters that are made of entries, and the type of what stands in the file.
NESTED: Mapping[Form, type] = {Form.MECHANISM: dict, Form.MECHANISMS: list}


class Entry(BaseModel):
    """The parameters of one kind of mechanism: the fields are named like the constructor's arguments."""

    model_config = STRICT
    construct_pair: ClassVar[Callable[..., Pair]]
    #: What the kind declares of the fields; nothing of names of files.
    declared: ClassVar[Mapping[str, Parameter]] = {}
    kind: str

    @classmethod
    def nested(cls) -> dict[str, Parameter]:
        """Return the parameters that are made of entries."""
        return {name: one for name, one in cls.declared.items() if one.domain.form in NESTED}

    @classmethod
    def is_grid(cls, field: str, value: JsonValue) -> bool:
        """Whether a value is a list of alternatives, and not one value that is a list."""
        if field not in cls.declared or not isinstance(value, list):
            return False
        form = cls.declared[field].domain.form
        return form in (Form.NUMBER, Form.NAME) or (
            form is not Form.MASSES and all(one is None or isinstance(one, list) for one in value)
        )


def choices(
    document: Document, model: type[Entry], values: Mapping[str, JsonValue], key_paths: Mapping[str, Keys]
) -> dict[str, Choices]:
    """Return the alternatives of each parameter that is not made of entries, each with its keys."""
    checked, alternatives = model.model_validate(values), {}
    others = {"kind", *model.nested()}
    for field in model.model_fields:
        if field not in others and getattr(checked, field) is not None:
            found = tuple((value, key_paths[field] + at) for value, at in getattr(checked, field))
            alternatives[field] = _beside(document, found) if field == "file" else found
    return alternatives


def other_choices(
    document: Document,
    model: type[Entry],
    values: Mapping[str, JsonValue],
    key_paths: Mapping[str, Keys],
    error: ValidationError,
) -> dict[str, Choices] | None:
    """Return the alternatives as `choices` without the wrong values of lists; None where more than these is wrong."""
    wrong: dict[str, set[int]] = {}
    for details in error.errors(include_url=False):
        field = str(details["loc"][0])
        if details["type"] != "grid" or not model.is_grid(field, values[field]):
            return None
        for at in (details["ctx"]["at"], *(at for _, at in details["ctx"]["others"])):
            if len(at) != 1 or not isinstance(at[0], int):
                return None
            wrong.setdefault(field, set()).add(at[0])
    right = {field: [i for i in range(len(values[field])) if i not in indices] for field, indices in wrong.items()}
    sound = {field: [values[field][i] for i in indices] for field, indices in right.items()}
    try:
        found = choices(document, model, {**values, **sound}, key_paths)
    except ValidationError:
        return None
    for field, indices in right.items():
        found[field] = tuple((one, (*key_paths[field], i)) for i, (one, _) in zip(indices, found[field], strict=True))
    return found


def _beside(document: Document, found: Choices) -> Choices:
    """Return paths that are relative to the folder of the study file."""
    folder = Path(document.source).parent
    return tuple((tuple(folder / name for name in names), at) for names, at in found)
