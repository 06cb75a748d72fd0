"""Figures made for real: their data, their drawings, and that curves which contradict ours are reported."""

import csv
import io
import math
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pytest
from scipy.special import ndtr

from pbdist import Gaussian, open_study
from pbdist.run import SerialExecutor, run_study
from pipelines.figures import drawing
from pipelines.figures.__main__ import main
from pipelines.figures.figure import Curve, Figure, Panel, Promise
from pipelines.figures.paper import FIGURES

pytestmark = pytest.mark.slow

NOISE = Gaussian(5.0)
PROMISE = Promise("dialing", 20.0, 10.0)
OVER_LOSSES = Figure(
    "gauss",
    "Gaussian noise",
    "What it shows.",
    "nowhere",
    (
        Panel(
            "",
            (
                Curve("ours", NOISE),
                Curve("KOV", NOISE, "kov"),
                Curve("limit", NOISE, "clt"),
                Curve("promise", NOISE, promise=PROMISE),
            ),
            4,
        ),
    ),
    np.array([1.0, 1.5, 2.0, 2.5, 3.0]),
    target=(2.0, 1e-2),
    tolerance=1e-6,
)
OVER_ROUNDS = replace(
    OVER_LOSSES,
    panels=(Panel("", (Curve("ours", NOISE), Curve("KOV", NOISE, "kov"), Curve("other", NOISE, delta=1e-2))),),
    values=np.array([1.0, 4.0]),
    shows="exp_epsilon",
    over="compositions",
    delta=1e-3,
    largest=8.0,
    target=None,
    tolerance=1e-4,
)


def exact_delta(mu, epsilon):
    return ndtr(mu / 2 - epsilon / mu) - np.exp(epsilon) * ndtr(-mu / 2 - epsilon / mu)


def computed(figure, folder):
    store = run_study(figure.study, folder / "store.zarr", SerialExecutor(), lambda _: None).place
    study = open_study(store)
    return study, figure.points(study)


@pytest.fixture(scope="module")
def gauss(tmp_path_factory):
    return computed(OVER_LOSSES, tmp_path_factory.mktemp("gauss"))


def test_every_figure_of_the_paper_has_panels_and_words():
    assert len(FIGURES) == 32
    for name, figure in FIGURES.items():
        assert figure.name == name
        assert len({panel.title for panel in figure.panels}) == len(figure.panels)
        assert all(panel.curves for panel in figure.panels)
        assert figure.caption.endswith(".")


def test_the_data_are_certified_bounds_and_values_of_earlier_work(gauss):
    _, points = gauss
    assert list(OVER_LOSSES.contradictions(points)) == []
    rows = list(csv.DictReader(io.StringIO(OVER_LOSSES.as_csv(points))))
    ours = [row for row in rows if row["kind"] == "certified"]
    assert [float(row["exp_epsilon"]) for row in ours] == [1.0, 1.5, 2.0, 2.5, 3.0]
    for row in ours:
        truth = float(exact_delta(2.0 / 5.0, math.log(float(row["exp_epsilon"]))))
        assert float(row["delta_lower"]) <= truth * (1 + 1e-12)
        assert truth <= float(row["delta_upper"]) * (1 + 1e-12) <= truth * (1 + 2e-6)
        assert math.exp(float(row["log_delta_upper"])) == pytest.approx(float(row["delta_upper"]), rel=1e-12)
    assert {row["kind"] for row in rows} == {"certified", "kov", "clt, no bound", "promise"}
    assert {row["delta_lower"] for row in rows if row["kind"] != "certified"} == {""}
    [promise] = [row for row in rows if row["kind"] == "promise"]
    one_round, delta = 2 / 10, 0.5 * math.exp(-19 / 10)
    epsilon = one_round * math.sqrt(8 * math.log(1e5)) + 4 * one_round * math.expm1(one_round)
    assert float(promise["exp_epsilon"]) == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert float(promise["delta_upper"]) == pytest.approx(4 * delta + 1e-5, rel=1e-12)


