"""A mechanism that is registered later takes part in studies by what it declares."""

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

import pbdist
from pbdist.cli import main
from pbdist.cli.families import pairs_of_family
from pbdist.errors import InvalidInputError, StudyFileError
from pbdist.mechanisms import (
    Domain,
    ElementaryPair,
    Form,
    Gaussian,
    LossMasses,
    mechanism,
    one_of,
    pair_from_canonical,
    parameter,
    positive,
)
from pbdist.mechanisms.declaration import _KINDS
from pbdist.study import load_study
from pbdist.study.entries import accepted_grid
from pbdist.study.starter import write_starter
from pbdist.types import FloatArray


@pytest.fixture(autouse=True)
def _registry() -> Iterator[None]:
    before = dict(_KINDS)
    yield
    _KINDS.clear()
    _KINDS.update(before)


def registered() -> type[Any]:
    @mechanism
    class Blurred(ElementaryPair):
        """Gaussian noise of a unit that has a name."""

        aliases = ("blur",)
        does = "An answer is blurred."
        checked_together = ("width", "unit")

        width: float = parameter(positive, "the width of the blur", aliases=("size",), example=[30.0, 60.0])
        unit: str = parameter(one_of("small", "large"), "the unit of the width", default="small")

        def check(self) -> None:
            if self.unit == "large" and self.width > 100.0:
                raise InvalidInputError("Blurred.width: expected at most 100 large units")

        @property
        def symmetric(self) -> bool:
            return True

        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return Gaussian(self.width * (10.0 if self.unit == "large" else 1.0)).loss_masses(edges)

    return Blurred


def study(tmp_path: Path, entry: str) -> Path:
    path = tmp_path / "s.yaml"
    path.write_text(f"format: 1\nname: s\nmechanisms:\n  - {entry}\ncompositions: 1\nepsilon: 0.1\n")
    return path


def problem_of(tmp_path: Path, entry: str) -> str:
    with pytest.raises(StudyFileError) as refused:
        load_study(study(tmp_path, entry))
    (problem,) = refused.value.problems
    return f"{problem.field}: {problem.problem}"


def test_it_is_read_from_study_files(tmp_path: Path) -> None:
    kind = registered()
    found = load_study(study(tmp_path, "{kind: Blurred, width: [1, 2], unit: [small, large]}"))
    assert [cell.pair for cell in found.cells] == [kind(w, u) for w, u in product((1.0, 2.0), ("small", "large"))]
    inner = load_study(study(tmp_path, "{kind: Product, pairs: [{kind: Reversed, pair: {kind: Blurred, width: 3}}]}"))
    assert inner.cells[0].pair.factors == (pbdist.Reversed(kind(3.0)),)


def test_errors_are_at_its_keys(tmp_path: Path) -> None:
    registered()
    assert "did you mean Blurred?" in problem_of(tmp_path, "{kind: blur, width: 1}")
    assert problem_of(tmp_path, "{kind: Blurred, size: 1}").endswith("width is the width of the blur")
    assert "[1]: expected one of small, large, got 'lrge': did you mean large?" in problem_of(
        tmp_path, "{kind: Blurred, width: 1, unit: [small, lrge]}"
    )
    assert "expected at most 100 large units" in problem_of(
        tmp_path, "{kind: Blurred, width: [1, 200], unit: [small, large]}"
    )


def test_it_has_a_study_to_begin_with_and_options(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kind = registered()
    monkeypatch.chdir(tmp_path)
    write_starter(Path("s.yaml"), "Blurred")
    assert [cell.pair for cell in load_study("s.yaml").cells] == [kind(30.0), kind(60.0)]
    text = (tmp_path / "s.yaml").read_text(encoding="utf-8")
    assert "  # An answer is blurred.\n  - kind: Blurred\n    width: [30, 60] # the width of the blur\n" in text
    assert "unit: small # the unit of the width: small, large" in text
    assert "--mechanism Blurred --width 60 " in text
    assert pairs_of_family("Blurred", {"width": 2, "unit": "large"})[0] == kind(2.0, "large")
    asked = ["delta", "--family", "Blurred", "--width", "2", "--compositions", "1", "--epsilon", "0.1", "--json"]
    assert main(asked) == 0
    assert "delta_upper" in capsys.readouterr().out


def test_a_name_that_is_registered_anew_is_the_new_class(tmp_path: Path) -> None:
    old, new = registered(), registered()
    (cell,) = load_study(study(tmp_path, "{kind: Blurred, width: 1}")).cells
    assert (old is new, type(cell.pair) is new) == (False, True)


def test_what_follows_from_two_parameters_is_in_no_grid() -> None:
    @mechanism
    class Following(ElementaryPair):
        """A pair with a parameter that follows from two others."""

        first: float = parameter(positive, "the first one", example=1.0)
        second: float = parameter(positive, "the second one", example=1.0)
        both: float = parameter(positive, "their product", default=None)

        def __init__(self, first: float, second: float, both: float | None = None) -> None:
            object.__setattr__(self, "first", first)
            object.__setattr__(self, "second", second)
            object.__setattr__(self, "both", first * second if both is None else both)

        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return Gaussian(self.both).loss_masses(edges)

    def make(values: Any) -> Following:
        return Following(*values)

    for grids in ({"first": [1.0, 2.0], "second": [3.0]}, {"first": [1.0, 2.0], "second": [3.0, 4.0]}):
        assert [*accepted_grid("Following", grids, make).pairs()] == [
            make(values) for values in product(*grids.values())
        ]


def test_parameters_that_are_mechanisms(tmp_path: Path) -> None:
    @mechanism
    class Wrapped(ElementaryPair):
        """Noise of a few kinds."""

        core: Gaussian = parameter(
            Domain(lambda _owner, _name, value: value, Form.MECHANISM, kinds=("Gaussian",)),
            "the noise within",
            example=Gaussian(30.0),
        )

        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return self.core.loss_masses(edges)

    found = load_study(study(tmp_path, "{kind: Wrapped, core: {kind: Gaussian, scale: [2, 3]}}"))
    assert [cell.pair for cell in found.cells] == [Wrapped(Gaussian(2.0)), Wrapped(Gaussian(3.0))]
    assert problem_of(tmp_path, "{kind: Wrapped, core: {kind: Laplace, scale: 2}}").startswith(
        "mechanisms[0].core.kind: expected a kind among Gaussian, got 'Laplace'"
    )


def test_lists_of_mechanisms(tmp_path: Path) -> None:
    @mechanism
    class Louder(ElementaryPair):
        """The noise of the first of some pairs."""

        pairs: tuple[Gaussian, ...] = parameter(
            Domain(lambda _owner, _name, value: value, Form.MECHANISMS, kinds=("Gaussian",)), "the pairs", example=()
        )

        def __init__(self, *pairs: Gaussian) -> None:
            object.__setattr__(self, "pairs", pairs)

        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return self.pairs[0].loss_masses(edges)

    entry = "{kind: Louder, pairs: [{kind: Gaussian, scale: [2, 3]}, {kind: Gaussian, scale: 1}]}"
    found = [cell.pair for cell in load_study(study(tmp_path, entry)).cells]
    assert found == [Louder(Gaussian(2.0), Gaussian(1.0)), Louder(Gaussian(3.0), Gaussian(1.0))]
    assert [pair_from_canonical(pair.canonical()) for pair in found] == found
