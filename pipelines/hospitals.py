"""Write ``docs/hospitals.md`` from the store of ``pipelines/hospitals.yaml``.

    pbdist run pipelines/hospitals.yaml
    python -m pipelines.hospitals

Values of the rules are computed by `pbdist.granularity.rules`, all others are read from the store, to which the second
command adds the points that it lacks.
"""

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from pbdist import Gaussian, epsilon_bounds, open_study
from pbdist.errors import PrecisionWarning
from pbdist.granularity.rules import (
    APPROXIMATE,
    GAUSSIAN,
    PURE,
    Touched,
)
from pbdist.query import Study
from pbdist.rounding import rounded_down, rounded_up
from pipelines.csv_tables import csv_text

__all__ = ["Example", "examples", "main", "noise_table", "noisy_rows", "page", "paper_row"]

_ROOT = Path(__file__).resolve().parents[1]
#: Of releases that are ε-private: at this δ their ε is evaluated.
_NEXT_TO_NONE = 1e-9
#: δ and numbers of releases of the table of noise.
_DELTA, _ROUNDS, _SCALES = 1e-6, (1, 16, 256), (10, 40)
_FIFTH, _THIRD, _HALF = Fraction(1, 5), Fraction(3, 10), Fraction(1, 2)
_HEAD = """\
# Ambulances and their hospitals

An analysis costs nothing for records that it does not read. For the worked examples of Guerra-Balboa et al. 2024
("Composition in differential privacy for general granularity notions"), [release plans](studies.md#release-plans) reach
the [rules of composition](granularity-rules.md) or improve on them, and need as little as a third of the ε of
sequential composition, in which every change touches every analysis.

The page is generated: `pbdist run pipelines/hospitals.yaml` takes half a minute, and `python -m pipelines.hospitals`
writes it. Upper bounds are rounded upwards, and numbers in brackets are proved from both sides.

## The paper's numbers

Each mechanism is taken as the worst one with its (ε, δ). Releases without a δ are evaluated at δ = 1e-9. No lower bound
of these plans is known, since no change is declared to attain their pairs.

| example | touched by one change | paper | rule | plan | sequential |
|---|---|---|---|---|---|
"""
_TAIL = """
- *IV.2*: the paper adds up both districts' places, 1 + 2 L with L = 5. One record moves the place of its own district
  alone: 1 + L.
- *IV.14*: a changed record touches two districts, or its own twice. In the second case a mechanism that is ε-DP for
  bounded neighbours costs its own ε, and a count costs nothing.
- *VI.8*: a changed record leaves at most 3 hospitals and enters at most 3, so it touches 6, or all if there are fewer.

## With noise

The same releases with noisy counts, repeated r times: ε at δ = 1e-6. Here every change attains its pairs, so that no
better bound is possible. For Laplace noise the rule adds up ε; for Gaussian noise it is Gaussian differential privacy,
which is exact. The data are in [hospitals-noise.csv](hospitals-noise.csv).

```{csv-table}
:file: hospitals-noise.csv
:header-rows: 1
:class: numbers
```

## Compared with the rules for parameters

A count with noise of scale 20 is released for each hospital; an ambulance belongs to at most three of them.
[granularity-gains.csv](granularity-gains.csv), made by `python -m pipelines.granularity_gains`, has ε at δ = 1e-6 after
r releases, from the plan and by rules for the touched counts alone. *Sums* is the best of three: the sum of ε, the sum
of (ε, δ), and advanced composition; *KOV* is optimal composition from one (ε, δ) of each count; *zCDP* is the better of
two conversions; *GDP* composes each count's μ. For Gaussian noise the Gaussian rule (Theorem VI.21) is exact, and the
plan agrees with it. For Laplace noise the plan needs up to 1.1 % less than the best rule.

```{csv-table}
:file: granularity-gains.csv
:header-rows: 1
:class: numbers
```
"""


@dataclass(frozen=True)
class Example:
    """A worked example of the paper.

    Attributes
    ----------
    label
        Its label in the study.
    touched
        What one change touches, in words.
    paper
        The value that the paper prints.
    epsilons, deltas
        ε_i and δ_i of each mechanism.
    changes
        What one change may touch.
    sequential
        The label of its sequential composition.
    """

    label: str
    touched: str
    paper: str
    epsilons: tuple[Fraction | int, ...]
    changes: Touched
    sequential: str
    deltas: tuple[float, ...] = ()

    def by_rule(self, changes: Touched) -> tuple[float, float]:
        """Return ε and δ by the rules, for some changes."""
        if not self.deltas:
            return float(PURE.for_numbers(changes, self.epsilons)[0]), 0.0
        epsilon, delta = APPROXIMATE.for_numbers(changes, self.epsilons, self.deltas)
        return float(epsilon), float(delta)


