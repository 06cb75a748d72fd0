"""Stored release plans: they are the plans, queries say where no lower bound is known, and all of it is verified."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

from pbdist.cli import main
from pbdist.errors import InvalidInputError, OffGridError, PrecisionWarning
from pbdist.granularity.notions import Bounded, Unbounded
from pbdist.granularity.release.declared import Analysis, Overlapping, Partition, on_each_block
from pbdist.granularity.release.plan import ReleasePlan
from pbdist.mechanisms import ApproximateDP, Laplace, Pair
from pbdist.query import open_study
from pbdist.sizing.api import size
from pbdist.types import FloatArray
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict
from tests.studies import Finished, alter, write_study

pytestmark = pytest.mark.slow

STUDY = """\
format: 1
name: releases
mechanisms:
  - label: counts
    kind: ReleasePlan
    granularity: unbounded
    blocks: {overlapping: 5, at_most: 2}
    analyses:
      - {name: count, pair: {kind: Laplace, scale: [4, 8]}, reads_each: all, attained: every}
  - label: unattained
    kind: ReleasePlan
    granularity: bounded
    blocks: {overlapping: 4, at_most: 3}
    analyses:
      - {name: n, pair: {kind: ApproximateDP, epsilon: 0.5, delta: 1e-5}, declared: bounded, domain: common,
         reads_each: all}
  - label: partly
    kind: ReleasePlan
    granularity: unbounded
    blocks: {partition: [a, b]}
    analyses:
      - {name: one, pair: {kind: Laplace, scale: 2}, reads: [a]}
      - {name: two, pair: {kind: Laplace, scale: 1, sensitivity: 0.25}, reads: [b], attained: every}
      - {name: three, pair: {kind: RandomizedResponse, p: 0.6}, reads: [b], attained: every}
