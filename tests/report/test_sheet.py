"""Files of sheets: the same bytes again, and one line where matplotlib is missing."""

import sys

import pytest

import pbdist
from pbdist.errors import MissingDependencyError
from pbdist.report.plots import epsilon_delta
from pbdist.report.sheet import saved

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bounds():
    return pbdist.privacy_bounds(pbdist.Gaussian(4.0), compositions=[1, 4], epsilon=[0.0, 0.5, 1.0])


@pytest.mark.parametrize("kind", ["svg", "png", "pdf"])
def test_the_same_plot_has_the_same_bytes(bounds, kind):
    first, second = (saved(epsilon_delta(bounds).figure, kind) for _ in range(2))
    assert first == second
    assert first.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind])


def test_without_matplotlib_one_line_names_the_extra(bounds, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[figures\]'"):
        epsilon_delta(bounds)