def examples() -> tuple[Example, ...]:
    """Return the examples in the order of the paper."""
    three = (_HALF, _THIRD, _FIFTH)
    return (
        Example(
            "IV.2",
            "count and place of one district",
            "11",
            (1, 1, 5, 5),
            [{0, 2}, {1, 3}],
            "IV.2 sequential",
        ),
        Example("IV.5", "3 of 10 hospitals", "0.3", (Fraction(1, 10),) * 10, 3, "IV.5 sequential"),
        Example("IV.9", "one district", "0.5", three[:2], 1, "IV.9 sequential"),
        Example("IV.14", "two districts", "0.8", three, 2, "IV.14 sequential"),
        Example("IV.14 same district", "one district", "0.5", three, 1, "IV.14 sequential"),
        Example(
            "VI.8 ten hospitals",
            "6 of 10 hospitals",
            "(6, 6e-5)",
            (1,) * 10,
            6,
            "VI.8 ten hospitals sequential",
            (1e-5,) * 10,
        ),
        Example(
            "VI.8 four hospitals",
            "4 of 4 hospitals",
            "(6, 6e-5)",
            (1,) * 4,
            6,
            "VI.8 four hospitals sequential",
            (1e-5,) * 4,
        ),
    )


def page(study: Study) -> str:
    """Return the page."""
    return "".join([_HEAD, *(_line(paper_row(study, example)) for example in examples()), _TAIL])


def noise_table(study: Study) -> str:
    """Return the table of noise as CSV."""
    return csv_text(("example", "noise", "r", "rule", "plan", "sequential", "plan / sequential"), noisy_rows(study))


def paper_row(study: Study, example: Example) -> tuple[str, ...]:
    """Return the row of an example: label, what is touched, and ε by the paper, the rule, the plan and in sequence."""
    parts = []
    for label, changes in ((example.label, example.changes), (example.sequential, "each")):
        epsilon, delta = example.by_rule(changes)
        proved = rounded_up(_proved(study, label, epsilon, delta), 4)
        parts.append((_parameters(f"{epsilon:.6g}", delta), _parameters(proved, delta)))
    (rule, plan), (_, sequential) = parts
    return example.label, example.touched, example.paper, rule, plan, sequential


def _proved(study: Study, label: str, epsilon: float, delta: float) -> float:
    """Return the smallest ε at which the study proves δ, or about none: the rule's own if it does there."""
    wanted = delta or _NEXT_TO_NONE
    # The rule's ε is the largest loss there is, next to which bounds between points are wide.
    with warnings.catch_warnings():
        # Upper bounds alone are read; most plans have no lower ones.
        warnings.simplefilter("ignore", PrecisionWarning)
        at_rule = study.delta(label, compositions=1, epsilon=epsilon, refine=True)
        found = float(study.epsilon(label, compositions=1, delta=wanted, refine=True).upper)
    return min(found, epsilon) if float(at_rule.upper) <= wanted else found


def noisy_rows(study: Study) -> Iterator[tuple[str, ...]]:
    """Yield the rows of the table of noise: example, noise, r, rule, plan, sequential, and their ratio."""
    for example, touched in (("IV.5", 3), ("VI.8", 6)):
        for kind in ("Laplace", "Gaussian"):
            for scale in _SCALES:
                for rounds in _ROUNDS:
                    rule = _of_rule(kind, scale, touched * rounds)
                    yield _noisy_row(study, f"{example} {kind}", f"{scale}", rounds, rule, scale=scale)
    for rounds in _ROUNDS:
        rule = f"{float(PURE.for_numbers('each', [_HALF * rounds, _THIRD * rounds])[0]):.6g}"
        yield _noisy_row(study, "IV.14 Laplace", "2, 3.33, 5", rounds, rule)


def _noisy_row(study: Study, label: str, scales: str, rounds: int, rule: str, **noise: Any) -> tuple[str, ...]:
    plan, sequential = (
        study.epsilon(f"{label}{end}", compositions=rounds, delta=_DELTA, refine=True, **noise)
        for end in ("", " sequential")
    )
    low, high = (float(side) for side in (plan.lower, plan.upper))
    least, most = (float(side) for side in (sequential.lower, sequential.upper))
    example, kind = label.split()
    return (
        example,
        f"{kind} {scales}",
        str(rounds),
        rule,
        _bracket(low, high),
        _bracket(least, most),
        _bracket(low / most, high / least, 3),
    )


def _of_rule(kind: str, scale: int, touched: int) -> str:
    """Return ε of so many counts with noise: by IV.1, or by Theorem VI.21 at `_DELTA`."""
    parameters = [Fraction(1, scale)] * touched
    changes: Touched = "each"
    if kind == "Laplace":
        return f"{float(PURE.for_numbers(changes, parameters)[0]):.6g}"
    mu = float(GAUSSIAN.for_numbers(changes, parameters)[0])
    return rounded_up(epsilon_bounds(Gaussian(1.0, mu), compositions=1, delta=_DELTA)["epsilon_upper"].item(), 4)


def _bracket(lower: float, upper: float, digits: int = 4) -> str:
    return f"[{rounded_down(lower, digits)}, {rounded_up(upper, digits)}]"


def _parameters(epsilon: str, delta: float) -> str:
    """Return (ε, δ), or ε alone where there is no δ."""
    return f"({epsilon}, {delta:.3g})".replace("e-0", "e-") if delta else epsilon


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--store", type=Path, default=_ROOT / "data" / "hospitals.zarr", help="the store of the study")
    parser.add_argument(
        "--page", type=Path, default=_ROOT / "docs" / "hospitals.md", help="the page; the table of noise goes beside it"
    )
    options = parser.parse_args(arguments)
    study = open_study(options.store)
    options.page.write_text(page(study), encoding="utf-8")
    options.page.with_name("hospitals-noise.csv").write_text(noise_table(study), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
