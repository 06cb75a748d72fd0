"""An opened study: what its store holds, as a Dataset and as rows, and its answers to questions at any point."""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.arguments import check_direction
from pbdist.errors import InvalidInputError, StoreDamagedError, StoreUnreachableError, shown
from pbdist.mechanisms.columns import known_columns
from pbdist.notebook import html_of_fields
from pbdist.query.blocks import BOTH, BlockReader, about_rows, rows_of
from pbdist.query.lookup import Selection, selected
from pbdist.query.queries import Queries
from pbdist.store import Place, open_parts
from pbdist.store.layout import WITHIN
from pbdist.study.spec import missing_parts
from pbdist.types import Direction

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

    from pbdist.query.status import StudyContents

#: So many rows are made at once, but at least those of one cell.
_ROWS_AT_ONCE = 1 << 15


class Study(Queries):
    """A study in a store; of one that was extended, all of it. Made by `open_study`.

    Attributes
    ----------
    where
        The path or URL of the store.
    parts
        The parts of the store, in the order in which they were added.
    """

    def __repr__(self) -> str:
        """Return the name, the size and where it is."""
        spec = self.spec
        return (
            f"<Study {spec.name!r}: {len(spec.cells)} cells, {len(spec.compositions)} compositions, "
            f"{len(spec.epsilon)} epsilon, at {self.where}>"
        )

    def __str__(self) -> str:
        """Return what the store holds, as `pbdist query STORE` prints it."""
        return str(self.contents())

    def _repr_html_(self) -> str:
        """Return what is in the store, and whether all of it is, as a small table for notebooks."""
        parts = {} if len(self.parts) == 1 else {"parts": f"{len(self.parts)}"}
        try:
            results = "complete" if self.complete else "INCOMPLETE: pbdist status says what is missing"
        except OSError as error:
            results = f"not known: {error}"
        about = {"store": self.where, **self.spec.summary(), **parts, "digest": self.spec.digest[:16]}
        return html_of_fields(f"Study {self.spec.name}", {**about, "results": results})

    @cached_property
    def complete(self) -> bool:
        """Whether every part that the root lists is there, every batch is committed, and no cell has failed."""
        if not set(self.parts[0].extensions) <= {stored.part for stored in self.parts}:
            return False
        committed = all(stored.known_progress.complete for stored in self.parts)
        return committed and not missing_parts([stored.study for stored in self.parts], self.spec)

    @cached_property
    def bounds(self) -> "xr.Dataset":
        """The bounds, loaded chunk by chunk when their values are used; those of an extended store at once.

        ``delta_lower``, ``delta_upper``, ``log_delta_lower`` and ``log_delta_upper`` over the dimensions ``cell``,
        ``direction``, ``compositions`` and ``epsilon``, with ``factor_used`` and ``loss_width`` over ``cell``. Of a
        study with a tolerance ``within_tolerance`` tells where it is met, over the dimensions of the bounds. The
        parameters of the cells are the levels of one index, so that any of them selects::

            study.bounds.sel(mechanism="Laplace", scale=200.0, compositions=512, epsilon=0.1)

        ``exp_epsilon`` selects along ``epsilon`` too. A parameter that a mechanism does not have is empty text or not
        a number. What is not computed is not a number, and not within the tolerance.

        Raises
        ------
        StoreDamagedError
            The metadata or the coordinates in the store are not those of the study, or the values cannot be read.
        """
        # xarray takes half a second to import, and no look-up needs it.
        dataset = import_module("pbdist.query.dataset")
        try:
            bounds: xr.Dataset = dataset.bounds_of(self.checked)
        except (StoreUnreachableError, StoreDamagedError):
            raise
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            text = " ".join(str(error).split())[:200]
            raise StoreDamagedError(
                f"{self.where}: expected readable bounds, got: {text}: run the study again with --check"
            ) from error
        return bounds

    def contents(self) -> "StudyContents":
        """Return what the store holds: mechanisms, the values of their parameters, r and ε, and how complete it is.

        By a listing of now; checksums are not compared (``pbdist status --check`` does).
        """
        found: StudyContents = import_module("pbdist.query.status").contents_of(self)
        return found

    def frame(self, *, columns: Sequence[str] | None = None, direction: str = BOTH, **labels: Any) -> "pd.DataFrame":
        """Return stored points as a table of pandas, one row a point.

        Only what is asked for is read. ``study.frame(mechanism="Laplace", scale=[200, 400], compositions=512)`` has a
        row for each ε.

        Parameters
        ----------
        columns
            Which columns, in this order. By default all: ``cell`` (its number), ``setting`` (the cell in words), its
            parameters, ``factor_used``, ``loss_width``, ``direction``, ``compositions``, ``epsilon``, ``exp_epsilon``,
            ``delta_lower``, ``delta_upper``, ``log_delta_lower``, ``log_delta_upper``, ``within_tolerance`` where the
            study has a tolerance, and ``status``.
        direction
            ``"both"``: the larger of the two directions. ``"each"``: a row for A||B and one for B||A.
        **labels
            ``mechanism`` (the label) and any parameters, ``compositions``, and ``epsilon`` or ``exp_epsilon``: one
            value, or a list of which any counts.

        Returns
        -------
        DataFrame
            A bound that is not known is NaN, and ``status`` says why: ``missing`` (not computed), ``failed``,
            ``damaged``. ``upper only``: a release plan that no change is declared to attain has no lower bound. A
            parameter that a mechanism does not have is empty text or NaN. The natural logarithm of 0 is -inf.

        Raises
        ------
        OffGridError
            Nothing stored has these labels; the text says what is stored.
        InvalidInputError
            A label or a column is unknown.
        StoreDamagedError
            The stored values cannot be read.
        """
        check_direction(direction)
        known = self.row_columns
        names = tuple(known) if columns is None else tuple(columns)
        for name in names:
            if name not in known:
                raise InvalidInputError(f"columns: expected some of {', '.join(known)}, got {shown(name)}")
        chosen = selected(self.spec, labels)
        pieces = [{name: rows[name] for name in names} for rows in self.rows(chosen, direction)]
        # pandas comes with xarray, and takes a third of a second to import.
        frame: pd.DataFrame = import_module("pandas").DataFrame(
            {name: np.concatenate([piece[name] for piece in pieces]) for name in names}
        )
        return frame

    def select(self, *, direction: str = BOTH, **labels: Any) -> "xr.Dataset":
        """Return stored points as a Dataset over plain dimensions, as xarray plots it.

        Its dimensions are those parameters that tell the selected cells apart, ``compositions`` and ``epsilon``. One of
        which a single value was asked for is no dimension. So this draws a line for each scale::

            study.select(mechanism="Laplace", compositions=512).delta_upper.plot(x="epsilon", hue="scale", yscale="log")

        Arguments, errors and what is not known are as for `frame`, with ``status`` as a variable. Cells that are no
        grid over parameters are an `InvalidInputError`, whose text says what to give too.
        """
        check_direction(direction)
        chosen = selected(self.spec, labels)
        kept = [name for name in labels if name in known_columns() and name not in chosen.scalar]
        make = import_module("pbdist.query.dataset").selected_dataset
        dataset: xr.Dataset = make(self.blocks, self.spec, chosen, direction, kept)
        return dataset

    @cached_property
    def row_columns(self) -> Mapping[str, str]:
        """The columns of `frame`, and of an export with a row for each point, and what each holds."""
        found = about_rows(self.spec.cells)
        return {
            name: what for name, what in found.items() if name != WITHIN or self.spec.required_tolerance is not None
        }

    def rows(self, chosen: Selection, direction: str) -> Iterator[dict[str, Any]]:
        """Yield chosen points as columns; of some cells at a time, so that few are in memory."""
        inner = len(Direction) * len(self.spec.compositions) * len(self.spec.epsilon)
        length = max(1, _ROWS_AT_ONCE // inner)
        for start in range(0, len(chosen.cells), length):
            block = self.blocks.read(chosen.cells[start : start + length])
            yield rows_of(block, self.spec, chosen.compositions, chosen.epsilon, direction, names=self.row_columns)

    @cached_property
    def blocks(self) -> BlockReader:
        """What reads the points of some cells."""
        return BlockReader(self.checked)


def open_study(where: str | Path | Place) -> Study:
    """Open the store of a study for reading: a path, or a URL ``s3://BUCKET/PREFIX``.

    Raises
    ------
    NotAStoreError
        `where` is not a pbdist store.
    StoreFormatError
        It was written in another format version.
    StoreDamagedError
        The study in it cannot be read.
    """
    return Study(open_parts(where))
