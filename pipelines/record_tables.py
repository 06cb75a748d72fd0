"""Write ``docs/records.md`` from the store of ``pipelines/records/random-allocation.yaml``.

    pbdist run random-allocation
    python -m pipelines.record_tables

δ is read from the store; ε is computed.
"""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pbdist import RandomAllocation, epsilon_bounds, open_study
from pbdist.query import Study
from pbdist.rounding import rounded_down, rounded_up

__all__ = ["DELTA", "LESS", "PUBLISHED", "TOTAL_VARIATION", "Published", "main", "page"]

_ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Published:
    """A row of Ertan and van Dijk's Tables 4 and 6: the smallest noise that they certify.

    Attributes
    ----------
    steps, epochs : int
        M and E.
    scale : float
        σ, the smallest with which the total variation after E epochs is at most `TOTAL_VARIATION`, to 6 decimals.
    epsilon : float or None
        ε at `DELTA` with that noise, where it is told.
    """

    steps: int
    epochs: int
    scale: float
    epsilon: float | None = None


#: Their total variation, which is δ at ε = 0; their δ; and the noise that is refuted is smaller by this.
TOTAL_VARIATION, DELTA, LESS = 0.1, 1e-5, 1e-6
PUBLISHED = (
    Published(100, 10, 1.426215, 0.949),
    Published(100, 20, 1.907073, 0.940),
    Published(100, 40, 2.610518, 0.939),
    Published(250, 10, 1.024495),
    Published(250, 20, 1.309428),
    Published(250, 40, 1.732809),
    Published(500, 10, 0.834432),
    Published(500, 20, 1.025964),
    Published(500, 40, 1.310146),
)

_HEAD = """\
# Published records, remade

Numbers that others published as the best known, beside what is proved here from both sides. The
[glossary](glossary.md) has the words.

## Random allocation

In each of E epochs every record is used in one of M steps, drawn at random ([`RandomAllocation`](studies.md)). Ertan &
van Dijk looked for the smallest noise σ (at sensitivity 1) with a total variation of at most 0.1, which is δ at ε = 0,
and certified theirs from above, in 36 to 598 s each. Both columns of δ are from `pbdist run random-allocation`, which
takes three minutes of one core: of each σ the upper bound, and of one smaller by 1e-6 the lower bound. So the published
σ are the smallest of 6 decimals. `pbdist size` finds the same in some seconds each, with a refuted σ smaller by a part
in 10^6:

```sh
pbdist size --family RandomAllocation --steps 100 --compositions 10 --epsilon 0 --delta 0.1 --tolerance 1e-6
```

| M | E | σ, published | δ there, at most | 1e-6 less | δ there, at least | ε at δ = 1e-5, published | ours |
|---|---|---|---|---|---|---|---|
"""
_TAIL = """
This page is generated: `python -m pipelines.record_tables` writes it. Upper bounds are rounded upwards, and lower
bounds downwards. Published ε, an upper bound, is told for M = 100.
"""


def page(study: Study) -> str:
    """Return the page, with the numbers of a store."""
    return _HEAD + "".join(f"| {' | '.join(_row(study, published))} |\n" for published in PUBLISHED) + _TAIL


def _row(study: Study, published: Published) -> list[str]:
    smaller = round(published.scale - LESS, 6)
    bounds = [
        study.delta(f"M = {published.steps}", compositions=published.epochs, epsilon=0.0, scale=scale)
        for scale in (published.scale, smaller)
    ]
    pair = RandomAllocation(published.scale, published.steps)
    epsilon = epsilon_bounds(pair, compositions=published.epochs, delta=DELTA)
    lower, upper = float(epsilon.epsilon_lower.item()), float(epsilon.epsilon_upper.item())
    return [
        str(published.steps),
        str(published.epochs),
        f"{published.scale:.6f}",
        rounded_up(float(bounds[0].upper), 9),
        f"{smaller:.6f}",
        rounded_down(float(bounds[1].lower), 9),
        "" if published.epsilon is None else f"{published.epsilon:.3f}",
        f"[{rounded_down(lower, 4)}, {rounded_up(upper, 4)}]",
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(
        prog="python -m pipelines.record_tables", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--store", default=str(_ROOT / "data" / "random-allocation.zarr"), help="the store of the study"
    )
    parser.add_argument("-o", "--output", default=str(_ROOT / "docs" / "records.md"), help="the page")
    options = parser.parse_args(arguments)
    Path(options.output).write_text(page(open_study(options.store)), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
