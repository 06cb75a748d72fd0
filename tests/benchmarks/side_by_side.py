"""Two programs timed in turns, in one process: what slows the machine down slows both."""

import re
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class SideBySide:
    """Seconds of a peer's runs and of our own, in the order of the runs."""

    peer: list[float]
    own: list[float]

    @property
    def fastest(self) -> tuple[float, float]:
        """Fastest run of the peer and of our own."""
        return min(self.peer), min(self.own)

    @property
    def median(self) -> tuple[float, float]:
        """Median run of the peer and of our own."""
        return statistics.median(self.peer), statistics.median(self.own)

    @property
    def ratios(self) -> tuple[float, float]:
        """Peer's time over ours: of the fastest runs, and of the medians."""
        return self.fastest[0] / self.fastest[1], self.median[0] / self.median[1]


def seconds(function: Callable[[], Any]) -> float:
    """Wall-clock seconds of one run."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def peak_bytes() -> int:
    """Return the most memory that this process has had: not ru_maxrss, which it inherits from its parent."""
    found = re.search(r"VmHWM:\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return 1024 * int(found[1]) if found else 0


#: Runs of one program before it is the other's turn: the first finds the other's data in the caches.
_RUNS = 3


def in_turns(peer: Callable[[], Any], own: Callable[[], Any], repetitions: int) -> SideBySide:
    """Run both in turns, three runs of each at a time, and return all times."""
    times = SideBySide([], [])
    for _ in range(repetitions):
        times.peer.extend(seconds(peer) for _ in range(_RUNS))
        times.own.extend(seconds(own) for _ in range(_RUNS))
    return times
