"""Points that queries add to a store: computed once, found by all, no part of the study; damage, kills, crowds."""

import json
import os
import random
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pbdist
from pbdist.cli import main
from pbdist.errors import InvalidInputError, OffGridError, PrecisionError
from pbdist.query import open_study, refine
from pbdist.run import SerialExecutor, run_study
from pbdist.store import check_store, hold, open_parts, place_at, read_refinements
from pbdist.study import load_study
from pbdist.table import bounds_table
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict
from tests.processes import Running, start_code
from tests.s3_server import fresh_bucket
from tests.studies import TIGHT, TINY, Finished, files_of, write_study

pytestmark = pytest.mark.slow

#: Adds points one by one until it is killed, or as many as it is told.
ADDS = """
import sys
from pbdist.query import open_study
study = open_study(sys.argv[1])
for number in range(int(sys.argv[2]), int(sys.argv[3])):
    study.delta("Laplace", scale=2.0 + number / 64, compositions=3, epsilon=[0.1, 0.2], refine=True)
"""


@pytest.fixture
def store(store_copy: Finished) -> Path:
    return store_copy(TINY)


def adding(store: Path | str, first: int, stop: int) -> Running:
    return start_code(ADDS, store, first, stop)


def test_missing_points_are_computed_once_and_found_by_all(tiny_store: Path, store: Path) -> None:
    before = files_of(store)
    study = open_study(store)
    asked = {"compositions": [[3], [4], [9]], "epsilon": [0.0, 0.3]}
    with pytest.raises(OffGridError, match=r"let refine=True \(pbdist query --refine\) compute it"):
        study.delta("clipped", **asked)
    found = study.delta("clipped", refine=True, **asked)
    direct = pbdist.privacy_bounds(
        study.spec.cells[-1].pair, compositions=[3, 9], epsilon=[0.0, 0.3], method="buckets", buckets=400
    )
    np.testing.assert_array_equal(found.upper[[0, 2]], direct["delta_upper"].values)
    assert found.upper[1, 0] == study.delta("clipped", compositions=4, epsilon=0.0).upper
    # Exactly the five points that were not there: two r of two ε, and one ε of the stored r.
    added = read_refinements(open_parts(store)[0])
    assert sorted((one.compositions, one.epsilon) for one in added) == [((3, 9), (0.0, 0.3)), ((4,), (0.3,))]
    for again in (study, open_study(store)):
        np.testing.assert_array_equal(again.delta("clipped", **asked).log_upper, found.log_upper)
        again.delta("clipped", refine=True, **asked)
    assert len(read_refinements(open_parts(store)[0])) == 2
    # Between added points too, and by mechanisms.
    assert study.delta("clipped", compositions=8, epsilon=0.2).upper < 1
    pair = study.delta(pbdist.Gaussian(7.0), compositions=2, exp_epsilon=1.3, direction="each", refine=True)
    assert pair.upper.shape == (2,)
    near = open_study(store).delta(pbdist.Gaussian(8.0), compositions=2, exp_epsilon=1.3)
    assert near.lower == 0
    assert near.upper == pytest.approx(pair.upper.max(), rel=1e-6)
    # The study is what it was: whole, with nothing to compute, and every file of it untouched.
    assert open_study(store).complete
    assert check_store(store).healthy
    assert check_store(store).strays == ()
    run_study(load_study(tiny_store.with_name("study.yaml")), store, SerialExecutor(), lambda _: None)
    after = files_of(store)
    assert [name for name in before if after[name] != before[name]] == ["zarr.json"]
    assert all(name.startswith("refined-") for name in set(after) - set(before))


