"""The command line: in this process where nothing but its answer counts, else as a user meets it."""

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from pbdist.cli import main
from pbdist.mechanisms import Laplace
from pbdist.mechanisms.pair import Pair
from pbdist.query import noise_choices, open_study
from pbdist.run import task
from pbdist.store.layout import bounds_file
from pbdist.study.starter import shipped_study
from pbdist.table import BoundsTable
from tests.batches import damage_batch, remove_batch
from tests.run.held import held
from tests.studies import TIGHT, TINY, files_of, results_of, write_study

pytestmark = pytest.mark.slow

Called: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Called:
    """Calls the command line in this process, in a folder."""

    def call(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
        with monkeypatch.context() as patched:
            patched.chdir(cwd)
            code = main([str(argument) for argument in arguments])
        return subprocess.CompletedProcess(arguments, code, *capsys.readouterr())

    return call


#: Programs, and what they do not import: each command imports late, and no worker needs xarray.
IMPORTS = {
    "help": ("main(['--help'])", ("numpy", "scipy", "xarray", "zarr", "dask", "yaml", "rich")),
    "studies": ("main(['studies'])", ("xarray", "pandas", "zarr", "dask")),
    "query": (
        "main(['query', 'data/tiny.zarr', '--mechanism', 'clipped', '--compositions', '4', '--epsilon', '0'])",
        ("xarray", "pandas", "dask", "distributed", "flint"),
    ),
    "run": (
        "main(['run', 'study.yaml', '--serial', '--store', 'new.zarr'])\n"
        "import pbdist.run.dask_executor, pbdist.run.giant, pbdist.run.clients",
        ("xarray", "pandas"),
    ),
}


@pytest.fixture(scope="module")
def folder(tiny_store: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a study and its finished store."""
    folder = tmp_path_factory.mktemp("cli")
    shutil.copytree(tiny_store, folder / "data/tiny.zarr")
    write_study(folder)
    return folder


@pytest.mark.parametrize("name", IMPORTS)
def test_what_is_not_needed_is_not_imported(folder: Path, name: str) -> None:
    program, absent = IMPORTS[name]
    code = f"import sys\nfrom pbdist.cli import main\n{program}\nassert not {set(absent)} & set(sys.modules)\n"
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder)
    assert (done.returncode, done.stdout != "") == (0, True), done.stderr


def test_plan_tells_before_anything_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", str(write_study(tmp_path))]) == 0
    out = capsys.readouterr().out
    for words in ("tiny", "cells", "batches", "peak memory of a worker", "size of the store", "time"):
        assert words in out
    assert files_of(tmp_path).keys() == {"study.yaml"}


def test_run_ends_with_the_targets(folder: Path, called: Called) -> None:
    done = called("run", "study.yaml", "--serial", cwd=folder)
    assert done.returncode == 0
    assert "6 of 6 cells are in the store" in done.stderr
    assert "target: δ <= 0.2 at r = 4, ε = 0.693147, e^ε = 2\n" in done.stdout
    assert "\n│ RandomizedResponse " in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_query_prints_the_larger_direction_or_each(folder: Path, called: Called) -> None:
    point = ["data/tiny.zarr", "--mechanism", "Laplace", "--scale", "3", "--compositions", "4", "--exp-epsilon", "2"]
    done = called("query", *point, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert [head.strip() for head in done.stdout.splitlines()[3].split("┃")[1:4]] == ["scale", "r", "e^ε"]
    (both,) = json.loads(called("query", *point, "--json", cwd=folder).stdout)["answers"]
    assert both["compositions"] == 4
    each = json.loads(called("query", *point, "--direction", "each", "--json", cwd=folder).stdout)["answers"]
    assert [row["direction"] for row in each] == ["A||B", "B||A"]
    assert 0 < each[0]["delta_lower"] <= both["delta_upper"] < 1
    assert both["delta_upper"] == max(row["delta_upper"] for row in each)


def test_a_single_query_answers_the_epsilon_asked_for(folder: Path, called: Called) -> None:
    study = open_study(folder / "data/tiny.zarr")
    point = ["data/tiny.zarr", "--mechanism", "Laplace", "--compositions", "4", "--json"]
    # At a stored ε and one ulp off it, between points, at another setting: what `Study.delta` says there.
    near = math.nextafter(math.log(2.0), 0.0)
    cases: list[tuple[float, list[str], dict[str, Any]]] = [
        (3.0, ["--exp-epsilon", "2"], {"exp_epsilon": 2.0}),
        (3.0, ["--epsilon", repr(near)], {"epsilon": near}),
        (3.0, ["--epsilon", "0.3", "--direction", "both"], {"epsilon": 0.3}),
        (4.0, ["--exp-epsilon", "1.7"], {"exp_epsilon": 1.7}),
        (3.0, ["--exp-epsilon", repr(2.0 + 2**-51)], {"exp_epsilon": 2.0 + 2**-51}),
    ]
    for scale, options, given in cases:
        (answer,) = json.loads(called("query", *point, "--scale", str(scale), *options, cwd=folder).stdout)["answers"]
        name, value = next(iter(given.items()))
        assert answer[name] == value
        found = study.delta("Laplace", scale=scale, compositions=4, **given)
        assert (answer["delta_lower"], answer["delta_upper"]) == (found.lower, found.upper)
        assert answer["setting"] == f"Laplace(scale={scale:g}, sensitivity=1)"


def test_all_three_numbers_are_a_target(folder: Path, called: Called) -> None:
    target = ["data/tiny.zarr", "--compositions", "4", "--exp-epsilon", "2", "--delta", "0.2"]
    done = called("query", *target, cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("target: δ <= 0.2 at r = 4, ε = 0.693147, e^ε = 2\n")
    rows = json.loads(called("query", *target, "--mechanism", "Laplace", "--json", cwd=folder).stdout)["answers"]
    choices = noise_choices(open_study(folder / "data/tiny.zarr"), compositions=4, exp_epsilon=2, delta=0.2)
    (choice,) = (one for one in choices if one.label == "Laplace")
    assert choice.smallest is not None
    assert (rows[0]["least_that_meets"], rows[0]["delta_upper"]) == (choice.smallest.amount, choice.smallest.upper)
    assert sum(rows[0][name] for name in ("meets", "refuted", "undecided", "not_computed")) == 3
    wrong = called("query", *target, "--scale", "3", cwd=folder)
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_query_answers_between_the_points_and_the_other_way_round(folder: Path, called: Called) -> None:
    point = ["data/tiny.zarr", "--mechanism", "Laplace", "--json"]
    asked = [*point, "--scale", "3", "4", "--compositions", "3", "7", "--epsilon", "0.1", "0.5"]
    answers = json.loads(called("query", *asked, cwd=folder).stdout)["answers"]
    assert len(answers) == 8
    assert (answers[0]["scale"], answers[0]["compositions"], answers[0]["epsilon"]) == (3.0, 3, 0.1)
    assert all(0 <= answer["delta_lower"] < answer["delta_upper"] <= 1 for answer in answers)
    both = json.loads(called("query", *asked, "--direction", "each", cwd=folder).stdout)["answers"][0]
    assert both["direction"] == "A||B"
    assert both["delta_upper"] == answers[0]["delta_upper"]
    one = [*point, "--scale", "3", "--delta", "0.1"]
    (epsilon,) = json.loads(called("query", *one, "--compositions", "4", cwd=folder).stdout)["answers"]
    assert 0 < epsilon["epsilon_lower"] < epsilon["epsilon_upper"]
    (rounds,) = json.loads(called("query", *one, "--exp-epsilon", "1.5", cwd=folder).stdout)["answers"]
    assert 1 <= rounds["compositions_lower"] <= (rounds["compositions_upper"] or 7)
    table = called("query", *point[:3], "--scale", "3", "--compositions", "3", "--delta", "0.1", "0.3", cwd=folder)
    assert table.returncode == 0, table.stderr
    assert "ε upper" in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 100


def test_a_tight_run_ends_with_the_precision_that_was_reached(tmp_path: Path, called: Called) -> None:
    write_study(tmp_path, TIGHT)
    done = called("run", "study.yaml", "--serial", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Where δ is 0, as at the largest loss, no better is to be had.
    told, where = done.stdout.splitlines()[-2:]
    assert re.fullmatch(r"upper / lower - 1 <= 0\.01 at all [67][0-9] points \(noise setting, r, ε\) judged", told)
    assert where == "store: data/tight.zarr"
    assert "tight, tolerance 0.01" in called("plan", "study.yaml", cwd=tmp_path).stdout
    write_study(tmp_path, TIGHT.replace("p: [0.6, 0.7]", "p: 0.7"))
    again = called("run", "study.yaml", "--serial", "--strict", "--store", "other.zarr", cwd=tmp_path)
    assert again.returncode == 0, again.stderr
    verified = called("verify", "other.zarr", "--sample", "5", cwd=tmp_path)
    assert verified.returncode == 0, verified.stderr
    assert "5 of 120 stored points recomputed (seed 0), on grids of at most 100,000 bins:" in verified.stdout


#: At an ε of 1e-13 float64 does not tell δ of so much noise; at 1 δ is below the floor.
MISSED = """\
format: 1
name: missed
mechanisms:
  - {kind: Laplace, scale: 1.0e+12}
  - {kind: Gaussian, scale: 10}
compositions: [1]
epsilon: [1e-13, 0.1, 2]
"""


def test_a_run_that_misses_the_tolerance_says_so(tmp_path: Path, called: Called) -> None:
    write_study(tmp_path, MISSED)
    done = called("run", "study.yaml", "--serial", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    line = done.stdout.splitlines()[-2]
    assert line.startswith("upper / lower - 1 > 0.001 at 1 of 3 points (noise setting, r, ε) judged, at worst 0."), line
    assert "Laplace(scale=1e+12, sensitivity=1), r = 1, ε = 1e-13, δ from 4." in line
    # The bounds are stored all the same, and the same is said of them again.
    strict = called("run", "study.yaml", "--serial", "--strict", "--store", "strict.zarr", cwd=tmp_path)
    assert (strict.returncode, strict.stdout.splitlines()[-2]) == (3, line)
    assert called("run", "study.yaml", "--serial", "--strict", "--store", "strict.zarr", cwd=tmp_path).returncode == 3
    status = called("status", "strict.zarr", "--check", cwd=tmp_path)
    assert status.returncode == 0, status.stderr
    assert f"tolerance: {line}" in status.stdout.splitlines()
    found = json.loads(called("status", "strict.zarr", "--json", cwd=tmp_path).stdout)["precision"]
    assert (found["tolerance"], found["asked"], found["missed"], found["unreadable_cells"]) == (0.001, 3, 1, 0)
    worst = found["widest"]
    assert (worst["setting"], worst["epsilon"]) == ("Laplace(scale=1e+12, sensitivity=1)", 1e-13)
    assert worst["ratio"] == pytest.approx(worst["delta_upper"] / worst["delta_lower"] - 1.0, rel=1e-9)
    # Bounds that cannot be read are no reason to tell nothing.
    damage_batch(tmp_path / "strict.zarr", 0)
    status = called("status", "strict.zarr", cwd=tmp_path)
    assert status.returncode == 0, status.stderr
    assert "tolerance: not known of 1 cell, whose bounds cannot be read" in status.stdout.splitlines()
    asked = "upper / lower - 1 > 0.001 at 1 of 3 points (noise setting, r, ε) judged"
    assert f"tolerance: {asked}" in status.stdout.splitlines()
    # A run that has nothing to do says which files have changed, and what repairs them.
    again = called("run", "study.yaml", "--serial", "--store", "strict.zarr", cwd=tmp_path)
    assert again.returncode == 1
    assert "results of batch 0 are damaged" in again.stderr
    assert "pbdist run STUDY --check repairs" in again.stderr
    repaired = called("run", "study.yaml", "--serial", "--store", "strict.zarr", "--check", cwd=tmp_path)
    assert repaired.returncode == 0
    assert repaired.stdout.splitlines()[-2] == line


def test_strict_is_refused_where_no_tolerance_is_aimed_at(tmp_path: Path, folder: Path, called: Called) -> None:
    write_study(tmp_path, TINY)
    done = called("run", "study.yaml", "--serial", "--strict", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "pbdist: error: --strict: expected a study with a tolerance, got one without\n",
    )
    assert not (tmp_path / "data").exists()
    done = called("run", "study.yaml", "--serial", cwd=folder)
    assert "store: data/tiny.zarr" in done.stdout
    assert "upper / lower" not in done.stdout
    assert json.loads(called("status", "data/tiny.zarr", "--json", cwd=folder).stdout)["precision"] is None
    assert "tolerance" not in called("status", "data/tiny.zarr", cwd=folder).stdout


CLIPPED = ("data/tiny.zarr", "--mechanism", "clipped", "--compositions")


def test_the_log_has_the_run_and_the_store_nothing_of_it(folder: Path, tmp_path: Path, called: Called) -> None:
    log, store = tmp_path / "run.jsonl", tmp_path / "logged.zarr"
    for _ in range(2):
        done = called("run", folder / "study.yaml", "--serial", "--store", store, "--log", log, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    batches = [line for line in lines if line["event"] == "batch_finished"]
    # The second run finds nothing left to compute.
    assert [line["event"] for line in lines if line not in batches] == ["run_started", "run_finished", "run_finished"]
    assert lines[0]["store"] == str(store)
    assert "Laplace(scale=2, sensitivity=1)" in {setting for line in batches for setting in line["settings"]}
    assert sum(line["stop"] - line["first"] for line in batches) == 6
    assert results_of(store) == results_of(folder / "data/tiny.zarr")


@pytest.mark.parametrize(
    "number",
    [signal.SIGHUP, *(pytest.param(one, marks=pytest.mark.nightly) for one in (signal.SIGTERM, signal.SIGINT))],
)
def test_a_run_that_is_ended_stops_in_good_order_and_goes_on_later(
    folder: Path, tmp_path: Path, called: Called, number: signal.Signals
) -> None:
    log, store = tmp_path / "run.jsonl", tmp_path / "s.zarr"
    # It waits after two commits, so that the signal comes in the middle of the run.
    options = (folder / "study.yaml", "--serial", "--store", store, "--log", log)
    arguments, environment = held(tmp_path / "gate", 2, *options)
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment) as driver:
        deadline = time.monotonic() + 240
        while not log.exists() or log.read_text().count("batch_finished") < 2:
            assert driver.poll() is None, driver.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        driver.send_signal(number)
        _, told = driver.communicate(timeout=240)
    assert driver.returncode == 130, told
    assert told.endswith("pbdist: interrupted: the same command goes on where this one stopped\n")
    last = json.loads(log.read_text().splitlines()[-1])
    assert (last["event"], last["cause"]) == ("run_stopped", "KeyboardInterrupt")
    assert called("run", *options, cwd=tmp_path).returncode == 0
    started = [json.loads(line) for line in log.read_text().splitlines() if "run_started" in line]
    assert [line["cells_before"] for line in started] == [0, 2]
    assert results_of(store) == results_of(folder / "data/tiny.zarr")


def test_another_study_is_refused_and_the_store_stays(folder: Path, tmp_path: Path, called: Called) -> None:
    other = write_study(tmp_path, TINY.replace("buckets: 400", "buckets: 402"))
    before = files_of(folder)
    done = called("run", other, "--serial", "--store", folder / "data/tiny.zarr", cwd=tmp_path)
    assert done.returncode == 2
    assert "buckets: expected 400 as in the store, got 402" in done.stderr
    assert files_of(folder) == before


def test_failed_batches_are_exit_code_1(tiny_store: Path, tmp_path: Path, called: Called) -> None:
    write_study(tmp_path)
    shutil.copytree(tiny_store, tmp_path / "data/tiny.zarr")
    store = tmp_path / "data/tiny.zarr"
    remove_batch(store, 0)
    # An empty folder would be replaced.
    (store / bounds_file(0) / "in the way").mkdir(parents=True)
    done = called("run", "study.yaml", "--serial", cwd=tmp_path)
    assert done.returncode == 1
    assert "pbdist: error: the store cannot be written: IsADirectoryError" in done.stderr
    assert "failed:" not in done.stderr
    assert "Traceback" not in done.stderr
    # A status, as in the middle of a run, counts the cells that are not there yet, and lists no batch.
    status = called("status", "data/tiny.zarr", cwd=tmp_path)
    assert status.returncode == 1
    assert "cells: 5 of 6 committed, 1 missing, 0 failed\n" in status.stdout
    assert "missing:" not in status.stdout


def test_a_cell_that_fails_is_told_by_exit_code_log_and_status(
    tmp_path: Path, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_study(tmp_path)
    run = ("run", "study.yaml", "--serial", "--log", "run.jsonl")
    computed = task.bounds_table

    def fails(pairs: Sequence[tuple[Pair, int]], **options: Any) -> BoundsTable:
        if pairs[0][0] == Laplace(scale=3.0):
            raise ArithmeticError("not this one")
        return computed(pairs, **options)

    with monkeypatch.context() as patched:
        patched.setattr(task, "bounds_table", fails)
        done = called(*run, cwd=tmp_path)
    assert done.returncode == 1
    assert "failed: Laplace(scale=3, sensitivity=1): ArithmeticError: not this one\n" in done.stderr
    assert "5 of 6 cells are in the store, 1 failed" in done.stderr
    assert "pbdist: error: 1 of 6 cells could not be computed: Laplace(scale=3, sensitivity=1):" in done.stderr
    lines = [json.loads(line) for line in (tmp_path / "run.jsonl").read_text().splitlines()]
    (failed,) = (line for line in lines if line["event"] == "cell_failed")
    assert failed["setting"] == "Laplace(scale=3, sensitivity=1)"
    assert 'raise ArithmeticError("not this one")' in failed["traceback"]
    assert lines[-1]["event"] == "run_finished"
    status = called("status", "data/tiny.zarr", "--check", cwd=tmp_path)
    assert status.returncode == 1
    assert "failed: Laplace(scale=3, sensitivity=1): ArithmeticError: not this one\n" in status.stdout
    assert called(*run, cwd=tmp_path).returncode == 0
    assert called("status", "data/tiny.zarr", "--check", cwd=tmp_path).returncode == 0


@pytest.mark.parametrize("output", ["full", "ascii", "gone"])
def test_output_that_cannot_be_written(folder: Path, tmp_path: Path, output: str) -> None:
    """A full disk, a terminal without Greek letters, a reader that has gone: as a process, up to its end."""
    command = [sys.executable, "-W", "error", "-m", "pbdist", "query", *CLIPPED, "4", "--epsilon", "0"]
    reader, writer = os.pipe()
    os.close(reader)
    with (
        os.fdopen(writer, "w") as gone,
        Path("/dev/full").open("w") as full,
        (tmp_path / "out").open("w") as text,
    ):
        done = subprocess.run(
            [*command, "--json"] if output == "gone" else command,
            stdout={"full": full, "ascii": text, "gone": gone}[output],
            stderr=-1,
            text=True,
            check=False,
            cwd=folder,
            env={**os.environ, "PYTHONIOENCODING": "ascii"},
        )
    assert done.returncode == (2 if output == "full" else 0)
    assert re.fullmatch("pbdist: error: .*\n" if output == "full" else "", done.stderr)
    assert ("delta upper" in (tmp_path / "out").read_text(encoding="ascii")) == (output == "ascii")


@pytest.mark.ci
def test_the_quickstart_on_dask(tmp_path: Path) -> None:
    """As the first lines of its file say."""
    pbdist = [sys.executable, "-W", "error", "-m", "pbdist"]
    run = [*pbdist, "run", "quickstart", "--workers", "2"]
    done = subprocess.run(run, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "store: data/quickstart.zarr" in done.stdout
    assert "dashboard at http://" in done.stderr
    lines = shipped_study("quickstart").read_text(encoding="utf-8").splitlines()
    (question,) = [line.split()[2:] for line in lines if line.startswith("#   pbdist query")]
    query = [*pbdist, *question, "--json"]
    answer = json.loads(subprocess.run(query, capture_output=True, text=True, check=True, cwd=tmp_path).stdout)
    low, high = (answer["answers"][0][name] for name in ("delta_lower", "delta_upper"))
    assert 0.012 < low <= high < 0.0125


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_without_greek_letters_their_names_are_printed(encoding: str) -> None:
    ask = ["delta", "--family", "Laplace", "--scale", "20", "--compositions", "16", "--epsilon", "0.5"]
    done = subprocess.run(
        [sys.executable, "-m", "pbdist", *ask],
        capture_output=True,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )
    out = done.stdout.decode(encoding)
    assert (done.returncode, "?" in out) == (0, False)
    assert "The mechanism is (epsilon, delta)-private with the upper delta." in out
    # The columns are as wide as the words.
    head, row = [line for line in out.splitlines() if line.startswith("|")]
    assert [place for place, letter in enumerate(head) if letter == "|"] == [
        place for place, letter in enumerate(row) if letter == "|"
    ]
    assert "delta lower" in head


@pytest.mark.parametrize("name", ["", "plot", "delta", "size", "query", "dpsgd"])
def test_help_without_greek_letters(name: str) -> None:
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    for environment in ({"PYTHONIOENCODING": "ascii"}, plain):
        done = subprocess.run(
            [sys.executable, "-m", "pbdist", *filter(None, [name]), "--help"],
            capture_output=True,
            check=True,
            env={**{one: value for one, value in os.environ.items() if one != "PYTHONIOENCODING"}, **environment},
        )
        text = done.stdout.decode("ascii")
        assert "\\" not in text
        if name == "plot":
            assert "the ratio of their delta, or the noise that each needs for the same delta" in text


def test_too_little_address_space(tmp_path: Path) -> None:
    command = f"ulimit -v 307200; exec {sys.executable} -m pbdist run {write_study(tmp_path)} --serial"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (
        2,
        "pbdist: error: memory: this process may use 300 MiB of address space, and a run needs 1024 MiB: raise the"
        " limit (ulimit -v unlimited)\n",
    )
    assert {path.name for path in tmp_path.iterdir()} == {"study.yaml"}
