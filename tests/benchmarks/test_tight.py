"""The tight method against other libraries, its bare transforms, direct summation, and itself with fewer rounds.

Times are recorded, never asserted: a busy machine must not turn a test red. What is asserted is that pbdist is at least
as accurate as the peer, whose time it is compared with. ``python -m tests.benchmarks.report`` prints every ratio.
"""

from functools import partial

import pytest

from tests.benchmarks.peers import comparisons
from tests.benchmarks.scaling import cost
from tests.benchmarks.side_by_side import in_turns, timed
from tests.benchmarks.workloads import BUCKETS, direct_ladder_seconds, ladder, same_curve, workloads

#: Of direct summation, whose time grows with the square, only so much is computed here.
_DIRECT_SIZE = 12_500


@pytest.fixture
def repetitions(request):
    """Once as a test, oftener where times are all that is asked for."""
    return 3 if request.config.getoption("benchmark_only", default=False) else 1


@pytest.mark.slow
@pytest.mark.parametrize("case", comparisons(), ids=lambda case: f"{case.peer_name}: {case.name}")
@pytest.mark.benchmark(group="other libraries")
def test_as_accurate_as_the_peer(benchmark, case, repetitions):
    theirs, their_seconds = timed(case.peer)
    tolerance = case.tolerance(theirs)
    own = partial(case.own, tolerance)
    bounds, own_seconds = benchmark.pedantic(timed, args=(own,), rounds=repetitions, iterations=1)
    # Two parts in a million: δ is known to one in the last case of three.
    assert min(case.errors(bounds.delta_upper.values)) > -2e-6
    assert max(case.errors(bounds.delta_lower.values)) < 2e-6
    ratio = their_seconds / own_seconds if repetitions == 1 else case.times(tolerance, repetitions).ratios[0]
    benchmark.extra_info["tolerance"] = tolerance
    benchmark.extra_info["times as fast as the peer"] = ratio
    benchmark.extra_info["meant to be"] = case.target


@pytest.mark.slow
@pytest.mark.parametrize(
    "workload", [each for each in workloads() if not each.long], ids=lambda workload: workload.name
)
@pytest.mark.benchmark(group="whole computation against its transforms")
def test_against_its_transforms(benchmark, workload):
    recorded, times = benchmark.pedantic(workload.against_its_transforms, args=(3,), rounds=1, iterations=1)
    assert recorded.calls
    benchmark.extra_info["times its transforms"] = 1.0 / times.ratios[0]


@pytest.mark.slow
@pytest.mark.parametrize("method", ["tight", "buckets"])
@pytest.mark.benchmark(group="ladder to 2^18 against direct summation")
def test_ladder_against_direct_summation(benchmark, method):
    run = partial(ladder, method, BUCKETS)
    bounds, own_seconds = benchmark.pedantic(timed, args=(run,), rounds=1, iterations=1)
    assert bool((bounds.delta_lower <= bounds.delta_upper).all())
    benchmark.extra_info["times as fast"] = direct_ladder_seconds(_DIRECT_SIZE) / own_seconds


@pytest.mark.benchmark(group="2^24 rounds against 2^12")
def test_more_rounds(benchmark):
    bounds = benchmark.pedantic(same_curve, args=(2**24,), rounds=5, iterations=1, warmup_rounds=1)
    assert bool((bounds.delta_upper <= 1.001 * bounds.delta_lower).all())
    times = in_turns(partial(same_curve, 2**24), partial(same_curve, 2**12), 5)
    benchmark.extra_info["times as long as 2^12 rounds"] = times.ratios[0]


@pytest.mark.slow
@pytest.mark.parametrize(("call", "size"), [("kernel", 1 << 16), ("tight", 1 << 16), ("rounds", 1 << 24)])
def test_cost_of_a_process(call, size):
    found = cost(call, size)
    assert found.seconds > 0.0
    assert found.peak_bytes < 1 << 30
