"""What is wrong with an answer: every bound against the truth, every refusal against what is documented."""

import math
import re
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from flint import ctx

import pbdist
from pbdist.errors import InvalidInputError, PbdistError, PrecisionError, PrecisionWarning
from pbdist.types import Direction
from tests.hostile.cases import Case, Draw, case
from tests.hostile.truth import FEWEST_BITS, is_log_lower, is_log_upper, is_lower, is_upper, judged

#: Words that tell a user nothing.
INTERNAL = re.compile(r"convolve|vector|array|shape|ndarray|\bnan\b|index \d|cannot convert|grid edges", re.IGNORECASE)
#: Seconds from which on a call is told as slow.
SLOW = 3.0
#: What makes a bound no bound, or an answer no answer.
WRONG = ("unsound", "no number", "above one", "not zero", "exception", "text", "refused", "untold")
_LOG_FLOOR = math.log(1e-40)
_NAMES = ("delta_lower", "delta_upper", "log_delta_lower", "log_delta_upper")


#: What may come instead of a documented error.
CAUGHT = (ArithmeticError, AssertionError, AttributeError, LookupError, MemoryError, TypeError, ValueError, Warning)


def exception_of(error: BaseException) -> str:
    """Kind, place and text of an exception."""
    where = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {where.filename.rsplit('pbdist/', 1)[-1]}:{where.lineno}: {error}"


@dataclass
class Finding:
    """What is wrong, and the call that shows it."""

    kind: str
    call: str
    text: str

    def __str__(self) -> str:
        # Counts may have very many digits.
        return f"[{self.kind}] {self.call[:4000]}\n    {self.text[:1000]}"


@dataclass
class Report:
    """What was found so far."""

    calls: int = 0
    cases: int = 0
    undecided: int = 0
    refusals: int = 0
    findings: list[Finding] = field(default_factory=list)

    @property
    def wrong(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.kind in WRONG]


def check(draw: Draw, report: Report, asked: int = 6) -> None:
    """Draw a case, and compare all that is answered."""
    one = case(draw, asked)
    one.arguments["direction"] = "both" if draw.chance(0.2) else "each"
    look(one, report)


def look(one: Case, report: Report) -> None:
    """Compare what is answered to a case."""
    answer = answered(one, report)
    if answer is not None:
        compare(one, answer, report)


def answered(one: Case, report: Report) -> dict[str, Any] | None:
    """The four arrays of bounds, and where they are within the tolerance, shape (directions, ε); None if refused.

    With ``strict`` a tolerance that is missed is an error, judged as any refusal; what is told without it is compared.
    """
    found = asked(one, report, strict=True)
    if found is None and "factor" not in one.arguments and one.arguments.get("method") != "buckets":
        found = asked(one, report, strict=False)
        if found is not None and found["within_tolerance"].values.all():
            report.findings.append(Finding("wide", one.call(), "refused with strict, and within the tolerance without"))
    if found is None:
        return None
    within = found.get("within_tolerance", found["delta_lower"] == found["delta_lower"])
    values = {name: found[name].values for name in _NAMES} | {"within": within.values}
    return {name: np.atleast_2d(array.reshape(-1, len(one.epsilon))) for name, array in values.items()}


def asked(one: Case, report: Report, *, strict: bool) -> Any:
    """Ask for bounds, after noting what is wrong: None where they are refused."""
    report.calls += 1
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("error")
            warnings.simplefilter("always", PrecisionWarning)
            found = pbdist.privacy_bounds(
                one.mechanism, compositions=one.rounds, epsilon=one.epsilon, strict=strict, **one.arguments
            )
    except PbdistError as error:
        refused(one, error, report)
        return None
    except CAUGHT as error:
        report.findings.append(Finding("exception", one.call(), exception_of(error)))
        return None
    finally:
        taken = time.perf_counter() - started
        if taken > SLOW:
            report.findings.append(Finding("slow", one.call(), f"{taken:.1f} s"))
    if bool(told) != ("within_tolerance" in found and not found["within_tolerance"].values.all()):
        report.findings.append(Finding("untold", one.call(), f"{[str(item.message) for item in told]}"))
    return found


def refused(one: Case, error: PbdistError, report: Report) -> None:
    """Judge a refusal: of its documented kinds, and told in words for a user."""
    report.refusals += 1
    text = str(error)
    if INTERNAL.search(text) or not re.match(r"[A-Za-z]+(\.[a-z_]+)?(\[\d+\])?: ", text):
        report.findings.append(Finding("text", one.call(), f"{type(error).__name__}: {text}"))
    elif isinstance(error, PrecisionError) and needless(one, text):
        report.findings.append(Finding("needless", one.call(), text))
    elif isinstance(error, PrecisionError):
        report.findings.append(Finding("imprecise", one.call(), text))
    elif not isinstance(error, InvalidInputError) or not re.match(r"(buckets|factor|compositions|tolerance): ", text):
        report.findings.append(Finding("refused", one.call(), f"{type(error).__name__}: {text}"))
    else:
        report.findings.append(Finding("invalid", one.call(), text))


