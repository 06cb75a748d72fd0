"""The convolution kernel against one plain Fourier transform and against direct summation.

Times are recorded, never asserted: a busy machine must not turn a test red. Run alone with
``pytest tests/benchmarks --benchmark-only -n 0``, with ``-m "not slow"`` for vectors of up to 2^17 elements.
``extra_info`` holds the ratio of the kernel's time to that of a plain transform, and of direct
summation's to the kernel's.
"""

import time

import numpy as np
import pytest
from scipy.signal import fftconvolve

from pbdist.fourier import convolve
from tests.fourier.convolution_truth import projected_bytes

SIZES = [
    1 << 12,
    1 << 14,
    1 << 17,
    pytest.param(1 << 20, marks=pytest.mark.slow),
]
#: Direct summation takes minutes beyond.
DIRECT_SIZES = [1 << 12, 1 << 14, pytest.param(1 << 15, marks=pytest.mark.slow)]


def _vector(shape, size):
    position = np.linspace(-1.0, 1.0, size)
    steepness = {"flat": 0.0, "bulk": 30.0, "300 digits": 690.0}[shape]
    return np.exp(-steepness * position**2)


def _seconds(function, *arguments):
    """Best of three."""
    best = np.inf
    for _ in range(3):
        start = time.perf_counter()
        function(*arguments)
        best = min(best, time.perf_counter() - start)
    return best


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("shape", ["flat", "bulk", "300 digits"])
@pytest.mark.benchmark(group="convolution kernel")
def test_kernel(benchmark, shape, size):
    x = _vector(shape, size)
    values, bound = benchmark.pedantic(convolve, args=(x, x), rounds=3, iterations=1, warmup_rounds=1)
    own = _seconds(convolve, x, x)
    benchmark.extra_info["times a plain transform"] = own / _seconds(fftconvolve, x, x)
    relevant = values > 1e-290 * values.max()
    benchmark.extra_info["worst relative bound"] = float(np.max(bound[relevant] / values[relevant]))
    benchmark.extra_info["projected bytes"] = projected_bytes(size, size)
    assert benchmark.extra_info["worst relative bound"] < 1e-6


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.benchmark(group="convolution kernel")
def test_plain_transform(benchmark, size):
    x = _vector("300 digits", size)
    plain = benchmark.pedantic(fftconvolve, args=(x, x), rounds=3, iterations=1, warmup_rounds=1)
    values, bound = convolve(x, x)
    # It is as good next to the largest element alone.
    assert np.all(np.abs(plain - values) <= bound + 1e-13 * values.max())


@pytest.mark.parametrize("size", DIRECT_SIZES)
@pytest.mark.benchmark(group="convolution kernel")
def test_direct_summation(benchmark, size):
    x = _vector("300 digits", size)
    start = time.perf_counter()
    sums = benchmark.pedantic(np.convolve, args=(x, x), rounds=1, iterations=1)
    direct = time.perf_counter() - start
    values, bound = convolve(x, x)
    assert np.all(np.abs(sums - values) <= bound + size * 2.3e-16 * sums + size * 5e-324)
    benchmark.extra_info["times the kernel"] = direct / _seconds(convolve, x, x)


@pytest.mark.slow
@pytest.mark.benchmark(group="convolution kernel")
def test_kernel_with_16_million_elements(benchmark):
    x = _vector("300 digits", 1 << 24)
    values, bound = benchmark.pedantic(convolve, args=(x, x), rounds=1, iterations=1)
    assert float(bound.max() / values.max()) < 1e-11
