"""Small studies and stores that several test modules use."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from pbdist.run import SerialExecutor, run_study
from pbdist.store import StoredBatch, StoredStudy, open_store
from pbdist.store.layout import CHECKSUM, DETAILS, QUANTITIES, bounds_file, details_file
from pbdist.store.open import checksums
from pbdist.store.skeleton import encode_chunk
from pbdist.study import load_study
from pbdist.types import FloatArray

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
        left = {"provenance", "sha256"}
        return {key: cut(inner) for key, inner in value.items() if key not in left}

    return json.dumps(cut(json.loads(text)))


def alter(store: Path, name: str, change: Callable[[FloatArray], object]) -> None:
    """Change an array of results in place, over all cells, as if that had been the result."""
    stored = open_store(store)
    found = [stored.read(index) for index in range(stored.batches)]
    bounds = np.concatenate([one.bounds for one in found if one is not None])
    details = np.concatenate([one.details for one in found if one is not None])
    change(details[:, DETAILS.index(name)] if name in DETAILS else bounds[:, QUANTITIES.index(name)])
    for index in range(stored.batches):
        cells = stored.cells_of(index)
        write_results(stored, index, StoredBatch(bounds[cells.start : cells.stop], details[cells.start : cells.stop]))


def write_results(stored: StoredStudy, index: int, batch: StoredBatch) -> None:
    """Write the files of a batch, with its checksums made anew."""
    details = batch.details.copy()
    details[:, DETAILS.index(CHECKSUM)] = checksums(stored.head, index, StoredBatch(batch.bounds, details))
    for name, values in ((details_file(index), details), (bounds_file(index), batch.bounds)):
        stored.place.write(name, encode_chunk(values, stored.cells_per_batch))


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
