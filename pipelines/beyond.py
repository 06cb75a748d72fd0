"""What the 2018 paper leaves open, as tables in Markdown read from stores.

    python pipelines/beyond.py laplace    Laplace against Gaussian noise of half the variance
    python pipelines/beyond.py optimal    which of five kinds of noise of equal cost needs the least ε
    python pipelines/beyond.py buckets    how the bounds of privacy buckets close as the buckets grow

First compute their studies by ``pbdist run``: ``pipelines/laplace-against-gauss.yaml``,
``pipelines/optimal-mechanisms.yaml``, and ``pipelines/bucket-convergence.yaml`` with those whose names go on with a
number of buckets. Bounds are rounded outwards. The first two commands add the points that they lack to the stores.
"""

import argparse
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from statistics import NormalDist

import numpy as np

from pbdist import Laplace, PrecisionWarning, open_study
from pbdist.rounding import rounded_down, rounded_up
from pbdist.types import FloatArray

__all__ = [
    "Gap",
    "Need",
    "Width",
    "bucket_widths",
    "epsilon_needs",
    "gap_expansion",
    "gap_limit",
    "gaps",
    "laplace_loss_moments",
    "main",
    "widest",
]

#: δ of the ratios of ε.
GAP_DELTAS = (1e-2, 1e-4)
#: δ of the tables of ε, and ε of the tables of δ, of noise of equal cost.
COST_DELTA, COST_EPSILON = 1e-5, 1.0
#: Numbers of buckets by the end of a study's name; 0 is the tight interval.
BUCKETS = {"": 0, **{f"-1e{power}": 10**power for power in range(3, 8)}}
#: The study whose first grid is for at most 512 rounds.
FEW_ROUNDS = {"-1e4-r512": 10**4}
#: Points of the table of all numbers of buckets, and the least δ at which widths count.
BUCKET_POINTS = (
    ("Laplace", 512, 0.3),
    ("Gaussian", 512, 0.3),
    ("noisy SGD", 2**16, 1.0),
    ("Laplace", 2**18, 4.0),
    ("Gaussian", 2**18, 4.0),
    ("noisy SGD", 2**18, 2.0),
)
WIDTH_FLOOR = 1e-8
#: ε is a number where its bounds are this close, and else a lower bound.
_CLOSE = 0.01


@dataclass(frozen=True)
class Gap:
    """By how much ε of Laplace noise differs from that of Gaussian noise, as a part of the latter.

    Attributes
    ----------
    scale, delta, compositions
        The point.
    lower, upper
        Bounds on ε_Laplace / ε_Gauss - 1; NaN where both ε are 0, infinite where ε_Gauss may be 0.
    """

    scale: float
    delta: float
    compositions: int
    lower: float
    upper: float


@dataclass(frozen=True)
class Need:
    """What a kind of noise of some cost needs after some rounds.

    Attributes
    ----------
    cost, kind, compositions
        The label in the study, the kind of noise, and r.
    epsilon_lower, epsilon_upper
        Bounds on ε at `COST_DELTA`; the upper one is infinite beyond the ε of the study.
    delta_lower, delta_upper
        Bounds on δ at `COST_EPSILON`.
    """

    cost: str
    kind: str
    compositions: int
    epsilon_lower: float
    epsilon_upper: float
    delta_lower: float
    delta_upper: float


@dataclass(frozen=True)
class Width:
    """Bounds on δ with some number of buckets; 0 buckets stand for the tight interval."""

    buckets: int
    mechanism: str
    compositions: int
    epsilon: float
    lower: float
    upper: float

    @property
    def width(self) -> float:
        """Upper / lower - 1, rounded up; infinite where nothing is known from below."""
        if self.lower <= 0.0:
            return math.inf if self.upper > 0.0 else 0.0
        return _float_up(Fraction(self.upper) / Fraction(self.lower) - 1)


