"""A store that was extended answers as one that was made at once."""

from pathlib import Path

import numpy as np
import pytest

from pbdist.query import noise_choices, open_study, reached_precision
from pbdist.store import BatchWriter, StoredStudy, create_or_open, extend
from pbdist.study import StudySpec, load_study, plan_study
from pbdist.study.spec import missing_parts
from pbdist.verify.store import verify_store
from tests.store.test_store import write_batch
from tests.studies import write_study

pytestmark = pytest.mark.slow

BEFORE = """\
format: 1
name: small
mechanisms:
  - {kind: Laplace, scale: [2, 3]}
  - {label: other, kind: ApproximateDP, epsilon: 0.1, delta: 1e-6}
method: buckets
buckets: 400
factors: 1.05
compositions: [1, 4]
epsilon: [0, 0.5]
"""
AFTER = (
    BEFORE.replace("[2, 3]", "[1.5, 2, 3]").replace("[1, 4]", "[1, 2, 4, 5]").replace("[0, 0.5]", "[0, 0.2, 0.5, 0.7]")
)


def write_all(parts: tuple[StoredStudy, ...]) -> None:
    for stored in parts:
        for index in range(stored.batches):
            write_batch(stored, index)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, StudySpec]:
    folder = tmp_path_factory.mktemp("extended")
    before, after = (load_study(write_study(folder, text)) for text in (BEFORE, AFTER))
    at_once = create_or_open(folder / "at-once.zarr", plan_study(after))
    parts = extend(
        [create_or_open(folder / "extended.zarr", plan_study(before, 2))],
        [plan_study(part, 2) for part in missing_parts([before], after)],
    )
    assert len(parts) == 4
    write_all((at_once,))
    write_all(parts)
    return folder / "at-once.zarr", folder / "extended.zarr", after


def test_all_points_are_there_with_the_same_bounds(stores: tuple[Path, Path, StudySpec]) -> None:
    at_once, extended, after = stores
    study, whole = open_study(extended), open_study(at_once)
    assert study.complete
    assert {*study.spec.cells} == {*after.cells}
    assert (study.spec.compositions, study.spec.epsilon) == (after.compositions, after.epsilon)
    order = [study.spec.cells.index(cell) for cell in after.cells]
    for name in whole.bounds.data_vars:
        np.testing.assert_array_equal(study.bounds[name].values[order], whole.bounds[name].values)
        assert study.bounds[name].attrs == whole.bounds[name].attrs
        assert study.bounds[name].dims == whole.bounds[name].dims
    point = study.bounds.sel(mechanism="Laplace", scale=1.5, compositions=5, epsilon=0.7)
    assert point["delta_upper"].shape == (1, 2)
    for r in after.compositions:
        for epsilon in after.epsilon:
            for scale in (1.5, 3.0):
                asked = {"compositions": r, "epsilon": epsilon, "scale": scale}
                one, other = study.delta("Laplace", **asked), whole.delta("Laplace", **asked)
                assert (one.lower, one.upper) == (other.lower, other.upper)
    for r, e in ((0, 0), (1, 1), (3, 2)):
        for found, expected in zip(study.maxima(r, e), whole.maxima(r, e), strict=True):
            np.testing.assert_array_equal(found[order], expected)
    verdicts = [
        {
            opened.spec.cells[one.cell]: one.verdict
            for choice in noise_choices(opened, epsilon=0.7, delta=0.3, compositions=5)
            for one in choice.tried
        }
        for opened in (study, whole)
    ]
    assert verdicts[0] == verdicts[1]
    assert reached_precision(study).points == reached_precision(whole).points == 0


def test_points_of_every_part_are_verified(stores: tuple[Path, Path, StudySpec]) -> None:
    found = verify_store(stores[1], sample=30)
    assert found.passed
    assert (found.points, found.failed) == (4 * 2 * 4 * 4, 0)
    assert len({(sample.compositions, sample.epsilon) for sample in found.samples}) > 10


def test_what_is_not_computed_or_has_failed_is_told(tmp_path: Path) -> None:
    before, after = (load_study(write_study(tmp_path, text)) for text in (BEFORE, AFTER))
    stored = create_or_open(tmp_path / "s.zarr", plan_study(before, 1))
    write_all((stored,))
    parts = extend([stored], [plan_study(part, 1) for part in missing_parts([before], after)])
    study = open_study(tmp_path / "s.zarr")
    assert not study.complete
    assert study.frame(mechanism="Laplace", scale=2, compositions=1, epsilon=0.2).status.item() == "missing"
    assert set(study.gaps(range(len(study.spec.cells))).values()) == {"not computed"}
    assert len(study.parts) > 1
    for part in parts[1:]:
        for index, cell in enumerate(part.study.cells):
            writer = BatchWriter(part.head, index, [cell])
            writer.fail("ValueError: no luck")
            writer.commit()
    study = open_study(tmp_path / "s.zarr")
    assert not study.complete
    assert study.frame(mechanism="Laplace", scale=2, compositions=1, epsilon=0.2).status.item() == "failed"
    assert np.isnan(study.bounds["delta_upper"].sel(epsilon=0.2)).all()
    assert study.gaps(range(len(study.spec.cells))) == dict.fromkeys(range(len(study.spec.cells)), "failed")
    assert study.delta("Laplace", scale=2, compositions=1, epsilon=0.5).upper > 0.0
    found = verify_store(tmp_path / "s.zarr", sample=0)
    assert (found.passed, found.failed, found.missing, found.changed) == (False, 7, (), ())
