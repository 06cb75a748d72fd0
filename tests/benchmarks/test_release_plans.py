"""Release plans of a thousand blocks, beside one answer for the product that turns out to be the worst.

Times are recorded, never asserted: a busy machine must not turn a test red.
"""

import pytest

from pbdist import ApproximateDP, DiscreteGaussian, Gaussian, Laplace, RandomizedResponse
from pbdist.granularity import Analysis, Bounded, Overlapping, Partition, ReleasePlan, Unbounded
from pbdist.granularity.notions import Granularity
from pbdist.granularity.release.blocks import Blocks

NAMES = [f"block {number}" for number in range(1000)]
PAIRS = [Laplace(8.0), Gaussian(9.0), RandomizedResponse(0.53), ApproximateDP(0.1, 1e-8), DiscreteGaussian(10.0)]


@pytest.mark.parametrize("blocks", [Partition(NAMES), Overlapping(NAMES, at_most=3)], ids=["partition", "overlapping"])
@pytest.mark.parametrize("granularity", [Unbounded(), Bounded()], ids=repr)
@pytest.mark.benchmark(group="release plans of 1,000 blocks and 5 mechanisms")
def test_a_thousand_blocks(benchmark, granularity: Granularity, blocks: Blocks) -> None:  # type: ignore[no-untyped-def]
    def answer() -> float:
        analyses = [Analysis(name, PAIRS[index % 5], reads=(name,)) for index, name in enumerate(NAMES)]
        plan = ReleasePlan(granularity, analyses, blocks)
        found = plan.epsilon_bounds(compositions=[1, 16], delta=1e-5)
        assert found.within_tolerance.all()
        return float(found.epsilon_upper.max())

    assert 1.0 < benchmark.pedantic(answer, rounds=1) < 20.0
