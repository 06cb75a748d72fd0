"""What queries take for numbers, and what they refuse by its name."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import Study, open_study
from tests.studies import TINY, Finished


@pytest.fixture(scope="module")
def study(tiny_store: Path) -> Study:
    return open_study(tiny_store)


@pytest.mark.parametrize(
    "scale", [3, np.int64(3), np.float32(3.0), np.array(3.0), np.array(3), Fraction(3), Decimal(3), np.ma.array(3.0)]
)
def test_one_number_of_any_kind_is_a_noise_parameter(study: Study, scale: Any) -> None:
    whole = study.delta("Laplace", scale=3.0, compositions=4, epsilon=0.0)
    assert study.delta("Laplace", scale=scale, compositions=4, epsilon=0.0).upper == whole.upper
    point: Any = {"scale": scale, "compositions": np.int64(4), "epsilon": np.float32(0.0)}
    assert study.delta("Laplace", **point).upper == float(whole.upper)
    curve = study.tradeoff("Laplace", scale=scale, compositions=4, type_one_error=0.5)
    assert curve.lower == study.tradeoff("Laplace", scale=3.0, compositions=4, type_one_error=0.5).lower


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scale": ["2", "4"]}, "scale: expected a number, an array of numbers, or one text"),
        ({"scale": [None, 2]}, "scale: expected a number, an array"),
        ({"scale": {2.0, 3.0}}, "scale: expected a number, an array"),
        ({"scale": True}, "scale: expected numbers, got the truth value True"),
        ({"scale": [2.0, True]}, "scale: expected numbers, got the truth value True"),
        ({"scale": np.array([True])}, "scale: expected numbers, got the truth value"),
        ({"scale": 10**400}, "scale: expected a finite number"),
        ({"scale": np.inf}, "scale: expected a finite number"),
        ({"scale": 2 + 0j}, "scale: expected a number, an array"),
        ({"scale": []}, "scale: expected at least one value"),
        ({"scale": [[2.0], [2.0, 3.0]]}, "scale: expected a rectangular array"),
        ({"scale": np.ma.array([2.0, 3.0], mask=[False, True])}, "scale: expected numbers, got masked entries"),
        ({"kind": ["Laplace"]}, "kind: expected a number, an array of numbers, or one text"),
    ],
)
def test_what_is_no_noise_parameter_is_refused_by_its_name(study: Study, change: dict[str, Any], words: str) -> None:
    point = {"scale": 3.0, "compositions": 4, **change}
    asking: list[Callable[[], Any]] = [
        lambda: study.delta("Laplace", epsilon=0.0, **point),
        lambda: study.tradeoff("Laplace", type_one_error=0.5, **point),
    ]
    for ask in asking:
        with pytest.raises(InvalidInputError) as caught:
            ask()
        assert str(caught.value).startswith(words)


def test_curves_of_several_settings(study: Study) -> None:
    found = study.tradeoff("Laplace", scale=[[2.0], [3.0]], compositions=[4, 2], type_one_error=0.1)
    for row, scale in enumerate((2.0, 3.0)):
        for column, r in enumerate((4, 2)):
            one = study.tradeoff("Laplace", scale=scale, compositions=r, type_one_error=0.1)
            assert (one.lower, one.upper) == (found.lower[row, column], found.upper[row, column])
    with pytest.raises(InvalidInputError, match="scale: a mechanism has its own parameters; do not pass it"):
        study.tradeoff(pbdist.Laplace(2.0), scale=2.0, compositions=4, type_one_error=0.1)
    with pytest.raises(InvalidInputError, match="mechanism: expected a label of the study or a mechanism"):
        study.tradeoff(3, compositions=4, type_one_error=0.1)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"epsilon": []}, "epsilon: expected at least one value"),
        ({"compositions": []}, "compositions: expected at least one value"),
        ({"epsilon": [0.0, True]}, "epsilon: expected numbers, got the truth value"),
        ({"compositions": True}, "compositions: expected numbers, got the truth value"),
        ({"epsilon": np.ma.array([0.0, 0.5], mask=[True, False])}, "epsilon: expected numbers, got masked entries"),
        ({"epsilon": [[0.0], [0.0, 0.5]]}, "epsilon: expected a rectangular array"),
        ({"epsilon": 1j}, "epsilon: expected finite numbers of at least 0"),
        ({"direction": ["each"]}, "direction: expected one of both, each"),
        ({"refine": 1}, "refine: expected True or False"),
        ({"refine": "no"}, "refine: expected True or False"),
    ],
)
def test_what_is_asked_is_refused_by_its_name(study: Study, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        study.delta("Laplace", **{"scale": 3.0, "compositions": 4, "epsilon": 0.0, **change})
    assert str(caught.value).startswith(words)


def test_the_others_refuse_alike(study: Study) -> None:
    for refine in (1, "yes", None):
        with pytest.raises(InvalidInputError, match="refine: expected True or False"):
            study.epsilon("Laplace", scale=3.0, compositions=4, delta=0.1, refine=refine)  # type: ignore[arg-type]
        with pytest.raises(InvalidInputError, match="refine: expected True or False"):
            study.compositions("Laplace", scale=3.0, epsilon=0.1, delta=0.1, refine=refine)  # type: ignore[arg-type]
    for compositions in ("1", None, 1j):
        with pytest.raises(InvalidInputError, match="compositions: expected one number"):
            study.frame(mechanism="Laplace", compositions=[compositions])
    with pytest.raises(InvalidInputError, match="direction: expected one of both, each"):
        study.tradeoff("Laplace", scale=3.0, compositions=4, type_one_error=0.1, direction="A||B")
    with pytest.raises(InvalidInputError, match="type_one_error: expected numbers, got masked entries"):
        study.tradeoff("Laplace", scale=3.0, compositions=4, type_one_error=np.ma.array([0.1, 0.2], mask=[False, True]))


def test_curves_compute_what_is_missing(store_copy: Finished) -> None:
    study = open_study(store_copy(TINY))
    with pytest.raises(OffGridError, match=r"let refine=True \(pbdist query --refine\) compute it"):
        study.tradeoff("Laplace", scale=3.0, compositions=9, type_one_error=0.1)
    curve = study.tradeoff("Laplace", scale=3.0, compositions=9, type_one_error=0.1, refine=True)
    assert 0 < curve.lower <= curve.upper < 0.9


def test_an_unknown_parameter_is_refused_also_after_other_questions(study: Study) -> None:
    assert study.delta("Laplace", compositions=4, epsilon=0.0, scale=3.0)
    with pytest.raises(InvalidInputError, match=r"colour: expected one of kind, .*, got an unknown parameter"):
        study.delta("Laplace", compositions=4, epsilon=0.0, scale=3.0, colour=1.0)
