"""The privacy loss distribution of a saved state, with its masses at both infinities."""

import math
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pbdist.buckets.state import BucketState
from pbdist.errors import OffGridError
from pbdist.pld import PairState
from pbdist.query import Study
from pbdist.report.plots import frame
from pbdist.report.plots.frame import LOWEST
from pbdist.report.plots.selection import StoredSetting, chosen, opened
from pbdist.report.sheet import COLOURS
from pbdist.rounding import rounded_down, rounded_up
from pbdist.store import read_state
from pbdist.types import COMPOSITIONS, Direction, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bars of a distribution at most, and the distance of the infinite losses from the others, as a part of their range.
_BARS, _BESIDE = 160, 0.09


@dataclass(frozen=True)
class Corner:
    """The mass of one input at an infinite loss: an upper bound, and a lower one that may be 0."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Upper bounds on the masses of A and B along the losses, in nats and in any order."""

    losses: FloatArray
    a: FloatArray
    b: FloatArray
    #: Bars are whole multiples of it, nats.
    spacing: float
    #: Of A, at +∞: outcomes that are impossible under B.
    above: Corner
    #: Of B, at -∞: outcomes that are impossible under A.
    below: Corner


def losses(
    study: Study,
    *,
    mechanism: str | None = None,
    compositions: int | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: object,
) -> "Axes":
    """Draw the privacy loss distribution of a saved state, under A and under B, with the masses at +∞ and -∞.

    Masses are those of the pair in the state, which dominates the mechanism: they are rounded up, and add up to a
    little more than 1. Outcomes that only A has are at +∞, those that only B has at -∞.

    Parameters
    ----------
    study
        ``pbdist.open_study(..)`` of a study with ``keep_states: true``.
    mechanism, **noise
        One setting: a label, and as many parameters as tell it from the others.
    compositions
        A stored r; by default the largest one.
    lowest
        A mass below which the axis does not reach.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis holds log10 of masses.

    Raises
    ------
    OffGridError
        There is no such state.
    InvalidInputError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    setting = chosen(opened(study), mechanism=mechanism, noise=noise, most=1)[0]
    r = max(study.spec.compositions) if compositions is None else compositions
    state, opposite = (_state(study, setting, r, direction) for direction in Direction)
    if state is None:
        raise OffGridError(
            f"{study.where}: expected a saved state of {study.spec.cells[setting.cell].describe()}, r = {r}, got none:"
            " a study saves states with keep_states: true"
        )
    title, _ = frame.labelled([{**setting.columns, COMPOSITIONS: r}])
    return _draw(frame.axes_for(axes), masses_of(state, opposite), title, lowest)


def _state(study: Study, setting: StoredSetting, r: int, direction: Direction) -> PairState | BucketState | None:
    for stored, row in study.rows_of(setting.cell):
        if r in stored.study.compositions:
            with suppress(FileNotFoundError):
                return read_state(stored, row, direction, r)
    return None


def masses_of(state: PairState | BucketState, opposite: PairState | BucketState | None = None) -> LossMasses:
    """Return the masses of a state; `opposite` is that of B||A, where it is another one."""
    if isinstance(state, BucketState):
        other = opposite if isinstance(opposite, BucketState) else state
        n, width = state.grid.half_width, state.grid.loss_width
        corners = [Corner(one.infinity_a_lower, one.infinity_a_upper) for one in (state, other)]
        return LossMasses(width * np.arange(-n, n + 1.0), state.a_upper, state.b_upper, width, *corners)
    rows = state.dominating.rows
    places, u = (np.concatenate([getattr(row, name) for row in rows]) for name in ("losses", "u"))
    corners = []
    for direction, upper in zip(Direction, state.dominating.infinite, strict=True):
        own, other_mass = state.exact[direction].infinite
        # Only an event that is impossible under the other input has an infinite loss.
        corners.append(Corner(own if other_mass == 0.0 else 0.0, upper))
    with np.errstate(under="ignore"):
        a, b = u * np.exp(0.5 * places), u * np.exp(-0.5 * places)
    return LossMasses(places, a, b, rows[-1].spacing if np.any(rows[-1].u > 0.0) else rows[0].spacing, *corners)


def binned(masses: LossMasses, lowest: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return edges of bars, and the masses of A and of B in each, whose sums are those of all that is drawn."""
    drawn = (masses.a > lowest) | (masses.b > lowest)
    if not drawn.any():
        return np.array([-0.5, 0.5]) * masses.spacing, np.zeros(1), np.zeros(1)
    places = masses.losses[drawn]
    width = masses.spacing * max(1, math.ceil(float(np.ptp(places)) / masses.spacing / _BARS))
    index = np.floor(places / width + 0.5).astype(np.int64)
    first, last = int(index.min()), int(index.max())
    edges: FloatArray = width * (np.arange(first, last + 2, dtype=np.float64) - 0.5)
    a, b = (np.bincount(index - first, weights=one[drawn]).astype(np.float64) for one in (masses.a, masses.b))
    return edges, a, b


