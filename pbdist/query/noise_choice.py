"""Which tabulated noise meets a target, which is refuted, and the least that meets it; nothing is said between them."""

import itertools
import json
import math
import shlex
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbdist.arguments import check_either, checked_compositions, checked_delta, checked_epsilon
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import MECHANISMS, alike, noise_parameter, parameters_of
from pbdist.mechanisms.columns import factors_of, is_composite, is_text, known_columns
from pbdist.query.lookup import is_set, one_number
from pbdist.query.settings import neighbours_words
from pbdist.query.study import Study
from pbdist.results import Verdict, verdict_of
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.study import Cell
from pbdist.study.columns import cell_columns
from pbdist.study.spec import exponential
from pbdist.tables import Cell as TableCell
from pbdist.tables import Column, Sheet, Shown
from pbdist.types import Adjacency, FloatArray


@dataclass(frozen=True)
class NoiseGroup:
    """Cells of a study that differ in their amount of noise alone; no two have the same amount.

    `what` is the amount with its unit, empty for mechanisms without one, such as histograms; `fixed` are the other
    parameters, by the names of `pbdist query`. `cells` are indices in the study, by increasing noise; `amounts` theirs,
    NaN without an amount.
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
        The settings, by increasing noise. Of noise between `refuted` and `smallest` nothing is said.
    adjacency
        For which neighbours the settings are. Choices for different neighbours do not compare.
    """

    label: str
    what: str
    fixed: Mapping[str, float | str]
    tried: tuple[TabulatedNoise, ...]
    adjacency: Adjacency = Adjacency.AS_STATED

    @property
    def smallest(self) -> TabulatedNoise | None:
        """The setting with the least noise whose upper bound is at most the target's δ."""
        return next((one for one in self.tried if one.verdict is Verdict.MEETS), None)

    @property
    def refuted(self) -> TabulatedNoise | None:
        """Of the settings with less noise than `smallest`, the noisiest whose lower bound exceeds the target's δ."""
        below = itertools.takewhile(lambda one: one.verdict is not Verdict.MEETS, self.tried)
        return next((one for one in reversed([*below]) if one.verdict is Verdict.REFUTED), None)


def noise_groups(columns: Mapping[str, Sequence[Any]]) -> tuple[NoiseGroup, ...]:
    """Return the cells of a study grouped by all their parameters but the amount of noise, in their first order.

    `columns` is as from `pbdist.study.columns.cell_columns`: one value a cell in each. What is made of others has
    an amount if all its factors with that amount have the same: of products of sums and counts that of the sums.
    """
    found: dict[tuple[Any, ...], list[tuple[int, _Noise | None]]] = {}
    texts = zip(*(np.asarray(columns[name]).tolist() for name in ("mechanism", "factor", "pair")), strict=True)
    for index, (label, factor, pair) in enumerate(texts):
        noise = _noise(json.loads(pair)) if pair else None
        told = None if math.isnan(factor) else factor
        # What has no amount is compared with nothing.
        key = (label, told, index) if noise is None else (label, told, noise.rest)
        found.setdefault(key, []).append((index, noise))
    return tuple(_group(part, columns) for rows in found.values() for part in _comparable(rows))


def _comparable(rows: Sequence[tuple[int, "_Noise | None"]]) -> Iterator[Sequence[tuple[int, "_Noise | None"]]]:
    """Yield the rows of a group; those of one amount that differ in another one, as counts of one mean, apart."""
    known = [(index, noise) for index, noise in rows if noise is not None]
    if not known or len({noise.order[0] for _, noise in known}) == len(known):
        yield rows
        return
    apart: dict[tuple[float, ...], list[tuple[int, _Noise | None]]] = {}
    for index, noise in known:
        apart.setdefault(noise.order[1:], []).append((index, replace(noise, columns=noise.columns[: noise.first])))
    yield from apart.values()


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

    Guaranteed: a setting that meets it has an upper bound on δ of at most ``delta``, one that is refuted a lower
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
        The largest δ that meets the target, from 0 to 1.
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
    every = noise_groups(cell_columns(study.spec.cells))
    groups = [group for group in every if mechanism in (None, group.label)]
    if not groups:
        labels = ", ".join(dict.fromkeys(group.label for group in every))
        raise InvalidInputError(f"mechanism: expected one of {labels}, got {shown(mechanism)}")
    lower, upper = _bounds(study, [cell for group in groups for cell in group.cells], rounds, epsilon, exp_epsilon)
    return tuple(_judged(study, group, lower, upper, wanted) for group in groups)


#: Groups of settings that are printed; CSV and JSON have all.
_MAX_GROUPS = 20


