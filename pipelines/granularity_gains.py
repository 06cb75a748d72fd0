"""Make ``docs/granularity-gains.csv``: ε of release plans, beside the best that rules for parameters prove.

python -m pipelines.granularity_gains [--output docs/granularity-gains.csv]
"""

import argparse
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from scipy.optimize import brentq
from scipy.stats import norm

from pbdist import Gaussian, Laplace, PrecisionWarning
from pbdist.granularity.notions import Bounded, Granularity, Unbounded
from pbdist.granularity.release.declared import Analysis, Overlapping, on_each_block
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.theorems.api import earlier_epsilon
from pipelines.csv_tables import csv_text

__all__ = ["Gain", "gains", "main", "table"]

_DELTA = 1e-6
_ROUNDS = (1, 16, 256)
_RULES = {
    "sums of (ε, δ)": ("naive", "adaptive", "advanced"),
    "KOV": ("kov",),
    "zCDP": ("concentrated", "concentrated-improved"),
}


@dataclass(frozen=True)
class Gain:
    """One plan after some rounds.

    Attributes
    ----------
    example, noise : str
    touched : int
        How many analyses a change touches at most.
    rounds : int
    lower, upper : float
        ε of the plan.
    rules : dict of str to float
        ε by the rules for parameters, for as many touched analyses.
    """

    example: str
    noise: str
    touched: int
    rounds: int
    lower: float
    upper: float
    rules: dict[str, float]

    @property
    def ratio(self) -> float:
        """ε of the plan over the best of the rules."""
        return self.upper / min(self.rules.values())


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.granularity_gains", description=__doc__)
    output = Path(__file__).resolve().parents[1] / "docs" / "granularity-gains.csv"
    parser.add_argument("--output", type=Path, default=output, help="the table to write")
    options = parser.parse_args(arguments)
    options.output.write_text(table(gains()), encoding="utf-8")


def gains() -> Iterator[Gain]:
    """Yield the gain of each example, noise and number of rounds."""
    for example, granularity, hospitals, touched in (
        ("IV.5: 10 hospitals, unbounded", Unbounded(), 10, 3),
        ("VI.8: 10 hospitals, bounded", Bounded(), 10, 6),
        ("VI.8: 4 hospitals, bounded", Bounded(), 4, 4),
    ):
        for noise in (Laplace(20.0), Gaussian(20.0)):
            yield from _of_plan(example, granularity, hospitals, touched, noise)


def _of_plan(
    example: str, granularity: Granularity, hospitals: int, touched: int, noise: Laplace | Gaussian
) -> Iterator[Gain]:
    names = [f"hospital {number}" for number in range(1, hospitals + 1)]
    count = Analysis("count", noise, replaced="unchanged", attained="every")
    plan = ReleasePlan(granularity, on_each_block(count, names), Overlapping(tuple(names), at_most=3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)
        found = plan.epsilon_bounds(compositions=list(_ROUNDS), delta=_DELTA, tolerance=1e-4)
    for index, r in enumerate(_ROUNDS):
        rules = {
            name: min(
                float(earlier_epsilon([(noise, touched)], compositions=[r], delta=[_DELTA], theorem=theorem)[0])
                for theorem in theorems
            )
            for name, theorems in _RULES.items()
        }
        rules["GDP"] = _epsilon_of_gaussian(_gaussian_parameter(noise) * math.sqrt(touched * r))
        yield Gain(
            example,
            type(noise).__name__,
            touched,
            r,
            float(found.epsilon_lower.values[index, 0]),
            float(found.epsilon_upper.values[index, 0]),
            rules,
        )


def _gaussian_parameter(noise: Laplace | Gaussian) -> float:
    """Return μ of one answer: of ε-DP, 2 Φ^-1(e^ε / (1 + e^ε)), whose curve touches that of randomized response."""
    loss = noise.sensitivity / noise.scale
    return loss if isinstance(noise, Gaussian) else 2.0 * float(norm.ppf(1.0 / (1.0 + math.exp(-loss))))


def _epsilon_of_gaussian(mu: float) -> float:
    """Return ε with which μ-Gaussian privacy meets δ (Dong, Roth & Su 2022, Corollary 2.13), to 1e-12."""

    def excess(epsilon: float) -> float:
        shift = epsilon / mu
        return float(norm.cdf(mu / 2 - shift) - math.exp(epsilon) * norm.cdf(-mu / 2 - shift)) - _DELTA

    if excess(0.0) <= 0.0:
        return 0.0
    return float(brentq(excess, 0.0, mu * mu / 2 + 10.0 * mu + 1.0, xtol=1e-13, rtol=1e-13))


def table(found: Iterable[Gain]) -> str:
    """Return the table as CSV; the last column is the plan's upper bound over the best of the rules."""
    rows = [
        (
            *(one.example, one.noise, str(one.touched), str(one.rounds), f"[{one.lower:.5f}, {one.upper:.5f}]"),
            *(f"{value:.5f}" for value in one.rules.values()),
            f"{one.ratio:.3f}",
        )
        for one in found
    ]
    return csv_text(("example", "noise", "touched", "r", "plan", *_RULES, "GDP", "plan / best"), rows)


if __name__ == "__main__":
    main()
