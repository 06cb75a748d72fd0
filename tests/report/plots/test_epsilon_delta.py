"""The (ε, δ) graph: stored bounds, what is proved between them, gaps, faint δ, styles that need no colours."""

import numpy as np
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.report.plots import epsilon_delta
from pbdist.report.plots.bounds import curves_of, proved_line
from pbdist.report.plots.selection import chosen
from pbdist.store import create_or_open, extend
from pbdist.store.layout import bounds_file
from pbdist.study import load_study, plan_study
from pbdist.study.spec import missing_parts
from tests.batches import part_of
from tests.query.test_extended import AFTER, BEFORE, write_all
from tests.report.plots.pictures import GAUSSIAN, PLAN, at, curves, notes
from tests.studies import write_study

pytestmark = pytest.mark.slow


def test_lines_are_the_stored_bounds_at_stored_points(study):
    axes = epsilon_delta(study.bounds.sel(mechanism="Gaussian", scale=4.0, compositions=16))
    stored = study.bounds.sel(mechanism="Gaussian", scale=4.0, compositions=16).max("direction").squeeze("cell")
    low, high = axes.lines
    for epsilon in stored.epsilon.values:
        one = stored.sel(epsilon=epsilon)
        x, y = high.get_data()
        assert np.all(at(x, y, epsilon) == np.exp(float(one.log_delta_upper)))
        # The stair falls right behind the point.
        x, y = low.get_data()
        assert at(x, y, epsilon)[0] == np.exp(float(one.log_delta_lower))
    marked = [float(high.get_xdata()[place]) for place in high.get_markevery()]
    assert marked == stored.epsilon.values.tolist()


def test_between_stored_points_the_truth_lies_in_the_band(study):
    for r in (1, 4, 16):
        epsilon, low, high = proved_line(curves_of(chosen(study, noise={"scale": 4.0}), r)[0])
        truth = pbdist.privacy_bounds(pbdist.Gaussian(4.0), compositions=r, epsilon=epsilon)
        lower, upper = truth.log_delta_lower.values[0], truth.log_delta_upper.values[0]
        assert np.all(high >= lower)
        # Of the two values at an ε the second one holds up to the next ε.
        assert np.all(low <= upper)
        assert np.all(low[1::2] <= np.append(upper[2::2], upper[-1])[: low[1::2].size])


def test_a_straight_line_between_drawn_points_is_hardly_below_what_is_proved(study):
    curve = curves_of(chosen(study, noise={"scale": 2.0}), 1)[0]
    epsilon, _, upper = proved_line(curve)
    place, first = np.unique(epsilon, return_index=True)
    height = np.ptp(upper)
    middle = 0.5 * (place[:-1] + place[1:])
    chord = 0.5 * (upper[first][:-1] + upper[first][1:])
    right = np.searchsorted(curve.places, middle)
    low, high = curve.upper[right], curve.upper[right - 1]
    part = np.expm1(middle - curve.places[right]) / np.expm1(curve.places[right - 1] - curve.places[right])
    proved = np.log((1.0 - part) * np.exp(low) + part * np.exp(high))
    assert np.max(proved - chord) < 5e-3 * height


def test_a_missing_point_is_a_gap_and_is_told(study):
    bounds = study.bounds.sel(mechanism="Gaussian", compositions=4).load()
    for name in ("log_delta_lower", "log_delta_upper"):
        bounds[name][{"cell": 0, "epsilon": 2}] = np.nan
    axes = epsilon_delta(bounds)
    assert notes(axes)[0] == "1 of 20 points is not computed"
    x, y = curves(axes)["scale 2"].get_data()
    assert np.isnan(y[(x > 0.25) & (x < 1.0)]).all()
    assert np.isfinite(y[(x <= 0.25) | (x >= 1.0)]).all()
    x, y = curves(axes)["scale 4"].get_data()
    assert np.isfinite(y).all()


