"""What a mechanism is to pbdist: a worst-case pair of distributions and its masses on bins."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from typing import Any, ClassVar, TypeAlias

import numpy as np

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.declaration import noise_parameter, parameters_of, refuse_replaced
from pbdist.mechanisms.masses import BEYOND, LossMasses, ScaledLossMasses, rounded_up
from pbdist.types import Adjacency, Direction, FloatArray, JsonValue, joined

#: The neighbours of which one direction takes records away, and the other one brings them.
_DIRECTED = (Adjacency.ADD_OR_REMOVE, Adjacency.ADD_OR_REMOVE_GROUP, Adjacency.ZERO_OUT)


@dataclass(frozen=True)
class NoiseOrder:
    """Where a mechanism stands among those that post-processing orders: Theorem 11 of docs/theory.md.

    Only mechanisms of equal families are compared; they have equally many amounts, which are exact. Of two, q is a
    post-processing of p if every amount of q is at least that of p.
    """

    family: Hashable
    amounts: tuple[Fraction, ...]


class Pair(ABC):
    """A worst-case pair (A, B): the output distributions of a mechanism on two neighbouring inputs.

    Subclasses are frozen, validated and hashable dataclasses; two equal pairs have the same canonical form. `mechanism`
    makes a class one, and `parameter` declares its fields (both of `pbdist.mechanisms`).
    """

    #: Other names of it, in lower case.
    aliases: ClassVar[tuple[str, ...]] = ()
    #: The family of the noise that is added; empty where none is.
    noise_family: ClassVar[str] = ""
    #: What happens in a round, in a sentence or two.
    does: ClassVar[str] = ""
    #: The assumptions about the system behind it, which pbdist cannot check.
    assumes: ClassVar[str] = ""
    #: Whether an entry of a study can name it.
    in_studies: ClassVar[bool] = True
    #: The parameters that set the amount of noise, the most important first, where that is not the sized one.
    noise_parameters: ClassVar[tuple[str, ...]] = ()
    #: The parameters that `check` looks at together: all combinations of theirs are tried in a study. By default all,
    #: where a class has a `check` of its own.
    checked_together: ClassVar[tuple[str, ...] | None] = None
    #: Those of them for which `check` accepts every smaller value too, so that the largest of a study is enough.
    largest_decides: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls) -> None:
        """Refuse a class that replaces a proved ability of a mechanism."""
        super().__init_subclass__()
        refuse_replaced(cls)

    def __post_init__(self) -> None:
        """Check each parameter, hold it in its plain type, and check those that depend on each other."""
        kind = type(self)
        for name, one in parameters_of(kind).items():
            object.__setattr__(self, name, one.domain.check(kind.__name__, name, getattr(self, name)))
        self.check()

    def check(self) -> None:  # noqa: B027 -- most mechanisms have nothing to add
        """Raise `InvalidInputError` where parameters do not go together; each is checked by itself before."""

    @classmethod
    def noise_amount(cls, form: Mapping[str, Any]) -> tuple[float, str]:
        """Return how much noise a canonical form of this kind says there is, and what that amount is called.

        Of kinds with a parameter that is sized, or with `noise_parameters`. Amounts of one name are compared.
        """
        sized = noise_parameter(cls)
        one = parameters_of(cls)[cls.noise_parameters[0]] if cls.noise_parameters or sized is None else sized
        value = form[one.name]
        name = one.columns[0].removeprefix("pair_") + ("" if one.falls_with_noise else " of the noise")
        return float(value[0] if isinstance(value, list) else value), f"{name}, in {one.unit}" if one.unit else name

    @classmethod
    def tried_together(cls, grids: Mapping[str, Sequence[Any]]) -> tuple[str, ...]:  # noqa: ARG003
        """Return the parameters whose combinations are tried before a grid of values is accepted."""
        if cls.checked_together is not None:
            return cls.checked_together
        return () if cls.check is Pair.check else tuple(parameters_of(cls))

    @classmethod
    def usual_noise(cls, deviation: float, parameters: Mapping[str, Any]) -> float:
        """Return about the amount of noise that is as private as a Gaussian of `deviation` sensitivities.

        With the other parameters as given. A search for noise begins there; nothing else depends on it.
        """
        sensitivity, rate = float(parameters.get("sensitivity", 1.0)), float(parameters.get("rate", 1.0))
        noise = sensitivity * deviation * rate
        return noise if rate == 1.0 else max(noise, 0.5 * sensitivity)

    @property
    def symmetric(self) -> bool:
        """Whether (A, B) and (B, A) have the same loss distribution, so that one direction serves both."""
        return all(factor.symmetric for factor in self.factors)

    @property
    def adjacency(self) -> Adjacency:
        """The neighbours that the pair is the worst case of; by default those for which its parameters were stated.

        It depends on the kind of a pair, and on pairs within it, but on no number.
        """
        return Adjacency.AS_STATED

    @property
    def removal(self) -> Direction | None:
        """The direction in which a record is removed, or zeroed out; None where none is, or not known to be."""
        if self.adjacency not in _DIRECTED:
            # Factors may be removals that bound something else, as in `FixedBatchGaussian`.
            return None
        found = {factor.removal for factor in self.factors} - {None}
        return found.pop() if len(found) == 1 else None

    @property
    def identical(self) -> bool:
        """Whether A and B are the same distribution, exactly: then nothing is revealed, and every δ is 0."""
        return all(factor.identical for factor in self.factors)

    @property
    def choices(self) -> tuple[tuple["Pair", bool], ...]:
        """The pairs that bounds come from, and whether each is attained: the pair itself, but for `Alternatives`."""
        return ((self, True),)

    @property
    def alternatives(self) -> tuple["Pair", ...]:
        """The pairs of which the worst counts: the pair itself, but for `Alternatives`."""
        return tuple(pair for pair, _ in self.choices)

    @property
    def is_worst_of_several(self) -> bool:
        """Whether bounds come from other pairs than this one."""
        return self.alternatives != (self,)

    @property
    def sole_pair(self) -> "Pair | None":
        """The one pair that the mechanism follows: itself, but for `Alternatives`; None where there is none."""
        (pair, attained), *others = self.choices
        return pair if attained and not others else None

    @property
    def enclosing_pairs(self) -> "tuple[Pair, Pair] | None":
        """A pair that dominates, and one that the worst neighbours follow; None where there are no such two.

        Both are the pair itself, but for `TwoSided` ones and their products. Only a mechanism with such
        pairs can be part of a sequence.
        """
        return self, self

    @property
    def attained_by_some(self) -> bool:
        """Whether some neighbouring inputs follow a pair exactly, so that lower bounds are known; see `WorstOf`."""
        return all(factor.attained_by_some for factor in self.factors)

    @property
    @abstractmethod
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The independent pairs whose product this pair is."""

    def cost_class(self) -> tuple[float, ...]:
        """Return the numbers, beside the sizes of the parameters, in which settings of similar costs agree.

        Whole numbers count as they are, others by their binary order.
        """
        return ()

    def canonical(self) -> dict[str, JsonValue]:
        """Canonical form: the mechanism's name and its parameters, as JSON takes them.

        Equal pairs have equal forms, and `pbdist.mechanisms.pair_from_canonical` is the inverse. A parameter that is
        added later gets a default, and a name is never given a new meaning, so that a stored form stays readable.
        """
        form: dict[str, JsonValue] = {"mechanism": type(self).__name__}
        for name in _field_names(type(self)):
            value = getattr(self, name)
            form[name] = value if type(value) is float else _plain(value)
        return form


