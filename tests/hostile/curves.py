"""Hostile questions for ε at a δ, and for trade-off curves: answers against the same exact truths."""

import functools
import math
import warnings
from fractions import Fraction
from typing import Any

from flint import arb, ctx

import pbdist
from pbdist.errors import PbdistError, PrecisionError
from pbdist.types import Direction
from tests.hostile.cases import Case, Draw, corner_case, finite_case, noise_case, sampled_case
from tests.hostile.checks import CAUGHT, INTERNAL, Finding, Report, exception_of
from tests.hostile.draw import written
from tests.hostile.noise_truth import Noise, NoiseTruth
from tests.hostile.truth import FEWEST_BITS, FiniteTruth, Outcome, judged

#: Outcomes of a curve at most.
_MAX_OUTCOMES = 150


def asked(function: Any, one: Case, report: Report, **arguments: Any) -> tuple[Any, list[str]] | None:
    """Call; return the answer and the warnings of pbdist, or None after noting what was wrong."""
    said = "".join(f", {key}={value!r}" for key, value in arguments.items())
    call = f"{function.__name__}({written(one.mechanism)}, compositions={one.rounds}{said})"
    report.calls += 1
    try:
        with warnings.catch_warnings(record=True) as noted:
            warnings.simplefilter("always")
            warnings.simplefilter("error", RuntimeWarning)
            found = function(one.mechanism, compositions=one.rounds, **arguments)
    except PbdistError as error:
        report.refusals += 1
        text = str(error)
        kind = "text" if INTERNAL.search(text) else "imprecise" if isinstance(error, PrecisionError) else "refused"
        report.findings.append(Finding(kind, call, f"{type(error).__name__}: {text}"))
        return None
    except CAUGHT as error:
        report.findings.append(Finding("exception", call, exception_of(error)))
        return None
    found.attrs["call"] = call
    return found, [str(item.message) for item in noted]


# -- ε at a δ --------------------------------------------------------------------------------------------------------


def check_epsilon(draw: Draw, report: Report) -> None:
    """Draw a pair and values of δ; compare ε."""
    kind = draw.one_of([finite_case, finite_case, noise_case, noise_case, sampled_case, corner_case])
    one = None
    while one is None:
        one = kind(draw, 2)
    delta = []
    for _ in range(2):
        at = one.truth.delta(draw.one_of(one.epsilon), draw.integer(0, 1))
        near = float(at.mid()) * draw.one_of([1.0, 1.0 + 1e-9, 0.5, 1.0 - 1e-12])
        other = draw.one_of([1e-300, 1e-10, 1e-6, 0.1, 0.5, 1.0 - 2.0**-53, 10.0 ** draw.uniform(-320.0, 0.0)])
        delta.append(near if 0.0 < near < 1.0 and draw.chance(0.7) else other)
    answer = asked(pbdist.epsilon_bounds, one, report, delta=delta, direction="each")
    if answer is None:
        return
    found, noted = answer
    lower, upper = (found[f"epsilon_{side}"].values[:, 0, :] for side in ("lower", "upper"))
    for axis, direction in enumerate(Direction):
        for column, wanted in enumerate(delta):
            report.cases += 1
            low, high = float(lower[axis, column]), float(upper[axis, column])
            problem = epsilon_problem(one, axis, wanted, low, high)
            if problem:
                text = f"{direction.value} δ={wanted!r}: ε {low!r} .. {high!r}, {problem}"
                report.findings.append(Finding("unsound", found.attrs["call"], text))
            elif not noted and not high - low <= 1.01e-3 * high and far_apart(one, axis, wanted, low, high):
                text = f"{direction.value} δ={wanted!r}: ε {low!r} .. {high!r} without a warning"
                report.findings.append(Finding("wide", found.attrs["call"], text))


def epsilon_problem(one: Case, axis: int, delta: float, low: float, high: float) -> str:
    """What contradicts low <= ε <= high: δ beyond what is asked for at the upper one, or met below the lower one."""
    if math.isnan(low) or math.isnan(high) or not 0.0 <= low <= high:
        return "out of order"

    def met(truth: arb) -> bool | None:
        return True if truth <= arb(delta) else False if truth > arb(delta) else None

    if high < math.inf and not judged(one.truth, high, axis, met).holds:
        return "δ is larger at the upper one"
    if low > 0.0:
        verdict = judged(one.truth, math.nextafter(low, 0.0), axis, met)
        if verdict.decided and verdict.holds and verdict.truth < arb(delta):
            return f"δ is met below the lower one: {verdict.truth.str(20)}"
    return ""


