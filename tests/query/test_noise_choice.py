"""Which tabulated noise meets a target: the verdicts against Gaussian noise in closed form, groups, what is missing."""

import math
from contextlib import suppress

import mpmath
import pytest

import pbdist
from pbdist.errors import InvalidInputError, OffGridError
from pbdist.query import open_study
from pbdist.query.noise_choice import noise_choices, noise_groups, target_sheet
from pbdist.results import Verdict
from pbdist.store.layout import bounds_file
from pbdist.study import Cell
from pbdist.study.columns import cell_columns
from tests.studies import TINY, Finished, compute_store

_SCALES = (20.0, 5.0, 10.0, 40.0)


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    text = (
        "format: 1\nname: choice\nmechanisms:\n"
        f"  - {{label: noise, kind: Gaussian, scale: {list(_SCALES)}}}\n"
        "  - {label: response, kind: RandomizedResponse, p: [0.9, 0.4, 0.75]}\n"
        "  - {label: table, kind: Histogram, p: [0.5, 0.5], q: [0.25, 0.75]}\n"
        "compositions: [1, 16]\nepsilon: [0.5, 1.0, 2.0]\n"
    )
    return pbdist.open_study(compute_store(tmp_path_factory.mktemp("choice"), text))


def _gaussian_delta(scale, rounds, epsilon):
    with mpmath.workdps(50):
        mu = mpmath.sqrt(rounds) / mpmath.mpf(scale)
        first, second = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        return mpmath.ncdf(first) - mpmath.exp(epsilon) * mpmath.ncdf(second)


@pytest.mark.parametrize(("rounds", "epsilon"), [(16, 1.0), (16, 0.5), (1, 2.0)])
@pytest.mark.parametrize("delta", [1e-3, 1e-9, 0.2])
def test_verdicts_are_those_of_the_exact_delta(study, rounds, epsilon, delta):
    (choice,) = noise_choices(study, compositions=rounds, epsilon=epsilon, delta=delta, mechanism="noise")
    assert [one.amount for one in choice.tried] == sorted(_SCALES)
    for one in choice.tried:
        truth = _gaussian_delta(one.amount, rounds, epsilon)
        assert one.lower <= truth <= one.upper
        assert one.verdict is (Verdict.MEETS if truth <= delta else Verdict.REFUTED)
    meeting = [scale for scale in _SCALES if _gaussian_delta(scale, rounds, epsilon) <= delta]
    assert (choice.smallest.amount if choice.smallest else None) == min(meeting, default=None)
    failing = [scale for scale in _SCALES if scale not in meeting]
    assert (choice.refuted.amount if choice.refuted else None) == max(failing, default=None)


@pytest.mark.parametrize(("rounds", "epsilon"), [(7, 0.8), (16, 0.7), (3, 1.0)])
def test_between_stored_points_what_is_told_is_proved(study, rounds, epsilon):
    seen = set()
    for delta in (1e-2, 1e-4, 1e-8):
        (choice,) = noise_choices(study, compositions=rounds, epsilon=epsilon, delta=delta, mechanism="noise")
        for one in choice.tried:
            truth = _gaussian_delta(one.amount, rounds, epsilon)
            assert one.lower <= truth <= one.upper
            seen.add(one.verdict)
            if one.verdict is not Verdict.UNDECIDED:
                assert (one.verdict is Verdict.MEETS) == (truth <= delta)
    assert Verdict.MEETS in seen


def test_e_to_epsilon_is_the_stored_one(study):
    by_epsilon = noise_choices(study, compositions=16, epsilon=1.0, delta=1e-3)
    assert noise_choices(study, compositions=16, exp_epsilon=math.e, delta=1e-3) == by_epsilon


