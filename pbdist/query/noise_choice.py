"""Which tabulated noise meets a target, which is refuted, and the least that meets it; nothing is said between them."""

import itertools
import json
import math
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from pbdist.arguments import checked_compositions, checked_delta
from pbdist.errors import InvalidInputError, OffGridError, shown
from pbdist.mechanisms import MECHANISMS, Pair, common_adjacency, noise_parameter, parameters_of
from pbdist.mechanisms.columns import factors_of, is_composite, is_text, known_columns
from pbdist.quantities import counted
from pbdist.query.settings import is_set, neighbours_words, single_number
from pbdist.query.stored import DAMAGED
from pbdist.query.study import Study, checked_losses, given_epsilon
from pbdist.results import Verdict, verdict_of
from pbdist.rounding import brief, exact, exponential, rounded_down, rounded_up
from pbdist.study import Cell
from pbdist.study.columns import cell_columns
from pbdist.tables import Column, Sheet, Shown
from pbdist.types import Adjacency, FloatArray

#: Groups of settings that are printed; CSV and JSON have all.
_MAX_GROUPS = 20


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
    """One noise setting of a study at a target."""

    #: Its index in the study.
    cell: int
    #: The setting as text.
    setting: str
    #: How much noise it has; NaN for mechanisms without an amount.
    amount: float
    #: Bounds on δ at the target's r and ε, the larger of both directions. The lower one is NaN where none is known,
    #: and both are where nothing is computed.
    lower: float
    upper: float
    #: Whether δ is at most the target's.
    verdict: Verdict


@dataclass(frozen=True)
class NoiseChoice:
    """What a study proves of the noise settings of one group at a target."""

    #: As of `NoiseGroup`.
    label: str
    what: str
    fixed: Mapping[str, float | str]
    #: The settings, by increasing noise. Of noise between `refuted` and `smallest` nothing is said.
    tried: tuple[TabulatedNoise, ...]
    #: For which neighbours the settings are. Choices for different neighbours do not compare.
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

    `columns` is as from `pbdist.study.columns.cell_columns`: one value a cell in each. A composite mechanism has
    an amount if all its factors with that amount have the same: of products of sums and counts that of the sums.
    """
    found: dict[tuple[Any, ...], list[tuple[int, _Noise]]] = {}
    texts = zip(*(np.asarray(columns[name]).tolist() for name in ("mechanism", "factor", "pair")), strict=True)
    for index, (label, factor, pair) in enumerate(texts):
        noise = (_noise(json.loads(pair)) if pair else None) or _NO_AMOUNT
        # A pair without an amount is compared with nothing.
        rest = noise.rest if noise.order else index
        found.setdefault((label, None if math.isnan(factor) else factor, rest), []).append((index, noise))
    groups = []
    for rows in found.values():
        apart: dict[tuple[float, ...], list[tuple[int, _Noise]]] = {}
        repeated = len({noise.order[:1] for _, noise in rows}) < len(rows)
        for index, noise in rows:
            # Cells of one amount differ in another one, as counts of one mean do.
            own = replace(noise, columns=noise.columns[: noise.first]) if repeated else noise
            apart.setdefault(noise.order[1:] if repeated else (), []).append((index, own))
        groups += [_group(part, columns) for part in apart.values()]
    return tuple(groups)


def _group(rows: Sequence[tuple[int, "_Noise"]], columns: Mapping[str, Sequence[Any]]) -> NoiseGroup:
    ordered = sorted(rows, key=lambda row: (row[1].order, row[0]))
    first, noise = ordered[0]
    # The description of a composite pair contains its amount too.
    varying = {"mechanism", *noise.columns, *(["made_of"] if noise.order else [])}
    values = {name: columns[name][first] for name in known_columns() if name in columns and name not in varying}
    fixed = {name: value if isinstance(value, str) else float(value) for name, value in values.items() if is_set(value)}
    cells, amounts = zip(*((cell, one.amount) for cell, one in ordered), strict=True)
    return NoiseGroup(str(columns["mechanism"][first]), noise.what, fixed, cells, amounts)


@dataclass(frozen=True)
class _Noise:
    """How much noise a pair has."""

    #: How much it is, and of what.
    amount: float
    what: str
    #: What rises with the noise: the amount, and what varies with it.
    order: tuple[float, ...]
    #: Their columns; so many of them are of the amount itself.
    columns: tuple[str, ...]
    first: int
    #: All else of the canonical form.
    rest: str


_NO_AMOUNT = _Noise(math.nan, "", (), (), 0, "")


def _noise(form: Mapping[str, Any]) -> _Noise | None:
    """Return the noise of a canonical form; None where it has no amount."""
    kind = MECHANISMS[form["mechanism"]]
    if is_composite(kind):
        return _noise_of_factors(form)
    sized = noise_parameter(kind)
    names = kind.noise_parameters or (() if sized is None else (sized.name,))
    if not names:
        return None
    amount, what = kind.noise_amount(form)
    one = parameters_of(kind)[names[0]]
    # Of several numbers the first is the amount.
    more = form[names[0]][1:] if isinstance(form[names[0]], list) else []
    order, columns = [-amount if one.falls_with_noise else amount, *more], [*one.columns]
    rest, own = {**form, names[0]: None}, len(columns) - len(more)
    for name in names[1:]:
        # Noise within it, or a number.
        inner = _noise(form[name]) if isinstance(form[name], Mapping) else None
        order += [float(form[name])] if inner is None else inner.order
        columns += parameters_of(kind)[name].columns if inner is None else inner.columns
        rest[name] = None if inner is None else inner.rest
    return _Noise(amount, what, tuple(order), tuple(columns), own, json.dumps([what, rest], sort_keys=True))


def _noise_of_factors(form: Mapping[str, Any]) -> _Noise | None:
    """Return the same of a composite pair: of one amount, that in the first of all columns."""
    found = [noise for noise in map(_noise, factors_of(form)) if noise is not None]
    first = next((name for name in known_columns() if any(name in noise.columns for noise in found)), None)
    own = [noise for noise in found if first in noise.columns]
    if not own or len({noise.order for noise in own}) > 1:
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
    return replace(own[0], what="; ".join(dict.fromkeys(noise.what for noise in own)), rest=rest)


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
    bound above it. At stored r and ε these are the stored bounds, and elsewhere those of `Study.delta`. What is refuted
    at a smaller number of compositions is refuted, also beyond the largest stored one.

    Parameters
    ----------
    study
        The opened study.
    compositions
        The number r of compositions.
    epsilon, exp_epsilon
        Exactly one of ε in nats and e^ε.
    delta
        The largest δ that meets the target, above 0 and below 1.
    mechanism
        The label of one mechanism of the study; by default all.

    Raises
    ------
    InvalidInputError
        An argument is out of its range, or the study has no such mechanism.
    StoreDamagedError
        The stored values cannot be read.
    """
    given = given_epsilon(epsilon, exp_epsilon)
    rounds = int(checked_compositions(single_number("compositions", compositions))[0])
    wanted = float(checked_delta(single_number("delta", delta))[0])
    point = {name: single_number(name, value) for name, value in given.items()}
    # As in `Study.delta`: e^ε means a stored ε if that is the float nearest to its logarithm.
    loss = float(checked_losses({name: np.array([value]) for name, value in point.items()}).nearest[0])
    every = noise_groups(cell_columns(study.spec.cells))
    groups = [group for group in every if mechanism in (None, group.label)]
    if not groups:
        labels = ", ".join(dict.fromkeys(group.label for group in every))
        raise InvalidInputError(f"mechanism: expected one of {labels}, got {shown(mechanism)}")
    spec = study.spec
    if rounds in spec.compositions and loss in spec.epsilon:
        lower, upper = study.maxima(spec.compositions.index(rounds), spec.epsilon.index(loss))
    else:
        lower, upper = (np.full(len(spec.cells), np.nan) for _ in range(2))
        for cell in (cell for group in groups for cell in group.cells):
            lower[cell], upper[cell] = _bounds(study, spec.cells[cell].pair, rounds, point, wanted)
    return tuple(_choice(study, group, lower, upper, wanted) for group in groups)


