"""What every mechanism of the registry keeps, those of tests included: words, masses, studies, stores and commands."""

import contextlib
import csv
import html
import io
import json
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pbdist import open_study, privacy_bounds, size
from pbdist.cli import main
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    MECHANISMS,
    DiscreteLaplace,
    ElementaryPair,
    Form,
    Pair,
    Parameter,
    Reversed,
    noise_parameter,
    pair_from_canonical,
    parameters_of,
)
from pbdist.mechanisms.columns import columns_of_kind
from pbdist.study import Cell, load_study
from pbdist.study.columns import cell_columns
from pbdist.study.starter import write_starter
from pbdist.types import Direction
from tests.bounds.test_each_direction import wrong_by_delta
from tests.own_mechanisms.delays import ExponentialDelay

pytestmark = pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")

KINDS = [*MECHANISMS.values()]
IN_STUDIES = [kind for kind in KINDS if kind.in_studies]
PARAMETERS = [(kind, one) for kind in KINDS for one in parameters_of(kind).values()]
named = {"ids": lambda one: one.__name__ if isinstance(one, type) else one.name}
"""How tests are named."""


def example(kind: type[Pair]) -> Pair:
    """The mechanism of the first example of each parameter."""
    values = {one.name: one.examples[0] for one in parameters_of(kind).values() if one.required}
    several = values.pop("pairs", ())
    return kind(*several, **values)


def test_the_registry_has_the_mechanism_of_a_test() -> None:
    assert ExponentialDelay in KINDS


@pytest.mark.parametrize("kind", KINDS, **named)
def test_words(kind: type[Pair]) -> None:
    for text in (kind.does, kind.assumes):
        assert text == text.strip()
        assert text.endswith(".")
        assert text[0].isupper()
    assert parameters_of(kind)
    if noise_parameter(kind) is not None and parameters_of(kind)[noise_parameter(kind).name].name != "p":
        assert kind.noise_family or noise_parameter(kind).domain.form is Form.MECHANISM


@pytest.mark.parametrize(("kind", "one"), PARAMETERS, **named)
def test_words_unit_example_and_column(kind: type[Pair], one: Parameter) -> None:
    assert one.what.split()[0] in ("the", "by")
    assert not one.what.endswith(".")
    assert one.columns
    # A probability, a number of something and a name have no unit.
    if one.name in ("scale", "scales", "sensitivity", "mean", "shift", "shifts", "truncate", "epsilon", "eta"):
        assert one.unit in ("counts", "nats", "seconds")
    if one.required and kind.in_studies:
        for value in one.examples:
            assert one.domain.check(kind.__name__, one.name, value) == value


@pytest.mark.parametrize(("kind", "one"), [each for each in PARAMETERS if each[0].in_studies], **named)
def test_wrong_values_are_refused_in_one_line(kind: type[Pair], one: Parameter) -> None:
    values = {each.name: each.examples[0] for each in parameters_of(kind).values() if each.required}
    listed = values.pop("pairs", ())
    if one.name == "pairs":
        listed = ["wrong"]
    else:
        values[one.name] = "wrong"
    with pytest.raises(InvalidInputError, match=rf"^{kind.__name__}\.{one.name}(\[0\])?: expected .*'wrong'[^\n]*$"):
        kind(*listed, **values)


@pytest.mark.parametrize("kind", KINDS, **named)
def test_canonical_form(kind: type[Pair]) -> None:
    pair = (
        example(kind) if kind.in_studies or kind.__name__.endswith("Upper") else kind(example(MECHANISMS["Gaussian"]))
    )
    form = json.loads(json.dumps(pair.canonical()))
    assert pair_from_canonical(form) == pair
    assert hash(pair_from_canonical(form)) == hash(pair)
    assert pair_from_canonical(form).canonical() == form


