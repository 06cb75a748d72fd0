"""Figures made for real: their data, their drawings, and that curves which contradict ours are told."""

import csv
import io
import math
import struct
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.special import ndtr

from pbdist import Gaussian, earlier_bounds, open_study, privacy_bounds
from pbdist.report.figures import Promise, load_figure, make_figure
from pbdist.report.figures.drawing import draw
from pbdist.report.figures.figure import contradictions, curve_points, figure_csv
from pbdist.run import SerialExecutor, run_study
from tests.report.figures.test_figure_file import PLAIN, written

pytestmark = pytest.mark.slow

GAUSS = """\
format: 1
name: gauss
title: Gaussian noise
caption: What it shows.
source: nowhere
shows: delta
over: {exp_epsilon: {linspace: [1, 3, 5]}}
compositions: 4
tolerance: 1.0e-6
target: {exp_epsilon: 2, delta: 1.0e-2}
panels:
  - curves:
      - {label: ours, mechanism: {kind: Gaussian, scale: 5}}
      - {label: KOV, mechanism: {kind: Gaussian, scale: 5}, theorem: kov}
      - {label: limit, mechanism: {kind: Gaussian, scale: 5}, theorem: clt}
      - {label: promise, promise: {protocol: dialing, mean: 20, scale: 10}}
"""


def exact_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


