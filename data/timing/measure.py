"""Measure the response times of the service, with and without its extra work, undelayed and with each random delay.

``python -m data.timing.measure`` writes one file of counts for each delay, and ``provenance.yaml``.
"""

import argparse
import asyncio
import csv
import multiprocessing
import os
import platform
import resource
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import yaml

from data.timing.client import SIDES, Counts, Tally, alternating, measure
from data.timing.delay import REACH, UNIT_NS, GaussianDelay
from data.timing.service import Settings, run_service

__all__ = ["Phase", "main", "measured"]

_UNITS_OF_MS = 1_000_000 // UNIT_NS
#: The bins of what is left of a response time without its delay.
_REST_WIDTH_NS = 100_000
#: Seconds between two lines of progress.
_EVERY_S = 5.0
#: A load average above this, before anything is measured, is of other programs.
_IDLE_LOAD = 0.3


@dataclass(frozen=True)
class Phase:
    """One measurement.

    Attributes
    ----------
    name
        Of its file.
    settings
        Of the service.
    requests
        How many a side.
    connections
        How many requests are under way at any time.
    width_ns, bins
        Of the response times; the last bin is open.
    mixed
        Whether the sides come in random order, or in blocks.
    """

    name: str
    settings: Settings
    requests: int
    connections: int
    width_ns: int
    bins: int
    mixed: bool


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure all, and write the files; ``provenance.yaml`` after each measurement."""
    options = _options(arguments)
    _allow_connections()
    folder: Path = options.out
    folder.mkdir(parents=True, exist_ok=True)
    provenance = folder / "provenance.yaml"
    described = _kept(provenance) if options.only else {}
    known = _machine(options)
    if described:
        # What is kept may have been measured beside other programs.
        earlier = yaml.safe_load(provenance.read_text(encoding="utf-8"))["other_load_was_present"]
        known["other_load_was_present"] = known["other_load_was_present"] or earlier
    for phase in _phases(options):
        if options.only and phase.name not in options.only:
            continue
        begun, load = datetime.now(UTC), os.getloadavg()[0]
        tally = measured(phase, options.block)
        _write_counts(folder / f"{phase.name}.csv", tally.times)
        if phase.settings.scale is not None:
            _write_counts(folder / f"{phase.name}-rest.csv", tally.rest)
        described[f"{phase.name}.csv"] = _description(phase, tally, begun, (load, os.getloadavg()[0]))
        content = {**known, "measurements": list(described.values())}
        provenance.write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _kept(provenance: Path) -> dict[str, dict[str, object]]:
    """Return what is known of the measurements that are not made again, by file."""
    if not provenance.exists():
        return {}
    return {one["file"]: one for one in yaml.safe_load(provenance.read_text(encoding="utf-8"))["measurements"]}


def measured(phase: Phase, block: int) -> Tally:
    """Start the service of a phase in a process of its own, measure, and stop it."""
    tally = Tally(Counts(phase.width_ns, phase.bins), Counts(_REST_WIDTH_NS, 5_001))
    mean_s = 0.0 if phase.settings.scale is None else GaussianDelay(phase.settings.scale).mean * UNIT_NS * 1e-9
    with _service(phase.settings) as port:
        asyncio.run(
            measure(
                port,
                alternating(phase.requests, block, mixed=phase.mixed),
                tally,
                connections=phase.connections,
                ramp_s=mean_s,
                watch=lambda: _show_progress(phase.name, 2 * phase.requests, tally),
            )
        )
    return tally


@contextmanager
def _service(settings: Settings) -> Iterator[int]:
    """Run the service in another process; its port."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=run_service, args=(settings, theirs), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv()
    finally:
        ours.close()
        process.join()


async def _show_progress(name: str, total: int, tally: Tally) -> None:
    before = tally.answers
    while True:
        await asyncio.sleep(_EVERY_S)
        speed = (tally.answers - before) / _EVERY_S
        before = tally.answers
        print(f"{name}: {tally.answers:,} of {total:,}, {speed:,.0f} a second", file=sys.stderr, flush=True)


