"""Points that queries add to a store: computed once, found by all, no part of the study; damage, kills, crowds."""

import json
import math
import os
import random
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pbdist
import pbdist.query.refine as refine_module
from pbdist.cli import main
from pbdist.errors import InvalidInputError, OffGridError, PrecisionError
from pbdist.query import open_study, refine
from pbdist.run import SerialExecutor, run_study
from pbdist.store import (
    Refinement,
    check_refinement_size,
    check_store,
    hold,
    open_parts,
    open_store,
    read_refinements,
    refinements,
)
from pbdist.store.layout import BOUNDS
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
    assert found.upper[1, 0] == study.lookup("clipped", compositions=4, epsilon=0.0).maximum[1]
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
    assert {name: after[name] for name in before} == before
    assert all(name.startswith("refinements/") for name in set(after) - set(before))


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
    assert answer["bounds"]["maximum"]["delta_lower"] > 0
    assert main([*asked, "--epsilon", "0.3"]) == 0
    assert json.loads(capsys.readouterr().out) == answer
    assert check_store(store).healthy


def test_added_points_are_checked_and_verified(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    open_study(store).delta("Laplace", scale=4.0, compositions=[2, 3], epsilon=0.1, refine=True)
    assert main(["status", str(store), "--check"]) == 0
    assert "added by queries: 2 points in 1 refinements" in capsys.readouterr().out
    assert main(["status", str(store), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["refinements"] == {"all": 1, "points": 2}
    whole = verify_store(store, sample=10_000, max_cells=500)
    assert whole.passed
    added = [sample for sample in whole.samples if sample.cell == -1]
    assert [(sample.compositions, sample.epsilon) for sample in added] == [(2, 0.1), (3, 0.1)] * 2
    assert {sample.verdict for sample in added} <= {Verdict.CONFIRMED, Verdict.CONSISTENT}
    assert "Laplace(scale=4, sensitivity=1)" in added[0].describe()


def test_damage_is_found_skipped_and_given_up(tiny_store: Path, store: Path, tmp_path: Path) -> None:
    study = open_study(store)
    for scale in (4.0, 6.0, 8.0):
        study.delta("Laplace", scale=scale, compositions=3, epsilon=0.1, refine=True)
    known = study.delta("Laplace", scale=4.0, compositions=3, epsilon=0.1).lower
    folder = store / "refinements"
    files = sorted(folder.rglob("zarr.json"))
    names = [path.relative_to(store).as_posix() for path in files]
    assert names == [f"refinements/{number:06d}/zarr.json" for number in (1, 2, 3)] + ["refinements/zarr.json"]
    contents = [path.read_bytes() for path in files]

    def damaged() -> set[str]:
        check = check_store(store)
        assert check.healthy == (not check.damaged)
        return {name for name, _ in check.damaged}

    assert damaged() == set()
    rng = random.Random(3)  # noqa: S311 -- no secret
    for path, content, name in zip(files, contents, names, strict=True):
        for _ in range(10):
            spot = rng.randrange(len(content))
            path.write_bytes(content[:spot] + bytes([content[spot] ^ 1 << rng.randrange(8)]) + content[spot + 1 :])
            assert damaged() == {name}
        path.unlink()
        assert damaged() == {name}
        path.write_bytes(content)
    files[0].write_bytes(contents[1])
    assert damaged() == {names[0]}
    # It says nothing, rather than something else.
    open_study(store).delta("Laplace", scale=6.0, compositions=3, epsilon=0.1)
    assert open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1).lower < known
    assert not verify_store(store, sample=0).passed
    with pytest.warns(UserWarning, match="computed again when they are asked for"):
        run_study(load_study(tiny_store.with_name("study.yaml")), store, SerialExecutor(), lambda _: None)
    assert damaged() == set()
    assert len(read_refinements(open_parts(store)[0])) == 2
    again = open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)
    assert again.lower == known
    assert sorted(folder.rglob("zarr.json"))[3].parent.name == "000004"
    assert damaged() == set()
    # Those of another study are none of this one.
    text = TINY.replace("buckets: 400", "buckets: 200")
    run_study(load_study(write_study(tmp_path, text)), tmp_path / "o.zarr", SerialExecutor(), lambda _: None)
    shutil.copytree(folder, tmp_path / "o.zarr" / "refinements")
    assert not check_store(tmp_path / "o.zarr").healthy
    assert read_refinements(open_parts(tmp_path / "o.zarr")[0]) == ()
    # What belongs to nothing is a stray, of whatever number.
    (folder / "999999999").mkdir()
    (folder / "999999999" / "zarr.json").write_bytes(contents[0])
    assert check_store(store).strays == ("refinements/999999999/zarr.json",)


def test_what_is_in_the_way_is_left_alone(store: Path) -> None:
    (store / "refinements" / "000001" / "zarr.json").mkdir(parents=True)
    open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1, refine=True)
    assert open_study(store).delta("Laplace", scale=4.0, compositions=3, epsilon=0.1).lower > 0


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
    assert sorted({one.pair.canonical()["scale"] for one in added}) == [2 + number / 64 for number in range(9)]
    assert len(added) == 9


