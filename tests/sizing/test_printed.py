"""Printed sizes: what meets the target is rounded up, what is refuted down, and the bounds hold for the decimals."""

import math
import pickle
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from pbdist import (
    CountFamily,
    DiscreteGaussian,
    Gaussian,
    Laplace,
    NoisyCount,
    Poisson,
    RandomizedResponse,
    SizedNoise,
    SubsampledGaussian,
    privacy_bounds,
    size,
)
from pbdist.cli import main
from pbdist.mechanisms import Pair
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.rounding import rounded_down, rounded_up
from pbdist.sizing.sized import PrintedSize
from pbdist.sizing.target import Judge

pytestmark = pytest.mark.slow

GOAL: dict[str, Any] = {"compositions": 16, "epsilon": 1.0, "delta": 1e-5}


def sized_and_printed(family: Any, parameters: dict[str, Any], **others: Any) -> tuple[SizedNoise, PrintedSize]:
    sized = size(family, **{**GOAL, **others}, **parameters)
    return sized, sized.printed


def delta_of(mechanism: Pair, sized: SizedNoise) -> tuple[float, float]:
    """Bounds on δ that are computed anew, and closer than those of the search."""
    bounds = privacy_bounds(mechanism, compositions=sized.compositions, epsilon=sized.epsilon, tolerance=1e-6)
    return bounds.delta_lower.item(), bounds.delta_upper.item()


def check(sized: SizedNoise, printed: PrintedSize) -> None:
    """The decimals are on the safe sides, and each bound holds for the noise of these decimals."""
    pairs = [(printed.meets.scale, sized.scale), (printed.meets.mean, sized.mean)]
    assert all(Decimal(told) >= Decimal(true) for told, true in pairs if told is not None and true is not None)
    pairs = [(printed.refuted.scale, sized.refuted_scale), (printed.refuted.mean, sized.refuted_mean)]
    assert all(Decimal(told) <= Decimal(true) for told, true in pairs if told is not None and true is not None)
    lower, _ = delta_of(printed.meets.mechanism, sized)
    assert lower <= printed.meets.bound <= sized.delta
    assert Decimal(rounded_up(printed.meets.bound)) >= Decimal(lower)
    _, upper = delta_of(printed.refuted.mechanism, sized)
    assert upper >= printed.refuted.bound > sized.delta
    assert Decimal(rounded_down(printed.refuted.bound)) <= Decimal(upper)


