"""Each answer that is wide says why: in Python, in JSON, in CSV and in every printed row."""

import csv
import io
import json
import warnings

import numpy as np
import pytest

from pbdist.cli import main
from pbdist.query import Study, open_study
from pbdist.results import LARGEST_EPSILON, NONE_MEETS
from tests.query.test_judging import ALONE, BETWEEN, MISSED, TEXT
from tests.studies import Finished

pytestmark = pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")

KEPT = """\
format: 1
name: kept
mechanisms:
  - {kind: SubsampledGaussian, scale: 1, rate: 0.02}
compositions: [1, 16]
epsilon: [0.5, 2]
keep_states: true
"""


@pytest.fixture
def study(store_copy: Finished) -> Study:
    return open_study(store_copy(TEXT))


@pytest.mark.slow
def test_with_kept_states_nothing_is_promised_of_the_smaller_direction(finished_store: Finished) -> None:
    study = open_study(finished_store(KEPT))
    epsilon = np.linspace(0.3, 1.9, 9)
    both = study.delta("SubsampledGaussian", compositions=16, epsilon=epsilon, strict=True)
    assert both.why_wide is not None
    assert not both.why_wide.any()
    each = study.delta("SubsampledGaussian", compositions=16, epsilon=epsilon, direction="each")
    assert each.why_wide is not None
    # No point that could be computed would be closer: nothing says that it lies between others.
    assert set(each.why_wide.reshape(-1).tolist()) == {"", ALONE}
    with pytest.warns(UserWarning, match="the study judges the larger of the two directions alone$"):
        study.delta("SubsampledGaussian", compositions=16, epsilon=epsilon, direction="each")
    assert not study.epsilon("SubsampledGaussian", compositions=16, delta=[1e-3, 1e-5]).why_wide.any()  # type: ignore[union-attr]
    # Between the r that have states the store is as coarse as any other.
    assert study.delta("SubsampledGaussian", compositions=9, epsilon=0.5).why_wide == BETWEEN
    assert study.epsilon("SubsampledGaussian", compositions=9, delta=1e-3).why_wide == BETWEEN


def test_rounds_whose_stored_bounds_do_not_tell(study: Study) -> None:
    """At r = 16 δ itself is asked for: its bounds lie on both sides, and computing that r again changes nothing."""
    point = {"scale": 1e12, "epsilon": 1e-13}
    bounds = study.delta("Laplace", compositions=16, **point)  # type: ignore[arg-type]
    delta = float(np.sqrt(bounds.lower * bounds.upper))
    for refine in (True, False):
        rounds = study.compositions("Laplace", delta=delta, refine=refine, **point)  # type: ignore[arg-type]
        assert (rounds.lower < 16) & (rounds.upper >= 16)
        assert rounds.why_wide == "as close as the bounds on δ allow there"
    with pytest.warns(UserWarning, match=": as close as the bounds on δ allow there$"):
        study.compositions("Laplace", delta=delta, **point)  # type: ignore[arg-type]


def test_nothing_lies_beyond_the_last_stored_point(finished_store: Finished) -> None:
    study = open_study(finished_store(TEXT))
    wide = [
        # More noise, a larger ε, or more rounds than any that is stored.
        study.delta("Gaussian", scale=40, compositions=16, epsilon=0.2),
        study.delta("Gaussian", scale=25, compositions=16, epsilon=2),
        study.epsilon("Gaussian", scale=20, compositions=16, delta=1e-300),
        study.epsilon("Gaussian", scale=40, compositions=16, delta=1e-3),
        study.compositions("Gaussian", scale=20, epsilon=1, delta=1e-3),
    ]
    assert {str(found.why_wide) for found in wide} == {"beyond the stored points"}
    assert "beyond the stored points" in str(wide[2])
    with pytest.warns(UserWarning, match="it lies beyond the stored points: refine=True"):
        study.delta("Gaussian", scale=40, compositions=16, epsilon=0.2)
    assert study.delta("Gaussian", scale=25, compositions=16, epsilon=0.2).why_wide == BETWEEN


