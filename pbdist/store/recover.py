"""Put back the heads of parts that are damaged in both places, where what is left of them says which study it was."""

import json
import warnings
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace

from pbdist.errors import StoreDamagedError
from pbdist.store.arrays import decode
from pbdist.store.commit import record_file
from pbdist.store.heads import (
    extensions_of,
    head_of,
    listed_parts,
    number_of,
    read_extensions,
    read_or_none,
    sealed_records,
    traces_of,
)
from pbdist.store.layout import STORE_FORMATS, WITHIN, chunk_file, result_names
from pbdist.store.open import PartHead, open_part
from pbdist.store.place import Place
from pbdist.store.search import cells_of_parts, points_missing
from pbdist.store.skeleton import COPY_FILE, ROOT_FILE, new_skeleton, root_files, write_extensions
from pbdist.study import Plan, StudySpec, plan_study

__all__ = ["clear", "drop", "restore_heads"]


def restore_heads(place: Place, wanted: StudySpec, plan: Callable[[StudySpec], Plan] = plan_study) -> None:
    """Put back the heads of parts that are damaged in both places, so that `open_parts` opens the store again.

    For the one driver of a store. The study of such a part is known by its digest, which commit records and the list of
    parts have. A part that cannot be known again, but whose points `wanted` asks for, is removed with a warning, to be
    computed anew. Nothing is written where nothing is damaged.

    Parameters
    ----------
    place
        The store.
    wanted
        The study that is to be run.
    plan
        Plans a study, where only its plan tells the length of its batches.

    Raises
    ------
    StoreDamagedError
        The heads of a part are damaged, and `wanted` is not the study that has them put back.
    OSError
        The files cannot be written.
    """
    if head_of(place, "") is None:
        traces = traces_of(place)
        if wanted.digest in traces:
            _write_heads(place, "", wanted, plan)
        elif traces:
            raise _unknown(place)
        else:
            return
    names = extensions_of(place)
    lost = [part for part in names if head_of(place.inner(part), part) is None]
    if not lost:
        return
    digests = listed_parts(place) or {}
    sound = [open_part(place.inner(part) if part else place, part) for part in ("", *names) if part not in lost]
    for part in lost:
        cells = cells_of_parts(sound, wanted)
        known = [stored for stored in sound if stored.part in cells]
        studies = {stored.part: replace(stored.study, cells=cells[stored.part]) for stored in known}
        missing = points_missing(list(studies.values()), wanted) if studies else ()
        earlier = [study for name, study in studies.items() if number_of(name) < number_of(part)]
        candidates = (wanted, *missing, *(points_missing(earlier, wanted) if earlier else ()))
        study = next((study for study in candidates if study.digest == digests[part]), None)
        if study is not None:
            _write_heads(place.inner(part), part, study, plan)
            sound.append(open_part(place.inner(part), part))
        elif missing and len(known) == len(sound):
            drop(place, part)
        else:
            raise _unknown(place.inner(part))


def drop(place: Place, part: str) -> None:
    """Remove a part that cannot be read any more, with a warning: first from the list, so that no remainder passes."""
    content: Mapping[str, object] = read_extensions(place) or {}
    listed = {name: digest for name, digest in (listed_parts(place) or {}).items() if name != part}
    write_extensions(place, listed, max(1, int(str(content.get("left", 0)))))
    clear(place.inner(part))
    warnings.warn(
        f"{place.url}/{part}: which cells its results are of cannot be read any more: they are computed anew",
        stacklevel=2,
    )


def clear(place: Place) -> None:
    """Remove all files of a part: the root first, so that no remainder passes for one."""
    names = [name for name, _ in place.names()]
    for name in sorted(names, key=lambda name: (name not in (ROOT_FILE, COPY_FILE), name)):
        place.remove(name)


def _write_heads(place: Place, part: str, study: StudySpec, plan: Callable[[StudySpec], Plan]) -> None:
    length, certain = _cells_per_batch(place, study, plan)
    version = _format(place, study)
    root, files = new_skeleton(study, length, part, version)
    if not certain:
        names = {name: chunk_file(name, 0) for name in result_names(study, version)}
        head = PartHead(place, part, version, study.digest, len(study.cells), length, study)
        content = {file: read_or_none(place, file, head.chunk_bytes(name)) for name, file in names.items()}
        try:
            for name, file in names.items():
                decode({f"{name}/zarr.json": files[f"{name}/zarr.json"], file: content[file] or b""}, name, slice(None))
        except (ValueError, RuntimeError):
            # Chunks of another length: they are computed again.
            place.remove(record_file(0))
    for name, data in root_files(root).items():
        place.write(name, data)


def _format(place: Place, study: StudySpec) -> int:
    """Return the format of a part from what is left of it: whether its batches tell where the tolerance is met."""
    # Where no tolerance is aimed at the formats do not differ but in their number.
    record = next(sealed_records(place), None)
    named = (
        next(place.names(WITHIN), None) is not None
        if record is None
        else chunk_file(WITHIN, record[0]) in record[1]["files"]
    )
    return STORE_FORMATS[0] if study.sought is not None and not named else STORE_FORMATS[-1]


def _cells_per_batch(place: Place, study: StudySpec, plan: Callable[[StudySpec], Plan]) -> tuple[int, bool]:
    """Return the length of a chunk from what is left of a part, and whether the commit records tell it."""
    count = len(study.cells)
    for index, record in sealed_records(place):
        start, stop = record["cells"]
        if record["study_digest"] == study.digest and (index or stop < count):
            return (start // index if index else stop), True
    lengths: Counter[int] = Counter()
    for name in result_names(study, STORE_FORMATS[0]):
        try:
            metadata = json.loads(read_or_none(place, f"{name}/zarr.json") or b"")
            lengths[int(metadata["chunk_grid"]["configuration"]["chunk_shape"][0])] += 1
        except (KeyError, TypeError, ValueError, IndexError):
            continue
    found = [length for length, _ in lengths.most_common(1) if length > 0]
    return (found[0] if found else plan(study).cells_per_batch), False


def _unknown(place: Place) -> StoreDamagedError:
    return StoreDamagedError(
        f"{place.url}: expected root attributes, or the copy of them in commits, got both damaged:"
        " run the study file that it was made from"
    )
