"""The paper's worked examples: its value from the rule, and what is refused."""

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath
import pytest

from pbdist import InvalidInputError
from pbdist.granularity.canonical import canonical_metric
from pbdist.granularity.notions import Unbounded
from pbdist.granularity.partitions import PartedClass, touched
from pbdist.granularity.rules import (
    APPROXIMATE,
    CONCENTRATED,
    GAUSSIAN,
    PURE,
    parameters,
)
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    DatabaseClass,
    DatabaseMap,
    GaussianPrivacy,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    StarDistance,
    ZeroConcentratedPrivacy,
)
from tests.granularity.rule_worlds import (
    bounded,
    canonical,
    image,
    minus,
    multisets,
    one_place,
    restricted,
    unbounded,
)

TENTH = Fraction(1, 10)


def changed(a: Any, b: Any) -> int:
    return len(minus(a, b)) + len(minus(b, a))


def test_example_ii_9_is_infinite_on_own_domains_and_refused_as_a_partition() -> None:
    """Counts of two blocks are bounded 0-DP each, and reveal together which block the record is in."""
    domain = multisets("xy", 1, 1)
    metric = canonical(domain, bounded)
    whole = multisets("xy", 2)
    blocks = canonical(whole, bounded)
    maps = [
        DatabaseMap(domain, whole, lambda d, k=keep: tuple(r for r in d if r in k), f"p_{keep}") for keep in ("x", "y")
    ]
    zero = [OnItsOwnDomain(PURE.privacy(blocks, 0), f) for f in maps]
    assert PURE.composition(zero).distance(("x",), ("y",)) == math.inf  # 0 · ∞: nothing is known.
    with pytest.raises(InvalidInputError, match=r"IV\.6 \(V\.4\): parted: expected a partition that is compatible"):
        PURE.best_bound(zero, PartedClass(maps, metric))
    with pytest.raises(InvalidInputError, match=r"expected OnTheCommonDomain, .*Example II\.9"):
        PURE.bounded_partition(zero, PartedClass(maps, metric))  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match=r"expected OnTheCommonDomain, .*Example II\.9"):
        PURE.common_domain(zero)  # type: ignore[arg-type]
    with pytest.raises(InvalidInputError, match="expected privacy over"):
        OnTheCommonDomain(PURE.privacy(blocks, 0), maps[0])
    assert PURE.for_numbers([{0: math.inf, 1: math.inf}], [0, 0])[0] == math.inf


def test_example_iii_4_no_neighbours() -> None:
    with pytest.raises(InvalidInputError, match=r"Example III\.4"):
        canonical(multisets("abc", 2, 2), unbounded)
    fixed = multisets("abc", 2, 2)
    metric = canonical(fixed, bounded)
    assert all(metric(a, b) == Fraction(changed(a, b), 2) for a, b in itertools.product(fixed.listed("test"), repeat=2))


def test_remark_a_2_a_restricted_metric_is_refused() -> None:
    listed = DatabaseClass("sizes 0 and 2 and 3", tuple(d for d in multisets("ab", 3).listed("test") if len(d) != 1))
    whole = canonical_metric(Unbounded(), multisets("ab", 3))
    with pytest.raises(InvalidInputError, match=r"expected a CanonicalMetric, .* got d of .* restricted to sizes 0"):
        PURE.privacy(Metric(listed, whole, f"{whole.name} restricted to {listed.name}"), 1)  # type: ignore[arg-type]
    assert whole((), ("a", "a")) == changed((), ("a", "a")) == 2
    assert canonical_metric(Unbounded(), listed)((), ("a", "a")) == math.inf


def test_example_iv_2_paper_and_sharp() -> None:
    """Counts and closest ambulances of two districts of diameter 5: 11 in the paper, 6 for one record."""
    district = {0: 0, 5: 0, 10: 1, 15: 1}
    both = tuple(
        d
        for n in (2, 3)
        for d in itertools.combinations_with_replacement(district, n)
        if {district[x] for x in d} == {0, 1}
    )
    domain = DatabaseClass("ambulances", both)
    mechanisms = []
    for i, hospital in enumerate((0, 10)):
        part = image(domain, lambda d, i=i: tuple(x for x in d if district[x] == i), f"p{i}")
        closest = image(
            domain,
            lambda d, i=i, h=hospital: min((x for x in d if district[x] == i), key=lambda x: abs(x - h)),
            f"f{i}",
        )
        mechanisms.append(OnItsOwnDomain(PurePrivacy(Metric(part.codomain, changed)), part))
        mechanisms.append(OnItsOwnDomain(PurePrivacy(Metric(closest.codomain, lambda a, b: abs(a - b))), closest))
    distance = PURE.composition(mechanisms).distance
    neighbours = [(a, b) for a in both for b in both if changed(a, b) == 1]
    assert all(distance(a, b) <= 1 + 2 * 5 for a, b in neighbours)  # The paper's bound.
    assert max(distance(a, b) for a, b in neighbours) == 6
    assert PURE.for_numbers([{0: 1, 1: 5, 2: 5}], [1, 1, 1])[0] == 11
    assert PURE.for_numbers([{0: 1, 2: 5}, {1: 1, 3: 5}], [1, 1, 1, 1])[0] == 6


