"""An axis of powers of ten, from 1 down to far below what a float64 holds."""

import math

import pytest

from pbdist.report.plots.decades import DecadeLocator, decade_text


@pytest.mark.parametrize(
    ("low", "high", "label", "place"),
    [
        (-400.2, -398.0, "$5\\cdot10^{-400}$", math.log10(5.0) - 400.0),
        (-12.0, 0.0, "$10^{-4}$", -4.0),
        (-5000.0, 0.0, "$10^{-2000}$", -2000.0),
        (-0.2, 0.0, "0.8", math.log10(0.8)),
        (-5.1, -4.95, "$10^{-5}$", -5.0),
        (-400.12, -400.0, "$8\\cdot10^{-401}$", math.log10(8.0) - 401.0),
    ],
)
def test_ticks_stand_where_their_numbers_are(low, high, label, place):
    places = [one for one in DecadeLocator().tick_values(low, high) if low <= one <= high]
    assert 2 <= len(places) <= 12
    ticks = {decade_text(one): one for one in places}
    assert len(ticks) == len(places)
    assert ticks[label] == pytest.approx(place, abs=1e-9)