@pytest.mark.parametrize(
    ("family", "parameters"),
    [
        (Gaussian, {"sensitivity": 2.0}),
        (Laplace, {}),
        (SubsampledGaussian, {"rate": 0.1}),
        (Poisson, {"sensitivity": 1}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_where_more_noise_hides_more_the_bounds_are_those_of_the_search(
    family: type[Pair], parameters: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    sized = size(family, **{**GOAL, "compositions": 2, "delta": 1e-3}, **parameters)

    def refuse(*_: Any) -> None:
        raise AssertionError

    # Nothing is computed again.
    monkeypatch.setattr(Judge, "decided", refuse)
    printed = sized.printed
    monkeypatch.undo()
    assert (printed.meets.bound, printed.refuted.bound) == (sized.delta_upper, sized.refuted_delta_lower)
    assert (printed.meets.scale, printed.refuted.scale) == (rounded_up(sized.scale), rounded_down(sized.refuted_scale))
    assert at_least_as_noisy(printed.meets.mechanism, sized.mechanism)
    assert at_least_as_noisy(sized.refuted_mechanism, printed.refuted.mechanism)
    check(sized, printed)


@pytest.mark.parametrize("goal", [{"delta": 1e-6}, {"delta": 0.5, "compositions": 1}, {"epsilon": 0.01, "delta": 1e-9}])
def test_the_probability_of_a_lie_is_rounded_up_to_one_half_at_most(goal: dict[str, Any]) -> None:
    sized, printed = sized_and_printed(RandomizedResponse, {}, **goal)
    check(sized, printed)
    assert Decimal(printed.meets.scale) <= Decimal("0.5")
    assert printed.meets.mechanism == RandomizedResponse(1.0 - float(printed.meets.scale))


def test_mean_and_scale_of_a_count_are_certified_as_they_are_printed() -> None:
    parameters = {"noise": Gaussian, "shift": 1, "reading": "redraw-and-floor"}
    sized, printed = sized_and_printed(NoisyCount, parameters, delta=1e-3, compositions=2)
    check(sized, printed)
    meets = printed.meets
    assert meets.mean is not None
    assert (meets.scale, meets.mean) == (rounded_up(sized.scale), rounded_up(sized.mean or 0.0))
    assert meets.mechanism == NoisyCount(Gaussian(float(meets.scale)), float(meets.mean), 1, "redraw-and-floor")
    assert printed.messages == pytest.approx(sized.expected_messages, rel=1e-5)
    # The bound is that of the rounded noise, not of the noise that was found.
    assert meets.mechanism != sized.mechanism
    assert meets.bound != sized.delta_upper


def test_a_callable_family_is_certified_again_too() -> None:
    def family(scale: float) -> Pair:
        return Laplace(scale, truncate=(-8.0 * scale, 8.0 * scale))

    sized, printed = sized_and_printed(family, {}, delta=0.1, compositions=1)
    check(sized, printed)
    assert not sized.ordered
    assert printed.meets.mechanism == family(float(rounded_up(sized.scale)))


def test_what_is_not_proved_of_rounded_noise_is_printed_whole() -> None:
    """A family in which a little more noise is much less: the rounded one is no answer."""
    sized = size(Gaussian, **GOAL)

    def family(scale: float) -> Pair:
        # Next to the two that are certified a little more is a tenth less.
        certified = min((sized.scale, sized.refuted_scale), key=lambda one: abs(one - scale))
        return Gaussian(certified if scale == certified else certified * (1.0 + math.copysign(0.1, certified - scale)))

    printed = replace(sized, family=(family, {})).printed
    assert float(printed.meets.scale) == sized.scale
    assert float(printed.refuted.scale) == sized.refuted_scale
    assert printed.meets.mechanism == sized.mechanism
    assert (printed.meets.bound, printed.refuted.bound) == (sized.delta_upper, sized.refuted_delta_lower)


def test_a_size_is_pickled() -> None:
    sized = size(Gaussian, **GOAL)
    assert str(pickle.loads(pickle.dumps(sized))) == str(sized)  # noqa: S301 -- our own
    other = size(lambda scale: Gaussian(2.0 * scale), **GOAL)
    copy = pickle.loads(pickle.dumps(other))  # noqa: S301 -- our own
    assert copy == other
    assert f"{other.scale!r} " in str(copy)


def test_an_answer_prints_as_the_command_prints_it(capsys: pytest.CaptureFixture[str]) -> None:
    sized = size(Gaussian, **GOAL)
    options = "size --family Gaussian --compositions 16 --epsilon 1 --delta 1e-5"
    assert main(options.split()) == 0
    assert capsys.readouterr().out == f"{sized}\n"
    assert (
        len(repr(size(lambda scale: Laplace(scale, truncate=(-8 * scale, 8 * scale)), **{**GOAL, "delta": 0.2}))) < 1500
    )
    html = sized._repr_html_()
    assert all(text in html for text in ("meets", "refuted", sized.printed.meets.scale, sized.printed.refuted.scale))


def test_a_family_that_has_no_rounded_member() -> None:
    found = size(Gaussian, **GOAL)

    def family(scale: float) -> Pair:
        if scale not in {found.scale, found.refuted_scale}:
            return Gaussian(-1.0)
        return Gaussian(scale)

    printed = replace(found, family=(family, {})).printed
    assert (float(printed.meets.scale), float(printed.refuted.scale)) == (found.scale, found.refuted_scale)


@pytest.mark.parametrize(("tolerance", "digits"), [(0.01, 6), (1e-4, 6), (1e-5, 7), (1e-6, 8)])
def test_close_sizes_have_as_many_digits_as_they_take(tolerance: float, digits: int) -> None:
    sized, printed = sized_and_printed(Gaussian, {}, tolerance=tolerance)
    assert (printed.meets.scale, printed.refuted.scale) == (
        rounded_up(sized.scale, digits),
        rounded_down(sized.refuted_scale, digits),
    )
    assert Decimal(printed.refuted.scale) < Decimal(printed.meets.scale)
    assert math.isclose(float(printed.meets.scale), sized.scale, rel_tol=tolerance)


def test_the_messages_of_a_count_family_are_weighed() -> None:
    family = CountFamily(
        lambda mean, scale: NoisyCount(Gaussian(scale), mean, shift=1, reading="redraw-and-floor"), weights=(2.0,)
    )
    sized, printed = sized_and_printed(family, {}, delta=1e-3, compositions=1, tolerance=0.1)
    assert printed.messages == family.messages(float(printed.meets.mean or 0.0), float(printed.meets.scale))
    check(sized, printed)


def test_whole_numbered_noise() -> None:
    sized, printed = sized_and_printed(DiscreteGaussian, {"sensitivity": 1}, delta=1e-3, compositions=1)
    assert not sized.ordered
    check(sized, printed)