def laplace_loss_moments(scale: float) -> tuple[float, float]:
    """Return mean and variance of the loss of Laplace noise at sensitivity 1 (docs/evaluation-theory.md)."""
    t = 1.0 / scale
    if t < 0.05:
        # Their series, as the closed forms lose digits; what is left out is below 1e-9 of them.
        mean = t * t * math.fsum((-t) ** k / math.factorial(k + 2) for k in range(8))
        variance = math.fsum((-t) ** k * (4 * k - 2 - 2**k) / math.factorial(k) for k in range(2, 10))
        return mean, variance
    return t - 1.0 + math.exp(-t), 3.0 - (2.0 + 4.0 * t) * math.exp(-t) - math.exp(-2.0 * t)


def gap_limit(scale: float) -> float:
    """Return the limit of ε_Laplace / ε_Gauss - 1 as r grows, for any δ: Proposition 1 of docs/evaluation-theory.md."""
    return 2.0 * scale * scale * laplace_loss_moments(scale)[0] - 1.0


def gap_expansion(scale: float, compositions: int, delta: float) -> float:
    """Return about the same for some r and δ: Proposition 2 of docs/evaluation-theory.md without its remainder."""
    root, z = math.sqrt(compositions), NormalDist().inv_cdf(1.0 - delta)
    mean, variance = laplace_loss_moments(scale)
    gaussian = compositions / (2.0 * scale * scale) + z * root / scale
    return (compositions * mean + z * root * math.sqrt(variance)) / gaussian - 1.0


def gaps(store: str | Path, *, refine: bool = True) -> list[Gap]:
    """Return the gap at every scale, δ and r of a store of ``laplace-against-gauss``.

    With `refine` the points next to every ε are computed and added to the store.
    """
    study = open_study(store)
    rounds, delta = np.array(study.spec.compositions), np.array(GAP_DELTAS)
    found = []
    for scale in [cell.pair.scale for cell in study.spec.cells if isinstance(cell.pair, Laplace)]:
        laplace, gaussian = (
            study.epsilon(label, scale=scale, compositions=rounds, delta=delta[:, np.newaxis], refine=refine)
            for label in ("Laplace", "Gaussian")
        )
        lower = _gaps_of(laplace.lower, gaussian.upper, up=False)
        upper = _gaps_of(laplace.upper, gaussian.lower, up=True)
        found += [
            Gap(scale, float(delta[j]), r, float(lower[j, i]), float(upper[j, i]))
            for j in range(delta.size)
            for i, r in enumerate(rounds.tolist())
        ]
    return found


def epsilon_needs(store: str | Path, *, refine: bool = True) -> list[Need]:
    """Return what every cell of a store of ``optimal-mechanisms`` needs at every r, in the order of the study.

    With `refine` the points next to every ε are computed and added to the store.
    """
    study = open_study(store)
    rounds = np.array(study.spec.compositions)
    found = []
    for cell in study.spec.cells:
        with warnings.catch_warnings():
            # The tables tell where bounds are wide.
            warnings.simplefilter("ignore", PrecisionWarning)
            epsilon = study.epsilon(cell.pair, compositions=rounds, delta=COST_DELTA, refine=refine)
            delta = study.delta(cell.pair, compositions=rounds, epsilon=COST_EPSILON)
        bounds = (epsilon.lower, epsilon.upper, delta.lower, delta.upper)
        found += [
            Need(cell.label, type(cell.pair).__name__, r, *(float(values[i]) for values in bounds))
            for i, r in enumerate(rounds.tolist())
        ]
    return found


def bucket_widths(folder: Path, names: Mapping[str, int] = BUCKETS) -> list[Width]:
    """Return the bounds of studies ``bucket-convergence*`` in a folder, those that are there."""
    found = []
    for name, buckets in names.items():
        store = folder / f"bucket-convergence{name}.zarr"
        if not store.exists():
            continue
        study = open_study(store)
        rounds, epsilon = np.array(study.spec.compositions), np.array(study.spec.epsilon)
        for cell in study.spec.cells:
            delta = study.delta(cell.pair, compositions=rounds[:, np.newaxis], epsilon=epsilon)
            found += [
                Width(buckets, cell.label, r, e, float(delta.lower[i, j]), float(delta.upper[i, j]))
                for i, r in enumerate(rounds.tolist())
                for j, e in enumerate(epsilon.tolist())
            ]
    return found