@pytest.fixture(scope="module")
def gauss(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gauss")
    figure = load_figure(written(folder, GAUSS))
    made = make_figure(figure, folder / "gauss.zarr", folder / "out")
    return folder, figure, made


def rows_of(path):
    return list(csv.DictReader(io.StringIO(path.read_text(encoding="utf-8"))))


def test_the_data_are_certified_bounds_and_values_of_earlier_work(gauss):
    _, _, made = gauss
    assert made.problems == ()
    rows = rows_of(made.files[0])
    ours = [row for row in rows if row["kind"] == "certified"]
    assert [float(row["exp_epsilon"]) for row in ours] == [1.0, 1.5, 2.0, 2.5, 3.0]
    for row in ours:
        truth = float(exact_delta(2.0 / 5.0, math.log(float(row["exp_epsilon"]))))
        assert float(row["delta_lower"]) <= truth * (1 + 1e-12)
        assert truth <= float(row["delta_upper"]) * (1 + 1e-12) <= truth * (1 + 2e-6)
        assert math.exp(float(row["log_delta_upper"])) == pytest.approx(float(row["delta_upper"]), rel=1e-12)
    kov = {row["exp_epsilon"]: row for row in rows if row["kind"] == "kov"}
    assert all(float(kov[row["exp_epsilon"]]["delta_upper"]) >= float(row["delta_lower"]) for row in ours)
    assert {row["delta_lower"] for row in kov.values()} == {""}
    assert {row["kind"] for row in rows} == {"certified", "kov", "clt, no bound", "promise"}
    [promise] = [row for row in rows if row["kind"] == "promise"]
    one_round, delta = 2 / 10, 0.5 * math.exp(-19 / 10)
    epsilon = one_round * math.sqrt(8 * math.log(1e5)) + 4 * one_round * math.expm1(one_round)
    assert float(promise["exp_epsilon"]) == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert float(promise["delta_upper"]) == pytest.approx(4 * delta + 1e-5, rel=1e-12)


def test_the_drawings_are_drawings(gauss):
    _, _, made = gauss
    _, vector, bitmap = made.files
    root = ElementTree.fromstring(vector.read_bytes())  # noqa: S314 -- written here
    assert root.tag.endswith("svg")
    width, height = struct.unpack(">II", bitmap.read_bytes()[16:24])
    assert width > 500
    assert height > 400


def test_the_same_points_give_the_same_bytes_again(gauss, tmp_path):
    folder, figure, made = gauss
    again = make_figure(figure, folder / "gauss.zarr", tmp_path)
    elsewhere = make_figure(figure, tmp_path / "other.zarr", tmp_path / "elsewhere")
    for first, second, third in zip(made.files, again.files, elsewhere.files, strict=True):
        assert first.read_bytes() == second.read_bytes() == third.read_bytes()


def test_only_the_formats_asked_for_are_written(gauss, tmp_path):
    folder, figure, _ = gauss
    made = make_figure(figure, folder / "gauss.zarr", tmp_path / "new", formats=("csv",))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["gauss.csv"] == [made.files[0].name]


def points_of(folder, text):
    figure = load_figure(written(folder, text))
    stored = run_study(figure.study, folder / "store.zarr", SerialExecutor(), lambda _: None)
    return figure, curve_points(figure, open_study(stored.place))


def test_bounds_that_contradict_ours_are_told_and_no_approximation_is_judged(gauss):
    folder, figure, _ = gauss
    points = curve_points(figure, open_study(folder / "gauss.zarr"))

    def told(factor, changed):
        return list(
            contradictions(figure, [replace(one, upper=one.upper * factor) if changed(one) else one for one in points])
        )

    assert told(1.0, lambda _: True) == []
    assert any(
        "'KOV' lies below the lower bound of 'ours'" in text for text in told(0.5, lambda one: one.kind == "kov")
    )
    assert any("upper bound of 'ours'" in text for text in told(9.0, lambda one: one.curve.certified))
    assert told(0.5, lambda one: one.kind == "clt") == []


def test_a_promise_between_two_points_is_compared(tmp_path):
    text = GAUSS.replace(
        "promise: {protocol: dialing, mean: 20, scale: 10}}",
        "promise: {protocol: dialing, mean: 20, scale: 10}, mechanism: {kind: Gaussian, scale: 5}}",
    )
    figure, points = points_of(tmp_path, text)
    # Its e^ε lies outside the points of the axis, so that nothing is known of it.
    assert list(contradictions(figure, points)) == []
    inside = [
        replace(one, x=np.array([1.7]), upper=np.array([1e-9])) if one.kind == "promise" else one for one in points
    ]
    assert any("'promise' lies below" in told for told in contradictions(figure, inside))


OVER = """\
format: 1
name: over
title: Over r
caption: What it shows.
source: nowhere
shows: exp_epsilon
over: {compositions: [1, 4]}
delta: 1.0e-3
largest_exp_epsilon: 8
tolerance: 1.0e-4
panels:
  - curves:
      - {label: ours, mechanism: {kind: Gaussian, scale: 5}}
      - {label: KOV, mechanism: {kind: Gaussian, scale: 5}, theorem: kov}
      - {label: other, mechanism: {kind: Gaussian, scale: 5}, delta: 1.0e-2}
"""


def test_losses_over_r_enclose_the_exact_ones(tmp_path):
    figure, points = points_of(tmp_path, OVER)
    assert list(contradictions(figure, points)) == []
    # Only δ has logarithms.
    head = figure_csv(figure, points).splitlines()[0]
    assert head == "panel,curve,kind,compositions,exp_epsilon_lower,exp_epsilon_upper"
    for one in points:
        if one.curve.certified:
            delta = one.curve.delta or 1e-3
            for r, low, high in zip(one.x, one.lower, one.upper, strict=True):
                mu = math.sqrt(r) / 5
                assert exact_delta(mu, math.log(low) * (1 - 1e-9)) >= delta * (1 - 1e-6)
                assert exact_delta(mu, math.log(high)) <= delta
                assert high / low - 1 < 1e-3


def test_deltas_over_r_are_those_at_the_losses_of_a_promise(tmp_path):
    own = "      - {label: other, mechanism: {kind: Gaussian, scale: 5}, delta: 1.0e-2}\n"
    text = (
        OVER.replace("shows: exp_epsilon", "shows: delta")
        .replace(own, "")
        .replace("delta: 1.0e-3\nlargest", "matching: {protocol: dialing, mean: 100, scale: 30}\nlargest")
    )
    _, points = points_of(tmp_path, text)
    [kov] = [one for one in points if one.kind == "kov"]
    for r, value, log in zip(kov.x, kov.upper, kov.log_upper, strict=True):
        epsilon = Promise("dialing", 100.0, 30.0).after(int(r))[0]
        exact = earlier_bounds(Gaussian(5.0), compositions=int(r), epsilon=epsilon, theorem="kov")
        assert (value, log) == (exact.delta_upper.item(), exact.log_delta_upper.item())
    ours = points[0]
    for r, low, high in zip(ours.x, ours.lower, ours.upper, strict=True):
        epsilon = 2 / 30 * math.sqrt(2 * r * math.log(1e5)) + r * 2 / 30 * math.expm1(2 / 30)
        truth = exact_delta(math.sqrt(r) / 5, epsilon)
        assert low <= truth * (1 + 1e-9)
        assert truth <= high * (1 + 1e-9)
        assert high <= truth * 1.01


def test_divergences_and_distributions_are_drawn(tmp_path):
    text = PLAIN.replace("shows: delta", "shows: renyi").replace("{exp_epsilon: [1, 2]}", "{order: [2, 8]}")
    figure = load_figure(written(tmp_path, text))
    assert figure.study is None
    [one] = curve_points(figure, None)
    for order, low, high in zip(one.x, one.lower, one.upper, strict=True):
        assert low <= 4 * order / 18 <= high <= low * 1.01
    assert draw(figure, [one], "svg").startswith(b"<?xml")
    text = PLAIN.replace("shows: delta", "shows: probability").replace("{exp_epsilon: [1, 2]}", "{output: [0, 3]}")
    figure = load_figure(written(tmp_path, text))
    both = curve_points(figure, None)
    assert [one.name for one in both] == ["A", "B"]
    assert both[0].upper[0] == pytest.approx(1 / (3 * math.sqrt(2 * math.pi)))
    assert both[1].upper[1] == pytest.approx(math.exp(-(2.0**2) / 18) / (3 * math.sqrt(2 * math.pi)))
    assert "distribution" in figure_csv(figure, both)


def test_a_delta_below_float64_is_drawn_and_told(tmp_path):
    text = PLAIN.replace("[1, 2]", "[1, 1.0e+8]").replace("compositions: 4", "compositions: 1\nfloor: 1.0e-300")
    figure, points = points_of(tmp_path, text.replace("scale: 3", "scale: 0.5"))
    low = points[0]
    assert draw(figure, points, "png")[:8] == b"\x89PNG\r\n\x1a\n"
    exact = privacy_bounds(Gaussian(0.5), compositions=1, epsilon=math.log(1e8))
    assert low.log_upper[1] >= float(exact.log_delta_lower.item())


def test_beyond_the_largest_loss_nothing_is_judged(tmp_path):
    """Ours is not sought there, and so is no worse; up to it an infinite bound of ours would be told."""
    figure, points = points_of(tmp_path, OVER.replace("largest_exp_epsilon: 8", "largest_exp_epsilon: 1.5"))
    assert list(contradictions(figure, points)) == []
    unknown = [replace(one, upper=np.full(2, np.inf)) if one.curve.certified else one for one in points]
    low = [replace(one, upper=np.full(2, 1.4)) if one.kind == "kov" else one for one in unknown]
    assert any("upper bound of 'ours'" in text for text in contradictions(figure, low))
