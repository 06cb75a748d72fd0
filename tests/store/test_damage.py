"""Every change of any file of a store is found, and mended where it is no result."""

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from pbdist.errors import NotAStoreError, StoreDamagedError
from pbdist.store import (
    StoredStudy,
    check_store,
    create_or_open,
    extend,
    join_shard,
    open_parts,
    open_store,
    restore_parts,
)
from pbdist.store.layout import batch_file, cell_group, shard_file, shard_record
from pbdist.store.results import shard_state
from pbdist.study import StudySpec, load_study, plan_study
from pbdist.study.extension import missing_parts, union_of
from tests.effort import times
from tests.store.memory_place import MemoryPlace
from tests.store.test_store import write_batch
from tests.studies import write_study

pytestmark = pytest.mark.slow

SMALL = """\
format: 1
name: small
mechanisms:
  - {kind: Laplace, scale: 2}
  - {label: ApproximateDP, kind: ApproximateDP, epsilon: 0.1, delta: 1e-6}
method: buckets
buckets: 40
factors: 1.5
keep_states: true
compositions: [1]
epsilon: [0, 0.5]
"""
LARGER = SMALL.replace("scale: 2", "scale: [2, 5]").replace("[1]", "[1, 2]")
DELETED = b"DELETED"


def stored_in_memory(folder: Path) -> tuple[MemoryPlace, StudySpec]:
    """A complete store of three parts, and the study that it holds."""
    place = MemoryPlace({})
    plan = plan_study(load_study(write_study(folder, SMALL)), 1)
    wanted = load_study(write_study(folder, LARGER))
    parts = [create_or_open(place, plan)]
    parts = list(extend(parts, [plan_study(part, 2) for part in missing_parts([plan.study], wanted)]))
    assert [part.part for part in parts] == ["", "extensions/001", "extensions/002"]
    for part in parts:
        for index in range(part.batches):
            write_batch(part, index)
        if part.part != "extensions/002":
            # The last one has its batches apart.
            assert all(join_shard(part.head, shard).lacking == () for shard in range(part.head.shards))
    return place, wanted


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, bytes], StudySpec]:
    place, wanted = stored_in_memory(tmp_path_factory.mktemp("damage"))
    return place.files, wanted


def damaged(files: dict[str, bytes], generator: random.Random) -> dict[str, bytes]:
    """One or two files with what they are changed to; nothing for one that is deleted."""
    name = generator.choice(sorted(files))
    data = bytearray(files[name])
    kind = generator.randrange(4)
    if kind == 0:
        data[generator.randrange(len(data))] ^= 1 << generator.randrange(8)
        return {name: bytes(data)}
    if kind == 1:
        return {name: bytes(data[: generator.randrange(len(data))])}
    if kind == 2:
        return {name: DELETED}
    other = generator.choice(sorted(other for other in files if files[other] != files[name]))
    return {name: files[other], other: files[name]}


def remove_deleted(place: MemoryPlace) -> None:
    for name in [name for name, data in place.files.items() if data is DELETED]:
        del place.files[name]


