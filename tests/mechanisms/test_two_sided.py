"""Mechanisms between two pairs, together with others: against mpmath, and mechanisms that are enumerated."""

import itertools
import math
from pathlib import Path

import mpmath
import numpy as np
import pytest

import pbdist
from pbdist import (
    Accountant,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    InvalidInputError,
    KaryRandomizedResponse,
    Product,
    RandomizedResponse,
    Reversed,
    StudyFileError,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    TruncatedPoissonGaussian,
    WorstOf,
    epsilon_bounds,
    privacy_bounds,
)
from pbdist.mechanisms import Adjacency, Pair, pair_from_canonical
from pbdist.mechanisms.pair import at_least_as_noisy
from pbdist.query import open_study
from pbdist.study import load_study
from pbdist.types import Direction
from pbdist.verify import exact
from pbdist.verify.store import verify_store
from pbdist.verify.verification import Verdict
from tests.effort import SEED, times
from tests.mechanisms.sampled import densities, sums_of_batches, truths
from tests.studies import Finished

pytestmark = [pytest.mark.filterwarnings("ignore::pbdist.PrecisionWarning"), pytest.mark.slow]

CUT = TruncatedPoissonGaussian(2.0, 0.1, 3, 20)
BATCH = FixedBatchGaussian(2.0, 3, 20)
FAMILY = SubsampledGaussianGroup(2.0, 0.1, 3)


def with_answer(delta: object, p: float, epsilon: float) -> mpmath.mpf:
    """δ of a mechanism beside one truthful answer: each answer has a loss, and what is left of ε is the mechanism's."""
    truth, lie = mpmath.mpf(p), 1 - mpmath.mpf(p)
    loss = mpmath.log(truth / lie)
    return truth * delta(epsilon - loss) + lie * delta(epsilon + loss)  # type: ignore[operator]


@pytest.mark.parametrize("pair", [CUT, BATCH, FAMILY], ids=lambda pair: type(pair).__name__)
def test_beside_an_answer_both_bounds_are_those_of_the_sides(pair: Pair) -> None:
    above, below = truths(pair)
    epsilon = np.array([0.0, 0.05, 0.4, 1.0])
    whole = Product(pair, RandomizedResponse(0.6))
    found = privacy_bounds(whole, compositions=1, epsilon=epsilon, direction="each")
    assert found.attrs["adjacency"] == str(pair.adjacency)

    with mpmath.workdps(40):
        slack = mpmath.mpf(10) ** -25
        for axis, (j, each) in itertools.product(range(2), enumerate(epsilon.tolist())):

            def dominating(e: mpmath.mpf, axis: int = axis) -> mpmath.mpf:
                # Of batches: the removal from 0 on, the addition below, in both directions alike.
                return above.delta(e, (0 if e >= 0 else 1) if pair is BATCH else axis)

            most = with_answer(dominating, 0.6, each)
            least = with_answer(lambda e, axis=axis: below.delta(e, axis), 0.6, each)
            lower, upper = (float(side.values[axis, 0, j]) for side in (found.delta_lower, found.delta_upper))
            assert lower <= least * (1 + slack) <= most * (1 + 2 * slack) <= upper * (1 + 3 * slack), (axis, each)
            assert upper <= 1.01 * most
            assert least <= 1.01 * lower


def test_enumerated_batches_and_answers_chosen_by_them() -> None:
    """A batch, and then a record's answer whose truth is told with a probability that the batch decides."""
    rng = np.random.default_rng((SEED, 51))
    for _ in range(times(6)):
        examples = int(rng.integers(2, 6))
        batch, scale = int(rng.integers(1, examples + 1)), float(10.0 ** rng.uniform(-0.1, 0.5))
        values = np.clip(rng.uniform(-2.0, 2.0, examples), -1.0, 1.0)
        other = np.append(values[:-1], rng.uniform(-1.0, 1.0))
        first = densities([sums_of_batches(one, batch) for one in (values, other)], scale)
        truth = np.where(rng.random(first[0].size) < 0.5, 0.7, rng.uniform(0.3, 0.7, first[0].size))
        a = np.stack((first[0] * truth, first[0] * (1.0 - truth)))
        b = np.stack((first[1] * (1.0 - truth), first[1] * truth))
        bounds = privacy_bounds(
            [(FixedBatchGaussian(scale, batch, examples), 1), (RandomizedResponse(0.7), 1)],
            compositions=1,
            epsilon=[0.0, 0.5, 1.2],
            direction="each",
        )
        for j, epsilon in enumerate((0.0, 0.5, 1.2)):
            for axis, (one, two) in enumerate(((a, b), (b, a))):
                delta = float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum())
                assert delta <= bounds.delta_upper.values[axis, 0, j] + 1e-9


