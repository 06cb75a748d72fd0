"""The explorer as one file: the same bytes for the same store, all bounds in it, and nothing that ends its scripts."""

import json
import re

import numpy as np
import pytest

from pbdist import open_study
from pbdist.errors import InvalidInputError
from pbdist.report.explorer import export
from pbdist.report.explorer.export import embedded_json, exported
from pbdist.report.explorer.snapshot import Snapshot
from tests.report.explorer.reading import unpacked
from tests.report.explorer.studies import HOSTILE


def data_in(page: str):
    return json.loads(re.search(r'<script id="embedded" type="application/json">(.*?)</script>', page, re.DOTALL)[1])


@pytest.mark.slow
def test_a_page_has_all_bounds_of_its_store(store):
    page = exported(Snapshot(str(store)))
    assert page == exported(Snapshot(str(store)))
    assert not re.search(r"https?://(?!www\.w3\.org)[^\s\"']+\.(js|css)\b", page.split("<body>")[0])
    data = data_in(page)
    cells = unpacked(data["contents"]["cells"])
    bounds = open_study(store).bounds.isel(cell=cells).max("direction")
    for name in ("delta_upper", "log_delta_upper"):
        np.testing.assert_array_equal(unpacked(data["tables"][name]), bounds[name].values.ravel())
    assert len(data["settings"]) == len(cells)


def test_no_text_ends_a_script(store):
    page = exported(Snapshot(str(store)))
    assert page.count("</script>") == 3
    assert "<img" not in page
    assert HOSTILE in data_in(page)["contents"]["labels"]
    assert embedded_json("</script>\u2028\u2029&<!--") == r'"\u003c/script\u003e\u2028\u2029\u0026\u003c!--"'


def test_a_choice_of_mechanisms_is_told(store):
    snapshot = Snapshot(str(store))
    contents = data_in(exported(snapshot, ["Gaussian", "counts"]))["contents"]
    assert contents["labels"] == ["Gaussian", "counts"]
    assert contents["left_out"].startswith(
        "This file leaves out the mechanisms sensitive, RandomizedResponse, unattained,"
    )
    with pytest.raises(InvalidInputError, match=r"--mechanism: expected one of Gaussian, sensitive, .*, got 'Laplace'"):
        exported(snapshot, ["Laplace"])


def test_a_file_that_would_be_too_large_is_refused_with_what_fits(store, monkeypatch):
    monkeypatch.setattr(export, "MAX_BYTES", 3_000)
    with pytest.raises(InvalidInputError, match=r"--export: expected at most 0 MiB of bounds.*--mechanism LABEL"):
        exported(Snapshot(str(store)))