def test_the_sentence_is_rounded_outwards(study: Study) -> None:
    with warnings.catch_warnings(record=True) as record:
        warnings.simplefilter("always")
        found = study.delta("Gaussian", scale=20, compositions=16, epsilon=0.15)
    words = str(record[0].message).partition("δ is between ")[2].split()
    low, high = float(words[0]), float(words[2].rstrip(":"))
    assert low <= found.lower <= found.upper <= high
    assert high <= 1.0001 * found.upper


@pytest.mark.slow
@pytest.mark.parametrize(
    ("question", "why"),
    [
        (
            ["--mechanism", "Gaussian", "--scale", "20", "--compositions", "16", "--epsilon", "0.1", "0.15"],
            [None, BETWEEN],
        ),
        (
            ["--mechanism", "Laplace", "--scale", "1e12", "--compositions", "16", "--epsilon", "1e-13", "0.5"],
            [MISSED, None],
        ),
        (["--mechanism", "Gaussian", "--scale", "20", "--compositions", "16", "--delta", "1e-3"], [BETWEEN]),
        (["--mechanism", "Gaussian", "--scale", "20", "--epsilon", "0.2", "--delta", "1e-3"], [BETWEEN]),
    ],
)
def test_every_row_on_the_command_line(
    question: list[str], why: list[str | None], finished_store: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    store = str(finished_store(TEXT))

    def asked(form: str) -> str:
        assert main(["query", store, *question, "--format", form]) == 0
        out, err = capsys.readouterr()
        assert ("--refine" in err) == (BETWEEN in why)
        return out

    assert [answer["why_wide"] for answer in json.loads(asked("json"))["answers"]] == why
    assert [row["why_wide"] for row in csv.DictReader(io.StringIO(asked("csv")))] == [text or "" for text in why]
    for form in ("table", "markdown", "latex"):
        out = asked(form)
        for text in why:
            # In a printed table it may take several lines.
            assert text is None or f"wide: {text}" in out or (form == "table" and "wide: the" in out)
        assert out.count("wide:") == sum(text is not None for text in why)


def test_one_point_on_the_command_line(finished_store: Finished, capsys: pytest.CaptureFixture[str]) -> None:
    store = finished_store(TEXT)

    def asked(scale: str, epsilon: str, *options: str) -> str:
        mechanism = "Laplace" if scale == "1e12" else "Gaussian"
        point = ["--mechanism", mechanism, "--scale", scale, "--compositions", "16", "--epsilon", epsilon]
        assert main(["query", str(store), *point, *options]) == 0
        return capsys.readouterr().out

    for scale, epsilon, why in (("20", "0.15", BETWEEN), ("1e12", "1e-13", MISSED), ("20", "0.1", None)):
        assert json.loads(asked(scale, epsilon, "--json"))["answers"][0]["why_wide"] == why
        out = asked(scale, epsilon)
        assert ("wide: " in out) == (why is not None)
        # It may take several lines.
        assert why is None or f"wide: {why[:15]}" in out


REVEALING = """\
format: 1
name: revealing
mechanisms:
  - {kind: ApproximateDP, epsilon: 0.1, delta: 0.01}
compositions: [1, 16]
epsilon: [0, 0.5, 2]
"""


@pytest.mark.filterwarnings("error::pbdist.errors.PrecisionWarning")
def test_a_delta_that_no_epsilon_meets_is_a_complete_answer(
    store_copy: Finished, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_copy(REVEALING)
    found = open_study(store).epsilon("ApproximateDP", compositions=[1, 16], delta=1e-4, refine=True, strict=True)
    assert (found.lower >= LARGEST_EPSILON).all()
    assert np.isinf(found.upper).all()
    assert found.within_tolerance is not None
    assert found.within_tolerance.all()
    assert not found.unknown.any()
    assert str(found).count(NONE_MEETS) == 4
    assert "wide" not in str(found)
    assert main(["query", str(store), "--compositions", "16", "--delta", "1e-4", "--strict"]) == 0
    out, err = capsys.readouterr()
    assert out.count(NONE_MEETS) == 2
    assert err == ""


def test_a_lower_bound_on_epsilon_does_not_fall_with_r(finished_store: Finished) -> None:
    study = open_study(finished_store(REVEALING))
    once, between, often = study.epsilon("ApproximateDP", compositions=[1, 7, 16], delta=1e-4).lower
    assert 30.0 < once <= between <= often
