"""Which tabulated noise meets a target, which is refuted, and the least that meets it; nothing is said between them."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from pbdist.arguments import check_either, checked_compositions, checked_delta, checked_epsilon
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import alike
from pbdist.query.arguments import one_number
from pbdist.query.study import Study
from pbdist.results import Verdict, verdict_of
from pbdist.store.cell_columns import cell_columns
from pbdist.store.layout import COLUMNS
from pbdist.types import Adjacency, FloatArray

_SCALE = "scale of the noise, in counts"
_EPSILON = "epsilon of the mechanism, in nats"
_MEAN = "mean of the noise, in counts"
_LIE = "probability of a lie"
#: The parameter that says how much noise a kind has, and what it is called. Of the other kinds it is the scale.
_AMOUNTS = {
    "ApproximateDP": ("epsilon", _EPSILON),
    "BoundedRange": ("eta", "range of the losses, in nats"),
    "KaryRandomizedResponse": ("p", _LIE),
    "LaplaceSum": ("scales", _SCALE),
    "NoisyCount": ("mean", _MEAN),
    "Poisson": ("mean", _MEAN),
    "RandomizedResponse": ("p", _LIE),
    "Staircase": ("epsilon", _EPSILON),
}
#: What else varies with it: a count's scale with its mean.
_BESIDE = {"NoisyCount": ("scale",), "Staircase": ("split",)}
#: Kinds of which a larger value means less noise.
_FALLING = ("ApproximateDP", "BoundedRange", "Staircase")
#: The columns that these parameters fill.
_COLUMNS_OF = {"epsilon": ("pair_epsilon",), "scales": ("scale", "second_scale")}


@dataclass(frozen=True)
class NoiseGroup:
    """Cells of a study that differ in their amount of noise alone.

    Attributes
    ----------
    label
        The label of the mechanism.
    what
        What the amount is, with its unit; empty for mechanisms without one, such as histograms.
    fixed
        The other parameters, by the names of `pbdist query`.
    cells
        Indices in the study, by increasing noise.
    amounts
        Of these cells; NaN without an amount.
    """

    label: str
    what: str
    fixed: Mapping[str, float | str]
    cells: tuple[int, ...]
    amounts: tuple[float, ...]


@dataclass(frozen=True)
class TabulatedNoise:
    """One noise setting of a study at a target.

    Attributes
    ----------
    cell
        Its index in the study.
    setting
        The setting as text.
    amount
        How much noise it has; NaN for mechanisms without an amount.
    lower, upper
        Bounds on δ at the target's r and ε, the larger of both directions. The lower one is NaN where none is known,
        and both are where nothing is computed.
    verdict
        Whether δ is at most the target's.
    """

    cell: int
    setting: str
    amount: float
    lower: float
    upper: float
    verdict: Verdict


@dataclass(frozen=True)
class NoiseChoice:
    """What a study proves of the noise settings of one group at a target.

    Attributes
    ----------
    label, what, fixed
        As of `NoiseGroup`.
    tried
        The settings, by increasing noise.
    smallest
        The setting with the least noise whose upper bound is at most the target's δ; None where there is none.
    refuted
        Of the settings with less noise than `smallest`, or of all where that is None: the one with the most noise whose
        lower bound exceeds the target's δ; None where there is none. Of noise between the two nothing is said.
    adjacency
        For which neighbours the settings are. Choices for different neighbours do not compare.
    """

    label: str
    what: str
    fixed: Mapping[str, float | str]
    tried: tuple[TabulatedNoise, ...]
    smallest: TabulatedNoise | None
    refuted: TabulatedNoise | None
    adjacency: Adjacency = Adjacency.AS_STATED


def noise_groups(columns: Mapping[str, Sequence[Any]]) -> tuple[NoiseGroup, ...]:
    """Return the cells of a study grouped by all their parameters but the amount of noise, in their first order.

    `columns` is as from `pbdist.store.layout.cell_columns`: one value a cell in each. Products, and the worst of
    several pairs, have an amount if all their factors have the same scale. The scale of a count varies with its mean.
    """
    found: dict[tuple[Any, ...], list[tuple[float, ...]]] = {}
    texts = zip(*(np.asarray(columns[name]).tolist() for name in ("mechanism", "kind", "factor", "pair")), strict=True)
    for index, (label, kind, factor, pair) in enumerate(texts):
        told = None if math.isnan(factor) else factor
        *order, rest = _amounts(kind, pair)
        # What has no amount is compared with nothing.
        key = (label, told, rest) if order else (label, told, rest, index)
        found.setdefault(key, []).append((*order, index))
    return tuple(_group(rows, columns) for rows in found.values())


def noise_choices(
    study: Study,
    *,
    compositions: int,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float,
    mechanism: str | None = None,
) -> tuple[NoiseChoice, ...]:
    """Judge every tabulated noise setting at a target: δ(ε) <= delta after r compositions.

    Guaranteed: a setting with the verdict YES has an upper bound on δ of at most ``delta``, one with NO a lower
    bound above it. At stored r and ε these are the stored bounds. Elsewhere they are what the stored ones prove, as
    `Study.delta` tells.

    Parameters
    ----------
    study
        The opened study.
    compositions
        The number r of compositions.
    epsilon, exp_epsilon
        Exactly one of ε in nats and e^ε.
    delta
        The largest δ that will do, from 0 to 1.
    mechanism
        The label of one mechanism of the study; by default all.

    Raises
    ------
    InvalidInputError
        An argument is out of its range, or the study has no such mechanism.
    StoreDamagedError
        The stored values cannot be read.
    """
    check_either(epsilon=epsilon, exp_epsilon=exp_epsilon)
    rounds = int(checked_compositions(one_number("compositions", compositions))[0])
    wanted = float(checked_delta(one_number("delta", delta))[0])
    if epsilon is not None:
        epsilon = float(checked_epsilon(one_number("epsilon", epsilon))[0])
    elif not 1.0 <= one_number("exp_epsilon", exp_epsilon) < math.inf:
        raise InvalidInputError(f"exp_epsilon: expected a finite number of at least 1, got {shown(exp_epsilon)}")
    cells = study.spec.cells
    if mechanism is not None and all(cell.label != mechanism for cell in cells):
        labels = ", ".join(dict.fromkeys(cell.label for cell in cells))
        raise InvalidInputError(f"mechanism: expected one of {labels}, got {shown(mechanism)}")
    groups = [group for group in noise_groups(cell_columns(cells)) if mechanism in (None, group.label)]
    lower, upper = _bounds(study, [cell for group in groups for cell in group.cells], rounds, epsilon, exp_epsilon)
    return tuple(_judged(study, group, lower, upper, wanted) for group in groups)


def _amounts(kind: str, pair: str) -> tuple[Any, ...]:
    """Return what cells are ordered by, nothing without an amount, and the rest of the pair's canonical form."""
    name, _ = _AMOUNTS.get(kind, ("scale", _SCALE))
    order: list[float] = []
    for parameter in (name, *_BESIDE.get(kind, ())):
        pattern = _pattern(parameter)
        values = {value.strip("[]").partition(",")[0] for value in pattern.findall(pair)}
        if len(values) != 1:
            return (pair,)
        order.append(float(values.pop()))
        pair = pattern.sub("", pair)
    order[0] = _noise(kind, order[0], pair)
    return (*order, pair)


