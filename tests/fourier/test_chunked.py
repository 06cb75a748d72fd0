"""The parts of the chunked convolution: transforms, tilts, cuts of every kind, towers and memory."""

import re
import subprocess
import sys
import tracemalloc

import mpmath
import numpy as np
import pytest

from pbdist.fourier import convolve
from pbdist.fourier.chunk_sizes import _Cut
from pbdist.fourier.chunked_convolution import convolve_blocks
from pbdist.fourier.convolution import _chunked_convolution, scale_back
from pbdist.fourier.transform import forward, good_length, inverse, transform_error
from pbdist.fourier.vectors import chunk_length, tower_candidates, towers_among
from pbdist.mechanisms import UNIT_ROUNDOFF
from tests.fourier.convolution_truth import SHAPES, assert_within_bound, exact_convolution, projected_bytes, shape

pytestmark = pytest.mark.slow

ROUGH_AND_SMOOTH = [name for name in SHAPES if name not in {"two atoms", "sparse"}]


def _is_good(length):
    for prime in (2, 3, 5):
        while length % prime == 0:
            length //= prime
    return length == 1


def test_lengths_are_those_that_the_assumption_covers():
    for size in [*range(1, 300), 99_999, 131_073, (1 << 24) + 1]:
        assert size <= good_length(size) <= 1.25 * size
        assert _is_good(good_length(size))
        for chunks in (1, 16, 512):
            chunk = chunk_length(size, chunks)
            assert _is_good(2 * chunk)
            assert chunk * chunks >= size
    assert transform_error(1 << 18) == pytest.approx(2.8e-14, rel=0.01)


def _vectors(length, random):
    yield random.random(length)
    yield random.standard_normal(length)
    yield np.exp(-20.0 * np.linspace(0.0, 1.0, length))
    yield np.ones(length)


def _worst(error, exact, terms, length):
    """Worst observed error over the assumed one, in the 2-norm and element by element."""
    assumed = transform_error(length)
    in_norm = np.linalg.norm(error) / (assumed * np.linalg.norm(exact))
    return float(max(in_norm, np.max(np.abs(error)) / (assumed * np.sum(np.abs(terms)))))


