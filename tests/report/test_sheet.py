"""Files of sheets: the same bytes again, ids that never collide, and one line where matplotlib is missing."""

import re
import sys
from xml.etree import ElementTree

import pytest

import pbdist
from pbdist.errors import MissingDependencyError
from pbdist.report.plots import epsilon_delta, svg_of
from pbdist.report.sheet import FORMATS, saved

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def bounds():
    return pbdist.privacy_bounds(pbdist.Gaussian(4.0), compositions=[1, 4], epsilon=[0.0, 0.5, 1.0])


@pytest.mark.parametrize("kind", FORMATS)
def test_the_same_plot_has_the_same_bytes(bounds, kind):
    first, second = (saved(epsilon_delta(bounds).figure, kind) for _ in range(2))
    assert first == second
    assert first.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[kind])


def ids(text):
    return re.findall(r'\bid="([^"]+)"', text)


def test_an_svg_stands_alone_and_beside_others(bounds):
    texts = [svg_of(epsilon_delta(bounds)), svg_of(epsilon_delta(bounds.isel(compositions=[0])).figure)]
    assert texts[0] == svg_of(epsilon_delta(bounds))
    for text in texts:
        assert text.startswith("<svg ")
        assert text.endswith("</svg>")
        root = ElementTree.fromstring(text)  # noqa: S314 -- written here
        assert root.get("role") == "img"
        assert root.get("aria-label")
        used = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
        assert used
        assert used <= set(ids(text))
        # Nothing but names of vocabularies points outside.
        assert set(re.findall(r'(?:href|src)="([^#"][^"]*)"', text)) == set()
    every = [one for text in texts for one in ids(text)]
    assert len(every) == len(set(every))


def test_without_matplotlib_one_line_names_the_extra(bounds, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'pbdist\[figures\]'"):
        epsilon_delta(bounds)
