"""Options that several commands have, and what is said where one of them is missing or would be ignored."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pbdist.cli.output import FORMATS
from pbdist.cli.parser import FILE, FOLDER, NUMBER, WHOLE, Argument, Number, Option, Options, Word, choice, refuse
from pbdist.input_files import check_outside


class _Factor(Number):
    """A number, or auto."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return what a text is."""
        return value if value == "auto" else super().convert(value, param, ctx)


def _system_names() -> list[str]:
    from pbdist.sizing.systems import load_systems

    return [system.name for system in load_systems()]


def _study_names() -> tuple[str, ...]:
    from pbdist.study.starter import shipped_names

    return shipped_names()


#: The names of the systems and of the studies that come with pbdist, or files like theirs.
SYSTEM, SYSTEM_OR_FILE = Word(_system_names), Word(_system_names, path="file")
STUDY, STUDY_OR_FILE = Word(_study_names), Word(_study_names, path="file")

STORE = Argument("STORE", "a store: a path or s3://BUCKET/PREFIX", FOLDER)
COMPOSITIONS = Option("--compositions R..", "numbers of compositions", WHOLE)
#: Of these two one gives ε.
EPSILONS = (
    Option("--epsilon E..", "epsilon, in nats", NUMBER),
    Option("--exp-epsilon Y..", "e to the power of epsilon", NUMBER),
)
DELTAS = Option("--delta D..", "delta", NUMBER)
FACTOR = Option("--factor F", "factor between buckets, or auto", _Factor(), name="noise_factor")
SYSTEMS = Option("--systems FILE", "the systems, in place of those that come with pbdist", FILE)
FORMAT = (
    Option(
        "--format FORMAT",
        "how answers are printed (default: table); csv and json are unrounded",
        choice(*FORMATS),
        section="Output",
    ),
    Option("--json", "the same as --format json", section="Output"),
)


def strict(what: str) -> Option:
    """Return the option that makes wide bounds an exit code."""
    return Option("--strict", f"exit with code 3 if {what}", section="Output")


def direction(what: str, default: str | None = None) -> Option:
    """Return the option that asks for both directions together, or for each."""
    return Option("--direction NAME", what, choice("both", "each"), default=default)


def chosen_format(options: Options) -> str:
    """Return the format that is asked for."""
    if options.json and options.format not in (None, "json"):
        refuse("--json", f"expected none beside --format {options.format}, got one")
    return "json" if options.json else options.format or "table"


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
