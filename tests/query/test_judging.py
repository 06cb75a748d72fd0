"""Answers that are wider than the tolerance say so, and why, wherever they come from."""

import json
import math
import warnings
from pathlib import Path

import numpy as np
import pytest

from pbdist import Gaussian, InvalidInputError, PrecisionError, PrecisionWarning, size
from pbdist.cli import main
from pbdist.query import Study, open_study
from tests.studies import Finished

pytestmark = pytest.mark.slow

BETWEEN, MISSED = "between stored points", "the study missed its tolerance there"
ALONE = "the study judges the larger of the two directions alone"
TEXT = """\
format: 1
name: s
mechanisms:
  - {kind: Gaussian, scale: [20, 30]}
  - {kind: Laplace, scale: [2, 1.0e+12]}
  - {kind: SubsampledGaussian, scale: 2, rate: 0.1}
compositions: [1, 16]
epsilon: [0, 1e-13, 0.1, 0.2, 0.5, 1]
floor: 1e-30
"""


@pytest.fixture(scope="module")
def path(finished_store: Finished) -> Path:
    return finished_store(TEXT)


@pytest.fixture
def study(store_copy: Finished) -> Study:
    return open_study(store_copy(TEXT))


def told(record: list[warnings.WarningMessage]) -> str:
    [one] = record
    assert one.category is PrecisionWarning
    # Of whoever asked.
    assert one.filename == __file__
    return str(one.message)


