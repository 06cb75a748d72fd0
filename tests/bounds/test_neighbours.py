"""Datasets of bounds say for which neighbours they are; what contradicts the mechanism is refused before any work."""

from collections.abc import Callable
from typing import Any

import pytest

import pbdist
from pbdist import Gaussian, InvalidInputError, Laplace, Reversed, SubsampledGaussian
from tests.mechanisms.replaced import Replaced

SAMPLED = SubsampledGaussian(2.0, 0.1)
ASKED: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "delta": (pbdist.privacy_bounds, {"epsilon": 1.0}),
    "epsilon": (pbdist.epsilon_bounds, {"delta": 1e-3}),
    "tradeoff": (pbdist.tradeoff_bounds, {"type_one_error": 0.1}),
    "variation": (pbdist.total_variation_bounds, {}),
    "renyi": (pbdist.renyi_bounds, {"order": 2.0}),
    "earlier": (pbdist.earlier_bounds, {"epsilon": 1.0, "theorem": "naive"}),
}
STATED = ("delta", "epsilon")


@pytest.mark.parametrize("name", ASKED)
def test_every_dataset_says_it(name: str) -> None:
    ask, given = ASKED[name]
    assert ask(SAMPLED, compositions=2, **given).adjacency == "add-or-remove"
    assert ask(Gaussian(3.0), compositions=2, **given).adjacency == "as-stated"
    with pytest.raises(
        InvalidInputError, match=r"^mechanism: expected pairs for the same neighbours, got Sub.* and Rep"
    ):
        ask([(SAMPLED, 1), (Replaced(2.0), 1)], compositions=2, **given)


@pytest.mark.parametrize("name", STATED)
def test_it_can_be_stated_where_the_mechanism_does_not_say_it(name: str) -> None:
    ask, given = ASKED[name]
    plain = ask(Laplace(3.0), compositions=2, **given)
    told = ask(Laplace(3.0), compositions=2, adjacency="replace-one", **given)
    assert told.adjacency == "replace-one"
    assert told.drop_attrs().identical(plain.drop_attrs())
    # What the mechanism says itself may be said again.
    assert ask(SAMPLED, compositions=2, adjacency="add-or-remove", **given).adjacency == "add-or-remove"
    assert ask(SAMPLED, compositions=2, adjacency="as-stated", **given).adjacency == "add-or-remove"


@pytest.mark.parametrize("name", STATED)
def test_a_contradiction_is_refused_before_any_work(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def worked(*_: object, **__: object) -> None:
        raise AssertionError

    for table in ("bounds_table", "epsilon_table_of"):
        monkeypatch.setattr(f"pbdist.bounds.delta.{table}", worked)
    ask, given = ASKED[name]
    with pytest.raises(InvalidInputError, match=r"got replace-one: its bounds say nothing of one record replaced$"):
        ask(SAMPLED, compositions=2, adjacency="replace-one", **given)
    with pytest.raises(InvalidInputError, match=r"^adjacency: expected one of"):
        ask(Laplace(3.0), compositions=2, adjacency="neighbours", **given)


def test_the_two_directions_are_told_apart_where_they_are_a_removal_and_an_addition() -> None:
    def comment(mechanism: Any, **given: Any) -> str | None:
        found = pbdist.privacy_bounds(mechanism, compositions=1, epsilon=1.0, direction="each", **given)
        return found.direction.attrs.get("comment")

    assert comment(SAMPLED) == "A||B: a record is removed; B||A: a record is added"
    assert comment(Reversed(SAMPLED)) == "B||A: a record is removed; A||B: a record is added"
    assert comment([(SAMPLED, 1), (Reversed(SAMPLED), 1)]) is None
    # Of a count that may rise or fall nobody has said which one A is.
    assert comment(Laplace(3.0), adjacency="add-or-remove") is None