class ElementaryPair(Pair):
    """A pair whose masses on bins have a closed form."""

    @property
    def factors(self) -> tuple["ElementaryPair", ...]:
        """The pair itself."""
        return (self,)

    @property
    def symmetric(self) -> bool:
        """False, but for the mechanisms that override it."""
        return False

    @property
    def removal(self) -> Direction | None:
        """From A to B where the pair says that a record is removed or zeroed out: A is with the record."""
        return Direction.A_TO_B if self.adjacency in _DIRECTED else None

    @property
    def attained_by_some(self) -> bool:
        """True, but for `BoundedRange`."""
        return True

    @property
    def identical(self) -> bool:
        """False, but for the mechanisms that override it."""
        return False

    @property
    def inner(self) -> "ElementaryPair":
        """The pair itself; of a reversed one the pair whose directions are exchanged."""
        return self

    def facing(self, direction: Direction) -> tuple["ElementaryPair", Direction]:
        """Return the inner pair, and which of its directions a direction of this pair is."""
        return self, direction

    @property
    def neutral(self) -> bool:
        """Whether composing another pair with this one changes no δ: A and B are the same, and have the mass 1."""
        return self.identical

    @property
    def total_mass(self) -> tuple[float, float]:
        """Upper values of P_A and P_B of everything; 1 but for a `Histogram` whose masses sum to a little more."""
        return (1.0, 1.0)

    @property
    def mass_excess(self) -> tuple[Fraction, Fraction]:
        """By how much the masses of A and of B exceed 1, exactly; 0 but for a `Histogram`."""
        return Fraction(0), Fraction(0)

    @property
    def outcomes(self) -> int:
        """How many outcomes are atoms of their own, whatever the bins; 0 where none are."""
        return 0

    def log_moment_above(self, tilt: float) -> float | None:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L)] in either direction, where it has a plain closed form; else None.

        Of a pair whose two directions are the same. It errs by some u of tilt times the largest loss, so that
        `pbdist.renyi` is closer where losses are small.
        """
        return None

    def renyi_divergence(self, alpha: float) -> tuple[float, float] | None:  # noqa: ARG002
        """Lower and upper bound on the Rényi divergence of order α >= 1, in either direction; None without closed form.

        Both are rounded outwards by one float.
        """
        return None

    def always_reveals(self, direction: Direction) -> bool:  # noqa: ARG002
        """Whether A, of the direction, shows outcomes that B cannot, however small their mass."""
        return False

    def log_faint_moment(self, tilt: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln Σ P_A e^(tilt L) over the positive outcomes without a loss of their own.

        An outcome has no loss of its own where one of its masses is at most 1e-280. Infinite where nothing is known.
        """
        return math.inf

    @property
    def participation(self) -> float:
        """A probability p with which A and B differ at all, rounded up: with 1 - p both are the same distribution.

        1, but for pairs of samples and of random shifts (Theorem 50 of docs/theory.md).
        """
        return 1.0

    @property
    def exact_outcomes(self) -> tuple[tuple[Fraction, Fraction], ...] | None:
        """P_A and P_B of each outcome as fractions, where there are a few; None for all other pairs."""
        return None

    @property
    def enclosed(self) -> bool:
        """Whether its masses are known only through an enclosure: a pair that it dominates, and one that dominates it.

        Such a pair has no `loss_masses` of its own; `pbdist.enclosures` makes its enclosures.
        """
        return False

    @property
    def between_gaussians(self) -> tuple["ElementaryPair", "ElementaryPair"] | None:
        """Of an enclosed pair, Gaussian noise that it dominates, and such that dominates it: wide, but quick."""
        return None

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """The least upper bound of the losses of a direction, nats: Theorem 52 of docs/theory.md.

        Rounded up, by at most 32u of itself and 16u. Infinite where there is none; None where only the masses tell.
        """
        return None

    @property
    def order(self) -> NoiseOrder | None:
        """Where the mechanism stands among those that are proved to be noisier or less so; None where none are."""
        return None

    def moved(self, times: int) -> "ElementaryPair | None":  # noqa: ARG002
        """The pair of so many shifts that add up, rounded up, of symmetric log-concave noise; None otherwise.

        Theorem G1 (b) of docs/granularity.md.
        """
        return None

    def of_group(self, times: int) -> Pair | None:
        """The worst case of so many records, all of which are removed, or added; None where only chains are known."""
        return self.moved(times)

    @property
    def gaussian_ratio(self) -> float | None:
        """Sensitivity / scale of plain Gaussian noise; None otherwise."""
        return None

    @property
    def gaussian_mixture(self) -> tuple[tuple[float, ...], tuple[float, ...], float] | None:
        """How A is a mixture of shifts of a normal distribution B, one of them 0; None where it is not.

        The other shifts in deviations, the logarithms of their weights, and the smallest loss.
        """
        return None

    @property
    def without_sampling(self) -> "ElementaryPair | None":
        """A pair of plain noise that dominates this one: that of every record used (Theorem 50 of docs/theory.md).

        None, but for pairs of samples and of random shifts.
        """
        return None

    @property
    def cost_stand_in(self) -> "ElementaryPair":
        """A pair of similar losses without outcomes of their own, which projections of costs are quick with."""
        return self

    @property
    def dominating(self) -> "ElementaryPair":
        """The pair whose masses upper bounds come from: itself, but for an enclosure."""
        return self

    def loss_picture(self, target: float, beyond: float = BEYOND) -> tuple[FloatArray, FloatArray] | None:  # noqa: ARG002
        """A rough picture of the losses, on which no bound rests; None where the masses of many bins are as quick.

        It has losses, increasing, nats, and natural logarithms of P_A's masses at them, up to a common summand.
        `target` is the largest mean, in nats, that an exponential tilt is to give the loss in either direction, and
        `beyond` tells how far beyond its means a normal loss is seen, in deviations.
        """
        return None

    @abstractmethod
    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of A and B on the bins between `edges`.

        Parameters
        ----------
        edges : ndarray, shape (m,)
            Loss edges in nats, finite and increasing.

        Returns
        -------
        LossMasses
            Certified masses: every event is counted, none twice in a lower value.
        """

    def keeps_order(self, edges: FloatArray) -> bool:  # noqa: ARG002
        """Whether the masses of the bins between `edges` may be computed part by part.

        If so, the last bin of a part ends exactly where the first bin of the next part begins, and no two bins overlap.
        It is checked where a bin's end points are not plain sums and products of its edges.
        """
        return True

    def directed_loss_masses(self, edges: FloatArray, direction: Direction) -> LossMasses:
        """Masses for one direction: of (A, B), or of (B, A) with the roles exchanged."""
        if direction is Direction.A_TO_B:
            return self.loss_masses(edges)
        return self.loss_masses(np.ascontiguousarray(-edges[::-1])).swapped()

    def scaled_loss_masses(self, edges: FloatArray, direction: Direction = Direction.A_TO_B) -> ScaledLossMasses:
        """Masses for one direction, as `directed_loss_masses`, each with the logarithm of a factor.

        The factors are 0 for ordinary masses. Masses too small for a float64 have one where the mechanism knows them.
        """
        if direction is Direction.A_TO_B:
            return self._scaled_masses(edges)
        return self._scaled_masses(np.ascontiguousarray(-edges[::-1])).swapped()

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:  # noqa: ARG002
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞], with A and L those of the direction.

        The tilt is at least 0; `loss`, nats, may be infinite. Rounded up; -inf where no finite loss lies above `loss`,
        +inf where the mechanism has no closed form.
        """
        return math.inf

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        """Masses of (A, B) as `scaled_loss_masses` returns them; without factors unless overridden."""
        return ScaledLossMasses.unscaled(self.loss_masses(edges))


