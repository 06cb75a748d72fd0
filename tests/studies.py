"""Small studies and stores that several test modules use."""

import hashlib
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from pbdist.run import SerialExecutor, run_study
from pbdist.store import StoredStudy
from pbdist.store.layout import shard_file, shard_record
from pbdist.store.results import ShardRecord, index_bytes, index_of, record_document
from pbdist.study import load_study

TINY = """\
format: 1
name: tiny
mechanisms:
  - kind: Laplace
    scale: [2, 3, 5]
  - kind: RandomizedResponse
    p: [0.6, 0.7]
  - label: clipped
    kind: NoisyCount
    noise: {kind: Laplace, scale: 2}
    mean: 20
    shift: 1
method: buckets
buckets: 400
compositions: [1, 2, 4, 7]
exp_epsilon: [1, 1.5, 2]
targets:
  - {exp_epsilon: 2, delta: 0.2, compositions: 4}
"""

TIGHT = TINY.replace("method: buckets\nbuckets: 400\n", "tolerance: 0.01\n").replace("name: tiny", "name: tight")


#: Returns a finished store of the study with this text: the fixtures ``finished_store`` and ``store_copy``.
Finished = Callable[[str], Path]


def write_study(folder: Path, text: str = TINY, name: str = "study.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def compute_store(folder: Path, text: str = TINY) -> Path:
    """Run a study in this process; its store is ``s.zarr`` in the folder, beside ``study.yaml``."""
    run_study(load_study(write_study(folder, text)), folder / "s.zarr", SerialExecutor(), lambda _: None)
    return folder / "s.zarr"


def results_of(store: Path) -> dict[str, str]:
    """The SHA-256 of every file of a store, the provenance apart: the git revision may change between two runs."""
    found = files_of(store)
    for name in found:
        if name.endswith("zarr.json") and "provenance" in (store / name).read_text():
            found[name] = hashlib.sha256(without_provenance((store / name).read_text()).encode()).hexdigest()
    return found


def without_provenance(text: str) -> str:
    """A JSON document without what depends on the software that wrote it, and the checksums over that."""

    def cut(value: object) -> object:
        if not isinstance(value, dict):
            return value
        left = {"provenance", "attributes_sha256", "record_sha256"}
        return {key: cut(inner) for key, inner in value.items() if key not in left}

    return json.dumps(cut(json.loads(text)))


def commit_again(stored: StoredStudy) -> None:
    """Write the commit records as if what the files hold now had been the results."""
    head, place = stored.head, stored.place
    for shard in range(head.shards):
        record = stored.results.shard(shard)
        assert record is not None
        batches = dict(record.batches)
        files = {}
        for name in head.results:
            data = place.read(shard_file(name, shard))
            files[shard_file(name, shard)] = _entry(data)
            places = index_of(data[-index_bytes(head.batches_per_shard) :], head.batches_per_shard)
            assert places is not None
            for (index, batch), (start, size) in zip(batches.items(), places, strict=False):
                chunk = data[start : start + size]
                chunks = {**batch.chunks, name: (size, hashlib.sha256(chunk).hexdigest())}
                batches[index] = replace(batch, chunks=chunks)
        for index, batch in batches.items():
            states = {file: _entry(place.read(file)) for file in batch.states}
            batches[index] = replace(batch, states=states)
        place.write(shard_record(shard), record_document(head, shard, ShardRecord(batches, files)))


def _entry(data: bytes) -> dict[str, object]:
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