def test_counts_products_and_histories_say_the_same() -> None:
    pairs: list[tuple[Pair, int]] = [
        (CUT, 2),
        (TruncatedPoissonGaussian(3.0, 0.1, 4, 20), 1),
        (SubsampledGaussian(2.0, 0.1), 3),
    ]
    sequence = epsilon_bounds(pairs, compositions=2, delta=1e-4)
    product = Product(*(pair for pair, count in pairs for _ in range(count)))
    together = epsilon_bounds(product, compositions=2, delta=1e-4)
    run = Accountant()
    for pair, count in reversed(pairs):
        run = run.add(pair, count)
    for pair, count in pairs:
        run = run.add(pair, count)
    spent = run.epsilon(1e-4)
    for lower, upper in ((together.epsilon_lower, together.epsilon_upper), (spent.lower, spent.upper)):
        assert float(lower.item()) == pytest.approx(sequence.epsilon_lower.item(), rel=2e-3)
        assert float(upper.item()) == pytest.approx(sequence.epsilon_upper.item(), rel=2e-3)
    assert Accountant.from_document(run.to_document()) == run
    assert Accountant().add(product).add(Gaussian(3.0)).epsilon(1e-3).lower > 0.0


def test_a_mechanism_for_other_neighbours_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="FixedBatchGaussian for replace-one"):
        Product(CUT, BATCH)
    with pytest.raises(InvalidInputError, match="replace-one"):
        Accountant().add(BATCH).add(CUT)
    with pytest.raises(InvalidInputError, match="replace-one"):
        privacy_bounds([(BATCH, 1), (SubsampledGaussian(1.0, 0.1), 1)], compositions=1, epsilon=0.0)
    with pytest.raises(InvalidInputError, match="SubsampledGaussianGroup for add-or-remove-group"):
        Product(CUT, FAMILY)
    # Its lower pair is a removal, for which a replaced record stands.
    both = Product(BATCH, KaryRandomizedResponse(0.5, 3))
    assert both.adjacency is Adjacency.REPLACE_ONE
    assert both.removal is None
    found = privacy_bounds(both, compositions=3, epsilon=0.5)
    assert 0.0 < found.delta_lower.item() <= found.delta_upper.item()
    assert found.attrs["adjacency"] == "replace-one"


def test_products_of_two_sides_are_described() -> None:
    whole = Product(Product(CUT, Gaussian(3.0)), GaussianMixture(2.0, (0.0, 1.0), (0.5, 0.5)))
    assert pair_from_canonical(whole.canonical()) == whole
    assert whole.is_worst_of_several
    assert whole.sole_pair is None
    above, below = whole.enclosing_pairs
    assert whole.choices == ((above, False), (below, True))
    assert not above.is_worst_of_several
    assert [type(one).__name__ for one in above.factors] == ["TruncatedPoissonUpper", "Gaussian", "GaussianMixture"]
    assert whole.removal is Direction.A_TO_B
    assert whole.adjacency is above.adjacency is Adjacency.ADD_OR_REMOVE
    assert Product(whole, Reversed(SubsampledGaussian(1.0, 0.1))).adjacency is Adjacency.AS_STATED
    # Batches of all records are not sampled: there is one pair.
    full = Product(FixedBatchGaussian(2.0, 5, 5), Gaussian(3.0))
    assert full.sole_pair == Product(Gaussian(2.0, 2.0), Gaussian(3.0))
    assert privacy_bounds(full, compositions=1, epsilon=0.5).equals(
        privacy_bounds(full.sole_pair, compositions=1, epsilon=0.5).assign_attrs(adjacency="replace-one")
    )
    assert at_least_as_noisy(Product(FixedBatchGaussian(3.0, 3, 20), Gaussian(3.0)), Product(BATCH, Gaussian(3.0)))
    assert not at_least_as_noisy(Product(BATCH, Gaussian(3.0)), Product(BATCH, Gaussian(4.0)))