def test_beyond_the_largest_r_what_is_refuted_at_a_smaller_one_is_refuted(study):
    (choice,) = noise_choices(study, compositions=17, epsilon=1.0, delta=1e-3, mechanism="noise")
    assert choice.smallest is None
    for one in choice.tried:
        if one.verdict is Verdict.REFUTED:
            assert 1e-3 < one.lower <= _gaussian_delta(one.amount, 17, 1.0)
            assert one.upper == 1.0
        else:
            assert one.verdict is Verdict.MISSING
            assert math.isnan(one.upper)
    assert [one.verdict is Verdict.REFUTED for one in choice.tried] == [
        _gaussian_delta(one.amount, 16, 1.0) > 1e-3 for one in choice.tried
    ]
    assert choice.refuted is not None


def test_a_target_of_which_nothing_is_known_is_refused_where_a_verdict_is_needed(study):
    point = {"compositions": 17, "epsilon": 2.0, "delta": 0.9, "mechanism": "noise"}
    assert target_sheet(study, **point).frame().not_computed.tolist() == [4]
    with pytest.raises(
        OffGridError, match=r"compositions: expected at most 16, .* \(pbdist status .* --check\), got 17, "
    ):
        target_sheet(study, needed=True, **point)


def test_damaged_settings_are_no_settings_that_are_not_computed(store_copy: Finished) -> None:
    store, target = store_copy(TINY), {"compositions": 4, "exp_epsilon": 2.0, "delta": 0.2}
    before = target_sheet(open_study(store), **target).frame()
    chunk = store / bounds_file(0)
    content = chunk.read_bytes()
    chunk.write_bytes(content[:30] + bytes([content[30] ^ 16]) + content[31:])
    with pytest.warns(
        UserWarning, match=r"the bounds of \d noise settings? are damaged .*: pbdist status .* --check names"
    ):
        sheet = target_sheet(open_study(store), needed=True, **target)
    found = sheet.frame()
    assert found.damaged.sum() == before[["meets", "refuted", "undecided"]].sum().sum() - (
        found[["meets", "refuted", "undecided"]].sum().sum()
    )
    assert found.damaged.sum() > 0
    assert found.not_computed.sum() == 0
    assert any("damaged" in note for note in sheet.notes)
    for index in range(1, len(open_study(store).spec.cells)):
        with suppress(FileNotFoundError):
            (store / bounds_file(index)).write_bytes(b"x")
    with pytest.raises(OffGridError, match=r"the bounds of \d noise settings are damaged .*--check names the files"):
        target_sheet(open_study(store), needed=True, **target)


def test_lies_are_ordered_by_their_probability_and_tables_stand_alone(study):
    response, table = noise_choices(study, compositions=1, epsilon=0.5, delta=0.1)[1:]
    assert response.what == "probability of a lie"
    assert [one.amount for one in response.tried] == pytest.approx([0.1, 0.25, 0.4])
    assert table.what == ""
    assert len(table.tried) == 1
    assert math.isnan(table.tried[0].amount)


def _grouped(*pairs, label="one"):
    return noise_groups(cell_columns([Cell(label, pair, None) for pair in pairs]))


def test_cells_of_other_parameters_are_other_groups():
    pairs = [pbdist.SubsampledGaussian(s, q) for s in (2.0, 1.0) for q in (0.1, 0.2)]
    groups = _grouped(*pairs)
    assert [(group.cells, group.amounts, group.fixed["rate"]) for group in groups] == [
        ((2, 0), (1.0, 2.0), 0.1),
        ((3, 1), (1.0, 2.0), 0.2),
    ]


def test_a_product_of_equal_scales_has_an_amount():
    moved = [pbdist.Product(pbdist.Gaussian(s), pbdist.Reversed(pbdist.Gaussian(s))) for s in (3.0, 1.0, 2.0)]
    mixed = pbdist.Product(pbdist.Gaussian(1.0), pbdist.Gaussian(2.0))
    first, second = _grouped(*moved, mixed)
    assert (first.cells, first.amounts) == ((1, 2, 0), (1.0, 2.0, 3.0))
    assert (second.cells, second.what) == ((3,), "")