def test_example_iv_5_at_most_three_of_ten() -> None:
    """Each ambulance belongs to at most 3 of k hospitals; on all databases of up to 2 records, k = 4."""
    epsilons = [TENTH] * 10
    assert PURE.for_numbers(3, epsilons)[0] == Fraction(3, 10)
    assert PURE.for_numbers("each", epsilons)[0] == 1
    domain = DatabaseClass("groups", tuple(c for n in range(3) for c in itertools.combinations(("012", "13", "23"), n)))
    metric = canonical(domain, unbounded)
    reads = [image(domain, lambda d, i=i: tuple(r for r in d if str(i) in r), f"f{i}") for i in range(4)]
    parts = [canonical(f.codomain, unbounded) for f in reads]
    own = [OnItsOwnDomain(PURE.privacy(m, TENTH), f) for f, m in zip(reads, parts, strict=True)]
    assert parameters(PURE.over_neighbours(PURE.composition(own), metric)) == (Fraction(3, 10),)


def test_examples_iv_9_and_iv_14_two_districts() -> None:
    epsilons = [Fraction(1, 2), Fraction(3, 10), Fraction(1, 5)]
    domain = multisets("abc", 3)
    metric = canonical(domain, bounded)
    maps = [restricted(domain, keep, keep) for keep in "abc"]
    mechanisms = [OnTheCommonDomain(PURE.privacy(metric, e), f) for e, f in zip(epsilons, maps, strict=True)]
    bound = PURE.bounded_partition(mechanisms, PartedClass(maps, metric))
    assert parameters(bound) == (Fraction(4, 5),)
    assert PURE.for_numbers(2, epsilons)[0] == Fraction(4, 5)
    assert PURE.for_numbers("each", epsilons)[0] == 1
    one = restricted(domain, "ab", "one")  # a and b in the same block: a change within it.
    shared = PURE.common_domain([OnTheCommonDomain(PURE.privacy(metric, epsilons[0]), one)])
    assert shared.distance(("a",), ("b",)) == Fraction(1, 2)


def test_corollary_iv_13_with_one_part() -> None:
    """As printed it is a maximum over no pairs: 0, or nothing at all. The truth is ε_1."""
    domain = multisets("abc", 2)
    metric = canonical(domain, bounded)
    part = restricted(domain, "ab", "p")
    mechanism = OnTheCommonDomain(PURE.privacy(metric, Fraction(1, 2)), part)
    assert max([i + j for i, j in itertools.permutations([0.5], 2)], default=0) == 0  # As printed.
    assert parameters(PURE.bounded_partition([mechanism], PartedClass([part], metric))) == (Fraction(1, 2),)
    assert PURE.for_numbers(2, [Fraction(1, 2)])[0] == Fraction(1, 2)


@pytest.mark.slow
def test_example_iv_15() -> None:
    """{a, b} and {c, d}: |f(D) △ f(D')| = 4 in the paper, and max(|A - B|, |B - A|) = 2 is what the rule finds."""
    domain = multisets("abcdz", 3)
    metric = canonical(domain, bounded)
    read = restricted(domain, "abcd", "f")
    star = PURE.common_domain([OnTheCommonDomain(PURE.privacy(metric, 1), read)])
    a, b = ("a", "b"), ("c", "d", "z")  # Sizes differ: no bounded steps lead from one to the other.
    assert metric(a, b) == math.inf
    assert changed(read(a), read(b)) == 4
    assert star.distance(a, b) == 2


def test_theorem_vi_3_numbers() -> None:
    for distance, expected in ((12, 0.947189), (13, 2.574737)):
        epsilon, delta = APPROXIMATE.at_distance(distance, 1, 1e-5)
        assert epsilon == distance
        assert delta == pytest.approx(expected, abs=5e-7)
    assert APPROXIMATE.at_distance(7, 0, Fraction(1, 100)) == (0, Fraction(7, 100))
    assert APPROXIMATE.at_distance(7, 1e-300, 1e-3)[1] == pytest.approx(7e-3)