def widest(widths: Iterable[Width], *, buckets: int, floor: float) -> dict[tuple[str, int], Width]:
    """Return for each mechanism and r the widest bounds of all ε at which δ is surely above `floor`."""
    found: dict[tuple[str, int], Width] = {}
    every = list(widths)
    # By the best lower bound of all, as few buckets may show nothing from below.
    surely = {(one.mechanism, one.compositions, one.epsilon) for one in every if one.lower >= floor}
    for one in every:
        key = (one.mechanism, one.compositions)
        if one.buckets == buckets and (*key, one.epsilon) in surely:
            found[key] = max(one, found.get(key, one), key=lambda width: width.width)
    return found


def _gaps_of(first: FloatArray, second: FloatArray, *, up: bool) -> FloatArray:
    """Return first / second - 1, rounded to one side."""
    rounded = _float_up if up else _float_down

    def one(a: float, b: float) -> float:
        if b == 0.0:
            return math.nan if a == 0.0 else math.inf
        return rounded(Fraction(a) / Fraction(b) - 1)

    return np.asarray(np.vectorize(one, otypes=[float])(first, second))


def _float_up(value: Fraction) -> float:
    found = float(value)
    return found if Fraction(found) >= value else math.nextafter(found, math.inf)


def _float_down(value: Fraction) -> float:
    return -_float_up(-value)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for row in rows:
        yield f"| {' | '.join(row)} |"


def _percent(value: float, *, up: bool) -> str:
    """Return a part as percent with three decimals, rounded to one side."""
    scaled = Fraction(value) * 100_000
    return f"{(math.ceil(scaled) if up else math.floor(scaled)) / 1000:.3f}"


def laplace_lines(folder: Path) -> Iterator[str]:
    """Yield the table of ε_Laplace / ε_Gauss - 1 in percent."""
    found = gaps(folder / "laplace-against-gauss.zarr")
    scales = list(dict.fromkeys(gap.scale for gap in found))
    by_point = {(gap.scale, gap.delta, gap.compositions): gap for gap in found}
    for delta in GAP_DELTAS:
        yield f"ε_Laplace / ε_Gauss - 1 in percent at δ = {delta:g} (expansion)"
        yield ""
        rows = []
        for r in sorted({gap.compositions for gap in found}):
            row = [f"2^{r.bit_length() - 1}"]
            for scale in scales:
                gap = by_point[scale, delta, r]
                if math.isfinite(gap.lower) and math.isfinite(gap.upper):
                    bounds = f"{_percent(gap.lower, up=False)} .. {_percent(gap.upper, up=True)}"
                    row.append(f"{bounds} ({100.0 * gap_expansion(scale, r, delta):.3f})")
                else:
                    row.append("both ε are 0" if math.isnan(gap.lower) else "not known")
            rows.append(row)
        rows.append(["limit", *(f"{100.0 * gap_limit(scale):.3f}" for scale in scales)])
        yield from _table(["r", *(f"γ = {scale:g}" for scale in scales)], rows)
        yield ""


