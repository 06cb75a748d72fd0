"""Every parameter of every mechanism has a column, and settings that differ have columns that differ."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedBatchGaussian,
    FixedBatchUpper,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Pair,
    Poisson,
    Product,
    RandomAllocation,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    TruncatedPoissonUpper,
    WorstOf,
    declaration,
    mechanism,
    numbers,
    one_of,
    parameter,
    positive,
)
from pbdist.mechanisms.columns import columns_of_kind, known_columns
from pbdist.store.skeleton import array_files
from pbdist.study import Cell, load_study
from pbdist.study.columns import CellTable, cell_columns
from pbdist.types import Adjacency
from tests.studies import write_study
from tests.study.grids import cells_of_every_kind, every_kind

#: A pair of each kind, and for each of its parameters another value.
EXAMPLES: Sequence[tuple[Pair, Mapping[str, Any]]] = [
    (ApproximateDP(0.5, 1e-5), {"epsilon": 0.75, "delta": 1e-6}),
    (BoundedRange(0.5), {"eta": 0.75}),
    (DiscreteGaussian(3.0, 2), {"scale": 4.0, "sensitivity": 3}),
    (DiscreteLaplace(3.0, 2), {"scale": 4.0, "sensitivity": 3}),
    (FixedBatchGaussian(2.0, 5, 20, 1.5), {"scale": 2.5, "batch": 6, "examples": 40, "sensitivity": 2.0}),
    (FixedBatchUpper(2.0, 0.25, 1.5), {"scale": 2.5, "rate": 0.5, "sensitivity": 2.0}),
    (Gaussian(3.0, 2.0, (-9.0, 8.0)), {"scale": 4.0, "sensitivity": 3.0, "truncate": (-9.0, 7.0)}),
    (
        GaussianMixture(2.0, (0.0, 1.0), (0.75, 0.25)),
        {"scale": 3.0, "shifts": (0.0, 2.0), "weights": (0.5, 0.5)},
    ),
    (Histogram((1, 2, 3), (3, 2, 1)), {"p": (2, 1, 3), "q": (1, 2, 3)}),
    (KaryRandomizedResponse(0.5, 4), {"p": 0.75, "k": 5}),
    (Laplace(3.0, 2.0, (-9.0, 8.0)), {"scale": 4.0, "sensitivity": 3.0, "truncate": (-8.0, 8.0)}),
    (LaplaceSum((3.0, 2.0), 1.5), {"scales": (3.0, 1.0), "sensitivity": 2.0}),
    (
        NoisyCount(Laplace(5.0), 80.0, 2, "shift-inside"),
        {"noise": Gaussian(5.0), "mean": 90.0, "shift": 3, "reading": "clamp-and-ceil"},
    ),
    (Poisson(25.0, 2), {"mean": 30.0, "sensitivity": 3}),
    (Product(Laplace(2.0), Laplace(3.0)), {"pairs": (Laplace(2.0), Laplace(4.0))}),
    (RandomAllocation(2.0, 5, 1.5), {"scale": 2.5, "steps": 6, "sensitivity": 2.0}),
    (RandomizedResponse(0.75), {"p": 0.8}),
    (Reversed(Poisson(25.0)), {"pair": Poisson(26.0)}),
    (Staircase(0.5, 2.0, 0.25), {"epsilon": 0.75, "sensitivity": 3.0, "split": 0.5}),
    (SubsampledGaussian(2.0, 0.25, 1.5), {"scale": 2.5, "rate": 0.5, "sensitivity": 2.0}),
    (
        SubsampledGaussianGroup(2.0, 0.25, 3, 1.5),
        {"scale": 2.5, "rate": 0.5, "group_size": 4, "sensitivity": 2.0},
    ),
    (SubsampledLaplace(2.0, 0.25, 1.5), {"scale": 2.5, "rate": 0.5, "sensitivity": 2.0}),
    (
        TruncatedPoissonGaussian(2.0, 0.25, 5, 20, 1.5),
        {"scale": 2.5, "rate": 0.5, "batch": 6, "examples": 40, "sensitivity": 2.0},
    ),
    (
        TruncatedPoissonUpper(2.0, 0.25, 5, 20, 1.5),
        {"scale": 2.5, "rate": 0.5, "batch": 6, "examples": 40, "sensitivity": 2.0},
    ),
    (
        WorstOf(Laplace(2.0), Laplace(3.0), attained=(True, False), neighbours=Adjacency.REPLACE_ONE),
        {
            "pairs": (Laplace(2.0), Laplace(4.0)),
            "attained": (False, True),
            "neighbours": Adjacency.ADD_OR_REMOVE,
        },
    ),
]
IDS = [type(pair).__name__ for pair, _ in EXAMPLES]


def changed(pair: Pair, name: str, value: Any) -> Pair:
    """Return a pair with another value of one parameter."""
    if isinstance(pair, Product):
        return Product(*value)
    if isinstance(pair, WorstOf):
        told = {"pairs": pair.pairs, "attained": pair.attained, "neighbours": pair.neighbours} | {name: value}
        return WorstOf(*told.pop("pairs"), **told)
    return replace(pair, **{name: value})  # type: ignore[type-var]  # every pair is a dataclass


def row_of(pair: Pair) -> dict[str, Any]:
    """Return the columns of a pair that have a value."""
    columns = cell_columns([Cell("label", pair, None)])
    return {
        name: value
        for name, (value,) in columns.items()
        if name != "pair" and value != "" and not (isinstance(value, float) and math.isnan(value))
    }


def scalars(form: Mapping[str, Any]) -> Iterator[float]:
    """Yield the numbers among the parameters of a canonical form, and of the noise in it."""
    for name, value in form.items():
        if name == "noise":
            yield from scalars({**value, "sensitivity": None})
        elif isinstance(value, int | float) and not isinstance(value, bool):
            yield float(value)


@pytest.mark.parametrize(("pair", "others"), EXAMPLES, ids=IDS)
def test_every_number_has_a_column_of_its_own(pair: Pair, others: Mapping[str, Any]) -> None:
    row = row_of(pair)
    assert set(scalars(pair.canonical())) <= {value for value in row.values() if isinstance(value, float)}
    for name, value in others.items():
        if type(value) not in (int, float):
            continue
        other = row_of(changed(pair, name, value))
        differing = {column for column in {*row, *other} if row.get(column) != other.get(column)}
        (column,) = differing
        assert column.removeprefix("pair_") == name
        assert other[column] == value


@pytest.mark.parametrize(("pair", "others"), EXAMPLES, ids=IDS)
def test_settings_that_differ_in_any_one_parameter_are_told_apart(pair: Pair, others: Mapping[str, Any]) -> None:
    for name, value in others.items():
        assert row_of(changed(pair, name, value)) != row_of(pair), name


@pytest.mark.parametrize(("pair", "others"), EXAMPLES, ids=IDS)
def test_columns_are_those_of_the_kind(pair: Pair, others: Mapping[str, Any]) -> None:  # noqa: ARG001
    columns = set(CellTable.of([Cell("label", pair, None)]).names)
    assert set(row_of(pair)) <= columns
    if not isinstance(pair, WorstOf):
        assert columns == {"mechanism", "kind", "noise", "factor", *columns_of_kind(type(pair))}


def test_the_worst_of_pairs_has_what_its_factors_share() -> None:
    pair = WorstOf(RandomAllocation(2.0, 5), Product(RandomAllocation(3.0, 5), Reversed(RandomAllocation(2.0, 5))))
    row = row_of(pair)
    assert row["steps"] == 5.0
    assert "scale" not in row
    names = ("mechanism", "kind", "noise", "sensitivity", "steps", "made_of", "factor")
    assert CellTable.of([Cell("label", pair, None)]).names == names


def test_columns_of_other_cells_are_absent() -> None:
    cells = [Cell("a", Laplace(2.0), None), Cell("b", RandomAllocation(2.0, 5), None), Cell("c", Laplace(3.0), 1.5)]
    columns = cell_columns(cells)
    assert repr(columns["steps"]) == "[nan, 5.0, nan]"
    assert "batch" not in columns
    also = cell_columns(cells, ("batch", "made_of"))
    assert repr(also["batch"]) == "[nan, nan, nan]"
    assert also["made_of"] == ["", "", ""]
    assert list(also) == [name for name in (*known_columns(), "pair") if name in also]
    assert "steps" not in cell_columns(cells[:1])
    assert all(values == [] for values in cell_columns([], ("steps",)).values())


def test_grids_have_the_columns_of_their_cells(tmp_path: Path) -> None:
    grids, cells = every_kind(tmp_path).cells, cells_of_every_kind()
    names = CellTable.of(cells).names
    assert CellTable.of(grids).names == names
    assert {"split", "second_scale", "pair_p", "pair_q", "made_of"} < set(names)
    # Whichever part of them is asked for.
    for part in (slice(40), slice(40, 140), slice(140, None), slice(None, None, 7)):
        assert CellTable.of(grids[part]).names == CellTable.of(cells[part]).names
        assert repr(cell_columns(grids[part], names)) == repr(cell_columns(cells[part], names))


def test_a_study_has_the_arrays_of_its_mechanisms(tmp_path: Path) -> None:
    files = array_files(load_study(write_study(tmp_path)), 2)
    columns = "mechanism kind noise scale sensitivity truncate_low truncate_high mean shift reading p factor pair"
    others = {
        "compositions",
        "epsilon",
        "exp_epsilon",
        "direction",
        "quantity",
        "detail",
        "bounds",
        "details",
        "failures",
    }
    arrays = {name.partition("/")[0] for name in files}
    assert arrays - others == {*columns.split()}
    assert f'"coordinates": "{columns} exp_epsilon"' in files["bounds/zarr.json"].decode()


@pytest.fixture
def own() -> Iterator[type[Pair]]:
    """Return a mechanism of somebody else, which is known as long as the test runs."""

    @mechanism
    class Own(Gaussian):
        scale: float = parameter(positive, "the spread of my noise", unit="metres", example=1.0, sized=True)
        epsilon: float = parameter(positive, "my ε", default=1.0)
        marks: tuple[float, ...] = parameter(numbers, "my marks", default=(1.0, 2.0))

    yield Own
    del declaration._KINDS["Own"]


def test_a_mechanism_of_somebody_else_has_columns(own: type[Pair], tmp_path: Path) -> None:
    columns = known_columns()
    assert columns["pair_epsilon"].what.endswith("my ε (Own)")
    assert columns["marks"].listed
    made: Any = own
    row = row_of(made(scale=3.0, marks=(1.0, 4.0)))
    assert (row["noise"], row["scale"], row["pair_epsilon"], row["marks"]) == ("Gaussian", 3.0, 1.0, "[1, 4]")
    assert list(columns)[-3:] == ["marks", "made_of", "factor"]
    # It changes nothing for others.
    files = array_files(load_study(write_study(tmp_path)), 2)
    assert b"Own" not in files["scale/zarr.json"]


def test_a_column_holds_numbers_or_text() -> None:
    with pytest.raises(InvalidInputError, match=r"Own\.rate: expected a column of its own, as that of Subsampled"):

        @mechanism
        class Own(Gaussian):
            rate: str = parameter(one_of("slow", "fast"), "how fast it is", default="slow")