def _bounds(study: Study, pair: Pair, rounds: int, point: Mapping[str, Any], wanted: float) -> tuple[float, float]:
    """Return bounds on δ at any r and ε; of an r without an upper bound only if it is refuted, else NaN."""
    with suppress(OffGridError):
        found = study.delta(pair, compositions=rounds, **point, strict="silent")
        return np.nan_to_num(float(found.lower), nan=0.0), float(found.upper)
    with suppress(OffGridError):
        # So many are refuted at a stored number, and so are all larger ones.
        refuted = study.compositions(pair, **point, delta=wanted, strict="silent").upper + 1.0
        if refuted <= rounds:
            largest = min(rounds, max(int(refuted), study.spec.compositions[-1]))
            with suppress(OffGridError):
                return float(study.delta(pair, compositions=largest, **point, strict="silent").lower), 1.0
            return float(study.delta(pair, compositions=int(refuted), **point, strict="silent").lower), 1.0
    return math.nan, math.nan


def _choice(study: Study, group: NoiseGroup, lower: FloatArray, upper: FloatArray, delta: float) -> NoiseChoice:
    tried = []
    cells = [study.spec.cells[index] for index in group.cells]
    for index, cell, amount in zip(group.cells, cells, group.amounts, strict=True):
        low, high = float(lower[index]), float(upper[index])
        # Where no change attains the pair, the store has 0 in place of a bound that is not known.
        known = low if cell.pair.attained_by_some else math.nan
        tried.append(TabulatedNoise(index, cell.describe(), amount, known, high, verdict_of(low, high, delta)))
    relations = common_adjacency(map(study.spec.neighbours_of, cells))
    return NoiseChoice(group.label, group.what, group.fixed, tuple(tried), relations)