def test_counts_of_different_means_are_ordered_by_them():
    counts = [
        pbdist.NoisyCount(noise=pbdist.Laplace(scale), mean=mean, shift=2.0)
        for mean, scale in ((200.0, 10.0), (150.0, 20.0), (100.0, 10.0))
    ]
    (group,) = _grouped(*counts)
    assert group.cells == (2, 1, 0)
    assert group.what == "mean of the noise, in counts"


def test_sums_of_one_larger_scale_are_told_apart_by_the_smaller_one():
    sums = [pbdist.LaplaceSum(scales) for scales in ((20.0, 20.0), (20.0, 0.1), (30.0, 0.1))]
    assert [(group.cells, group.amounts) for group in _grouped(*sums)] == [((0,), (20.0,)), ((1, 2), (20.0, 30.0))]


def test_rare_truths_are_not_compared_with_lies():
    answers = [pbdist.KaryRandomizedResponse(p, 4) for p in (0.7, 0.1, 0.5, 0.2)]
    lies, truths = _grouped(*answers)
    assert (lies.cells, lies.what) == ((0, 2), "probability of a lie")
    assert (truths.cells, truths.amounts, truths.what) == ((1, 3), (0.1, 0.2), "probability of the true answer")


def test_less_epsilon_is_more_noise():
    (group,) = _grouped(*(pbdist.ApproximateDP(epsilon, 0.0) for epsilon in (0.1, 0.3, 0.2)))
    assert group.cells == (1, 2, 0)
    assert group.amounts == (0.3, 0.2, 0.1)


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"mechanism": "other"}, "mechanism: expected one of noise, response, table, got 'other'"),
        ({"delta": 1.0}, "delta: expected numbers above 0 and below 1"),
        ({"delta": [0.1, 0.2]}, "delta: expected one number"),
        ({"compositions": 0}, "compositions: expected whole numbers"),
        ({"epsilon": math.nan}, "epsilon: expected finite numbers"),
        ({"epsilon": None, "exp_epsilon": 0.5}, "exp_epsilon: expected finite numbers of at least 1, got [0.5]"),
        ({"exp_epsilon": 2.0}, "epsilon: expected exactly one"),
    ],
)
def test_wrong_targets_are_named(study, wrong, text):
    with pytest.raises(InvalidInputError, match=text.replace("[", r"\[")):
        noise_choices(study, **{"compositions": 1, "epsilon": 0.5, "delta": 0.1, **wrong})


COUNTS = """\
format: 1
name: counts
mechanisms:
  - {kind: NoisyCount, noise: {kind: Laplace, scale: [2, 9]}, mean: [10, 20], shift: 2}
compositions: [10]
epsilon: [1]
"""


def test_counts_of_one_mean_are_told_apart_by_their_scale(finished_store: Finished) -> None:
    study, target = open_study(finished_store(COUNTS)), {"compositions": 10, "epsilon": 1.0, "delta": 0.37}
    groups = noise_choices(study, **target)
    assert [(one.fixed["scale"], [each.amount for each in one.tried]) for one in groups] == [
        (2.0, [10.0, 20.0]),
        (9.0, [10.0, 20.0]),
    ]
    frame = target_sheet(study, **target).frame()
    assert frame.scale.tolist() == [2.0, 9.0]
    for group, row in zip(groups, frame.itertuples(), strict=True):
        verdicts = [one.verdict for one in group.tried]
        assert (row.meets, row.refuted) == (verdicts.count(Verdict.MEETS), verdicts.count(Verdict.REFUTED))
        refuted = [one.amount for one in group.tried if one.verdict is Verdict.REFUTED]
        assert row.most_refuted == (max(refuted) if refuted else None)
    assert (frame.compositions[0], frame.epsilon[0], frame.delta[0]) == (10, 1.0, 0.37)
    assert frame.adjacency[0] == "as-stated"


def test_the_target_is_printed_exactly(finished_store: Finished) -> None:
    study = open_study(finished_store(COUNTS))
    told = str(target_sheet(study, compositions=10, epsilon=1.0, delta=0.03602046769193556))
    assert "target: δ <= 0.03602046769193556 at r = 10, ε = 1" in told
