"""A zarr store that reads the files of a folder and follows no link below it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable

from zarr.abc.store import ByteRequest, OffsetByteRequest, RangeByteRequest, Store, SuffixByteRequest
from zarr.core.buffer import Buffer, BufferPrototype

from pbdist.store.folder import Folder

__all__ = ["FolderStore"]


class FolderStore(Store):
    """The files of a folder inside another one, for zarr and xarray to read.

    Parameters
    ----------
    folder
        The outer folder, below which no link is followed.
    inside
        The name of the inner one; empty for the outer one itself.
    most
        Says of the name of a file how many bytes it may have.
    """

    supports_writes = False
    supports_deletes = False
    supports_listing = True

    def __init__(self, folder: Folder, inside: str, most: Callable[[str], int]) -> None:
        super().__init__(read_only=True)
        self._folder, self._prefix, self._most = folder, f"{inside}/" if inside else "", most

    def __eq__(self, other: object) -> bool:
        """Whether the other one reads the same files."""
        return isinstance(other, FolderStore) and (self._folder, self._prefix) == (other._folder, other._prefix)

    def __hash__(self) -> int:
        """Return the hash of what is compared."""
        return hash((self._folder, self._prefix))

    def __repr__(self) -> str:
        """Return where it is."""
        return f"FolderStore({self._folder.path}/{self._prefix})"

    async def get(self, key: str, prototype: BufferPrototype, byte_range: ByteRequest | None = None) -> Buffer | None:
        """Return the content of a file, None where there is none."""
        try:
            data = await asyncio.to_thread(self._folder.read, self._prefix + key, self._most(key))
        except FileNotFoundError:
            return None
        return prototype.buffer.from_bytes(_cut(data, byte_range))

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """Return parts of files."""
        return [await self.get(key, prototype, byte_range) for key, byte_range in key_ranges]

    async def exists(self, key: str) -> bool:
        """Whether there is a file."""
        return await asyncio.to_thread(self._folder.kind, self._prefix + key) == "file"

    async def set(self, key: str, value: Buffer) -> None:
        """Refuse to write."""
        del value
        raise ValueError(f"{key}: expected a store that is written to, got one that is read")

    async def delete(self, key: str) -> None:
        """Refuse to remove."""
        raise ValueError(f"{key}: expected a store that is written to, got one that is read")

    async def list(self) -> AsyncIterator[str]:
        """Yield the names of all files."""
        async for name in self.list_prefix(""):
            yield name

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """Yield the names of the files in a folder and in those below it."""
        for entry in await asyncio.to_thread(lambda: list(self._folder.walk(self._inside(prefix)))):
            if entry.kind == "file":
                yield entry.name.removeprefix(self._prefix)

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """Yield what lies in a folder, by its name there."""
        for entry in await asyncio.to_thread(self._folder.entries, self._inside(prefix)):
            if entry.kind in {"file", "folder"}:
                yield entry.name.rpartition("/")[2]

    def _inside(self, prefix: str) -> str:
        return f"{self._prefix}{prefix}".strip("/")


def _cut(data: bytes, byte_range: ByteRequest | None) -> bytes:
    if isinstance(byte_range, RangeByteRequest):
        return data[byte_range.start : byte_range.end]
    if isinstance(byte_range, OffsetByteRequest):
        return data[byte_range.offset :]
    if isinstance(byte_range, SuffixByteRequest):
        return data[max(0, len(data) - byte_range.suffix) :]
    return data
