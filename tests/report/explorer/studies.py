"""Small studies that the tests of the explorer show, and a server of one."""

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from pbdist.report.explorer.server import ExplorerServer, Served

#: A label that is an attack on a page that shows it as markup.
HOSTILE = "</script><img src=x onerror=alert(1)> =1+1 'quoted'"
STUDY = f"""\
format: 1
name: shown
mechanisms:
  - kind: Gaussian
    scale: [5, 10, 20, 40, 80, 160]
  - kind: Gaussian
    label: sensitive
    sensitivity: [1, 2]
    scale: [20, 40, 80]
  - kind: RandomizedResponse
    p: [0.6, 0.75, 0.9]
  - label: counts
    kind: NoisyCount
    noise: {{kind: Laplace, scale: 2}}
    mean: [10, 20]
    shift: 1
  - label: unattained
    kind: ReleasePlan
    granularity: unbounded
    blocks: {{partition: [a, b]}}
    analyses: [{{name: count, reads_each: all, pair: {{kind: Laplace, scale: 10}}}}]
  - label: {json.dumps(HOSTILE)}
    kind: Gaussian
    scale: 3
compositions: [1, 16, 1024]
epsilon: [0, 0.5, 0.6931471805599453, 1, 2, 20]
targets:
  - {{exp_epsilon: 2, delta: 1.0e-4, compositions: 16}}
  - {{epsilon: 1, delta: 1.0e-6, compositions: 1024}}
"""
#: A study whose tolerance is missed: of noise that hides almost everything only little is resolved.
MISSED = """\
format: 1
name: missed
mechanisms:
  - {kind: Laplace, scale: [2, 1.0e+12]}
compositions: [1, 2]
epsilon: [0, 1.0e-13, 0.5]
"""


@contextmanager
def serving(store: Path | str, host: str = "127.0.0.1") -> Iterator[int]:
    """The port of a server of a store, in a thread of its own."""
    loop = asyncio.new_event_loop()
    ready = threading.Event()
    found: dict[str, Any] = {}

    def run() -> None:
        asyncio.set_event_loop(loop)
        server = ExplorerServer(Served(str(store)), host, 0)
        found["port"] = server.port
        loop.call_soon(ready.set)
        loop.run_forever()
        server.close()
        loop.close()

    thread = threading.Thread(target=run)
    thread.start()
    try:
        assert ready.wait(60)
        yield found["port"]
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(60)


def answer(port: int, path: str, method: str = "GET", **headers: str) -> tuple[int, dict[str, str], bytes]:
    """The status, the headers and the body that a server answers with."""
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
        found = connection.getresponse()
        return found.status, dict(found.getheaders()), found.read()
    finally:
        connection.close()


def asked(port: int, path: str) -> Any:
    """The JSON that a server answers with."""
    status, _, body = answer(port, path)
    assert status == 200, body
    return json.loads(body)
