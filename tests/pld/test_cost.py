"""What is foreseen of the engine's first pass, against what it does."""

import numpy as np
import pytest

from pbdist.buckets.tight import engine, table
from pbdist.buckets.tight.forecast import tight_forecast
from pbdist.buckets.tight.plan import Group
from pbdist.mechanisms import Gaussian, Laplace, Pair, Product, RandomizedResponse, SubsampledGaussian

ROUNDS, EPSILON = np.array([1, 64, 4096]), np.array([0.25, 0.5, 1.0])


@pytest.mark.parametrize("keep_states", [False, True])
@pytest.mark.parametrize(
    "pair",
    [
        Laplace(20.0),
        Gaussian(40.0, truncate=(-300.0, 250.0)),
        SubsampledGaussian(2.0, 0.01),
        RandomizedResponse(0.51),
        Product(Laplace(30.0), Gaussian(50.0)),
    ],
    ids=lambda pair: type(pair).__name__,
)
def test_the_first_pass_is_foreseen(pair: Pair, keep_states: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[tuple[Group, float]] = []
    original = engine.bounds_of_group

    def spy(families, group, width, *arguments, **options):  # type: ignore[no-untyped-def]
        computed.append((group, width))
        return original(families, group, width, *arguments, **options)

    monkeypatch.setattr(table, "bounds_of_group", spy)
    counts = table.factor_counts([(pair, 1)])
    table.tight_bounds(counts, ROUNDS, EPSILON, tolerance=1e-2, keep_states=keep_states, strict=False)
    foreseen = tight_forecast(pair, ROUNDS, EPSILON, tolerance=1e-2, width=None, buckets=None, keep_states=keep_states)
    points = ROUNDS.size * EPSILON.size * (1 if pair.symmetric else 2)
    assert sum(group.points for group in foreseen) == points
    # Those of the first pass come first, but for what is tried by few frequencies and done again.
    assert foreseen[0].points in [len(group.points) for group, _ in computed]
    assert len(foreseen) <= len(computed)
    for group in foreseen:
        assert group.cells > 0
        assert (group.frequencies > 0) == group.few != bool(group.lengths)


def test_nothing_is_foreseen_of_a_closed_form() -> None:
    assert not tight_forecast(
        Gaussian(40.0), ROUNDS, EPSILON, tolerance=1e-2, width=None, buckets=None, keep_states=False
    )
