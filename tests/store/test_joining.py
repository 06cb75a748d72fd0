"""A shard is joined step by step: after a kill at any of them, and for who reads meanwhile, no batch is lost."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from pbdist.run.batch import cell_bounds
from pbdist.store import BatchWriter, PartHead, PartResults, StoredStudy, join_shard, open_store, survey
from pbdist.store.create import new_skeleton, write_skeleton
from pbdist.store.layout import BOUNDS
from pbdist.study import Plan, load_study, plan_study
from pbdist.types import FloatArray
from tests.store.memory_place import MemoryPlace
from tests.studies import write_study

BATCHES = range(3)
Step = Callable[[dict[str, bytes]], object]


class KilledError(Exception):
    """The process ends here."""


@dataclass(frozen=True, eq=False)
class MortalPlace(MemoryPlace):
    """The process that writes to it is killed after so many steps; `done` has those that were made."""

    steps: int = 1000
    done: list[Step] = field(default_factory=list)
    turn: threading.Lock = field(default_factory=threading.Lock)

    def write(self, name: str, data: bytes) -> None:
        self._make(lambda files: files.update({name: data}))

    def remove(self, name: str) -> None:
        self._make(lambda files: files.pop(name, None))

    def _make(self, step: Step) -> None:
        # Files of a shard are written at the same time.
        with self.turn:
            if len(self.done) == self.steps:
                raise KilledError
            step(self.files)
            self.done.append(step)


@dataclass(frozen=True, eq=False)
class BusyPlace(MemoryPlace):
    """After every so many reads another process makes one of its steps."""

    coming: list[Step] = field(default_factory=list)
    every: int = 1
    reads: list[str] = field(default_factory=list)

    def read(self, name: str, most: int = 1 << 30) -> bytes:
        data = super().read(name, most)
        self._went(name)
        return data

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        data = self.files.get(name)
        if data is None:
            raise FileNotFoundError(name)
        first = max(0, len(data) - length) if start is None else start
        self._went(name)
        return data[first : first + length]

    def _went(self, name: str) -> None:
        self.reads.append(name)
        if self.coming and len(self.reads) % self.every == 0:
            self.coming.pop(0)(self.files)


STUDY = """\
format: 1
name: joined
mechanisms:
  - {kind: RandomizedResponse, p: [0.6, 0.7]}
  - {kind: ApproximateDP, epsilon: 0.1, delta: 1e-6}
tolerance: 0.01
keep_states: true
compositions: [1, 3]
epsilon: [0, 0.5, 1]
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> StoredStudy:
    study = load_study(write_study(tmp_path_factory.mktemp("joined"), STUDY))
    place = MemoryPlace({})
    write_skeleton(place, *new_skeleton(study, 1))
    return open_store(place)


@pytest.fixture(scope="module")
def states(stored: StoredStudy) -> dict[str, dict[str, bytes]]:
    """The files of a store that is to be joined: for the first time, and after a cell that failed is computed again."""
    plan, files = plan_study(stored.study, 1), stored.place.files  # type: ignore[attr-defined]
    for index in BATCHES:
        write(stored, plan, index)
    first = dict(files)
    write(stored, plan, 1, "on purpose")
    join_shard(stored.head, 0)
    write(stored, plan, 1)
    return {"first": first, "again": dict(files)}


def write(stored: StoredStudy, plan: Plan, index: int, cause: str = "") -> None:
    batch = plan.batches[index]
    cell = stored.study.cells[index]
    writer = BatchWriter(stored, batch, [cell])
    if cause:
        writer.fail(cause)
    else:
        writer.add(cell_bounds(stored.head.settings, cell))
    writer.commit()


def values(head: PartHead, results: PartResults | None = None) -> Iterator[FloatArray]:
    reader = PartResults(head) if results is None else results
    for index in BATCHES:
        yield np.stack([reader.values(index, head.results)[name] for name in BOUNDS])