def _draw(axes: "Axes", masses: LossMasses, title: str, lowest: float) -> "Axes":
    edges, a, b = binned(masses, lowest)
    with np.errstate(divide="ignore"):
        heights = np.log10([a, b])
        corners = np.log10([masses.above.upper, masses.below.upper])
    seen = np.concatenate((heights[np.isfinite(heights)], corners[corners > (math.log10(lowest) if lowest else -1e9)]))
    bottom = math.floor(float(seen.min())) if seen.size else -1.0
    styles = {"A": {"fill": True, "alpha": 0.45, "linestyle": "-"}, "B": {"fill": False, "linestyle": "--"}}
    for one, (name, style), colour in zip(heights, styles.items(), COLOURS, strict=False):
        bars = np.where(np.isfinite(one), one, bottom)
        label = f"losses under {name}"
        axes.stairs(bars, edges, baseline=bottom, color=colour, label=label, linewidth=1.3, **style)  # type: ignore[arg-type]
    low, high = float(edges[0]), float(edges[-1])
    beside = _BESIDE * (high - low)
    left, right = low - beside, high + beside
    for corner, place, marker, name, colour in (
        (corners[0], right, "^", "A at +∞: impossible under B", COLOURS[0]),
        (corners[1], left, "v", "B at -∞: impossible under A", COLOURS[1]),
    ):
        top = max(float(corner), bottom)
        axes.vlines(place, bottom, top, color=colour, linewidth=5.0)
        axes.plot([place], [top], linestyle="none", marker=marker, color=colour, markersize=7.0, label=name)
    for edge in (low - 0.4 * beside, high + 0.4 * beside):
        axes.axvline(edge, color="0.5", linewidth=0.8, linestyle=":")
    # A tick next to an infinity would cover its sign.
    spare = 0.02 * (high - low)
    ticks = [x for x in axes.xaxis.get_major_locator().tick_values(low, high) if low + spare <= x <= high - spare]
    axes.set_xticks([left, *ticks, right], ["-∞", *(f"{place:.4g}" for place in ticks), "+∞"])
    axes.set_xlim(left - 0.5 * beside, right + 0.5 * beside)
    frame.decimal_axis(axes)
    top = max([*seen.tolist(), bottom + 1.0])
    axes.set_ylim(bottom, top + 0.05 * (top - bottom))
    some = bool(np.any((masses.a > 0.0) & (masses.a <= lowest)))
    notes = [
        _corner_note("+∞", "A", masses.above),
        _corner_note("-∞", "B", masses.below),
        f"losses of a mass below {lowest:g} are not drawn" if some else "",
    ]
    y = f"probability per {float(edges[1] - edges[0]):.3g} nats of loss"
    frame.finish(axes, title, x="privacy loss, in nats", y=y, notes=notes, legend=True)
    return axes


def _corner_note(place: str, name: str, corner: Corner) -> str:
    if corner.upper == 0.0:
        return f"at {place}: {name} has no mass"
    low = f"at least {rounded_down(corner.lower, 3)} and " if corner.lower > 0.0 else ""
    return f"at {place}: {name} has {low}at most {rounded_up(corner.upper, 3)}"
