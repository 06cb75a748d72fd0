"""δ over the number of rounds at one ε, and ε over it at one δ."""

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, OffGridError, PrecisionWarning
from pbdist.mechanisms import checked_adjacency
from pbdist.report.plots.frame import (
    LN10,
    LOWEST,
    axes_for,
    decimal_axis,
    draw_points,
    finish,
    height_limits,
    lowest_place,
)
from pbdist.report.plots.labels import labelled
from pbdist.report.plots.notes import NO_LOWER, gap_notes, neighbours_notes, refuse_nothing, width_note, zero_note
from pbdist.report.plots.selection import MOST_CURVES, Sources, StoredSetting, chosen, named
from pbdist.rounding import exact
from pbdist.study.grids import nearest_exponential, nearest_match
from pbdist.types import COMPOSITIONS, DELTA, Adjacency, FloatArray, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Said of every plot over r.
GUIDE = "lines between points guide the eye and are no bounds"
_WIDE = 30.0


@dataclass(frozen=True, eq=False)
class Rounds:
    """Bounds of one setting at some r: natural logarithms of δ, or ε in nats. `gap` says why some are missing."""

    columns: Mapping[str, Any]
    rounds: IntArray
    lower: FloatArray
    upper: FloatArray
    gap: str
    attained: bool
    wide: int = 0
    adjacency: Adjacency = Adjacency.AS_STATED


