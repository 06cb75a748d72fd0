"""What is given on the command line: which options, and what is said where one is missing, wrong or ignored."""

from collections.abc import Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn, TypeAlias

from pbdist.errors import InvalidInputError
from pbdist.input_files import check_outside

#: What a command is called with: every option by its name, None where it is not given.
Options: TypeAlias = SimpleNamespace


def refuse(field: str, problem: str) -> NoReturn:
    """Raise the error that is printed as one line: ``FIELD: expected .., got ..``."""
    raise InvalidInputError(f"{field}: {problem}")


def flag(name: str) -> str:
    """Return the option of a parameter: ``--noise-multiplier`` for noise_multiplier."""
    return f"--{name.replace('_', '-')}"


def given_options(options: Options, names: Iterable[str]) -> dict[str, Any]:
    """Return those of some options that are given."""
    values = {name: getattr(options, name) for name in names}
    return {name: value for name, value in values.items() if value is not None and value is not False}


def refuse_given(options: Options, names: Iterable[str], problem: str) -> None:
    """Refuse the first of some options that is given: it would be ignored."""
    for name in given_options(options, names):
        refuse(flag(name), problem)


def require(options: Options, *names: str, problem: str = "expected a value, got none") -> None:
    """Refuse a command without any of some options."""
    if not given_options(options, names):
        refuse(" or ".join(map(flag, names)), problem)


def chosen_format(options: Options) -> str:
    """Return the format that is asked for."""
    if options.json and options.format not in (None, "json"):
        refuse("--json", f"expected none beside --format {options.format}, got one")
    return "json" if options.json else options.format or "table"


def given_target(options: Options, problem: str = "expected a value, got none") -> dict[str, Any]:
    """Return what is given of a target: all of it, or nothing."""
    given = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta"))
    for name in ("compositions", "epsilon", "delta") if given else ():
        if name not in given and not (name == "epsilon" and "exp_epsilon" in given):
            refuse(flag(name), problem)
    return given


def check_output(field: str, path: Path, *stores: str) -> None:
    """Refuse, before any work, a file in a store, or in no folder."""
    for store in stores:
        check_outside(path, store, field)
    if not path.parent.is_dir():
        refuse(field, f"expected a file in a folder that exists, got {path}")
