"""Where bounds on δ do not tell the smallest noise within the tolerance, what is known of it is told."""

import json
import math
import re
import warnings
from dataclasses import replace

import pytest

from pbdist import (
    Gaussian,
    InvalidInputError,
    Laplace,
    PrecisionError,
    PrecisionWarning,
    SizedNoise,
    privacy_bounds,
    size,
)
from pbdist.cli import main

pytestmark = pytest.mark.slow

#: At such an ε float64 does not tell δ of so much noise to a part in fifty.
GOAL = {"compositions": 1, "epsilon": 1e-13, "delta": 4.5e-13}
#: δ = 1 - exp((ε - 1 / scale) / 2) is the goal's there.
SMALLEST = 1.0 / (GOAL["epsilon"] - 2.0 * math.log1p(-GOAL["delta"]))
OPTIONS = ["--compositions", "1", "--epsilon", "1e-13", "--delta", "4.5e-13"]


def wide(**options: object) -> SizedNoise:
    with pytest.warns(PrecisionWarning) as record:
        sized = size(options.pop("family", Laplace), **GOAL, **options)  # type: ignore[arg-type]
    [one] = record
    assert one.filename == __file__
    less = 1.0 - sized.refuted_scale / sized.scale
    assert str(one.message) == (
        f"tolerance: the refuted noise is smaller by {less:.3g}, not by {sized.tolerance:g}: δ <= 4.5e-13 is met with"
        f" scale {sized.scale!r} and missed with {sized.refuted_scale!r}; bounds on δ do not decide the scales between"
    )
    return sized


def proved(sized: SizedNoise) -> None:
    """Both certificates hold, as is computed anew, and the truth lies between them."""
    assert not sized.within_tolerance
    assert sized.refuted_scale < sized.scale * (1.0 - sized.tolerance)
    assert sized.refuted_scale < SMALLEST < sized.scale
    for mechanism, meets in ((sized.mechanism, True), (sized.refuted_mechanism, False)):
        with pytest.warns(PrecisionWarning):
            bounds = privacy_bounds(mechanism, compositions=1, epsilon=GOAL["epsilon"], tolerance=1e-7)
        if meets:
            assert bounds.delta_lower.item() <= sized.delta_upper <= GOAL["delta"]
        else:
            assert bounds.delta_upper.item() >= sized.refuted_delta_lower > GOAL["delta"]


@pytest.mark.parametrize("tolerance", [0.01, pytest.param(0.001, marks=pytest.mark.nightly)])
def test_the_noise_lies_between_one_that_does_and_one_that_does_not(tolerance: float) -> None:
    sized = wide(tolerance=tolerance)
    assert sized.tolerance == tolerance
    assert sized.ordered
    proved(sized)
    # Not much wider than the bounds on δ are.
    assert sized.refuted_scale > 0.85 * sized.scale


def test_without_an_order_what_is_refuted_one_by_one_begins_there() -> None:
    sized = wide(family=lambda scale: Laplace(scale, 1.0))
    proved(sized)
    assert not sized.ordered
    assert max(point.scale for point in sized.scanned) < sized.refuted_scale
    assert all(point.delta_lower > GOAL["delta"] for point in sized.scanned)


def test_strict_makes_it_an_error() -> None:
    with pytest.raises(PrecisionError, match=r"^tolerance: the refuted noise is smaller by .*, not by 0\.01"):
        size(Laplace, **GOAL, strict=True)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"^strict: expected True or False, got 'yes'"):
        size(Laplace, **GOAL, strict="yes")  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sized = size(Gaussian, **GOAL, strict=True)  # type: ignore[arg-type]
        assert size(Laplace, **GOAL, tolerance=0.2, strict=True).within_tolerance  # type: ignore[arg-type]
    assert sized.within_tolerance
    assert sized.refuted_scale == sized.scale * 0.99


def test_there_is_no_certificate_that_does_not_hold() -> None:
    sized = wide()
    for change in (
        {"refuted_delta_lower": GOAL["delta"]},
        {"delta_upper": math.nextafter(GOAL["delta"], 1.0)},
        {"refuted_scale": math.nextafter(sized.scale * 0.99, math.inf)},
        {"refuted_scale": math.nan},
        {"refuted_scale": -sized.refuted_scale},
        {"within_tolerance": True},
        {"refuted_mean": 1.0},
    ):
        with pytest.raises(PrecisionError, match="expected a size whose bounds prove"):
            replace(sized, **change)  # type: ignore[arg-type]


def test_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", "--family", "Laplace", *OPTIONS]) == 0
    out, err = capsys.readouterr()
    assert err.startswith("pbdist: warning: tolerance: the refuted noise is smaller by ")
    assert err.count("\n") == 1
    text = " ".join(out.split())
    assert re.search(r"Wide: the refuted scale is smaller by \d+(\.\d+)? %", text)
    assert "not by 1 %; of those between them nothing is known." in text
    # The answer is there, and the exit code says it.
    assert main(["size", "--family", "Laplace", *OPTIONS, "--strict"]) == 3
    assert capsys.readouterr() == (out, err)
    assert main(["size", "--family", "Laplace", *OPTIONS, "--strict", "--json"]) == 3
    assert json.loads(capsys.readouterr().out)["answers"][0]["within_tolerance"] is False
    assert main(["size", "--family", "Gaussian", *OPTIONS, "--strict", "--json"]) == 0
    out, err = capsys.readouterr()
    assert (json.loads(out)["answers"][0]["within_tolerance"], err) == (True, "")