def test_example_vi_8() -> None:
    """f_i(D) is what a hospital's ambulances are; a change touches at most 6 of the k hospitals."""
    assert APPROXIMATE.for_numbers(6, [1] * 10, [1e-5] * 10) == pytest.approx((6, 6e-5))
    assert APPROXIMATE.for_numbers(6, [1] * 4, [1e-5] * 4) == pytest.approx((4, 4e-5))
    twice = APPROXIMATE.for_numbers([dict.fromkeys(range(6), 2)], [1] * 6, [1e-5] * 6)
    assert twice == pytest.approx((12, 2.23097e-4), rel=1e-6)
    records = ("012", "345")
    domain = DatabaseClass("groups", tuple(itertools.combinations_with_replacement(records, 2)))
    metric = canonical(domain, bounded)
    maps = [image(domain, lambda d, i=i: tuple(r for r in d if str(i) in r), f"f{i}") for i in range(6)]
    privacy = APPROXIMATE.privacy(metric, 1, Fraction(1, 10**5))
    star = APPROXIMATE.common_domain([OnTheCommonDomain(privacy, f) for f in maps])
    assert parameters(APPROXIMATE.over_neighbours(star, metric)) == (6, Fraction(6, 10**5))
    far = (("012", "012"), ("345", "345"))
    assert star.distance(*far) == 12
    assert star.delta(*far) == pytest.approx(2.23097e-4, rel=1e-6)  # type: ignore[union-attr]


def test_theorem_vi_7_as_printed_would_certify_a_mechanism_that_reveals() -> None:
    """f = id, k = 1, d = 0: the printed δ^f takes the δ of any pair at the same distance, here 0."""
    domain = DatabaseClass("three", ("A", "B", "C"))
    output = {"A": 0, "B": 1, "C": 1}  # Reveals whether the database is A.
    none = Metric(domain, lambda _a, _b: 0)
    delta = StarDistance(domain, lambda a, b: int(output[a] != output[b]))
    identity = DatabaseMap(domain, domain, lambda d: d, "id")
    pairs = list(itertools.product(domain.listed("test"), repeat=2))
    printed = min(delta(a, b) for a, b in pairs if none(a, b) == none("A", "B"))
    assert printed == 0
    ours = APPROXIMATE.common_domain([OnTheCommonDomain(ApproximatePrivacy(none, delta), identity)])
    assert ours.delta("A", "B") == 1
    assert ours.delta("B", "C") == 0


def test_theorem_vi_12_and_vi_20_at_distance_2() -> None:
    domain = multisets("a", 3)
    metric = canonical(domain, unbounded)
    rho, mu = Fraction(1, 8), Fraction(1, 3)
    assert CONCENTRATED.at_distance(2, rho)[0] == Fraction(1, 2)
    assert GAUSSIAN.at_distance(2, mu)[0] == Fraction(2, 3)
    assert CONCENTRATED.privacy(metric, rho).distance((), ("a", "a")) ** 2 == pytest.approx(4 * rho)
    assert GAUSSIAN.privacy(metric, mu).distance((), ("a", "a")) == 2 * mu


def test_theorem_vi_21_three_and_four_are_five() -> None:
    domain = multisets("ab", 1)
    whole = [PurePrivacy(Metric(domain, lambda a, b, c=c: c * (a != b))) for c in (3, 4)]
    gauss = GAUSSIAN.sequential([GaussianPrivacy(each.distance) for each in whole])
    assert gauss.distance((), ("a",)) == 5
    assert isinstance(gauss.distance((), ("a",)), int)
    assert GAUSSIAN.for_numbers("each", [3, 4])[0] == 5


def test_example_vi_25_is_sharper_than_the_commuting_rule() -> None:
    domain = multisets("ab", 2)
    maps = [restricted(domain, keep, keep) for keep in "ab"]
    own = [OnItsOwnDomain(GaussianPrivacy(Metric(f.codomain, changed)), f) for f in maps]
    assert GAUSSIAN.composition(own).distance((), ("a", "b")) == pytest.approx(math.sqrt(2), abs=1e-15)
    assert changed((), ("a", "b")) == 2


def test_theorem_vi_23_as_printed_is_false() -> None:
    """ε = 1 randomized response is 1-DP, but not 1-Gaussian private: its total variation is above that of G_1."""
    response = math.tanh(0.5)
    gauss = math.erf(0.5 / math.sqrt(2))
    assert response == pytest.approx(0.462, abs=5e-4)
    assert gauss == pytest.approx(0.383, abs=5e-4)
    keep = Fraction(math.e) / (1 + Fraction(math.e))  # The exact mechanism: keep the answer, or turn it round.
    assert float(keep - (1 - keep)) == pytest.approx(response)
    domain = multisets("a", 1)
    pure = PURE.privacy(canonical(domain, unbounded), 1)
    with pytest.raises(InvalidInputError, match=r"Theorem VI\.23: expected GaussianPrivacy, got 'PurePrivacy'"):
        GAUSSIAN.sequential([pure])  # type: ignore[list-item]


