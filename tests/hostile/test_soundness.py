"""Thousands of hostile cases: no bound on the wrong side, and no exception but the documented ones.

The same cases in every run with one PBDIST_SEED; `python -m tests.hostile.soak` draws others.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

import pbdist
from pbdist import Gaussian, Histogram, InvalidInputError, Poisson
from tests import effort
from tests.effort import times
from tests.hostile.cases import Case, Draw
from tests.hostile.checks import Report, check, look
from tests.hostile.curves import check_epsilon, check_tradeoff
from tests.hostile.truth import Finite, FiniteTruth

#: What is drawn differs from part to part, and not from run to run.
SEED = 20_260_101 + effort.SEED
#: Comparisons of one part.
CASES = times(300)


def assert_good(report: Report) -> None:
    wrong = "\n".join(str(finding) for finding in report.wrong[:8])
    assert not report.wrong, f"{len(report.wrong)} wrong in {report.cases} cases:\n{wrong}"


#: The parts of the default run: of all the kinds, and none that takes long.
PARTS = (0, 1, 2, 3, 5, 6, 7, 8)
FURTHER = [pytest.param(part, marks=pytest.mark.nightly) for part in (4, *range(10, 24))]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("part", [*PARTS, pytest.param(9, marks=pytest.mark.ci), *FURTHER])
def test_hostile_settings_are_bracketed(part: int, record_property: Callable[[str, object], None]) -> None:
    report, number = Report(), 0
    while report.cases < CASES:
        check(Draw([SEED, part, number]), report, asked=4)
        number += 1
    record_property("cases", report.cases)
    record_property("undecided", report.undecided)
    # The exact truth has to tell: cases that it leaves open are few.
    assert report.undecided <= report.cases // 5
    assert_good(report)


@pytest.mark.slow
@pytest.mark.parametrize(("question", "cases"), [(check_epsilon, times(20)), (check_tradeoff, times(66))])
@pytest.mark.parametrize("part", [1000, pytest.param(1001, marks=pytest.mark.nightly)])
def test_hostile_questions_for_epsilon_and_for_curves(
    question: Callable[[Draw, Report], None], cases: int, part: int, record_property: Callable[[str, object], None]
) -> None:
    report, number = Report(), 0
    while report.cases < cases:
        question(Draw([SEED, part, number]), report)
        number += 1
    record_property("cases", report.cases)
    assert_good(report)


@pytest.mark.parametrize("digits", [3000, pytest.param(100_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("share", [3, 7, 12_345])
@pytest.mark.parametrize("arguments", [{"factor": 1.5}, {"method": "buckets", "buckets": 64, "factor": math.e}])
def test_losses_of_counts_of_very_many_digits(digits: int, share: int, arguments: dict[str, Any]) -> None:
    """Logarithms of large counts are large, and their roundings are not those of the loss between them."""
    one, fainter = share * 10**digits, 10**270
    pair = Histogram((one, one), (10**digits, 10**digits * (fainter - 1)))
    half, rest = Fraction(1, 2), Fraction(1, fainter)
    truth = FiniteTruth([(Finite(((half, rest), (half, 1 - rest))), 1)])
    loss = 270.0 * math.log(10.0) - math.log(2.0)
    epsilon = [loss - 5e-11, loss - 1e-11, loss - 2e-12, math.nextafter(loss, 0.0), loss, loss + 1e-11]
    report = Report()
    look(Case(pair, 1, sorted(epsilon), truth, {"direction": "each", **arguments}), report)
    assert report.cases == 2 * len(epsilon)
    assert_good(report)


@pytest.mark.parametrize(
    "call",
    [
        lambda: Histogram((-(10**5000), 1), (1, 1)),
        lambda: Gaussian(10**5000),
        lambda: Poisson(1.0, 10**5000),
        lambda: pbdist.privacy_bounds(Gaussian(1.0), compositions=10**5000, epsilon=1.0),
        lambda: pbdist.privacy_bounds(Gaussian(1.0), compositions=1, epsilon=10**5000),
        lambda: pbdist.epsilon_bounds(Gaussian(1.0), compositions=1, delta=10**5000),
        lambda: pbdist.privacy_bounds(Gaussian(1.0), compositions=1, epsilon=1.0, tolerance=10**5000),
        lambda: pbdist.epsilon_bounds(Gaussian(1.0), compositions=1, delta=1e-5, tolerance=10**5000),
    ],
)
def test_a_number_of_thousands_of_digits_is_refused_in_words(call: Callable[[], object]) -> None:
    """Python does not write such a number, unless asked to."""
    with pytest.raises(InvalidInputError, match="expected"):
        call()
