"""Small studies and stores that several test modules use."""

import hashlib
import json
from pathlib import Path

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


def write_study(folder: Path, text: str = TINY, name: str = "study.yaml") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def results_of(store: Path) -> dict[str, str]:
    """The SHA-256 of every file of a store, the provenance apart: the git revision may change between two runs."""
    found = files_of(store)
    for name in found:
        if name == "zarr.json" or name.startswith("commits/batch-"):
            document = json.loads((store / name).read_text())
            for place in (document["attributes"], document["attributes"].get("commit", {})):
                place.pop("provenance", None)
            found[name] = hashlib.sha256(json.dumps(document).encode()).hexdigest()
    return found


def files_of(folder: Path) -> dict[str, str]:
    """The SHA-256 of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
