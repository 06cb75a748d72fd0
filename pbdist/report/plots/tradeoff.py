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
_ALPHA: FloatArray = np.unique(np.concatenate((np.linspace(0.0, 1.0, 401), _ENDS, 1.0 - _ENDS)))


def tradeoff(
    bounds: Sources,
    *,
    mechanism: str | None = None,
    compositions: int | Sequence[int] | None = None,
    axes: "Axes | None" = None,
    **noise: Any,
) -> "Axes":
    """Draw the trade-off curve: the band between the bounds on the smallest type II error of a test.

    The smaller error of the two tests is drawn. Between the points the band is what follows as it does not rise.

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
    axes, title, labels, notes = frame.begin(curves, axes)
    widest = 0.0
    for one, label in zip(curves, labels, strict=True):
        style = frame.style_of(axes)
        name = label if len(curves) > 1 else title or "bounds"
        if np.isnan(one.upper).all():
            axes.plot([], [], label=f"{name}: {one.gap or 'not computed'}", **style)
            continue
        alpha, lower, upper = proved_errors(one)
        widest = max(widest, float(np.nanmax(one.upper - one.lower)))
        axes.fill_between(alpha, lower, upper, color=style["color"], alpha=0.3, linewidth=0.0)
        axes.plot(alpha, upper, color=style["color"], linestyle=style["linestyle"], linewidth=0.7)
        marks = np.searchsorted(alpha, one.places)
        axes.plot(alpha, lower, label=name, markevery=marks[:: max(1, marks.size // 12)].tolist(), **style)
    axes.plot([0.0, 1.0], [1.0, 0.0], color="0.4", linewidth=0.8, linestyle=":", label="no test can tell: 1 - α")
    axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
    most = f"upper - lower is at most {rounded_up(widest, 2)} at the points drawn"
    notes.append(f"{most}; the thick line is the lower bound, the promise")
    x, y = "type I error α, a probability", "least type II error β(α)"
    frame.finish(axes, title, x=x, y=y, notes=notes, legend=True)
    return axes


def _of_study(study: Study, settings: Sequence[StoredSetting], wanted: list[int] | None) -> Iterator[Curve]:
    """Yield the curves of settings, with the smaller error of both tests."""
    if wanted is None:
        every = list(study.spec.compositions)
        wanted = every if len(every) * len(settings) <= MAX_CURVES else [max(every)]
    nothing = np.full(_ALPHA.size, np.nan)
    for setting in settings:
        for r in wanted:
            row = row_of(setting.compositions.tolist(), r)
            lower, upper = nothing, nothing
            if not np.isnan(setting.log_upper[:, row]).all():
                found = study.tradeoff(compositions=r, type_one_error=_ALPHA, strict="silent", **setting.query)
                lower, upper = found.lower, found.upper
            yield setting.curve(_ALPHA, lower, upper, compositions=r)


def _of_dataset(dataset: xr.Dataset, columns: Mapping[str, str], wanted: list[int] | None) -> Iterator[Curve]:
    """Yield the curves of `pbdist.tradeoff_bounds`, with the smaller error where it has both tests."""
    if "type_two_error_upper" not in dataset or _ERROR not in dataset.coords:
        raise InvalidInputError("bounds: expected an opened study, or the Dataset of tradeoff_bounds")
    order = (DIRECTION, COMPOSITIONS, _ERROR)
    full = dataset.expand_dims([name for name in order if name not in dataset.dims]).sortby(_ERROR).transpose(*order)
    rounds = full[COMPOSITIONS].values.tolist()
    for r in rounds if wanted is None else wanted:
        row = row_of(rounds, r)
        lower, upper = (full[f"type_two_error_{side}"].values[:, row].min(axis=0) for side in ("lower", "upper"))
        yield Curve({**columns, COMPOSITIONS: int(r)}, full[_ERROR].values, lower, upper)


def proved_errors(curve: Curve) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the corners of two staircases between which a type II error that does not rise lies: α, lower, upper.

    Right behind an α the lower one falls to the bound of the next α; the upper one falls at each α.
    """
    low, high = curve.lower, curve.upper
    following, former = np.append(low[1:], low[-1]), np.append(high[0], high[:-1])
    lower, upper = np.stack((low, low, following), axis=1), np.stack((former, high, high), axis=1)
    return np.repeat(curve.places, 3)[1:-1], lower.ravel()[1:-1], upper.ravel()[1:-1]
