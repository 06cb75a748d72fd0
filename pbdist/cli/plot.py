"""``pbdist plot``: draw what a store holds."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pbdist.cli.output import page, sign_of_life
from pbdist.cli.parser import (
    NUMBER,
    WHOLE,
    Argument,
    Number,
    Option,
    Options,
    Word,
    choice,
    command,
    direction_option,
    file_type,
    given_options,
    point_options,
    refuse,
)
from pbdist.cli.query import factor_option, given_noise, noise_options
from pbdist.errors import printable
from pbdist.input_files import check_outside

if TYPE_CHECKING:
    from pbdist.query import Study

#: What is drawn, and which options beside the settings a kind takes.
KINDS = {
    "epsilon-delta": "δ over epsilon, one band for each setting and r",
    "compositions": "δ over r at an epsilon, or epsilon over r at a δ",
    "noise": "δ over the noise at a target: what meets it, what is refuted, what is undecided",
    "compare": "settings at one r: δ over epsilon, or over the noise at an epsilon",
    "tradeoff": "type II error over type I error (f-DP)",
    "losses": "the privacy loss distribution of a kept state",
    "brackets": "upper / lower - 1 over r",
}
_TAKES = {
    "epsilon-delta": ("compositions", "epsilon", "exp_epsilon", "delta", "lowest", "direction"),
    "compositions": ("epsilon", "exp_epsilon", "delta", "lowest"),
    "noise": ("compositions", "epsilon", "exp_epsilon", "delta", "lowest"),
    "compare": ("compositions", "epsilon", "exp_epsilon", "delta", "over", "lowest", "direction"),
    "tradeoff": ("compositions",),
    "losses": ("compositions", "lowest"),
    "brackets": ("epsilon", "exp_epsilon", "lowest"),
}
#: Kinds that take one store, and one number of rounds.
_ONE_STORE = ("noise", "losses")
_ONE_R = ("noise", "losses", "compare")
#: Kinds that are asked for e^ε itself.
_EXPONENTIAL = ("compositions", "noise")
_FORMATS = ("svg", "png", "pdf")
_EXITS = """\
exit codes:
    0  the file is written
    2  nothing to draw, or something in the input is wrong: the one line on stderr says what
  130  interrupted
