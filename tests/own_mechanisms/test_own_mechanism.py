"""A mechanism that a user defines in a file of his own takes part in everything."""

import csv
import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from pbdist import open_study, privacy_bounds, size
from pbdist.errors import InvalidInputError
from pbdist.mechanisms import (
    MECHANISMS,
    ElementaryPair,
    Gaussian,
    Laplace,
    LossMasses,
    MassBounds,
    RandomizedResponse,
    declaration,
    mechanism,
    pair_from_canonical,
    parameter,
    positive,
)
from pbdist.study import load_study, plan_study
from pbdist.types import Adjacency, FloatArray
from tests.own_mechanisms import delays
from tests.own_mechanisms.delays import ExponentialDelay

STUDY = """\
format: 1
name: delays
mechanisms:
  - {kind: ExponentialDelay, scale: [200, 500], shift: [1, 2]}
compositions: [1, 10]
epsilon: [0, 0.1]
targets:
  - {epsilon: 0.1, delta: 0.05, compositions: 10}
"""


def revealed(scale: float, shift: float, rounds: int) -> float:
    """δ at every ε: some message of so many leaves before it could under B."""
    return -math.expm1(-rounds * shift / scale)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The user's folder, with the module and a study."""
    here = tmp_path_factory.mktemp("own")
    (here / "delays.py").write_text(Path(delays.__file__).read_text(encoding="utf-8"), encoding="utf-8")
    (here / "study.yaml").write_text(STUDY, encoding="utf-8")
    return here


