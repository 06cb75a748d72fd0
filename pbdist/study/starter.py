"""Studies to begin with: those that pbdist ships, and a new one that every key is explained in."""

import re
import shlex
import textwrap
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from pbdist.errors import FileProblem, InvalidInputError, StudyFileError, shown
from pbdist.mechanisms import MECHANISMS, Histogram, Pair, parameters_of
from pbdist.study.entries import RELEASE_PLAN, study_kinds
from pbdist.study.fields import other_kinds
from pbdist.study.spec import NAME
from pbdist.suggestions import did_you_mean, likely

_SUFFIXES = (".yaml", ".yml")


def shipped_names() -> tuple[str, ...]:
    """Return the names of the studies that come with pbdist, sorted."""
    return tuple(sorted(_files()))


def shipped_study(name: str) -> Path:
    """Return the file of a study that comes with pbdist, by its name."""
    if name not in _files():
        near = did_you_mean(name, shipped_names()) or ": pbdist studies lists the names"
        raise InvalidInputError(f"study: expected the name of a study that comes with pbdist, got {shown(name)}{near}")
    return _files()[name]


def find_study(given: str) -> Path:
    """Return the study file that is meant: a file, or by its name one that comes with pbdist. A file wins."""
    path, names = Path(given), shipped_names()
    if path.is_file():
        return path
    if not given or given in names or (path.name == given and path.suffix not in _SUFFIXES and not path.exists()):
        return shipped_study(given)
    if not path.exists() and (name := likely(path.stem, names)) is not None:
        problem = f"expected a readable study file, got: No such file or directory: did you mean {name}?"
        raise StudyFileError.of([FileProblem(given, 0, "study", problem)])
    return path


def _files() -> dict[str, Path]:
    """Return the files of all studies by name: in ``pipelines/`` of a checkout, beside the modules of a wheel."""
    package = Path(str(files("pbdist")))
    installed = package / "studies"
    folder = installed if installed.is_dir() else package.parent / "pipelines"
    return {path.stem: path for path in (*folder.glob("*.yaml"), *folder.glob("records/*.yaml"))}


def starter_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms for which there is a study to begin with."""
    return (*study_kinds(), RELEASE_PLAN)


def write_starter(path: Path, kind: str = "Gaussian") -> None:
    """Write a commented study file of one kind of mechanism; what is there is never overwritten."""
    kinds = starter_kinds()
    if kind not in kinds:
        near = did_you_mean(kind, kinds, other_kinds())
        raise InvalidInputError(f"kind: expected one of {', '.join(kinds)}, got {shown(kind)}{near}")
    template, plan = (
        files(__package__).joinpath(each).read_text(encoding="utf-8") for each in ("starter.yaml", "starter-plan.yaml")
    )
    if kind == RELEASE_PLAN:
        entry, setting = plan.rstrip(), "counts --scale 80"
    else:
        entry, setting = _entry(MECHANISMS[kind]), f"{kind}{_setting(MECHANISMS[kind])}"
    file = shlex.quote(str(path)) if str(path).isprintable() else path.name
    words = {"file": file, "name": f'"{_name_of(path)}"', "stem": _name_of(path), "entry": entry, "setting": setting}
    _write(path, Template(template).substitute(words))


def _entry(kind: type[Pair]) -> str:
    """Return an entry of a kind with the examples of its parameters."""
    does = textwrap.fill(kind.does, 120, initial_indent="  # ", subsequent_indent="  # ")
    lines = [does, f"  - kind: {kind.__name__}"]
    for name, one in parameters_of(kind).items():
        among = ", ".join(one.domain.names or one.domain.kinds)
        what = f"{one.described}: {among}" if among else one.described
        given = f"{name}: {_text(one.example)}" if one.example is not None else f"# {name}: {one.domain.form.value}"
        lines.append(f"    {given} # {what}")
    if kind is Histogram:
        lines.append("    # file: times.csv # in place of p and q: a table of counts, beside this file")
    return "\n".join(lines)


def _setting(kind: type[Pair]) -> str:
    """Return the option of a query that tells one of the settings of the entry; nothing where there is but one."""
    for one in parameters_of(kind).values():
        if len(one.examples) > 1:
            chosen = one.examples[1]
            value = chosen[0] if isinstance(chosen, tuple) else chosen
            return f" --{one.columns[0].replace('_', '-')} {_text(value)}"
    return ""


def _text(value: Any) -> str:
    """Return a value of a parameter as YAML on one line."""
    if isinstance(value, Pair):
        held = {one.name: (getattr(value, one.name), one.default) for one in fields(value)}  # type: ignore[arg-type]  # a dataclass
        given = [f"{name}: {_text(each)}" for name, (each, default) in held.items() if each != default]
        return f"{{{', '.join([f'kind: {type(value).__name__}', *given])}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_text, value))}]"
    # YAML takes 1e-09 for a text, and 1.0e-09 for a number.
    return re.sub(r"^(-?\d+)e", r"\1.0e", repr(value).removesuffix(".0")) if isinstance(value, float) else str(value)


def write_copy(path: Path, like: str) -> None:
    """Write a copy of a study that comes with pbdist, under the name of the file; nothing is overwritten."""
    text, name = shipped_study(like).read_text(encoding="utf-8"), _name_of(path)
    named = re.sub(r"^name: .*$", f'name: "{name}"', text, count=1, flags=re.MULTILINE)
    _write(path, f"# A copy of the study {like} that comes with pbdist; its store is data/{name}.zarr.\n#\n{named}")


def _name_of(path: Path) -> str:
    """Return the name of the study in a file."""
    if path.suffix not in _SUFFIXES or not NAME.fullmatch(path.stem):
        expected = "a name of letters, digits, '.', '_' and '-' that ends in .yaml"
        raise InvalidInputError(f"file: expected {expected}, got {shown(path.name)}")
    return path.stem


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        exists = isinstance(error, FileExistsError)
        where = "where nothing is yet" if exists else f"to write to ({error.strerror})"
        raise InvalidInputError(f"file: expected a path {where}, got {shown(str(path))}") from error