compositions: [1, 2, 4]
epsilon: [0.1, 0.5, 1, 2]
"""
NOT_KNOWN = "no lower bound is known: no change is declared to attain the pairs that dominate it"


def counts(scale: float, attained: str = "every") -> ReleasePlan:
    run = Analysis("count", Laplace(scale), attained=attained)  # type: ignore[arg-type]
    names = tuple(f"block {number}" for number in range(1, 6))
    return ReleasePlan(Unbounded(), on_each_block(run, names), Overlapping(names, 2))


def unattained() -> ReleasePlan:
    run = Analysis("n", ApproximateDP(0.5, 1e-5), declared=Bounded(), domain="common")
    return ReleasePlan(Bounded(), on_each_block(run, "abcd"), Overlapping(("a", "b", "c", "d"), 3))


@pytest.fixture
def store(finished_store: Finished) -> Path:
    return finished_store(STUDY)


@pytest.fixture
def copy(store_copy: Finished) -> Path:
    return store_copy(STUDY)


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
@pytest.mark.parametrize(
    ("plan", "noise", "label"),
    [(counts(4.0), {"scale": 4}, "counts"), (unattained(), {}, "unattained")],
)
def test_stored_plans_are_the_plans(store: Path, plan: ReleasePlan, noise: dict[str, float], label: str) -> None:
    study = open_study(store)
    rounds, epsilon = np.array(study.spec.compositions), np.array(study.spec.epsilon)
    found = study.delta(label, compositions=rounds[:, None], epsilon=epsilon, **noise)
    expected = plan.privacy_bounds(compositions=rounds, epsilon=epsilon)
    # Both bound the same δ: brackets meet, and both are close.
    assert (found.upper >= np.nan_to_num(expected.delta_lower.values, nan=0.0)).all()
    np.testing.assert_allclose(found.upper, expected.delta_upper.values, rtol=2e-3, atol=1e-30)
    assert (np.isnan(found.lower) == np.isnan(expected.delta_lower.values)).all()
    assert found.within_tolerance is not None
    assert found.within_tolerance.all() == (label != "unattained")
    by_pair = study.delta(plan.pair(), compositions=rounds[:, None], epsilon=epsilon)
    np.testing.assert_allclose(by_pair.upper, found.upper, rtol=2e-3, atol=1e-30)


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_the_lower_bound_is_nan_where_nothing_attains(store: Path) -> None:
    study = open_study(store)
    found = study.delta("unattained", compositions=[1, 3], epsilon=[0.5, 0.7], direction="each")
    assert np.isnan(found.lower).all()
    assert np.isnan(found.log_lower).all()
    assert (found.upper > 0.0).all()
    assert found.within_tolerance is not None
    assert found.why_wide is not None
    assert not found.within_tolerance.any()
    assert set(found.why_wide.ravel()) == {"no lower bound is known"}
    assert math.isnan(study.delta("unattained", compositions=2, epsilon=1.0).lower)
    epsilon = study.epsilon("unattained", compositions=1, delta=1e-3)
    assert np.isnan(epsilon.lower)
    rounds = study.compositions("unattained", epsilon=2.0, delta=1e-4)
    assert (rounds.lower.item(), rounds.upper.item()) == (1, math.inf)
    # What is in the store is a bound, and says nothing.
    raw = study.bounds.delta_lower.values[2]
    assert (raw == 0.0).all()


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_only_attained_pairs_give_the_lower_bound(store: Path) -> None:
    found = open_study(store).delta("partly", compositions=1, epsilon=0.1)
    larger, attained = (
        plan.privacy_bounds(compositions=1, epsilon=0.1)
        for plan in (
            ReleasePlan(Unbounded(), [Analysis("one", Laplace(2.0), attained="every")]),
            ReleasePlan(
                Unbounded(),
                on_each_block(Analysis("two", Laplace(1.0, 0.25), attained="every"), "b"),
                Partition(("a", "b")),
            ),
        )
    )
    assert found.upper == pytest.approx(larger.delta_upper.item(), rel=2e-3)
    assert attained.delta_lower.item() <= found.lower < larger.delta_lower.item()


@pytest.mark.filterwarnings("ignore::pbdist.errors.PrecisionWarning")
def test_refining_finds_epsilon_and_rounds_without_a_lower_bound(copy: Path) -> None:
    study, plan = open_study(copy), unattained()
    sought = plan.epsilon_bounds(compositions=2, delta=1e-3).epsilon_upper.item()
    first = study.epsilon("unattained", compositions=2, delta=1e-3, refine=True)
    assert sought * (1 - 1e-3) <= first.upper <= sought * 1.005
    before = sorted(copy.rglob("*"))
    again = open_study(copy).epsilon("unattained", compositions=2, delta=1e-3, refine=True)
    assert again.upper == first.upper
    assert sorted(copy.rglob("*")) == before
    rounds = study.compositions("unattained", epsilon=3.0, delta=0.05, refine=True)
    allowed = int(rounds.lower)
    assert math.isinf(rounds.upper)
    met = plan.privacy_bounds(compositions=[allowed, allowed + 1], epsilon=3.0).delta_upper.values.ravel()
    assert met[0] <= 0.05 * 1.001
    assert met[1] > 0.05 * 0.999


def test_other_scales_are_refused_and_other_plans_computed(copy: Path) -> None:
    study = open_study(copy)
    with pytest.raises(OffGridError, match="scale: expected a stored value, the neighbours being 4 and 8"):
        study.delta("counts", compositions=1, epsilon=0.5, scale=5)
    with pytest.raises(InvalidInputError, match=r"also give scale \(4, 8\)"):
        study.delta("counts", compositions=1, epsilon=0.5)
    # More noise is a post-processing: the stored plan bounds it from above.
    with pytest.warns(PrecisionWarning, match="δ is between 0 and"):
        wider = study.delta(counts(10.0).pair(), compositions=4, epsilon=0.5)
    stored = study.delta("counts", compositions=4, epsilon=0.5, scale=8)
    assert wider.upper == stored.upper
    assert wider.lower == 0.0


def test_curves_of_several_pairs_are_refused(store: Path) -> None:
    study = open_study(store)
    with pytest.raises(InvalidInputError, match="mechanism: expected one worst-case pair, got the worst of several"):
        study.tradeoff("partly", compositions=1, type_one_error=0.1, scale=None)
    curve = study.tradeoff("counts", compositions=2, type_one_error=0.1, scale=4, strict="silent")
    assert 0.0 < curve.lower <= curve.upper


def test_what_the_command_prints(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def printed(*words: str) -> str:
        unknown = words[0] == "unattained"
        assert main(["query", str(store), "--mechanism", *words]) == (3 if unknown and "--strict" in words else 0)
        told = capsys.readouterr()
        assert ("no lower bound is known" in told.err) == unknown
        return told.out

    point = printed("unattained", "--compositions", "2", "--epsilon", "1")
    assert "unattained (4 x ApproximateDP(epsilon=0.5, delta=1e-5))" in point
    assert point.count("not known") == 2
    assert NOT_KNOWN in point
    assert "wide" not in point
    several = printed("unattained", "--compositions", "2", "3", "--epsilon", "1", "--strict")
    assert several.count("not known") == 4
    assert NOT_KNOWN in several
    assert "wide" not in several
    assert printed("unattained", "--compositions", "1", "--delta", "1e-3").count("not known") == 1
    assert printed("unattained", "--epsilon", "2", "--delta", "1e-3").count("not known") == 1
    read = json.loads(printed("unattained", "--compositions", "2", "--epsilon", "1", "--json"))
    assert read["answers"][0]["delta_lower"] is None
    assert read["answers"][0]["delta_upper"] > 0.0
    known = printed("counts", "--scale", "4", "8", "--compositions", "4", "--epsilon", "0.5")
    assert "not known" not in known
    assert NOT_KNOWN not in known


#: Fewer points, all of which are recomputed.
SMALL = STUDY.replace("[4, 8]", "4").replace("[1, 2, 4]", "[1, 2]").replace("[0.1, 0.5, 1, 2]", "[0.1, 0.3]")


def test_verify_recomputes_plans(finished_store: Finished) -> None:
    found = verify_store(finished_store(SMALL), sample=24)
    assert found.passed
    assert len(found.of(Verdict.CONFIRMED)) >= 20


@pytest.mark.parametrize(
    ("cell", "name", "value"),
    [
        # A lower bound where none is known, one that only the unattained product has, and an upper bound below δ.
        (1, "delta_lower", 1e-9),
        (2, "delta_lower", 0.17),
        (0, "delta_upper", 1e-9),
    ],
)
def test_verify_contradicts_wrong_bounds(store_copy: Finished, cell: int, name: str, value: float) -> None:
    copy = store_copy(SMALL)

    def change(values: FloatArray) -> None:
        values[cell, :, 0, 0] = value

    alter(copy, name, change)
    found = verify_store(copy, sample=24)
    assert not found.passed
    wrong = {(one.cell, one.compositions, one.epsilon) for one in found.of(Verdict.CONTRADICTED)}
    assert wrong == {(cell, 1, 0.1)}


def test_a_store_of_plans_is_extended(copy: Path) -> None:
    text = STUDY.replace("[1, 2, 4]", "[1, 2, 3, 4]").replace("scale: [4, 8]", "scale: [4, 6, 8]")
    study = str(write_study(copy.parent, text, "more.yaml"))
    assert main(["run", study, "--store", str(copy), "--serial"]) == 0
    opened = open_study(copy)
    assert opened.complete
    found = opened.delta("counts", compositions=3, epsilon=0.5, scale=6)
    expected = counts(6.0).privacy_bounds(compositions=3, epsilon=0.5)
    assert found.lower <= expected.delta_upper.item()
    assert expected.delta_lower.item() <= found.upper


def test_targets_of_plans(copy: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    goal = "targets:\n  - {epsilon: 2, delta: 1e-4, compositions: 1}\n"
    assert main(["run", str(write_study(tmp_path, STUDY + goal)), "--store", str(copy), "--serial"]) == 0
    told = capsys.readouterr().out
    row = next(line for line in told.splitlines() if line.startswith("│ unattained")).split("│")
    assert row[-2].strip() == "1"


def test_the_noise_of_a_plan_is_sized() -> None:
    def plan(scale: float) -> Pair:
        return counts(scale).pair()

    sized = size(plan, compositions=4, epsilon=0.5, delta=1e-4)
    assert sized.within_tolerance
    met = counts(sized.scale).privacy_bounds(compositions=4, epsilon=0.5)
    assert met.delta_upper.item() <= 1e-4 * (1 + 1e-2)
    with pytest.raises(InvalidInputError, match="family: expected mechanisms of which a lower bound can be known"):
        size(lambda scale: counts(scale, "never").pair(), compositions=4, epsilon=0.5, delta=1e-4)
