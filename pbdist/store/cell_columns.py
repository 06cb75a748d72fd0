"""The columns that describe cells, from the canonical forms of their pairs. See docs/store-format.md."""

import json
import math
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence

from pbdist.mechanisms import Pair
from pbdist.store.column_texts import composite_text, list_text
from pbdist.store.layout import COLUMNS, OPTIONAL_COLUMNS, TEXT_COLUMNS
from pbdist.study import Cell
from pbdist.study.grid_cells import LazyCells
from pbdist.study.grid_columns import columns_of_pairs, texts_of_pairs
from pbdist.study.pair_grid import encoder_of_forms
from pbdist.study.spec import KnownCells
from pbdist.types import JsonValue

_ENCODER = json.JSONEncoder(sort_keys=True)
#: The same for parameters that are pairs.
_FORMS = encoder_of_forms()
_NOISE_OF_KIND = {
    "DiscreteGaussian": "DiscreteGaussian",
    "DiscreteLaplace": "DiscreteLaplace",
    "FixedBatchGaussian": "Gaussian",
    "Gaussian": "Gaussian",
    "GaussianMixture": "Gaussian",
    "Laplace": "Laplace",
    "LaplaceSum": "LaplaceSum",
    "Poisson": "Poisson",
    "RandomAllocation": "Gaussian",
    "Staircase": "Staircase",
    "SubsampledGaussian": "Gaussian",
    "SubsampledGaussianGroup": "Gaussian",
    "SubsampledLaplace": "Laplace",
    "TruncatedPoissonGaussian": "Gaussian",
}
#: Parameters that are numbers, in columns of their names.
_NUMBERS = (
    *("scale", "sensitivity", "rate", "p", "k", "mean", "shift", "eta"),
    *("group_size", "steps", "batch", "examples", "split"),
)
#: Parameters that are lists, and the columns of their texts. A histogram's masses have names of numbers of others.
_LISTS = {
    "GaussianMixture": {"shifts": "shifts", "weights": "weights"},
    "Histogram": {"p": "pair_p", "q": "pair_q"},
}
#: The columns of `OPTIONAL_COLUMNS` that every pair of a kind fills. The worst of several pairs fills also those in
#: which its factors agree.
OPTIONAL_OF_KIND: Mapping[str, tuple[str, ...]] = {
    "FixedBatchGaussian": ("batch", "examples"),
    "GaussianMixture": ("shifts", "weights"),
    "Histogram": ("pair_p", "pair_q"),
    "LaplaceSum": ("second_scale",),
    "Product": ("made_of",),
    "RandomAllocation": ("steps",),
    "Reversed": ("made_of",),
    "Staircase": ("split",),
    "SubsampledGaussianGroup": ("group_size",),
    "TruncatedPoissonGaussian": ("batch", "examples"),
    "TruncatedPoissonUpper": ("batch", "examples"),
    "WorstOf": ("made_of",),
}
#: Kinds that are made of others.
_COMPOSITE = ("Product", "Reversed", "WorstOf")


class DescribedCells(KnownCells):
    """Cells of which it is known, without making all of them, which parameters they have."""

    @property
    @abstractmethod
    def optional(self) -> tuple[str, ...]:
        """The columns of `OPTIONAL_COLUMNS` that any cell fills, in their order."""


def absent(name: str) -> str | float:
    """Return what stands in a column of `COLUMNS` for a parameter that a mechanism does not have."""
    return "" if name in TEXT_COLUMNS else math.nan


def optional_of(pair: Pair) -> set[str]:
    """Return the columns of `OPTIONAL_COLUMNS` that a pair fills."""
    kind = type(pair).__name__
    found = set(OPTIONAL_OF_KIND.get(kind, ()))
    if kind == "WorstOf":
        found |= {*_shared_values(pair.canonical())} & {*OPTIONAL_COLUMNS}
    return found