def test_epsilon_and_rounds_are_narrowed_down(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = open_study(store)
    before = study.epsilon("Laplace", scale=4.0, compositions=3, delta=1e-2)
    assert np.isinf(before.upper)
    found = study.epsilon("Laplace", scale=4.0, compositions=[3, 40], delta=1e-2, refine=True)
    truth = pbdist.epsilon_bounds(pbdist.Laplace(4.0), compositions=[3, 40], delta=1e-2)
    assert (found.lower <= truth["epsilon_upper"].values[:, 0]).all()
    assert (found.upper >= truth["epsilon_lower"].values[:, 0]).all()
    # As close as the 400 buckets of the study allow.
    assert (found.upper <= 1.1 * found.lower).all()
    again = open_study(store).epsilon("Laplace", scale=4.0, compositions=[3, 40], delta=1e-2)
    np.testing.assert_array_equal(again.upper, found.upper)
    unbounded = study.epsilon("clipped", compositions=2, delta=1e-6, refine=True)
    assert np.isinf(unbounded.upper)
    rounds = study.compositions("Laplace", scale=4.0, epsilon=1.0, delta=[1e-3, 0.05], refine=True)
    assert (rounds.lower <= rounds.upper).all()
    assert (rounds.upper <= rounds.lower + 1).all()
    for allowed, delta in zip(rounds.lower.tolist(), (1e-3, 0.05), strict=True):
        assert allowed >= 1
        at = pbdist.privacy_bounds(pbdist.Laplace(4.0), compositions=[allowed, allowed + 2], epsilon=1.0)
        assert at["delta_lower"].values[0, 0] <= delta < at["delta_upper"].values[1, 0]
    asked = ["query", str(store), "--mechanism", "Laplace", "--scale", "9", "--compositions", "5", "--json"]
    assert main([*asked, "--epsilon", "0.3", "--refine"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["answers"][0]["delta_lower"] > 0
    assert main([*asked, "--epsilon", "0.3"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert check_store(store).healthy


def test_added_points_are_checked_and_verified(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_study(store).delta("Laplace", scale=4.0, compositions=[2, 3], epsilon=0.1, refine=True)
    assert main(["status", str(store), "--check"]) == 0
    assert "added by queries: 2 points in 1 refinement" in capsys.readouterr().out
    assert main(["status", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refinements"] == {"all": 1, "points": 2}
    whole = verify_store(store, sample=10_000, max_cells=500)
    assert whole.passed
    added = [sample for sample in whole.samples if sample.cell == -1]
    assert [(sample.compositions, sample.epsilon) for sample in added] == [(2, 0.1), (3, 0.1)] * 2
    assert {sample.verdict for sample in added} <= {Verdict.CONFIRMED, Verdict.CONSISTENT}
    assert "Laplace(scale=4, sensitivity=1)" in added[0].describe()


def test_damaged_points_are_found_skipped_and_computed_again(store: Path) -> None:
    study = open_study(store)
    for scale in (4.0, 6.0):
        study.delta("Laplace", scale=scale, compositions=3, epsilon=0.1, refine=True)
    known = study.delta("Laplace", scale=4.0, compositions=3, epsilon=0.1).lower
    whole = files_of(store)
    (folder,) = {
        store / one.name for one in read_refinements(open_parts(store)[0]) if one.cell.pair == pbdist.Laplace(4.0)
    }
    for file in [path for path in folder.rglob("*") if path.is_file()]:
        content = file.read_bytes()
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        assert folder.name in {name for name, _ in check_store(store).damaged}, file
        # It says nothing, rather than something else.
        assert open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1).lower < known
        assert not verify_store(store, sample=0).passed
        again = open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)
        assert again.lower == known
        assert files_of(store) == whole


def test_many_at_once_do_no_damage(store: Path) -> None:
    # Three processes, two of which want the same points.
    processes = [adding(store, first, stop) for first, stop in ((0, 6), (0, 6), (3, 9))]
    for process in processes:
        with process:
            done = process.wait()
        assert done.returncode == 0, done.stderr
    assert check_store(store).healthy
    assert check_store(store).strays == ()
    added = read_refinements(open_parts(store)[0])
    # Scale 2 is a setting of the study, of which r = 3 is missing.
    assert sorted({one.cell.pair.canonical()["scale"] for one in added}) == [2 + number / 64 for number in range(9)]
    assert len(added) == 9


def test_killed_at_any_moment_the_store_is_sound(tiny_store: Path, store: Path) -> None:
    rng = random.Random(11)  # noqa: S311 -- no secret
    known: set[tuple[float, int]] = set()
    for attempt in range(3):
        with adding(store, 1000 * attempt, 1000 * attempt + 1000) as process:
            there = len(list(store.glob("refined-*")))
            while len(list(store.glob("refined-*"))) <= there:
                assert process.code is None, process.printed("err")
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        check = check_store(store)
        assert check.healthy, check.damaged
        assert check.strays == ()
        added = {
            (one.cell.pair.canonical()["scale"], r)
            for one in read_refinements(open_parts(store)[0])
            for r in one.compositions
        }
        assert added >= known
        known = added
    assert known
    # The next one goes on, and the next run sweeps up.
    with adding(store, 9000, 9001) as process:
        assert process.wait().returncode == 0
    run_study(load_study(tiny_store.with_name("study.yaml")), store, SerialExecutor(), lambda _: None)
    assert check_store(store).strays == ()
    assert len(read_refinements(open_parts(store)[0])) == len(known) + 1


def test_a_store_that_is_written_to_is_waited_for(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine, "_PATIENCE_SECONDS", 0.3)
    study = open_study(store)
    with hold(place_at(store)), pytest.raises(InvalidInputError, match="another process writes to the store"):
        study.delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)
    study.delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)


def test_in_an_object_store(tmp_path: Path) -> None:
    study = load_study(write_study(tmp_path, TIGHT))
    with fresh_bucket() as bucket:
        url = f"{bucket.url}/s.zarr"
        run_study(study, url, SerialExecutor(), lambda _: None)
        found = open_study(url).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)
        with adding(url, 64, 66) as process:
            assert process.wait().returncode == 0
        again = open_study(url).delta("Laplace", scale=[4.0, 3.0, 3.0 + 1 / 64], compositions=3, epsilon=0.1)
        assert again.upper[0] == found.upper
        assert (again.lower[1:] > 0).all()
        assert check_store(url).healthy
        assert check_store(url).strays == ()


@pytest.mark.parametrize("error", [PrecisionError("too wide"), InvalidInputError("too large")])
def test_rounds_that_cannot_be_computed_are_not_decided(
    store: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def computed(*arguments: Any, compositions: Sequence[int], **options: Any) -> Any:
        if max(compositions) > most:
            raise error
        return bounds_table(*arguments, compositions=compositions, **options)

    most = 10
    monkeypatch.setattr(refine, "bounds_table", computed)
    study = open_study(store)
    # The first one does not need more than ten rounds, and is none the worse for the other.
    found = study.compositions("Laplace", scale=4.0, epsilon=1.0, delta=[1e-3, 0.9], refine=True)
    assert found.lower[0] <= found.upper[0] < 10
    assert 4 <= found.lower[1] <= 10
    assert found.upper[1] == np.inf
    most = 4
    losses = study.epsilon("Laplace", scale=4.0, compositions=[3, 5], delta=1e-2, refine=True)
    assert losses.upper[0] <= 1.1 * losses.lower[0]
    assert losses.lower[1] < losses.upper[1]
    # Where nothing is known, the reason is told.
    with pytest.raises(type(error), match="too "):
        study.epsilon("clipped", compositions=40, delta=1e-2, refine=True)


def test_a_store_that_is_written_to_is_no_undecided_answer(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refine, "_PATIENCE_SECONDS", 0.2)
    with hold(place_at(store)), pytest.raises(InvalidInputError, match="another process writes to the store"):
        open_study(store).compositions("Laplace", scale=4.0, epsilon=1.0, delta=1e-3, refine=True)
