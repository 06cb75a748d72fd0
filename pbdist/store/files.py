"""One file in an open folder: read, written and listed by the folder's descriptor, so that no link is followed.

What is no regular file (a link, a named pipe, a socket, a device) and what is too large is an error.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import NamedTuple, TypeVar
from uuid import uuid4

from pbdist.errors import InvalidInputError, NotAStoreError, StoreDamagedError

#: The most bytes of a document: to read one as JSON takes up to 25 times its size. The largest are the commit record of
#: a batch with many kept states, 2 kB for each cell and r, and refinements of many points.
MOST_DOCUMENT = 64 << 20
#: The end of the name of a file that is being written, or that a killed process has left behind.
PARTIAL = ".partial"

#: For a folder that is only passed through, which need not be one that may be listed.
PASSED = os.O_DIRECTORY | getattr(os, "O_PATH", os.O_RDONLY)
#: For a folder that is listed, or brought to the disk.
LISTED = os.O_DIRECTORY | os.O_RDONLY
#: Without waiting for a named pipe that appears there at the last moment.
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW

_KINDS = {
    stat.S_IFREG: "file",
    stat.S_IFDIR: "folder",
    stat.S_IFLNK: "link",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
}


class IrregularError(StoreDamagedError):
    """A link, a named pipe, a socket or a device where a store has a file or a folder."""


class OversizeError(StoreDamagedError):
    """A file is larger than what belongs there can be; `size` is its bytes."""

    def __init__(self, path: str, size: int, most: int) -> None:
        super().__init__(f"{path}: expected a file of at most {most:,} bytes, got {size:,} bytes: run the study again")
        self.size = size


class Entry(NamedTuple):
    """A name in a folder, its kind (``file``, ``folder``, ``link``, ..), and the bytes of a file."""

    name: str
    kind: str
    size: int


def kind_of(mode: int) -> str:
    """Return ``file``, ``folder``, ``link`` and so on, by the mode that `os.lstat` gives."""
    return _KINDS.get(stat.S_IFMT(mode), "device")


def refusal(path: str, expected: str, kind: str, target: str | None = None) -> IrregularError:
    """Return the error that says what is at a path, for example a link to `target`, and what to do about it."""
    if kind == "link":
        kind = "link" if target is None else f"link to {target!r}"
        advice = "put what it leads to in its place, or remove it"
    else:
        advice = "remove it"
    return IrregularError(f"{path}: expected a {expected} or nothing, got a {kind}: {advice}")


def check_document(name: str, data: bytes) -> None:
    """Refuse to write a document that is too large to be read again."""
    if name.endswith("zarr.json") and len(data) > MOST_DOCUMENT:
        raise InvalidInputError(f"{name}: expected a document of at most {MOST_DOCUMENT:,} bytes, got {len(data):,}")


def opened(folder: int, name: str, flags: int, *, make: bool) -> int:
    """Return a descriptor of a folder in another one; with `make` it is made where it is missing, and on the disk."""
    if make:
        with suppress(FileNotFoundError):
            return os.open(name, flags, dir_fd=folder)
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
        # What is written there would be lost with it. Here it may be open only to be passed through.
        settle(".", folder)
    return os.open(name, flags, dir_fd=folder)


def settle(path: str, folder: int | None = None) -> None:
    """Bring the names in a folder to the disk; its path may start from another, open one."""
    descriptor = os.open(path, LISTED, dir_fd=folder)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_up_to(folder: int, name: str, most: int, start: int = 0) -> bytes:
    """Return so many bytes of a file, or fewer where it ends before."""
    descriptor = os.open(name, _READ, dir_fd=folder)
    try:
        content = piece = os.pread(descriptor, most, start)
        while piece and len(content) < most:
            piece = os.pread(descriptor, most - len(content), start + len(content))
            content += piece
        return content
    finally:
        os.close(descriptor)


@contextmanager
def written_beside(folder: int, name: str, pieces: Sequence[bytes | memoryview], *, durable: bool) -> Iterator[str]:
    """Yield the name of a new file with that content in the same folder; afterwards it is gone."""
    temporary = f"{name}.{uuid4().hex}{PARTIAL}"
    try:
        with os.fdopen(os.open(temporary, _NEW, 0o666, dir_fd=folder), "wb") as file:
            for piece in pieces:
                file.write(piece)
            if durable:
                file.flush()
                os.fsync(file.fileno())
        yield temporary
    finally:
        unlink(folder, temporary)


def written_exclusively(folder: int, name: str, data: bytes) -> bool:
    """Write a file that does not exist yet; return False, and change nothing, where it does."""
    try:
        with os.fdopen(os.open(name, _NEW, 0o666, dir_fd=folder), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except FileExistsError:
        return False
    return True


def put_back(folder: int, taken: str, name: str) -> None:
    """Give a file its name back, unless another file has that name by now."""
    try:
        os.link(taken, name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
    except FileExistsError:
        return
    except OSError:
        # A file system without hard links.
        os.rename(taken, name, src_dir_fd=folder, dst_dir_fd=folder)


def unlink(folder: int, name: str) -> None:
    """Remove a file, if it is there."""
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)


def entries(folder: int, prefix: str) -> list[Entry]:
    """Return the entries of a folder, each name with `prefix` before it: first files, then folders, each sorted."""
    found = []
    with os.scandir(folder) as listing:
        for entry in listing:
            with suppress(FileNotFoundError):  # removed meanwhile
                if entry.is_dir(follow_symlinks=False):
                    found.append(Entry(prefix + entry.name, "folder", 0))
                    continue
                status = entry.stat(follow_symlinks=False)
                kind = kind_of(status.st_mode)
                found.append(Entry(prefix + entry.name, kind, status.st_size if kind == "file" else 0))
    return sorted(found, key=lambda entry: (entry.kind == "folder", entry.name))


#: The most bytes of a chunk before it is compressed: those of a larger one cannot be compressed.
MOST_CONTENT = (1 << 31) - 1
#: The most bytes of the head of a frame.
HEAD_BYTES = 18
#: The first bytes of what is compressed, and how many bytes tell its length, by the two highest bits of the next one.
_MAGIC, _LENGTHS = b"\x28\xb5\x2f\xfd", (0, 2, 4, 8)
#: Bytes of the name of a dictionary, by the two lowest bits.
_DICTIONARIES = (0, 1, 2, 4)


def is_frame(data: bytes) -> bool:
    """Whether some bytes begin as what is compressed does."""
    return data[:4] == _MAGIC


def check_content(data: bytes, most: int = MOST_CONTENT) -> None:
    """Refuse what has more than so many bytes once it is decompressed, or does not say how many, by a `ValueError`.

    The first bytes say it, by RFC 8878, section 3.1.1. No more than that are then made of it.
    """
    head = data[4] if is_frame(data) and len(data) > 5 else 0
    # In a frame of one segment no byte tells the window, and one byte may tell the length.
    single = bool(head & 0x20)
    begin = 5 + (not single) + _DICTIONARIES[head & 3]
    length = _LENGTHS[head >> 6] or int(single)
    size = int.from_bytes(data[begin : begin + length], "little") + (256 if length == 2 else 0)
    if not length or len(data) < begin + length or size > min(most, MOST_CONTENT):
        raise ValueError(f"a chunk that is not compressed by zstd, or has more than {min(most, MOST_CONTENT):,} bytes")


Item = TypeVar("Item")
Result = TypeVar("Result")

#: Requests at the same time.
MOST_AT_ONCE = 16


def at_once(do: Callable[[Item], Result], items: Sequence[Item], most: int = MOST_AT_ONCE) -> Iterator[Result]:
    """Yield what `do` returns for each item, in order; up to `most` of them are done at the same time.

    After an exception of one item, those that have not begun are not begun, and the others have ended when it is
    raised.
    """
    if min(len(items), most) < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(min(most, len(items))) as threads:
        yield from threads.map(do, items)


#: The answers of the system where something else is found instead of a folder, also a link.
_NO_FOLDER = frozenset({errno.ENOTDIR, errno.ELOOP})


def never(_: str) -> bool:
    """Return False: no folder is passed over."""
    return False


@dataclass(frozen=True)
class Folder:
    """A folder, below which no link is followed; links may lead to it, and it need not exist.

    Names have ``/`` between their parts. Every failure is an `OSError` that names the path.
    """

    #: Its absolute path.
    path: str
    #: Whether it is never made: where it is missing, the store is gone.
    kept: bool = False

    def read(self, name: str, most: int) -> bytes:
        """Return the content of a file.

        Raises
        ------
        FileNotFoundError
            There is none.
        IrregularError
            It is no regular file, or lies behind a link.
        OversizeError
            It has more than `most` bytes.
        """

        def content(folder: int, last: str, size: int) -> bytes:
            if size > most:
                raise OversizeError(f"{self.path}/{name}", size, most)
            return read_up_to(folder, last, size)

        return self._read(name, content)

    def read_range(self, name: str, start: int | None, length: int) -> bytes:
        """Return `length` bytes of a file from `start` on, or its last ones; fewer where it ends before."""

        def content(folder: int, last: str, size: int) -> bytes:
            return read_up_to(folder, last, length, max(0, size - length) if start is None else start)

        return self._read(name, content)

    def _read(self, name: str, content: Callable[[int, str, int], bytes]) -> bytes:
        """Return what `content` returns of a file, by the descriptor of its folder, its name there and its size."""
        # Without context managers: this is done for each of a hundred thousand chunks.
        *folders, last = _parts(name)
        try:
            folder = self._descriptor(folders)
            try:
                found = os.lstat(last, dir_fd=folder)
                if not stat.S_ISREG(found.st_mode):
                    self._check_regular(folder, name, found)
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
                return content(folder, last, found.st_size)
            finally:
                os.close(folder)
        except (NotADirectoryError, IsADirectoryError) as error:
            # A file where a folder belongs, or a folder where the file belongs.
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.path}/{name}") from error
        except OSError as error:
            if error.errno is None:
                raise
            raise self._named(name, error) from error

    def write(self, name: str, pieces: Sequence[bytes | memoryview], *, durable: bool = True) -> None:
        """Write a file beside it whose name ends in ``.partial``, and rename it; missing folders are made.

        Parameters
        ----------
        name
            The file.
        pieces
            Its content.
        durable
            Whether it is on the disk when this returns.

        Raises
        ------
        IrregularError
            Something that is neither a regular file nor an empty folder is in the way; it stays.
        """
        *folders, last = _parts(name)
        with self._naming(name), self._opened(folders, make=True, flags=LISTED) as folder:
            self._make_way(folder, name)
            with written_beside(folder, last, pieces, durable=durable) as temporary:
                os.replace(temporary, last, src_dir_fd=folder, dst_dir_fd=folder)
            if durable:
                os.fsync(folder)

    def create(self, name: str, data: bytes) -> bool:
        """Write a file where there is nothing yet; return False, and change nothing, where there is a file."""
        *folders, last = _parts(name)
        with self._naming(name), self._opened(folders, make=True, flags=LISTED) as folder:
            with suppress(FileNotFoundError):
                self._check_regular(folder, name, os.lstat(last, dir_fd=folder))
                return False
            with written_beside(folder, last, [data], durable=True) as temporary:
                try:
                    os.link(temporary, last, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
                except FileExistsError:
                    return False
                except OSError:
                    # A file system without hard links.
                    return written_exclusively(folder, last, data)
            os.fsync(folder)
            return True

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Replace a file whose content is `old`: it is moved away, which only one process can do, and written again."""
        *folders, last = _parts(name)
        taken = f"{last}.{uuid4().hex}{PARTIAL}"
        with self._naming(name), self._opened(folders) as folder:
            try:
                found = os.lstat(last, dir_fd=folder)
                self._check_regular(folder, name, found)
                if found.st_size != len(old):
                    return False
                os.rename(last, taken, src_dir_fd=folder, dst_dir_fd=folder)
            except FileNotFoundError:
                return False
            try:
                if read_up_to(folder, taken, len(old) + 1) == old:
                    return self.create(name, new)
                # Another process has written meanwhile: its file goes back.
                put_back(folder, taken, last)
                return False
            finally:
                unlink(folder, taken)

    def remove(self, name: str) -> None:
        """Remove a file, if it is there; nothing behind a link is."""
        *folders, last = _parts(name)
        with suppress(FileNotFoundError, NotADirectoryError), self._naming(name), self._opened(folders) as folder:
            self._check_regular(folder, name, os.lstat(last, dir_fd=folder))
            os.unlink(last, dir_fd=folder)

    def remove_empty(self, name: str) -> None:
        """Remove a folder if it is there and empty."""
        *folders, last = _parts(name)
        with suppress(OSError), self._opened(folders) as folder:
            os.rmdir(last, dir_fd=folder)

    def kind(self, name: str) -> str | None:
        """Return the kind of what has a name: ``file``, ``folder``, ``link``, ..; None where there is nothing."""
        try:
            *folders, last = _parts(name)
            with self._naming(name), self._opened(folders) as folder:
                return kind_of(os.lstat(last, dir_fd=folder).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return None

    def entries(self, under: str = "") -> list[Entry]:
        """Return the entries of a folder: first files, then folders, each sorted; none where there is no folder.

        Raises
        ------
        IrregularError
            The folder is a link or lies behind one, or it is neither file nor folder.
        """
        try:
            with self._naming(under), self._opened(_parts(under) if under else [], flags=LISTED) as folder:
                return entries(folder, f"{under}/" if under else "")
        except (FileNotFoundError, NotADirectoryError):
            return []

    def walk(self, under: str = "", *, passed: Callable[[str], bool] = never) -> Iterator[Entry]:
        """Yield all entries below a folder, after each folder the entries in it; errors as in `entries`.

        A folder that this user may not list is an error, or passed over where `passed` is true of its name.
        """
        try:
            with self._naming(under):
                folder = self._descriptor(_parts(under) if under else [], flags=LISTED)
        except (FileNotFoundError, NotADirectoryError):
            return
        try:
            yield from self._walked(folder, f"{under}/" if under else "", passed=passed)
        finally:
            os.close(folder)

    def _walked(self, folder: int, prefix: str, *, passed: Callable[[str], bool]) -> Iterator[Entry]:
        with self._naming(prefix):
            found = entries(folder, prefix)
        for entry in found:
            yield entry
            if entry.kind != "folder":
                continue
            try:
                with self._naming(entry.name):
                    inner = os.open(entry.name[len(prefix) :], LISTED | os.O_NOFOLLOW, dir_fd=folder)
            except (FileNotFoundError, NotADirectoryError):  # another thing meanwhile
                continue
            except PermissionError:
                if passed(entry.name):
                    continue
                raise
            try:
                yield from self._walked(inner, f"{entry.name}/", passed=passed)
            finally:
                os.close(inner)

    @contextmanager
    def _opened(self, folders: Sequence[str], *, make: bool = False, flags: int = PASSED) -> Iterator[int]:
        """Yield a descriptor of a folder below this one; `flags` are those of the last one."""
        descriptor = self._descriptor(folders, make=make, flags=flags)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _descriptor(self, folders: Sequence[str], *, make: bool = False, flags: int = PASSED) -> int:
        descriptor = self._top(PASSED if folders else flags, make=make)
        for end, name in enumerate(folders, 1):
            ours = (flags if end == len(folders) else PASSED) | os.O_NOFOLLOW
            try:
                inner = opened(descriptor, name, ours, make=make)
            except OSError as error:
                if error.errno in _NO_FOLDER:
                    raise self._no_folder(descriptor, folders[:end]) from error
                raise
            finally:
                os.close(descriptor)
            descriptor = inner
        return descriptor

    def _top(self, flags: int, *, make: bool) -> int:
        try:
            return os.open(self.path, flags)
        except (FileNotFoundError, NotADirectoryError):
            if not make:
                raise
            if self.kept:
                text = f"{self.path}: expected the folder of a store, got nothing there any more"
                raise NotAStoreError(text) from None
        missing, path = [], self.path
        while not os.path.lexists(path):
            missing.append(path)
            path = os.path.dirname(path)
        try:
            os.makedirs(self.path, exist_ok=True)
            for made in missing:
                settle(os.path.dirname(made))
        except (NotADirectoryError, FileExistsError) as error:
            raise NotADirectoryError(f"{path}: expected a folder or nothing, got a file: remove it") from error
        return os.open(self.path, flags)

    def _no_folder(self, outer: int, parts: Sequence[str]) -> OSError:
        """Return the error that says what is there instead of a folder."""
        path = "/".join(parts)
        with suppress(FileNotFoundError):
            self._check_regular(outer, path, os.lstat(parts[-1], dir_fd=outer), "folder")
        return NotADirectoryError(f"{self.path}/{path}: expected a folder or nothing, got a file: remove it")

    def _make_way(self, folder: int, name: str) -> None:
        """Remove an empty folder where a file belongs; anything else there may be somebody's, and is an error."""
        last = name.rpartition("/")[2]
        try:
            found = os.lstat(last, dir_fd=folder)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(found.st_mode):
            self._check_regular(folder, name, found)
            return
        try:
            os.rmdir(last, dir_fd=folder)
        except OSError as error:
            text = f"{self.path}/{name}: expected a file or nothing, got a folder that is not empty: remove it"
            raise IsADirectoryError(text) from error

    def _check_regular(self, folder: int, name: str, found: os.stat_result, expected: str = "file") -> None:
        """Refuse what is neither a file nor a folder."""
        if kind_of(found.st_mode) not in {"file", "folder"}:
            target = None
            with suppress(OSError):
                target = os.readlink(name.rpartition("/")[2], dir_fd=folder)
            raise refusal(f"{self.path}/{name}", expected, kind_of(found.st_mode), target)

    @contextmanager
    def _naming(self, name: str) -> Iterator[None]:
        """Put the whole path into errors of the system, which name only a part of it."""
        try:
            yield
        except OSError as error:
            if error.errno is None:  # one with a text of its own
                raise
            raise self._named(name, error) from error

    def _named(self, name: str, error: OSError) -> OSError:
        return OSError(error.errno, error.strerror, f"{self.path}/{name}".rstrip("/"))


def _parts(name: str) -> list[str]:
    """Return the parts of a name; a name that leads out of the folder is no file's."""
    parts = name.split("/")
    if {"", ".", ".."} & set(parts) or "\0" in name:
        raise FileNotFoundError(errno.ENOENT, "expected a name below the folder", name)
    return parts
