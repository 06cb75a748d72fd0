"""The page of claims: how verdicts follow from bounds, and that the shipped page is the one that is generated."""

import csv
import math
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.evaluation.claim import Claim, Finding, Interval
from pipelines.evaluation.page import CLAIMS, claims_table, findings_table, page
from pipelines.evaluation.stored import Stored

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]


@given(st.floats(1e-300, 1e300), st.floats(1.0, 10.0))
def test_printed_intervals_contain_the_true_ones(lower, factor):
    interval = Interval(lower, min(lower * factor, 1e301))
    low, high = re.fullmatch(r"\[(\S+), (\S+)\]", str(Interval(interval.lower, interval.upper * (1 + 1e-9)))).groups()
    assert float(low) <= interval.lower
    assert float(high) >= interval.upper
    assert float(low) >= interval.lower * (1 - 2e-4)
    assert float(high) <= interval.upper * (1 + 2e-4)


def test_intervals_decide_only_what_they_prove():
    interval = Interval(1.0, 2.0)
    assert interval.at_most(2.0) is True
    assert interval.at_most(1.5) is None
    assert interval.at_most(0.5) is False
    assert interval.at_least(1.0) is True
    assert interval.at_least(1.5) is None
    assert interval.at_least(3.0) is False
    assert interval.between(0.5, 2.5) is True
    assert interval.between(1.5, 2.5) is None
    assert interval.between(2.5, 3.0) is False
    assert interval.over(Interval(2.0, 4.0)) == Interval(0.25, 1.0)
    orders = Interval(1e-8, 1e-7).orders_below(1e-4)
    assert orders.lower == pytest.approx(3.0)
    assert orders.upper == pytest.approx(4.0)
    assert Interval(0.0, 1e-7).orders_below(1e-4).upper == math.inf


@pytest.mark.parametrize(
    ("holds", "verdict", "of_parts"),
    [
        ((True, True), "holds", "holds"),
        ((True, False), "holds only under a", "refuted for b"),
        ((True, None), "holds only under a, undecided under b", "undecided for b"),
        ((False, False), "refuted", "refuted"),
        ((False, None), "undecided", "refuted for a"),
        ((None, False), "undecided", "refuted for b"),
        ((None, None), "undecided", "undecided"),
        ((), "not testable", "not testable"),
    ],
)
def test_verdicts_follow_from_findings_and_parts_all_have_to_hold(holds, verdict, of_parts):
    findings = [Finding(name, "", one) for name, one in zip("ab", holds, strict=False)]
    assert Claim("1", "a claim", findings).verdict == verdict
    assert Claim("1", "a claim", findings, parts=True).verdict == of_parts
    assert Claim("1", "a claim", findings, defined=True).verdict == "by definition"


@pytest.fixture(scope="module")
def rows():
    """The claims of the shipped page: number, where, text, verdict."""
    return list(csv.reader((ROOT / "docs" / CLAIMS).read_text(encoding="utf-8").splitlines()))[1:]


def verdict_of(rows, words):
    [found] = [row for row in rows if words in row[2]]
    return found[3]


def test_the_shipped_page_tells_what_is_known(rows):
    """Verdicts that were worked out by hand from figures computed another way."""
    assert len(rows) >= 45
    both = "Gaussian noise of mean 15k meets"
    assert verdict_of(rows, both) == (
        "holds only under singles alone, clamp-and-ceil; singles alone, redraw-and-floor; singles alone, shift-inside"
    )
    assert verdict_of(rows, "Gaussian noise 4.1k / 833 meets") == "holds only under shift-inside"
    assert verdict_of(rows, "1.6k / 320 meets") == "holds only under redraw-and-floor; shift-inside"
    assert verdict_of(rows, "20k / 1598 has δ <= 1e-4 below e^ε = 1.5") == "holds"
    assert verdict_of(rows, "mean 4.1k and σ = 320") == "refuted"
    assert verdict_of(rows, "KOV is tight for randomized response") == "holds"
    assert verdict_of(rows, "levels out 4 orders") == "refuted"
    assert verdict_of(rows, "640 epochs are r = 2^16") == "refuted"
    assert verdict_of(rows, "2 orders below the promise") != "refuted"


def test_a_page_is_made_of_its_parts():
    stored = Stored(ROOT / "data")
    claims = [Claim("1", "one | two", [Finding("a", "x", True), Finding("b", "y", None)], "a rule")]
    text = page(stored, claims)
    assert "Of 1 claims 1 hold only under some readings; " in text
    assert ":file: evaluation-claims.csv" in text
    assert claims_table(claims).splitlines()[1] == '1,1,one | two (a rule),"holds only under a, undecided under b"'
    assert findings_table(claims) == "claim,reading or part,found,holds\n1,a,x,yes\n1,b,y,undecided\n"