def target_sheet(
    study: Study,
    *,
    compositions: int,
    epsilon: float | None = None,
    exp_epsilon: float | None = None,
    delta: float,
    mechanism: str | None = None,
    cells: Collection[Cell] | None = None,
) -> Sheet:
    """Return what a study proves at a target as a table: for each group of settings the boundary, and counts.

    A row for each group of settings that differ in their noise alone: the least noise that meets the target and the
    upper bound on its δ, the most noise that is refuted and the lower bound on its δ, and how many settings meet it,
    are refuted, undecided, and not computed. Where no order of noise is proved, more than the least may be refuted.
    Parameters and errors are those of `noise_choices`; `cells` are those of the study that count, by default all.
    """
    point = {"compositions": compositions, "epsilon": epsilon, "exp_epsilon": exp_epsilon}
    choices = noise_choices(study, **point, delta=delta, mechanism=mechanism)  # type: ignore[arg-type]
    if cells is not None and len(cells) != len(study.spec.cells):
        wanted = set(cells)
        kept = [[each for each in one.tried if study.spec.cells[each.cell] in wanted] for one in choices]
        choices = tuple(replace(one, tried=tuple(tried)) for one, tried in zip(choices, kept, strict=True) if tried)
    # Parameters in which the groups of one label differ.
    pairs = {name: {(one.label, one.fixed.get(name)) for one in choices} for name in known_columns()}
    labels = {one.label for one in choices}
    names = [name for name in known_columns() if len(pairs[name]) > len(labels)]
    varying = [name for name in names if name not in ("kind", "made_of") or names == [name]]
    counts = [Counter(each.verdict for each in one.tried) for one in choices]
    loss = math.log(exp_epsilon) if exp_epsilon is not None else epsilon or 0.0
    columns = (
        *(Column(name, name, printed=False, shared=True) for name in ("compositions", "epsilon", "delta")),
        Column("mechanism", "mechanism", number=False),
        *(Column(name, name, number=not is_text(name)) for name in varying),
        Column("noise", "noise", number=False, printed=False),
        Column("least_that_meets", "meets with"),
        Column("delta_upper", "δ upper"),
        Column("most_refuted", "refuted with"),
        Column("delta_lower", "δ lower"),
        *(
            Column(verdict.value.replace(" ", "_"), verdict.value, printed=any(one[verdict] for one in counts))
            for verdict in Verdict
        ),
        Column("adjacency", "neighbours", number=False, printed=False),
    )
    rows = [
        (
            *(compositions, loss, delta),
            one.label,
            *(one.fixed.get(name) for name in varying),
            one.what,
            *_boundary(one.smallest, "upper"),
            *_boundary(_last(one.tried, Verdict.REFUTED), "lower"),
            *(count[verdict] for verdict in Verdict),
            one.adjacency.value,
        )
        for one, count in zip(choices, counts, strict=True)
    ]
    relations = [(one.label, one.adjacency) for one in choices]
    power = exponential(loss)
    # One of both is exact.
    short = float(f"{power:.6g}") == power and math.log(power) == loss
    at = f"r = {compositions}, ε = {f'{loss:.6g}' if short else exact(loss)}, e^ε = {power:.6g}"
    amounts = dict.fromkeys(one.what for one in choices if one.what)
    notes = ["with the least noise that meets the target, and the most that is refuted"]
    notes += [f"noise: {'; '.join(amounts)}"] if amounts else []
    if len(rows) > _MAX_GROUPS:
        words = ["pbdist", "query", study.where, "--compositions", f"{compositions}", "--epsilon", repr(loss)]
        whole = shlex.join([*words, "--delta", repr(delta), "--format", "csv"])
        notes.append(f"the first {_MAX_GROUPS} of {len(rows):,} groups of settings; all of them: {whole}")
    return Sheet(
        columns,
        tuple(rows),
        (f"target: δ <= {delta!r} at {at}", *([neighbours_words(relations)] if relations else [])),
        tuple(notes),
        _MAX_GROUPS,
    )


def _boundary(one: TabulatedNoise | None, side: str) -> tuple[TableCell, TableCell]:
    """Return an amount of noise, and the bound on its δ, as cells."""
    if one is None:
        return Shown("none", None), None
    bound = rounded_up(one.upper) if side == "upper" else rounded_down(one.lower)
    amount = Shown(one.setting, one.setting) if math.isnan(one.amount) else one.amount
    return amount, Shown(bound, one.upper if side == "upper" else one.lower)


def _last(tried: Sequence[TabulatedNoise], verdict: Verdict) -> TabulatedNoise | None:
    """Return the noisiest setting with a verdict."""
    return next((one for one in reversed(tried) if one.verdict is verdict), None)


@dataclass(frozen=True)
class _Noise:
    """How much noise a pair has."""

    #: How much it is, and of what.
    amount: float
    what: str
    #: What rises with the noise: the amount, and what varies with it.
    order: tuple[float, ...]
    #: Those that they fill; so many of them are of the amount itself.
    columns: tuple[str, ...]
    first: int
    #: All else of the canonical form.
    rest: str


