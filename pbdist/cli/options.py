"""Options and arguments that several commands have."""

from pathlib import Path

from pbdist.cli.output import FORMATS
from pbdist.cli.parser import FILE, FOLDER, NUMBER, WHOLE, Argument, Number, Option, Word, choice, refuse
from pbdist.input_files import check_outside

#: The names of the systems and of the studies that come with pbdist, or files like theirs.
_SYSTEMS, _STUDIES = "pbdist.sizing.systems:system_names", "pbdist.study.starter:shipped_names"
SYSTEM, SYSTEM_OR_FILE = Word(_SYSTEMS), Word(_SYSTEMS, path="file")
STUDY, STUDY_OR_FILE = Word(_STUDIES), Word(_STUDIES, path="file")

STORE = Argument("STORE", "a store: a path or s3://BUCKET/PREFIX", FOLDER)
COMPOSITIONS = Option("--compositions R..", "numbers of compositions", WHOLE)
#: One of these gives ε.
EPSILONS = (
    Option("--epsilon E..", "epsilon, in nats", NUMBER),
    Option("--exp-epsilon Y..", "e to the power of epsilon", Number(1)),
)
#: Two of these are a question, and three a target.
QUESTION = (COMPOSITIONS, *EPSILONS, Option("--delta D..", "delta", NUMBER))
FACTOR = Option("--factor F", "factor between buckets, or auto", Number(words=("auto",)), name="noise_factor")
SYSTEMS = Option("--systems FILE", "the systems, in place of those that come with pbdist", FILE)
_FORMAT = "how answers are printed (default: table); csv and json are unrounded"
FORMAT = (
    Option("--format FORMAT", _FORMAT, choice(*FORMATS), section="Output"),
    Option("--json", "the same as --format json", section="Output"),
)


def strict(what: str) -> Option:
    """Return the option that makes wide bounds an exit code."""
    return Option("--strict", f"exit with code 3 if {what}", section="Output")


def direction(what: str, default: str | None = None) -> Option:
    """Return the option that chooses both directions together, or each."""
    return Option("--direction NAME", what, choice("both", "each"), default=default)


def check_output(field: str, path: Path, *stores: str) -> None:
    """Refuse, before any work, a file in a store, or in no folder."""
    for store in stores:
        check_outside(path, store, field)
    if not path.parent.is_dir():
        refuse(field, f"expected a file in a folder that exists, got {path}")
