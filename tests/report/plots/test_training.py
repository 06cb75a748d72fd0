"""ε over the epochs of a training run: what is drawn are the bounds of the run."""

import numpy as np

from pbdist.accounting import dpsgd
from pbdist.report.plots import training


def test_the_band_is_that_of_the_bounds_at_each_moment() -> None:
    phases = [{"epochs": 2, "noise_multiplier": 3.0}, {"epochs": 1, "batch": 200, "noise_multiplier": 2.0}]
    run = dpsgd(examples=1000, batch=100, phases=phases, delta=[1e-4, 1e-6])
    axes = training(run, moments=5)
    curve = run.over_time(5)
    assert curve.training.epochs is not None
    for index, line in enumerate(axes.get_lines()[:2]):
        assert np.asarray(line.get_xdata()).tolist() == [0.0, *curve.training.epochs]
        assert np.asarray(line.get_ydata()).tolist() == [0.0, *curve.epsilon.upper[:, index]]
        band = axes.collections[index].get_paths()[0].vertices
        assert set(curve.epsilon.lower[:, index]) <= set(np.asarray(band)[:, 1])
    assert axes.get_xlim()[1] >= 3.0
    title = axes.get_title(loc="left").replace("\n", " ")
    assert "noise multiplier 3, batch 100, then noise multiplier 2, batch 200" in title
    told = " ".join(text.get_text().replace("\n", " ") for text in axes.texts)
    for words in ("between the lower and the upper bound", "a phase ends", "Poisson sampling", "added or removed"):
        assert words in told
