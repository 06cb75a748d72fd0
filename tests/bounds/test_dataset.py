"""Datasets of bounds in print: decimals rounded outwards, a row for each point."""

import re
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
import xarray as xr

import pbdist
from pbdist.bounds.dataset import Bounds
from pbdist.query import open_study
from tests.studies import TINY, Finished

PAIR = pbdist.Gaussian(2.3)


def rows(text: str) -> list[list[str]]:
    """Return the cells of a printed table, its heads first."""
    return [[cell.strip() for cell in re.split("[┃│]", line)[1:-1]] for line in text.splitlines() if line[0] in "┃│"]


def answers() -> list[Any]:
    shared: dict[str, Any] = {"compositions": [3, 5]}
    return [
        pbdist.epsilon_bounds(PAIR, delta=[1e-5, 1e-6], **shared),
        pbdist.privacy_bounds(PAIR, epsilon=[0.5, 1.0], direction="each", **shared),
        pbdist.total_variation_bounds(PAIR, **shared),
        pbdist.tradeoff_bounds(PAIR, type_one_error=[0.1, 0.3], **shared),
        pbdist.renyi_bounds(PAIR, order=[2.0, 3.0], **shared),
        pbdist.earlier_bounds(pbdist.RandomizedResponse(0.6), epsilon=0.1, theorem="kov", **shared),
    ]


def test_bounds_are_rounded_outwards() -> None:
    for found in answers():
        heads, *cells = rows(repr(found))
        assert repr(found) == str(found)
        assert len(cells) == np.prod([*found.sizes.values()])
        bounds = [name for name in heads if name.endswith(("lower", "upper"))]
        assert set(bounds) <= set(found.data_vars)
        for name in bounds:
            values = found[name].values.reshape(-1).tolist()
            texts = [row[heads.index(name)] for row in cells]
            for text, value in zip(texts, values, strict=True):
                if name.endswith("lower"):
                    assert Decimal(text) <= Decimal(value)
                else:
                    assert Decimal(text) >= Decimal(value)
                assert float(text) == pytest.approx(value, rel=2e-5)
            assert all(text in found._repr_html_() for text in texts)


def test_coordinates_are_beside_the_bounds_they_are_of() -> None:
    found = pbdist.epsilon_bounds(PAIR, compositions=[3, 5], delta=[1e-5, 1e-6])
    heads, *cells = rows(repr(found))
    for row in cells:
        point = {name: float(row[heads.index(name)]) for name in ("compositions", "delta")}
        assert float(row[heads.index("epsilon_upper")]) >= found.epsilon_upper.sel(point).item()
    # A selection is printed like the whole; the coordinates of all its rows are above the table.
    one = found.sel(compositions=5, delta=1e-6)
    assert isinstance(one, Bounds)
    assert repr(one).splitlines()[:2] == ["Bounds", "compositions: 5"]
    assert rows(repr(one)) == [heads[2:], cells[-1][2:]]


def test_long_tables_say_how_much_is_left_out() -> None:
    found = pbdist.epsilon_bounds(pbdist.RandomizedResponse(0.6), compositions=range(1, 51), delta=[0.01, 0.1])
    assert len(rows(repr(found))) == 41
    assert repr(found).endswith("60 more rows")


def test_bounds_of_a_store_are_printed_so_too(finished_store: Finished) -> None:
    bounds = open_study(finished_store(TINY)).bounds
    heads, first, *_ = rows(repr(bounds))
    assert Decimal(first[heads.index("delta_upper")]) >= Decimal(bounds.delta_upper.values.flat[0].item())
    assert "pair" not in heads
    # What differs further below is a column, and no caption of all.
    assert "scale" in heads
    assert not any(line.startswith(("mechanism:", "scale:")) for line in repr(bounds).splitlines())


def test_where_no_epsilon_meets_delta_both_bounds_say_so() -> None:
    found = pbdist.epsilon_bounds(PAIR, compositions=3, delta=[0, 1e-5])
    heads, none, some = rows(repr(found))
    columns = [heads.index(name) for name in ("epsilon_lower", "epsilon_upper")]
    assert [none[column] for column in columns] == ["no ε meets δ"] * 2
    assert all(float(some[column]) > 0.0 for column in columns)
    # An ε that only was not found is no such answer.
    assert rows(repr(found.assign(epsilon_lower=found.epsilon_lower / 2)))[1][columns[1]] == "inf"


@pytest.mark.parametrize("direction", ["both", "each"])
def test_datasets_are_as_xarray_makes_them(monkeypatch: pytest.MonkeyPatch, direction: str) -> None:
    def asked() -> xr.Dataset:
        return pbdist.privacy_bounds(pbdist.Laplace(2.0), compositions=[3, 5], epsilon=[0.5, 1.0], direction=direction)

    found = asked()
    with monkeypatch.context() as older:
        older.setattr(Bounds, "_construct_direct", None)
        made = asked()
    assert type(found) is type(made) is Bounds
    xr.testing.assert_identical(found, made)
    assert list(found.variables) == list(made.variables)
    assert found.sizes == made.sizes
    assert {name: type(index) for name, index in found.xindexes.items()} == {
        name: type(index) for name, index in made.xindexes.items()
    }
    xr.testing.assert_identical(found.sel(epsilon=[1.0]) + found, made.sel(epsilon=[1.0]) + made)