def test_between_stored_points_it_says_so_until_the_point_is_computed(study: Study) -> None:
    asked = {"scale": 20.0, "compositions": 16, "epsilon": [0.1, 0.15, 0.2, 0.15]}
    with pytest.warns(PrecisionWarning) as record:
        found = study.delta("Gaussian", **asked)
    assert found.within_tolerance is not None
    assert found.within_tolerance.tolist() == [True, False, True, False]
    assert found.why_wide is not None
    assert found.why_wide.tolist() == ["", BETWEEN, "", BETWEEN]
    lower, upper = found.lower[1], found.upper[1]
    assert told(list(record)) == (
        "tolerance: expected delta_upper / delta_lower - 1 <= 0.001, missed by 2 of 4 answers, most at"
        f" Gaussian(scale=20, sensitivity=1), r = 16, ε = 0.15: δ is between {lower:.6g} and {upper:.6g}:"
        " it lies between stored points: refine=True (pbdist query --refine) computes it"
    )
    with pytest.raises(
        PrecisionError, match=r"^tolerance: expected delta_upper / delta_lower - 1 <= 0\.001, missed by 2"
    ):
        study.delta("Gaussian", **asked, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        refined = study.delta("Gaussian", **asked, refine=True, strict=True)
        again = open_study(study.where).delta("Gaussian", **asked, strict=True)
    for one in (refined, again):
        assert one.within_tolerance is not None
        assert one.within_tolerance.all()
        assert not any(one.why_wide.tolist())  # type: ignore[union-attr]
        assert (one.upper <= 1.001 * one.lower).all()


def test_between_noise_settings_and_rounds_too(study: Study) -> None:
    with pytest.warns(PrecisionWarning, match=r"missed by the answer at Gaussian\(scale=25, sensitivity=1\), r = 16"):
        found = study.delta(Gaussian(25.0), compositions=16, epsilon=0.1)
    assert found.within_tolerance is not None
    assert (found.within_tolerance.shape, found.why_wide) == ((), BETWEEN)
    with pytest.warns(PrecisionWarning, match="r = 9, ε = 0.1"):
        assert study.delta("Gaussian", scale=20.0, compositions=9, epsilon=0.1).why_wide == BETWEEN


def test_what_the_study_itself_missed(study: Study) -> None:
    asked = {"scale": 1e12, "compositions": 16}
    with pytest.warns(PrecisionWarning) as record:
        found = study.delta("Laplace", **asked, epsilon=[1e-13, 0.5])
    assert found.within_tolerance is not None
    assert found.within_tolerance.tolist() == [False, True]
    assert found.why_wide is not None
    assert found.why_wide.tolist() == [MISSED, ""]
    assert told(list(record)).endswith(": the study itself missed the tolerance there")
    with pytest.warns(PrecisionWarning) as record:
        stored = study.delta("Laplace", **asked, epsilon=1e-13)
    assert (stored.within_tolerance, stored.why_wide) == (False, MISSED)
    assert told(list(record)).startswith(
        "tolerance: expected delta_upper / delta_lower - 1 <= 0.001, missed by the answer"
    )
    assert told(list(record)).endswith(": the study itself missed the tolerance there")
    with pytest.raises(PrecisionError, match="the study itself missed"):
        study.delta("Laplace", **asked, epsilon=1e-13, strict=True)
    met = study.delta("Laplace", **asked, epsilon=0.5, strict=True)
    assert (met.within_tolerance, met.why_wide) == (True, "")
    with pytest.warns(
        PrecisionWarning, match="missed by 2 of 2 answers, most at .*: the study itself missed the tolerance there"
    ):
        study.delta("Laplace", scale=[1e12, 2.0], compositions=16, epsilon=[1e-13, 0.15])


def test_where_no_better_is_to_be_had_the_store_knows(study: Study) -> None:
    """At the largest loss δ is 0, and some upper bound is not."""
    for direction, shape in (("both", ()), ("each", (2,))):
        found = study.delta("Laplace", scale=2.0, compositions=1, epsilon=0.5, direction=direction, strict=True)
        assert found.lower.max() == 0.0 < found.upper.max()
        assert found.within_tolerance is not None
        assert (found.within_tolerance.shape, found.within_tolerance.all()) == (shape, True)


def test_at_most_the_floor_nothing_is_asked(study: Study) -> None:
    """Beyond the largest ε that is stored only the upper bound tells anything."""
    found = study.delta("Gaussian", scale=20.0, compositions=1, epsilon=[1.1, 2.0], strict=True)
    assert (found.upper <= 1e-30).all()
    assert (found.lower == 0.0).all()
    assert (found.upper > 0.0).all()
    assert found.within_tolerance is not None
    assert found.within_tolerance.all()


def test_a_direction_that_was_not_asked_for_says_so_if_it_is_wide(path: Path) -> None:
    """The study judges the larger direction; who asks for each is told of each."""
    study = open_study(path)
    asked = {"scale": 2.0, "compositions": [[1], [16]], "epsilon": study.spec.epsilon}
    both = study.delta("SubsampledGaussian", **asked, strict=True)
    assert both.within_tolerance is not None
    assert both.within_tolerance.all()
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        each = study.delta("SubsampledGaussian", **asked, direction="each")
    close = (each.upper <= 1.001 * each.lower) | (each.upper <= 1e-30)
    assert np.array_equal(each.within_tolerance, close)
    assert not close.all()
    assert np.array_equal(each.why_wide == "", close)
    assert set(each.why_wide.reshape(-1).tolist()) == {"", ALONE}  # type: ignore[union-attr]
    assert told(record).endswith(": the study judges the larger of the two directions alone")


def test_epsilon_and_rounds(study: Study) -> None:
    with pytest.warns(PrecisionWarning) as record:
        found = study.epsilon("Gaussian", scale=20.0, compositions=16, delta=[1e-3, 1e-300])
    assert found.within_tolerance is not None
    assert found.within_tolerance.tolist() == [False, False]
    assert found.why_wide is not None
    assert found.why_wide.tolist() == [BETWEEN, "beyond the stored points"]
    assert math.isinf(found.upper[1])
    text = told(list(record))
    assert "expected epsilon_upper / epsilon_lower - 1 <= 0.001, missed by 2 of 2 answers, most at Gaussian" in text
    assert f"δ = 1e-300: ε is between {found.lower[1]:.6g} and inf: it lies beyond the stored points: " in text
    assert text.endswith("refine=True (pbdist query --refine) computes it")
    with pytest.raises(PrecisionError, match="ε is between"):
        study.epsilon("Gaussian", scale=20.0, compositions=16, delta=1e-3, strict=True)
    with pytest.warns(
        PrecisionWarning, match="compositions_upper / compositions_lower - 1 <= .* r is between 1 and 15"
    ):
        rounds = study.compositions("Gaussian", scale=20.0, epsilon=0.2, delta=1e-3)
    assert rounds.within_tolerance is not None
    assert not rounds.within_tolerance.any()
    assert rounds.why_wide == BETWEEN
    with pytest.raises(PrecisionError, match="r is between 1 and 15"):
        study.compositions("Gaussian", scale=20.0, epsilon=0.2, delta=1e-3, strict=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        near = study.epsilon(
            "Gaussian", scale=20.0, compositions=16, delta=[1e-3, 1e-6, 1e-12], refine=True, strict=True
        )
        exact = study.compositions("Gaussian", scale=20.0, epsilon=0.2, delta=1e-3, refine=True, strict=True)
    assert near.within_tolerance is not None
    assert near.within_tolerance.all()
    assert (near.upper <= 1.001 * near.lower).all()
    assert int(exact.lower) == int(exact.upper)
    assert (exact.why_wide, near.why_wide.tolist()) == ("", ["", "", ""])  # type: ignore[union-attr]
    each = study.epsilon("Gaussian", scale=20.0, compositions=16, delta=1e-3, direction="each", strict=True)
    assert each.within_tolerance is not None
    assert each.within_tolerance.shape == (2,)


def test_curves(study: Study) -> None:
    with pytest.warns(PrecisionWarning) as record:
        found = study.tradeoff("Gaussian", compositions=16, type_one_error=[0.01, 1.0], scale=20.0)
    assert found.within_tolerance is not None
    assert found.within_tolerance.tolist() == [False, True]
    assert "expected type_two_error_upper - type_two_error_lower <= 0.001, missed by 1 of 2" in told(list(record))
    with pytest.raises(PrecisionError, match="type_two_error_upper"):
        study.tradeoff("Gaussian", compositions=16, type_one_error=0.01, scale=20.0, strict=True)


def test_without_a_tolerance_nothing_is_said(tiny_store: Path) -> None:
    study = open_study(tiny_store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for found in (
            study.delta("Laplace", scale=2, compositions=3, epsilon=0.1),
            study.epsilon("Laplace", scale=2, compositions=4, delta=0.3),
            study.compositions("Laplace", scale=2, epsilon=0.1, delta=0.3),
        ):
            assert found.within_tolerance is found.why_wide is None
        assert study.tradeoff("Laplace", scale=2, compositions=3, type_one_error=0.1).within_tolerance is None
    for ask in (
        lambda: study.delta("Laplace", scale=2, compositions=4, epsilon=0, strict=True),
        lambda: study.epsilon("Laplace", scale=2, compositions=4, delta=0.1, strict=True),
    ):
        with pytest.raises(InvalidInputError) as caught:
            ask()
        assert str(caught.value) == "strict: expected a study with a tolerance, got one with method buckets"


def test_a_silent_answer_is_wide_without_a_warning(path: Path, recwarn: pytest.WarningsRecorder) -> None:
    found = open_study(path).delta("Laplace", scale=2.5, compositions=16, epsilon=0.1, strict="silent")
    assert found.within_tolerance is not None
    assert not found.within_tolerance
    assert not recwarn.list


@pytest.mark.parametrize("strict", [1, "yes", None])
def test_strict_is_true_or_false(path: Path, strict: bool) -> None:
    study = open_study(path)
    for ask in (
        lambda: study.delta("Gaussian", scale=20, compositions=16, epsilon=0.1, strict=strict),
        lambda: study.epsilon("Gaussian", scale=20, compositions=16, delta=0.1, strict=strict),
        lambda: study.compositions("Gaussian", scale=20, epsilon=0.1, delta=0.1, strict=strict),
        lambda: study.tradeoff("Gaussian", scale=20, compositions=16, type_one_error=0.1, strict=strict),
    ):
        with pytest.raises(InvalidInputError, match=r"^strict: expected True or False, got"):
            ask()


def test_a_factor_of_its_own_takes_the_place_of_the_tolerance(finished_store: Finished) -> None:
    text = TEXT.replace("compositions", "factors: [auto, 1.5]\ncompositions").replace("[2, 1.0e+12]", "2")
    study = open_study(finished_store(text))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        coarse = study.delta("SubsampledGaussian", factor=1.5, compositions=16, epsilon=0.5)
        assert (coarse.within_tolerance, coarse.why_wide) == (False, "a factor takes the place of the tolerance")
        assert study.delta("SubsampledGaussian", factor="auto", compositions=16, epsilon=0.5).within_tolerance
        between = study.delta("SubsampledGaussian", factor=1.5, compositions=16, epsilon=0.45)
        assert between.why_wide == "a factor takes the place of the tolerance"
    with pytest.warns(PrecisionWarning):
        study.delta("SubsampledGaussian", factor="auto", compositions=16, epsilon=0.45)


def test_sizing_from_a_store_says_nothing_of_what_it_looked_at(study: Study) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sized = size(Gaussian, compositions=16, epsilon=0.2, delta=1e-3, store=study)
    assert sized.delta_upper <= 1e-3 < sized.refuted_delta_lower


def test_on_the_command_line(study: Study, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")

    def asked(*options: str) -> tuple[int, str, str]:
        code = main(["query", str(study.where), "--mechanism", "Gaussian", "--scale", "20", *options])
        out, err = capsys.readouterr()
        return code, out, err

    several = ("--compositions", "16", "--epsilon", "0.1", "0.15")
    code, out, err = asked(*several)
    assert code == 0
    assert err.startswith(
        "pbdist: warning: tolerance: expected delta_upper / delta_lower - 1 <= 0.001, missed by 1 of 2"
    )
    assert err.endswith("it lies between stored points: refine=True (pbdist query --refine) computes it\n")
    assert err.count("\n") == 1
    assert ["wide" in line for line in out.splitlines() if " 16 " in line] == [False, True]
    # All answers are there, and the exit code says it.
    code, strict_out, strict_err = asked(*several, "--strict")
    assert (code, strict_out, strict_err) == (3, out, err)
    code, out, err = asked(*several, "--strict", "--json")
    assert [answer["within_tolerance"] for answer in json.loads(out)["answers"]] == [True, False]
    code, out, err = asked(*several, "--direction", "each", "--json")
    rows = json.loads(out)["answers"]
    assert [row["within_tolerance"] for row in rows if row["direction"] == "B||A"] == [True, False]
    one = ("--compositions", "16", "--epsilon", "0.15")
    code, out, err = asked(*one, "--strict")
    assert (code, err.count("\n")) == (3, 1)
    assert "wide: between stored points " in out
    assert json.loads(asked(*one, "--json")[1])["answers"][0]["within_tolerance"] is False
    stored = ("--compositions", "16", "--epsilon", "0.1", "--strict")
    assert asked(*stored)[::2] == (0, "")
    assert json.loads(asked(*stored, "--json")[1])["answers"][0]["within_tolerance"] is True
    for third in (("--compositions", "16"), ("--epsilon", "0.2")):
        code, out, err = asked("--delta", "1e-3", *third, "--strict")
        assert (code, err.count("\n")) == (3, 1)
        assert "wide" in out
        assert asked("--delta", "1e-3", *third, "--strict", "--refine")[::2] == (0, "")
    assert asked(*several, "--strict", "--refine")[::2] == (0, "")
    assert asked(*one, "--strict")[::2] == (0, "")


def test_the_command_line_refuses_strict_where_there_is_no_tolerance(
    tiny_store: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["query", str(tiny_store), "--mechanism", "Laplace", "--scale", "2"]
    asked = [*command, "--compositions", "3", "--epsilon", "0.1"]
    assert main([*asked, "--strict"]) == 2
    assert capsys.readouterr().err == (
        "pbdist: error: --strict: expected a study with a tolerance, got one with method buckets\n"
    )
    assert main([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["answers"][0]["within_tolerance"] is None
