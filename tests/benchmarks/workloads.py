"""What pbdist is timed against that is no other library: its own transforms, direct summation, fewer rounds."""

import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import Any
from unittest import mock

import numpy as np
from scipy import fft

from pbdist import Gaussian, Laplace, SubsampledGaussian, privacy_bounds
from pbdist.fourier import transform
from pbdist.pld import many_rounds
from pbdist.pld.few_frequencies import TiltedLeaf
from pbdist.pld.few_frequencies import few_frequencies as engine_few_frequencies
from tests.benchmarks.side_by_side import SideBySide, in_turns

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


class RecordedTransforms(ModuleType):
    """scipy.fft, which remembers what it transformed."""

    def __init__(self) -> None:
        super().__init__("scipy.fft")
        self.calls: list[tuple[str, tuple[int, ...], np.dtype, int]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(fft, name)

    def rfft(self, x, n=None, **options):
        self.calls.append(("rfft", x.shape, x.dtype, n))
        return fft.rfft(x, n, **options)

    def irfft(self, x, n=None, **options):
        self.calls.append(("irfft", x.shape, x.dtype, n))
        return fft.irfft(x, n, **options)

    def composes(self, leaves: Sequence[tuple[TiltedLeaf, int]], length: int) -> None:
        """Remember the transforms there and back that composing leaves in one go would have taken."""
        longer = fft.next_fast_len(length, real=True)
        for leaf, _ in leaves:
            rows = len(leaf.halves)
            self.calls.append(("rfft", (rows, leaf.last + 1), np.dtype(float), longer))
        self.calls.append(("irfft", (rows, longer // 2 + 1), np.dtype(complex), longer))

    def again(self) -> Callable[[], None]:
        """Return a function that does nothing but the same transforms once more, of other numbers."""
        generator = np.random.default_rng(0)
        vectors = {(shape, dtype): generator.random(shape).astype(dtype) for _, shape, dtype, _ in self.calls}

        def run() -> None:
            for name, shape, dtype, length in self.calls:
                getattr(fft, name)(vectors[shape, dtype], length, axis=-1, workers=1)

        return run


@dataclass(frozen=True)
class Workload:
    """A computation of pbdist's."""

    name: str
    run: Callable[[], Any]
    repetitions: int

    def against_its_transforms(self, repetitions: int) -> tuple[RecordedTransforms, SideBySide]:
        """Time the whole computation against bare transforms, in turns; ours is the second of the two times.

        They are those that it does; and where it computes few frequencies one by one, those that it spares: of the
        states that it composes, to the length of the result and back.
        """
        recorded = RecordedTransforms()

        def few_frequencies(factors, *arguments, **options):
            found = engine_few_frequencies(factors, *arguments, **options)
            if found is not None:
                recorded.composes(factors, found.length)
            return found

        with (
            mock.patch.object(transform, "fft", recorded),
            mock.patch.object(many_rounds, "few_frequencies", few_frequencies),
        ):
            self.run()
        return recorded, in_turns(recorded.again(), self.run, repetitions)


def workloads() -> list[Workload]:
    """Return what is timed against its transforms."""
    subsampled = partial(
        privacy_bounds, SubsampledGaussian(scale=4.0, rate=0.01), compositions=65_536, epsilon=[1.0, 2.0, 3.0]
    )
    laplace = partial(privacy_bounds, Laplace(200.0), epsilon=[0.05, 0.1])
    gaussian = partial(privacy_bounds, PAIR, compositions=512, epsilon=[0.1, 0.2, 0.3])
    return [
        Workload("DP-SGD, r 65,536, 1,000,000 buckets", partial(subsampled, buckets=1_000_000), 1),
        Workload("Laplace, r 64, default", partial(laplace, compositions=64), 15),
        Workload("Laplace, r 64, tolerance 1e-5", partial(laplace, compositions=64, tolerance=1e-5), 15),
        Workload("Laplace, r 64, 100,000 buckets", partial(laplace, compositions=64, buckets=100_000), 5),
        Workload("Gaussian, r 512, 100,000 buckets", partial(gaussian, buckets=100_000), 5),
        Workload("Gaussian, r 512, 1,000,000 buckets", partial(gaussian, buckets=1_000_000), 1),
        Workload("ladder to 2^18, 100,000 buckets", partial(ladder, "tight", BUCKETS), 1),
        Workload("the same, method buckets", partial(ladder, "buckets", BUCKETS), 1),
    ]


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
