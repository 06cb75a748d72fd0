"""The ladder of compositions: time against its bare transforms in one run, and peak memory.

Times are recorded, never asserted: a busy machine must not turn a test red. Run alone with
``pytest tests/benchmarks --benchmark-only -n 0``.
"""

import subprocess
import sys
import time

import numpy as np
import pytest
from scipy import fft

from pbdist.mechanisms import Gaussian
from pbdist.table import bounds_table

LARGEST = 2**18
BUCKETS = 100_000
PAIR = Gaussian(200.0 * 2.0**0.5)


def _ladder():
    return bounds_table([(PAIR, 1)], compositions=2 ** np.arange(19), epsilon=[0.5, 1.0, 2.0, 4.0], buckets=BUCKETS)


def _bare_transforms():
    """The transforms that the ladder's compositions need: four vectors, forth and back, in each of 18 steps."""
    vector = np.random.default_rng(0).random(BUCKETS)
    for _ in range(18 * 4):
        spectrum = fft.rfft(vector, 1 << 18)
        fft.irfft(spectrum * spectrum, 1 << 18)


@pytest.mark.slow
@pytest.mark.benchmark(group="ladder to 2^18, 100,000 buckets")
def test_ladder(benchmark):
    start = time.perf_counter()
    table = benchmark.pedantic(_ladder, rounds=1, iterations=1)
    own, start = time.perf_counter() - start, time.perf_counter()
    _bare_transforms()
    benchmark.extra_info["times its bare transforms"] = own / (time.perf_counter() - start)
    assert np.all(table.delta_lower <= table.delta_upper)


@pytest.mark.slow
def test_peak_memory_of_the_ladder():
    program = (
        "import re, numpy as np\n"
        "from pbdist.table import bounds_table\n"
        "from pbdist.mechanisms import Gaussian\n"
        f"pair, buckets = Gaussian({PAIR.scale!r}), {BUCKETS}\n"
        "bounds_table([(pair, 1)], compositions=2 ** np.arange(19), epsilon=[1.0, 4.0], buckets=buckets)\n"
        # Not ru_maxrss, which a child inherits from the process that started it.
        "print(re.search(r'VmHWM:\\s*(\\d+)', open('/proc/self/status').read())[1])\n"
    )
    kibibytes = int(subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout)
    assert kibibytes * 1024 < 1.5e9
