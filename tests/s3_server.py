"""A server on this machine that speaks S3: one for each test process, and a bucket of its own for each test."""

import functools
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from unittest.mock import patch
from urllib.error import URLError
from urllib.request import Request, urlopen
from uuid import uuid4

import pytest

__all__ = ["Bucket", "Server", "bucket", "fresh_bucket", "shared_server", "started_server"]

#: It takes a port that the system gives it, and prints it. It looks for an object and writes it in two steps: only one
#: request at a time may do that, as in a real object store. It ends with whoever holds its standard input.
_PROGRAM = """
import sys, threading
from moto.s3.responses import S3Response
from moto.server import ThreadedMotoServer
put_object, alone = S3Response.put_object, threading.Lock()
def put_alone(response):
    with alone:
        return put_object(response)
S3Response.put_object = put_alone
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Server:
    """A server that runs; `process` may be stopped with SIGSTOP, but not ended where others share it."""

    process: "subprocess.Popen[str]"
    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def request(self, method: str, path: str) -> bytes:
        """Send a request without a body; return that of the answer."""
        with urlopen(Request(f"{self.address}/{path}", method=method), timeout=240) as answer:  # noqa: S310 -- http
            content: bytes = answer.read()
            return content


@dataclass(frozen=True)
class Bucket:
    """A bucket of a server, at first an empty one."""

    server: Server
    name: str

    @property
    def url(self) -> str:
        return f"s3://{self.name}"

    def remove(self) -> None:
        """Remove it with all that is in it, as its owner would do it."""
        from obstore.store import S3Store

        store = S3Store(self.name, client_options={"allow_http": True})
        for objects in store.list():
            store.delete([one["path"] for one in objects])
        self.server.request("DELETE", self.name)


def _start() -> Server:
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        # Ctrl-C is not for it.
        start_new_session=True,
    )
    assert process.stdout is not None
    return Server(process, int(process.stdout.readline()))


@functools.cache
def shared_server() -> Server:
    """The server of this process, which ends with it."""
    return _start()


@contextmanager
def started_server() -> Iterator[Server]:
    """Another server, for those who end theirs or need two."""
    server = _start()
    with server.process:
        try:
            yield server
        finally:
            server.process.kill()


@contextmanager
def fresh_bucket(server: Server | None = None, name: str | None = None) -> Iterator[Bucket]:
    """Create a bucket, by default a new one of the shared server, and set the environment that reaches it.

    The environment is that of this process and of those that it starts meanwhile.
    """
    found = Bucket(server or shared_server(), name or f"test-{uuid4().hex}")
    deadline = time.monotonic() + 240
    while True:
        # The port is told before the server answers.
        with suppress(URLError):
            found.server.request("PUT", found.name)
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    settings = {
        "AWS_ENDPOINT_URL": found.server.address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }
    with patch.dict(os.environ, settings):
        yield found


@pytest.fixture
def bucket() -> Iterator[Bucket]:
    """A bucket for one test. For a module: ``with fresh_bucket() as found: yield found``."""
    with fresh_bucket() as found:
        yield found
