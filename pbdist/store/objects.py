"""A store in an object store that speaks S3, through obstore: an optional package, imported when it is used."""

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING

import zarr.abc.store
import zarr.storage

from pbdist.store.descriptors import Entry
from pbdist.store.irregular import MOST_DOCUMENT, OversizeError, check_document

if TYPE_CHECKING:
    from obstore.store import S3Store

__all__ = ["SCHEME", "ObjectPlace"]

SCHEME = "s3://"


@dataclass(frozen=True)
class ObjectPlace:
    """A prefix in a bucket of an object store that speaks S3. Its settings are those of the environment (``AWS_..``).

    Attributes
    ----------
    url
        ``s3://BUCKET/PREFIX``.
    """

    url: str

    def read(self, name: str, most: int = MOST_DOCUMENT) -> bytes:
        """Return the content of an object."""
        with _told(self.url, name):
            found = self._objects.get(name)
            if found.meta["size"] > most:
                raise OversizeError(f"{self.url}/{name}", found.meta["size"], most)
            return bytes(found.bytes())

    def write(self, name: str, data: bytes) -> None:
        """Write an object."""
        check_document(name, data)
        with _told(self.url, name):
            self._objects.put(name, data)

    def create(self, name: str, data: bytes) -> bool:
        """Write an object that does not exist yet, by a conditional request."""
        check_document(name, data)
        try:
            with _told(self.url, name):
                self._objects.put(name, data, mode="create")
        except FileExistsError:
            return False
        return True

    def exchange(self, name: str, old: bytes, new: bytes) -> bool:
        """Write an object whose content is `old`, by a conditional request."""
        from obstore.exceptions import PreconditionError  # noqa: PLC0415 -- an optional package

        try:
            with _told(self.url, name):
                found = self._objects.get(name)
                version = found.meta["e_tag"]
                if version is None or found.meta["size"] != len(old) or bytes(found.bytes()) != old:
                    return False
                try:
                    self._objects.put(name, new, mode={"e_tag": version})
                except PreconditionError:
                    return False
        except FileNotFoundError:
            return False
        return True

    def remove(self, name: str) -> None:
        """Remove an object, if it is there."""
        with suppress(FileNotFoundError), _told(self.url, name):
            self._objects.delete(name)

    def names(self, under: str = "") -> Iterator[tuple[str, int]]:
        """Yield names and sizes in alphabetical order."""
        with _told(self.url, under):
            for found in self._objects.list(f"{under}/" if under else None):
                for item in found:
                    yield item["path"], item["size"]

    def walk(self, under: str = "") -> Iterator[Entry]:
        """Yield all objects."""
        for name, size in self.names(under):
            yield Entry(name, "file", size)

    def inner(self, name: str) -> "ObjectPlace":
        """Return the place of a folder inside this one."""
        return ObjectPlace(f"{self.url}/{name}")

    def zarr_store(self, most: Callable[[str], int]) -> zarr.abc.store.Store:  # noqa: ARG002 -- zarr's own client reads
        """Return a zarr store that reads the same objects, of any size."""
        return zarr.storage.ObjectStore(self._objects, read_only=True)

    @property
    def _objects(self) -> "S3Store":
        return _objects(self.url)


@cache
def _objects(url: str) -> "S3Store":
    """Return the client of a prefix, one in each process."""
    from obstore.store import S3Store  # noqa: PLC0415 -- an optional package

    bucket, _, prefix = url.removeprefix(SCHEME).partition("/")
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
    return S3Store(
        bucket,
        prefix=prefix or None,
        region=os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1",
        # Only where the endpoint itself says so.
        client_options={"allow_http": endpoint.startswith("http://"), "connect_timeout": "20s", "timeout": "300s"},
        retry_config={"max_retries": 5, "retry_timeout": timedelta(seconds=60)},
    )


@contextmanager
def _told(url: str, name: str) -> Iterator[None]:
    """Turn what the client of an object store raises into an `OSError` of one line."""
    from obstore import exceptions  # noqa: PLC0415 -- an optional package

    where = f"{url}/{name}".rstrip("/")
    try:
        yield
    except OversizeError:
        raise
    except (exceptions.BaseError, OSError, ValueError) as error:
        text = str(error)
        if isinstance(error, FileExistsError | exceptions.AlreadyExistsError):
            raise FileExistsError(f"{where}: expected no object, got one") from error
        if isinstance(error, FileNotFoundError | exceptions.NotFoundError) and "NoSuchBucket" not in text:
            raise FileNotFoundError(f"{where}: expected an object, got none") from error
        raise OSError(f"{where}: expected to reach the object store, got: {_cause(text)}") from error


def _cause(text: str) -> str:
    """Return on one short line what an object store has answered, or why it does not."""
    answer = re.search(r"<Code>(.*?)</Code>(?:\s*<Message>(.*?)</Message>)?", text, re.DOTALL)
    told = ": ".join(part for part in answer.groups() if part) if answer else text.split("Debug source", maxsplit=1)[0]
    return " ".join(told.split())[:300]
