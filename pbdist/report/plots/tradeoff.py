"""Trade-off curves (f-DP): the smallest type II error over the type I error."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError
from pbdist.query import Study
from pbdist.report.plots import frame
from pbdist.report.plots.selection import MAX_CURVES, Curve, Sources, StoredSetting, chosen, named, row_of
from pbdist.rounding import rounded_up
from pbdist.types import COMPOSITIONS, DIRECTION, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ERROR = "type_one_error"
#: Type I errors at which curves of a study are drawn: even ones, and some near both ends.
_ENDS = np.geomspace(1e-4, 8e-3, 8)
_ALPHA: FloatArray = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), _ENDS, 1.0 - _ENDS)))
#: More than the arithmetic of lines may err.
_SLACK = 1e-14


def tradeoff(
    bounds: Sources,
    *,
    mechanism: str | None = None,
    compositions: int | Sequence[int] | None = None,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw the trade-off curve: the band between the bounds on the smallest type II error of a test.

    The smaller error of the two tests is drawn. Between the points it is what is proved there: by convexity of each
    test's curve where both are known, otherwise that a curve does not rise.

    Parameters
    ----------
    bounds
        ``pbdist.open_study(..)``, or what `pbdist.tradeoff_bounds` returns; or several of them in a dictionary, whose
        keys stand in the legend.
    mechanism, axes, **noise
        As for `epsilon_delta`, and so are the errors.
    compositions
        Which r; by default all, or the largest one where there would be more than 12 curves.
    """
    wanted = None if compositions is None else [int(r) for r in np.atleast_1d(np.asarray(compositions))]
    curves: list[Curve] = []
    for name, source in named(bounds):
        if isinstance(source, Study):
            settings = chosen({name: source}, mechanism=mechanism, noise=noise)
            curves += _of_study(source, settings, wanted)
        else:
            curves += _of_dataset(source, {"study": name} if name else {}, wanted)
    if len(curves) > MAX_CURVES:
        raise InvalidInputError(f"compositions: expected at most {MAX_CURVES} curves in one plot, got {len(curves)}")
    axes, title, labels, _ = frame.begin(curves, axes)
    widest = 0.0
    missing = 0
    for one, label in zip(curves, labels, strict=True):
        style = frame.style_of(axes)
        name = label if len(curves) > 1 else title or "bounds"
        if np.isnan(one.upper).any(axis=0).all():
            missing += 1
            axes.plot([], [], label=f"{name}: {one.gap or 'not computed'}", **style)
            continue
        alpha, lower, upper = proved_errors(one)
        widest = max(widest, float(np.nanmax(upper - lower)))
        axes.fill_between(alpha, lower, upper, color=style["color"], alpha=0.3, linewidth=0.0)
        axes.plot(alpha, upper, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
        marks = np.searchsorted(alpha, one.places)
        axes.plot(alpha, lower, label=name, markevery=marks[:: max(1, marks.size // 12)].tolist(), **style)
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.4", linewidth=0.8, linestyle=":", label="no test can tell: 1 - α")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    notes = [f"{missing:,} of {frame.counted(len(curves), 'curve')} not computed"] if missing else []
    notes.append(f"upper - lower is at most {rounded_up(widest, 2)}; the thick line is the lower bound, the promise")
    wide = sum(one.wide for one in curves)
    if wide:
        than = "it narrower" if wide == 1 else "them narrower"
        notes.append(f"{frame.counted(wide, 'curve')} wider than the tolerance: more stored ε would make {than}")
    x, y = "type I error α, a probability", "least type II error β(α)"
    frame.finish(axes, title, x=x, y=y, notes=notes, legend=True)
    return axes


def _of_study(study: Study, settings: Sequence[StoredSetting], wanted: list[int] | None) -> Iterator[Curve]:
    """Yield the curves of settings, with the errors of both tests in rows."""
    if wanted is None:
        every = list(study.spec.compositions)
        wanted = every if len(every) * len(settings) <= MAX_CURVES else [max(every)]
    nothing = np.full((2, _ALPHA.size), np.nan)
    for setting in settings:
        for r in wanted:
            row = row_of(setting.compositions.tolist(), r)
            lower, upper, wide = nothing, nothing, 0
            if not np.isnan(setting.log_upper[:, row]).all():
                query = {"compositions": r, "type_one_error": _ALPHA, "direction": "each", **setting.query}
                found = study.tradeoff(**query, strict="silent")
                lower, upper = found.lower, found.upper
                wide = int(found.within_tolerance is not None and not found.within_tolerance.all())
            yield setting.curve(_ALPHA, lower, upper, wide=wide, compositions=r)


def _of_dataset(dataset: xr.Dataset, columns: Mapping[str, str], wanted: list[int] | None) -> Iterator[Curve]:
    """Yield the curves of `pbdist.tradeoff_bounds`, with a row for each test, or one row for the smaller error."""
    if "type_two_error_upper" not in dataset or _ERROR not in dataset.coords:
        raise InvalidInputError("bounds: expected an opened study, or the Dataset of tradeoff_bounds")
    order = (DIRECTION, COMPOSITIONS, _ERROR)
    full = dataset.expand_dims([name for name in order if name not in dataset.dims]).sortby(_ERROR).transpose(*order)
    rounds = full[COMPOSITIONS].values.tolist()
    for r in rounds if wanted is None else wanted:
        row = row_of(rounds, r)
        lower, upper = (full[f"type_two_error_{side}"].values[:, row] for side in ("lower", "upper"))
        yield Curve({**columns, COMPOSITIONS: int(r)}, full[_ERROR].values, lower, upper)


def proved_errors(curve: Curve) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the corners of two polygons between which the smaller type II error provably lies: α, lower and upper.

    At the α of the curve they are its bounds.
    """
    if len(curve.lower) == 1:
        return _stairs(curve.places, curve.lower[0], curve.upper[0])
    tests = [_polygon(curve.places, low, high) for low, high in zip(curve.lower, curve.upper, strict=True)]
    places = np.unique(np.concatenate([place for place, _, _ in tests]))
    # Where the upper bounds cross is a corner of the smaller one.
    apart = np.interp(places, *tests[0][::2]) - np.interp(places, *tests[1][::2])
    crossed = np.flatnonzero(apart[:-1] * apart[1:] < 0.0)
    part = apart[crossed] / (apart[crossed] - apart[crossed + 1])
    places = np.unique(np.concatenate((places, places[crossed] + part * np.diff(places)[crossed])))
    lower, upper = (np.min([np.interp(places, one[0], one[side]) for one in tests], axis=0) for side in (1, 2))
    return places, lower, upper


def _stairs(alpha: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a curve that does not rise is at least and at most: no more is known of the smaller of two."""
    # At each α its own bounds; before it the upper bound of the last one, and behind it the lower one of the next.
    following, former = np.append(low[1:], low[-1]), np.append(high[0], high[:-1])
    lower, upper = np.stack((low, low, following), axis=1), np.stack((former, high, high), axis=1)
    return np.repeat(alpha, 3)[1:-1], lower.ravel()[1:-1], upper.ravel()[1:-1]


def _polygon(alpha: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the corners of what a convex curve that does not rise is at least and at most: α, lower and upper.

    Above it are its chords. Below it are the lines through a lower bound and the upper bound beyond it, continued;
    where those from both sides meet between two α is a corner.
    """
    left, right, before, behind = alpha[:-1], alpha[1:], low[:-1], low[1:]
    falling, rising = np.full(left.size, -np.inf), np.zeros(left.size)
    falling[1:] = (low[1:-1] - high[:-2]) / np.diff(alpha)[:-1]
    rising[:-1] = np.minimum(0.0, (high[2:] - low[1:-1]) / np.diff(alpha)[1:])
    with np.errstate(divide="ignore", invalid="ignore"):
        corner = (behind - before + falling * left - rising * right) / (falling - rising)
        depth = np.maximum(0.0, before + falling * (corner - left) - _SLACK)
    # Nothing is known to the left of the first α: right behind it only the line from the right is.
    corner[0] = np.nextafter(left[0], right[0])
    depth[0] = min(float(before[0]), float(behind[0] + rising[0] * (left[0] - right[0])))
    meet = (falling < rising) & (left < corner) & (corner < right)
    places, lower = np.concatenate((alpha, corner[meet])), np.concatenate((low, depth[meet]))
    order = np.argsort(places, kind="stable")
    corners, upper = places[order], np.interp(places[order], alpha, high)
    return corners, np.minimum(lower[order], upper), upper