class ScaledPair(ElementaryPair):
    """A pair whose masses on bins are known however small they are."""

    @abstractmethod
    def _masses(self, edges: FloatArray, *, scaled: bool) -> ScaledLossMasses:
        """Masses of (A, B), with factors if `scaled`."""

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """Masses of the bins between `edges`, and of atoms where there are some."""
        return self._masses(edges, scaled=False).masses

    def _scaled_masses(self, edges: FloatArray) -> ScaledLossMasses:
        return self._masses(edges, scaled=True)


class BoundedPair(ElementaryPair):
    """A pair whose finite losses are bounded, and whose moments are bounded by the largest one."""

    @abstractmethod
    def _largest_loss(self, direction: Direction) -> float:
        """Upper bound of the finite losses of a direction; -inf where there are none, inf where there is no bound."""

    def log_tail_moment(self, tilt: float, loss: float, direction: Direction) -> float:
        """Upper bound of ln E_A[e^(tilt L); loss < L < ∞]: tilt times the largest loss, where above `loss`."""
        largest = self._largest_loss(direction)
        if loss >= largest:
            return -math.inf
        return rounded_up(tilt * largest) if largest < math.inf else math.inf


def in_order(end_points: Callable[[FloatArray], FloatArray], edges: FloatArray) -> bool:
    """Whether end points rise with their edges, and the outermost ones are the same if their edges are given alone."""
    ends = end_points(edges)
    alone = np.concatenate((end_points(edges[:1]), end_points(edges[-1:])))
    return bool(np.all(ends[1:] >= ends[:-1])) and np.array_equal(ends[[0, -1]], alone)