def compositions(
    bounds: Sources,
    *,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float | None = None,
    mechanism: str | None = None,
    lowest: float = LOWEST,
    most: int = MOST_CURVES,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw δ over r at one ε, or ε over r at one δ.

    Every number is proved; a bar joins lower and upper bound. The thin lines between numbers of rounds only guide the
    eye. Missing points are gaps.

    Parameters
    ----------
    bounds
        ``pbdist.open_study(..)``, which may be asked at any ε and δ; its ``bounds`` or what `pbdist.privacy_bounds`
        returns, for δ at their own ε; what `pbdist.epsilon_bounds` returns, for ε at its own δ; or several of one kind,
        by the names that the legend should say.
    epsilon, exp_epsilon, delta
        At most one: ε in nats, e^ε or δ. By default the middle ε there is, or of `pbdist.epsilon_bounds` the first δ.
    mechanism, **noise
        Which settings: a label, and parameters, each with one value or several; by default all.
    lowest
        A δ below which the axis does not reach, unless a whole curve lies there; 0 for all there is.
    most
        The most curves that are drawn.
    axes
        Where to draw; by default axes of a new figure, ``.figure`` of what is returned.

    Returns
    -------
    matplotlib.axes.Axes
        Of δ the vertical axis holds log10 of δ.

    Raises
    ------
    InvalidInputError, OffGridError, StoreDamagedError, MissingDependencyError
        As `epsilon_delta`.
    """
    if sum(value is not None for value in (epsilon, exp_epsilon, delta)) > 1:
        raise InvalidInputError("delta: expected at most one of epsilon, exp_epsilon and delta, got several")
    told = [source for _, source in named(bounds)]
    if all(isinstance(source, xr.Dataset) and "epsilon_upper" in source for source in told):
        return draw_rounds(*_of_epsilon_bounds(bounds, delta), axes_for(axes), of_epsilon=True)
    settings = chosen(bounds, mechanism=mechanism, noise=noise, most=most)
    if delta is not None:
        if not 0.0 < delta < 1.0:
            raise InvalidInputError(f"delta: expected a number between 0 and 1, got {delta!r}")
        found = [epsilon_over_rounds(setting, delta) for setting in settings]
        return draw_rounds(found, f"δ = {exact(delta)}", axes_for(axes), of_epsilon=True)
    if exp_epsilon is not None:
        if not exp_epsilon >= 1.0:
            raise InvalidInputError(f"exp_epsilon: expected a number of at least 1, got {exp_epsilon!r}")
        epsilon = math.log(exp_epsilon)
    if epsilon is None:
        stored = settings[0].epsilon
        epsilon = float(stored[stored.size // 2])
    found = [delta_over_rounds(setting, epsilon, exp_epsilon) for setting in settings]
    at = f"ε = {exact(epsilon)}" if exp_epsilon is None else f"e^ε = {exact(exp_epsilon)}"
    return draw_rounds(found, at, axes_for(axes), lowest=lowest)


def delta_over_rounds(setting: StoredSetting, epsilon: float, exp_epsilon: float | None = None) -> Rounds:
    """Return the bounds on ln δ of a setting at one ε and all stored r; of a study also at an ε that is not stored."""
    index = nearest_match(tuple(setting.epsilon.tolist()), epsilon)
    if exp_epsilon is not None:
        index = nearest_exponential(tuple(setting.epsilon.tolist()), exp_epsilon)
    if index is not None:
        lower, upper = (values.max(axis=0)[:, index] for values in (setting.log_lower, setting.log_upper))
        told = (setting.columns, setting.compositions, lower, upper, setting.gap, setting.attained)
        return Rounds(*told, adjacency=setting.adjacency)
    if setting.study is None:
        near = ", ".join(f"{value:.10g}" for value in setting.epsilon[:12])
        raise InvalidInputError(f"epsilon: expected one of {near}, got {epsilon!r}: an opened study answers any ε")

    study = setting.study

    def ask(r: int) -> tuple[float, float]:
        found = study.delta(str(setting.columns["mechanism"]), compositions=r, epsilon=epsilon, **setting.asked)
        return float(found.log_lower), float(found.log_upper)

    return _asked(setting, ask)


def epsilon_over_rounds(setting: StoredSetting, delta: float) -> Rounds:
    """Return the bounds on ε of a setting at one δ and all stored r; of a Dataset it is refused."""
    if setting.study is None:
        raise InvalidInputError("delta: expected an opened study, or the Dataset of epsilon_bounds, for ε at a δ")

    study = setting.study

    def ask(r: int) -> tuple[float, float]:
        found = study.epsilon(str(setting.columns["mechanism"]), compositions=r, delta=delta, **setting.asked)
        return float(found.lower), float(found.upper)

    return _asked(setting, ask)


def _asked(setting: StoredSetting, ask: Callable[[int], tuple[float, float]]) -> Rounds:
    """Return the answers of a study at all r at which it has a point; others are gaps."""
    lower, upper = (np.full(setting.compositions.shape, np.nan) for _ in range(2))
    wide = 0
    for row, r in enumerate(setting.compositions.tolist()):
        if np.isnan(setting.log_upper[:, row]).all():
            continue
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", PrecisionWarning)
            try:
                lower[row], upper[row] = ask(int(r))
            except OffGridError:
                continue
        wide += any(issubclass(one.category, PrecisionWarning) for one in told)
    found = (setting.columns, setting.compositions, lower, upper, setting.gap, setting.attained)
    return Rounds(*found, wide=wide, adjacency=setting.adjacency)


def _of_epsilon_bounds(bounds: Sources, delta: float | None) -> tuple[list[Rounds], str]:
    found = []
    for name, source in named(bounds):
        one = source.expand_dims([dim for dim in (COMPOSITIONS, DELTA) if dim not in source.dims])  # type: ignore[union-attr]
        if delta is None:
            delta = float(one[DELTA].values[0])
        index = nearest_match(tuple(sorted(one[DELTA].values.tolist())), delta)
        if index is None or "direction" in one.dims:
            raise InvalidInputError(
                f"delta: expected one of {one[DELTA].values.tolist()}, of the larger direction, got {delta!r}"
            )
        one = one.sortby(DELTA).transpose(COMPOSITIONS, DELTA)
        lower, upper = (one[f"epsilon_{side}"].values[:, index] for side in ("lower", "upper"))
        columns = {"study": name} if name else {}
        told = (columns, one[COMPOSITIONS].values, lower, upper, "", not np.isnan(lower).all())
        found.append(Rounds(*told, adjacency=checked_adjacency(one.attrs.get("adjacency"))))
    return found, "δ" if delta is None else f"δ = {exact(delta)}"


def draw_rounds(
    found: Sequence[Rounds], at: str, axes: "Axes", *, of_epsilon: bool = False, lowest: float = LOWEST
) -> "Axes":
    """Draw bounds over r into axes."""
    missing = [(np.isnan(one.upper), one.gap) for one in found]
    refuse_nothing(missing, "bounds")
    title, labels = labelled([one.columns for one in found])
    scale = 1.0 if of_epsilon else LN10
    for one, label in zip(found, labels, strict=True):
        low, high = one.lower / scale, one.upper / scale
        style = draw_points(axes, one.rounds, low, high, label if len(found) > 1 else title or "bounds")
        # Of a lower bound alone.
        endless = np.where(np.isposinf(high), low, np.nan)
        if np.isfinite(endless).any():
            axes.plot(one.rounds, endless, linestyle="none", marker=r"$\uparrow$", markersize=9.0, color=style["color"])
    rounds_axis(axes, [one.rounds for one in found])
    notes = gap_notes(missing)
    highs, lows = [one.upper / scale for one in found], [one.lower / scale for one in found]
    if of_epsilon:
        _epsilon_axis(axes, highs)
        unknown = sum(int(np.isposinf(one.upper).sum()) for one in found)
        if unknown:
            notes.append(f"no upper bound on ε is known at {unknown:,} points (arrows): the stored ε do not reach it")
    else:
        decimal_axis(axes)
        limits = height_limits(highs, lows, lowest_place(lowest))
        if limits is not None:
            axes.set_ylim(*limits)
            if any((one[np.isfinite(one)] < limits[0]).any() for one in highs):
                notes.append(f"what lies below δ = {lowest:g} is not drawn")
        notes += width_note((one.lower for one in found), (one.upper for one in found))
        notes += zero_note(one.upper for one in found)
    wide = sum(one.wide for one in found)
    if wide:
        notes.append(f"{wide:,} answers are wider than the tolerance: they lie between stored points")
    if any(not one.attained for one in found):
        unattained = [label for one, label in zip(found, labels, strict=True) if not one.attained]
        notes.append(NO_LOWER if len(unattained) == len(found) else f"{'; '.join(unattained)}: {NO_LOWER}")
    notes += neighbours_notes((one.columns, one.adjacency) for one in found)
    finish(
        axes,
        title=", ".join(part for part in (title, at) if part),
        x="r, rounds",
        y="ε, in nats" if of_epsilon else "δ, a probability",
        notes=[*notes, GUIDE],
        legend=len(axes.get_legend_handles_labels()[0]) > 1,
    )
    return axes


def rounds_axis(axes: "Axes", rounds: Sequence[IntArray]) -> None:
    """Make the horizontal axis one of r: in powers of two where r varies much."""
    every = np.concatenate(rounds)
    if every.max() >= 8 * every.min():
        from pbdist.report.plots.decades import plain_logarithms  # noqa: PLC0415 -- imports matplotlib

        axes.set_xscale("log", base=2)
        plain_logarithms(axes.xaxis, 2.0)


def _epsilon_axis(axes: "Axes", highs: Sequence[FloatArray]) -> None:
    values = np.concatenate(highs)
    values = values[np.isfinite(values) & (values > 0.0)]
    if values.size and float(values.max()) > _WIDE * float(values.min()):
        axes.set_yscale("log")
