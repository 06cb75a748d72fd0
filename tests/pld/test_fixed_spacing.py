"""Lattices of a given width, or of a number of positions: any of them gives bounds."""

import math

import numpy as np
import pytest

from pbdist.errors import InvalidInputError, PrecisionError
from pbdist.mechanisms import Gaussian, RandomizedResponse
from pbdist.pld import PairState, ladder
from pbdist.pld.closed_form import gaussian_bounds
from pbdist.pld.ladder import given_width_bounds, positions_needed
from pbdist.pld.question import Question


def asked(pair: Gaussian | RandomizedResponse, rounds: list[int], epsilon: list[float]) -> Question:
    return Question({pair: 1}, np.array(rounds), np.array(epsilon), 1e-3, 1e-40, False)


@pytest.mark.parametrize(("width", "positions"), [(0.5, None), (0.05, None), (0.003, None), (None, 40), (None, 4000)])
def test_gaussian_noise_is_bracketed(width: float | None, positions: int | None) -> None:
    question = asked(Gaussian(10.0), [1, 7, 300], [0.0, 0.1, 1.0, 3.0])
    lower, upper, spacing = given_width_bounds(question, width=width, positions=positions)
    assert spacing == width or (positions is not None and spacing > 0.0)
    exact_lower, exact_upper = gaussian_bounds(0.1, question.rounds, question.epsilon)
    assert np.all(lower <= np.exp(exact_upper))
    assert np.all(np.exp(exact_lower) <= upper)


def test_a_narrower_width_is_closer() -> None:
    question = asked(Gaussian(10.0), [16], [0.3])
    wide, narrow = (given_width_bounds(question, width=width, positions=None) for width in (0.02, 0.002))
    assert (narrow[1] - narrow[0])[0, 0, 0] < 0.1 * (wide[1] - wide[0])[0, 0, 0]


def test_a_lattice_is_taken_as_it_is() -> None:
    question = asked(RandomizedResponse(0.6), [1, 9], [0.0, 0.7])
    lower, upper, spacing = given_width_bounds(question, width=None, positions=100)
    assert spacing == pytest.approx(math.log(1.5), rel=1e-12)
    assert np.all(upper <= lower * (1.0 + 1e-10))


def test_what_takes_too_many_positions_is_refused_by_name() -> None:
    with pytest.raises(PrecisionError, match=r"^factor: a round's losses would take"):
        positions_needed(asked(Gaussian(0.1), [1], [1.0]), width=1e-9, positions=None)
    with pytest.raises(PrecisionError, match=r"^compositions: they would take"):
        positions_needed(asked(Gaussian(10.0), [10**6], [1.0]), width=1e-6, positions=None)


def test_a_width_beyond_what_says_anything_is_taken_as_the_widest() -> None:
    pair = RandomizedResponse(0.25)
    lower, upper, spacing = given_width_bounds(asked(pair, [1, 5], [0.0, 1.0]), width=115.0, positions=None)
    assert spacing == 50.0
    alike = given_width_bounds(asked(pair, [1, 5], [0.0, 1.0]), width=50.0, positions=None)
    np.testing.assert_array_equal((lower, upper), alike[:2])
    # One round: δ(0) is 1/2.
    assert lower[0, 0, 0] <= 0.5 <= upper[0, 0, 0]


def test_only_masses_that_overflow_are_taken_for_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    question = asked(RandomizedResponse(0.6), [1, 9], [0.0])

    def refused(*_: object) -> None:
        raise InvalidInputError("states: expected one spacing")

    monkeypatch.setattr(ladder, "product_of", refused)
    with pytest.raises(InvalidInputError, match="one spacing"):
        given_width_bounds(question, width=0.1, positions=None)
    monkeypatch.setattr(PairState, "largest", 1e300)
    lower, upper, _ = given_width_bounds(question, width=0.1, positions=None)
    assert np.all(lower == 0.0)
    assert np.all(upper == 1.0)