@pytest.mark.slow
@pytest.mark.parametrize("when", ["first", "again"])
def test_a_kill_at_any_step_loses_no_batch(when: str, stored: StoredStudy, states: dict[str, dict[str, bytes]]) -> None:
    whole = MortalPlace(dict(states[when]))
    head = replace(stored.head, place=whole)
    expected = list(values(head))
    assert not np.isnan(expected).any()
    join_shard(head, 0)
    # Seven arrays, the record, and the removal of three files.
    assert len(whole.done) == 11
    for steps in range(len(whole.done)):
        place = MortalPlace(dict(states[when]), steps=steps)
        killed = replace(stored.head, place=place)
        with pytest.raises(KilledError):
            join_shard(killed, 0)
        for check in (False, True):
            (state,) = survey(killed, dict(place.names()), check=check)
            assert set(state.batches) == set(BATCHES)
            assert not any(record.failed for record in state.batches.values())
        assert np.array_equal(list(values(killed)), expected)
        assert not any(PartResults(killed).failed(index) for index in BATCHES)
        join_shard(replace(killed, place=MemoryPlace(place.files)), 0)
        assert place.files == whole.files


@pytest.mark.slow
@pytest.mark.parametrize("when", ["first", "again"])
def test_who_reads_meanwhile_finds_every_batch(
    when: str, stored: StoredStudy, states: dict[str, dict[str, bytes]]
) -> None:
    whole = MortalPlace(dict(states[when]))
    expected = list(values(replace(stored.head, place=whole)))
    join_shard(replace(stored.head, place=whole), 0)
    for before in range(len(whole.done)):
        for every in range(1, 5):
            place = BusyPlace(dict(states[when]), every=every)
            head = replace(stored.head, place=place)
            reader = PartResults(head)
            # It knows the records and where the chunks were.
            list(values(head, reader))
            for step in whole.done[:before]:
                step(place.files)
            place.coming.extend(whole.done[before:])
            assert np.array_equal(list(values(head, reader)), expected)


@pytest.fixture
def head(stored: StoredStudy, states: dict[str, dict[str, bytes]]) -> PartHead:
    """Of a part whose batches are all there, none of them joined."""
    return replace(stored.head, place=MemoryPlace(dict(states["first"])))


@pytest.mark.parametrize("check", [False, True])
def test_what_is_joined_after_the_listing_is_not_missing(head: PartHead, check: bool) -> None:
    sizes = dict(head.place.names())
    join_shard(head, 0)
    (state,) = survey(head, sizes, check=check)
    assert (sorted(state.batches), state.damaged) == (list(BATCHES), frozenset())


def test_a_check_compares_the_states_of_batches_that_are_not_joined(head: PartHead) -> None:
    name = next(name for name, _ in head.place.names("states") if "/c/" in name)
    content = head.place.read(name)
    head.place.write(name, content[:-1] + bytes([content[-1] ^ 1]))
    cell = int(name.split("/")[1].removeprefix("cell-"))
    for check, there in ((False, set(BATCHES)), (True, set(BATCHES) - {cell})):
        (state,) = survey(head, dict(head.place.names()), check=check)
        assert set(state.batches) == there


@pytest.mark.parametrize("chosen", [[True, False, True], [-1], [99], [0.5], [[0, 1]]])
def test_what_are_no_numbers_of_cells_is_refused(head: PartHead, chosen: object) -> None:
    with pytest.raises(IndexError, match="expected numbers from 0 to"):
        PartResults(head).array("delta_upper", np.array(chosen))


@pytest.mark.parametrize("joined", [False, True])
def test_cells_are_read_in_any_order_and_more_than_once(head: PartHead, joined: bool) -> None:
    if joined:
        join_shard(head, 0)
    results = PartResults(head)
    whole = results.array("delta_upper", slice(None))
    cells = np.array([*reversed(range(len(whole))), 1, 0, 1])
    np.testing.assert_array_equal(results.array("delta_upper", cells), whole[cells])
    np.testing.assert_array_equal(results.array("delta_upper", slice(None, None, -2)), whole[::-2])
    np.testing.assert_array_equal(results.array("delta_upper", (cells, 0, slice(None), 1)), whole[cells][:, 0, :, 1])
    assert results.array("delta_upper", np.array([], dtype=int)).shape == (0, *whole.shape[1:])