"""
_FILE = "an .svg, .png or .pdf file; it is replaced"


@command(
    "plot",
    Argument("plot", "what to draw", metavar="KIND", type=choice(*KINDS)),
    Argument(
        "stores",
        "stores: paths or s3://BUCKET/PREFIX",
        metavar="STORE..",
        nargs=-1,
        required=True,
        type=Word(path="dir"),
    ),
    Option("-o", "--output", metavar="FILE", type=file_type(Path), required=True, help=_FILE),
    Option("--mechanism", metavar="LABEL", help="the label of the mechanism in the study (default: all)"),
    Option("--compositions", metavar="R", type=WHOLE, several=True, help="numbers of compositions"),
    *point_options(),
    Option("--delta", metavar="D", type=NUMBER, help="delta"),
    Option(
        "--over",
        metavar="NAME",
        type=choice("epsilon", "noise"),
        help="what compare has as its axis (default: epsilon)",
    ),
    Option("--lowest", metavar="D", type=NUMBER, help="where the axis ends; 0: all there is (default: 1e-40)"),
    direction_option("both directions together, or each (default: both)"),
    factor_option(),
    Option("--width", metavar="INCHES", type=Number(5, 40, "inches"), default=8.2, help="default: 8.2"),
    Option(
        "--height",
        metavar="INCHES",
        type=Number(3, 40, "inches"),
        default=4.4,
        help="default: 4.4; a long legend takes more",
    ),
    example="plot epsilon-delta data/quickstart.zarr --mechanism Laplace --compositions 512 -o plot.svg",
    exits=_EXITS,
    exclusive=[("epsilon", "exp_epsilon")],
    late=noise_options,
)
def plot(options: Options) -> int:
    """Draw the bounds of a store.

    Each plot is of bounds as they are stored, or as they are proved from what is stored. What is missing is a gap, and
    is said below the plot. A kind that needs a number and is given none takes one of the store, and says so in the
    title.

    \b
    KINDS
    """  # noqa: D301
    asked = _asked(options)
    from pbdist.query import open_study
    from pbdist.report import plots
    from pbdist.report.pages.files import write_whole
    from pbdist.report.sheet import new_sheet, saved, styled

    sheet = new_sheet(options.width, options.height)
    studies = [open_study(store) for store in options.stores]
    functions: dict[str, Any] = {name: getattr(plots, name.replace("-", "_")) for name in KINDS}
    with styled():
        axes = sheet.subplots()
    with sign_of_life():
        functions[options.plot](_sources(studies), axes=axes, **asked)
        write_whole(options.output, saved(sheet, options.output.suffix[1:].lower()))
    page().print(printable(str(options.output)), markup=False, highlight=False, soft_wrap=True)
    return 0


_listed = "\n".join(f"    {name:15}{text}" for name, text in KINDS.items())
plot.help = (plot.help or "").replace("    KINDS", _listed)


def _sources(studies: "list[Study]") -> Any:
    """Return the one study, or several by names that differ."""
    if len(studies) == 1:
        return studies[0]
    names = [study.spec.name for study in studies]
    told = names if len(set(names)) == len(names) else [study.where for study in studies]
    if len(set(told)) < len(told):
        refuse("STORE", "expected each store once, got one twice")
    return dict(zip(told, studies, strict=True))


def _asked(options: Options) -> dict[str, Any]:
    """Return the arguments of the function of a kind; what cannot be meant is refused before any work."""
    if options.output.suffix[1:].lower() not in _FORMATS:
        refuse("--output", f"expected a file that ends in .svg, .png or .pdf, got {options.output}")
    _check_place(options.output, options.stores)
    if options.plot in _ONE_STORE and len(options.stores) > 1:
        refuse("STORE", f"expected one store for {options.plot}, got {len(options.stores)}")
    given = given_options(options, ("compositions", "epsilon", "exp_epsilon", "delta", "over", "lowest", "direction"))
    for name in given:
        if name not in _TAKES[options.plot]:
            refuse(f"--{name.replace('_', '-')}", f"expected none for {options.plot}, got one")
    if options.plot in _ONE_R and "compositions" in given:
        if len(given["compositions"]) > 1:
            refuse("--compositions", f"expected one number for {options.plot}, got several")
        given["compositions"] = given["compositions"][0]
    if options.plot not in _EXPONENTIAL and "exp_epsilon" in given:
        given["epsilon"] = _logarithm(given.pop("exp_epsilon"))
    _target(options.plot, given)
    numbers, texts = given_noise(options)
    return {"mechanism": options.mechanism, **given, **numbers, **texts}


def _check_place(path: Path, stores: list[str]) -> None:
    for store in stores:
        check_outside(path, store, "--output")
    if not path.parent.is_dir():
        refuse("--output", f"expected a file in a folder that exists, got {path}")


def _logarithm(value: float) -> float:
    if not 1.0 <= value < math.inf:
        refuse("--exp-epsilon", f"expected a finite number of at least 1, got {value!r}")
    return math.log(value)


def _target(kind: str, given: dict[str, Any]) -> None:
    """Make ε and δ one target where they are marked, or refuse one without the other."""
    if kind not in ("epsilon-delta", "compare") or (kind == "compare" and given.get("over") == "noise"):
        if kind == "compare" and "delta" in given:
            refuse("--delta", "expected none for compare over noise, got one")
        return
    if ("epsilon" in given) != ("delta" in given):
        refuse("--epsilon", "expected it together with --delta, a target that is marked, got one of them")
    if "epsilon" in given:
        given["target"] = (given.pop("epsilon"), given.pop("delta"))
