"""What is called very often: answers off the grid of a store, and steps that nobody listens to.

Times are recorded, never asserted: a busy machine must not turn a test red.
"""

from pathlib import Path

import numpy as np
import pytest

from pbdist.errors import PrecisionWarning
from pbdist.progress import heard_by, report
from pbdist.query import open_study
from tests.studies import compute_store

STUDY = """\
format: 1
name: answers
mechanisms:
  - {kind: Gaussian, scale: [20, 30]}
compositions: [1, 16]
epsilon: [0, 0.1, 0.2, 0.5, 1]
floor: 1e-30
"""


@pytest.mark.parametrize("noise", [20.0, np.linspace(20.0, 29.0, 10_000)], ids=["stored", "between"])
@pytest.mark.benchmark(group="10,000 answers of a store")
def test_ten_thousand_answers(benchmark, tmp_path: Path, noise) -> None:  # type: ignore[no-untyped-def]
    study = open_study(compute_store(tmp_path, STUDY))
    asked = {"compositions": np.arange(1, 10_001) % 16 + 1, "epsilon": np.linspace(0.0, 1.0, 10_000)}
    with pytest.warns(PrecisionWarning, match="of 10,000 answers"):
        found = benchmark.pedantic(study.delta, args=("Gaussian",), kwargs={"scale": noise, **asked}, rounds=1)
    assert found.upper.shape == (10_000,)
    assert (found.lower <= found.upper).all()


@pytest.mark.benchmark(group="10,000 steps that nobody listens to")
def test_unheard_steps(benchmark) -> None:  # type: ignore[no-untyped-def]
    def tell() -> None:
        for r in range(10_000):
            report("r =", r, 10_000)

    benchmark.pedantic(tell, rounds=3)
    steps: list[int] = []
    with heard_by(lambda _what, r, _all: steps.append(r)):
        tell()
    assert steps == list(range(10_000))