def pbdist(folder: Path, *arguments: str, code: int = 0, **environment: str) -> str:
    """Run the installed command in the folder, and return what it printed."""
    variables = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | environment
    done = subprocess.run(
        [Path(sys.executable).with_name("pbdist"), *arguments],
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def test_bounds_and_size() -> None:
    found = privacy_bounds(ExponentialDelay(300.0, 2.0), compositions=[1, 10], epsilon=0.1)
    for lower, upper, rounds in zip(
        found.delta_lower.values[:, 0], found.delta_upper.values[:, 0], (1, 10), strict=True
    ):
        assert lower <= revealed(300.0, 2.0, rounds) <= upper <= (1.0 + 1e-9) * lower
    sized = size(ExponentialDelay, shift=2.0, compositions=10, epsilon=0.1, delta=0.05, tolerance=0.01)
    least = -20.0 / math.log1p(-0.05)
    assert sized.refuted_scale <= least <= sized.scale <= 1.02 * least


@pytest.mark.slow(reason="a LocalCluster and ten commands, each a process that imports")
def test_every_command(folder: Path) -> None:
    own = ("--import", "delays")
    point = ("--compositions", "10", "--epsilon", "0.1")
    pbdist(folder, *own, "run", "study.yaml", "--workers", "2")
    store, exact = "data/delays.zarr", revealed(200.0, 2.0, 10)
    told = pbdist(folder, *own, "query", store, "--scale", "200", "--shift", "2", *point, "--format", "csv")
    row = next(csv.DictReader(told.splitlines()))
    assert float(row["delta_lower"]) <= exact <= float(row["delta_upper"]) <= 1.001 * exact
    told = pbdist(
        folder, *own, "delta", "--family", "ExponentialDelay", "--scale", "200", "--shift", "2", *point, "--json"
    )
    assert json.loads(told)["answers"][0]["delta_upper"] >= exact
    told = pbdist(
        folder, *own, "epsilon", "--family", "ExponentialDelay", "--scale", "200", "--compositions", "1", "--delta=.1"
    )
    assert "ExponentialDelay" in told
    told = pbdist(
        folder, *own, "size", "--family", "ExponentialDelay", "--shift", "2", *point, "--delta", "0.05", "--json"
    )
    assert json.loads(told)["answers"][0]["scale"] >= -20.0 / math.log1p(-0.05)
    pbdist(folder, *own, "report", store, "-o", "report.html")
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert ExponentialDelay.does in page
    assert ExponentialDelay.assumes in page
    assert "by how much an arrival moves, in seconds" in page
    pbdist(folder, *own, "export", store, "cells.csv")
    rows = list(csv.DictReader((folder / "cells.csv").read_text(encoding="utf-8").splitlines()))
    assert {(row["scale"], row["shift"]) for row in rows} == {
        (scale, shift) for scale in ("200.0", "500.0") for shift in ("1.0", "2.0")
    }
    pbdist(folder, *own, "verify", store)
    pbdist(folder, *own, "new", "more.yaml", "--family", "ExponentialDelay")
    pbdist(folder, *own, "plan", "more.yaml")
    # Without its module the kind is unknown, and it is said how to make it known.
    for command in (["query", store], ["run", "study.yaml"]):
        told = pbdist(folder, *command, code=2)
        assert "--import MODULE" in told
        assert "damaged" not in told
    # Its files are counted all the same.
    assert "damaged" not in pbdist(folder, "status", store)
    assert "--import: expected a module that can be imported, got no_such" in pbdist(
        folder, "--import", "no_such", "studies", code=2
    )


@pytest.mark.slow(reason="a LocalCluster")
def test_a_client_of_ones_own(folder: Path) -> None:
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster, Client(cluster):
        pbdist(
            folder,
            "--import",
            "delays",
            "run",
            "study.yaml",
            "--scheduler",
            cluster.scheduler_address,
            "--store=s.zarr",
        )
    study = open_study(folder / "s.zarr")
    found = study.delta(ExponentialDelay(500.0), compositions=10, epsilon=0.1)
    assert found.lower <= revealed(500.0, 1.0, 10) <= found.upper


@pytest.mark.slow(reason="a LocalCluster")
def test_a_worker_with_another_version_of_the_module_is_refused(folder: Path, tmp_path: Path) -> None:
    changed = (folder / "delays.py").read_text(encoding="utf-8") + "# Changed.\n"
    (tmp_path / "delays.py").write_text(changed, encoding="utf-8")
    with (
        LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
    ):
        client.run(exec, f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import delays")
        command = ("run", "study.yaml", "--scheduler", cluster.scheduler_address, "--store=other.zarr")
        told = pbdist(folder, "--import", "delays", *command, code=2)
    assert "error: --scheduler: expected the module delays of SHA-256 " in told
    assert not (folder / "other.zarr").exists()


def test_names_are_taken_once() -> None:
    class Laplace(ElementaryPair):
        """Another one."""

    with pytest.raises(InvalidInputError, match=r"Laplace: expected a name of its own"):
        mechanism(Laplace)
    assert MECHANISMS["Laplace"].__module__ == "pbdist.mechanisms.additive"


def test_canonical_form() -> None:
    pair = ExponentialDelay(3)
    assert pair.canonical() == {"mechanism": "ExponentialDelay", "scale": 3.0, "shift": 1.0}
    assert pair_from_canonical(pair.canonical()) == pair
    with pytest.raises(InvalidInputError, match=r"ExponentialDelay.shift: expected a number above 0, got 0"):
        ExponentialDelay(3, 0)


def test_abilities_of_another_mechanism_are_not_replaced() -> None:
    """Bounds of a Gaussian are read off in closed form, whatever its masses are."""
    with pytest.raises(
        InvalidInputError, match=r"Wider: expected a class of its own, got a Gaussian that replaces loss"
    ):

        class Wider(Gaussian):
            def loss_masses(self, edges: FloatArray) -> LossMasses:
                return Laplace(self.scale).loss_masses(edges)

    class Masses:
        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return Laplace(4.0).loss_masses(edges)

    with pytest.raises(InvalidInputError, match=r"Mixed: expected a class of its own"):

        class Mixed(Masses, Gaussian):  # type: ignore[misc]
            pass


@pytest.fixture
def registry() -> Iterator[None]:
    """What a test makes known is forgotten at its end."""
    known = dict(declaration._KINDS)
    yield
    declaration._KINDS.clear()
    declaration._KINDS.update(known)


@pytest.mark.parametrize("name", ["kind", "label", "family", "mechanism", "identical", "order", "does", "check"])
def test_names_that_are_taken_are_refused(name: str) -> None:
    fields = {name: parameter(positive, "the parameter", example=1.0), "__annotations__": {name: float}}
    with pytest.raises(InvalidInputError, match=rf"Own\.{name}: expected another name"):
        mechanism(type("Own", (ElementaryPair,), fields))


def test_words_and_examples_are_needed() -> None:
    for told, what in (
        (parameter(positive, ""), "describe it in a few words"),
        (parameter(positive, "the size"), "expected an example"),
    ):
        with pytest.raises(InvalidInputError, match=rf"Own\.size: {what}"):
            mechanism(type("Own", (ElementaryPair,), {"size": told, "__annotations__": {"size": float}}))


@pytest.mark.parametrize(
    ("a", "b", "problem"),
    [
        ([0.5, math.nan], [0.5, 0.5], "expected lower values from 0"),
        ([0.5, -0.5], [0.5, 0.5], "expected lower values from 0"),
        ([0.5, 0.3], [0.5, 0.5], "expected masses of A that may sum to 1"),
        ([0.5, 0.5], [0.9, 0.5], "expected masses of B that may sum to 1"),
    ],
)
@pytest.mark.usefixtures("registry")
def test_masses_that_cannot_be_right_are_refused(a: list[float], b: list[float], problem: str) -> None:
    class Base(ElementaryPair):
        def loss_masses(self, edges: FloatArray) -> LossMasses:
            bins = MassBounds.zeros(edges.size + 1)
            sides = [MassBounds(np.array(side), np.array(side)) for side in (a, b)]
            return LossMasses(bins, bins, np.array([1.0, -1.0]), *sides, MassBounds.zeros(1), MassBounds.zeros(1), 0.0)

    # What a class has from a base is checked like its own.
    @mechanism
    class Wrong(Base):
        pass

    with pytest.raises(InvalidInputError, match=rf"Wrong\.loss_masses: {problem}"):
        privacy_bounds(Wrong(), compositions=1, epsilon=0.5)


@pytest.mark.usefixtures("registry")
def test_a_mechanism_without_parameters_is_planned(tmp_path: Path) -> None:
    @mechanism
    class Coin(ElementaryPair):
        does = "A coin is shown."
        adjacency = "add-or-remove"

        def loss_masses(self, edges: FloatArray) -> LossMasses:
            return RandomizedResponse(0.6).loss_masses(edges)

    assert Coin().adjacency is Adjacency.ADD_OR_REMOVE
    path = tmp_path / "coin.yaml"
    path.write_text("format: 1\nname: coin\nmechanisms: [{kind: Coin}]\ncompositions: [1, 4]\nepsilon: [0.1]\n")
    study = load_study(path)
    assert [cell.pair for cell in study.cells] == [Coin()]
    assert plan_study(study).seconds > 0.0
    found = privacy_bounds(Coin(), compositions=1, epsilon=0.1)
    assert found.delta_lower.item() <= 0.6 - math.exp(0.1) * 0.4 <= found.delta_upper.item()