def test_nothing_computed_is_refused(study):
    bounds = study.bounds.sel(mechanism="Gaussian", compositions=4).load()
    bounds["log_delta_upper"][:] = np.nan
    with pytest.raises(OffGridError, match="expected bounds to draw, got none: 20 of 20 points are not computed"):
        epsilon_delta(bounds)


def test_cells_without_a_sound_record_and_damaged_ones_are_gaps(store_copy):
    store = store_copy(GAUSSIAN)
    opened = pbdist.open_study(store)
    head = part_of(store).head
    (store / bounds_file(0)).unlink()
    damaged = store / bounds_file(head.batches - 1)
    damaged.write_bytes(damaged.read_bytes()[:-1])
    cells = range(len(opened.spec.cells))
    opened = pbdist.open_study(store)
    reasons = opened.gaps(cells)
    assert set(reasons.values()) == {"not computed", "damaged"}
    assert len(reasons) < len(cells)
    axes = epsilon_delta(opened, compositions=4)
    gone = {reason: 5 * list(reasons.values()).count(reason) for reason in ("not computed", "damaged")}
    assert f"{gone['not computed']} of 25 points are not computed" in notes(axes)
    assert f"{gone['damaged']} of 25 points are missing: damaged files" in notes(axes)
    labels = list(curves(axes))
    assert sum(label.endswith(": not computed") for label in labels) == list(reasons.values()).count("not computed")


def test_points_of_a_part_that_is_not_computed_are_gaps(tmp_path):
    before, after = (load_study(write_study(tmp_path, text)) for text in (BEFORE, AFTER))
    stored = create_or_open(tmp_path / "s.zarr", plan_study(before, 1))
    write_all((stored,))
    extend([stored], [plan_study(part, 1) for part in missing_parts([before], after)])
    study = pbdist.open_study(tmp_path / "s.zarr")
    axes = epsilon_delta(study, mechanism="Laplace", compositions=4)
    # ε = 0.2 and 0.7 of two settings, and all four ε of one, are in parts that are not computed.
    assert notes(axes)[0] == "8 of 12 points are not computed"
    x, y = curves(axes)["scale 2"].get_data()
    assert np.isfinite(y[np.isin(x, [0.0, 0.5])]).all()
    assert np.isnan(y[~np.isin(x, [0.0, 0.5])]).all()
    assert "scale 1.5: not computed" in curves(axes)


def test_faint_deltas_are_drawn_down_to_what_floats_hold():
    bounds = pbdist.privacy_bounds(pbdist.Gaussian(30.0), compositions=1, epsilon=[1.0, 1.2, 1.5])
    axes = epsilon_delta(bounds, lowest=0)
    assert float(bounds.log_delta_upper[0, -1]) < -800.0
    assert 0.0 < axes.get_ylim()[0] < float(bounds.delta_upper[0, 1]) < 1e-200
    assert "δ is 0, or below 1e-308, at 1 of 3 points" in notes(axes)
    axes.figure.draw_without_rendering()


def test_what_is_fainter_than_asked_is_not_drawn_and_told(study):
    axes = epsilon_delta(study, compositions=1, lowest=1e-20)
    assert 1e-23 < axes.get_ylim()[0] < 1e-19
    assert "what lies below δ = 1e-20 is not drawn" in notes(axes)
    assert axes.get_ylim()[0] == 1e-20
    assert any(one.endswith("at the stored points; between them the band is wider") for one in notes(axes))


def test_curves_differ_without_colours(study):
    axes = epsilon_delta(study)
    told = [(line.get_linestyle(), line._unscaled_dash_pattern, line.get_marker()) for line in curves(axes).values()]
    assert len(told) == 5
    assert len({str(one[1:]) for one in told}) == len(told)
    assert len({line.get_marker() for line in curves(axes).values()}) == 5


