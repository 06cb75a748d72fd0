"""The layout of a store: names, attributes and the columns that describe a cell. See docs/store-format.md."""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pbdist.study import Cell, StudySpec
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, JsonValue

__all__ = [
    "BOUNDS",
    "CELL",
    "COLUMNS",
    "COLUMN_CHUNK",
    "COMMITS",
    "COMPUTED",
    "COPY_FILE",
    "EXTENSIONS",
    "GRIDS",
    "PARTS_FILE",
    "REFINEMENTS",
    "ROOT_FILE",
    "STATES",
    "STORE_FORMATS",
    "TEXT_COLUMNS",
    "WITHIN",
    "ArrayAttributes",
    "batch_group",
    "cell_columns",
    "cell_group",
    "chunk_file",
    "part_name",
    "result_names",
]

#: The versions of the layout that are read: the first one does not store where the tolerance is met. New stores have
#: the last one.
STORE_FORMATS = (3, 4)

CELL = "cell"
COMMITS = "commits"
EXTENSIONS = "extensions"
REFINEMENTS = "refinements"
STATES = "states"

#: The root attributes of a part, their copy, and the list of the parts that extend a store.
ROOT_FILE, COPY_FILE, PARTS_FILE = "zarr.json", f"{COMMITS}/zarr.json", f"{EXTENSIONS}/zarr.json"

#: The longest chunk of a column that describes cells, so that a large study is never in memory as a whole.
COLUMN_CHUNK = 65_536


@dataclass(frozen=True)
class ArrayAttributes:
    """The CF attributes of an array."""

    long_name: str
    units: str = "1"

    def as_dict(self) -> dict[str, JsonValue]:
        """Return the attributes as zarr takes them."""
        return {"long_name": self.long_name, "units": self.units}


#: The bounds, over the dimensions (cell, direction, compositions, epsilon).
BOUNDS: Mapping[str, ArrayAttributes] = {
    "delta_lower": ArrayAttributes("lower bound on delta(epsilon) after r-fold composition"),
    "delta_upper": ArrayAttributes("upper bound on delta(epsilon) after r-fold composition"),
    "log_delta_lower": ArrayAttributes("natural logarithm of the lower bound on delta(epsilon)"),
    "log_delta_upper": ArrayAttributes("natural logarithm of the upper bound on delta(epsilon)"),
}

#: Where the bounds meet within the tolerance, over the dimensions of the bounds.
WITHIN = "within_tolerance"

#: What a computed cell has once, over the dimension (cell).
COMPUTED: Mapping[str, ArrayAttributes] = {
    "factor_used": ArrayAttributes("factor f between the buckets of the leaf"),
    "loss_width": ArrayAttributes("width ln f of a bucket of the leaf, in nats"),
}

#: What identifies a cell beside its mechanism's label; text columns first.
TEXT_COLUMNS: Mapping[str, str] = {
    "mechanism": "label of the mechanism in the study",
    "kind": "kind of the mechanism",
    "noise": "family of the noise that is added, empty where none is",
    "reading": "how a noisy count is made a count, empty for other mechanisms",
}
COLUMNS: Mapping[str, str] = {
    **TEXT_COLUMNS,
    "scale": "scale of the noise (standard deviation of a Gaussian, b of a Laplace), in counts",
    "sensitivity": "sensitivity of the query, in counts",
    "rate": "sampling rate",
    "p": "probability of the true answer in randomized response",
    "mean": "mean of the noise, in counts",
    "shift": "difference of the true counts of neighbouring inputs",
    "truncate_low": "lower limit of the noise about its mean, in counts",
    "truncate_high": "upper limit of the noise about its mean, in counts",
    "pair_epsilon": "epsilon of an approximately differentially private mechanism, in nats",
    "pair_delta": "delta of an approximately differentially private mechanism",
    "factor": "factor between buckets that was asked for; not a number where chosen automatically",
}

#: The coordinates of the grids.
GRIDS: Mapping[str, ArrayAttributes] = {
    COMPOSITIONS: ArrayAttributes("number r of compositions"),
    EPSILON: ArrayAttributes("epsilon, in nats"),
    "exp_epsilon": ArrayAttributes("e to the power of epsilon"),
    DIRECTION: ArrayAttributes("direction of the hockey-stick divergence"),
}