def test_the_same_points_give_the_same_drawing(gauss):
    study, points = gauss
    first, second = (drawing.draw(OVER_LOSSES, points, study, "svg") for _ in range(2))
    assert first == second
    ElementTree.fromstring(first)  # noqa: S314 -- written here


def test_bounds_that_contradict_ours_are_reported_and_no_approximation_is_judged(gauss):
    _, points = gauss

    def told(factor, label):
        changed = [replace(one, upper=one.upper * factor) if one.label == label else one for one in points]
        return list(OVER_LOSSES.contradictions(changed))

    assert any("'KOV' lies below the lower bound of 'ours'" in text for text in told(0.5, "KOV"))
    assert any("upper bound of 'ours'" in text for text in told(9.0, "ours"))
    assert told(0.5, "limit") == []
    # The promise's e^ε lies outside the points of the axis; inside, between two of them, it is compared.
    assert told(1e-9, "promise") == []
    inside = [
        replace(one, x=np.array([1.7]), upper=np.array([1e-9])) if one.label == "promise" else one for one in points
    ]
    assert any("'promise' lies below" in text for text in OVER_LOSSES.contradictions(inside))


def test_losses_over_r_enclose_the_exact_ones(tmp_path):
    study, points = computed(OVER_ROUNDS, tmp_path)
    assert list(OVER_ROUNDS.contradictions(points)) == []
    assert OVER_ROUNDS.as_csv(points).startswith("panel,curve,kind,compositions,exp_epsilon_lower,exp_epsilon_upper\n")
    assert drawing.draw(OVER_ROUNDS, points, study, "png").startswith(b"\x89PNG")
    for one in (one for one in points if one.curve.certified):
        delta = one.curve.delta or 1e-3
        for r, low, high in zip(one.x, one.lower, one.upper, strict=True):
            mu = math.sqrt(r) / 5
            assert exact_delta(mu, math.log(low) * (1 - 1e-9)) >= delta * (1 - 1e-6)
            assert exact_delta(mu, math.log(high)) <= delta
            assert high / low - 1 < 1e-3
    # Up to the largest loss sought an unknown bound of ours is reported, beyond it nothing is judged.
    unknown = [replace(one, upper=np.full(2, np.inf)) if one.curve.certified else one for one in points]
    for value, found in ((1.4, True), (9.0, False)):
        low = [replace(one, upper=np.full(2, value)) if one.label == "KOV" else one for one in unknown]
        assert any("upper bound of 'ours'" in text for text in OVER_ROUNDS.contradictions(low)) is found


def test_deltas_over_r_are_those_at_the_losses_of_a_promise(tmp_path):
    promise = Promise("dialing", 100.0, 30.0)
    panels = (Panel("", (Curve("promise", None, promise=promise), Curve("ours", NOISE))),)
    figure = replace(OVER_ROUNDS, panels=panels, shows="delta", delta=None, matching=promise)
    study, (theirs, ours) = computed(figure, tmp_path)
    assert drawing.draw(figure, [theirs, ours], study, "png").startswith(b"\x89PNG")
    for r, low, high in zip(ours.x, ours.lower, ours.upper, strict=True):
        epsilon = 2 / 30 * math.sqrt(2 * r * math.log(1e5)) + r * 2 / 30 * math.expm1(2 / 30)
        truth = exact_delta(math.sqrt(r) / 5, epsilon)
        assert low <= truth * (1 + 1e-9)
        assert truth <= high * (1 + 1e-9)
        assert high <= truth * 1.01


def test_a_figure_is_made_by_its_name(tmp_path, capsys):
    assert main(["figure-02b", "figure-01a", str(tmp_path / "out"), "--stores", str(tmp_path)]) == 0
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == [f"figure-{name}.{kind}" for name in ("01a", "02b") for kind in ("csv", "png", "svg")]
    assert "figure-01a.csv" in capsys.readouterr().out
    with (tmp_path / "out" / "figure-02b.csv").open(encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["curve"] == "M(1, 0.1): A"]
    assert float(rows[1]["probability_upper"]) == pytest.approx(0.9 / (1.0 + math.exp(-1.0)))
