"""Giant cells over real workers, and the files that their arrays lie in."""

import os
import re
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from distributed import Client, LocalCluster

from pbdist.buckets import Layout, SerialMapper, projected_bytes
from pbdist.errors import BatchError, InvalidInputError
from pbdist.mechanisms import Gaussian, Laplace, Pair
from pbdist.run import SerialExecutor, giant, run_study
from pbdist.run.dask_executor import DaskExecutor
from pbdist.run.events import BatchFinished, StillComputing, _Computation
from pbdist.run.giant import ExecutorMapper, Scratch
from pbdist.run.task import ScratchError
from pbdist.store.place import place_at
from pbdist.study import load_study, plan_study
from pbdist.study.columns import Cell
from pbdist.study.spec import StudySpec
from pbdist.table import bounds_table
from tests.studies import results_of, write_study


def _study(
    buckets: int, pair: Pair, method: str = "buckets", *, largest: int = 3, keep_states: bool = False
) -> StudySpec:
    return StudySpec(
        name="giant",
        cells=(Cell("one", pair, None),),
        method=method,
        tolerance=None,
        buckets=buckets,
        compositions=tuple(range(1, largest + 1)),
        epsilon=(0.1, 0.5, 1.0),
        keep_states=keep_states,
    )


def _assert_as_in_memory(study: StudySpec, table) -> None:
    cell = study.cells[0]
    whole = bounds_table(
        [(cell.pair, 1)],
        compositions=study.compositions,
        epsilon=study.epsilon,
        method="buckets",
        buckets=study.buckets,
        keep_states=study.keep_states,
    )
    for name in ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper"):
        assert getattr(table, name).tobytes() == getattr(whole, name).tobytes()
    assert table.states.keys() == whole.states.keys()


@pytest.mark.slow
def test_a_cell_is_that_of_the_ordinary_way_and_leaves_nothing(tmp_path):
    study = _study(300_000, Laplace(2.0), keep_states=True)
    scratch = Scratch(place_at(tmp_path / "s.zarr"))
    scratch.write("left/behind", np.zeros(3))
    _assert_as_in_memory(study, giant.compute(study, study.cells[0], SerialMapper(), scratch, 1 << 30))
    assert not (tmp_path / ".s.zarr.scratch").exists()


def test_what_does_not_fit_is_refused_before_anything_runs(tmp_path):
    study = _study(1 << 25, Gaussian(3.0))
    assert giant.BASE_BYTES + projected_bytes(1 << 25, giant.layout_of(study, 1 << 30)) <= 0.8 * (1 << 30)
    assert giant.layout_of(study, 1 << 30) == Layout()
    scratch = Scratch(place_at(tmp_path / "s.zarr"))
    with pytest.raises(InvalidInputError, match=r"need \d+ MiB for each task, got \d+ MiB"):
        giant.compute(study, study.cells[0], SerialMapper(), scratch, 400 << 20)


def test_arrays_come_back_and_damage_is_found(tmp_path):
    scratch = Scratch(place_at(tmp_path / "s.zarr"))
    random = np.random.default_rng(0)
    arrays = [
        random.random(7),
        random.random((3, 5)) + 1j * random.random((3, 5)),
        np.asfortranarray(random.random((2, 9))),
        np.zeros(0),
        np.zeros((0, 4), dtype=complex),
    ]
    for number, array in enumerate(arrays):
        scratch.write(f"some/{number}", array)
        scratch.write(f"some/{number}", array)
        back = scratch.read(f"some/{number}")
        assert back.dtype == array.dtype
        assert back.shape == array.shape
        np.testing.assert_array_equal(back, array)
    assert sorted(path.name for path in (tmp_path / ".s.zarr.scratch" / "some").iterdir()) == [
        f"{n}.pbdist-block" for n in range(5)
    ]
    path = tmp_path / ".s.zarr.scratch" / "some" / "1.pbdist-block"
    content = path.read_bytes()
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 4]) + content[position + 1 :])
        with pytest.raises(OSError, match="some/1: expected an array of a giant cell, got a damaged file"):
            scratch.read("some/1")
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(OSError, match="damaged"):
            scratch.read("some/1")
    scratch.remove("some/0")
    scratch.remove("some/0")
    with pytest.raises(ScratchError, match="some/0"):
        scratch.read("some/0")
    scratch.clear()
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def _resident(field: str) -> int:
    found = re.search(field + r":\s*(\d+)", Path("/proc/self/status").read_text(encoding="ascii"))
    return 1024 * int(found[1]) if found else 0


