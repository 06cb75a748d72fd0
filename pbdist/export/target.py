"""Where an export is written: beside its path first, and renamed once it is whole; nothing is ever overwritten."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import uuid4

from pbdist.errors import InvalidInputError
from pbdist.store import LocalPlace, check_outside
from pbdist.store.files import PARTIAL

#: The forms of an export, by the end of its name.
SUFFIXES = (".zarr", ".nc", ".parquet", ".csv")
#: The end of the name of the file that says what a CSV file holds, as in the W3C's model for tabular data.
METADATA = "-metadata.json"


def checked_target(out: str | Path) -> Path:
    """Return the path of an export, as an absolute one.

    Raises
    ------
    InvalidInputError
        It has another end than those of the forms, something is there already, its folder is not, or it lies in a
        store.
    """
    if "://" in str(out):
        raise InvalidInputError(
            f"out: expected a path on this machine, got {str(out)!r}: export to a folder, and copy it there"
        )
    path = Path(os.path.abspath(out))
    if path.suffix not in SUFFIXES or path.name == path.suffix:
        raise InvalidInputError(f"out: expected a name that ends in {', '.join(SUFFIXES)}, got {path.name!r}")
    for each in _names(path):
        if os.path.lexists(each):
            raise InvalidInputError(f"out: expected a path at which there is nothing yet, got {each}")
    if not path.parent.is_dir():
        raise InvalidInputError(f"out: expected a path in a folder that exists, got {path}")
    check_outside(LocalPlace(str(path)), "out")
    return path


@contextmanager
def written_beside(path: Path) -> Iterator[Path]:
    """Yield a path in the same folder to write to; with the end of the block what is there gets the name `path`.

    What is there is a folder, or a file (beside a CSV file that with its metadata). Whatever ends the block early
    leaves nothing at `path`; a kill leaves a hidden name that ends in ``.partial``.
    """
    temporary = path.with_name(f".{path.name}.{uuid4().hex}{PARTIAL}")
    try:
        yield temporary
        try:
            _publish(temporary, path)
        except FileExistsError as error:
            raise InvalidInputError(f"out: expected a path at which there is nothing yet, got {path}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
        for each in _names(temporary, path.suffix):
            with suppress(OSError):
                each.unlink()


def _names(path: Path, suffix: str = "") -> tuple[Path, ...]:
    """Return all paths of an export, that of the bounds last."""
    return (*([path.with_name(path.name + METADATA)] if (suffix or path.suffix) == ".csv" else []), path)


def _publish(temporary: Path, path: Path) -> None:
    if temporary.is_dir():
        if os.path.lexists(path):
            raise FileExistsError(path)
        # Fails where there is a folder with anything in it by now.
        temporary.rename(path)
        return
    done: list[Path] = []
    try:
        for source, name in zip(_names(temporary, path.suffix), _names(path), strict=True):
            with source.open("rb+") as file:
                os.fsync(file.fileno())
            _give_name(source, name)
            done.append(name)
    except BaseException:
        for name in done:
            name.unlink()
        raise


def _give_name(source: Path, name: Path) -> None:
    """Give a file a name that nothing has yet."""
    try:
        os.link(source, name)
    except FileExistsError:
        raise
    except OSError:
        # A file system without hard links.
        if os.path.lexists(name):
            raise FileExistsError(name) from None
        source.rename(name)
