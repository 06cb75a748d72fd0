"""Numbers as the page prints them."""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Decimal

from pipelines.comparing.judgement import Judgement, Verdict

__all__ = ["above", "below", "cell", "nearest", "times"]

_DIGITS = 7


def below(value: float) -> str:
    """Return a lower bound, rounded down."""
    return _rounded(value, ROUND_FLOOR)


def above(value: float) -> str:
    """Return an upper bound, rounded up."""
    return _rounded(value, ROUND_CEILING)


def nearest(value: float) -> str:
    """Return another's number."""
    return _rounded(value, ROUND_HALF_EVEN)


def _rounded(value: float, rounding: str) -> str:
    if math.isinf(value):
        return "∞" if value > 0.0 else "-∞"
    if math.isnan(value) or value == 0.0:
        return "no number" if math.isnan(value) else "0"
    exact = Decimal(value)
    rounded = exact.quantize(Decimal((0, (1,), exact.adjusted() - _DIGITS + 1)), rounding=rounding)
    power = rounded.adjusted()
    if -4 <= power < _DIGITS:
        return f"{rounded.normalize():f}"
    return f"{rounded.scaleb(-power).normalize():f}e{power}"


def cell(judgement: Judgement) -> str:
    """Return a verdict for a table, with the ratio of the number to our bound next to it."""
    verdict, ratio = judgement.verdict, judgement.ratio
    words = {Verdict.WITHIN: "≈", Verdict.OPEN: "?", Verdict.SILENT: "says nothing"}
    if verdict in words:
        return words[verdict]
    if verdict is Verdict.VALID:
        return times(ratio)
    return f"**{verdict.value}** {times(ratio)}"


def times(ratio: float) -> str:
    """Return a ratio: next to 1 as what is more or less."""
    if math.isnan(ratio):
        return "(no number)"
    if ratio < 0.0:
        return "(negative)"
    if math.isinf(ratio):
        return "∞×"
    if ratio != 1.0 and abs(ratio - 1.0) < 5e-3:
        return f"1 {'+' if ratio > 1.0 else '-'} {abs(ratio - 1.0):.1e}×".replace("e-0", "e-")
    if ratio == 0.0 or 1e-3 <= ratio < 1e4:
        return f"{ratio:.4g}×"
    return f"{ratio:.1e}×".replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")