def test_every_one_of_many_damages_is_found(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, _ = whole
    place = MemoryPlace(dict(files))
    check = check_store(place)
    assert check.healthy
    assert (check.strays, check.committed, check.cells) == ((), check.batches, 5)
    generator = random.Random(2026)  # noqa: S311 -- no secret
    undetected = []
    for _ in range(times(400)):
        change = damaged(files, generator)
        place.files.update(change)
        remove_deleted(place)
        try:
            if check_store(place).healthy:
                undetected.append(change)
        except (NotAStoreError, StoreDamagedError):
            pass
        place.files.update({name: files[name] for name in change})
    assert undetected == []
    assert check_store(place).healthy


def batches_in(part: StoredStudy, name: str) -> set[int]:
    """The batches that a file has something of."""
    head, shards = part.head, range(part.head.shards)
    for shard in shards:
        if name in {shard_record(shard), *(shard_file(one, shard) for one in head.results)}:
            return set(head.batches_of(shard))
    own = {index for index in range(head.batches) if name == batch_file(index)}
    cells = {cell_group(cell): cell for cell in range(head.cells)}
    cell = cells.get("/".join(name.split("/")[:2]))
    return own if cell is None else {cell // head.cells_per_batch}


def test_what_is_damaged_is_mended_and_nothing_else_is_computed(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, wanted = whole
    generator = random.Random(7)  # noqa: S311 -- no secret
    computed_any = 0
    for _ in range(times(40)):
        change = damaged(files, generator)
        place = MemoryPlace({**files, **change})
        remove_deleted(place)
        for part in restore_parts(open_parts(place), wanted):
            prefix = f"{part.part}/" if part.part else ""
            harmed = {name.removeprefix(prefix) for name in change if name.startswith(prefix)}
            lost = {index for index in range(part.batches) if not part.results.is_sound(index)}
            assert lost <= set().union(*(batches_in(part, name) for name in harmed))
            computed_any += len(lost)
            for index in lost:
                write_batch(part, index)
            for shard in {part.head.shard_of(index) for index in range(part.batches)}:
                # As a run does, which finds another file by its checksum; the last part has its batches apart.
                sizes = dict(part.place.names())
                if part.part != "extensions/002" and not shard_state(part.results, sizes, shard, check=True).whole:
                    assert join_shard(part.head, shard).lacking == ()
        assert place.files == files
    assert computed_any


def test_what_is_no_result_is_put_back_byte_for_byte(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, wanted = whole
    for part in ("", "extensions/001/", "extensions/002/"):
        for name, kept in (("zarr.json", 0), ("commits/zarr.json", 1), ("pair/c/0", 0), ("epsilon/zarr.json", 1)):
            place = MemoryPlace({**files, part + name: b"{}"})
            if not kept:
                del place.files[part + name]
            check = check_store(place)
            assert [found for found, _ in check.damaged] == [part + name]
            restore_parts(open_parts(place), wanted)
            assert place.files == files
    place = MemoryPlace(dict(files))
    del place.files["extensions/zarr.json"]
    assert [found for found, _ in check_store(place).damaged] == ["extensions/zarr.json"]
    restore_parts(open_parts(place), wanted)
    assert place.files == files


def test_the_study_of_all_parts_is_the_one_that_was_asked_for(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, wanted = whole
    parts = open_parts(MemoryPlace(files))
    union = union_of([part.study for part in parts])
    assert {*union.cells} == {*wanted.cells}
    assert union == replace(wanted, name=union.name, cells=union.cells)
    assert missing_parts([part.study for part in parts], wanted) == ()


def test_cells_that_nobody_has_any_more_are_not_guessed(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, _ = whole
    place = MemoryPlace({**files, "extensions/002/pair/c/0": b"torn"})
    other = open_store(MemoryPlace(files)).study
    with pytest.raises(StoreDamagedError, match="run the study file that added extensions/002 to the store"):
        restore_parts(open_parts(place), other)


def test_a_damaged_result_is_named_and_its_batch_not_committed(whole: tuple[dict[str, bytes], StudySpec]) -> None:
    files, _ = whole
    place = MemoryPlace({**files, "stray": b"", "delta_upper/c/0/0/0/0.1.partial": b""})
    content = bytearray(files["delta_upper/c/0/0/0/0"])
    content[0] ^= 1
    place.files["delta_upper/c/0/0/0/0"] = bytes(content)
    del place.files["extensions/001/commits/shard-000000/zarr.json"]
    check = check_store(place)
    names = [name for name, _ in check.damaged]
    assert ("delta_upper/c/0/0/0/0", "other content") in check.damaged
    # Without the record nothing says what the files of the shard are.
    assert {name for name in names if "extensions" in name} == {
        name for name in files if re.fullmatch(r"extensions/001/(log_)?(delta|factor|loss)_\w+/c/.*", name)
    }
    assert check.missing == (("extensions/001", 0),)
    assert check.strays == ("delta_upper/c/0/0/0/0.1.partial", "stray")
    results = open_store(place).results
    assert [results.is_sound(0), results.is_sound(1)] == [False, True]
    assert check.committed == check.batches - 2
