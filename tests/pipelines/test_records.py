"""Published noise of random allocation, asked anew: it meets the total variation, and 1e-6 less does not."""

import re
from pathlib import Path

import pytest

from pbdist import RandomAllocation, epsilon_bounds, privacy_bounds
from pbdist.study import load_study

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
#: Steps, epochs, and the smallest noise for a total variation of 0.1 (Ertan & van Dijk, Table 4).
PUBLISHED = [
    (100, 10, 1.426215),
    (100, 20, 1.907073),
    (100, 40, 2.610518),
    (250, 10, 1.024495),
    (250, 20, 1.309428),
    (250, 40, 1.732809),
    (500, 10, 0.834432),
    (500, 20, 1.025964),
    (500, 40, 1.310146),
]


@pytest.mark.parametrize(("steps", "epochs", "scale"), PUBLISHED)
def test_the_published_noise_is_the_smallest(steps: int, epochs: int, scale: float) -> None:
    for noise, meets in ((scale, True), (scale - 1e-6, False)):
        found = privacy_bounds(
            RandomAllocation(round(noise, 6), steps), compositions=epochs, epsilon=0.0, tolerance=5.8e-8
        )
        if meets:
            assert found.delta_upper.item() <= 0.1
        else:
            assert found.delta_lower.item() > 0.1


def test_the_study_asks_for_what_was_published() -> None:
    study = load_study(ROOT / "pipelines/records/random-allocation.yaml")
    pairs = {(cell.pair.steps, cell.pair.scale) for cell in study.cells if isinstance(cell.pair, RandomAllocation)}
    assert pairs == {(steps, round(scale - less, 6)) for steps, _, scale in PUBLISHED for less in (0.0, 1e-6)}


def test_the_page_says_what_is_computed() -> None:
    """A row of the page, as computed here."""
    page = (ROOT / "docs/records.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([0-9.]+) \|.*\[([0-9.]+), ([0-9.]+)\] \|$", page, flags=re.MULTILINE)
    assert [(int(steps), int(epochs), float(scale)) for steps, epochs, scale, *_ in rows] == PUBLISHED
    steps, epochs, scale, lower, upper = rows[0]
    found = epsilon_bounds(RandomAllocation(float(scale), int(steps)), compositions=int(epochs), delta=1e-5)
    assert float(lower) <= found.epsilon_upper.item()
    assert found.epsilon_lower.item() <= float(upper)
