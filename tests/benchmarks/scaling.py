"""Time and peak memory over the number of buckets and of compositions, each in a process of its own."""

import json
import subprocess
import sys
from dataclasses import dataclass

#: Runs one of the calls, and says how long it took and how much memory the process ever had.
_PROGRAM = """
import json, math, sys, time
import numpy as np
import pbdist
from pbdist.fourier import convolve
from pbdist.mechanisms import Gaussian
from tests.benchmarks.side_by_side import peak_bytes

# Imported late, by the first call.
pbdist.privacy_bounds

def kernel(n):
    x = np.exp(-690.0 * np.linspace(-1.0, 1.0, n) ** 2)
    return lambda: convolve(x, x)

def tight(n):
    return lambda: pbdist.privacy_bounds(Gaussian(200.0 * 2.0**0.5), compositions=512, epsilon=[0.1, 0.3], buckets=n)

def buckets(n):
    return lambda: pbdist.privacy_bounds(
        Gaussian(200.0 * 2.0**0.5), compositions=512, epsilon=[0.1, 0.3], method="buckets", buckets=n
    )

def rounds(n):
    return lambda: pbdist.privacy_bounds(Gaussian(2.0 * math.sqrt(n)), compositions=n, epsilon=[1.0, 2.0])

def ladder(n):
    return lambda: pbdist.privacy_bounds(
        Gaussian(200.0 * 2.0**0.5), compositions=2 ** np.arange(19), epsilon=[1.0, 4.0], buckets=n
    )

def nothing(n):
    return lambda: None

run = globals()[sys.argv[1]](int(sys.argv[2]))
times = []
# The best of three, where it is short.
while len(times) < 3 and sum(times) < 2.0:
    start = time.perf_counter()
    run()
    times.append(time.perf_counter() - start)
print(json.dumps({"seconds": min(times), "peak_bytes": peak_bytes()}))
"""


@dataclass(frozen=True)
class Cost:
    """Seconds of the fastest run, and the largest resident set of its process in bytes."""

    seconds: float
    peak_bytes: int


def cost(call: str, size: int) -> Cost:
    """Measure "kernel", "tight", "buckets", "ladder" (of so many buckets), "rounds" (of compositions) or "nothing"."""
    command = [sys.executable, "-c", _PROGRAM, call, str(size)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    return Cost(**json.loads(answer.stdout))
