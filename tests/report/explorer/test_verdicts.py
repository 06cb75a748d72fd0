"""Verdicts on groups of noise settings: as `noise_choices` gives them, whatever is drawn of them."""

import numpy as np
import pytest

from pbdist import open_study
from pbdist.query.noise_choice import NoiseGroup, noise_choices
from pbdist.report.explorer.answers import VERDICTS, judged, judged_as_json
from tests.report.explorer.reading import unpacked
from tests.report.explorer.studies import STUDY, asked, serving


@pytest.mark.slow
def test_verdicts_are_those_of_noise_choices(finished_store):
    study = open_study(finished_store(STUDY))
    with serving(study.where) as port:
        contents = asked(port, "/contents.json")
        for r, e in ((0, 1), (1, 3), (2, 2), (2, 5)):
            bounds = study.bounds.isel(compositions=r, epsilon=e)["delta_upper"].max("direction").values
            # At a bound itself, and next to it.
            deltas = {
                1e-5,
                float(bounds[2]),
                float(np.nextafter(bounds[2], 0)),
                float(np.nextafter(bounds[2], 1)),
            }
            for delta in deltas:
                compare(port, contents, study, (r, e, delta))


def compare(port, contents, study, target):
    r, e, delta = target
    choices = noise_choices(study, compositions=study.spec.compositions[r], epsilon=study.spec.epsilon[e], delta=delta)
    assert [choice.label for choice in choices] == contents["labels"]
    for group, choice in enumerate(choices):
        while "progress" in (found := ask(port, contents["token"], group, target)):
            pass
        told = [VERDICTS[code] for code in unpacked(found["verdicts"])]
        assert told == [one.verdict for one in choice.tried]
        assert unpacked(found["cells"]).tolist() == [one.cell for one in choice.tried]
        for name in ("smallest", "refuted"):
            one = getattr(choice, name)
            assert found[name] == (None if one is None else choice.tried.index(one))
        np.testing.assert_array_equal(unpacked(found["delta_lower"]), [one.lower for one in choice.tried])
        np.testing.assert_array_equal(unpacked(found["delta_upper"]), [one.upper for one in choice.tried])


def ask(port, token, group, target):
    r, e, delta = target
    return asked(port, f"/verdicts.json?token={token}&group={group}&compositions={r}&epsilon={e}&delta={delta!r}")


@pytest.mark.parametrize("count", [1, 400, 401, 10_000])
def test_what_is_drawn_has_what_matters(count):
    amounts = np.linspace(1.0, 2.0, count)
    upper = np.exp(-amounts)
    values = {
        "delta_lower": upper * 0.999,
        "delta_upper": upper,
        "log_delta_lower": -amounts,
        "log_delta_upper": -amounts,
    }
    group = NoiseGroup("noise", "scale", {}, tuple(range(count)), tuple(amounts.tolist()))
    found = judged_as_json(group, values, np.zeros(count, dtype=bool), delta=0.2)
    positions = unpacked(found["positions"])
    assert len(positions) == len(set(positions.tolist())) <= 400
    assert {0, count - 1} <= set(positions.tolist())
    for name in ("smallest", "refuted"):
        if found[name] is not None:
            near = range(max(0, found[name] - 5), min(count, found[name] + 6))
            assert set(near) <= set(positions.tolist())
    assert sum(found["counts"]) == found["of"] == count
    np.testing.assert_array_equal(unpacked(found["delta_upper"]), upper[positions])


def test_a_refuted_setting_above_the_smallest_is_no_certificate():
    # Noise that is not ordered, as p of a histogram might be: 0.3 is refuted although 0.2 will do.
    lower, upper = np.array([0.4, 0.1, 0.4, np.nan, 0.1]), np.array([0.5, 0.2, 0.5, np.nan, 0.4])
    found = judged(lower, upper, 0.2)
    assert found.verdicts.tolist() == [1, 0, 1, 3, 2]
    assert (found.smallest, found.refuted) == (1, 0)
    assert judged(lower[3:], upper[3:], 0.2).smallest is None