def _noise(form: Mapping[str, Any]) -> _Noise | None:
    """Return how much noise a canonical form says there is; None where nothing does."""
    kind = MECHANISMS[form["mechanism"]]
    if is_composite(kind):
        return _noise_of_factors(form)
    sized = noise_parameter(kind)
    names = kind.noise_parameters or (() if sized is None else (sized.name,))
    if not names:
        return None
    amount, what = kind.noise_amount(form)
    one = parameters_of(kind)[names[0]]
    order, columns, rest = [-amount if one.falls_with_noise else amount], [*one.columns], {**form, names[0]: None}
    for name in names[1:]:
        # Noise within it, or a number.
        inner = _noise(form[name]) if isinstance(form[name], Mapping) else None
        order += [float(form[name])] if inner is None else inner.order
        columns += parameters_of(kind)[name].columns if inner is None else inner.columns
        rest[name] = None if inner is None else inner.rest
    return _Noise(amount, what, tuple(order), tuple(columns), len(one.columns), json.dumps(rest, sort_keys=True))


def _noise_of_factors(form: Mapping[str, Any]) -> _Noise | None:
    """Return the same of what is made of others: of one amount, that which the first columns hold, in their order."""
    found = [noise for noise in map(_noise, factors_of(form)) if noise is not None]
    first = next((name for name in known_columns() if any(name in noise.columns for noise in found)), None)
    telling = [noise for noise in found if first in noise.columns]
    if not telling or len({noise.order for noise in telling}) > 1:
        return None

    def rest_of(value: Any) -> Any:
        if isinstance(value, list):
            return [rest_of(one) for one in value]
        if not isinstance(value, Mapping):
            return value
        if is_composite(MECHANISMS[value["mechanism"]]):
            return {name: rest_of(one) for name, one in value.items()}
        noise = _noise(value)
        return value if noise is None or first not in noise.columns else noise.rest

    rest = json.dumps(rest_of(form), sort_keys=True)
    return replace(telling[0], what="; ".join(dict.fromkeys(noise.what for noise in telling)), rest=rest)


def _group(rows: Sequence[tuple[int, _Noise | None]], columns: Mapping[str, Sequence[Any]]) -> NoiseGroup:
    ordered = sorted(rows, key=lambda row: (() if row[1] is None else row[1].order, row[0]))
    first, noise = ordered[0]
    # What a pair is made of tells its amount too.
    varying = ("mechanism",) if noise is None else ("mechanism", "made_of", *noise.columns)
    told = {name: columns[name][first] for name in known_columns() if name in columns and name not in varying}
    fixed = {name: value if isinstance(value, str) else float(value) for name, value in told.items() if is_set(value)}
    cells, amounts = zip(*((cell, math.nan if one is None else one.amount) for cell, one in ordered), strict=True)
    return NoiseGroup(str(columns["mechanism"][first]), "" if noise is None else noise.what, fixed, cells, amounts)


def _bounds(
    study: Study, cells: Sequence[int], compositions: int, epsilon: float | None, exp_epsilon: float | None
) -> tuple[FloatArray, FloatArray]:
    """Return bounds on δ of all cells of the study, NaN where nothing is known, or a cell is not asked for."""
    spec, point = study.spec, {"compositions": compositions, "epsilon": epsilon, "exp_epsilon": exp_epsilon}
    # As in `Study.delta`: e^ε means a stored ε if that is the float nearest to its logarithm.
    loss = epsilon if exp_epsilon is None else math.log(exp_epsilon)
    if compositions in spec.compositions and loss in spec.epsilon:
        return study.maxima(spec.compositions.index(compositions), spec.epsilon.index(loss))
    lower, upper = (np.full(len(spec.cells), np.nan) for _ in range(2))
    for cell in cells:
        with suppress(OffGridError):
            found = study.delta(spec.cells[cell].pair, **point, strict="silent")  # type: ignore[arg-type]
            lower[cell], upper[cell] = np.nan_to_num(float(found.lower), nan=0.0), float(found.upper)
    return lower, upper


def _judged(study: Study, group: NoiseGroup, lower: FloatArray, upper: FloatArray, delta: float) -> NoiseChoice:
    tried = []
    cells = [study.spec.cells[index] for index in group.cells]
    for index, cell, amount in zip(group.cells, cells, group.amounts, strict=True):
        low, high = float(lower[index]), float(upper[index])
        # Where no change attains the pair, the store has 0 in place of a bound that is not known.
        known = low if cell.pair.attained_by_some else math.nan
        tried.append(TabulatedNoise(index, cell.describe(), amount, known, high, verdict_of(low, high, delta)))
    relations = alike(map(study.spec.neighbours_of, cells))
    return NoiseChoice(group.label, group.what, group.fixed, tuple(tried), relations)