def _half_way() -> None:
    raise ZeroDivisionError("half way")


@pytest.mark.ci
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_workers_that_die_change_nothing_and_stay_below_the_projected_memory(tmp_path):
    study = _study(1 << 18, Gaussian(20.0), largest=2)
    limit = 700 << 20
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, memory_limit=limit, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        DaskExecutor(scheduler=cluster.scheduler_address) as executor,
    ):
        mapper = ExecutorMapper(executor)
        assert mapper.parallel == 2
        with pytest.raises(BatchError, match="ZeroDivisionError: half way"):
            list(mapper.map(lambda _: _half_way(), [1, 2]))
        peaks = []
        killed = []
        stopped = threading.Event()

        def kill_now_and_then():
            # In the middle of the work, as the blocks tell that come and go.
            for wanted in (1, 8):
                while len(list((tmp_path / ".s.zarr.scratch").glob("**/*"))) < wanted:
                    if stopped.wait(0.02):
                        return
                # A worker that is just being started answers nothing.
                peaks.extend(client.run(_resident, "VmHWM", on_error="ignore").values())
                processes = client.run(os.getpid, on_error="ignore")
                for process in list(processes.values())[:1]:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

        killer = threading.Thread(target=kill_now_and_then)
        killer.start()
        try:
            table = giant.compute(study, study.cells[0], mapper, Scratch(place_at(tmp_path / "s.zarr")), limit)
        finally:
            stopped.set()
            killer.join()
        client.wait_for_workers(2, timeout=240)
        peaks.extend(client.run(_resident, "VmHWM").values())
    _assert_as_in_memory(study, table)
    assert killed
    assert max(peaks) <= giant.BASE_BYTES + projected_bytes(1 << 18, giant.layout_of(study, limit))
    assert not (tmp_path / ".s.zarr.scratch").exists()


class _Narrow(SerialExecutor):
    """A process that may not use what the cell takes."""

    worker_bytes = 500 << 20


@pytest.mark.slow(reason="the only run of a giant cell: two blocks are more than a million buckets")
def test_a_run_computes_giant_cells_in_blocks_and_stores_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(giant, "BASE_BYTES", 100 << 20)
    text = """\
format: 1
name: giant
mechanisms:
  - {kind: Laplace, scale: 2}
method: buckets
buckets: 1100000
compositions: [1, 2]
epsilon: [0.1, 0.5]
"""
    study = load_study(write_study(tmp_path, text))
    plan = plan_study(study)
    assert int(plan.cell_bytes.min()) > _Narrow.worker_bytes
    assert giant.layout_of(study, _Narrow.worker_bytes).block < study.buckets
    events, heard, hear = [], [], _Computation.hear
    monkeypatch.setattr(_Computation, "hear", lambda self, *step: heard.append(step) or hear(self, *step))
    run_study(study, tmp_path / "blocks.zarr", _Narrow(), events.append, told_every=0.05)
    run_study(study, tmp_path / "whole.zarr", SerialExecutor(), lambda _: None)
    assert results_of(tmp_path / "blocks.zarr") == results_of(tmp_path / "whole.zarr")
    assert sum(isinstance(event, BatchFinished) for event in events) == len(plan.batches)
    steps = [cell.step for event in events if isinstance(event, StillComputing) for cell in event.at_work]
    assert any(re.search(r"task \d+ of \d+$", step) for step in steps)
    assert ("r =", 2, 2) in heard
    assert sorted(path.name for path in tmp_path.iterdir()) == ["blocks.zarr", "study.yaml", "whole.zarr"]
