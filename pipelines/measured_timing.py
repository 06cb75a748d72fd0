"""Write the tables of docs/measured-timing.md from the measured counts: ``python -m pipelines.measured_timing``.

``--folder PATH`` writes them to another folder.
"""

import argparse
import csv
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from pathlib import Path

from data.timing.bounds import (
    cost_of_late_answers,
    delayed_pair,
    fewest_without_one,
    leak_of_late_answers,
    leaking_pair,
    missing_mass,
    smallest_shift,
    uniform_pair,
)
from data.timing.delay import REACH, UNIT_NS
from data.timing.measurement import Measurement, measurements
from pbdist import Histogram, load_histograms, privacy_bounds
from pbdist.rounding import rounded_down, rounded_up
from pipelines.csv_tables import csv_text

__all__ = ["TABLES", "main"]

_ROOT = Path(__file__).resolve().parents[1]
_FOLDER = _ROOT / "docs" / "measured-timing"
_UNIT_US = UNIT_NS // 1_000
#: CoverUp's question: δ at e^ε = 2 after so many observations.
_ROUNDS, _DELTA, _EPSILON = 2**18, 1e-4, math.log(2.0)
#: Longest works of the table of late answers, in microseconds.
_WORKS_US = (100, 1_000, 10_000, 40_000)
#: CoverUp's published curve "linux_loading_vanilla_active" (github.com/sommerda/privacybuckets, 7f36c60): δ by rounds.
_COVERUP = {1: "2.001e-5", 512: "4.539e-4", 65_536: "5.354e-3"}


def table_of_measurements(found: Sequence[Measurement]) -> str:
    """What was measured."""
    rows = []
    for one in found:
        times = [_time(one, side, share) for side in "ab" for share in (0.5, 0.99, 0.999)]
        rows.append((one.name, f"{one.facts['requests']['a']:,}", f"{one.facts['requests_under_way']:,}", *times))
    head = (
        "delay: scale",
        "requests a side",
        "under way",
        "A: median",
        "99 %",
        "99.9 %",
        "B: median",
        "99 %",
        "99.9 %",
    )
    return csv_text(head, rows)


def table_at_face_value(found: Sequence[Measurement]) -> str:
    """δ of the measured frequencies, and of two halves of the same side."""
    rounds = (1, 32, 512, 8_192, _ROUNDS)
    rows = []
    for one in found:
        for name, columns in (("A, B", ("bin", "a", "b")), ("A, A", ("bin", "a_first", "a_second"))):
            pair = load_histograms(one.path, columns=columns)
            rows.append((one.name, name, f"{len(pair.p):,}", *_intervals(_bounds(pair, rounds, _EPSILON))))
    return csv_text(("delay: scale", "pair", "bins", *(f"r = {r:,}" for r in rounds)), rows)


def table_of_delays(found: Sequence[Measurement]) -> str:
    """What is proved of each delay, and of uniform delays as long."""
    rows = []
    for one in found:
        delay = one.delay
        if delay is None or one.facts["order"] == "blocks":
            continue
        rounds = (1, 512, _ROUNDS)
        bounds = _bounds(delayed_pair(delay.weights, one.deadline), rounds, _EPSILON)
        uniform = uniform_pair(2 * REACH * delay.scale + 1, one.deadline)
        rows.append(
            (
                one.name,
                f"{delay.mean * UNIT_NS / 1e9:g} s",
                f"{one.deadline * _UNIT_US} µs",
                *_intervals(bounds),
                _verdict(*bounds[-1]),
                *_intervals(_bounds(uniform, (1, _ROUNDS), _EPSILON)),
            )
        )
    head = (
        "scale",
        "mean",
        "deadline c",
        "δ, r = 1",
        "r = 512",
        "r = 262,144",
        "δ <= 1e-4",
        "uniform, r = 1",
        "r = 262,144",
    )
    return csv_text(head, rows)