ELEMENTARY = [kind for kind in IN_STUDIES if issubclass(kind, ElementaryPair) and not example(kind).enclosed]


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("kind", ELEMENTARY, **named)
def test_masses(kind: type[ElementaryPair], direction: Direction) -> None:
    pair: Any = example(kind)
    edges = np.linspace(-1.0, 1.0, 41)
    found = pair.directed_loss_masses(edges, direction)
    sides = ((found.bins_a, found.atoms_a, found.only_a), (found.bins_b, found.atoms_b, found.only_b))
    for parts in sides:
        lower, upper = (sum(float(np.sum(getattr(part, side))) for part in parts) for side in ("lower", "upper"))
        assert lower <= 1.0 + 1e-12
        assert upper >= 1.0 - 1e-12
        assert all(np.all(part.lower >= 0.0) and np.all(part.lower <= part.upper) for part in parts)
    # In a bin and at an atom P_A is about e^loss P_B, as far as losses are known.
    error = found.loss_error
    low, high = np.append(-np.inf, edges), np.append(edges, np.inf)
    slack = 1.0 + 1e-12
    # The outermost bins are of any losses.
    high[-1], low[0] = 700.0, -700.0
    assert np.all(found.bins_a.lower <= np.exp(high + error) * found.bins_b.upper * slack + 1e-300)
    assert np.all(found.bins_a.upper * slack + 1e-300 >= np.exp(low - error) * found.bins_b.lower)
    known = np.isfinite(found.atom_loss)
    loss = found.atom_loss[known]
    assert np.all(found.atoms_a.lower[known] <= np.exp(loss + error) * found.atoms_b.upper[known] * slack)
    assert np.all(found.atoms_a.upper[known] * slack >= np.exp(loss - error) * found.atoms_b.lower[known])


@pytest.mark.parametrize("kind", ELEMENTARY, **named)
def test_both_directions(kind: type[ElementaryPair]) -> None:
    pair: Any = example(kind)
    there, back = (
        privacy_bounds(one, compositions=[1, 2], epsilon=[0.0, 0.3], direction="each") for one in (pair, Reversed(pair))
    )
    for one, other in ((there, back), (back, there)):
        assert np.all(one["delta_lower"].values <= other["delta_upper"].values[::-1])
        assert np.all(one["delta_lower"].values <= one["delta_upper"].values)
    if pair.symmetric:
        assert np.all(there["delta_lower"].values <= there["delta_upper"].values[::-1])


def run(*arguments: str) -> tuple[int, str, str]:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


@pytest.mark.parametrize("kind", IN_STUDIES, **named)
def test_study_store_query_and_report(kind: type[Pair], tmp_path: Path) -> None:
    path, store, page = tmp_path / "starter.yaml", tmp_path / "s.zarr", tmp_path / "page.html"
    write_starter(path, kind.__name__)
    text = path.read_text(encoding="utf-8")
    text = text.replace("compositions: [1, 10, 100, 1000]", "compositions: [1, 3]")
    text = text.replace("epsilon: {linspace: [0, 4, 41]}", "epsilon: [0.5]").partition("\ntargets:")[0]
    path.write_text(text, encoding="utf-8")
    cells = load_study(path).cells
    assert {type(cell.pair) for cell in cells} == {kind}
    assert run("run", str(path), "--serial", "--store", str(store))[0] == 0
    stored = open_study(store)
    assert [cell.pair for cell in stored.spec.cells] == [cell.pair for cell in cells]
    fresh = privacy_bounds(cells[-1].pair, compositions=3, epsilon=0.5)
    answer = stored.delta(cells[-1].pair, compositions=3, epsilon=0.5)
    assert math.isclose(float(answer.upper), fresh.delta_upper.item(), rel_tol=2e-3, abs_tol=1e-300)
    assert not float(answer.lower) > fresh.delta_upper.item()
    # By its columns, too.
    words: list[str] = []
    for one in parameters_of(kind).values():
        if len(one.examples) > 1:
            last = one.examples[-1] if one.domain.form is Form.TWO_NUMBERS else (one.examples[-1],)
            for column, value in zip(one.columns, last, strict=True):
                words += [f"--{column.replace('_', '-')}", str(value)]
    code, out, err = run("query", str(store), *words, "--compositions", "3", "--epsilon", "0.5", "--format", "csv")
    assert code == 0, err
    assert float(next(csv.DictReader(out.splitlines()))["delta_upper"]) == float(answer.upper)
    assert run("report", str(store), "-o", str(page))[0] == 0
    told = " ".join(html.unescape(page.read_text(encoding="utf-8")).split())
    assert kind.does in told
    assert kind.assumes in told


