"""Options and arguments that several commands have."""

from pathlib import Path

from pbdist.cli.output import FORMATS
from pbdist.cli.parser import FILE, NUMBER, WHOLE, Argument, Choice, Number, Option, completed, refuse
from pbdist.input_files import check_outside

#: Complete the names of the systems and of the studies that come with pbdist.
SYSTEM, STUDY = completed("pbdist.sizing.systems:system_names"), completed("pbdist.study.starter:shipped_names")
STORE = Argument("STORE", "a store: a path or s3://BUCKET/PREFIX")


def _target(many: str) -> tuple[Option, ...]:
    return (
        Option(f"--compositions R{many}", "number of compositions", WHOLE),
        Option(f"--epsilon E{many}", "epsilon, in nats", NUMBER),
        Option(f"--exp-epsilon Y{many}", "e to the power of epsilon", Number(1, 1e300)),
        Option(f"--delta D{many}", "delta", NUMBER),
    )


#: Three of these are a target, and two a question; one of the middle two gives ε.
QUESTION, TARGET = _target(".."), _target("")
SYSTEMS = Option("--systems FILE", "the systems, in place of those that come with pbdist", FILE)
FORMAT = (
    Option("--format", "how answers are printed; csv and json are unrounded", Choice(FORMATS), section="Output"),
    Option("--json", "the same as --format json", section="Output"),
)


def direction(what: str, default: str | None = None) -> Option:
    """Return the option that chooses both directions together, or each."""
    return Option("--direction", what, Choice(["both", "each"]), default=default)


def check_output(field: str, path: Path, *stores: str) -> None:
    """Refuse, before any work, a file in a store, or in no folder."""
    for store in stores:
        check_outside(path, store, field)
    if not path.parent.is_dir():
        refuse(field, f"expected a file in a folder that exists, got {path}")
