"""Targets off the grids of a study add their r and ε to it; those on the grids change nothing."""

import json
import math
import re
from pathlib import Path

import pytest

from pbdist.cli import main
from pbdist.query import noise_choices, open_study
from pbdist.run import SerialExecutor, run_study
from pbdist.study import StudySpec, load_study
from pbdist.study.spec import missing_parts, union_of
from tests.studies import TIGHT, compute_store, results_of, write_study

HEAD = "format: 1\nname: s\nmechanisms: [{kind: Laplace, scale: [2, 3]}]\ncompositions: [1, 4]\n"


def study(folder: Path, *targets: str, grid: str = "epsilon: [0, 0.5]") -> StudySpec:
    listed = "".join(f"  - {{{target}, delta: 0.1}}\n" for target in targets)
    return load_study(write_study(folder, f"{HEAD}{grid}\n" + (f"targets:\n{listed}" if targets else "")))


def test_targets_on_the_grid_change_nothing(tmp_path: Path) -> None:
    bare = study(tmp_path)
    # Half an ulp of the grid's value is the grid's value.
    for target in ("epsilon: 0.5, compositions: 4", "epsilon: 0.50000000000000006, compositions: 1"):
        found = study(tmp_path, target)
        assert (found.digest, found.target_compositions, found.target_epsilon) == (bare.digest, (), ())
        assert found.targets[0].epsilon == 0.5
    two = study(tmp_path, "exp_epsilon: 2, compositions: 1", grid="exp_epsilon: [1, 2]")
    assert (two.target_epsilon, two.targets[0].epsilon) == ((), math.log(2.0))


def test_targets_off_the_grid_are_added(tmp_path: Path) -> None:
    found = study(
        tmp_path,
        "epsilon: 0.3, compositions: 7",
        "exp_epsilon: 2, compositions: 7",
        "epsilon: 0.6931471805599453, compositions: 1",
        "epsilon: 0.5, compositions: 2",
    )
    assert found.compositions == (1, 2, 4, 7)
    assert found.epsilon == (0.0, 0.3, 0.5, math.log(2.0))
    assert found.target_compositions == (2, 7)
    assert found.target_epsilon == (0.3, math.log(2.0))
    assert [(one.epsilon, one.compositions) for one in found.targets] == [
        (0.3, 7),
        (math.log(2.0), 7),
        (math.log(2.0), 1),
        (0.5, 2),
    ]
    grid = HEAD.replace("[1, 4]", "[1, 2, 4, 7]") + "epsilon: [0, 0.3, 0.5, 0.6931471805599453]\n"
    assert found.digest == load_study(write_study(tmp_path, grid)).digest


def test_a_study_with_a_new_target_extends_the_one_without(tmp_path: Path) -> None:
    bare, more = study(tmp_path), study(tmp_path, "epsilon: 0.3, compositions: 7")
    parts = missing_parts([bare], more)
    points = {(r, epsilon) for part in parts for r in part.compositions for epsilon in part.epsilon}
    assert points == {(1, 0.3), (4, 0.3), (7, 0.0), (7, 0.3), (7, 0.5)}
    assert all(
        (part.targets, part.target_compositions, part.target_epsilon) == (more.targets, (), ()) for part in parts
    )
    assert union_of([bare, *parts]).digest == more.digest
    # Without the target the store has more than is asked for.
    assert missing_parts([bare, *parts], bare) == missing_parts([more], bare) == ()


@pytest.mark.slow
def test_a_run_computes_only_what_a_target_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = HEAD + "exp_epsilon: [1, 2]\nmethod: buckets\nbuckets: 100\ntargets:\n"
    store = compute_store(tmp_path, f"{study}  []\n")
    before = results_of(store)
    target = "  - {exp_epsilon: 1.75, delta: 0.2, compositions: 5}\n"
    path = write_study(tmp_path, study + target)
    assert main(["run", str(path), "--serial", "--store", str(store)]) == 0
    told = capsys.readouterr()
    assert "target: δ <= 0.2 at r = 5, ε = 0.559616, e^ε = 1.75\n" in told.out
    after = results_of(store)
    # The root and its copy tell that there are two parts now.
    changed = {name for name in before if after[name] != before[name]}
    assert changed == {"zarr.json"}
    assert len(after) > len(before)
    [choice] = noise_choices(open_study(store), compositions=5, exp_epsilon=1.75, delta=0.2)
    assert len(choice.tried) == 2
    assert all(0.0 < one.lower <= one.upper < 1.0 for one in choice.tried)
    # Nothing is left to compute, with the target or without it.
    for text in (study + target, f"{study}  []\n"):
        run_study(load_study(write_study(tmp_path, text)), store, SerialExecutor(), lambda _: None)
    assert results_of(store) == after


def test_the_plan_says_what_targets_add(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_study(tmp_path, TIGHT)
    assert main(["plan", str(path)]) == 0
    assert "targets off the grids" not in capsys.readouterr().out
    write_study(tmp_path, TIGHT + "  - {epsilon: 0.25, delta: 0.2, compositions: 5}\n")
    assert main(["plan", str(path)]) == 0
    assert re.search(r"points that targets off the grids add +│ +48 │", capsys.readouterr().out)
    assert main(["plan", str(path), "--json"]) == 0
    added = json.loads(capsys.readouterr().out)["added_by_targets"]
    assert added == {"compositions": [5], "epsilon": [0.25], "points": 48}
