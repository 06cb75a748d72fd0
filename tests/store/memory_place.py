"""A place in memory, for stores that are damaged ten thousand times."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import zarr.abc.store

from pbdist.store.columns import FilesStore
from pbdist.store.files import MOST_DOCUMENT, Entry, OversizeError


@dataclass(frozen=True, eq=False)
class MemoryPlace:
    files: dict[str, bytes]
    prefix: str = ""

    @property
    def url(self) -> str:
        return f"memory/{self.prefix}"

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        if self.prefix + name not in self.files:
            raise FileNotFoundError(name)
        data = self.files[self.prefix + name]
        if len(data) > most:
            raise OversizeError(self.prefix + name, len(data), most)
        return data

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        data = self.read(name)
        first = max(0, len(data) - length) if start is None else start
        return data[first : first + length]

    def write(self, name: str, data: bytes) -> None:
        self.files[self.prefix + name] = data

    def create(self, name: str, data: bytes) -> bool:
        return self.files.setdefault(self.prefix + name, data) is data

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        if self.files.get(self.prefix + name) != old:
            return False
        self.files[self.prefix + name] = new
        return True

    def remove(self, name: str) -> None:
        self.files.pop(self.prefix + name, None)

    def remove_all(self, names: Sequence[str]) -> None:
        for name in names:
            self.remove(name)

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        start = self.prefix + (f"{under}/" if under else "")
        for name in sorted(self.files):
            if name.startswith(start):
                yield name.removeprefix(self.prefix), len(self.files[name])

    def walk(self, under: str = "") -> Iterator[Entry]:
        for name, size in self.names(under):
            yield Entry(name, "file", size)

    def inner(self, name: str) -> "MemoryPlace":
        return MemoryPlace(self.files, f"{self.prefix}{name}/")

    def zarr_store(self, most: Callable[[str], int]) -> zarr.abc.store.Store:  # noqa: ARG002
        return FilesStore({name: self.read(name) for name, _ in self.names()}).store