def _noise(kind: str, value: float, rest: str) -> float:
    """Return what rises with the noise, of the value of the parameter that tells it."""
    if kind in _FALLING:
        return -value
    if kind == "RandomizedResponse":
        return min(value, 1.0 - value)
    if kind == "KaryRandomizedResponse":
        # Of a truth that is rarer than each lie: the lie of the p above 1/k with as many truths as it has lies.
        others = float(_pattern("k").findall(rest)[0]) - 1.0
        return min(1.0 - value, value * others)
    return value


@cache
def _pattern(parameter: str) -> re.Pattern[str]:
    """Return what finds the values of a parameter in canonical JSON."""
    return re.compile(rf'"{parameter}": (-?[0-9][0-9.e+-]*|\[[^\]]*\])')


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _group(rows: Sequence[tuple[float, ...]], columns: Mapping[str, Sequence[Any]]) -> NoiseGroup:
    ordered = sorted(rows)
    cells = tuple(int(row[-1]) for row in ordered)
    told = {name: columns[name][cells[0]] for name in COLUMNS if name in columns}
    kind, has_amount = str(told["kind"]), len(ordered[0]) > 1
    name, what = _AMOUNTS.get(kind, ("scale", _SCALE))
    amount_names = (name, *_BESIDE.get(kind, ())) if has_amount else ()
    varying = [column for each in amount_names for column in _COLUMNS_OF.get(each, (each,))]
    # What a composite pair is made of tells its amount too.
    varying += ["made_of"] if has_amount else []
    fixed = {
        column: value if isinstance(value, str) else float(value)
        for column, value in told.items()
        if column not in ("mechanism", *varying) and value != "" and not _is_nan(value)
    }
    sign = -1.0 if kind in _FALLING else 1.0
    amounts = [sign * row[0] if has_amount else math.nan for row in ordered]
    return NoiseGroup(str(told["mechanism"]), what if has_amount else "", fixed, cells, tuple(amounts))


