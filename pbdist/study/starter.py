"""Studies to begin with: those that pbdist ships, and a new one that every key is explained in."""

import re
import shlex
import textwrap
from dataclasses import fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from pbdist.errors import FileProblem, InvalidInputError, StudyFileError, shown
from pbdist.mechanisms import MECHANISMS, Histogram, Pair, parameters_of
from pbdist.study.entries import study_kinds
from pbdist.study.fields import other_kinds
from pbdist.study.release import RELEASE_PLAN
from pbdist.study.spec import NAME
from pbdist.suggestions import did_you_mean, likely

#: What each study is projected to take on one core, as `pbdist plan` prints it: planning all of them takes seconds.
PROJECTED = {
    "almanac-dp-sgd": "84.8 min",
    "almanac-dp-sgd-tenth": "6.53 min",
    "bucket-convergence": "0.852 s",
    "bucket-convergence-1e3": "0.897 s",
    "bucket-convergence-1e4": "1.25 s",
    "bucket-convergence-1e4-r512": "0.742 s",
    "bucket-convergence-1e5": "4.45 s",
    "bucket-convergence-1e6": "34.5 s",
    "bucket-convergence-1e7": "2.57 min",
    "census-2020": "0.558 s",
    "evaluation": "7.23 s",
    "hospitals": "2.33 s",
    "laplace-against-gauss": "0.358 s",
    "mechanisms": "1.29 s",
    "optimal-mechanisms": "0.625 s",
    "quickstart": "0.802 s",
    "random-allocation": "3.76 min",
    "sizing-counting-gaussian": "1.47 s",
    "sizing-counting-laplace": "4.05 min",
    "sizing-dp-sgd": "94.5 s",
    "vuvuzela-conversation": "14.5 s",
    "vuvuzela-dialing": "6.82 s",
}

#: Where a wheel has the studies, beside its modules; a checkout has them in ``pipelines/`` and in a folder there.
_FOLDER, _RECORDS = "studies", "records"
_SUFFIXES = (".yaml", ".yml")


def shipped_names() -> tuple[str, ...]:
    """Return the names of the studies that come with pbdist, sorted."""
    return tuple(sorted(_files()))


def shipped_study(name: str) -> Path:
    """Return the file of a study that comes with pbdist.

    Raises
    ------
    InvalidInputError
        There is none of that name.
    """
    found = _files()
    if name not in found:
        names = shipped_names()
        expected = f"the name of a study that comes with pbdist ({', '.join(names)})"
        raise InvalidInputError(f"study: expected {expected}, got {shown(name)}{did_you_mean(name, names)}")
    return found[name]


def find_study(given: str) -> Path:
    """Return the study file that is meant: a file, or by its name one that comes with pbdist. A file wins.

    Raises
    ------
    InvalidInputError
        There is no such file, and no such name.
    StudyFileError
        There is no such file; a study that comes with pbdist has almost its name.
    """
    path, names = Path(given), shipped_names()
    if given in names and not path.is_file():
        return shipped_study(given)
    if path.exists() or not given:
        return path
    if path.suffix not in _SUFFIXES and path.name == given:
        near = did_you_mean(given, names) or ": pbdist studies lists the names"
        raise InvalidInputError(
            f"study: expected a study file, or the name of a study that comes with pbdist, got {shown(given)}{near}"
        )
    name = likely(path.stem, names)
    if name is not None:
        problem = f"expected a readable study file, got: No such file or directory: did you mean {name}?"
        raise StudyFileError.of([FileProblem(given, 1, "study", problem)])
    return path


def _files() -> dict[str, Path]:
    """Return the files of all studies by name; those that remake published records lie in a folder of their own."""
    package = Path(str(files("pbdist")))
    installed = package / _FOLDER
    folder = installed if installed.is_dir() else package.parent / "pipelines"
    return {path.stem: path for place in (folder, folder / _RECORDS) for path in place.glob("*.yaml")}


#: Comments are wrapped at so many characters.
_WIDTH = 120