def optimal_lines(folder: Path) -> Iterator[str]:
    """Yield tables of ε at one δ, and of δ at one ε, for each cost; what is proved to be least is bold."""
    needs = epsilon_needs(folder / "optimal-mechanisms.zarr")
    for cost in dict.fromkeys(need.cost for need in needs):
        mine = [need for need in needs if need.cost == cost]
        kinds = list(dict.fromkeys(need.kind for need in mine))
        questions: tuple[tuple[str, Callable[[Need], tuple[float, float]]], ...] = (
            (f"ε at δ = {COST_DELTA:g}", lambda need: (need.epsilon_lower, need.epsilon_upper)),
            (f"δ at ε = {COST_EPSILON:g}", lambda need: (need.delta_lower, need.delta_upper)),
        )
        for title, bounds_of in questions:
            yield f"{title}, {cost}"
            yield ""
            rows = []
            for r in sorted({need.compositions for need in mine}):
                bounds = {need.kind: bounds_of(need) for need in mine if need.compositions == r}
                rows.append([f"2^{r.bit_length() - 1}", *(_bounds_in(bounds, kind) for kind in kinds)])
            yield from _table(["r", *kinds], rows)
            yield ""


def _bounds_in(bounds: dict[str, tuple[float, float]], kind: str) -> str:
    """Return the bounds of a kind of noise as text, bold if all others are surely larger."""
    lower, upper = bounds[kind]
    if upper > lower * (1.0 + _CLOSE):
        return f"≥ {rounded_down(lower, 4)}" if lower > 0.0 else f"≤ {rounded_up(upper, 4)}"
    text = f"{rounded_down(lower, 5)} .. {rounded_up(upper, 5)}"
    return f"**{text}**" if all(upper < other[0] for name, other in bounds.items() if name != kind) else text


def bucket_lines(folder: Path) -> Iterator[str]:
    """Yield tables of upper / lower - 1 against the number of buckets."""
    widths = bucket_widths(folder)
    numbers = sorted({one.buckets for one in widths})
    head = ["tight" if number == 0 else f"{number:,}" for number in numbers]
    by_point = {(one.mechanism, one.compositions, one.epsilon, one.buckets): one for one in widths}
    yield "upper / lower - 1, rounded up, by the number of buckets"
    yield ""
    rows = []
    for mechanism, r, epsilon in BUCKET_POINTS:
        tight = by_point.get((mechanism, r, epsilon, 0))
        delta = "" if tight is None else f"{rounded_down(tight.lower, 4)} .. {rounded_up(tight.upper, 4)}"
        cells = [by_point.get((mechanism, r, epsilon, number)) for number in numbers]
        shown = ["" if one is None else rounded_up(one.width, 2) for one in cells]
        rows.append([mechanism, f"2^{r.bit_length() - 1}", f"{epsilon:g}", delta, *shown])
    yield from _table(["mechanism", "r", "ε", "δ, tight", *head], rows)
    yield ""
    yield f"The largest upper / lower - 1 of all ε of the study at which δ >= {WIDTH_FLOOR:g}"
    yield ""
    columns = [widest(widths, buckets=number, floor=WIDTH_FLOOR) for number in numbers]
    yield from _table(["mechanism", "r", *head], _width_rows(columns))
    yield ""
    yield "The same with a first grid for at most 512 rounds"
    yield ""
    few = bucket_widths(folder, FEW_ROUNDS)
    exact = [one for one in widths if one.buckets == 0]
    columns = [widest([*few, *exact], buckets=number, floor=WIDTH_FLOOR) for number in FEW_ROUNDS.values()]
    yield from _table(["mechanism", "r", *(f"{number:,}" for number in FEW_ROUNDS.values())], _width_rows(columns))


def _width_rows(columns: Sequence[Mapping[tuple[str, int], Width]]) -> Iterator[list[str]]:
    """Yield a row for each mechanism and r that one of the columns has."""
    for key in sorted({key for column in columns for key in column}):
        shown = [rounded_up(column[key].width, 2) if key in column else "" for column in columns]
        yield [key[0], f"2^{key[1].bit_length() - 1}", *shown]


_LINES = {"laplace": laplace_lines, "optimal": optimal_lines, "buckets": bucket_lines}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the chosen tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", choices=list(_LINES), help="which tables")
    parser.add_argument(
        "--stores", metavar="FOLDER", type=Path, default=Path("data"), help="where the stores are: data"
    )
    options = parser.parse_args(arguments)
    for line in _LINES[options.table](options.stores):
        print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