@pytest.mark.parametrize("kind", IN_STUDIES, **named)
def test_each_parameter_has_a_column_that_tells_settings_apart(kind: type[Pair]) -> None:
    pair = example(kind)
    row = {name: value for name, (value,) in cell_columns([Cell("label", pair, None)]).items()}
    assert set(row) == {"mechanism", "kind", "noise", "factor", "pair", *columns_of_kind(kind)}
    for one in parameters_of(kind).values():
        for value in one.examples[1:]:
            other = cell_columns([Cell("label", replace(pair, **{one.name: value}), None)])
            assert any(other[column] != [row[column]] for column in one.columns)


@pytest.mark.parametrize("kind", IN_STUDIES, **named)
def test_epsilon_agrees_with_delta(kind: type[Pair]) -> None:
    assert wrong_by_delta(example(kind), 3, [1e-6]) == []


SIZED = [kind for kind in IN_STUDIES if noise_parameter(kind) is not None]


@pytest.mark.parametrize("kind", SIZED, **named)
def test_size(kind: type[Pair]) -> None:
    sized = noise_parameter(kind)
    others = {one.name: one.examples[0] for one in parameters_of(kind).values() if one.required and one is not sized}
    if sized.domain.form is Form.MECHANISM:
        others[sized.name] = type(sized.examples[0])
    found = size(kind, compositions=2, epsilon=1.0, delta=1e-2, tolerance=0.1, **others)
    assert found.delta_upper <= 1e-2 < found.refuted_delta_lower
    assert privacy_bounds(found.mechanism, compositions=2, epsilon=1.0).delta_lower.item() <= 1e-2


@pytest.mark.parametrize("kind", IN_STUDIES, **named)
def test_epsilon_on_the_command_line(kind: type[Pair]) -> None:
    words: list[str] = []
    for one in parameters_of(kind).values():
        if not one.required:
            continue
        value = one.examples[0]
        # An option of the command itself goes before.
        taken = one.name in ("epsilon", "delta")
        words.append(f"--{(one.columns[0] if taken else one.name).replace('_', '-')}")
        if one.domain.form is Form.MECHANISMS:
            words += [json.dumps(entry(each)) for each in value]
        elif one.domain.form is Form.MECHANISM:
            words.append(json.dumps(entry(value)))
        elif isinstance(value, tuple):
            words += map(str, value)
        else:
            words.append(str(value))
    code, out, err = run(
        "delta", "--family", kind.__name__, *words, "--compositions", "2", "--epsilon", "0.5", "--json"
    )
    assert code == 0, err
    found = json.loads(out)["answers"][0]["delta_upper"]
    assert found == privacy_bounds(example(kind), compositions=2, epsilon=0.5).delta_upper.item()


def entry(value: Any) -> Any:
    """A mechanism as a study file has it."""
    form = {name: one for name, one in value.canonical().items() if one is not None}
    return {"kind": form.pop("mechanism"), **form}


def test_numbers_next_to_a_whole_one_are_refused() -> None:
    for value in (Fraction(2) - Fraction(1, 10**20), np.longdouble(2) - np.longdouble(2) ** -60, math.nan, math.inf):
        with pytest.raises(InvalidInputError, match=r"DiscreteLaplace\.sensitivity: expected a whole number"):
            DiscreteLaplace(1.0, value)
    assert DiscreteLaplace(1.0, 2.0) == DiscreteLaplace(1.0, Fraction(2)) == DiscreteLaplace(1.0, 2)
