"""A small HTTP service: it answers at once, or does extra work first; it may delay each answer by a random time.

``GET /plain`` and ``GET /extra`` get an answer of the same length. Without a delay the answer leaves when the work is
done. With a delay it is scheduled: let T be the time that the work took, rounded up to whole units, or the deadline
where that is less. The answer leaves T and a freshly drawn delay after the request was read. So T never exceeds the
deadline. But an answer cannot leave before its work is done: work that takes longer than the scheduled time makes the
answer late, and that tells of the work. Nothing here limits the work; what late answers cost is in
docs/measured-timing.md.

The body of an answer is the drawn delay, in units, so that a measurement can take it off. A service that hides
something would not tell it.
"""

import asyncio
import hashlib
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import cast

from data.timing.delay import UNIT_NS, GaussianDelay

__all__ = ["ANSWER_BYTES", "Settings", "run_service", "serve"]

_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 8\r\n\r\n"
#: The length of every answer.
ANSWER_BYTES = len(_HEAD) + 8
_REFUSAL = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
_LARGEST_REQUEST = 8192
_UNIT = UNIT_NS * 1e-9


@dataclass(frozen=True)
class Settings:
    """What a service does.

    Attributes
    ----------
    work_bytes
        The extra work is the SHA-256 of so many bytes.
    scale, deadline
        The scale of the delay and the deadline of the work, in units; without a delay the scale is None.
    """

    work_bytes: int
    scale: int | None = None
    deadline: int = 0


class _Service:
    """What the connections of one service share."""

    def __init__(self, settings: Settings) -> None:
        self.deadline = settings.deadline
        self.delay = None if settings.scale is None else GaussianDelay(settings.scale)
        self._data = bytes(settings.work_bytes)

    def extra_work(self) -> None:
        """Do what gives the secret away."""
        hashlib.sha256(self._data).digest()


class _Connection(asyncio.Protocol):
    """One connection, kept alive; its requests are answered one after the other."""

    def __init__(self, service: _Service) -> None:
        self._service = service
        self._loop = asyncio.get_running_loop()
        self._received = b""
        self._busy = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way back."""
        # asyncio types the parameter too widely.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        """Answer a request when its head is complete."""
        self._received += data
        if not self._busy:
            self._answer_next()

    def _answer_next(self) -> None:
        head, end, rest = self._received.partition(b"\r\n\r\n")
        if not end:
            if len(head) > _LARGEST_REQUEST:
                self._refuse()
            return
        self._received = rest
        read_at = self._loop.time()
        line = head.partition(b"\r\n")[0]
        if line == b"GET /extra HTTP/1.1":
            self._service.extra_work()
        elif line != b"GET /plain HTTP/1.1":
            self._refuse()
            return
        self._schedule(read_at)

    def _schedule(self, read_at: float) -> None:
        delay = self._service.delay
        if delay is None:
            self._transport.write(_HEAD + b"00000000")
            if self._received:
                self._answer_next()
            return
        drawn = delay.draw()
        done = -int((read_at - self._loop.time()) // _UNIT)  # Rounded up to whole units.
        self._busy = True
        self._loop.call_at(read_at + (min(done, self._service.deadline) + drawn) * _UNIT, self._send, drawn)

    def _send(self, drawn: int) -> None:
        self._busy = False
        if self._transport.is_closing():
            return
        self._transport.write(_HEAD + b"%08d" % drawn)
        if self._received:
            self._answer_next()

    def _refuse(self) -> None:
        self._transport.write(_REFUSAL)
        self._transport.close()


def run_service(settings: Settings, parent: Connection) -> None:
    """Serve on a free port of the loopback interface, whose number goes to `parent`, until `parent` sends or closes."""
    asyncio.run(serve(settings, parent))


async def serve(settings: Settings, parent: Connection) -> None:
    """As `run_service`, in a running event loop."""
    loop, service = asyncio.get_running_loop(), _Service(settings)
    server = await loop.create_server(lambda: _Connection(service), "127.0.0.1", 0, backlog=4096)
    stopped = asyncio.Event()
    loop.add_reader(parent.fileno(), stopped.set)
    parent.send(server.sockets[0].getsockname()[1])
    await stopped.wait()
    loop.remove_reader(parent.fileno())
    server.close()
