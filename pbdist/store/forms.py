"""The form of a store's documents: the keys that are read, and the kind of each value.

A seal shows that a document was changed, not who wrote it: what is sealed may say anything.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from pbdist.arguments import MAX_BUCKETS, MAX_COMPOSITIONS, MAX_EPSILON, SMALLEST_TOLERANCE
from pbdist.store.layout import COLUMN_CHUNK
from pbdist.types import Adjacency, JsonValue

_DIGEST = re.compile(r"[0-9a-f]{64}")
#: More bytes or cells than there can be.
_MOST = 1 << 53


def is_root_form(content: Mapping[str, Any]) -> bool:
    """Whether root attributes have what is read of them, and a study that a study file can have."""
    told = content.get("other_parts", [])
    return (
        isinstance(content.get("part"), str)
        and isinstance(content.get("title"), str)
        and _is_digest(content.get("study_digest"))
        and _is_head(content.get("study"))
        and _is_count(content.get("cells_per_batch"), 1)
        and _is_count(content.get("batches_per_shard", 1), 1)
        and isinstance(content.get("provenance"), dict)
        and _are_files(content.get("files"))
        and _are_columns(content["files"], content["study"]["cells"])
        and isinstance(told, list)
        and all(isinstance(part, str) for part in told)
    )


def is_parts_form(content: Mapping[str, Any]) -> bool:
    """Whether the list of parts has their digests by their paths, and how many are left."""
    parts = content.get("parts")
    return isinstance(parts, dict) and all(map(_is_digest, parts.values())) and _is_count(content.get("left"))


def is_record_form(content: Mapping[str, Any]) -> bool:
    """Whether a commit record has the digest of its study, and a provenance; its reader looks at all else."""
    return _is_digest(content.get("study_digest")) and isinstance(content.get("provenance"), dict)


def is_refinement_form(content: Mapping[str, Any]) -> bool:
    """Whether a refinement has a cell, grids, and as many numbers as points; whether they are numbers is not seen."""
    cell, rounds, losses = content.get("cell"), content.get("compositions"), content.get("epsilon")
    bounds, within = content.get("bounds"), content.get("within_tolerance")
    if not isinstance(rounds, list) or not isinstance(losses, list) or not isinstance(bounds, dict):
        return False
    if not _are_grids(rounds, losses):
        return False
    points = 2 * len(rounds) * len(losses)
    return (
        isinstance(cell, dict)
        and isinstance(cell.get("label"), str)
        and isinstance(cell.get("pair"), dict)
        and isinstance(cell.get("factor", 0), str | None)
        and all(isinstance(values, list) and len(values) == points for values in bounds.values())
        and (within is None or (isinstance(within, list) and len(within) == points))
        and isinstance(content.get("loss_width"), str)
    )


def _are_grids(rounds: JsonValue, losses: JsonValue) -> bool:
    """Whether r and ε, these in hexadecimal, are increasing and within the limits of a study file."""
    if not isinstance(rounds, list) or not isinstance(losses, list):
        return False
    counts = [count if type(count) is int else None for count in rounds]
    return _rises(counts, 1, MAX_COMPOSITIONS) and _rises([*map(_number_of, losses)], 0.0, MAX_EPSILON)


def _is_head(head: JsonValue) -> bool:
    """Whether the head of a study has values that a study file can have."""
    if not isinstance(head, dict):
        return False
    buckets = head.get("buckets")
    tolerance, floor = _number_of(head.get("tolerance")), _number_of(head.get("floor", "0x0p+0"))
    tight = head.get("method") == "tight" and tolerance is not None and SMALLEST_TOLERANCE <= tolerance <= 1.0
    counted = type(buckets) is int and 0 < buckets <= MAX_BUCKETS and buckets % 2 == 0
    if not (tight and (counted or buckets is None)) and not (
        head.get("method") == "buckets" and counted and head.get("tolerance") is None
    ):
        return False
    return (
        _are_grids(head.get("compositions"), head.get("epsilon"))
        and floor is not None
        and 0.0 <= floor < 1.0
        and head.get("direction", "each") in ("both", "each")
        and _is_adjacency(head.get("adjacency", {}))
        and isinstance(head.get("keep_states"), bool)
        and _is_count(head.get("cells"), 1)
        and _is_digest(head.get("cells_sha256"))
    )


def _is_adjacency(told: JsonValue) -> bool:
    """Whether definite relations are stated, by labels."""
    known = {one.value for one in Adjacency if one.definite}
    return isinstance(told, dict) and all(isinstance(one, str) and one in known for one in told.values())


def _number_of(text: JsonValue) -> float | None:
    """Return the number of a hexadecimal text, None where it is none."""
    try:
        return float.fromhex(text) if isinstance(text, str) else None
    except (ValueError, OverflowError):
        return None


def _rises(values: Sequence[float | None], least: float, most: float) -> bool:
    """Whether there are numbers, all within limits, each larger than the one before."""
    numbers = [value for value in values if value is not None and least <= value <= most]
    return 0 < len(numbers) == len(values) and all(a < b for a, b in pairwise(numbers))


def _are_files(files: JsonValue) -> bool:
    return isinstance(files, dict) and all(
        isinstance(entry, dict) and _is_count(entry.get("bytes")) and _is_digest(entry.get("sha256"))
        for entry in files.values()
    )


def _are_columns(files: Mapping[str, JsonValue], cells: int) -> bool:
    """Whether as many chunks of a column are listed as so many cells have: a number alone would make readers count."""
    chunks = -(-cells // COLUMN_CHUNK)
    return f"pair/c/{chunks - 1}" in files and f"pair/c/{chunks}" not in files


def _is_digest(value: object) -> bool:
    return isinstance(value, str) and _DIGEST.fullmatch(value) is not None


def _is_count(value: object, least: int = 0) -> bool:
    return type(value) is int and least <= value <= _MOST
