"""Judge another method's number by our proven bounds."""

import math
from dataclasses import dataclass
from enum import Enum

__all__ = ["WIDEST", "Claim", "Judgement", "Verdict", "judged"]

#: A bracket that says how good a number is: its upper bound over its lower one, at most.
WIDEST = 1.01


class Claim(Enum):
    """What a method says of its number."""

    UPPER = "upper"
    LOWER = "lower"
    ESTIMATE = "estimate"


class Verdict(Enum):
    """What our bounds say of it."""

    VALID = "valid"
    WITHIN = "within"
    OPEN = "undecided"
    REFUTED = "refuted"
    LOW = "too small"
    HIGH = "too large"
    SILENT = "says nothing"


@dataclass(frozen=True)
class Judgement:
    """A verdict, and the number over our bound next to it: above 1 it is larger."""

    verdict: Verdict
    ratio: float


def judged(claim: Claim, value: float, lower: float, upper: float, largest: float) -> Judgement:
    """Judge a number by our bracket.

    An upper bound is *refuted* if it is below our lower bound, *valid* if it is at least our upper one, and otherwise
    *within*: as good as our bracket can tell. A lower bound is judged the other way round. An estimate that lies
    outside is too small or too large. `largest` is what every mechanism meets, ∞ for ε and 1 for δ: an upper bound from
    there on says nothing, nor does a lower bound of 0. A number that is none is no bound. A bracket wider than `WIDEST`
    decides nothing of what lies in it.
    """
    if math.isnan(value):
        return Judgement(Verdict.REFUTED, math.nan)
    if claim is Claim.LOWER:
        return Judgement(
            _of_bound(value > upper, value <= lower, value <= 0.0, lower, upper), _ratio(value, lower, upper)
        )
    if claim is Claim.UPPER:
        verdict = _of_bound(value < lower, value >= upper, value >= largest, lower, upper)
    elif lower <= value <= upper:
        verdict = _inside(lower, upper)
    else:
        verdict = Verdict.LOW if value < lower else Verdict.HIGH
    return Judgement(verdict, _ratio(value, upper, lower))


def _of_bound(wrong: bool, right: bool, silent: bool, lower: float, upper: float) -> Verdict:
    """Return the verdict on a bound; what is wrong is nothing else."""
    if wrong:
        return Verdict.REFUTED
    if silent:
        return Verdict.SILENT
    return Verdict.VALID if right else _inside(lower, upper)


def _inside(lower: float, upper: float) -> Verdict:
    return Verdict.WITHIN if upper == lower or upper <= WIDEST * lower else Verdict.OPEN


def _ratio(value: float, near: float, far: float) -> float:
    """Return the number over the bound that it passed: `near`, or `far` if it lies beyond that one."""
    beyond = value < far if far < near else value > far
    bound = far if beyond else near
    if value == bound:
        return 1.0
    return value / bound if bound != 0.0 else math.inf
