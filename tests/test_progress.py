"""Steps of a computation are told to whoever listens, and to nobody else."""

import threading

import numpy as np
import pytest

from pbdist.mechanisms import Laplace, SubsampledGaussian
from pbdist.progress import heard_by, report, reported
from pbdist.table import bounds_table

Steps = list[tuple[str, int, int]]


def steps_of(**arguments: object) -> Steps:
    """What a table tells of while it is computed; its bounds are those without a listener."""
    steps: Steps = []
    with heard_by(lambda *step: steps.append(step)):
        told = bounds_table(**arguments)
    alone = bounds_table(**arguments)
    np.testing.assert_array_equal(told.log_delta_lower, alone.log_delta_lower)
    np.testing.assert_array_equal(told.log_delta_upper, alone.log_delta_upper)
    return steps


def test_only_the_innermost_listener_of_this_thread_hears() -> None:
    outer: Steps = []
    inner: Steps = []
    report("r =", 1, 8)
    with heard_by(lambda *step: outer.append(step)):
        report("r =", 2, 8)
        with heard_by(lambda *step: inner.append(step)):
            report("r =", 3, 8)
        other = threading.Thread(target=report, args=("r =", 4, 8))
        other.start()
        other.join()
        report("r =", 5, 8)
    report("r =", 6, 8)
    assert outer == [("r =", 2, 8), ("r =", 5, 8)]
    assert inner == [("r =", 3, 8)]


def test_parts_are_reported_before_each_and_at_the_end() -> None:
    found: Steps = []
    with heard_by(lambda *_: None, lambda *part: found.append(part)):
        assert [*reported("target", "ab")] == ["a", "b"]
    assert [*reported("target", "ab")] == ["a", "b"]
    assert found == [("target", 0, 2), ("target", 1, 2), ("target", 2, 2)]


def test_it_ends_with_the_block_however_that_ends() -> None:
    steps: Steps = []
    with pytest.raises(KeyError), heard_by(lambda *step: steps.append(step)):
        raise KeyError("no")
    report("r =", 1, 8)
    assert steps == []


def test_the_ladder_of_bucket_lists_tells_each_rung_and_each_factor() -> None:
    table = {"components": [(Laplace(2.0), 1)], "epsilon": [0.5], "method": "buckets", "buckets": 400}
    assert steps_of(**table, compositions=[1, 7]) == [
        ("r =", 2, 7),
        ("r =", 4, 7),
        ("r = 7: factor", 2, 3),
        ("r = 7: factor", 3, 3),
    ]


def test_exact_transforms_tell_how_far_they_are() -> None:
    pair = SubsampledGaussian(1.0, 0.01)
    steps = steps_of(components=[(pair, 1)], epsilon=np.linspace(0.5, 3.0, 20), compositions=[2, 3, 40], tolerance=0.3)
    assert [(reached, of) for what, reached, of in steps if what == "by transforms, rows"] == [
        (1, 3),
        (2, 3),
        (3, 3),
    ]


def test_the_ladder_of_lattices_tells_how_far_it_is() -> None:
    pair = Laplace(1.0)
    steps = steps_of(components=[(pair, 1)], epsilon=np.linspace(0.5, 20.0, 20), compositions=[2, 3, 40], tolerance=0.3)
    reached = [reached for what, reached, of in steps if (what, of) == ("r =", 40)]
    # However often it is climbed, each time to its end.
    first = reached[: reached.index(40) + 1]
    assert first == sorted(first)
    assert {2, 3, 4, 8, 16, 32, 40} <= set(first)
    assert max(reached) == 40