_ENCODER = json.JSONEncoder(sort_keys=True)
_NOISE_OF_KIND = {
    "DiscreteGaussian": "DiscreteGaussian",
    "DiscreteLaplace": "DiscreteLaplace",
    "Gaussian": "Gaussian",
    "Laplace": "Laplace",
    "LaplaceSum": "LaplaceSum",
    "Poisson": "Poisson",
    "Staircase": "Staircase",
    "SubsampledGaussian": "Gaussian",
}
_NUMBERS = ("scale", "sensitivity", "rate", "p", "mean", "shift")


def result_names(settings: StudySpec, version: int) -> tuple[str, ...]:
    """Return the names of the arrays of results of a part; `WITHIN` only where the study has a tolerance."""
    within = version > STORE_FORMATS[0] and settings.sought is not None
    return (*BOUNDS, *([WITHIN] if within else []), *COMPUTED)


def part_name(number: int) -> str:
    """Return the path of a part that extends a store, numbered from 1."""
    return f"{EXTENSIONS}/{number:03d}"


def batch_group(index: int) -> str:
    """Return the path of the commit record of a batch."""
    return f"{COMMITS}/batch-{index:06d}"


def cell_group(index: int) -> str:
    """Return the path of the kept states of a cell."""
    return f"{STATES}/cell-{index:06d}"


def chunk_file(name: str, index: int) -> str:
    """Return the name of the file that holds the results of a batch in one array."""
    return f"{name}/c/{index}" if name in COMPUTED else f"{name}/c/{index}/0/0/0"


def cell_columns(cells: Sequence[Cell]) -> dict[str, list[str | float]]:
    """Return the columns of `COLUMNS`, and ``pair`` (the canonical form as JSON), each with one value a cell.

    A column that a mechanism does not have is empty text or NaN.
    """
    columns: dict[str, list[str | float]] = {
        name: ["" if name in TEXT_COLUMNS else math.nan] * len(cells) for name in COLUMNS
    }
    columns["pair"] = [""] * len(cells)
    for row, cell in enumerate(cells):
        form = cell.pair.canonical()
        columns["mechanism"][row], columns["kind"][row] = cell.label, form["mechanism"]
        if cell.factor is not None:
            columns["factor"][row] = cell.factor
        for name, value in _values(form).items():
            columns[name][row] = value
        columns["pair"][row] = _ENCODER.encode(form)
    return columns


def _values(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns that a canonical form fills, but label, kind and pair."""
    row: dict[str, str | float] = {}
    if form["mechanism"] == "WorstOf":
        return _shared_values(form)
    kind, noise, truncate = form["mechanism"], form.get("noise"), form.get("truncate")
    if kind in _NOISE_OF_KIND:
        row["noise"] = _NOISE_OF_KIND[kind]
    for name in _NUMBERS:
        value = form.get(name)
        if isinstance(value, int | float):
            row[name] = float(value)
    if kind == "LaplaceSum":
        # The larger one stands first.
        row["scale"] = float(form["scales"][0])
    if isinstance(form.get("reading"), str):
        row["reading"] = form["reading"]
    if truncate is not None:
        row["truncate_low"], row["truncate_high"] = (float(limit) for limit in truncate)
    if kind in ("ApproximateDP", "Staircase"):
        row["pair_epsilon"] = float(form["epsilon"])
    if kind == "ApproximateDP":
        row["pair_delta"] = float(form["delta"])
    if isinstance(noise, Mapping):
        # The sensitivity of a noisy count is its shift.
        row.update(_values({**noise, "sensitivity": None}))
        row["noise"] = noise["mechanism"]
    return row


def _shared_values(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns in which all factors of the worst of several pairs, as of a release plan, have one value."""
    rows = [_values(factor) for pair in form["pairs"] for factor in _factors(pair)]
    return {name: value for name, value in rows[0].items() if all(row.get(name) == value for row in rows)}


def _factors(form: Mapping[str, JsonValue]) -> list[Mapping[str, JsonValue]]:
    """Return the elementary pairs of a pair, or of a product, in canonical form."""
    if form["mechanism"] == "Reversed":
        return _factors(form["pair"])
    return [factor for part in form["pairs"] for factor in _factors(part)] if form["mechanism"] == "Product" else [form]
