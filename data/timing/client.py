"""Measure response times: each connection sends a request, waits for the answer, and takes the next request."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import cast

from data.timing.delay import UNIT_NS
from data.timing.service import ANSWER_BYTES

__all__ = ["SIDES", "Counts", "Tally", "alternating", "measure"]

#: A is answered at once, B after the extra work.
SIDES = ("a", "b")
_REQUESTS = tuple(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode() for path in ("/plain", "/extra"))


@dataclass
class Counts:
    """Counts of times in bins of one width from 0 on; the last bin is open."""

    width_ns: int
    bins: int
    #: By side and half.
    counts: dict[tuple[int, int], list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.counts = {(side, half): [0] * self.bins for side in (0, 1) for half in (0, 1)}

    def add(self, which: tuple[int, int], time_ns: int) -> None:
        """Count one time."""
        self.counts[which][min(max(time_ns, 0) // self.width_ns, self.bins - 1)] += 1


@dataclass
class Tally:
    """The response times, and the same without the delays that the service drew."""

    times: Counts
    rest: Counts
    answers: int = 0

    def add(self, which: tuple[int, int], time_ns: int, drawn: int) -> None:
        """Count one answer."""
        self.times.add(which, time_ns)
        self.rest.add(which, time_ns - drawn * UNIT_NS)
        self.answers += 1


def alternating(requests: int, block: int, *, mixed: bool = False) -> Iterator[tuple[int, int]]:
    """Return the side and the half of each request, so many a side: blocks A, B of half 0, then A, B of half 1, ..

    Drift of the machine so hits both sides and both halves. With `mixed` the requests of each two blocks come in random
    order: how long one waits behind others then does not depend on its own side.
    """
    for start in range(0, requests, block):
        count, half = min(block, requests - start), start // block % 2
        both = [(0, half)] * count + [(1, half)] * count
        if mixed:
            random.shuffle(both)
        yield from both


class _Client(asyncio.Protocol):
    """One connection: sends the next request when the last one is answered."""

    def __init__(self, requests: Iterator[tuple[int, int]], tally: Tally) -> None:
        self._requests = requests
        self._tally = tally
        self._received = b""
        self._which: tuple[int, int] | None = None
        self._sent_at = 0
        self.finished: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the way out."""
        # asyncio types the parameter too widely.
        self._transport = cast(asyncio.Transport, transport)

    def send_next(self) -> None:
        """Send the next request, or close where there is none."""
        self._which = next(self._requests, None)
        if self._which is None:
            self._transport.close()
            return
        self._sent_at = time.perf_counter_ns()
        self._transport.write(_REQUESTS[self._which[0]])

    def data_received(self, data: bytes) -> None:
        """Count an answer when it is complete."""
        received_at = time.perf_counter_ns()
        self._received += data
        if len(self._received) < ANSWER_BYTES:
            return
        answer, self._received = self._received, b""
        if self._which is None or len(answer) != ANSWER_BYTES or not answer.startswith(b"HTTP/1.1 200 OK\r\n"):
            self._fail(ConnectionError(f"expected an answer of {ANSWER_BYTES} bytes, got {answer[:80]!r}"))
            return
        self._tally.add(self._which, received_at - self._sent_at, int(answer[-8:]))
        self.send_next()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell that this connection is finished."""
        if self._which is not None:
            self._fail(exc or ConnectionError("expected an answer, got a closed connection"))
        elif not self.finished.done():
            self.finished.set_result(None)

    def _fail(self, problem: Exception) -> None:
        if not self.finished.done():
            self.finished.set_exception(problem)
        self._transport.close()


async def measure(
    port: int,
    requests: Iterator[tuple[int, int]],
    tally: Tally,
    *,
    connections: int = 1,
    ramp_s: float = 0.0,
    watch: Callable[[], Awaitable[None]] | None = None,
) -> None:
    """Send all requests over so many connections, and count the answers.

    Parameters
    ----------
    port : int
        Of the service, on the loopback interface.
    requests : iterator of (side, half)
        Shared by all connections.
    tally : Tally
        Where the answers are counted.
    connections : int, optional
        How many requests are under way at any time.
    ramp_s : float, optional
        The connections begin at random times of so many first seconds, so that their answers do not come all at once.
    watch : callable, optional
        Runs beside the measurement until it is over.

    Raises
    ------
    ConnectionError
        A connection broke, or an answer is none.
    """
    loop = asyncio.get_running_loop()
    clients: list[_Client] = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: _Client(requests, tally), "127.0.0.1", port)
        clients.append(client)
    watching = None if watch is None else asyncio.ensure_future(watch())
    try:
        for client in clients:
            loop.call_later(random.uniform(0.0, ramp_s), client.send_next)  # noqa: S311 -- only spreads the beginning
        await asyncio.gather(*(client.finished for client in clients))
    finally:
        if watching is not None:
            watching.cancel()