def test_corollary_a_18() -> None:
    mus = [1, Fraction(1, 2), Fraction(1, 5)]
    domain = multisets("abc", 2)
    metric = canonical(domain, bounded)
    maps = [restricted(domain, keep, keep) for keep in "abc"]
    mechanisms = [OnTheCommonDomain(GAUSSIAN.privacy(metric, mu), f) for mu, f in zip(mus, maps, strict=True)]
    (mu,) = parameters(GAUSSIAN.bounded_partition(mechanisms, PartedClass(maps, metric)))
    assert mu == pytest.approx(1.118034, abs=5e-7)
    assert GAUSSIAN.for_numbers(2, mus)[0] == mu
    assert Fraction(mu) ** 2 >= Fraction(5, 4)


def test_theorems_a_13_and_a_15_without_a_compatible_partition_are_false() -> None:
    """Two mechanisms that both read everything: the maximum is below the truth, which the sum is."""

    t = 4  # e^ε; M_{ε,δ} twice, on the presence of a record: δ at ε is above max δ_i = 0.
    once = {0: Fraction(t, 1 + t), 1: Fraction(1, 1 + t)}
    twice = [(x * y, (1 - x) * (1 - y)) for x in once.values() for y in once.values()]
    assert sum(max(p - t * q, 0) for p, q in twice) > 0
    alpha = 50
    single = sum(p**alpha * (1 - p) ** (1 - alpha) for p in once.values())
    assert sum(p**alpha * q ** (1 - alpha) for p, q in twice) == single**2 > single
    domain = multisets("a", 1)
    metric = canonical(domain, unbounded)
    identity = DatabaseMap(domain, domain, lambda d: d, "id")
    partition = PartedClass([identity, identity], metric)
    approximate = OnTheCommonDomain(APPROXIMATE.privacy(metric, math.log(t), 0), identity)
    with pytest.raises(InvalidInputError, match=r"A\.13: parted: expected a partition that is compatible"):
        APPROXIMATE.best_bound_common_domain([approximate, approximate], partition)
    zero = OnTheCommonDomain(CONCENTRATED.privacy(metric, 1), identity)
    with pytest.raises(InvalidInputError, match=r"A\.15: parted: expected a partition that is compatible"):
        CONCENTRATED.best_bound_common_domain([zero, zero], partition)


@pytest.mark.parametrize("epsilon", [1e-12, 0.003, 0.7, 1, Fraction(9, 7), 30.5])
@pytest.mark.parametrize("distance", [2, 3, 17, Fraction(5, 2)])
def test_group_delta_against_60_digits(epsilon: Any, distance: Any) -> None:
    delta = 1e-7
    with mpmath.workdps(60):
        exact = mpmath.mpf(Fraction(epsilon).numerator) / Fraction(epsilon).denominator
        times = mpmath.mpf(Fraction(distance).numerator) / Fraction(distance).denominator
        truth = mpmath.mpf(delta) * mpmath.expm1(times * exact) / mpmath.expm1(exact)
        ours = mpmath.mpf(float(APPROXIMATE.at_distance(distance, epsilon, delta)[1]))
        assert truth <= ours <= truth * (1 + mpmath.mpf(10) ** -12)


def test_zero_concentrated_statements_keep_their_squares() -> None:
    domain = multisets("a", 3)
    metric = canonical(domain, unbounded)
    assert isinstance(CONCENTRATED.privacy(metric, 2), ZeroConcentratedPrivacy)
    assert parameters(CONCENTRATED.privacy(metric, 2), metric) == (2,)


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["granularity-rules.md", "granularity-notions.md"])
def test_the_pages_print_what_they_say(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[2] / "docs" / name).read_text(encoding="utf-8")
    code = "".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    exec(code, {})  # noqa: S102
    assert capsys.readouterr().out.split() == re.findall(r"  # ([^\s:]+)", code)


def test_proposition_a_5_and_example_iv_7() -> None:
    """One changed record lies in two parts of a partition of records, and in one part of a partition of places."""
    fixed = multisets("ab", 3, 3)
    records = PartedClass([restricted(fixed, keep, keep) for keep in "ab"], canonical(fixed, bounded))
    assert touched(records.maps, ("a", "a", "a"), ("a", "a", "b")) == (0, 1)
    words = DatabaseClass("words", tuple(itertools.product("ab", repeat=2)))
    places = [image(words, lambda word, n=n: ((n, word[n]),), f"p{n}") for n in (0, 1)]
    metric = canonical(words, one_place)
    blocks = [canonical(f.codomain, one_place) for f in places]
    own = [OnItsOwnDomain(PURE.privacy(m, e), f) for e, m, f in zip((1, 2), blocks, places, strict=True)]
    bound = PURE.best_bound(own, PartedClass(places, metric))
    assert parameters(bound) == (2,)
    assert bound.distance(("a", "a"), ("b", "b")) == 4
