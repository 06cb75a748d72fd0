"""The result of a verification of a store, as values, text and JSON."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from pbdist.quantities import counted
from pbdist.rounding import rounded_up
from pbdist.store.layout import BOUNDS
from pbdist.types import Direction, JsonValue


class Verdict(Enum):
    """The relation of the exact bracket to the stored one, upper and lower bound together."""

    #: The exact bracket lies within the stored one: both stored bounds are proved.
    CONFIRMED = "confirmed"
    #: The brackets overlap, and neither bound is refuted; one of them may be proved.
    CONSISTENT = "consistent"
    #: The brackets are disjoint, or the stored one is empty: the stored bounds are proved wrong.
    CONTRADICTED = "contradicted"
    #: Exact bounds need more bins than allowed.
    UNCHECKED = "unchecked"


@dataclass(frozen=True)
class Sample:
    """A stored point in one direction, and its exact bounds.

    `cell` is -1 for a point that a query has added. `stored` and `exact` are lower and upper bounds on δ, then on ln δ;
    exact bounds are rounded outwards. `loss_width` is the width of the exact arithmetic's bins in nats: `multiple`, a
    power of 2, times the stored width.
    """

    cell: int
    setting: str
    compositions: int
    epsilon: float
    direction: Direction
    stored: tuple[float, float, float, float]
    exact: tuple[float, float, float, float] | None
    loss_width: float
    multiple: float
    verdict: Verdict

    def describe(self) -> str:
        """Return the point and both brackets as one line of text."""
        exact = "none" if self.exact is None else f"{self.exact[0]!r} to {self.exact[1]!r}"
        logarithms = "" if self.exact is None else f", ln {self.exact[2]!r} to {self.exact[3]!r}"
        return (
            f"{self.setting}, r = {self.compositions}, ε = {self.epsilon!r}, {self.direction.value}: stored"
            f" {self.stored[0]!r} to {self.stored[1]!r}, ln {self.stored[2]!r} to {self.stored[3]!r}; exact {exact}"
            f"{logarithms} (loss width {self.loss_width:.3g}, {self.multiple:g} times the stored one)"
        )

    def as_json(self) -> dict[str, JsonValue]:
        """Return the sample in the types of JSON, with None for the logarithm of a δ of 0 and for NaN."""
        return {
            **vars(self),
            "direction": self.direction.value,
            "stored": _named(self.stored),
            "exact": None if self.exact is None else _named(self.exact),
            "loss_width": self.loss_width if math.isfinite(self.loss_width) else None,
            "verdict": self.verdict.value,
        }


@dataclass(frozen=True)
class Verification:
    """The result of a verification.

    Batches, numbered through all parts, are `missing` if they have no files, and `changed` if these differ from their
    checksums. `failed` counts the cells of the other batches that could not be computed; `damaged` lists changed files
    of points that queries have added. `points` counts the stored points, in each direction.
    """

    batches: int
    missing: tuple[int, ...]
    changed: tuple[int, ...]
    failed: int
    damaged: tuple[str, ...]
    points: int
    seed: int
    max_cells: int
    samples: tuple[Sample, ...]

    @property
    def passed(self) -> bool:
        """Whether the store is complete and unchanged, and nothing contradicts it."""
        return not (self.missing or self.changed or self.failed or self.damaged or self.of(Verdict.CONTRADICTED))

    def of(self, verdict: Verdict) -> tuple[Sample, ...]:
        """Return the samples of a verdict."""
        return tuple(sample for sample in self.samples if sample.verdict is verdict)

    def lines(self) -> Iterator[str]:
        """Yield the result as text, line by line."""
        sound = self.batches - len(self.missing) - len(self.changed)
        yield f"{sound:,} of {self.batches:,} batches are committed and have their checksums"
        for what, found in (("not computed", self.missing), ("changed", self.changed)):
            if found:
                yield f"{what}: batches {', '.join(map(str, found[:10]))}{', ..' if len(found) > 10 else ''}"
        if self.failed:
            yield f"could not be computed: {counted(self.failed, 'cell')}"
        for name in self.damaged[:10]:
            yield f"changed: {name}"
        yield (
            f"{len(self.samples)} of {self.points:,} stored points recomputed (seed {self.seed}), on grids of at most"
            f" {self.max_cells:,} bins:"
        )
        yield f"  {len(self.of(Verdict.CONFIRMED))} confirmed: the exact bracket lies within the stored one, both hold"
        consistent = len(self.of(Verdict.CONSISTENT))
        yield f"  {consistent} consistent: the brackets overlap{self._exact_widths()}"
        yield f"  {len(self.of(Verdict.UNCHECKED))} not checked: they need more bins"
        yield f"  {len(self.of(Verdict.CONTRADICTED))} contradicted: the stored bounds are proved wrong"
        for sample in self.of(Verdict.CONTRADICTED):
            yield f"contradicted: {sample.describe()}"

    def _exact_widths(self) -> str:
        """Return the largest width of the exact brackets of the consistent samples, as text."""
        logs = [sample.exact[2:] for sample in self.of(Verdict.CONSISTENT) if sample.exact is not None]
        gaps = [high - low for low, high in logs if low > -math.inf]
        most = rounded_up(math.expm1(min(max(gaps), 700.0)), 3) if gaps else ""
        widest = f"; exact upper / lower - 1 is at most {most}" if gaps else ""
        endless = len(logs) - len(gaps)
        return widest + (f"; {endless} of them without an exact lower bound above 0" if endless else "")

    def as_json(self) -> dict[str, JsonValue]:
        """Return the result in the types of JSON."""
        counts = {verdict.value: len(self.of(verdict)) for verdict in Verdict}
        samples = [sample.as_json() for sample in self.samples]
        return {"passed": self.passed, **vars(self), "counts": counts, "samples": samples}


def _named(bounds: tuple[float, float, float, float]) -> dict[str, JsonValue]:
    return {name: value if math.isfinite(value) else None for name, value in zip(BOUNDS, bounds, strict=True)}