def optional_columns(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the columns of `OPTIONAL_COLUMNS` that any of some cells fills, in their order; few cells are made."""
    if isinstance(cells, DescribedCells):
        return cells.optional
    found: set[str] = set()
    if isinstance(cells, LazyCells):
        for piece in cells.pieces():
            kind = piece.grid.pairs.kind
            if kind is None or kind.__name__ == "WorstOf":
                found.update(*(optional_of(piece.grid.cell(row).pair) for row in piece.rows.tolist()))
            else:
                found.update(OPTIONAL_OF_KIND.get(kind.__name__, ()))
    else:
        for cell in cells:
            if type(cell.pair).__name__ in OPTIONAL_OF_KIND:
                found |= optional_of(cell.pair)
    return tuple(name for name in OPTIONAL_COLUMNS if name in found)


def column_names(cells: Sequence[Cell]) -> tuple[str, ...]:
    """Return the columns of `COLUMNS` that describe some cells: of `OPTIONAL_COLUMNS` those that any of them fills."""
    found = optional_columns(cells)
    return tuple(name for name in COLUMNS if name not in OPTIONAL_COLUMNS or name in found)


def cell_columns(cells: Sequence[Cell], also: Collection[str] = ()) -> dict[str, list[str | float]]:
    """Return the columns of `COLUMNS`, and ``pair`` (the canonical form as JSON), each with one value a cell.

    A column that a mechanism does not have is empty text or NaN. Of `OPTIONAL_COLUMNS` there are those that any of the
    cells fills, and those in `also`.
    """
    columns: dict[str, list[str | float]] = {}
    count = 0
    for rows, found in _pieces(cells):
        for name in (*COLUMNS, "pair"):
            values = found.get(name)
            if name in OPTIONAL_COLUMNS and name not in columns:
                if name not in also and (values is None or all(value is None for value in values)):
                    continue
                columns[name] = [absent(name)] * count
            none = absent(name)
            columns.setdefault(name, []).extend(
                [none] * rows if values is None else [none if value is None else value for value in values]
            )
        count += rows
    if not count:
        columns = {name: [] for name in (*COLUMNS, "pair") if name not in OPTIONAL_COLUMNS or name in also}
    return {name: columns[name] for name in (*COLUMNS, "pair") if name in columns}


def _pieces(cells: Sequence[Cell]) -> Iterator[tuple[int, Mapping[str, Sequence[str | float | None]]]]:
    """Yield for some cells after others how many they are, and their columns; None where one has no value."""
    if isinstance(cells, LazyCells):
        yield from _pieces_of_grids(cells)
    elif len(cells):
        rows = [_row(cell) for cell in cells]
        yield (
            len(rows),
            {name: [row.get(name) for row in rows] for name in dict.fromkeys(k for row in rows for k in row)},
        )


def _row(cell: Cell) -> dict[str, str | float]:
    form = cell.pair.canonical()
    row = row_of(form) | {"mechanism": cell.label, "pair": _ENCODER.encode(form)}
    return row if cell.factor is None else row | {"factor": cell.factor}


def _pieces_of_grids(cells: LazyCells) -> Iterator[tuple[int, Mapping[str, Sequence[str | float | None]]]]:
    """Yield the same for cells from grids, most of which are not made."""
    for piece in cells.pieces():
        found: dict[str, list[str | float | None]] = {**columns_of_pairs(piece, _described)}
        factors = piece.grid.places(piece.rows)[-1].tolist()
        found["mechanism"] = [piece.grid.label] * piece.rows.size
        found["factor"] = [piece.grid.factors[place] for place in factors]
        texts = [*texts_of_pairs(piece, _FORMS)]
        found["pair"] = [*texts]
        if {*found["kind"]} & {*_COMPOSITE}:
            # From the texts: no pair is made for it.
            found["made_of"] = [
                composite_text(json.loads(text)) if kind in _COMPOSITE else None
                for kind, text in zip(found["kind"], texts, strict=True)
            ]
        yield piece.rows.size, found


def _described(pair: Pair) -> dict[str, str | float]:
    """Return the columns that a pair fills, but its own, and what it is made of."""
    form = pair.canonical()
    return {"kind": form["mechanism"], **_values(form)}


def row_of(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns that a canonical form fills, but label, factor and pair."""
    made = {"made_of": composite_text(form)} if form["mechanism"] in _COMPOSITE else {}
    return {"kind": form["mechanism"], **_values(form), **made}


def _values(form: Mapping[str, JsonValue]) -> dict[str, str | float]:
    """Return the columns that a canonical form fills, but label, kind, pair and what it is made of."""
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
    row |= {column: list_text(form[name]) for name, column in _LISTS.get(kind, {}).items()}
    if kind == "FixedBatchGaussian":
        row["rate"] = float(form["batch"]) / float(form["examples"])
    if kind == "LaplaceSum":
        # The larger one stands first.
        row["scale"], row["second_scale"] = map(float, form["scales"])
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
