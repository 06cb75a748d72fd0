"""What a plot is made of: the settings that are chosen of Datasets and studies, with their bounds on ln δ."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, StoreDamagedError, StoreUnreachableError, shown
from pbdist.mechanisms import Pair, pair_from_canonical
from pbdist.mechanisms.columns import is_text, known_columns
from pbdist.query import Study
from pbdist.query.settings import matches
from pbdist.query.stored import NOT_COMPUTED
from pbdist.store.layout import CELL
from pbdist.types import COMPOSITIONS, DIRECTION, EPSILON, Adjacency, FloatArray, IntArray

#: A Dataset of bounds, or an opened study.
Source: TypeAlias = xr.Dataset | Study
#: One of them, or several with their names.
Sources: TypeAlias = xr.Dataset | Study | Mapping[str, xr.Dataset | Study]
#: More curves cannot be told apart.
MAX_CURVES = 12


@dataclass(frozen=True, eq=False)
class StoredSetting:
    """One noise setting and its bounds."""

    #: The parameters that it has, by the names of a store's columns; ``study`` where there are several sources.
    columns: Mapping[str, float | str]
    #: The canonical form of the pair as JSON; empty where it is not known.
    pair: str
    #: Whether a lower bound can be known.
    attained: bool
    #: Whether the masses of its pair sum to 1, so that δ is at most 1 at e^ε = 0.
    exact_masses: bool
    #: ``both`` for the larger direction, or the names of those that are kept apart.
    directions: tuple[str, ...]
    compositions: IntArray
    epsilon: FloatArray
    #: Natural logarithms; NaN where nothing is computed. The lower ones are NaN too where none can be known.
    log_lower: FloatArray
    log_upper: FloatArray
    #: Why points are missing; empty where none is.
    gap: str
    #: Where it is from, of a study.
    study: Study | None = None
    cell: int = -1
    #: For which neighbours it is; of a Dataset that does not say it, what its pair says, if that is known.
    adjacency: Adjacency = Adjacency.AS_STATED

    @cached_property
    def asked(self) -> dict[str, Any]:
        """The parameters that name it in a question to its study."""
        return {name: value for name, value in self.columns.items() if name in known_columns() and name != "mechanism"}


def chosen(
    bounds: Sources,
    *,
    mechanism: str | None = None,
    noise: Mapping[str, Any] | None = None,
    direction: str = "both",
    most: int = MAX_CURVES,
) -> list[StoredSetting]:
    """Return the settings of one or several sources that have a label and parameters, with their bounds.

    Raises
    ------
    InvalidInputError
        There are none, or more than `most`; or a Dataset has no bounds on δ.
    StoreDamagedError
        The values cannot be read.
    """
    if direction not in ("both", "each"):
        raise InvalidInputError(f"direction: expected 'both' or 'each', got {shown(direction)}")
    sources = named(bounds)
    several = len(sources) > 1
    picked = [(name, source, *_rows(source, mechanism, noise or {}, several=several)) for name, source in sources]
    count = sum(rows.size for *_, rows, _ in picked)
    if not count:
        labels = dict.fromkeys(str(label) for *_, columns in picked for label in columns["mechanism"])
        raise InvalidInputError(f"mechanism: expected one of {', '.join(labels) or 'none'}, got {shown(mechanism)}")
    if count > most:
        telling = sorted(
            {
                name
                for *_, rows, columns in picked
                for name in set(known_columns()) & set(columns) - {"kind"}
                if len({_said(value) for value in columns[name][rows]}) > 1
            }
        )
        raise InvalidInputError(
            f"mechanism: expected at most {most} settings in one plot, got {count}: choose by"
            f" {', '.join(telling) or 'another store'}"
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


def _rows(
    source: Source, mechanism: str | None, noise: Mapping[str, Any], *, several: bool
) -> tuple[IntArray, dict[str, Any]]:
    """Return the cells that are chosen, and the columns of all."""
    columns = _columns(source.bounds if isinstance(source, Study) else source)
    unknown = [name for name in noise if name not in known_columns() or name == "mechanism"]
    if unknown:
        known = ", ".join(name for name in known_columns() if name != "mechanism")
        raise InvalidInputError(f"{unknown[0]}: expected one of {known}, got an unknown parameter")
    rows = np.arange(len(columns["mechanism"]))
    if mechanism is not None:
        rows = rows[columns["mechanism"] == mechanism]
        if not rows.size and not several:
            labels = ", ".join(dict.fromkeys(map(str, columns["mechanism"])))
            raise InvalidInputError(f"mechanism: expected one of {labels or 'none'}, got {shown(mechanism)}")
    for name, wanted in noise.items():
        before = columns[name][rows] if name in columns else np.full(rows.size, "" if is_text(name) else math.nan)
        values = wanted if isinstance(wanted, list | tuple | np.ndarray) else [wanted]
        rows = rows[np.any([matches(name, before, value) for value in values], axis=0)]
        if not rows.size and before.size and not several:
            there = ", ".join(dict.fromkeys(_said(value) for value in before if _plain(value) is not None))
            raise InvalidInputError(f"{name}: expected one of {there or 'none'}, got {', '.join(map(shown, values))}")
    return rows, columns


def _columns(dataset: xr.Dataset) -> dict[str, Any]:
    """Return the columns that name the cells, each with one value a cell; of a Dataset without cells one row."""
    unknown = [str(name) for name in dataset.dims if name not in (CELL, DIRECTION, COMPOSITIONS, EPSILON)]
    if "log_delta_upper" not in dataset or EPSILON not in dataset.coords or COMPOSITIONS not in dataset.coords:
        raise InvalidInputError("bounds: expected log_delta_lower and log_delta_upper over compositions and epsilon")
    if unknown:
        raise InvalidInputError(f"bounds: expected the dimensions of bounds on δ, got {unknown[0]}")
    size = dataset.sizes.get(CELL, 1)
    columns: dict[str, Any] = {}
    for name in (*known_columns(), "pair"):
        text = is_text(name)
        if name not in dataset.coords and name not in ("mechanism", "kind", "noise", "factor", "pair"):
            continue
        values = dataset[name].values if name in dataset.coords else np.array("" if text else math.nan)
        values = values.astype(object) if text else values.astype(np.float64)
        columns[name] = np.broadcast_to(values, (size,))
    return columns


def _settings(
    source: Source, rows: IntArray, columns: Mapping[str, Any], name: str, direction: str
) -> Iterator[StoredSetting]:
    gaps = source.gaps(rows.tolist()) if isinstance(source, Study) else {}
    whole = source.bounds if isinstance(source, Study) else source
    dataset = whole if CELL in whole.dims else whole.expand_dims(CELL)
    # The Dataset of several parts has sound values alone; of one part a cell with a gap is not read.
    sound = not isinstance(source, Study) or len(source.parts) > 1
    for row in rows.tolist():
        told = {column: _plain(columns[column][row]) for column in known_columns() if column in columns}
        form = str(columns["pair"][row])
        here = {column: value for column, value in told.items() if value is not None}
        one = dataset.isel({CELL: row})
        lower, upper = _values(one, unread=row in gaps and not sound)
        pair = pair_from_canonical(json.loads(form)) if form else None
        if pair is not None and not pair.attained_by_some:
            lower = np.full_like(lower, np.nan)
        directions: tuple[str, ...] = ("both",)
        if direction == "each":
            if DIRECTION not in one.dims:
                raise InvalidInputError(
                    "direction: expected bounds of both directions for 'each', got one of the larger"
                )
            directions = tuple(map(str, one[DIRECTION].values))
        else:
            # NaN in either direction is NaN in the maximum.
            lower, upper = (values.max(axis=0, keepdims=True) for values in (lower, upper))
        yield StoredSetting(
            columns={**({"study": name} if name else {}), **here},
            pair=form,
            attained=pair is None or pair.attained_by_some,
            exact_masses=bool(form) and "Histogram" not in form,
            directions=directions,
            compositions=np.atleast_1d(one[COMPOSITIONS].values),
            epsilon=np.atleast_1d(one[EPSILON].values).astype(np.float64),
            log_lower=lower,
            log_upper=upper,
            gap=gaps.get(row, NOT_COMPUTED if np.isnan(upper).any() else ""),
            study=source if isinstance(source, Study) else None,
            cell=row,
            adjacency=_adjacency(source, row, str(columns["mechanism"][row]), pair),
        )


def _adjacency(source: Source, row: int, label: str, pair: Pair | None) -> Adjacency:
    """Return for which neighbours a setting is, as far as its source tells."""
    if isinstance(source, Study):
        return source.spec.neighbours_of(source.spec.cells[row])
    told = source.attrs.get("adjacency", "")
    # A selection of a store's bounds has one relation for each label.
    of_label = dict(part.split(": ", 1) for part in told.split("; ") if ": " in part)
    word = of_label.get(label, told)
    if word in {one.value for one in Adjacency}:
        return Adjacency(word)
    return Adjacency.AS_STATED if pair is None else pair.adjacency


def _values(one: xr.Dataset, *, unread: bool) -> tuple[FloatArray, FloatArray]:
    """Return lower and upper bounds on ln δ of one cell over (direction, r, ε)."""
    full = one
    for name in (EPSILON, COMPOSITIONS, DIRECTION):
        if name not in full.dims:
            full = full.expand_dims(name)
    order = (DIRECTION, COMPOSITIONS, EPSILON)
    shape = tuple(full.sizes[name] for name in order)
    if unread:
        return np.full(shape, np.nan), np.full(shape, np.nan)
    try:
        lower, upper = (
            full[f"log_delta_{side}"].transpose(*order).values.astype(np.float64) for side in ("lower", "upper")
        )
    except StoreUnreachableError:
        raise
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        text = " ".join(str(error).split())[:200]
        problem = f"bounds: expected readable bounds, got: {text}: run the study again with --check"
        raise StoreDamagedError(problem) from error
    return lower, upper


def _plain(value: Any) -> float | str | None:
    """Return a parameter; None where the mechanism does not have it."""
    if isinstance(value, str):
        return value or None
    return None if math.isnan(value) else float(value)


def _said(value: Any) -> str:
    plain = _plain(value)
    return "none" if plain is None else plain if isinstance(plain, str) else f"{plain:.10g}"


def one_of(values: Sequence[float], wanted: float, name: str) -> int:
    """Return the index of a stored number, to 4 ulp; others are refused with what there is."""
    stored = np.asarray(values, dtype=np.float64)
    index = int(np.argmin(np.abs(stored - wanted)))
    if abs(stored[index] - wanted) > 4.0 * np.spacing(abs(wanted)):
        there = ", ".join(f"{value:.10g}" for value in stored[:12]) + (", .." if stored.size > 12 else "")
        raise InvalidInputError(f"{name}: expected one of {there}, got {shown(wanted)}")
    return index
