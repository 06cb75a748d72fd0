"""Points by labels: rows of a DataFrame."""

import math
from pathlib import Path

import numpy as np
import pytest

from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import Study, open_study
from pbdist.store import BatchWriter, StoredStudy, create_or_open
from pbdist.study import load_study, plan_study
from tests.export.stores import RELEASES
from tests.query.test_extended import AFTER, BEFORE
from tests.studies import TIGHT, Finished, write_study

pytestmark = pytest.mark.slow

GRID = """\
format: 1
name: counts
mechanisms:
  - {label: messages, kind: NoisyCount, noise: {kind: Laplace, scale: [2, 4]}, mean: [20, 40], shift: 1}
  - {label: telemetry, kind: NoisyCount, noise: {kind: Laplace, scale: 2}, mean: 20, shift: 1}
  - {label: telemetry, kind: NoisyCount, noise: {kind: Laplace, scale: 4}, mean: 40, shift: 1}
  - {label: telemetry, kind: NoisyCount, noise: {kind: Laplace, scale: 8}, mean: 80, shift: 2}
method: buckets
buckets: 40
factors: 1.5
compositions: [1, 2, 4]
exp_epsilon: [1, 1.5, 2]
"""


@pytest.fixture
def study(finished_store: Finished) -> Study:
    return open_study(finished_store(TIGHT))


def test_every_row_is_what_a_look_up_says(study: Study) -> None:
    frame = study.frame()
    assert tuple(frame.columns) == tuple(study.row_columns)
    assert len(frame) == len(study.spec.cells) * 4 * 3
    assert (frame.status == "computed").all()
    for row in frame[frame.mechanism == "Laplace"].iloc[::5].itertuples():
        found = study.delta("Laplace", scale=row.scale, compositions=row.compositions, epsilon=row.epsilon)
        assert (row.delta_lower, row.delta_upper) == (found.lower, found.upper)
        assert (row.log_delta_lower, row.log_delta_upper) == (found.log_lower, found.log_upper)
        assert row.within_tolerance == found.within_tolerance
        assert row.setting == study.spec.cells[row.cell].describe()
        assert (row.exp_epsilon, row.direction) == (pytest.approx(math.exp(row.epsilon), rel=1e-15), "both")
    assert frame[frame.mechanism == "clipped"].iloc[0][["noise", "mean", "shift"]].tolist() == ["Laplace", 20.0, 1.0]
    assert frame[frame.mechanism == "Laplace"]["mean"].isna().all()


def test_labels_columns_and_directions_of_a_frame(study: Study) -> None:
    frame = study.frame(mechanism="Laplace", scale=[3, 5], compositions=(2, 7), exp_epsilon=2)
    assert frame.scale.tolist() == [3, 3, 5, 5]
    assert frame.compositions.tolist() == [2, 7, 2, 7]
    each = study.frame(direction="each", mechanism="clipped", compositions=4, epsilon=study.spec.epsilon[1])
    assert each.direction.tolist() == ["A||B", "B||A"]
    both = study.frame(mechanism="clipped", compositions=4, exp_epsilon=1.5)
    for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        assert both[name].item() == each[name].max()
    # A value that differs by rounding only, and numpy's.
    assert len(study.frame(mechanism="Laplace", scale=np.float64(3 * (1 + 4e-16)), compositions=np.array([1, 2]))) == 6


