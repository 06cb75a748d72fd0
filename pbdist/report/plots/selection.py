"""The data of plots: settings that are chosen from Datasets and studies, and curves of bounds."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import Pair, pair_from_canonical
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query import Study
from pbdist.query.dataset import coordinates_of
from pbdist.query.settings import cells_with, check_names, is_set, telling
from pbdist.query.stored import NOT_COMPUTED
from pbdist.store.layout import CELL
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Adjacency, FloatArray, IntArray

#: A Dataset of bounds, or an opened study.
Source: TypeAlias = xr.Dataset | Study
#: One of them, or several with their names.
Sources: TypeAlias = xr.Dataset | Study | Mapping[str, xr.Dataset | Study]
#: More curves cannot be distinguished.
MAX_CURVES = 12
_GRIDS = (DIRECTION, COMPOSITIONS, EPSILON)
_BOUNDS = ("log_delta_lower", "log_delta_upper")


@dataclass(frozen=True, eq=False)
class Curve:
    """Bounds along one axis of a plot; NaN where they are missing, and lower ones also where none is known."""

    columns: Mapping[str, Any]
    places: Any
    lower: FloatArray
    upper: FloatArray
    #: Why points are missing.
    gap: str = ""
    #: Whether a lower bound can be known.
    attained: bool = True
    adjacency: Adjacency = Adjacency.AS_STATED
    #: Whether the masses of its pair sum to 1, so that δ is at most 1 at e^ε = 0.
    exact_masses: bool = False


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """One noise setting and its bounds on ln δ over (directions, r, ε)."""

    #: Its parameters by the names of a store's columns; ``study`` where there are several sources.
    columns: Mapping[str, float | str]
    #: None where it is not known.
    pair: Pair | None
    #: ``both`` for the larger direction, or the names of the two.
    directions: tuple[str, ...]
    compositions: IntArray
    epsilon: FloatArray
    #: NaN where nothing is computed; the lower ones also where none can be known.
    log_lower: FloatArray
    log_upper: FloatArray
    #: Why points are missing; empty where none is.
    gap: str
    #: The study that it is from, if any.
    study: Study | None
    adjacency: Adjacency

    @property
    def attained(self) -> bool:
        """Whether a lower bound can be known."""
        return self.pair is None or self.pair.attained_by_some

    @cached_property
    def query(self) -> dict[str, Any]:
        """The arguments that name it in queries of its study."""
        names = {"mechanism", *known_columns()}
        return {name: value for name, value in self.columns.items() if name in names}

    def curve(self, places: Any, lower: FloatArray, upper: FloatArray, **columns: Any) -> Curve:
        """Return a curve of its bounds; `columns` are more parameters of the curve."""
        exact = self.pair is not None and "Histogram" not in str(self.pair.canonical())
        return Curve({**self.columns, **columns}, places, lower, upper, self.gap, self.attained, self.adjacency, exact)


def chosen(
    bounds: Sources, *, mechanism: str | None = None, noise: Mapping[str, Any] | None = None, direction: str = "both"
) -> list[StoredSetting]:
    """Return the settings of sources that have a label and parameters, with their bounds: 1 to `MAX_CURVES`."""
    if direction not in ("both", "each"):
        raise InvalidInputError(f"direction: expected 'both' or 'each', got {shown(direction)}")
    sources = named(bounds)
    wanted = {**({} if mechanism is None else {"mechanism": mechanism}), **(noise or {})}
    check_names(noise or {}, [name for name in known_columns() if name != "mechanism"])
    picked: list[tuple[str, Source, IntArray, dict[str, Any]]] = []
    missing: list[str] = []
    for name, source in sources:
        columns = _columns(source.bounds if isinstance(source, Study) else source)
        try:
            picked.append((name, source, cells_with(partial(_column, columns), wanted), columns))
        except OffGridError as error:
            missing.append(f"{error}, in {name}" if name else str(error))
    count = sum(rows.size for _, _, rows, _ in picked)
    if missing and not count:
        raise OffGridError("; ".join(missing))
    if not count:
        raise InvalidInputError("bounds: expected at least one noise setting, got none")
    if count > MAX_CURVES:
        cells = ({name: values[rows] for name, values in columns.items()} for *_, rows, columns in picked)
        names = {name for one in cells for name in telling(one, len(one["mechanism"]))} - {"kind"}
        raise InvalidInputError(
            f"mechanism: expected at most {MAX_CURVES} settings in one plot, got {count}: choose by"
            f" {', '.join(sorted(names)) or 'another store'}"
        )
    return [
        setting
        for name, source, rows, columns in picked
        for setting in _settings(source, rows, columns, name, direction)
    ]


def named(bounds: Sources) -> list[tuple[str, Source]]:
    """Return sources with their names."""
    several = isinstance(bounds, Mapping) and not isinstance(bounds, xr.Dataset)
    sources: list[tuple[str, Any]] = list(bounds.items()) if several else [("", bounds)]  # type: ignore[arg-type, union-attr]
    for _, source in sources:
        if not isinstance(source, xr.Dataset | Study):
            raise InvalidInputError(f"bounds: expected a Dataset or an opened study, got {shown(source)}")
    if not sources:
        raise InvalidInputError("bounds: expected at least one Dataset or study, got none")
    return sources


def opened(study: Any) -> Study:
    """Return an opened study; anything else is refused."""
    if not isinstance(study, Study):
        raise InvalidInputError(f"study: expected an opened study, got {shown(study)}")
    return study


def _column(columns: Mapping[str, Any], name: str) -> Any:
    return columns[name] if name in columns else np.full(len(columns["mechanism"]), "" if is_text(name) else math.nan)


def _columns(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the columns that name the cells, each with one value a cell; of a Dataset without cells one row."""
    unknown = [str(name) for name in dataset.dims if name not in (CELL, *_GRIDS)]
    if "log_delta_upper" not in dataset or EPSILON not in dataset.coords or COMPOSITIONS not in dataset.coords:
        raise InvalidInputError("bounds: expected log_delta_lower and log_delta_upper over compositions and epsilon")
    if unknown:
        raise InvalidInputError(f"bounds: expected the dimensions of bounds on δ, got {unknown[0]}")
    columns: dict[str, Any] = {}
    for name in (*known_columns(), "pair"):
        if name in dataset.coords or name in ("mechanism", "kind", "noise", "factor", "pair"):
            values: Any = dataset[name].values if name in dataset.coords else "" if is_text(name) else math.nan
            typed = np.asarray(values, dtype=object if is_text(name) else np.float64)
            columns[name] = np.broadcast_to(typed, (dataset.sizes.get(CELL, 1),))
    return columns


