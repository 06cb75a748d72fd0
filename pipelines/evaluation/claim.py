"""A claim of the paper, what is found of it under each reading, and the verdict that follows."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

__all__ = ["DEFINED", "HOLDS", "NOT_TESTABLE", "REFUTED", "UNDECIDED", "Claim", "Finding", "Interval"]

HOLDS, REFUTED, UNDECIDED, NOT_TESTABLE = "holds", "refuted", "undecided", "not testable"
DEFINED = "by definition"
_ANSWERS = (True, False, None)


@dataclass(frozen=True)
class Interval:
    """A number that is known to lie between two others."""

    lower: float
    upper: float

    def __str__(self) -> str:
        """Both ends, rounded outwards to 5 digits."""
        if self.lower == self.upper:
            return _digits(self.lower, 0)
        return f"[{_digits(self.lower, -1)}, {_digits(self.upper, 1)}]"

    def at_most(self, limit: float) -> bool | None:
        """Whether it is at most a number; None where that is not known."""
        return True if self.upper <= limit else False if self.lower > limit else None

    def at_least(self, limit: float) -> bool | None:
        """Whether it is at least a number; None where that is not known."""
        return True if self.lower >= limit else False if self.upper < limit else None

    def between(self, low: float, high: float) -> bool | None:
        """Whether it lies between two numbers; None where that is not known."""
        if self.lower >= low and self.upper <= high:
            return True
        return False if self.upper < low or self.lower > high else None

    def orders_below(self, other: float) -> "Interval":
        """How many powers of ten it lies below a number."""
        highest = math.inf if self.lower == 0.0 else math.log10(other / self.lower)
        return Interval(math.log10(other / self.upper), highest)

    def over(self, other: "Interval") -> "Interval":
        """Its ratio to another one; both are positive."""
        return Interval(self.lower / other.upper, self.upper / other.lower if other.lower else math.inf)


def _digits(value: float, towards: int) -> str:
    """Return 5 digits of a number, rounded down (-1), up (1) or to nearest (0)."""
    if value == 0.0 or not math.isfinite(value):
        return f"{value:g}"
    nearest = float(f"{value:.4e}")
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 4)
    if (towards < 0 and nearest > value) or (towards > 0 and nearest < value):
        nearest += towards * unit
    return f"{float(f'{nearest:.4e}'):.5g}"


@dataclass(frozen=True)
class Finding:
    """What is found of a claim.

    Attributes
    ----------
    reading
        Of which reading of the paper; empty where there is one.
    found
        The numbers, as text.
    holds
        Whether the claim holds; None where the bounds do not decide.
    """

    reading: str
    found: str
    holds: bool | None


@dataclass(frozen=True)
class Claim:
    """A claim of the paper.

    Attributes
    ----------
    where
        Section, figure or footnote.
    text
        What is claimed, in our words.
    findings
        Of each reading, or of each part; none where it cannot be tested.
    rule
        How words such as "almost" are read, or why it cannot be tested.
    parts
        Whether the findings are parts that all have to hold, and not readings of which one may be meant.
    defined
        Whether it follows from how something is defined, so that nothing is tested.
    """

    where: str
    text: str
    findings: Sequence[Finding]
    rule: str = ""
    parts: bool = False
    defined: bool = False

    @property
    def verdict(self) -> str:
        """What follows from the findings."""
        if self.defined:
            return DEFINED
        if not self.findings:
            return NOT_TESTABLE
        named = {value: "; ".join(one.reading for one in self.findings if one.holds is value) for value in _ANSWERS}
        count = {value: sum(one.holds is value for one in self.findings) for value in _ANSWERS}
        if count[True] == len(self.findings):
            return HOLDS
        return self._of_parts(named, count) if self.parts else self._of_readings(named, count)

    @staticmethod
    def _of_parts(named: Mapping[bool | None, str], count: Mapping[bool | None, int]) -> str:
        if count[False]:
            return f"{REFUTED} for {named[False]}" if count[True] or count[None] else REFUTED
        return f"{UNDECIDED} for {named[None]}" if count[True] else UNDECIDED

    @staticmethod
    def _of_readings(named: Mapping[bool | None, str], count: Mapping[bool | None, int]) -> str:
        if not count[True]:
            return UNDECIDED if count[None] else REFUTED
        unknown = f", {UNDECIDED} under {named[None]}" if count[None] else ""
        return f"{HOLDS} only under {named[True]}{unknown}"
