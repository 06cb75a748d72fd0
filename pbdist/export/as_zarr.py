"""An export as a zarr group with consolidated metadata."""

import warnings
from pathlib import Path

import zarr
from zarr.errors import ZarrUserWarning

from pbdist.query import Study
from pbdist.query.blocks import Block
from pbdist.store import LocalPlace
from pbdist.store.arrays import FilesStore, array_files, encode_chunk
from pbdist.store.documents import group_document
from pbdist.store.layout import ROOT_FILE, shard_file
from pbdist.types import JsonValue


class _ZarrWriter:
    """Writes chunk by chunk; the root comes last, so that nothing opens what is not whole."""

    def __init__(self, study: Study, folder: Path, length: int) -> None:
        self._spec, self._length, self._place = study.spec, length, LocalPlace(str(folder))
        files = array_files(self._spec, length)
        for name, data in files.items():
            self._place.write(name, data)
        self._metadata = {name: data for name, data in files.items() if name.endswith("/zarr.json")}

    def write(self, block: Block) -> None:
        index = int(block.cells[0]) // self._length
        for name, values in block.values.items():
            # Each chunk is a file.
            self._place.write(shard_file(name, index), encode_chunk(values, self._length))

    def finish(self, about: dict[str, JsonValue]) -> None:
        memory = FilesStore({**self._metadata, ROOT_FILE: group_document(about)})
        with warnings.catch_warnings():
            # The specification of zarr v3 does not have consolidated metadata yet.
            warnings.simplefilter("ignore", ZarrUserWarning)
            zarr.consolidate_metadata(memory.store)
        self._place.write(ROOT_FILE, memory.files()[ROOT_FILE])

    def close(self) -> None:
        """Nothing is open."""


def writer(study: Study, path: Path, length: int) -> _ZarrWriter:
    """Return what writes the export of a study."""
    return _ZarrWriter(study, path, length)
