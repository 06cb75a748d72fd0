"""A run plans each study once: looking at cells of all classes takes seconds for a large study."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from pbdist.pld.cost import Cost
from pbdist.run import SerialExecutor, run_study
from pbdist.store import open_parts
from pbdist.store.place import place_at
from pbdist.study import StudySpec, load_study, plan
from pbdist.study.plan import cell_costs
from pbdist.types import IntArray
from tests.studies import TINY, write_study


@pytest.fixture
def tiny(tmp_path: Path) -> StudySpec:
    # A given factor: to choose one takes most of the time of a run.
    return load_study(write_study(tmp_path, TINY.replace("buckets: 400", "buckets: 400\nfactors: 1.05")))


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """The digests of the studies that were planned since the last call."""
    digests: list[str] = []

    def counted(study: StudySpec) -> tuple[list[Cost], IntArray]:
        digests.append(study.digest)
        return cell_costs(study)

    def taken() -> list[str]:
        found = digests.copy()
        digests.clear()
        return found

    monkeypatch.setattr(plan, "cell_costs", counted)
    return taken


def run(study: StudySpec, store: Path) -> None:
    run_study(study, store, SerialExecutor(), lambda _: None)


@pytest.mark.slow
def test_a_new_store_is_planned_once_and_a_finished_one_not_at_all(
    tiny: StudySpec, tmp_path: Path, planned: Callable[[], list[str]]
) -> None:
    run(tiny, tmp_path / "s.zarr")
    assert planned() == [tiny.digest]
    run(tiny, tmp_path / "s.zarr")
    assert planned() == []
    (tmp_path / "s.zarr" / "bounds/0.0.0.0.0").unlink()
    run(tiny, tmp_path / "s.zarr")
    assert planned() == [tiny.digest]


@pytest.mark.slow
def test_an_extension_plans_each_missing_part_once(
    tiny: StudySpec, tmp_path: Path, planned: Callable[[], list[str]]
) -> None:
    store = tmp_path / "s.zarr"
    smaller = replace(tiny, cells=tiny.cells[:-2], compositions=tiny.compositions[:-1])
    run(smaller, store)
    assert planned() == [smaller.digest]
    run(tiny, store)
    first, *added = open_parts(place_at(store))
    assert len(added) > 1
    assert planned() == [part.study.digest for part in added]
    run(tiny, store)
    assert planned() == []
    for part in (first, *added):
        (Path(part.place.url) / "bounds/0.0.0.0.0").unlink()
    run(tiny, store)
    assert sorted(planned()) == sorted(part.study.digest for part in (first, *added))