def test_what_nobody_attains_has_no_lower_bounds_beside_others() -> None:
    found = privacy_bounds(Product(CUT, pbdist.BoundedRange(0.2)), compositions=2, epsilon=0.1)
    assert found.delta_lower.item() == 0.0 < found.delta_upper.item()


def test_what_needs_one_pair_refuses_products_of_two_sides() -> None:
    whole = Product(CUT, Gaussian(3.0))
    with pytest.raises(InvalidInputError, match=r"group.pair: expected one worst-case pair"):
        pbdist.group(whole, 2)
    with pytest.raises(InvalidInputError, match="pair: expected a worst-case pair"):
        pbdist.granularity.Analysis("counts", whole)
    with pytest.raises(InvalidInputError, match="the worst of several pairs cannot be composed"):
        privacy_bounds([(whole, 1), (WorstOf(Gaussian(1.0), Gaussian(2.0)), 1)], compositions=1, epsilon=0.0)


def test_exact_arithmetic_encloses_products_of_two_sides() -> None:
    found = privacy_bounds(Product(CUT, RandomizedResponse(0.6)), compositions=2, epsilon=0.3, direction="each")
    for axis, direction in enumerate(Direction):
        known = exact.exact_bounds(
            [(Product(CUT, RandomizedResponse(0.6)), 1)],
            compositions=2,
            epsilon=[0.3],
            direction=direction,
            loss_width=0.005,
        )
        lower, upper = (float(side.values[axis, 0, 0]) for side in (found.delta_lower, found.delta_upper))
        assert known.meets([lower], [upper]) == (True,)


STUDY = """\
format: 1
name: together
mechanisms:
  - kind: Product
    pairs:
      - kind: TruncatedPoissonGaussian
        scale: [2, 4]
        rate: 0.1
        batch: 3
        examples: 20
      - kind: Gaussian
        scale: 3
  - kind: SubsampledGaussianGroup
    scale: 2
    rate: 0.1
    group_size: 3
compositions: [1, 4]
epsilon: [0.1, 1]
"""


def test_studies_have_products_of_two_sides(tmp_path: Path) -> None:
    file = tmp_path / "study.yaml"
    file.write_text(STUDY, encoding="utf-8")
    cells = load_study(file).cells
    products = [Product(TruncatedPoissonGaussian(scale, 0.1, 3, 20), Gaussian(3.0)) for scale in (2.0, 4.0)]
    assert [cell.pair for cell in cells] == [*products, SubsampledGaussianGroup(2.0, 0.1, 3)]
    for more, text in (("keep_states: true\n", "keep_states"), ("method: buckets\n", "expected tight")):
        file.write_text(STUDY + more, encoding="utf-8")
        with pytest.raises(StudyFileError, match=text):
            load_study(file)


def test_studies_of_two_sides_are_run_queried_and_verified(finished_store: Finished) -> None:
    store = finished_store(STUDY + "tolerance: 0.01\n")
    study = open_study(store)
    pairs = (
        Product(TruncatedPoissonGaussian(2.0, 0.1, 3, 20), Gaussian(3.0)),
        SubsampledGaussianGroup(2.0, 0.1, 3),
    )
    for pair in pairs:
        found, known = (
            study.delta(pair, compositions=4, epsilon=1.0),
            privacy_bounds(pair, compositions=4, epsilon=1.0),
        )
        assert 0.0 < known.delta_lower.item() <= found.upper
        assert 0.0 < found.lower <= known.delta_upper.item()
    verified = verify_store(store, sample=4)
    assert verified.passed
    assert not verified.of(Verdict.UNCHECKED)
