"""The privacy loss distribution of a kept state, with its masses at both infinities."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.buckets.state import BucketState
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.pld import PairState
from pbdist.query import Study
from pbdist.report.plots.frame import LOWEST, axes_for, decimal_axis, finish, labelled
from pbdist.report.plots.selection import StoredSetting, chosen
from pbdist.report.sheet import COLOURS
from pbdist.rounding import rounded_down, rounded_up
from pbdist.store import open_parts, read_state
from pbdist.types import COMPOSITIONS, Direction, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Bars of a distribution.
_BARS = 160
#: How far beyond the losses the infinite ones stand, as a part of their range.
_BESIDE = 0.09


@dataclass(frozen=True)
class Corner:
    """The mass of one input at an infinite loss: an upper bound, and a lower one that may be 0."""

    lower: float
    upper: float


@dataclass(frozen=True, eq=False)
class LossMasses:
    """Masses of A and B along the losses, from above."""

    #: Losses, nats, increasing or not, and the masses there.
    losses: FloatArray
    a: FloatArray
    b: FloatArray
    #: Bars are whole multiples of it, nats.
    spacing: float
    #: Of A, at +∞: outcomes that B lacks.
    above: Corner
    #: Of B, at -∞: outcomes that A lacks.
    below: Corner


def losses(
    study: Study,
    *,
    mechanism: str | None = None,
    compositions: int | None = None,
    lowest: float = LOWEST,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw the privacy loss distribution of a kept state, under A and under B, with the masses at +∞ and -∞.

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
        No such state is kept.
    InvalidInputError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    if not isinstance(study, Study):
        raise InvalidInputError(f"study: expected an opened study, got {shown(study)}")
    setting = chosen(study, mechanism=mechanism, noise=noise, most=1)[0]
    r = max(study.spec.compositions) if compositions is None else compositions
    there, opposite = (_state(study, setting, r, direction) for direction in Direction)
    if there is None:
        raise OffGridError(
            f"{study.where}: expected a kept state of {study.spec.cells[setting.cell].describe()}, r = {r}, got none:"
            " a study keeps states with keep_states: true"
        )
    title, _ = labelled([{**setting.columns, COMPOSITIONS: r}])
    return _draw(axes_for(axes), masses_of(there, opposite), title, lowest)


def masses_of(state: PairState | BucketState, opposite: PairState | BucketState | None = None) -> LossMasses:
    """Return the masses of a state; `opposite` is that of B||A, where it is another one."""
    return _of_pair(state) if isinstance(state, PairState) else _of_buckets(state, opposite)


def _state(study: Study, setting: StoredSetting, r: int, direction: Direction) -> PairState | BucketState | None:
    cell = study.spec.cells[setting.cell]
    for stored in open_parts(study.where):
        if r not in stored.study.compositions or cell not in stored.study.cells:
            continue
        try:
            return read_state(stored, list(stored.study.cells).index(cell), direction, r)
        except FileNotFoundError:
            continue
    return None


def _of_pair(state: PairState) -> LossMasses:
    rows = state.dominating.rows
    places = np.concatenate([row.losses for row in rows])
    u = np.concatenate([row.u for row in rows])
    corners = []
    for direction, upper in zip(Direction, state.dominating.infinite, strict=True):
        own, other = state.exact[direction].infinite
        # Only an event that the other input lacks is one of infinite loss.
        corners.append(Corner(own if other == 0.0 else 0.0, upper))
    with np.errstate(under="ignore"):
        a, b = u * np.exp(0.5 * places), u * np.exp(-0.5 * places)
    return LossMasses(places, a, b, rows[-1].spacing if np.any(rows[-1].u > 0.0) else rows[0].spacing, *corners)


def _of_buckets(state: BucketState, opposite: PairState | BucketState | None) -> LossMasses:
    n, width = state.grid.half_width, state.grid.loss_width
    places = width * np.arange(-n, n + 1, dtype=np.float64)
    other = opposite if isinstance(opposite, BucketState) else state
    return LossMasses(
        places,
        state.a_upper,
        state.b_upper,
        width,
        Corner(state.infinity_a_lower, state.infinity_a_upper),
        Corner(other.infinity_a_lower, other.infinity_a_upper),
    )


def binned(masses: LossMasses, lowest: float) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return edges of bars, and the masses of A and of B in each, whose sums are those of all that is drawn."""
    drawn = (masses.a > lowest) | (masses.b > lowest)
    if not drawn.any():
        return np.array([-0.5, 0.5]) * masses.spacing, np.zeros(1), np.zeros(1)
    places, a, b = masses.losses[drawn], masses.a[drawn], masses.b[drawn]
    width = masses.spacing * max(1, math.ceil(float(np.ptp(places)) / masses.spacing / _BARS))
    index = np.floor(places / width + 0.5).astype(np.int64)
    first = int(index.min())
    edges: FloatArray = width * (np.arange(first, int(index.max()) + 2, dtype=np.float64) - 0.5)
    size = edges.size - 1
    sums = [np.bincount(index - first, weights=one, minlength=size).astype(np.float64) for one in (a, b)]
    return edges, sums[0], sums[1]


def _draw(axes: "Axes", masses: LossMasses, title: str, lowest: float) -> "Axes":
    edges, a, b = binned(masses, lowest)
    with np.errstate(divide="ignore"):
        heights = np.log10([a, b])
        corners = np.log10([masses.above.upper, masses.below.upper])
    seen = np.concatenate((heights[np.isfinite(heights)], corners[corners > (math.log10(lowest) if lowest else -1e9)]))
    bottom = math.floor(float(seen.min())) if seen.size else -1.0
    for one, name, colour, line in zip(heights, "AB", COLOURS, ("-", "--"), strict=False):
        drawn = np.where(np.isfinite(one), one, bottom)
        style: dict[str, Any] = {
            "fill": name == "A",
            "alpha": 0.45 if name == "A" else 1.0,
            "linestyle": line,
            "linewidth": 1.3,
        }
        axes.stairs(drawn, edges, baseline=bottom, color=colour, label=f"losses under {name}", **style)
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
    places = [float(place) for place in axes.xaxis.get_major_locator().tick_values(low, high) if low <= place <= high]
    # A tick next to an infinity would cover its sign.
    places = [place for place in places if min(place - low, high - place) >= 0.02 * (high - low)]
    axes.set_xticks([left, *places, right], ["-∞", *(f"{place:.4g}" for place in places), "+∞"])
    axes.set_xlim(left - 0.5 * beside, right + 0.5 * beside)
    decimal_axis(axes)
    top = max([*seen.tolist(), bottom + 1.0])
    axes.set_ylim(bottom, top + 0.05 * (top - bottom))
    some = bool(np.any((masses.a > 0.0) & (masses.a <= lowest)))
    left_out = f"losses of a mass below {lowest:g} are not drawn" if some else ""
    finish(
        axes,
        title,
        x="privacy loss, in nats",
        y=f"probability per {float(edges[1] - edges[0]):.3g} nats of loss",
        notes=[_said("+∞", "A", masses.above), _said("-∞", "B", masses.below), left_out],
        legend=True,
    )
    return axes


def _said(place: str, name: str, corner: Corner) -> str:
    if corner.upper == 0.0:
        return f"at {place}: {name} has no mass"
    low = f"at least {rounded_down(corner.lower, 3)} and " if corner.lower > 0.0 else ""
    return f"at {place}: {name} has {low}at most {rounded_up(corner.upper, 3)}"