def table_of_longer_work(found: Sequence[Measurement]) -> str:
    """What is proved where work takes longer than the deadline, and what then repairs a delay."""
    rows = []
    for one in found:
        delay = one.delay
        if delay is None or one.facts["order"] == "blocks":
            continue
        [(lower, upper)] = _bounds(delayed_pair(delay.weights, one.deadline), (_ROUNDS,), _EPSILON)
        room = Fraction(_DELTA) - Fraction(upper)
        for work_us in _WORKS_US:
            case = (delay.weights, work_us // _UNIT_US, one.deadline, _ROUNDS)
            added = cost_of_late_answers(*case)
            bounds = (max(lower, leak_of_late_answers(*case)), min(1.0, _float_above(Fraction(upper) + added)))
            shift = _shown(smallest_shift(*case, room) * _UNIT_US) if room >= 0 else "none"
            rows.append(
                (
                    one.name,
                    _shown(work_us),
                    rounded_up(min(1.0, _float_above(added)), 3),
                    *_intervals([bounds]),
                    _verdict(*bounds),
                    shift,
                )
            )
    head = ("scale", "longest work w", "added, at most", "δ, r = 262,144", "δ <= 1e-4", "smallest shift for 1e-4")
    return csv_text(head, rows)


def table_of_missing_mass(found: Sequence[Measurement]) -> str:
    """The probability of all bins that were never seen: the estimate, and a bound with confidence 95 %."""
    rows = []
    for one in found:
        cells: list[str] = []
        for side in "ab":
            counts = one.counts(side)
            estimate, most = missing_mass(counts)
            cells += [f"{sum(count == 1 for count in counts):,}", rounded_up(estimate, 3), rounded_up(most, 3)]
        rows.append((one.name, f"{one.facts['requests']['a']:,}", *cells))
    sides = (f"{side}: {what}" for side in "AB" for what in ("bins seen once", "estimate", "at most"))
    return csv_text(("delay: scale", "requests a side", *sides), rows)


def table_of_leaks(found: Sequence[Measurement]) -> str:
    """Lower bounds of δ that the measurements show with confidence."""
    rounds = (1, 32, 512, 8_192, _ROUNDS)
    rows = []
    for one in found:
        halves = [one.counts(f"{side}_{half}") for half in ("first", "second") for side in "ab"]
        pair = leaking_pair(*halves)
        if pair is None:
            rows.append((one.name, "none shown", *("" for _ in rounds)))
            continue
        deltas = privacy_bounds(pair, compositions=rounds, epsilon=_EPSILON).delta_lower.values.ravel()
        p, q = (sum(side[1:]) / sum(side) for side in (pair.p, pair.q))
        rows.append((one.name, f"at least {q:.4f}, at most {p:.4f}", *(rounded_down(delta, 3) for delta in deltas)))
    return csv_text(("delay: scale", "P(later) under B, A", *(f"r = {r:,}" for r in rounds)), rows)


def table_of_the_rest(found: Sequence[Measurement]) -> str:
    """What is left of the response times without their delays, and how much of it lies within one deadline."""
    rows = []
    for one in found:
        if not one.delayed:
            continue
        cells: list[str] = []
        for side in "ab":
            counts = one.counts(side, rest=True)
            cells += [_time(one, side, share, rest=True) for share in (0.5, 0.99)]
            cells.append(f"{max(counts) / sum(counts):.1%}".replace("%", " %"))
        rows.append((one.name, *cells))
    share = "in the fullest 100 µs"
    return csv_text(("delay: scale", "A: median", "99 %", share, "B: median", "99 %", share), rows)


def table_beside_coverup(found: Sequence[Measurement]) -> str:
    """CoverUp's curve and ours."""
    rounds = tuple(_COVERUP)
    rows: list[tuple[str, ...]] = [("CoverUp, as published", *_COVERUP.values())]
    for one in found:
        if one.delayed and one.facts["order"] == "blocks":
            continue
        pair = load_histograms(one.path)
        rows.append((f"delay {one.name}, at face value", *_intervals(_bounds(pair, rounds, 0.0))))
        delay = one.delay
        if delay is not None:
            known = delayed_pair(delay.weights, one.deadline)
            rows.append((f"delay {one.name}, as drawn", *_intervals(_bounds(known, rounds, 0.0))))
    return csv_text(("δ at ε = 0", *(f"r = {r:,}" for r in rounds)), rows)


def table_of_confidence(found: Sequence[Measurement]) -> str:
    """What so many measurements say at most, with confidence 95 %."""
    total = min(found[0].facts["requests"].values())
    band = math.sqrt(math.log(2 / 0.05) / (2 * total))
    never = -math.expm1(math.log(0.05) / total)
    needed = _DELTA / (3 * _ROUNDS)
    event = f"P(an event never seen occurs in {_ROUNDS:,} rounds)"
    rows = [
        ("share of times below any t (Dvoretzky-Kiefer-Wolfowitz, Massart)", f"known to ± {band:.2e}"),
        ("probability of an event named beforehand and never seen (Clopper-Pearson)", f"at most {never:.2e}"),
        ('probability of "later than every time seen"', f"at most {never:.2e}"),
        (event, f"up to {-math.expm1(_ROUNDS * math.log1p(-never)):.2f}"),
        (f"probability a round that δ = {_DELTA:g} allows of it", f"at most {needed:.2e}"),
        ("measurements without the event that prove this", f"{fewest_without_one(needed):.1e}"),
    ]
    return csv_text((f"from {total:,} measurements a side", "value"), rows)


#: The tables of the page, by the names of their files.
TABLES: Mapping[str, Callable[[Sequence[Measurement]], str]] = {
    "measurements": table_of_measurements,
    "rest": table_of_the_rest,
    "face-value": table_at_face_value,
    "confidence": table_of_confidence,
    "missing": table_of_missing_mass,
    "leaks": table_of_leaks,
    "delays": table_of_delays,
    "works": table_of_longer_work,
    "coverup": table_beside_coverup,
}


def main(arguments: Sequence[str] | None = None) -> None:
    """Make all tables, each a CSV file."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.measured_timing", description=__doc__)
    parser.add_argument("--folder", type=Path, default=_FOLDER, metavar="PATH", help="the folder of the tables")
    folder = parser.parse_args(arguments).folder
    folder.mkdir(parents=True, exist_ok=True)
    found = measurements()
    for number, (name, make) in enumerate(TABLES.items(), start=1):
        print(f"{number} of {len(TABLES)}: {name}", flush=True)
        (folder / f"{name}.csv").write_text(make(found), encoding="utf-8")


def _bounds(pair: Histogram, rounds: Sequence[int], epsilon: float) -> list[tuple[float, float]]:
    """Lower and upper bounds of δ."""
    found = privacy_bounds(pair, compositions=list(rounds), epsilon=epsilon)
    return [*zip(found.delta_lower.values.ravel(), found.delta_upper.values.ravel(), strict=True)]


def _verdict(lower: float, upper: float) -> str:
    return "**meets**" if upper <= _DELTA else "refuted" if lower > _DELTA else "undecided"


def _float_above(value: Fraction) -> float:
    """Return a float that is at least `value`."""
    found = float(value)
    return found if found >= value else math.nextafter(found, math.inf)


def _intervals(bounds: Sequence[tuple[float, float]]) -> list[str]:
    """Return bounds rounded outwards to three digits; one number where they agree."""
    texts = [(rounded_down(lower, 3), rounded_up(upper, 3)) for lower, upper in bounds]
    return [lower if lower == upper else f"{lower} to {upper}" for lower, upper in texts]


def _time(one: Measurement, side: str, share: float, *, rest: bool = False) -> str:
    """Return a quantile: the upper edge of the bin that it falls into, or that it is in the last, open bin."""
    path = one.path.with_name(f"{one.path.stem}-rest.csv") if rest else one.path
    with path.open(encoding="utf-8", newline="") as file:
        rows = [(int(row["bin"]), int(row[side])) for row in csv.DictReader(file)]
    start = _quantile(rows, share)
    width, last = (100, 500_000) if rest else (one.facts["bin_width_us"], one.facts["last_bin_from_us"])
    return f"above {_shown(start)}" if start >= last else _shown(start + width)


def _quantile(rows: Sequence[tuple[int, int]], share: float) -> int:
    """Return the first bin up to which that share of the counts lies."""
    seen = accumulate(count for _, count in rows)
    wanted = share * sum(count for _, count in rows)
    return next(start for (start, _), until in zip(rows, seen, strict=True) if until >= wanted)


def _shown(microseconds: int) -> str:
    if microseconds < 1_000:
        return f"{microseconds} µs"
    return f"{microseconds / 1e3:.3g} ms" if microseconds < 1_000_000 else f"{microseconds / 1e6:.3g} s"


if __name__ == "__main__":
    main()
