"""ε over the epochs or steps of a training run with DP-SGD."""

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
    """Draw ε over the epochs of a run, or over its steps where these were given: a band between the bounds for each δ.

    An epoch is examples / batch steps, rounded up.

    Parameters
    ----------
    run
        As `pbdist.accounting.dpsgd` returns it.
    moments
        About how many moments of the run are drawn, beside the end of each phase.
    axes
        As for `epsilon_delta`, and so is what is returned.
    """
    axes = frame.axes_for(axes)
    found = run.over_time(moments)
    plan = found.training
    unit = "steps" if run.training.epochs is None else "epochs"
    # Before the first step nothing is spent.
    moments_drawn = np.array([0.0, *getattr(plan, unit)])
    widths: list[float] = []
    for index, delta in enumerate(plan.delta):
        low, high = (np.array([0.0, *side[:, index]]) for side in (found.epsilon.lower, found.epsilon.upper))
        high[np.isinf(high)] = np.nan
        style = {**frame.style_of(axes), "markersize": 2.5, "linewidth": 0.7}
        axes.fill_between(moments_drawn, low, high, color=style["color"], alpha=0.3, linewidth=0.0)
        last = found.epsilon.upper[-1, index]
        end = "no upper bound" if np.isinf(last) else f"ε at most {rounded_up(last, 4)}"
        axes.plot(moments_drawn, high, label=f"δ = {exact(delta)}, {end} after all {unit}", **style)
        widths += relative_width(low, high)[np.isfinite(high)].tolist()
    ends = np.cumsum([getattr(phase, unit) for phase in plan.phases])[:-1]
    for end in ends:
        axes.axvline(end, color="0.5", linestyle=":", linewidth=1.0)
    frame.wide_axis(axes, moments_drawn)
    axes.set_xlim(left=0.0)
    axes.set_ylim(bottom=0.0)
    width = f"; upper / lower - 1 is at most {rounded_up(max(widths), 2)} at the points drawn" if widths else ""
    missing = int(np.isinf(found.epsilon.upper).sum())
    notes = [
        f"band: between the lower and the upper bound{width}",
        f"no upper bound was found at {counted(missing, 'point')}" if missing else "",
        "dotted lines: a phase ends" if len(ends) else "",
        "the larger one of both directions is drawn" if run.epsilon.lower.ndim > 2 else "",
        "Poisson sampling; neighbours: one record added or removed",
        frame.GUIDE,
    ]
    batches = [f"batch {exact(float(phase.sample_rate * plan.examples))}" for phase in plan.phases]
    # A line does not break within a name.
    phases = [f"noise\u00a0multiplier {exact(phase.noise_multiplier or 0.0)}" for phase in plan.phases]
    several = len({*batches}) > 1
    phases = list(map(", ".join, zip(phases, batches, strict=True))) if several else phases
    phases[3:] = [f"{len(phases) - 3:,} more"] if len(phases) > 3 else []
    title = f"DP-SGD on {counted(plan.examples, 'record')}", "" if several else batches[0], ", then ".join(phases)
    frame.finish(axes, *title, x=unit, y="ε, in nats", notes=notes, legend=True)
    return axes
