"""Numbers as a report writes them: bounds rounded outwards, ε exactly."""

import math

from pbdist.query.printing import NOT_KNOWN
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.study.spec import exponential

#: What stands in place of a bound that the store does not have.
NOT_COMPUTED = "not computed"


def bracket_text(lower: float, upper: float, *, attained: bool = True) -> tuple[str, str]:
    """Return a lower and an upper bound in 6 digits, rounded outwards; in words what is none."""
    if math.isnan(upper):
        return NOT_COMPUTED, NOT_COMPUTED
    return rounded_down(lower) if attained and not math.isnan(lower) else NOT_KNOWN, rounded_up(upper)


def epsilon_text(epsilon: float) -> str:
    """Return an ε exactly: as a number of nats, or as the logarithm of a shorter one."""
    power = exponential(epsilon)
    logarithm = f"ln {exact(power)}"
    number = exact(epsilon)
    return logarithm if epsilon > 0.0 and math.isfinite(power) and len(logarithm) < len(number) else number