@cache
def _field_names(kind: type[Pair]) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))  # type: ignore[arg-type]  # every subclass is a dataclass


def _plain(value: Any) -> JsonValue:
    if isinstance(value, Pair):
        return value.canonical()
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


#: How often each elementary pair occurs in a round.
PairCounts: TypeAlias = Mapping[ElementaryPair, int]


def factor_counts(components: Sequence[tuple[Pair, int]]) -> dict[ElementaryPair, int]:
    """Return the elementary pairs of a round, and how often each occurs in it.

    Those that change nothing are left out, unless there are no others.
    """
    counts: dict[ElementaryPair, int] = {}
    for pair, count in components:
        for factor in pair.factors:
            counts[factor] = counts.get(factor, 0) + count
    informative = {factor: count for factor, count in counts.items() if not factor.neutral}
    return informative or counts


def choices_of(components: Sequence[tuple[Pair, int]]) -> list[tuple[list[tuple[Pair, int]], bool]] | None:
    """Return the sequences of pairs that bounds of a round come from, and whether each is attained: Theorem 46.

    Of one mechanism its choices; of a sequence that of all pairs above, and that of all pairs that are attained. None
    where each pair is its own only choice. A mechanism without enclosing pairs is refused in a sequence.
    """
    if not any(pair.is_worst_of_several for pair, _ in components):
        return None
    if len(components) == 1:
        pair, count = components[0]
        return [([(one, count)], there) for one, there in pair.choices]
    above: list[tuple[Pair, int]] = []
    below: list[tuple[Pair, int]] = []
    for pair, count in components:
        if pair.enclosing_pairs is None:
            raise InvalidInputError("mechanism: expected the worst of several pairs alone, got it in a sequence")
        above.append((pair.enclosing_pairs[0], count))
        below.append((pair.enclosing_pairs[1], count))
    return [(below, True)] if above == below else [(above, False), (below, True)]