@pytest.mark.parametrize(
    ("labels", "error", "expected"),
    [
        ({"mechanism": "Laplac"}, OffGridError, "mechanism: expected one of Laplace, RandomizedResponse, clipped"),
        ({"scale": 4.0}, OffGridError, "scale: expected a stored value, the neighbours being 3 and 5, got 4"),
        ({"compositions": 3}, OffGridError, "compositions: expected a stored number"),
        ({"epsilon": 0.1}, OffGridError, "epsilon: expected a stored value"),
        ({"exp_epsilon": 2, "epsilon": 0.0}, InvalidInputError, "epsilon: expected"),
        ({"colour": 1}, InvalidInputError, "colour: expected one of mechanism, .*, got an unknown parameter"),
        ({"mechanism": 3}, InvalidInputError, "mechanism: expected text, or a list of texts, got 3"),
        ({"scale": []}, InvalidInputError, r"scale: expected one value or a list of values, got \[\]"),
        ({"scale": [[2], [3, 5]]}, InvalidInputError, "scale: expected one value or a list of values"),
        ({"scale": [True]}, InvalidInputError, "scale: expected numbers, got the truth value"),
        ({"direction": "A||B"}, InvalidInputError, "direction: expected one of both, each"),
    ],
)
def test_labels_that_are_refused(
    study: Study, labels: dict[str, object], error: type[Exception], expected: str
) -> None:
    with pytest.raises(error, match=expected):
        study.frame(**labels)


def test_products_are_told_apart_by_what_they_are_made_of(finished_store: Finished) -> None:
    text = GRID.partition("  - {label: messages")[0] + (
        "  - {label: two, kind: Product, pairs: [{kind: Laplace, scale: 2}, {kind: Laplace, scale: 3}]}\n"
        "  - {label: two, kind: Product, pairs: [{kind: Laplace, scale: 4}, {kind: Laplace, scale: 3}]}\n"
        "method: buckets\nbuckets: 40\nfactors: 1.5\ncompositions: [1]\nepsilon: [0.5]\n"
    )
    study = open_study(finished_store(text))
    found = study.frame(mechanism="two").made_of.tolist()
    first, second = (f"Laplace(scale={scale}, sensitivity=1) * Laplace(scale=3, sensitivity=1)" for scale in (2, 4))
    assert found == [first, second]
    assert study.frame(mechanism="two", made_of=second).setting.nunique() == 1
    cell = study.frame(mechanism="two", made_of=second).cell
    assert (
        study.bounds.delta_upper.isel(cell=cell[0]).max()
        == study.delta("two", compositions=1, epsilon=0.5, made_of=second).upper
    )
    with pytest.raises(InvalidInputError, match=r"also give made_of \(Laplace"):
        study.delta("two", compositions=1, epsilon=0.5)


@pytest.mark.parametrize("extended", [False, True])
def test_what_is_not_known_is_nan_and_told(tmp_path: Path, extended: bool) -> None:
    before = load_study(write_study(tmp_path, BEFORE))
    stored = create_or_open(tmp_path / "s.zarr", plan_study(before, 1))
    writer = BatchWriter(stored.head, 0, stored.study.cells[:1])
    writer.fail("ValueError: no luck")
    writer.commit()
    if extended:
        from pbdist.store import extend
        from pbdist.study.spec import missing_parts

        after = load_study(write_study(tmp_path, AFTER))
        extend([stored], [plan_study(part, 1) for part in missing_parts([before], after)])
    study = open_study(tmp_path / "s.zarr")
    frame = study.frame(direction="each")
    assert frame[["delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"]].isna().all(axis=None)
    of_failed = frame[(frame.scale == 2) & frame.compositions.isin([1, 4]) & frame.epsilon.isin([0, 0.5])]
    assert (of_failed.status == "failed").all()
    assert (frame.drop(of_failed.index).status == "missing").all()


def test_lower_bounds_of_plans_that_nothing_attains_are_not_known(finished_store: Finished) -> None:
    study = open_study(finished_store(RELEASES))
    frame = study.frame(mechanism="unattained")
    assert (frame.status == "upper only").all()
    assert frame[["delta_lower", "log_delta_lower"]].isna().all(axis=None)
    assert frame.delta_upper.notna().all()


def test_only_what_is_asked_for_is_read(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []
    plain = StoredStudy.read

    def counted(stored: StoredStudy, index: int) -> object:
        read.append(index)
        return plain(stored, index)

    monkeypatch.setattr(StoredStudy, "read", counted)
    study.frame(mechanism="Laplace", scale=2)
    assert set(read) == {0}
