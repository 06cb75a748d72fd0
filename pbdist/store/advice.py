"""Say which study file repairs a part of a store: one text for all commands that meet the damage."""

from collections.abc import Collection, Iterable, Mapping

from pbdist.errors import StoreDamagedError
from pbdist.store.documents import part_folder
from pbdist.types import JsonValue

#: An extended store has all points of the study file that extended it last.
BRINGS_BACK = "run the study file that extended the store last"
_DIGITS = 16


def repaired_by(part: str, known: str = "") -> str:
    """Return what repairs a part, by its path (empty for the first one); `known` is what is known of its study."""
    made = f"added {part} to the store" if part else "made the store"
    return f"run the study file that {made}{f' ({known})' if known else ''}"


def repaired_together(damaged: Iterable[str], gone: Collection[str] = ()) -> str:
    """Return what repairs the parts that some files are in, and brings back parts that are gone, by their paths."""
    added = sorted({part for part in map(part_folder, damaged) if part is not None})
    if gone or len(added) > 1:
        return BRINGS_BACK
    return repaired_by(added[0]) if added else "run the study again"


def points_of(head: Mapping[str, JsonValue]) -> str:
    """Return the points of the study in the head of a part, as short text."""
    cells, compositions = int(head["cells"]), head["compositions"]
    epsilon = [float.fromhex(value) for value in head["epsilon"]]
    return f"{_several(cells, 'noise setting')}, {_range('r', compositions)}, {_range('ε', epsilon)}"


def heads_damaged(url: str, part: str, digests: Collection[str]) -> StoreDamagedError:
    """Return the error of a part whose root and its copy are damaged; `digests` are those that its study may have."""
    known = " or ".join(sorted(digest[:_DIGITS] for digest in digests))
    return StoreDamagedError(
        f"{url}: expected root attributes, or the copy of them in commits, got both damaged:"
        f" {repaired_by(part, f'study digest {known}' if known else '')}"
    )


def parts_lost(url: str, parts: Collection[str]) -> StoreDamagedError:
    """Return the error of parts that the root of a store tells of, but that are not there."""
    names = ", ".join(sorted(parts))
    return StoreDamagedError(
        f"{url}: expected {names}, of which the root of the store tells, got nothing that can be read there:"
        f" put back what was removed, or {BRINGS_BACK}"
    )


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _range(name: str, values: Collection[float]) -> str:
    low, high = min(values), max(values)
    return f"{name} = {low:.6g}" if low == high else f"{len(values):,} {name} from {low:.6g} to {high:.6g}"