def test_killed_at_any_moment_the_store_is_sound(tiny_store: Path, store: Path) -> None:
    rng = random.Random(11)  # noqa: S311 -- no secret
    known: set[tuple[float, int]] = set()
    for attempt in range(3):
        with adding(store, 1000 * attempt, 1000 * attempt + 1000) as process:
            there = len(list(store.rglob("refinements/*")))
            while len(list(store.rglob("refinements/*"))) <= there:
                assert process.code is None, process.printed("err")
                time.sleep(0.001)
            time.sleep(rng.uniform(0.0, 0.1))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()
        check = check_store(store)
        assert check.healthy, check.damaged
        assert all(name.endswith(".partial") for name in check.strays)
        added = {
            (one.pair.canonical()["scale"], r)
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
    with hold(store), pytest.raises(InvalidInputError, match="expected a store at rest, got one that is written to"):
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
    with hold(store), pytest.raises(InvalidInputError, match="expected a store at rest"):
        open_study(store).compositions("Laplace", scale=4.0, epsilon=1.0, delta=1e-3, refine=True)


def test_too_many_points_are_refused_before_anything_is_computed(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = open_store(store)
    before = files_of(store)
    monkeypatch.setattr("pbdist.query.refine.bounds_table", lambda *_, **__: pytest.fail("computed"))
    monkeypatch.setattr("pbdist.store.refinements.MOST_DOCUMENT", 20_000)
    cell = stored.study.cells[0]
    points = [(cell, r, 0.01 * step) for r in range(100, 110) for step in range(1, 11)]
    with pytest.raises(InvalidInputError, match="take at most 20,000 bytes in the store, got 100 points"):
        refine_module.refine(stored, stored.study, points)
    assert files_of(store) == before


#: The longest texts among floats, and the shortest.
FLOATS = (-float.fromhex("0x1.123456789abcdp-1022"), 0.0, -math.inf, 1.0)


@pytest.mark.parametrize("value", FLOATS)
@pytest.mark.parametrize(("rounds", "steps"), [(1, 1), (1, 50), (50, 1)])
def test_no_document_is_larger_than_it_was_said_before(
    value: float, rounds: int, steps: int, tiny_store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = open_store(tiny_store)
    cell = stored.study.cells[0]
    compositions = tuple(2**62 - number for number in range(rounds))
    epsilon = tuple(abs(FLOATS[0]) * (1 + number) for number in range(steps))
    shape = (2, rounds, steps)
    values = np.full((len(BOUNDS), *shape), value)
    within = np.zeros(shape, dtype=bool)
    one = Refinement(cell, compositions, epsilon, values, abs(FLOATS[0]), 0, within)
    size = len(refinements._document(stored, 10**9, one))
    monkeypatch.setattr(refinements, "MOST_DOCUMENT", size - 1)
    with pytest.raises(InvalidInputError, match="expected points whose bounds take at most"):
        check_refinement_size(stored, cell, compositions, epsilon)
    # It is not said to be much larger either, beside keys and brackets.
    if value == FLOATS[0]:
        monkeypatch.setattr(refinements, "MOST_DOCUMENT", size + 5000)
        check_refinement_size(stored, cell, compositions, epsilon)
