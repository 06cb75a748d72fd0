"""Measured against projected memory: each cell in a process of its own, which has imported what a worker has."""

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from pbdist.mechanisms import (
    ApproximateDP,
    DiscreteGaussian,
    DiscreteLaplace,
    Gaussian,
    Histogram,
    Laplace,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    RandomizedResponse,
    SubsampledGaussian,
)
from pbdist.study import Cell, StudySpec, plan_study

PAIRS: tuple[Pair, ...] = (
    Laplace(40.0),
    Gaussian(80.0),
    Gaussian(80.0, 1.0, (-700.0, 600.0)),
    SubsampledGaussian(4.0, 0.05),
    RandomizedResponse(0.51),
    ApproximateDP(0.1, 1e-6),
    Histogram([30, 40, 31], [29, 43, 30]),
    NoisyCount(Laplace(50.0), 600, 2),
    NoisyCount(Gaussian(40.0), 300, 1),
    Poisson(30_000.0),
    DiscreteGaussian(40.0, 2),
    DiscreteLaplace(3.0, 20),
    Product(Laplace(50.0), Gaussian(60.0)),
)
#: Tolerance, number of buckets, r, and whether states are kept.
Size = tuple[float | None, int | None, tuple[int, ...], bool]
TIGHT: dict[str, Size] = {
    "small": (1e-2, None, (1, 64), False),
    "large": (1e-4, None, (1, 512, 2**16), False),
    "kept": (1e-3, None, (1, 512, 2**16), True),
    "given": (1e-3, 100_000, (64,), False),
}
BUCKETS: dict[str, Size] = {"small": (None, 2_000, (1, 7), False), "large": (None, 150_000, (3, 64), False)}

_MEASURE = """
import json, os, sys
import distributed, xarray, zarr
from pbdist.table import bounds_table
from pbdist.study import StudySpec
from pbdist.mechanisms import pair_from_canonical

def peak():
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

for line in sys.stdin:
    asked = json.loads(line)
    end, other = os.pipe()
    child = os.fork()
    if not child:
        pair = pair_from_canonical(asked.pop("pair"))
        table = bounds_table([(pair, 1)], strict=False, **asked)
        os.write(other, str(peak()).encode())
        os._exit(0)
    os.close(other)
    print(os.read(end, 100).decode() or "-1")
    os.close(end)
    os.waitpid(child, 0)
"""


def _study(pair: Pair, size: Size, method: str) -> StudySpec:
    tolerance, buckets, compositions, keep_states = size
    return StudySpec(
        name="s",
        cells=(Cell("c", pair, None),),
        method=method,
        tolerance=tolerance,
        buckets=buckets,
        compositions=compositions,
        epsilon=(0.5, 1.0),
        keep_states=keep_states,
    )


def _peaks(studies: Sequence[StudySpec]) -> list[int]:
    lines = [
        json.dumps(
            {
                "pair": study.cells[0].pair.canonical(),
                "compositions": study.compositions,
                "epsilon": study.epsilon,
                "method": study.method,
                "tolerance": study.tolerance,
                "buckets": study.buckets,
                "keep_states": study.keep_states,
            }
        )
        for study in studies
    ]
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    return [int(line) for line in done.stdout.split()]


@pytest.mark.slow(reason="measures what processes of their own take")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize(
    ("method", "sizes", "pairs"),
    [
        ("tight", {name: TIGHT[name] for name in ("small", "kept")}, PAIRS[:1]),
        pytest.param("tight", TIGHT, PAIRS, marks=pytest.mark.nightly),
        pytest.param("buckets", BUCKETS, (PAIRS[0], *PAIRS[3:5]), marks=pytest.mark.nightly),
    ],
    ids=["one", "tight", "buckets"],
)
def test_measured_memory_is_at_most_projected(method: str, sizes: dict[str, Size], pairs: tuple[Pair, ...]) -> None:
    named = [(f"{name} {pair}", _study(pair, size, method)) for name, size in sizes.items() for pair in pairs]
    peaks = _peaks([study for _, study in named])
    assert len(peaks) == len(named)
    ratios: dict[str, float] = {}
    for (name, study), peak in zip(named, peaks, strict=True):
        assert peak > 0, name
        ratios[name] = peak / plan_study(study).worker_bytes
    assert max(ratios.values()) <= 1.0, sorted(ratios.items(), key=lambda item: -item[1])[:5]
    # Generous, but not without measure.
    assert sorted(ratios.values())[len(ratios) // 2] > 0.25, ratios
