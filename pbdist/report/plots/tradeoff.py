"""Trade-off curves (f-DP): the smallest type II error over the type I error."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from pbdist.errors import InvalidInputError, OffGridError, PrecisionWarning
from pbdist.query import Study
from pbdist.report.plots.frame import axes_for, counted, finish, labelled, refuse_nothing, style_of
from pbdist.report.plots.selection import MAX_CURVES, Sources, StoredSetting, chosen, named, one_of
from pbdist.rounding import rounded_up
from pbdist.types import COMPOSITIONS, DIRECTION, BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ERROR = "type_one_error"
#: Type I errors at which a study is asked: even ones, and some near both ends.
_ENDS = np.geomspace(1e-4, 8e-3, 8)
_ASKED: FloatArray = np.unique(np.concatenate((np.linspace(0.0, 1.0, 101), _ENDS, 1.0 - _ENDS)))
#: More than the arithmetic of lines may err.
_SLACK = 1e-14


@dataclass(frozen=True, eq=False)
class ErrorCurve:
    """Bounds on the type II error at some type I errors; `directions` has each test, shape (D, n)."""

    columns: Mapping[str, Any]
    alpha: FloatArray
    lower: FloatArray
    upper: FloatArray
    convex: bool
    gap: str = ""
    wide: int = 0


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
        ``pbdist.open_study(..)``, or what `pbdist.tradeoff_bounds` returns; or several of them, by the names that the
        legend should say.
    mechanism, axes, **noise
        As for `epsilon_delta`, and so are the errors.
    compositions
        Which r; by default all, or the largest one where there would be more than 12 curves.
    """
    wanted = None if compositions is None else [int(r) for r in np.atleast_1d(np.asarray(compositions))]
    found: list[ErrorCurve] = []
    told = named(bounds)
    for name, source in told:
        given = {"study": name} if len(told) > 1 else {}
        if isinstance(source, Study):
            found += _of_study(source, chosen(source, mechanism=mechanism, noise=noise), given, wanted)
        else:
            found += _of_dataset(source, given, wanted)
    if len(found) > MAX_CURVES:
        raise InvalidInputError(f"compositions: expected at most {MAX_CURVES} curves in one plot, got {len(found)}")
    return _draw(found, axes_for(axes))


def _of_study(
    study: Study, settings: Sequence[StoredSetting], given: Mapping[str, Any], wanted: list[int] | None
) -> Iterator[ErrorCurve]:
    if wanted is None:
        every = list(study.spec.compositions)
        wanted = every if len(every) * len(settings) <= MAX_CURVES else [max(every)]
    for setting in settings:
        for r in wanted:
            row = one_of(setting.compositions.tolist(), r, COMPOSITIONS)
            there = not np.isnan(setting.log_upper[:, row]).all()
            columns = {**given, **setting.columns, COMPOSITIONS: r}
            yield _asked(study, setting, r, columns) if there else _nothing(columns, setting.gap)


def _asked(study: Study, setting: StoredSetting, r: int, columns: Mapping[str, Any]) -> ErrorCurve:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", PrecisionWarning)
        try:
            found = study.tradeoff(
                str(setting.columns["mechanism"]),
                compositions=r,
                type_one_error=_ASKED,
                direction="each",
                **setting.asked,
            )
        except OffGridError:
            return _nothing(columns, setting.gap)
    wide = sum(issubclass(one.category, PrecisionWarning) for one in told)
    return ErrorCurve(columns, _ASKED, found.lower, found.upper, convex=True, wide=wide)


def _nothing(columns: Mapping[str, Any], gap: str) -> ErrorCurve:
    nothing = np.full((1, _ASKED.size), np.nan)
    return ErrorCurve(columns, _ASKED, nothing, nothing, convex=False, gap=gap)


