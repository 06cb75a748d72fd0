"""``docs/comparison.md``: its refutations, confirmed without pbdist; parts of it made again; and how it judges."""

import csv
import math
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines import comparison
from pipelines.comparing import run
from pipelines.comparing.judgement import Claim, Verdict, judged
from pipelines.comparing.methods import THEOREMS, dialing, evaluated, ours
from pipelines.comparing.numbers import above, below, nearest, times
from pipelines.comparing.page import Compared
from pipelines.comparing.settings import SETTINGS
from tests.pipelines.truths import CLOSE, TRUTHS

pytestmark = pytest.mark.nightly
ROOT = Path(__file__).parents[2]
with (ROOT / "docs" / "comparison-libraries.csv").open(encoding="utf-8", newline="") as _file:
    OURS = {row["setting"]: row["ours"] for row in csv.DictReader(_file)}
with (ROOT / "docs" / "comparison.csv").open(encoding="utf-8", newline="") as _file:
    TABLE = {(row["setting"], row["method"]): row for row in csv.DictReader(_file)}
BY_NAME = {setting.name: setting for setting in SETTINGS}
OPACUS, TENFOLD = "DP-SGD, σ 3, q 0.2, r 50, δ 1 / 48,000", "randomized response, 2/3 noise, r 10, δ 1e-5"
GRID, REPLACED = "discrete Gaussian, σ 20, r 256, ε 0", "Gaussian, σ 20, one record replaced, r 256, δ 1e-5"
COINS = "randomized response, noise 1 - 2^-28, r 2^30, δ 1e-5"


def rows(claim: str) -> list[list[str]]:
    """Setting, method and their value of the refutations of one kind."""
    with (ROOT / "docs" / "comparison-refutations.csv").open(encoding="utf-8", newline="") as file:
        return [
            [row["setting"], row["method"], row["their value"]] for row in csv.DictReader(file) if row["claim"] == claim
        ]


def number(text: str) -> float:
    """The number of a cell such as "ε = 0.69"."""
    value = text.rsplit(" ", maxsplit=1)[-1]
    return math.inf if value == "∞" else float(value)


REFUTED = [(row[0], row[1], number(row[2])) for row in rows("bound")]
TOO_SMALL = [(row[0], row[1], number(row[2])) for row in rows("estimate") if row[0] in TRUTHS]
#: A printed ε is rounded to 7 digits.
DIGITS = 1e-6


@pytest.mark.parametrize(("name", "method", "value"), [*REFUTED, *TOO_SMALL])
def test_what_the_page_refutes_is_wrong_without_pbdist(name: str, method: str, value: float) -> None:
    setting, truth = BY_NAME[name], TRUTHS[name]
    if setting.epsilon:
        exact = truth(evaluated(setting.epsilon))
        if method == "PLD, optimistic":
            assert value * (1.0 - DIGITS) > exact * (1.0 + CLOSE)
        else:
            assert value * (1.0 + DIGITS) < exact * (1.0 - CLOSE)
        return
    # Even a little above their ε, δ is larger than they say.
    at = max(value, 0.0) * (1.0 + (DIGITS if value > 1e-3 else 1e-7))
    assert truth(at) * (1.0 - CLOSE) > evaluated(setting.delta)


@pytest.mark.parametrize("name", [name for name in TRUTHS if name not in {COINS, "pure ε₀ = 5, r 40, δ 1e-5"}])
def test_our_bracket_holds_without_pbdist(name: str) -> None:
    setting, truth = BY_NAME[name], TRUTHS[name]
    lower, upper, _ = ours(setting)
    if setting.epsilon:
        exact = truth(evaluated(setting.epsilon))
        assert lower <= exact * (1.0 + CLOSE)
        assert upper >= exact * (1.0 - CLOSE)
    else:
        assert truth(lower) * (1.0 + CLOSE) >= evaluated(setting.delta) >= truth(upper) * (1.0 - CLOSE)


@pytest.fixture(scope="module")
def recomputed() -> dict[str, Compared]:
    names = (OPACUS, TENFOLD, GRID, REPLACED)
    return {one.setting.name: one for one in run.compared(lambda _: None, [BY_NAME[name] for name in names])}


def test_the_page_says_what_is_computed(recomputed: dict[str, Compared]) -> None:
    for name, one in recomputed.items():
        assert f"[{below(one.lower)}, {above(one.upper)}]" in OURS[name]
        for method in ("PLD", "PLD, other call", "RDP", "PLD, optimistic"):
            answer = one.answers[method]
            assert ((name, method) in TABLE) == bool(answer.call)
            if answer.value is not None:
                row = TABLE[name, method]
                assert (row["lower"], row["upper"]) == (below(one.lower), above(one.upper))
                assert float(row["answer"].replace("∞", "inf")) == pytest.approx(answer.value, rel=1e-6)
                assert row["their_call"] == answer.call
        assert float(TABLE[name, "kov"]["answer"]) == pytest.approx(one.answers["kov"].value, rel=1e-6)


def test_no_theorem_is_refuted_and_no_ratio_is_wrong_way_round(recomputed: dict[str, Compared]) -> None:
    for one in recomputed.values():
        for method, answer in one.answers.items():
            judgement = one.judgement(method)
            if judgement is None or answer.value is None:
                continue
            if method in THEOREMS and answer.claim is Claim.UPPER:
                assert judgement.verdict is not Verdict.REFUTED
            if judgement.verdict is Verdict.VALID:
                assert judgement.ratio >= 1.0 if answer.claim is Claim.UPPER else judgement.ratio <= 1.0