def _phases(options: argparse.Namespace) -> Iterator[Phase]:
    yield Phase("undelayed", Settings(options.work_bytes), options.requests, 1, 1_000, 20_001, mixed=False)
    for scale_ms in options.scales_ms:
        yield _delayed(options, scale_ms, mixed=True)
    # What waiting behind requests of the same side does.
    for scale_ms in options.scales_ms[:1]:
        yield _delayed(options, scale_ms, mixed=False)


def _delayed(options: argparse.Namespace, scale_ms: int, *, mixed: bool) -> Phase:
    scale = scale_ms * _UNITS_OF_MS
    return Phase(
        f"delayed-{scale_ms}ms" if mixed else f"delayed-{scale_ms}ms-blocks",
        Settings(options.work_bytes, scale, options.deadline_us * 1_000 // UNIT_NS),
        options.delayed_requests,
        max(1, round(options.load * REACH * scale_ms / 1_000)),
        scale * UNIT_NS // 25,
        13 * 25,
        mixed,
    )


def _write_counts(path: Path, times: Counts) -> None:
    """Write the bins that are not empty: their first µs, the counts of both sides, and those of the halves of each."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["bin", *SIDES, *(f"{side}_{half}" for side in SIDES for half in ("first", "second"))])
        for index in range(times.bins):
            halves = [times.counts[side, half][index] for side in (0, 1) for half in (0, 1)]
            if any(halves):
                start_us = index * times.width_ns // 1_000
                writer.writerow([start_us, halves[0] + halves[1], halves[2] + halves[3], *halves])


def _description(phase: Phase, tally: Tally, begun: datetime, loads: tuple[float, float]) -> dict[str, object]:
    """What was measured; load averages are of a minute, before and after, and the later ones have this load too."""
    settings = phase.settings
    counts = tally.times.counts
    return {
        "file": f"{phase.name}.csv",
        "begun": begun.isoformat(timespec="seconds"),
        "seconds": round((datetime.now(UTC) - begun).total_seconds()),
        "load_averages": [round(load, 2) for load in loads],
        "requests": {side: sum(counts[index, 0]) + sum(counts[index, 1]) for index, side in enumerate(SIDES)},
        "requests_under_way": phase.connections,
        "order": "random" if phase.mixed else "blocks",
        "delay_scale_us": None if settings.scale is None else settings.scale * UNIT_NS // 1_000,
        "deadline_us": None if settings.scale is None else settings.deadline * UNIT_NS // 1_000,
        "bin_width_us": phase.width_ns // 1_000,
        "last_bin_from_us": (phase.bins - 1) * phase.width_ns // 1_000,
    }


def _machine(options: argparse.Namespace) -> dict[str, object]:
    """What measures, with which options, and on what kind of machine."""
    return {
        "script": "python -m data.timing.measure",
        "options": {name: value for name, value in vars(options).items() if name not in ("out", "only")},
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "other_load_was_present": os.getloadavg()[0] > _IDLE_LOAD,
    }


def _cpu() -> str:
    """The model of the processor, as Linux tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.machine()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.machine())


def _allow_connections() -> None:
    """Let this process and the service have as many open connections as the system grants."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m data.timing.measure", description=__doc__)
    parser.add_argument("--requests", type=_count, default=1_000_000, help="a side, without a delay")
    parser.add_argument("--delayed-requests", type=_count, default=1_000_000, help="a side, with each delay")
    parser.add_argument("--scales-ms", type=_count, nargs="*", default=[25, 100, 250], help="of the delays")
    parser.add_argument("--deadline-us", type=_count, default=100, help="of the work; whole units of 10 µs")
    parser.add_argument("--work-bytes", type=_count, default=40_000, help="the extra work is the SHA-256 of so many")
    parser.add_argument("--load", type=_count, default=2_000, help="delayed requests a second to aim at")
    parser.add_argument("--block", type=_count, default=50, help="requests of one side before the other side's")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="measure these alone, keep the others")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent, help="the folder to write to")
    options = parser.parse_args(arguments)
    if options.deadline_us * 1_000 % UNIT_NS:
        parser.error(f"--deadline-us: expected whole units of {UNIT_NS // 1_000} µs, got {options.deadline_us}")
    return options


def _count(text: str) -> int:
    value = int(text.replace("_", ""))
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a whole number of at least 1, got {text}")
    return value


if __name__ == "__main__":
    main()
