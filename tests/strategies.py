"""What hypothesis draws: finite pairs with rational masses, grids, composition trees and values of ε.

Every size is bounded so that the exact truth of what is drawn stays cheap: at most ``MAX_OUTCOMES`` different
outcomes after composition.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import comb, lcm
from typing import Any, TypeVar

from hypothesis import HealthCheck, seed, settings
from hypothesis import strategies as st

from pbdist.mechanisms import DiscreteGaussian, DiscreteLaplace, Poisson
from tests.effort import SEED, times
from tests.oracles import exact, exact_truth

Property = TypeVar("Property", bound=Callable[..., Any])
State = TypeVar("State")

MAX_OUTCOMES = 300
MAX_LEAVES = 64
#: Counts up to here are what a program holds in 64-bit integers.
LARGEST_COUNT = 2**63 - 1


def examples(number: int) -> Callable[[Property], Property]:
    """Let a property look at a third of `number` examples times the effort: the same in every run with one seed."""
    chosen = settings(
        max_examples=times(number // 3),
        derandomize=True,
        database=None,
        deadline=None,
        # Exact arithmetic is slow by design, and a tree is a large thing to draw.
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    # Without a seed, what is drawn follows from the property.
    return lambda function: chosen(seed(SEED)(function) if SEED else function)


@dataclass(frozen=True)
class CountedPair:
    """Two distributions on the same outcomes, as integer counts; both totals are positive."""

    p_counts: tuple[int, ...]
    q_counts: tuple[int, ...]

    @property
    def p(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(count, sum(self.p_counts)) for count in self.p_counts)

    @property
    def q(self) -> tuple[Fraction, ...]:
        return tuple(Fraction(count, sum(self.q_counts)) for count in self.q_counts)

    @property
    def reversed(self) -> "CountedPair":
        return CountedPair(self.q_counts, self.p_counts)

    @property
    def table(self) -> exact_truth.OutcomeTable:
        return exact_truth.outcomes(self.p, self.q)


@dataclass(frozen=True)
class TreeLeaf:
    """One pair, by its position in the list of pairs that belongs to the tree."""

    position: int


@dataclass(frozen=True)
class TreeSquare:
    child: "Tree"


@dataclass(frozen=True)
class TreeCompose:
    left: "Tree"
    right: "Tree"


Tree = TreeLeaf | TreeSquare | TreeCompose


def leaf_counts(tree: Tree) -> dict[int, int]:
    """How often each pair occurs in a tree."""
    if isinstance(tree, TreeLeaf):
        return {tree.position: 1}
    if isinstance(tree, TreeSquare):
        return leaf_counts(tree.child)
    counts = dict(leaf_counts(tree.left))
    for position, count in leaf_counts(tree.right).items():
        counts[position] = counts.get(position, 0) + count
    return counts


def squarings(tree: Tree) -> int:
    """How many squarings lie between a leaf and the root; the same for every leaf of a valid tree."""
    if isinstance(tree, TreeLeaf):
        return 0
    if isinstance(tree, TreeSquare):
        return 1 + squarings(tree.child)
    return squarings(tree.left)


def folded(
    tree: Tree, leaves: Sequence[State], square: Callable[[State], State], compose: Callable[[State, State], State]
) -> State:
    """The state of a tree from those of its leaves; a subtree that occurs twice is evaluated once."""

    @cache
    def evaluated(tree: Tree) -> State:
        if isinstance(tree, TreeLeaf):
            return leaves[tree.position]
        if isinstance(tree, TreeSquare):
            return square(evaluated(tree.child))
        return compose(evaluated(tree.left), evaluated(tree.right))

    return evaluated(tree)


@dataclass(frozen=True)
class Case:
    """A composition tree over pairs on one grid."""

    pairs: tuple[CountedPair, ...]
    factor: Fraction
    half_width: int
    tree: Tree

    @property
    def reversed(self) -> "Case":
        return Case(tuple(pair.reversed for pair in self.pairs), self.factor, self.half_width, self.tree)

    @property
    def truth(self) -> exact_truth.OutcomeTable:
        """Every outcome of the composition; A to B, and read the other way round, B to A."""
        counts = leaf_counts(self.tree)
        return exact_truth.composed_outcomes(
            [(self.pairs[position].table, count) for position, count in counts.items()]
        )

    def exact_state(self) -> exact.ExactState:
        """The exact bucket list of the direction A to B."""
        leaves = [exact.leaf(pair.p, pair.q, self.factor, self.half_width) for pair in self.pairs]
        return folded(self.tree, leaves, exact.square, exact.compose)


# -- pairs and factors -----------------------------------------------------------------------------------------

_WILD = st.one_of(st.integers(0, 12), st.integers(0, 10_000), st.sampled_from([0, 1, 10**6, 10**12, 10**17]))
# Ratios near 1, whose losses land inside the grid and stay there for some compositions.
_TAME = st.integers(40, 60)


@st.composite
def counted_pairs(draw: st.DrawFn) -> CountedPair:
    """2 to 6 outcomes with any counts: zeros on either side, and ratios up to 1e17."""
    outcomes = draw(st.sampled_from([2, 2, 2, 3, 3, 4, 5, 6]))
    counts = draw(st.sampled_from([st.integers(0, 12), _WILD, _TAME]))
    p_counts = draw(st.lists(counts, min_size=outcomes, max_size=outcomes).filter(any))
    q_counts = draw(st.lists(counts, min_size=outcomes, max_size=outcomes).filter(any))
    return CountedPair(tuple(p_counts), tuple(q_counts))


@st.composite
def pairs_on_edges(draw: st.DrawFn, factor: Fraction, half_width: int) -> CountedPair:
    """A pair whose losses are exactly i ln f for whole i, the edges of buckets, some of them beyond the grid.

    Two outcomes with ratios f^i and f^-j can be balanced in one way: q (f^i - f^-j) = 1 - f^-j. A mixture of such
    pairs, each on outcomes of its own, and of outcomes of ratio 1, 0 and infinity has the same ratios.
    """
    blocks = draw(st.sampled_from([1, 1, 2]))
    weights = [draw(st.integers(1, 9)) for _ in range(blocks)]
    masses: list[tuple[Fraction, Fraction]] = []
    for weight in weights:
        # High powers of a factor with a long denominator would not fit into 64 bits.
        highest = max(1, min(half_width + 2, 16 // factor.denominator.bit_length()))
        up = draw(st.integers(1, highest))
        down = draw(st.integers(1, highest))
        q_up = (1 - factor**-down) / (factor**up - factor**-down)
        masses.append((weight * q_up * factor**up, weight * q_up))
        masses.append((weight * (1 - q_up) * factor**-down, weight * (1 - q_up)))
    neutral = draw(st.sampled_from([0, 0, 0, 1, 2, 3]))
    if neutral:
        masses.append((Fraction(neutral), Fraction(neutral)))
    elif draw(st.integers(0, 2)) == 2:
        revealing = draw(st.integers(1, 3))
        masses += [(Fraction(revealing), Fraction(0)), (Fraction(0), Fraction(revealing))]
    p_denominator = lcm(*(a.denominator for a, _ in masses))
    q_denominator = lcm(*(b.denominator for _, b in masses))
    pair = CountedPair(
        tuple(int(a * p_denominator) for a, _ in masses), tuple(int(b * q_denominator) for _, b in masses)
    )
    if max(pair.p_counts + pair.q_counts) > LARGEST_COUNT:
        return CountedPair((3, 1), (1, 3))
    return pair


@st.composite
def factors(draw: st.DrawFn) -> Fraction:
    """Rational f in (1, 3], with plain ones among them and ones as close to 1 as 1 + 1e-9."""
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return draw(st.sampled_from([Fraction(3, 2), Fraction(2), Fraction(5, 4), Fraction(3), Fraction(11, 10)]))
    if kind == 1:
        return 1 + Fraction(1, draw(st.integers(2, 1000)))
    if kind == 2:
        return 1 + Fraction(1, 10 ** draw(st.integers(2, 9)))
    denominator = draw(st.integers(1, 1000))
    return 1 + Fraction(draw(st.integers(1, 2 * denominator)), denominator)


half_widths = st.one_of(st.integers(1, 4), st.integers(1, 20), st.integers(8, 32)).map(lambda half: 2 * half)


def most_compositions(outcomes: int, budget: int) -> int:
    """How often a pair may be composed so that no more than ``budget`` outcomes differ."""
    count = 1
    while count < MAX_LEAVES and comb(count + outcomes, outcomes - 1) <= budget:
        count += 1
    return count


# -- trees -----------------------------------------------------------------------------------------------------


@st.composite
def trees(draw: st.DrawFn, position: int, most_leaves: int, levels: int) -> Tree:
    """A tree over one pair with ``levels`` squarings on every path, and up to ``most_leaves`` leaves."""
    tree: Tree = TreeLeaf(position)
    size = 1
    remaining = levels
    while True:
        choices = []
        if 2 * size <= most_leaves:
            choices += ["double", "double"]
        if remaining == levels and size + 1 <= most_leaves:
            choices.append("one more")
        if remaining:
            choices.append("square")
        elif not choices or draw(st.integers(0, 5)) == 0:
            return tree
        step = draw(st.sampled_from(choices))
        if step == "double":
            tree, size = TreeCompose(tree, tree), 2 * size
        elif step == "one more":
            tree, size = TreeCompose(tree, TreeLeaf(position)), size + 1
        else:
            tree, remaining = TreeSquare(tree), remaining - 1


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """One or two different pairs, a grid, and a tree with up to three squarings and up to 64 leaves."""
    factor = draw(factors())
    half_width = draw(half_widths)
    any_pair = st.one_of(counted_pairs(), pairs_on_edges(factor, half_width))
    pairs = tuple(draw(st.lists(any_pair, min_size=1, max_size=2)))
    budget = MAX_OUTCOMES if len(pairs) == 1 else int(MAX_OUTCOMES**0.5)
    levels = draw(st.integers(0, 3))
    parts = []
    for position, pair in enumerate(pairs):
        most_leaves = min(most_compositions(len(pair.p_counts), budget), MAX_LEAVES // len(pairs))
        parts.append(draw(trees(position, most_leaves, levels)))
    tree = parts[0]
    for part in parts[1:]:
        tree = TreeCompose(tree, part)
    # Nor need the last step be a composition.
    if draw(st.booleans()) and levels < 3:
        tree = TreeSquare(tree)
    return Case(pairs, factor, half_width, tree)


@st.composite
def epsilons(draw: st.DrawFn, loss_width: float, half_width: int) -> list[float]:
    """A few ε >= 0: always 0, and among the others edges of buckets and values beyond the grid.

    Parameters
    ----------
    loss_width : float
        Of the grid of the final state, in nats.
    half_width : int
        n of the grid.
    """
    top = half_width * loss_width
    other = st.one_of(
        st.floats(0.0, 5.0),
        st.integers(1, half_width).map(lambda index: index * loss_width),
        st.floats(0.0, 1.2).map(lambda part: part * top),
        st.sampled_from([5e-324, 1e-12, top, 1.5 * top, 50.0, 800.0]),
    )
    return [0.0, *draw(st.lists(other, min_size=1, max_size=3))]


@st.composite
def exp_epsilons(draw: st.DrawFn, factor: Fraction, half_width: int) -> list[Fraction]:
    """A few rational y = e^ε >= 1: always 1, and among the others exact edges f^j and values beyond the grid."""
    other = st.one_of(
        st.integers(0, half_width).map(lambda index: factor**index),
        st.fractions(1, 20, max_denominator=1000),
        st.integers(1, 3).map(lambda extra: factor ** (half_width + extra)),
        st.floats(0.0, 1.0).map(lambda part: Fraction(float(factor) ** (part * half_width)).limit_denominator(10**6)),
    )
    drawn = draw(st.lists(other, min_size=1, max_size=4))
    return [Fraction(1), *(y for y in drawn if y >= 1)]


# -- whole-numbered noise ------------------------------------------------------------------------------------------


@st.composite
def integer_noise(draw: st.DrawFn) -> DiscreteGaussian | DiscreteLaplace | Poisson:
    """Poisson, discrete Laplace or discrete Gaussian noise of every size that a thousand outcomes or so allow."""
    kind = draw(st.sampled_from([Poisson, DiscreteLaplace, DiscreteGaussian]))
    exponent = st.floats(-8.0, 4.0) if kind is Poisson else st.floats(-1.3, 1.5)
    return kind(10.0 ** draw(exponent), draw(st.one_of(st.integers(1, 3), st.integers(1, 60))))
