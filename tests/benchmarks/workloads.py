"""Comparisons with direct summation and with fewer rounds."""

import math
import os
import subprocess
import sys
from typing import Any

import numpy as np

from pbdist import Gaussian, SubsampledGaussian, privacy_bounds

BUCKETS = 100_000
PAIR = Gaussian(200.0 * math.sqrt(2.0))
ROUNDS = 2 ** np.arange(19)
#: Compositions of a ladder of 1, 2, 4, .., 2^18, of a state of three vectors: of A, of B, and B's of the upper bound.
COMPOSITIONS, VECTORS = 18, 3

#: The environment of a process whose BLAS has one thread.
ONE_THREAD = {**os.environ, **dict.fromkeys(("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"), "1")}
_DIRECT = """
import sys, time
import numpy as np
x = np.exp(-20.0 * np.linspace(-1.0, 1.0, int(sys.argv[1])) ** 2)
start = time.perf_counter()
np.convolve(x, x)
print(time.perf_counter() - start)
"""


def ladder(method: str, buckets: int) -> Any:
    """Bounds after 1, 2, 4, .., 2^18 compositions."""
    return privacy_bounds(PAIR, compositions=ROUNDS, epsilon=[0.5, 1.0, 2.0, 4.0], method=method, buckets=buckets)


def direct_ladder_seconds(size: int) -> float:
    """Time of the ladder by direct summation: one convolution of two vectors of `size` elements, scaled up.

    Direct summation of n elements takes n² products; one is timed, and taken for each of 18 compositions and 3 vectors.
    In a process of its own with one thread, as many as the ladder takes: numpy hands the sums to BLAS, whose threads
    wait for one another on a busy machine, where the same summation took from 6 to 36 s with two of them and 3.3 s with
    one.
    """
    answer = subprocess.run(
        [sys.executable, "-c", _DIRECT, str(size)], check=True, capture_output=True, text=True, env=ONE_THREAD
    )
    return float(answer.stdout) * (BUCKETS / size) ** 2 * COMPOSITIONS * VECTORS


def same_curve(rounds: int) -> Any:
    """Bounds after so many steps of DP-SGD whose noise grows with their root: about the same δ for all."""
    pair = SubsampledGaussian(scale=0.02 * math.sqrt(rounds), rate=0.01)
    return privacy_bounds(pair, compositions=rounds, epsilon=[1.0, 2.0])
