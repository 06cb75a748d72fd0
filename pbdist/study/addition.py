"""What a study file with ``extend: true`` adds to a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pbdist.errors import StoreMismatchError
from pbdist.study.extension import COMMON, union_of
from pbdist.study.models import TargetModel
from pbdist.study.neighbours import check_stated
from pbdist.study.spec import Cell, Stated, StudySpec
from pbdist.study.targets import with_targets


@dataclass(frozen=True)
class Addition:
    """Cells and grids of a file that holds only what is new; what it does not name is as in the store.

    Attributes
    ----------
    name, description
        As of a study; the name names the default store.
    cells, compositions, epsilon
        As of a study, or None.
    targets
        The targets; their r and ε are added to those of the file.
    adjacency
        What is stated of the neighbours of its mechanisms; of labels that it says nothing of, it is as in the store.
    given
        The settings of the file that all parts of a store share, by their fields.
    plans, numbers
        Whether some of the cells are release plans; whether some have a number as their factor.
    """

    name: str
    description: str | None
    cells: Sequence[Cell] | None
    compositions: tuple[int, ...] | None
    epsilon: tuple[float, ...] | None
    targets: tuple[TargetModel, ...]
    adjacency: Stated
    given: Mapping[str, Any]
    plans: bool
    numbers: bool

    def onto(self, studies: Sequence[StudySpec]) -> StudySpec:
        """Return the study whose points a store is to have, besides those of the stored `studies`: at least one.

        Guaranteed: once a store has them, the file adds nothing more to it.

        Raises
        ------
        StoreMismatchError
            The file has other settings than the store, or cells that these settings do not allow.
        """
        stored = union_of(studies)
        for field, value in self.given.items():
            if value != getattr(stored, field):
                raise StoreMismatchError(f"{field}: expected {getattr(stored, field)!r} as in the store, got {value!r}")
        self._check_cells(stored)
        told = {**dict(stored.adjacency), **dict(self.adjacency)}
        if self.cells is not None and told:
            check_stated(self.cells, told)
        common: dict[str, Any] = {field: getattr(stored, field) for field in COMMON}
        bare = StudySpec(
            name=self.name,
            description=self.description,
            cells=stored.cells if self.cells is None else self.cells,
            compositions=self.compositions or stored.compositions,
            epsilon=self.epsilon or stored.epsilon,
            adjacency=tuple(sorted(told.items())),
            **common,
        )
        return with_targets(bare, self.targets)

    def _check_cells(self, stored: StudySpec) -> None:
        """Refuse cells that a study with the settings of the store could not have."""
        if self.plans and (stored.method != "tight" or stored.keep_states):
            kept = ", keep_states: true" if stored.keep_states else ""
            raise StoreMismatchError(
                f"mechanisms: expected no ReleasePlan in a store of method {stored.method}{kept}, got one"
            )
        if self.numbers and stored.method == "tight" and stored.buckets is not None:
            raise StoreMismatchError("factors: expected auto in a store of method tight with buckets, got a number")