_TEXT = """\
# A study: which mechanisms are bounded, for which numbers of compositions and ε, and how closely.
#
#   pbdist plan {file}    # cells, time and memory, before anything runs
#   pbdist run {file}     # into {store}; the same command goes on after anything went wrong
#   pbdist query {store} {query}
#
# Unknown keys are errors that name the line. `pbdist studies` lists studies to look at.
format: 1 # of this file
name: {name} # names the store, too
description: What it is for.

# For which neighbours the bounds are: add-or-remove, replace-one or zero-out one record. Where nothing is said they are
# those for which sensitivities are stated. An entry may have its own; SubsampledGaussian says add-or-remove itself.
# adjacency: add-or-remove

mechanisms: # one entry or more; each stands for every combination of its values
{entry}

compositions: [1, 10, 100, 1000] # r; or {{powers_of_two: [0, 13]}}
epsilon: {{linspace: [0, 4, 41]}} # ε in nats; or exp_epsilon, which is e^ε. Or {{geomspace: [0.1, 10, 21]}}, or a list

# How closely: upper / lower - 1 is at most this wherever δ exceeds 1e-40.
tolerance: 1.0e-3

# Questions that `pbdist run` answers at its end: which of the noise settings have at most this δ? The grids above gain
# the ε and the compositions of targets that they lack.
targets:
  - {{epsilon: 1, delta: 1.0e-6, compositions: 100}}
"""

#: The entry of a release plan, which is no mechanism with parameters of its own.
_PLAN = """\
  # Several analyses of one database, of which a changed record touches only some.
  - label: counts
    kind: ReleasePlan
    granularity: unbounded # neighbours: a record added or removed
    blocks: {overlapping: 10, at_most: 3} # a record is in at most 3 of the 10 blocks
    analyses:
      - name: count
        pair: {kind: Laplace, scale: [40, 80]}
        reads_each: all # one count for each block
        attained: every # neighbours differ exactly as the pair does: lower bounds are known, too"""


def starter_kinds() -> tuple[str, ...]:
    """Return the kinds of mechanisms for which there is a study to begin with."""
    return (*study_kinds(), RELEASE_PLAN)


def write_starter(path: Path, kind: str = "Gaussian") -> None:
    """Write a commented study file of one kind of mechanism; what is there is never overwritten.

    Raises
    ------
    InvalidInputError
        `kind` is not known, or `path` is no path for a new study file.
    """
    kinds = starter_kinds()
    if kind not in kinds:
        near = did_you_mean(kind, kinds, other_kinds())
        raise InvalidInputError(f"kind: expected one of {', '.join(kinds)}, got {shown(kind)}{near}")
    name = _name_of(path)
    if kind == RELEASE_PLAN:
        entry, setting = _PLAN, "counts --scale 80"
    else:
        entry, setting = _entry(MECHANISMS[kind]), f"{kind}{_setting(MECHANISMS[kind])}"
    question = f"--mechanism {setting} --compositions 100 --epsilon 1"
    store = f"data/{name}.zarr"
    file = shlex.quote(str(path)) if str(path).isprintable() else path.name
    _write(path, _TEXT.format(file=file, name=_as_text(name), store=store, entry=entry, query=question))


def _entry(kind: type[Pair]) -> str:
    """Return an entry of a kind with the examples of its parameters."""
    does = textwrap.fill(kind.does, _WIDTH, initial_indent="  # ", subsequent_indent="  # ")
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
    """Write a copy of a study that comes with pbdist, under the name of the file; nothing is overwritten.

    Raises
    ------
    InvalidInputError
        There is no study of that name, or `path` is no path for a new study file.
    """
    text = shipped_study(like).read_text(encoding="utf-8")
    name = _name_of(path)
    named = re.sub(r"^name: .*$", f"name: {_as_text(name)}", text, count=1, flags=re.MULTILINE)
    _write(path, f"# A copy of the study {like} that comes with pbdist; its store is data/{name}.zarr.\n#\n{named}")


def _name_of(path: Path) -> str:
    """Return the name of the study in a file."""
    if path.suffix not in (".yaml", ".yml") or not NAME.fullmatch(path.stem):
        expected = "a name of letters, digits, '.', '_' and '-' that ends in .yaml"
        raise InvalidInputError(f"file: expected {expected}, got {shown(path.name)}")
    return path.stem


def _as_text(name: str) -> str:
    """Return a name as YAML reads it as a text: what could be a number or a truth value in quotation marks."""
    return name if name[0].isalpha() and name.lower() not in ("true", "false", "null") else f'"{name}"'


def _write(path: Path, text: str) -> None:
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError as error:
        raise InvalidInputError(f"file: expected a path where nothing is yet, got {shown(str(path))}") from error
    except OSError as error:
        raise InvalidInputError(
            f"file: expected a path to write to, got {shown(str(path))}: {error.strerror}"
        ) from error
