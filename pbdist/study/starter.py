"""Write study files to begin with: one for each kind of mechanism, and copies of those that come with pbdist."""

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from pbdist.errors import InvalidInputError, shown
from pbdist.study.hints import OTHER_KINDS
from pbdist.study.shipped import shipped_study
from pbdist.study.spec import NAME
from pbdist.suggestions import did_you_mean

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

#: For each kind its entry, and what tells one of its noise settings in a query.
_ENTRIES: Mapping[str, tuple[str, str]] = {
    "Gaussian": (
        """\
  # Gaussian noise: scale is its standard deviation, the square root of the variance.
  - kind: Gaussian
    scale: [20, 40, 80] # or {geomspace: [20, 80, 9]}
    sensitivity: 1 # by how much one person changes the answer (L2)
    # truncate: [-200, 200] # cuts the noise at these distances from the answer""",
        "--scale 40",
    ),
    "Laplace": (
        """\
  # Laplace noise: scale is b of the density e^(-|x| / b) / (2 b); its variance is 2 b².
  - kind: Laplace
    scale: [20, 40, 80] # sensitivity / ε for the ε of one round
    sensitivity: 1 # by how much one person changes the answer
    # truncate: [-200, 200] # cuts the noise at these distances from the answer""",
        "--scale 40",
    ),
    "SubsampledGaussian": (
        """\
  # DP-SGD: Gaussian noise on a Poisson sample. compositions are steps.
  - kind: SubsampledGaussian
    scale: [0.8, 1, 2] # the standard deviation of the noise: the noise multiplier times the sensitivity
    rate: 0.01 # the probability with which a record is in a sample
    sensitivity: 1 # the clipping norm""",
        "--scale 1",
    ),
    "SubsampledGaussianGroup": (
        """\
  # DP-SGD, for a group of records that are removed or added together. compositions are steps.
  - kind: SubsampledGaussianGroup
    scale: [1, 2] # the standard deviation of the noise: the noise multiplier times the sensitivity
    rate: 0.01 # the probability with which each record is in a sample
    group_size: 4 # the most records of the group
    sensitivity: 1 # the clipping norm of one record""",
        "--scale 1",
    ),
    "SubsampledLaplace": (
        """\
  # A query with Laplace noise, asked of a Poisson sample.
  - kind: SubsampledLaplace
    scale: [1, 2, 4] # sensitivity / ε for the ε of one round without sampling
    rate: 0.01 # the probability with which a record is in a sample""",
        "--scale 2",
    ),
    "GaussianMixture": (
        """\
  # Gaussian noise; a record moves the mean by one of the shifts, each with its weight as the probability.
  - kind: GaussianMixture
    scale: [2, 4]
    shifts: [0, 1, 2] # increasing
    weights: [0.81, 0.18, 0.01] # probabilities that sum to 1""",
        "--scale 4",
    ),
    "TruncatedPoissonGaussian": (
        """\
  # DP-SGD on Poisson samples that are cut to a largest size. compositions are steps.
  - kind: TruncatedPoissonGaussian
    scale: [1, 2] # the standard deviation of the noise: the noise multiplier times the sensitivity
    rate: 0.01 # the probability with which a record is in a sample
    batch: 150 # the most records of a sample
    examples: 10000 # records in the larger one of the neighbouring data sets
    sensitivity: 1 # the clipping norm""",
        "--scale 1",
    ),
    "FixedBatchGaussian": (
        """\
  # DP-SGD on batches of a fixed size, drawn without replacement; neighbours replace a record. compositions are steps.
  - kind: FixedBatchGaussian
    scale: [2, 4] # the standard deviation of the noise: the noise multiplier times the sensitivity
    batch: 100
    examples: 10000
    sensitivity: 1 # the clipping norm: replacing a record moves a sum by up to twice that""",
        "--scale 2",
    ),
    "RandomAllocation": (
        """\
  # DP-SGD with balls and bins: each record is used in one of the steps of an epoch, chosen at random. compositions are
  # epochs.
  - kind: RandomAllocation
    scale: [0.8, 1, 2] # the standard deviation of the noise: the noise multiplier times the sensitivity
    steps: 100 # of one epoch
    sensitivity: 1 # the clipping norm""",
        "--scale 1",
    ),
    "LaplaceSum": (
        """\
  # The sum of two values with Laplace noise each, of which only the sum is seen.
  - kind: LaplaceSum
    scales: [[20, 10], [40, 20]] # pairs of scales""",
        "--scale 40",
    ),
    "DiscreteLaplace": (
        """\
  # Whole-numbered noise with probabilities in proportion to e^(-|k| / scale).
  - kind: DiscreteLaplace
    scale: [20, 40, 80] # sensitivity / ε for the ε of one round
    sensitivity: 1 # a whole number""",
        "--scale 40",
    ),
    "DiscreteGaussian": (
        """\
  # Whole-numbered noise with probabilities in proportion to e^(-k² / (2 scale²)).
  - kind: DiscreteGaussian
    scale: [20, 40, 80]
    sensitivity: 1 # a whole number""",
        "--scale 40",
    ),
    "RandomizedResponse": (
        """\
  # The truth with probability p, else the opposite: ε of one round is ln(p / (1 - p)).
  - kind: RandomizedResponse
    p: [0.51, 0.55, 0.6]""",
        "--p 0.55",
    ),
    "KaryRandomizedResponse": (
        """\
  # One of k answers: the truth with probability p, each other one with (1 - p) / (k - 1).
  - kind: KaryRandomizedResponse
    p: [0.27, 0.3, 0.35] # e^ε / (e^ε + k - 1) for the ε of one round
    k: 4""",
        "--p 0.3",
    ),
    "BoundedRange": (
        """\
  # The worst of all mechanisms whose losses lie in an interval of length eta, as those of the exponential mechanism
  # with probabilities in proportion to e^(eta * quality / (2 * sensitivity)). No lower bounds are known.
  - kind: BoundedRange
    eta: [0.01, 0.1]""",
        "--eta 0.1",
    ),
    "ApproximateDP": (
        """\
  # The worst of all mechanisms that are (ε, δ)-private in one round.
  - kind: ApproximateDP
    epsilon: [0.01, 0.1]
    delta: 1.0e-9""",
        "--pair-epsilon 0.1",
    ),
    "Histogram": (
        """\
  # Two measured or tabulated distributions of the same outputs, as counts or as probabilities.
  - kind: Histogram
    p: [0.5, 0.3, 0.2, 0]
    q: [0.48, 0.31, 0.2, 0.01]
    # file: times.csv # in place of p and q: a table of counts, beside this file""",
        "",
    ),
    "NoisyCount": (
        """\
  # A count that is hidden under a whole number of noise messages, as in Vuvuzela.
  - kind: NoisyCount
    noise: {kind: Laplace, scale: [40, 80]} # or Gaussian, DiscreteLaplace, DiscreteGaussian
    mean: 1000 # of the noise
    shift: 1 # by how much one person changes the count
    reading: clamp-and-ceil # or redraw-and-floor, shift-inside""",
        "--scale 80",
    ),
    "Poisson": (
        """\
  # A count that is hidden under Poisson noise: mean is its variance, too.
  - kind: Poisson
    mean: [1000, 4000]
    sensitivity: 1""",
        "--mean 4000",
    ),
    "Staircase": (
        """\
  # Staircase noise: epsilon is that of one round.
  - kind: Staircase
    epsilon: [0.01, 0.1]
    sensitivity: 1""",
        "",
    ),
    "Product": (
        """\
  # Several outputs that are seen together in every round.
  - kind: Product
    pairs:
      - {kind: Laplace, scale: 40}
      - {kind: Gaussian, scale: 40}""",
        "",
    ),
    "Reversed": (
        """\
  # A pair with its two distributions exchanged, as a part of a product: a person who moves from one count to another
  # takes one away here, and adds one there.
  - label: moved
    kind: Product
    pairs:
      - {kind: Laplace, scale: 40}
      - {kind: Reversed, pair: {kind: Laplace, scale: 40}}""",
        "",
    ),
    "ReleasePlan": (
        """\
  # Several analyses of one database, of which a changed record touches only some.
  - label: counts
    kind: ReleasePlan
    granularity: unbounded # neighbours: a record added or removed
    blocks: {overlapping: 10, at_most: 3} # a record is in at most 3 of the 10 blocks
    analyses:
      - name: count
        pair: {kind: Laplace, scale: [40, 80]}
        reads_each: all # one count for each block
        attained: every # neighbours differ exactly as the pair does: lower bounds are known, too""",
        "--scale 80",
    ),
}
#: The kinds of mechanisms for which there is a study to begin with.
STARTER_KINDS = tuple(_ENTRIES)
_LABELS = {"Reversed": "moved", "ReleasePlan": "counts"}


def write_starter(path: Path, kind: str = "Gaussian") -> None:
    """Write a commented study file of one kind of mechanism; what is there is never overwritten.

    Raises
    ------
    InvalidInputError
        `kind` is not known, or `path` is no path for a new study file.
    """
    if kind not in _ENTRIES:
        raise InvalidInputError(
            f"kind: expected one of {', '.join(_ENTRIES)}, got {shown(kind)}{did_you_mean(kind, _ENTRIES, OTHER_KINDS)}"
        )
    name = _name_of(path)
    entry, setting = _ENTRIES[kind]
    question = f"--mechanism {_LABELS.get(kind, kind)} {setting} --compositions 100 --epsilon 1".replace("  ", " ")
    store = f"data/{name}.zarr"
    file = shlex.quote(str(path)) if str(path).isprintable() else path.name
    _write(path, _TEXT.format(file=file, name=_as_text(name), store=store, entry=entry, query=question))


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
