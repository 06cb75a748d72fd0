"""A server on this machine that speaks S3, in a process of its own."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch
from urllib.error import URLError
from urllib.request import Request, urlopen

#: It takes a port that the system gives it, and prints it. It looks for an object and writes it in two steps: only one
#: request at a time may do that, as in a real object store.
_PROGRAM = """
import threading
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
threading.Event().wait()
"""


@contextmanager
def s3_server(bucket: str) -> Iterator[str]:
    """Start it, create a bucket, and set the environment of this process and of those it starts; yield the address."""
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as server:
        try:
            assert server.stdout is not None
            address = f"http://127.0.0.1:{int(server.stdout.readline())}"
            make_bucket(address, bucket)
            settings = {
                "AWS_ENDPOINT_URL": address,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": "test",
                "AWS_REGION": "us-east-1",
            }
            with patch.dict(os.environ, settings):
                yield address
        finally:
            server.kill()


def make_bucket(address: str, bucket: str) -> None:
    deadline = time.monotonic() + 240
    while True:
        try:
            with urlopen(Request(f"{address}/{bucket}", method="PUT"), timeout=240):  # noqa: S310 -- the server above
                return
        except URLError:
            assert time.monotonic() < deadline
            time.sleep(0.1)
