"""Answers off the grid against fresh, closer computations, and how wide they are.

``python -m tests.benchmarks.off_grid STORE .. [--queries N] [--seed S]`` asks each store at random ε, at random r,
stored and between, of its noise settings, and computes the same points anew at a tolerance of 1e-5. The exit code is 1
where a lower bound is above the fresh upper one or an upper bound below the fresh lower one.
"""

import argparse
import sys
import time
import warnings
from typing import Any

import numpy as np

from pbdist.errors import PrecisionWarning
from pbdist.mechanisms import Pair
from pbdist.query import Study, open_study
from pbdist.results import DeltaBounds
from pbdist.table import bounds_table
from pbdist.types import FloatArray

#: ε that are asked for at the same noise setting and r, which share their ladder when they are computed.
_TOGETHER = 20
_TOLERANCE = 1e-5


def _answers(study: Study, pair: Pair, compositions: Any, epsilon: FloatArray, direction: str) -> DeltaBounds:
    """Return answers on δ, as wide as they are."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        return study.delta(pair, compositions=compositions, epsilon=epsilon, direction=direction)


def contradictions(study: Study, queries: int, seed: int) -> tuple[int, int]:
    """Return how many answers a fresh computation contradicts, and how many answers there were."""
    rng, spec = np.random.default_rng(seed), study.spec
    wrong = asked = 0
    rounds = np.array(spec.compositions)
    while asked < queries:
        cell = spec.cells[int(rng.integers(len(spec.cells)))]
        on_grid = rng.random() < 0.5
        r = int(rng.choice(rounds)) if on_grid else int(np.exp(rng.uniform(0.0, np.log(rounds[-1]))))
        epsilon = np.sort(rng.uniform(0.0, 1.1 * spec.epsilon[-1], min(_TOGETHER, queries - asked)))
        found = _answers(study, cell.pair, r, epsilon, "each")
        fresh = bounds_table([(cell.pair, 1)], compositions=[r], epsilon=epsilon, tolerance=_TOLERANCE, strict=False)
        bad = (found.log_lower > fresh.log_delta_upper[:, 0]) | (found.log_upper < fresh.log_delta_lower[:, 0])
        bad |= (found.lower > fresh.delta_upper[:, 0]) | (found.upper < fresh.delta_lower[:, 0])
        if bad.any():
            print(f"contradicted: {cell.describe()}, r = {r}, ε = {epsilon[bad.any(axis=0)].tolist()}")
        wrong += int(np.count_nonzero(bad.any(axis=0)))
        asked += epsilon.size
    return wrong, asked


def brackets(study: Study, queries: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Return upper / lower - 1 of answers at random ε between the smallest and the largest, at stored r, and ln δ."""
    rng, spec = np.random.default_rng(seed), study.spec
    numbers = rng.integers(len(spec.cells), size=queries)
    rounds = rng.choice(spec.compositions, queries)
    epsilon = rng.uniform(spec.epsilon[0], spec.epsilon[-1], queries)
    lower, upper = np.empty(queries), np.empty(queries)
    for number in np.unique(numbers).tolist():
        mine = numbers == number
        found = _answers(study, spec.cells[number].pair, rounds[mine], epsilon[mine], "both")
        lower[mine], upper[mine] = found.log_lower, found.log_upper
    gap = np.subtract(upper, lower, out=np.zeros(queries), where=upper > -np.inf)
    return np.expm1(np.minimum(gap, 700.0)), upper


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("stores", nargs="+")
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    total = 0
    for where in options.stores:
        study = open_study(where)
        ratio, log_upper = brackets(study, 10 * options.queries, options.seed)
        parts = [f"median bracket at random ε and stored r: {np.median(ratio):.2%}"]
        for least in (1e-12, 1e-8, 1e-4):
            seen = log_upper > np.log(least)
            parts.append(f"of δ > {least:g} {np.median(ratio[seen]) if seen.any() else np.nan:.2%}")
        began = time.perf_counter()
        wrong, asked = contradictions(study, options.queries, options.seed)
        seconds = time.perf_counter() - began
        total += wrong
        print(f"{study!r}: {wrong} of {asked} contradicted ({seconds:.0f} s); {', '.join(parts)}", flush=True)
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
