"""What is drawn for hostile cases: faint masses, floats next to each other, ε at losses, every way to ask."""

import math
import sys
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.hostile.truth import FiniteTruth, Truth

#: Masses next to what the code tells apart, and next to what floats do.
LANDMARKS = (
    5e-324,
    1e-323,
    2.2250738585072014e-308,
    1e-300,
    1e-290,
    2e-290,
    1e-280,
    1e-260,
    2.0**-1000,
    1e-160,
    1e-154,
)


@dataclass
class Case:
    """A call of `privacy_bounds` with the truth beside it."""

    mechanism: Any
    rounds: int
    epsilon: list[float]
    truth: Truth
    arguments: dict[str, Any] = field(default_factory=dict)

    def call(self) -> str:
        said = "".join(f", {key}={value!r}" for key, value in self.arguments.items())
        return f"privacy_bounds({written(self.mechanism)}, compositions={self.rounds}, epsilon={self.epsilon!r}{said})"


def written(value: object) -> str:
    """The text of a value, whole numbers of many digits included."""
    most = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return repr(value)
    finally:
        sys.set_int_max_str_digits(most)


class Draw:
    """What is drawn, by numpy's generator."""

    def __init__(self, seed: Any) -> None:
        self.rng = np.random.default_rng(seed)

    def uniform(self, low: float, high: float) -> float:
        return float(self.rng.uniform(low, high))

    def integer(self, low: int, high: int) -> int:
        """From low to high, both included."""
        return int(self.rng.integers(low, high, endpoint=True))

    def one_of(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def stepped(self, value: float, most: int = 4) -> float:
        """A float a few units in the last place away."""
        for _ in range(self.integer(0, most)):
            value = math.nextafter(value, math.inf if self.chance(0.5) else -math.inf)
        return value

    def faint(self) -> float:
        """A mass from the smallest float to 1."""
        kind = self.integer(0, 9)
        if kind < 6:
            return 10.0 ** self.uniform(-300.0, 0.0)
        if kind < 8:
            return abs(self.stepped(self.one_of(LANDMARKS)))
        if kind < 9:
            return 10.0 ** self.uniform(-20.0, 0.0)
        return 5e-324 * self.integer(1, 1000)


def epsilons(draw: Draw, losses: list[float], number: int) -> list[float]:
    """ε at losses, next to them, between them, and at places of no meaning."""
    finite = [abs(loss) for loss in losses if math.isfinite(loss) and abs(loss) < 1e140] or [1.0]
    chosen = []
    for _ in range(number):
        loss = draw.one_of(finite)
        kind = draw.integer(0, 9)
        if kind < 3:
            chosen.append(draw.stepped(loss, 2))
        elif kind < 6:
            chosen.append(loss * draw.uniform(0.0, 1.0))
        elif kind < 7:
            chosen.append(loss * (1.0 - 10.0 ** draw.uniform(-16.0, -1.0)))
        elif kind < 8:
            chosen.append(max(finite) * draw.uniform(0.0, 1.2))
        else:
            chosen.append(
                draw.one_of(
                    [0.0, 0.0, 5e-324, 1e-300, 1e-16, 1e-8, 0.3, 1.0, 5.0, 60.0, 600.0, 709.8, 746.0, 1e3, 1e9, 1e150]
                )
            )
    return sorted({abs(value) for value in chosen})


def losses_of(truth: FiniteTruth) -> list[float]:
    found = []
    for a, b in truth.composed():
        if a > 0 and b > 0:
            found.append(float(a.log() - b.log()))
    return found


def arguments(draw: Draw) -> dict[str, Any]:
    """How it is asked."""
    kind = draw.integer(0, 11)
    if kind < 5:
        return {}
    if kind < 6:
        return {"tolerance": draw.one_of([1.0, 0.3, 0.05, 1e-2, 1e-4, 1e-5])}
    if kind < 7:
        return {"factor": draw.one_of([1.001, 1.01, 1.1, math.exp(0.1), 2.0, math.e, 100.0, 1e10, 1e100])}
    if kind < 8:
        return {"buckets": draw.one_of([2, 4, 8, 64, 100, 1000, 10_000])}
    if kind < 9:
        return {"method": "buckets", "buckets": draw.one_of([4, 8, 16, 64, 1000, 4000])}
    if kind < 11:
        factors = [
            1.001,
            1.01,
            math.exp(0.1),
            2.0,
            math.e,
            100.0,
            1e10,
            1e50,
            1e100,
            1e280,
            math.exp(20.0),
            math.exp(43.75),
        ]
        return {"method": "buckets", "buckets": draw.one_of([2, 4, 6, 8, 16, 32, 64]), "factor": draw.one_of(factors)}
    return {"method": "buckets", "buckets": draw.one_of([1000, 4000]), "factor": draw.one_of([1.0001, 1.01, 2.0])}