def _settings(
    source: Source, rows: IntArray, columns: Mapping[str, Any], name: str, direction: str
) -> Iterator[StoredSetting]:
    study, gaps, full = None, {}, source
    if isinstance(source, Study):
        study, gaps = source, source.gaps(rows.tolist())
        block, coordinates = source.checked.read(rows), coordinates_of(replace(source.spec, cells=()))
        bounds = {name: ((CELL, *_GRIDS), block.values[name]) for name in _BOUNDS}
        full = xr.Dataset(bounds, {one: coordinates[one] for one in _GRIDS})
    elif DIRECTION not in source.dims and direction == "each":
        raise InvalidInputError("direction: expected bounds of both directions for 'each', got one of the larger")
    else:
        full = source.expand_dims([one for one in (CELL, *_GRIDS) if one not in source.dims])
        full = full[[*_BOUNDS]].isel({CELL: rows}).transpose(CELL, *_GRIDS)
    stored = [full[name].values.astype(np.float64) for name in _BOUNDS]
    if direction == "both":
        # NaN in either direction is NaN in the maximum.
        stored = [values.max(axis=1, keepdims=True) for values in stored]
    for row, lower, upper in zip(rows.tolist(), *stored, strict=True):
        form = str(columns["pair"][row])
        pair = pair_from_canonical(json.loads(form)) if form else None
        unattained = pair is not None and not pair.attained_by_some
        values = {name: columns[name][[row]].tolist()[0] for name in known_columns() if name in columns}
        yield StoredSetting(
            columns={
                **({"study": name} if name else {}),
                **{name: value for name, value in values.items() if is_set(value)},
            },
            pair=pair,
            directions=("both",) if direction == "both" else tuple(map(str, full[DIRECTION].values)),
            compositions=full[COMPOSITIONS].values,
            epsilon=full[EPSILON].values.astype(np.float64),
            log_lower=np.full_like(lower, np.nan) if unattained else lower,
            log_upper=upper,
            gap=gaps.get(row, NOT_COMPUTED if np.isnan(upper).any() else ""),
            study=study,
            adjacency=_adjacency(source, row, str(columns["mechanism"][row]), pair),
        )


def _adjacency(source: Source, row: int, label: str, pair: Pair | None) -> Adjacency:
    """Return for which neighbours a setting is, as far as its source says."""
    if isinstance(source, Study):
        return source.spec.neighbours_of(source.spec.cells[row])
    attribute = source.attrs.get("adjacency", "")
    # A selection of a store's bounds has one relation for each label.
    of_label = dict(part.split(": ", 1) for part in attribute.split("; ") if ": " in part)
    word = of_label.get(label, attribute)
    if word in {one.value for one in Adjacency}:
        return Adjacency(word)
    return Adjacency.AS_STATED if pair is None else pair.adjacency


def row_of(stored: Sequence[int], r: int) -> int:
    """Return the index of a stored number of rounds; others are refused with what there is."""
    if r not in stored:
        known = ", ".join(map(str, stored[:12])) + (", .." if len(stored) > 12 else "")
        raise InvalidInputError(f"compositions: expected one of {known}, got {shown(r)}")
    return stored.index(r)
