"""Several processes at once: what they print, and that none is left behind."""

import time

import psutil
import pytest

from pbdist.report.figures.make import at_once

pytestmark = pytest.mark.slow


def test_each_process_is_told_of_with_what_it_printed():
    ended, seen = [], []
    at_once([("a", ["--version"]), ("b", ["no-such-command"])], 2, ended.append, seen.append)
    found = {one.name: one for one in ended}
    assert found["a"].code == 0
    assert found["a"].output.startswith("pbdist ")
    assert found["b"].code == 2
    assert "no-such-command" in found["b"].error
    assert ["a", "b"] in seen
    assert seen[-1] == []


def test_no_more_than_asked_for_are_at_work():
    seen = []
    at_once([(name, ["--version"]) for name in "abc"], 1, lambda _: None, seen.append)
    assert max(map(len, seen)) == 1


def test_an_interruption_ends_them(tmp_path):
    study = tmp_path / "long.yaml"
    study.write_text(
        "format: 1\nname: long\nmechanisms:\n  - {kind: Laplace, scale: {linspace: [10, 20, 2000]}}\n"
        "compositions: {powers_of_two: [0, 12]}\nepsilon: {linspace: [0.1, 1, 10]}\n",
        encoding="utf-8",
    )

    def interrupt(_):
        # Once it computes, Ctrl-C comes.
        while not (tmp_path / "long.zarr").exists():
            time.sleep(0.05)
        raise KeyboardInterrupt

    mine = psutil.Process()
    before = set(mine.children())
    command = ["run", str(study), "--serial", "--store", str(tmp_path / "long.zarr")]
    with pytest.raises(KeyboardInterrupt):
        at_once([("long", command)], 1, lambda _: None, interrupt)
    assert [one for one in set(mine.children()) - before if one.status() != psutil.STATUS_ZOMBIE] == []
