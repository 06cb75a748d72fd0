"""The routes of the explorer, over real sockets: what they answer, and what they refuse."""

import itertools
import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from pbdist import open_study
from tests.report.explorer.reading import unpacked
from tests.report.explorer.studies import answer, asked, serving
from tests.studies import files_of

BOUNDS = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")


@pytest.fixture(scope="module")
def port(store):
    with serving(store) as port:
        yield port


@pytest.mark.slow
def test_bounds_are_those_of_the_store(store, port):
    contents = asked(port, "/contents.json")
    token = contents["token"]
    bounds = open_study(store).bounds
    assert sorted(unpacked(contents["cells"])) == list(range(bounds.sizes["cell"]))
    assert unpacked(contents["epsilon"]).tolist() == bounds["epsilon"].values.tolist()
    assert unpacked(contents["exp_epsilon"]).tolist() == bounds["exp_epsilon"].values.tolist()
    plan = contents["labels"].index("unattained")
    unattained = unpacked(contents["cells"])[unpacked(contents["offsets"])[plan]]
    largest = bounds.max("direction")
    for cell in range(bounds.sizes["cell"]):
        found = asked(port, f"/cell.json?token={token}&cell={cell}")
        for name in BOUNDS:
            expected = largest[name].values[cell]
            if name.endswith("lower") and cell == unattained:
                expected = np.full_like(expected, np.nan)
            np.testing.assert_array_equal(unpacked(found["tables"][name]), expected.ravel())
        assert found["settings"][0]["gaps"] == ""
    cells = unpacked(contents["cells"])
    for group, (start, stop) in enumerate(itertools.pairwise(unpacked(contents["offsets"]).tolist())):
        found = asked(port, f"/group.json?token={token}&group={group}&compositions=2&epsilon=3&start=0")
        np.testing.assert_array_equal(
            unpacked(found["delta_upper"]), largest["delta_upper"].values[np.sort(cells[start:stop]), 2, 3]
        )


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE"])
def test_only_reading_is_answered(port, method):
    for path in ("/", "/contents.json"):
        assert answer(port, path, method)[0] in (403, 405)
    assert answer(port, "/../zarr.json")[0] == 404


WRONG = {
    "/cell.json?token=TOKEN": "cell",
    "/cell.json?token=TOKEN&cell=19": "cell",
    "/cell.json?token=TOKEN&cell=-1": "cell",
    "/cell.json?token=TOKEN&cell=0x1": "cell",
    "/group.json?token=TOKEN&group=0&compositions=0": "epsilon",
    "/group.json?token=TOKEN&group=0&compositions=3&epsilon=0": "compositions",
    "/group.json?token=TOKEN&group=7&compositions=0&epsilon=0": "group",
    "/group.json?token=TOKEN&group=0&compositions=0&epsilon=0&start=19": "start",
}


@pytest.mark.parametrize(("path", "field"), WRONG.items())
def test_wrong_arguments_are_refused_in_one_line(port, path, field):
    token = asked(port, "/contents.json")["token"]
    status, _, body = answer(port, path.replace("TOKEN", token))
    assert status == 400
    assert json.loads(body)["error"].startswith(f"{field}: expected ")


def test_another_token_is_told(port):
    status, _, body = answer(port, "/cell.json?token=x&cell=0")
    assert status == 409
    assert "load it again" in json.loads(body)["error"]


def test_a_store_that_changes_is_shown_anew(store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "s.zarr"))
    record = copy / "bounds/0.0.0.0.0"
    kept = record.read_bytes()
    record.unlink()
    with serving(copy) as port:
        first = asked(port, "/contents.json")
        assert any("not complete" in notice["text"] or "empty" in notice["text"] for notice in first["notices"])
        record.write_bytes(kept)
        path = f"/cell.json?token={first['token']}&cell=0"
        assert asked(port, path)
        second = asked(port, "/contents.json")
        assert second["token"] != first["token"]
        assert not any("complete" in notice["text"] for notice in second["notices"])
        status, _, body = answer(port, path)
        assert status == 409
        assert "load it again" in json.loads(body)["error"]
        assert asked(port, "/contents.json")["token"] == second["token"]


def test_serving_writes_nothing(store, tmp_path):
    copy = Path(shutil.copytree(store, tmp_path / "s.zarr"))
    before = files_of(tmp_path)
    with serving(copy) as port:
        token = asked(port, "/contents.json")["token"]
        for cell in range(3):
            asked(port, f"/cell.json?token={token}&cell={cell}")
        asked(port, f"/group.json?token={token}&group=0&compositions=0&epsilon=0&start=0")
    assert files_of(tmp_path) == before