def far_apart(one: Case, axis: int, delta: float, low: float, high: float) -> bool:
    """Whether the truth tells ε better than the answer by more than a hundredth."""
    first, last = max(low, 1e-12), min(high, 1e9)
    with ctx.workprec(FEWEST_BITS):
        if one.truth.delta(last, axis) > arb(delta):
            return False
        return bool(one.truth.delta(0.99 * last + 0.01 * first, axis) < arb(delta)) or bool(
            one.truth.delta(0.01 * last + 0.99 * first, axis) > arb(delta)
        )


# -- trade-off curves ------------------------------------------------------------------------------------------------


def check_tradeoff(draw: Draw, report: Report) -> None:
    """Draw a pair and type I errors; compare type II errors."""
    one = None
    while one is None:
        one = draw.one_of([finite_case, finite_case, noise_case])(draw, 1)
        if one is not None and isinstance(one.truth, FiniteTruth):
            one = one if len(one.truth.composed()) <= _MAX_OUTCOMES else None
        elif one is not None and not isinstance(one.truth, NoiseTruth):
            one = None
    alpha = sorted({draw.one_of([0.0, 1.0, 0.05, 0.5, draw.uniform(0.0, 1.0), draw.faint()]) for _ in range(3)})
    alpha = [min(value, 1.0) for value in alpha]
    answer = asked(pbdist.tradeoff_bounds, one, report, type_one_error=alpha, direction="each")
    if answer is None:
        return
    found, _ = answer
    lower, upper = (found[f"type_two_error_{side}"].values[:, 0, :] for side in ("lower", "upper"))
    for axis, direction in enumerate(Direction):
        for column, wanted in enumerate(alpha):
            report.cases += 1
            low, high = float(lower[axis, column]), float(upper[axis, column])
            with ctx.workprec(4 * FEWEST_BITS):
                exact = type_two_error(one.truth, wanted, axis).min(arb(1))
                good = not arb(low) > exact and not arb(high) < exact and 0.0 <= low <= high
            text = f"{direction.value} α={wanted!r}: β {low!r} .. {high!r}, exact {exact.str(25)}"
            if not good or math.isnan(low + high):
                report.findings.append(Finding("unsound", found.attrs["call"], text))
            elif high > 1.0:
                report.findings.append(Finding("above one", found.attrs["call"], text))


def type_two_error(truth: Any, alpha: float, axis: int) -> arb:
    """The smallest type II error: under B, where the type I error under A is at most α (axis 0), or the reverse."""
    if isinstance(truth, NoiseTruth):
        return noise_type_two(truth.noise if axis == 0 else truth.noise.mirrored(), alpha)
    outcomes: list[Outcome] = [(a, b) if axis == 0 else (b, a) for a, b in truth.composed()]

    def earlier(one: Outcome, other: Outcome) -> int:
        first, second = one[1] * other[0], other[1] * one[0]
        return -1 if first > second else 1 if first < second else 0

    left, missed = arb(alpha), arb(0)
    full = False
    for a, b in sorted(outcomes, key=functools.cmp_to_key(earlier)):
        if full:
            missed += b
        elif a <= left or a == 0:
            left -= a
        else:
            missed += b * (1 - (left / a).max(arb(0)))
            full = True
    return missed


def noise_type_two(noise: Noise, alpha: float) -> arb:
    """The same for noise, whose likelihood ratio falls along x: the largest x are rejected."""
    shared = noise.common()
    if shared is None:
        return arb(0)
    left, right = shared
    s, kept = Fraction(noise.sensitivity), noise.kept()
    moved = None if left is None else left - s
    reach = 200 * max(Fraction(noise.scale), s)
    low, high = (-reach if left is None else left), (reach if right is None else right)
    if noise.mass(low, right) <= arb(alpha) * kept:
        return arb(0)
    for _ in range(400):
        middle = (low + high) / 2
        if noise.mass(middle, right) > arb(alpha) * kept:
            low = middle
        else:
            high = middle
    # Up to `low` surely not rejected, from `high` on surely.
    return (noise.mass(moved, low - s) / kept).union(noise.mass(moved, high - s) / kept)