def test_a_transform_errs_by_less_than_half_of_what_is_assumed_by_exact_arithmetic():
    random = np.random.default_rng(1)
    worst = 0.0
    with mpmath.workdps(40):
        for length in [n for n in range(2, 70) if _is_good(n)]:
            roots = [mpmath.expjpi(mpmath.mpf(-2 * k) / length) for k in range(length)]
            x = random.standard_normal(length)
            exact = [mpmath.fdot(x.tolist(), [roots[j * k % length] for j in range(length)]) for k in range(length)]
            computed = forward(x, length)
            error = np.array([complex(computed[k] - exact[k]) for k in range(length // 2 + 1)])
            # All frequencies count in the norm: those left out mirror the others.
            worst = max(worst, _worst(np.append(error, error[1:]), np.array(exact, dtype=complex), x, length))
    assert 0.0 < worst < 0.5


@pytest.mark.skipif(np.finfo(np.longdouble).eps > 1e-18, reason="needs a longer float as the reference")
def test_a_transform_errs_by_less_than_half_of_what_is_assumed():
    from scipy import fft

    random = np.random.default_rng(2)
    lengths = {good_length(int(n)) for n in 2.0 ** random.uniform(1.0, 17.0, 80)}
    lengths |= {3**k for k in range(1, 11)} | {5**k for k in range(1, 8)} | {2**k for k in range(1, 19)}
    worst = 0.0
    for length in sorted(lengths):
        for x in _vectors(length, random):
            exact = fft.fft(x.astype(np.longdouble))
            half = exact[: length // 2 + 1]
            error = forward(x, length) - half
            worst = max(worst, _worst(np.append(error, error[1:]), exact, x, length))
            spectrum = forward(x, length)
            back = fft.irfft(spectrum.astype(np.clongdouble), length)
            worst = max(worst, _worst(inverse(spectrum, length) - back, back, exact / length, length))
    assert 0.0 < worst < 0.5


def test_powers_of_two_err_by_less_than_assumed():
    random = np.random.default_rng(4)
    exponents = np.round(random.uniform(-260.0, 260.0, 4000) * 2.0**34) * 2.0**-34
    with mpmath.workdps(40):
        errors = [
            abs(power / mpmath.mpf(2) ** mpmath.mpf(e) - 1)
            for power, e in zip(np.exp2(exponents), exponents, strict=True)
        ]
    assert max(errors) < 8.0 * UNIT_ROUNDOFF


def convolved(cut, plan):
    """What is left without the towers; only elements whose blocks are planned are meaningful."""
    values, bound = (part[: cut.size] for part in convolve_blocks(cut.x, cut.y, plan))
    scale_back((values, bound), sum(cut.exponents))
    return values, bound


def towers_of(chunks):
    return towers_among([tower_candidates(chunks, 0)])


@pytest.mark.parametrize("chunks", [1, *(pytest.param(chunks, marks=pytest.mark.nightly) for chunks in (2, 5)), 32])
@pytest.mark.parametrize("size", [431, *(pytest.param(size, marks=pytest.mark.nightly) for size in (100, 900))])
@pytest.mark.parametrize("name", ROUGH_AND_SMOOTH)
def test_every_cut_is_within_its_bound(name, size, chunks):
    random = np.random.default_rng(size + chunks)
    x = shape(name, size, random)
    for y in (x, shape(name, size // 2, random)[::-1].copy(), shape("uniform random", size // 3, random)):
        cut = _Cut(x, y, chunks)
        rest = []
        for vector, towers in zip((x, y), cut.towers, strict=True):
            rest.append(vector.copy())
            rest[-1][towers] = 0.0
        truth = exact_convolution(rest[0], rest[1])
        values, bound = convolved(cut, cut.planned())
        assert_within_bound(values, bound, truth)
        # Only what is wanted need be right.
        wanted = np.zeros(cut.x.shape[0] + cut.y.shape[0] - 1, dtype=bool)
        start, stop = values.size // 3, values.size // 2
        wanted[cut.blocks_of(start, stop)] = True
        values, bound = convolved(cut, cut.planned(wanted))
        assert_within_bound(values[start:stop], bound[start:stop], truth[start:stop])


@pytest.mark.parametrize("name", ROUGH_AND_SMOOTH)
def test_cuts_are_mended_within_their_bound(name):
    random = np.random.default_rng(17)
    x, y = shape(name, 6000, random), shape(name, 4100, random)[::-1].copy()
    for second in (x, y):
        assert_within_bound(*_chunked_convolution(x, second), exact_convolution(x, second))


def test_a_kink_is_mended():
    x = shape("two-sided exponential", 40_000, None)
    coarse = _Cut(x, x, 32)
    assert coarse.planned().lost.any()
    values, bound = convolve(x, x)
    relevant = values > 1e-290 * values.max()
    assert np.max(bound[relevant] / values[relevant]) < 1e-8


def test_towers_are_few_and_high():
    chunks = np.full((2, 4000), 1e-3)
    chunks[0, [0, 1, 1700]] = 0.5
    chunks[1, 3999] = 1.0
    chunks[1, 2000] = 2e-3
    np.testing.assert_array_equal(towers_of(chunks), [0, 1, 1700, 7999])
    assert towers_of(np.random.default_rng(0).random((2, 4000))).size == 0
    assert towers_of(np.eye(64).repeat(8, axis=1)).size == 0


@pytest.mark.parametrize(
    "name", ["constant", "gaussian", "widest gaussian", "two-sided exponential", "falling", "gaps"]
)
@pytest.mark.parametrize(("size_x", "size_y"), [(1 << 18, 1 << 18), (300_000, 40_000), (60_000, 60_000)])
def test_memory_stays_below_what_was_projected(name, size_x, size_y):
    random = np.random.default_rng(5)
    x, y = shape(name, size_x, random), shape(name, size_y, random)[::-1].copy()
    tracemalloc.start()
    try:
        convolve(x, y)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak <= projected_bytes(size_x, size_y)
    assert projected_bytes(size_x, size_y) <= 8 * peak


_PEAK = r"""
import re, sys, numpy as np
from pbdist.fourier import convolve
from tests.fourier.convolution_truth import projected_bytes
def resident(field):
    return 1024 * int(re.search(field + r':\s*(\d+)', open('/proc/self/status').read())[1])
size = int(sys.argv[1])
x = np.linspace(-1.0, 1.0, size)
np.multiply(x, x, out=x)
x *= -float(sys.argv[2])
np.exp(x, out=x)
y = x if sys.argv[3] == 'same' else x[::-1].copy()
before = resident('VmRSS')
values, bound = convolve(x, y)
print(resident('VmHWM') - before, resident('VmHWM'), float(bound.max() / values.max()))
"""


def _peak(size, steepness, second):
    arguments = [sys.executable, "-c", _PEAK, str(size), str(steepness), second]
    output = subprocess.run(arguments, check=True, capture_output=True, text=True).stdout
    above, total, width = re.split(r"\s+", output.strip())
    return int(above), int(total), float(width)


@pytest.mark.nightly
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_of_16_million_elements_stays_below_4_gb():
    above, total, width = _peak(1 << 24, 690.0, "same")
    assert above <= projected_bytes(1 << 24, 1 << 24)
    assert total < 4e9
    assert width < 1e-11
