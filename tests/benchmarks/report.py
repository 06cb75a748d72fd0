"""Every benchmark of the tight method, many times over, as CSV: the tables of ``docs/benchmarks.md``.

``OPENBLAS_NUM_THREADS=1 python -m tests.benchmarks.report`` takes some minutes; on a machine that does something else
at the same time times grow, and ratios less so.
"""

import csv
import os
import platform
import re
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

from tests.benchmarks.peers import Comparison, comparisons
from tests.benchmarks.scaling import cost
from tests.benchmarks.tables import epsilon_rows, point_times, table_rows

_PACKAGES = ("numpy", "scipy", "dp-accounting", "prv-accountant", "pbdist")


def machine() -> str:
    """Return processor, cores and versions."""
    found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"))
    packages = ", ".join(f"{package} {version(package)}" for package in _PACKAGES)
    return (
        f"{os.cpu_count()} cores ({found[1] if found else 'unknown'}), Python {platform.python_version()}, {packages}"
    )


def _milliseconds(value: float) -> str:
    return f"{1e3 * value:,.3g}" if value < 1.0 else f"{1e3 * value:,.0f}"


def _errors(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.1e}" for value in values)


def _row(*cells: object) -> None:
    csv.writer(sys.stdout, lineterminator="\n").writerow(cells)
    sys.stdout.flush()


def _head(*cells: str) -> None:
    print()
    _row(*cells)


def peer_row(case: Comparison) -> None:
    """Print the comparison with another library."""
    theirs = case.peer()
    tolerance = case.tolerance(theirs)
    times = case.times(tolerance, case.repetitions)
    ours = case.own(tolerance).delta_upper.values
    _row(
        case.name,
        case.peer_name,
        " / ".join(_milliseconds(value) for value in (times.fastest[0], times.median[0])),
        " / ".join(_milliseconds(value) for value in (times.fastest[1], times.median[1])),
        " / ".join(f"{ratio:,.0f}" for ratio in times.ratios),
        f"{case.target:g}",
        _errors(case.errors(theirs.upper)),
        f"{_errors(case.errors(ours))} ({tolerance:g})",
    )


def scaling_rows(call: str, sizes: Sequence[int]) -> None:
    """Print time and memory over sizes."""
    base = cost("nothing", 0).peak_bytes
    for size in sizes:
        found = cost(call, size)
        _row(
            f"2^{size.bit_length() - 1}",
            _milliseconds(found.seconds),
            f"{found.peak_bytes / 2**20:,.0f}",
            f"{max(found.peak_bytes - base, 0) / 2**20:,.0f}",
        )


def tables_beside_a_peer() -> None:
    """Print tables, ε and single points of DP-SGD, with the sums of all settings."""
    _head("σ, q", "dp-accounting, s", "pbdist down to 1e-12, s", "times as fast", "down to 1e-40, s", "times as fast")
    rows = table_rows()
    sums = [sum(row[column] for row in rows) for column in (1, 2, 3)]
    for name, theirs, same, deep in [*rows, ("together", sums[0], sums[1], sums[2])]:
        _row(name, f"{theirs:.2f}", f"{same:.2f}", f"{theirs / same:.1f}", f"{deep:.2f}", f"{theirs / deep:.1f}")
    _head("σ, q", "dp-accounting, s", "pbdist, s", "times as fast")
    found = epsilon_rows()
    together = ("together", sum(row[1] for row in found), sum(row[2] for row in found))
    for name, theirs, own in [*found, together]:
        _row(name, f"{theirs:.2f}", f"{own:.2f}", f"{theirs / own:.1f}")
    median, longest = point_times()
    _head("single δ", "median, ms", "longest, ms")
    _row("600 drawn", _milliseconds(median), _milliseconds(longest))


def main() -> None:
    """Print the tables."""
    print(machine())
    _head(
        "case", "peer", "peer, ms", "pbdist, ms", "ratio", "target", "peer's errors", "pbdist's errors (its tolerance)"
    )
    for case in comparisons():
        peer_row(case)

    tables_beside_a_peer()

    tables = {
        "kernel": ("buckets, kernel alone", range(12, 25, 2)),
        "tight": ("buckets, Gaussian, r 512, method tight", range(12, 23, 2)),
        "buckets": ("buckets, Gaussian, r 512, method buckets", range(12, 23, 2)),
        "rounds": ("r, same curve, tolerance 1e-3", range(0, 25, 4)),
    }
    for call, (title, exponents) in tables.items():
        _head(title, "ms", "peak memory, MiB", "of it above an idle process, MiB")
        scaling_rows(call, [2**exponent for exponent in exponents])


if __name__ == "__main__":
    main()
