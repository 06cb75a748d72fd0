"""The studies that come with pbdist: found by name, in the installed package or in the checkout."""

from importlib.resources import files
from pathlib import Path

from pbdist.errors import FileProblem, InvalidInputError, StudyFileError, shown
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