def adjacency_together(pairs: Sequence[Pair], field: str) -> Adjacency:
    """Return the neighbours of pairs that are seen together in every round; errors name `field`.

    A pair that is as stated goes with any; two that are for different neighbours are refused. Where a record is removed
    in one factor and added in another one, it moves: neither is its relation that of the whole, which is as stated.
    """
    if len(pairs) == 1:
        return pairs[0].adjacency
    # What has alternatives says itself which neighbours they are the ways of.
    factors: list[Pair] = []
    for pair in pairs:
        factors += (pair,) if pair.is_worst_of_several else pair.factors
    found = joined(((factor.adjacency, type(factor).__name__) for factor in factors), field)
    crossed = found.definite and len({factor.removal for factor in factors} - {None}) > 1
    return Adjacency.AS_STATED if crossed else found


def reveals_nothing(components: Sequence[tuple[Pair, int]]) -> bool:
    """Whether A and B are the same distribution in every pair of a round, so that every δ is 0."""
    return all(pair.identical for pair, _ in components)


def ordered(
    pair: ElementaryPair, kind: type[ElementaryPair], *amounts: Fraction, family: tuple[Hashable, ...] = ()
) -> NoiseOrder | None:
    """Return the order of a kind by its amounts of noise; None of a subclass, of which nothing is known."""
    return NoiseOrder((kind.__name__, *family), amounts) if type(pair) is kind else None


def noise_order(pair: Pair) -> NoiseOrder | None:
    """Return where a mechanism stands, or None where no order is proved: Theorem 11 of docs/theory.md.

    The order is that of post-processing. A product has the families and the amounts of its factors, in their order; so
    has the worst of several pairs, whose δ is the largest of theirs; the worst of one pair that is attained is that
    pair.
    """
    if pair.is_worst_of_several and pair.sole_pair is None:
        found = [noise_order(one) for one in pair.alternatives]
        family: tuple[Hashable, ...] = ("worst of", tuple(there for _, there in pair.choices))
    else:
        found = [factor.order for factor in pair.factors]
        family = ()
    known = [order for order in found if order is not None]
    if len(known) < len(found):
        return None
    return NoiseOrder(
        (*family, tuple(order.family for order in known)), tuple(amount for order in known for amount in order.amounts)
    )


def at_least_as_noisy(more: Pair, less: Pair) -> bool:
    """Whether `more` provably is a post-processing of `less`: δ of `more` is at most that of `less`, for all r and ε.

    In both directions. True of equal pairs; where it is False, nothing is known.
    """
    if more == less:
        return True
    first, second = noise_order(more), noise_order(less)
    if first is None or second is None or first.family != second.family:
        return False
    return all(larger >= smaller for larger, smaller in zip(first.amounts, second.amounts, strict=True))