def target_sheet(study: Study, *, cells: Collection[Cell] | None = None, needed: bool = False, **target: Any) -> Sheet:
    """Return what a study proves at a target as a table: for each group of settings the boundary, and counts.

    A row for each group of settings that differ in their noise alone: the least noise that meets the target and the
    upper bound on its δ, the most noise that is refuted and the lower bound on its δ, and how many settings meet it,
    are refuted, undecided, not computed, or damaged. Where no order of noise is proved, more than the least may be
    refuted. The target and errors are those of `noise_choices`; `cells` are those of the study that count, by default
    all. If verdicts are `needed`, a warning tells of damaged settings, and none at all is an `OffGridError`.
    """
    choices = noise_choices(study, **target)
    if cells is not None and len(cells) != len(study.spec.cells):
        wanted = set(cells)
        remaining = [tuple(each for each in one.tried if study.spec.cells[each.cell] in wanted) for one in choices]
        choices = tuple(replace(one, tried=tried) for one, tried in zip(choices, remaining, strict=True) if tried)
    tried = [each for one in choices for each in one.tried]
    missing = [each.cell for each in tried if each.verdict is Verdict.MISSING]
    damaged = {cell for cell, why in study.gaps(missing).items() if why == DAMAGED}
    r, delta, power = target["compositions"], target["delta"], target.get("exp_epsilon")
    check, most = f"pbdist status {study.where} --check", study.spec.compositions[-1]
    if needed and len(missing) == len(tried) and not damaged:
        sound = f"{most}, the largest stored number, in a store that is complete and sound ({check})"
        raise OffGridError(f"compositions: expected at most {sound}, got {r}, at which no noise setting has bounds")
    if needed and damaged:
        lost = f"the bounds of {counted(len(damaged), 'noise setting')} are damaged and cannot be read"
        if len(missing) == len(tried):
            raise OffGridError(f"{study.where}: {lost}: {check} names the files")
        warnings.warn(f"{study.where}: {lost}: {check} names the files", stacklevel=2)
    loss = target["epsilon"] if power is None else math.log(power)
    # Parameters in which the groups of one label differ.
    pairs = {name: {(one.label, one.fixed.get(name)) for one in choices} for name in known_columns()}
    labels = {one.label for one in choices}
    names = [name for name in known_columns() if len(pairs[name]) > len(labels)]
    varying = [name for name in names if name not in ("kind", "made_of") or names == [name]]
    counts = [
        Counter("damaged" if each.cell in damaged else each.verdict.value for each in one.tried) for one in choices
    ]
    words = [*(verdict.value for verdict in Verdict), "damaged"]
    alone = len({(one.label, one.adjacency) for one in choices}) == 1
    columns = (
        Column("mechanism", "mechanism", number=False, shared=alone),
        *(Column(name, name, printed=False, shared=True) for name in ("compositions", "epsilon", "delta")),
        *(Column(name, name, number=not is_text(name)) for name in varying),
        Column("noise", "noise", number=False, printed=False),
        Column("least_that_meets", "meets with"),
        Column("delta_upper", "δ upper"),
        Column("most_refuted", "refuted with"),
        Column("delta_lower", "δ lower"),
        *(Column(verdict.replace(" ", "_"), verdict, printed=any(one[verdict] for one in counts)) for verdict in words),
        Column("adjacency", "neighbours", number=False, printed=False, shared=alone),
    )
    rows = []
    for one, count in zip(choices, counts, strict=True):
        refuted = next((each for each in reversed(one.tried) if each.verdict is Verdict.REFUTED), None)
        low = None if refuted is None else Shown(rounded_down(refuted.lower), refuted.lower)
        high = None if one.smallest is None else Shown(rounded_up(one.smallest.upper), one.smallest.upper)
        shared = (one.label, r, loss, delta, *(one.fixed.get(name) for name in varying), one.what)
        boundary = (_amount(one.smallest), high, _amount(refuted), low)
        rows.append((*shared, *boundary, *(count[verdict] for verdict in words), one.adjacency.value))
    power = exponential(loss)
    # One of both is exact.
    short = float(f"{power:.6g}") == power and math.log(power) == loss
    at = f"r = {r}, ε = {brief(loss) if short else exact(loss)}, e^ε = {brief(power)}"
    caption = [f"target: δ <= {exact(delta)} at {at}"]
    caption += [neighbours_words([(one.label, one.adjacency) for one in choices])] if choices else []
    amounts = dict.fromkeys(one.what for one in choices if one.what)
    notes = ["meets with, refuted with: the least noise that meets the target, and the most that is refuted"]
    counted_words = ", ".join(word for word in words if any(one[word] for one in counts))
    notes += [f"{counted_words}: numbers of settings"]
    notes += [f"noise: {'; '.join(amounts)}"] if amounts else []
    if len(rows) > _MAX_GROUPS:
        every = f"pbdist query {study.where} with this target and --format csv"
        notes.append(f"the first {_MAX_GROUPS} of {len(rows):,} groups of settings; all of them: {every}")
    return Sheet(columns, tuple(rows), tuple(caption), tuple(notes), _MAX_GROUPS)


def _amount(one: TabulatedNoise | None) -> Shown | float:
    """Return an amount of noise as a cell: the setting where it has none."""
    if one is None:
        return Shown("none", None)
    return Shown(one.setting, one.setting) if math.isnan(one.amount) else one.amount
