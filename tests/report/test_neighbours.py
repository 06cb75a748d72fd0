"""Reports, plots, exports and the explorer say for which neighbours bounds are, and where they do not compare."""

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray

import pbdist
from pbdist import Gaussian, SubsampledGaussian, epsilon_bounds, open_study, privacy_bounds
from pbdist.report.explorer.snapshot import Snapshot
from pbdist.report.pages.store_report import store_report
from pbdist.report.pages.writers import written_html
from pbdist.report.plots import compare, compositions, epsilon_delta, noise
from pbdist.study import Target
from tests.query.test_neighbours import STUDY
from tests.report.pages.reading import read_page
from tests.studies import TINY

pytestmark = pytest.mark.slow

DIFFER = "differ, so that bounds do not compare: Laplace: one record replaced; SubsampledGaussian: one record added"
ALONE = STUDY.replace("  - {kind: SubsampledGaussian, scale: [2, 3], rate: 0.1}\n", "")


def notes(axes: Any) -> str:
    """All that a plot says in words, on one line."""
    return " ".join(
        " ".join(text.get_text().split()) for text in axes.figure.findobj(lambda one: hasattr(one, "get_text"))
    )


def test_plots_of_different_neighbours_say_that_they_do_not_compare(finished_store: Callable[[str], Path]) -> None:
    study = open_study(finished_store(STUDY))
    for axes in (
        epsilon_delta(study, compositions=4),
        compare(study, over="noise"),
        compositions(study, epsilon=0.5),
        noise(study, delta=0.1),
    ):
        assert f"neighbours {DIFFER}" in notes(axes)
    assert "neighbours: one record replaced" in notes(epsilon_delta(study, mechanism="Laplace"))
    assert "neighbours: one record replaced" in notes(epsilon_delta(study.bounds, mechanism="Laplace"))
    # What says nothing needs no word.
    assert "neighbours" not in notes(epsilon_delta(study, mechanism="Gaussian"))


def test_plots_of_datasets_say_it_too() -> None:
    asked: dict[str, Any] = {"compositions": [1, 2], "epsilon": [0.5, 1.0]}
    sources = {
        "one": privacy_bounds(SubsampledGaussian(2.0, 0.1), **asked),
        "other": privacy_bounds(Gaussian(2.0), adjacency="zero-out", **asked),
    }
    for axes in (epsilon_delta(sources, compositions=2), compositions(sources, epsilon=0.5)):
        assert "neighbours differ, so that bounds do not compare: one: one record added or removed; other:" in notes(
            axes
        )
    sized = epsilon_bounds(Gaussian(2.0), compositions=[1, 2], delta=1e-3, adjacency="replace-one")
    assert "neighbours: one record replaced" in notes(compositions(sized))


@pytest.mark.parametrize(
    ("text", "told"), [(STUDY, f"Neighbours {DIFFER}"), (ALONE, "Neighbours: Laplace: one record")]
)
def test_reports_say_it_beside_the_answers(finished_store: Callable[[str], Path], text: str, told: str) -> None:
    target = Target(compositions=4, epsilon=0.5, delta=0.1)
    page = read_page(written_html(store_report(finished_store(text), drawn=False, targets=(target,))))
    assert told in " ".join(page.text.split())
    rows = [row for row in page.tables["What the store holds"] if row[:2] == ["Laplace", "neighbours"]]
    assert [row[-1] for row in rows] == ["one record replaced"]


def test_exports_carry_it(finished_store: Callable[[str], Path], tmp_path: Path) -> None:
    store = finished_store(STUDY)
    told = "Laplace: replace-one; SubsampledGaussian: add-or-remove; Gaussian: as-stated"
    for form in ("zarr", "nc"):
        pbdist.export_study(store, tmp_path / f"out.{form}")
        with xarray.open_dataset(tmp_path / f"out.{form}", chunks=None) as found:
            assert found.adjacency == told
    pbdist.export_study(store, tmp_path / "out.csv")
    assert json.loads((tmp_path / "out.csv-metadata.json").read_text())["about"]["adjacency"] == told
    with (tmp_path / "out.csv").open(encoding="utf-8", newline="") as lines:
        rows = {(row["mechanism"], row["adjacency"]) for row in csv.DictReader(lines)}
    assert rows == {tuple(one.split(": ")) for one in told.split("; ")}


def test_the_explorer_says_it_of_stores_that_state_it(finished_store: Callable[[str], Path]) -> None:
    texts = [one["text"] for one in Snapshot(str(finished_store(STUDY))).notices()]
    assert any(text.startswith(f"Neighbours {DIFFER}") for text in texts)
    assert not any("eighbours" in one["text"] for one in Snapshot(str(finished_store(TINY))).notices())