def needless(one: Case, text: str) -> bool:
    """Whether what is told in the refusal, and that δ is no more than 1 (0 of equal distributions), is enough."""
    if one.truth.equal:
        return True
    told = re.search(r"ln δ between (\S+) and (\S+)\)", text)
    if told is None:
        return False
    lower, upper = float(told[1]), float(told[2])
    return upper > 0.0 and lower >= -math.log1p(one.arguments.get("tolerance", 1e-3))


def compare(one: Case, answer: dict[str, Any], report: Report) -> None:
    """Compare every bound with the truth."""
    both = answer["delta_lower"].shape[0] == 1

    def wrong(kind: str, column: int, axis: int, text: str) -> None:
        alone = Case(one.mechanism, one.rounds, [one.epsilon[column]], one.truth, one.arguments)
        side = "both" if both else list(Direction)[axis].value
        report.findings.append(Finding(kind, alone.call(), f"{side}: {text}"))

    for column, epsilon in enumerate(one.epsilon):
        for axis in range(answer["delta_lower"].shape[0]):
            report.cases += 1
            lower, upper, log_lower, log_upper = (float(answer[name][axis, column]) for name in _NAMES)
            shown = f"δ {lower!r} .. {upper!r}, ln δ {log_lower!r} .. {log_upper!r}"
            if math.isnan(lower + upper) or math.isnan(log_lower) or math.isnan(log_upper):
                wrong("no number", column, axis, shown)
                continue
            if upper > 1.0 or log_upper > 0.0:
                wrong("above one", column, axis, shown)
            if one.truth.equal and (upper > 0.0 or log_upper > -math.inf):
                wrong("not zero", column, axis, shown)
            if not (0.0 <= lower <= upper and log_lower <= log_upper):
                wrong("unsound", column, axis, f"out of order: {shown}")
            exact = compare_one(one, epsilon, axis, both, (lower, upper, log_lower, log_upper), report)
            if exact:
                wrong("unsound", column, axis, f"{shown}, exact {exact}")
            if answer["within"][axis, column] and silently_wide(one, epsilon, axis, log_lower, log_upper):
                wrong("wide", column, axis, shown)


def silently_wide(one: Case, epsilon: float, axis: int, log_lower: float, log_upper: float) -> bool:
    """Whether an answer is further apart than was asked for, and not for a documented reason.

    Documented: nothing is promised of an upper bound of at most 1e-40, and next to the largest loss δ need only be told
    as at an ε lower by a millionth.
    """
    allowed = math.log1p(one.arguments.get("tolerance", 1e-3)) * 1.000001
    if (
        not set(one.arguments) <= {"tolerance", "direction"}
        or log_upper - log_lower <= allowed
        or log_upper <= _LOG_FLOOR
    ):
        return False
    with ctx.workprec(FEWEST_BITS):
        here, near = (one.truth.delta(value, axis) for value in (epsilon, epsilon * (1.0 - 1.1e-6)))
        # Where δ itself is as large as its upper bound nothing excuses a lower bound of 0.
        steep = not (here > 0 and here.log() + allowed >= log_upper)
        return not (log_lower == -math.inf and steep and near > 0 and near.log() + allowed >= log_upper)


def compare_one(one: Case, epsilon: float, axis: int, both: bool, values: tuple[float, ...], report: Report) -> str:
    """What the truth is where a bound does not hold; nothing where all do."""
    lower, upper, log_lower, log_upper = values
    tests: list[tuple[str, Callable[..., bool | None]]] = []
    if lower > 0.0:
        tests.append(("any", is_lower(lower)))
    if log_lower > -math.inf:
        tests.append(("any", is_log_lower(log_lower)))
    # 1 is a bound without further proof.
    if upper < 1.0:
        tests.append(("all", is_upper(upper)))
    if log_upper < 0.0:
        tests.append(("all", is_log_upper(log_upper)))
    for which, test in tests:
        # The larger direction is meant by "both": a lower bound holds for either, an upper one for each.
        axes = (0, 1) if both else (axis,)
        verdicts = [judged(one.truth, epsilon, each, test) for each in axes]
        report.undecided += sum(not verdict.decided and one.truth.sharp for verdict in verdicts)
        good = (any if which == "any" else all)(verdict.holds for verdict in verdicts)
        if not good:
            return ", ".join(f"{verdict.truth.str(25)}" for verdict in verdicts)
    return ""