def test_axes_say_their_units_and_the_chosen_r(study):
    axes = epsilon_delta(study)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("ε, in nats", "δ, a probability")
    assert axes.get_title(loc="left") == "r = 16"


def test_no_lower_bound_is_no_band(finished_store):
    study = pbdist.open_study(finished_store(PLAN))
    axes = epsilon_delta(study.bounds.sel(mechanism="unknown", compositions=4))
    assert "no lower bound is known: no change is declared to attain the pairs that dominate it" in notes(axes)
    low, high = axes.lines
    assert np.isnan(low.get_ydata()).all()
    assert np.isfinite(high.get_ydata()).any()
    assert axes.collections[0].get_paths() == []
    axes = epsilon_delta(study, compositions=4)
    assert any(line.startswith("unknown") and "no lower bound is known" in line for line in notes(axes))


def test_both_directions_and_a_target(study):
    axes = epsilon_delta(study, mechanism="Gaussian", scale=4.0, compositions=4, direction="each", target=(1.0, 1e-5))
    assert [label for label in curves(axes) if "‖" in label] == ["A‖B", "B‖A"]
    assert curves(axes)["target: ε = 1, δ = 1e-5"].get_ydata()[0] == 1e-5


def test_a_second_call_adds_other_styles(study):
    axes = epsilon_delta(study, mechanism="Gaussian", scale=4.0, compositions=4)
    again = epsilon_delta(study, mechanism="Gaussian", scale=8.0, compositions=4, axes=axes)
    assert again is axes
    assert [line.get_marker() for line in curves(axes).values()] == ["o", "s"]


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (
            {"mechanism": "Gausian"},
            "mechanism: expected one of Gaussian, RandomizedResponse, got Gausian: did you mean Gaussian",
        ),
        ({"scale": 3.0}, "scale: expected a stored value, the neighbours being 2 and 4, got 3"),
        ({"sacle": 3.0}, "sacle: expected one of kind, .*, got an unknown parameter"),
        ({"compositions": [1, 4, 16]}, "compositions: expected at most 12 curves in one plot, got 15"),
        ({"compositions": 3}, "compositions: expected one of 1, 4, 16, got 3"),
        ({"target": (1.0, 0.0)}, "target: expected an ε of at least 0 and a δ above 0"),
        ({"lowest": 1.0}, "lowest: expected a δ from 0 to below 1"),
        ({"direction": "A"}, "direction: expected 'both' or 'each'"),
    ],
)
def test_wrong_arguments_are_named(study, wrong, told):
    with pytest.raises((InvalidInputError, OffGridError), match=told):
        epsilon_delta(study, **wrong)


def test_what_is_no_dataset_of_bounds_is_refused(study):
    with pytest.raises(InvalidInputError, match="expected a Dataset or an opened study"):
        epsilon_delta([1.0])
    with pytest.raises(InvalidInputError, match="expected log_delta_lower and log_delta_upper"):
        epsilon_delta(pbdist.epsilon_bounds(pbdist.Gaussian(4.0), compositions=1, delta=1e-5))
    with pytest.raises(InvalidInputError, match="expected the dimensions of bounds on δ, got run"):
        epsilon_delta(study.bounds.expand_dims("run"))


def test_a_legend_is_within_its_sheet_whatever_the_style_is(finished_store):
    bounds = pbdist.open_study(finished_store(GAUSSIAN)).bounds.sel(compositions=4).isel(cell=0)
    sources = {f"of the mechanism, number {number}": bounds for number in range(5)}
    axes = epsilon_delta(sources, target=(0.5, 1e-5))
    axes.figure.canvas.draw()
    whole = axes.figure.bbox
    # The frame of a legend is a little wider than its texts.
    assert all(whole.x0 <= one.get_window_extent().x0 for one in axes.get_legend().get_texts())
    assert all(one.get_window_extent().x1 <= whole.x1 for one in axes.get_legend().get_texts())
    assert axes.get_position().width > 0.8, "the legend takes no room from the axes"
