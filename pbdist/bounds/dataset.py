"""Datasets of bounds that print as tables; xarray itself prints four digits, rounded to nearest."""

import math

import numpy as np
import xarray as xr

from pbdist.results import NONE_MEETS, bound_cell, no_epsilon_meets
from pbdist.tables import Cell, Column, Printed, Sheet, text_of

#: The most rows that are printed, and the most letters of a coordinate in them.
_ROWS, _LETTERS = 40, 40


class Bounds(Printed, xr.Dataset):  # type: ignore[no-untyped-call]
    """A Dataset whose bounds are rounded outwards in print: a row for each point, a column for each variable."""

    __slots__ = ()

    @property
    def sheet(self) -> Sheet:
        """The first points, with the coordinates in which they differ; those that all share are in the caption."""
        size = math.prod(self.sizes.values())
        rows = min(size, _ROWS)
        places = np.unravel_index(np.arange(rows), tuple(self.sizes.values())) if self.sizes else ()
        chosen = {name: xr.Variable("row", place) for name, place in zip(self.sizes, places, strict=True)}
        parts = {str(name): one.isel({dim: chosen[dim] for dim in one.dims}) for name, one in self.variables.items()}
        found = {name: np.broadcast_to(part.values, rows) for name, part in parts.items()}
        nothing = np.zeros(rows)
        none = no_epsilon_meets(found.get("epsilon_lower", nothing), found.get("epsilon_upper", nothing))
        substitutes = np.where(none, NONE_MEETS, "").tolist()
        coordinates: dict[Column, list[Cell]] = {}
        bounds: dict[Column, list[Cell]] = {}
        about = []
        for name, values in found.items():
            cells: list[Cell] = values.tolist()
            if name.endswith(("lower", "upper")):
                cells = [bound_cell(name, *each) for each in zip(values.tolist(), substitutes, strict=True)]
            texts = {*map(text_of, cells)}
            column = Column(name, name, number=values.dtype.kind in "iuf")
            if name not in self.coords and texts != {""}:
                bounds[column] = cells
            elif any(len(text) > _LETTERS for text in texts):
                continue
            elif len({*map(text_of, self[name].values.reshape(-1).tolist())}) > 1 or self.sizes.get(name, 1) > 1:
                coordinates[column] = cells
            else:
                about += [f"{name}: {text}" for text in texts if text]
        columns = coordinates | bounds
        sizes = ", ".join(f"{name}: {number:,}" for name, number in self.sizes.items() if number != 1)
        about += [f"{name}: {value}" for name, value in self.attrs.items() if value is not None]
        notes = (f"{size - rows:,} more rows",) if size > rows else ()
        return Sheet(
            tuple(columns),
            tuple(zip(*columns.values(), strict=True)),
            (f"Bounds ({sizes})" if sizes else "Bounds", *about),
            notes,
        )
