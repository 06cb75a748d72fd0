"""The table of bounds behind both methods: shapes, agreement of δ and its logarithm, states, settings."""

import math

import numpy as np
import pytest

from pbdist.arguments import half_width_of
from pbdist.buckets.state import BucketState
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import Gaussian, Histogram, Laplace, Pair, Product, RandomizedResponse, SubsampledGaussian
from pbdist.pld import PairState
from pbdist.table import BoundsTable, bounds_table, epsilon_table_of
from pbdist.types import Direction

SETTINGS = [
    {"method": "tight"},
    {"method": "tight", "tolerance": 1e-5},
    {"method": "tight", "factor": 1.01},
    {"method": "tight", "buckets": 4000},
    {"method": "buckets", "buckets": 4000},
    {"method": "buckets", "buckets": 4000, "factor": 1.001},
]
MECHANISMS: list[list[tuple[Pair, int]]] = [
    [(Laplace(3.0), 1)],
    [(SubsampledGaussian(1.5, 0.2), 1)],
    [(Product(RandomizedResponse(0.55), Gaussian(8.0)), 1), (Laplace(9.0), 3)],
    [(Histogram([5, 3, 1, 1], [3, 5, 2, 0]), 2)],
]
ROUNDS, LOSSES = [8, 1, 8, 20], [0.7, 0.0, 0.2, 50.0]


def check(table: BoundsTable) -> None:
    assert table.compositions.tolist() == ROUNDS
    assert table.epsilon.tolist() == LOSSES
    names = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")
    lower, upper, log_lower, log_upper = (getattr(table, name) for name in names)
    assert all(values.shape == (2, len(ROUNDS), len(LOSSES)) for values in (lower, upper, log_lower, log_upper))
    assert np.all((lower >= 0.0) & (lower <= upper) & (upper <= 1.0))
    assert np.all(log_lower <= log_upper)
    # Both are the same bound; the logarithm also holds of smaller ones.
    with np.errstate(divide="ignore"):
        assert np.allclose(np.log(lower[lower > 0.0]), log_lower[lower > 0.0], rtol=1e-12, atol=1e-12)
        assert np.allclose(np.log(upper[upper > 1e-300]), np.minimum(log_upper, 0.0)[upper > 1e-300], atol=1e-12)
    assert np.all((upper > 0.0) == (log_upper > -math.inf))
    assert table.factor == pytest.approx(math.exp(table.loss_width))
    # δ rises with r and falls with ε.
    order, falling = np.argsort(ROUNDS), np.argsort(LOSSES)
    assert np.all(lower[:, :, falling[1:]] <= upper[:, :, falling[:-1]])
    assert np.all(lower[:, order[:-1]] <= upper[:, order[1:]])


@pytest.mark.slow
@pytest.mark.parametrize("components", MECHANISMS, ids=str)
def test_settings_agree(components: list[tuple[Pair, int]]) -> None:
    tables = [
        bounds_table(components, compositions=ROUNDS, epsilon=LOSSES, **setting)  # type: ignore[arg-type]
        for setting in SETTINGS
    ]
    for table, setting in zip(tables, SETTINGS, strict=True):
        check(table)
        assert table.method == setting["method"]
        assert not table.states
        assert table.half_width == (2000 if setting["method"] == "buckets" else None)
    for one in tables:
        for other in tables:
            assert np.all(one.log_delta_lower <= other.log_delta_upper)
            assert np.all(one.delta_lower <= other.delta_upper)
    assert tables[2].loss_width == pytest.approx(math.log(1.01))
    assert tables[5].loss_width == pytest.approx(math.log(1.001))


@pytest.mark.parametrize("method", ["tight", "buckets"])
def test_states_on_demand(method: str) -> None:
    kind = PairState if method == "tight" else BucketState
    buckets = None if method == "tight" else 400
    one_way = bounds_table(
        [(SubsampledGaussian(2.0, 0.3), 1)],
        compositions=[3, 1, 3],
        epsilon=[0.1],
        method=method,
        buckets=buckets,
        keep_states=True,
    )
    assert set(one_way.states) == {(direction, r) for direction in Direction for r in (1, 3)}
    assert all(isinstance(state, kind) for state in one_way.states.values())
    symmetric = bounds_table(
        [(Laplace(2.0), 1)], compositions=[1, 4], epsilon=[0.1], method=method, buckets=buckets, keep_states=True
    )
    for r in (1, 4):
        state = symmetric.states[Direction.A_TO_B, r]
        assert isinstance(state, kind)
        assert symmetric.states.get((Direction.B_TO_A, r), state) is state


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"tolerance": 0.0}, "tolerance"),
        ({"tolerance": 1e-10}, "tolerance"),
        ({"tolerance": 1.5}, "tolerance"),
        ({"tolerance": math.nan}, "tolerance"),
        ({"tolerance": True}, "tolerance"),
        ({"tolerance": "1e-3"}, "tolerance"),
        ({"method": "buckets", "tolerance": 1e-3}, "tolerance"),
        ({"buckets": 100, "factor": 1.1}, "buckets"),
        ({"buckets": 3}, "buckets"),
        ({"factor": 1.0}, "factor"),
    ],
    ids=str,
)
def test_settings_that_exclude_each_other_are_refused(arguments: dict[str, object], field: str) -> None:
    with pytest.raises(InvalidInputError, match=f"^{field}: (expected|give either|privacy buckets have no)"):
        bounds_table([(Laplace(1.0), 1)], compositions=[1], epsilon=[0.0], **arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("epsilon", [1e151, 1e308, math.inf, math.nan, -1.0])
@pytest.mark.parametrize("method", ["tight", "buckets"])
def test_losses_without_a_meaning_or_a_square_are_refused(epsilon: float, method: str) -> None:
    with pytest.raises(InvalidInputError, match=r"^epsilon: expected"):
        bounds_table([(Laplace(1.0), 1)], compositions=[1], epsilon=[0.0, epsilon], method=method)


def test_half_widths() -> None:
    assert [half_width_of(buckets) for buckets in (2, 4, 6, 8, 1002, 2**30)] == [2, 2, 4, 4, 502, 2**29]


@pytest.mark.slow
@pytest.mark.parametrize("components", MECHANISMS, ids=str)
def test_both_tables_are_of_one_function(components: list[tuple[Pair, int]]) -> None:
    """ε of δ, put into the table of δ, gives δ back."""
    deltas = [1e-6, 1e-3, 0.1]
    inverted = epsilon_table_of(components, compositions=[2, 9], delta=deltas, tolerance=1e-3)
    assert inverted.lower.shape == inverted.upper.shape == (2, 2, 3)
    assert np.all(inverted.lower <= inverted.upper)
    lower, upper = 0.999 * inverted.lower, np.where(np.isfinite(inverted.upper), inverted.upper, 1e3)
    asked = np.unique([lower, upper]).tolist()
    back = bounds_table(components, compositions=[2, 9], epsilon=asked, strict=False)
    for axis, row, column in np.ndindex(2, 2, 3):
        low, high = (asked.index(float(side[axis, row, column])) for side in (lower, upper))
        if inverted.lower[axis, row, column] > 0.0:
            assert back.delta_upper[axis, row, low] >= deltas[column]
        if math.isfinite(inverted.upper[axis, row, column]):
            assert back.delta_lower[axis, row, high] <= deltas[column]
        else:
            # What only A has exceeds δ.
            assert back.delta_upper[axis, row, high] >= deltas[column]
