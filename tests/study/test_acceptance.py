"""All combinations of grids are accepted exactly if every one of them is."""

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pbdist import mechanisms
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Pair
from pbdist.study.entries import accepted_grid
from tests.strategies import examples

SIZES = st.sampled_from([1e-300, 1e-9, 0.5, 1.0, 3.0, 40.0, 1e4, 3e5, 1e7, 1e200, 0.0, -1.0])
WHOLE = st.sampled_from([1.0, 2.0, 3.0, 1000.0, 1e6, 19_999_990.0, 2e7, 1e13, 0.0, 1.5])
SHARES = st.sampled_from([0.0, 1e-300, 0.25, 0.5, 1.0, 1.5, -0.5])
SHIFTS = st.sampled_from([(1.0,), (0.0, 1.0), (0.0, 1e200), (1.0, 0.5), (0.5, 1.0, 2.0), (0.0,)])
WEIGHTS = st.sampled_from([(1.0,), (0.5, 0.5), (0.9, 0.1), (0.9, 0.2), (0.5, 0.25, 0.25), (1.0, 0.0)])
LIMITS = st.sampled_from([None, (-9.0, 9.0), (5.0, 6.0), (400.0, 500.0), (-1e5, 3.0), (3.0, 2.0)])
#: The noises of an entry are of one class.
NOISES = {
    "NoisyCount": (Laplace, (0.5, 4.0, 2e5, 3e5, 1e13)),
    "NoisyCount of Gaussians": (Gaussian, (0.5, 4.0, 2e5, 3e5, 1e13)),
    "NoisyCount of whole Laplaces": (DiscreteLaplace, (0.5, 4.0, 2e5, 1e13)),
    "NoisyCount of whole Gaussians": (DiscreteGaussian, (0.5, 4.0, 2e5)),
}
MEANS = st.sampled_from([0.0, 5.0, 4.5, 1e6, 1e12, 1e13, -1.0, -30.0, -400.0])
READINGS = st.sampled_from(mechanisms.READINGS)
FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "Laplace": {"scale": SIZES, "sensitivity": SIZES, "truncate": LIMITS},
    "Gaussian": {"scale": SIZES, "sensitivity": SIZES, "truncate": LIMITS},
    "LaplaceSum": {"scales": st.tuples(SIZES, SIZES), "sensitivity": SIZES},
    "RandomizedResponse": {"p": SHARES},
    "SubsampledGaussian": {"scale": SIZES, "rate": SHARES, "sensitivity": SIZES},
    "SubsampledGaussianGroup": {"scale": SIZES, "rate": SHARES, "group_size": WHOLE, "sensitivity": SIZES},
    "SubsampledLaplace": {"scale": SIZES, "rate": SHARES, "sensitivity": SIZES},
    "GaussianMixture": {"scale": SIZES, "shifts": SHIFTS, "weights": WEIGHTS},
    "TruncatedPoissonGaussian": {"scale": SIZES, "rate": SHARES, "batch": WHOLE, "examples": WHOLE},
    "FixedBatchGaussian": {"scale": SIZES, "batch": WHOLE, "examples": WHOLE, "sensitivity": SIZES},
    "RandomAllocation": {"scale": SIZES, "steps": WHOLE, "sensitivity": SIZES},
    "ApproximateDP": {"epsilon": SIZES, "delta": SHARES},
    **{
        kind: {
            "noise": st.sampled_from([noise(scale) for scale in scales]),
            "mean": MEANS,
            "shift": WHOLE,
            "reading": READINGS,
        }
        for kind, (noise, scales) in NOISES.items()
    },
    "KaryRandomizedResponse": {"p": SHARES, "k": WHOLE},
    "BoundedRange": {"eta": SIZES},
    "Poisson": {"mean": SIZES, "sensitivity": WHOLE},
    "DiscreteLaplace": {"scale": SIZES, "sensitivity": WHOLE},
    "DiscreteGaussian": {"scale": SIZES, "sensitivity": WHOLE},
    "Staircase": {"epsilon": SIZES, "sensitivity": SIZES, "split": SHARES},
}

SLOW = {"NoisyCount of whole Gaussians": pytest.mark.slow(reason="alone has counts whose noise is summed up")}


def refused(make: Any, grids: dict[str, list[Any]]) -> list[InvalidInputError]:
    found = []
    for values in product(*grids.values()):
        try:
            make(values)
        except InvalidInputError as error:
            found.append(error)
    return found


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=SLOW.get(kind, ())) for kind in sorted(FIELDS)])
@examples(24)
@given(data=st.data())
def test_grids_are_accepted_exactly_if_all_combinations_are(kind: str, data: st.DataObject) -> None:
    fields, kind = FIELDS[kind], kind.partition(" ")[0]
    if kind == "Staircase" and data.draw(st.booleans()):
        fields = {name: values for name, values in fields.items() if name != "split"}
    # Mostly values that are refused in few combinations: those of one field, or of none, are drawn freely.
    grids = {name: data.draw(st.lists(values, min_size=1, max_size=3, unique=True)) for name, values in fields.items()}

    def make(values: Sequence[Any]) -> Pair:
        pair: Pair = getattr(mechanisms, kind)(**dict(zip(grids, values, strict=True)))
        return pair

    try:
        grid = accepted_grid(kind, grids, make)
    except InvalidInputError:
        assert refused(make, grids)
        return
    assert refused(make, grids) == []
    assert list(grid.pairs()) == [make(values) for values in product(*grids.values())]
    assert [grid.cell(number).pair for number in range(grid.size)] == list(grid.pairs())
    assert [pair.canonical() for pair in grid.pairs()] == [
        make(values).canonical() for values in product(*grids.values())
    ]