def _bounds(
    study: Study, cells: Sequence[int], compositions: int, epsilon: float | None, exp_epsilon: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on δ of all cells of the study, NaN where nothing is known, or a cell is not asked for."""
    spec = study.spec
    # As in `Study.delta`: e^ε means a stored ε if that is the float nearest to its logarithm.
    loss = epsilon if exp_epsilon is None else math.log(exp_epsilon)
    if compositions in spec.compositions and loss in spec.epsilon:
        return study.maxima(spec.compositions.index(compositions), spec.epsilon.index(loss))
    return _bounds_between(study, cells, compositions, epsilon, exp_epsilon)


def _bounds_between(
    study: Study, cells: Sequence[int], compositions: int, epsilon: float | None, exp_epsilon: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return the same at an r and ε that are not stored."""
    lower, upper = (np.full(len(study.spec.cells), np.nan) for _ in range(2))
    for cell in cells:
        try:
            found, _ = study.queries.delta(
                study.spec.cells[cell].pair,
                {},
                compositions=compositions,
                epsilon=epsilon,
                exp_epsilon=exp_epsilon,
                direction="both",
                refine=False,
            )
        except OffGridError:
            continue
        lower[cell], upper[cell] = np.nan_to_num(float(found.lower), nan=0.0), float(found.upper)
    return lower, upper


def _judged(study: Study, group: NoiseGroup, lower: FloatArray, upper: FloatArray, delta: float) -> NoiseChoice:
    tried = []
    for index, amount in zip(group.cells, group.amounts, strict=True):
        cell, low, high = study.spec.cells[index], float(lower[index]), float(upper[index])
        verdict = verdict_of(low, high, delta)
        # Where no change attains the pair, the store has 0 in place of a bound that is not known.
        known = low if cell.pair.attained_by_some else math.nan
        tried.append(TabulatedNoise(index, cell.describe(), amount, known, high, verdict))
    smallest = next((one for one in tried if one.verdict is Verdict.YES), None)
    below = tried if smallest is None else tried[: tried.index(smallest)]
    refuted = next((one for one in reversed(below) if one.verdict is Verdict.NO), None)
    told = alike(study.spec.neighbours_of(study.spec.cells[one.cell]) for one in tried)
    return NoiseChoice(group.label, group.what, group.fixed, tuple(tried), smallest, refuted, told)