def test_the_page_refutes_what_it_tells_of_and_no_theorem() -> None:
    methods = {(method, setting) for setting, method, _ in REFUTED}
    assert {("PLD", TENFOLD), ("RDP", REPLACED), ("RDP", COINS)} <= methods
    assert {method for method, _ in methods} >= {"PLD, optimistic", "closed form", "PRV, upper", "PLD, other call"}
    assert {method for method, _ in methods}.isdisjoint(THEOREMS)
    assert "limit (CLT)" in {method for _, method, _ in TOO_SMALL}


NUMBERS = st.floats(0.0, 1e300) | st.just(math.inf)


@settings(max_examples=300)
@given(st.sampled_from(Claim), st.floats() | NUMBERS, NUMBERS, NUMBERS, st.sampled_from([1.0, math.inf]))
def test_nothing_on_the_wrong_side_of_our_bracket_is_called_valid(
    claim: Claim, value: float, one: float, other: float, largest: float
) -> None:
    lower, upper = min(one, other), max(one, other)
    verdict = judged(claim, value, lower, upper, largest).verdict
    good = {Verdict.VALID, Verdict.WITHIN, Verdict.SILENT, Verdict.OPEN}
    if not value >= lower and claim is not Claim.LOWER:
        assert verdict not in good
    if not value <= upper and claim is not Claim.UPPER:
        assert verdict not in good
    if claim is Claim.UPPER:
        assert (verdict is Verdict.REFUTED) == (not value >= lower)
    if claim is Claim.LOWER:
        assert (verdict is Verdict.REFUTED) == (not value <= upper)


def test_judgements_next_to_the_bracket() -> None:
    cases = [
        (Claim.UPPER, 0.999, Verdict.REFUTED, 0.999),
        (Claim.UPPER, 1.0, Verdict.WITHIN, 1.0 / 1.001),
        (Claim.UPPER, 1.001, Verdict.VALID, 1.0),
        (Claim.UPPER, 2.002, Verdict.VALID, 2.0),
        (Claim.UPPER, math.inf, Verdict.SILENT, math.inf),
        (Claim.LOWER, 0.5, Verdict.VALID, 0.5),
        (Claim.LOWER, 2.002, Verdict.REFUTED, 2.0),
        (Claim.LOWER, 0.0, Verdict.SILENT, 0.0),
        (Claim.ESTIMATE, 0.5, Verdict.LOW, 0.5),
        (Claim.ESTIMATE, 1.0005, Verdict.WITHIN, 1.0005 / 1.001),
        (Claim.ESTIMATE, 2.002, Verdict.HIGH, 2.0),
    ]
    for claim, value, verdict, ratio in cases:
        found = judged(claim, value, 1.0, 1.001, math.inf)
        assert (found.verdict, found.ratio) == (verdict, pytest.approx(ratio))
    # A bracket of all numbers decides nothing.
    assert judged(Claim.UPPER, 5.0, 0.0, math.inf, math.inf).verdict is Verdict.OPEN


@given(st.floats(1e-300, 1e300))
def test_our_numbers_are_rounded_outwards(value: float) -> None:
    assert float(below(value)) <= value <= float(above(value))
    assert float(below(value)) >= value * (1.0 - 2e-6)
    assert float(nearest(value)) == pytest.approx(value, rel=1e-6)


def test_ratios_next_to_one_are_told_by_what_is_more() -> None:
    assert [times(ratio) for ratio in (1.0, 1.00014, 1.0 - 2.2e-6, 1.03, 0.5, 620.61, 4.2e24, -3.0, math.inf)] == [
        "1×",
        "1 + 1.4e-4×",
        "1 - 2.2e-6×",
        "1.03×",
        "0.5×",
        "620.6×",
        "4.2e24×",
        "(negative)",
        "∞×",
    ]


def test_the_counts_of_dialing_are_distributions() -> None:
    for logs in dialing():
        assert math.fsum(map(math.exp, logs.values())) == pytest.approx(1.0, abs=1e-12)
    one, other = dialing()
    assert {count - 2: value for count, value in other.items()} == one


def test_the_program_writes_the_page_and_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    few = [BY_NAME[TENFOLD], BY_NAME["Gaussian, σ 20, r 256, ε 7.0"]]
    monkeypatch.setattr(run, "compared", partial(run.compared, settings=few))
    assert comparison.main(["--output", str(tmp_path / "page.md")]) == 0
    text = (tmp_path / "page.md").read_text(encoding="utf-8")
    assert text.startswith("# Who is wrong where\n")
    assert text.index("## Refutations") < text.index("## How to read the tables") < text.index("## Summary")
    assert "**refuted** 0.1×" in (tmp_path / "comparison-libraries.csv").read_text(encoding="utf-8")
    written = csv.DictReader((tmp_path / "comparison.csv").read_text(encoding="utf-8").splitlines())
    found = {(row["setting"], row["method"]): row["judgement"] for row in written}
    assert found[TENFOLD, "PLD"] == "refuted 0.1×"
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith(f"[1/2] {TENFOLD}: ours\n")
    assert f"[2/2] {few[1].name}: PRV\n" in told.err


def test_missing_libraries_are_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(comparison, "find_spec", {"dp_accounting": None, "prv_accountant": True}.get)
    assert comparison.main(["--output", str(tmp_path / "page.md")]) == 2
    assert capsys.readouterr().err == "comparison: dp-accounting missing: pip install 'pbdist[test]'\n"
    assert not (tmp_path / "page.md").exists()