def _of_dataset(dataset: xr.Dataset, given: Mapping[str, Any], wanted: list[int] | None) -> Iterator[ErrorCurve]:
    if "type_two_error_upper" not in dataset or _ERROR not in dataset.coords:
        raise InvalidInputError("bounds: expected an opened study, or the Dataset of tradeoff_bounds")
    full = dataset
    for name in (_ERROR, COMPOSITIONS):
        if name not in full.dims:
            full = full.expand_dims(name)
    convex = DIRECTION in full.dims
    full = (full if convex else full.expand_dims(DIRECTION)).sortby(_ERROR).transpose(DIRECTION, COMPOSITIONS, _ERROR)
    rounds = full[COMPOSITIONS].values.tolist()
    for r in rounds if wanted is None else wanted:
        row = one_of(rounds, r, COMPOSITIONS)
        lower, upper = (full[f"type_two_error_{side}"].values[:, row] for side in ("lower", "upper"))
        yield ErrorCurve({**given, COMPOSITIONS: int(r)}, full[_ERROR].values, lower, upper, convex=convex)


def proved_errors(curve: ErrorCurve) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the corners of two polygons between which the smaller type II error provably lies: α, lower and upper.

    At the α of the curve they are its bounds.
    """
    if not curve.convex:
        return _stairs(curve.alpha, curve.lower.min(axis=0), curve.upper.min(axis=0))
    tests = [_polygon(curve.alpha, low, high) for low, high in zip(curve.lower, curve.upper, strict=True)]
    places = np.unique(np.concatenate([place for place, _, _ in tests]))
    uppers = [np.interp(places, place, high) for place, _, high in tests]
    places = np.unique(np.concatenate((places, _crossings(places, uppers[0] - uppers[-1]))))
    lower, upper = (np.min([np.interp(places, one[0], one[side]) for one in tests], axis=0) for side in (1, 2))
    return places, lower, upper


def _stairs(alpha: FloatArray, low: FloatArray, high: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return what a curve that does not rise is at least and at most: no more is known of the smaller of two."""
    every = np.arange(alpha.size)
    # At each α its own bounds; before it the upper bound of the last one, and behind it the lower one of the next.
    following, former = np.minimum(every + 1, alpha.size - 1), np.maximum(every - 1, 0)
    lower = np.stack((low, low, low[following]), axis=1).ravel()[1:-1]
    upper = np.stack((high[former], high, high), axis=1).ravel()[1:-1]
    return np.repeat(alpha, 3)[1:-1], lower, upper


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


def _crossings(places: FloatArray, difference: FloatArray) -> FloatArray:
    """Return where a polygon crosses 0."""
    here, following = difference[:-1], difference[1:]
    crossed = np.flatnonzero(here * following < 0.0)
    part = here[crossed] / (here[crossed] - following[crossed])
    return places[crossed] + part * (places[crossed + 1] - places[crossed])


def _draw(found: Sequence[ErrorCurve], axes: "Axes") -> "Axes":
    missing: list[tuple[BoolArray, str]] = [(np.any(np.isnan(one.upper), axis=0), one.gap) for one in found]
    gone = [where.all() for where, _ in missing]
    refuse_nothing(missing)
    title, labels = labelled([one.columns for one in found])
    widest = 0.0
    for one, label, none in zip(found, labels, gone, strict=True):
        style = style_of(axes)
        name = label if len(found) > 1 else title or "bounds"
        if none:
            axes.plot([], [], label=f"{name}: {one.gap or 'not computed'}", **style)
            continue
        fine, lower, upper = proved_errors(one)
        widest = max(widest, float(np.nanmax(upper - lower)))
        axes.fill_between(fine, lower, upper, color=style["color"], alpha=0.3, linewidth=0.0)
        axes.plot(fine, upper, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
        marks = np.searchsorted(fine, one.alpha)
        axes.plot(fine, lower, label=name, markevery=marks[:: max(1, marks.size // 12)].tolist(), **style)
    words = "no test can tell: 1 - α"
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.4", linewidth=0.8, linestyle=":", label=words)
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    notes = [f"{sum(gone):,} of {counted(len(found), 'curve')} not computed"] if any(gone) else []
    notes.append(f"upper - lower is at most {rounded_up(widest, 2)}; the thick line is the lower bound, the promise")
    wide = sum(one.wide for one in found)
    if wide:
        than = "it narrower" if wide == 1 else "them narrower"
        notes.append(f"{counted(wide, 'curve')} wider than the tolerance: more stored ε would make {than}")
    x, y = "type I error α, a probability", "least type II error β(α)"
    finish(axes, title, x=x, y=y, notes=notes, legend=True)
    return axes
