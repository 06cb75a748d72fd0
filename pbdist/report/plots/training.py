"""ε over the epochs of a training run with DP-SGD."""

from typing import TYPE_CHECKING

import numpy as np

from pbdist.quantities import counted
from pbdist.report.plots import frame
from pbdist.results import relative_width
from pbdist.rounding import exact, rounded_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from pbdist.accounting import DpsgdEpsilon


def training(run: "DpsgdEpsilon", *, moments: int = 24, axes: "Axes | None" = None) -> "Axes":
    """Draw ε over the epochs of a run, a band between the lower and the upper bound for each δ.

    Parameters
    ----------
    run
        As `pbdist.accounting.dpsgd` returns it.
    moments
        About how many moments of the run are drawn, beside the end of each phase.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        ε in nats over epochs, of which each is examples / batch steps, rounded up.

    Raises
    ------
    MissingDependencyError
        matplotlib is not installed.
    """
    axes = frame.axes_for(axes)
    found = run.over_time(moments)
    plan = found.training
    # Before the first step nothing is spent.
    epochs = np.array([0.0, *(plan.epochs or ())])
    widths: list[float] = []
    for index, delta in enumerate(plan.delta):
        low, high = (np.array([0.0, *side[:, index]]) for side in (found.epsilon.lower, found.epsilon.upper))
        high[np.isinf(high)] = np.nan
        style = {**frame.style_of(axes), "markersize": 2.5, "linewidth": 0.7}
        axes.fill_between(epochs, low, high, color=style["color"], alpha=0.3, linewidth=0.0)
        axes.plot(epochs, high, label=f"δ = {exact(delta)}", **style)
        widths += relative_width(low, high)[np.isfinite(high)].tolist()
    ends = np.cumsum([phase.epochs or 0.0 for phase in plan.phases])[:-1]
    for end in ends:
        axes.axvline(end, color="0.5", linestyle=":", linewidth=1.0)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    width = f"; upper / lower - 1 is at most {rounded_up(max(widths), 2)} at the points drawn" if widths else ""
    missing = int(np.isinf(found.epsilon.upper).sum())
    notes = [
        f"band: between the lower and the upper bound{width}",
        f"no upper bound was found at {counted(missing, 'point')}" if missing else "",
        "dotted lines: a phase ends" if len(ends) else "",
        "Poisson sampling; neighbours: one record added or removed",
        frame.GUIDE,
    ]
    phases = [
        f"noise multiplier {exact(phase.noise_multiplier or 0.0)},"
        f" batch {exact(float(phase.sample_rate * plan.examples))}"
        for phase in plan.phases
    ]
    deltas = f"δ = {exact(plan.delta[0])}" if len(plan.delta) == 1 else ""
    title = f"DP-SGD on {counted(plan.examples, 'record')}", deltas, ", then ".join(phases)
    frame.finish(axes, *title, x="epochs", y="ε, in nats", notes=notes)
    return axes
