"""The rules of composition of Guerra-Balboa et al. 2024, each with its hypotheses checked.

A rule is the same for ε, (ε, δ), zCDP and GDP, for its proof is: the loss of a composition is bounded by that of its
parts, given every earlier output. What differs is an `Accounting`: what is known of a mechanism, how it adds up, and
which theorem says so. There are four, `PURE`, `APPROXIMATE`, `CONCENTRATED` and `GAUSSIAN`, and the rules are their
methods.

Proofs that are not the paper's, and corrections of the paper: docs/granularity-rules.md.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import CanonicalMetric, refuse_without_neighbours
from pbdist.granularity.databases import whole
from pbdist.granularity.partitions import PartedClass
from pbdist.granularity.preprocessing import minimum_privacy, pulled_back
from pbdist.granularity.spaces import (
    ApproximatePrivacy,
    Database,
    DatabaseClass,
    GaussianPrivacy,
    GroupDelta,
    Metric,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    RootScaledMetric,
    ScaledMetric,
    Statement,
    ZeroConcentratedPrivacy,
    group_delta,
    made,
    times,
)
from pbdist.granularity.upward import (
    Amount,
    checked_amount,
    checked_amounts,
    checked_delta,
    upward_norm,
    upward_product,
    upward_root,
    upward_sum,
)

P = TypeVar("P", bound=Statement)
_Placed = TypeVar("_Placed", OnItsOwnDomain, OnTheCommonDomain)


#: The theorems of each rule: for ε (and adaptive composition, where it is another one), (ε, δ), ρ and μ.
_THEOREMS: dict[str, tuple[str, str, str, str]] = {
    "privacy": ("Theorem III.3", "Theorem VI.3", "Theorem VI.12", "Theorem VI.20"),
    "composition": ("Theorem IV.1 (V.2)", "Theorem VI.4", "Theorem VI.13", "Theorem VI.21"),
    "sequential": ("Theorem IV.3 (V.3)", "Theorem VI.5", "Theorem VI.15", "Theorem VI.23"),
    "common_domain": ("Theorem IV.11 (V.5)", "Theorem VI.7", "Theorem VI.14", "Theorem VI.22"),
    "best_bound": ("Theorem IV.6 (V.4)", "Theorem VI.6", "Theorem VI.16", "Theorem VI.26"),
    "best_bound_common_domain": ("Theorem IV.12 (V.6)", "Theorem A.13", "Theorem A.15", "Theorem A.17"),
    "bounded_partition": (
        *("Corollary IV.13", "the rule for two parts"),
        *("the rule for two parts", "Corollary A.18"),
    ),
    "commuting": ("the commuting rule of IV-C", "", "the commuting rule", "Theorem VI.24"),
}


#: What one change may touch: see `Accounting.for_numbers`.
Touched: TypeAlias = Literal["each"] | int | Sequence[Collection[int] | Mapping[int, Amount]]


@dataclass(frozen=True, eq=False)
class Accounting(Generic[P]):
    """One way to account for a privacy loss, and the rules of composition for it.

    All rules hold for adaptive composition: each mechanism may be chosen after the outputs of the earlier ones. Then
    each statement must hold whatever the earlier outputs were, and what a mechanism reads must not depend on them. The
    bounds are the same.

    Parameters
    ----------
    notion : type
        What is stated of a mechanism.
    symbols : tuple of str
        The names of the parameters.
    column : int
        Of the table of theorems. A rule that has no theorem is refused.
    """

    notion: type[P]
    symbols: tuple[str, ...]
    column: int = field(repr=False)

    # Parameters, and distances.

    def privacy(self, granularity: CanonicalMetric, *parameters: Amount) -> P:
        """Return what 𝒢-privacy with some parameters says of databases at any distance: group privacy.

        𝒢 ε-DP is ε d^𝒢-privacy (Theorem III.3); 𝒢 (ε, δ)-DP is (ε d^𝒢, δ [d^𝒢]_ε)-privacy,
        [d]_ε = (e^(ε d) - 1)/(e^ε - 1) (VI.3); 𝒢 ρ-zCDP is ρ (d^𝒢)²-zero-concentrated privacy (VI.12); 𝒢 μ-GDP is
        μ d^𝒢-Gaussian privacy (VI.20).

        Parameters
        ----------
        granularity : CanonicalMetric
            d^𝒢.
        *parameters : int, Fraction or float
            ε in nats, and δ; or ρ; or μ.

        Raises
        ------
        InvalidInputError
            If the metric is no canonical one, or its class has no neighbours (Example III.4).
        """
        base = _canonical(self._theorem("privacy"), granularity)
        return self._multiple(base, self._checked(parameters))

    def at_distance(self, distance: Amount, *parameters: Amount) -> tuple[Amount, ...]:
        """Return the parameters between databases at a distance d.

        They are ε d (Theorem III.3); ε d and δ (e^(ε d) - 1)/(e^ε - 1) (VI.3); ρ d² (VI.12); μ d (VI.20). The δ is
        rounded upwards, and is δ d for ε = 0. It may be above 1, and then says nothing.
        """
        checked, steps = self._checked(parameters), checked_amount(distance, "distance")
        grown = upward_product(steps, steps) if self.notion is ZeroConcentratedPrivacy else steps
        return times(checked[0], grown), *(group_delta(checked[0], delta, steps) for delta in checked[1:])

    def over_neighbours(self, privacy: P, granularity: CanonicalMetric) -> P:
        """Return 𝒢-privacy as privacy of all pairs, with the largest parameters between neighbours of a listed class.

        After Theorems III.3, VI.3, VI.12 and VI.20. With Theorem IV.11 ε is the largest Σ ε_i, over D ~ D', over the
        mechanisms with f_i(D) ≠ f_i(D'). What is private* only becomes a metric here, for neighbours need no triangle
        inequality. A δ above 1 becomes 1.
        """
        theorem = self._theorem("privacy")
        _canonical(theorem, granularity)
        if not isinstance(privacy, self.notion):
            raise _refusal(theorem, f"expected {self.notion.__name__}, got {shown(privacy)}")
        if privacy.distance.domain != granularity.domain:
            raise _refusal(
                theorem,
                f"expected privacy over {granularity.domain.name}, the class of {granularity.name}, got privacy over"
                f" {privacy.distance.domain.name}",
            )
        granularity.domain.listed(f"{theorem}, for its maximum over neighbours,")
        terms = [_terms(privacy, first, second) for first, second in granularity.neighbours]
        largest, *deltas = (max(column) for column in zip(*(terms or [(0,) * len(self.symbols)]), strict=True))
        parameter = upward_root(largest) if self.notion is GaussianPrivacy else largest
        return self.privacy(granularity, parameter, *(min(delta, 1) for delta in deltas))

    def for_numbers(self, touched: Touched, *parameters: Sequence[Amount]) -> tuple[Amount, ...]:
        """Return the parameters of a composition, from those of its mechanisms and what one change may touch.

        They are the largest of Σ ε_i d_i; Σ ε_i d_i and Σ δ_i [d_i]_(ε_i); Σ ρ_i d_i²; or √(Σ μ_i² d_i²) over the
        changes. The largest ε and the largest δ may belong to different changes; a δ above 1 becomes 1.

        Whole numbers and fractions are exact; a float is rounded upwards. The caller vouches for the hypotheses. A
        parameter must be stated for what the distances are counted in. For
        mechanisms on the common domain these are neighbours D ~ D', so that each touched mechanism is at distance 1.
        For mechanisms on their own domains they are neighbours among what the mechanism reads, so that mechanism i is
        at the distance of f_i(D) and f_i(D'). It is ∞ where no steps between neighbours lead from one to the other: a
        record that moves to another block changes the sizes of both, which no steps of bounded neighbours do
        (Example II.9).

        Parameters
        ----------
        touched : "each", int, or sequence of sets or of mappings
            What a change may touch. ``"each"``: every mechanism, each at distance 1 (IV.3, V.3, VI.5, VI.15, VI.23). A
            number m: any m mechanisms, each at distance 1. With 1 it is a compatible partition (IV.6, IV.12, V.4, V.6,
            VI.6, A.13, VI.16, A.15, VI.26, A.17), with 2 a partition of records under bounded changes, on the common
            domain (IV.13, A.18). Else, for each kind of change (IV.1, IV.11), the numbers of the mechanisms, from 0,
            all at distance 1, or a mapping from these numbers to distances. A subset of a change may be left out.
        *parameters : sequence of int, Fraction or float
            For each parameter, that of each mechanism: all ε_i, then all δ_i.
        """
        self._check_count(parameters)
        columns = [checked_amounts(each, f"{name}s") for name, each in zip(self.symbols, parameters, strict=True)]
        if len(columns[-1]) != len(columns[0]):
            raise InvalidInputError(f"deltas: expected one for each ε, got {len(columns[-1])} for {len(columns[0])}")
        rows = list(zip(*columns, strict=True))
        for i, row in enumerate(rows):
            self._checked(row, f"s[{i}]")  # Named as epsilons[0] in errors.
        return tuple(
            max(
                self._added(place, [self.at_distance(d, *rows[i])[place] for i, d in change.items()])
                for change in _changes(touched, column)
            )
            for place, column in enumerate(columns)
        )

    # Rules for mechanisms that read the same, or anything.

    def composition(self, mechanisms: Sequence[OnItsOwnDomain]) -> P:
        """Return the privacy of mechanisms that are private on what they read.

        That is Σ d_i(f_i(D), f_i(D'))-privacy (Theorem IV.1; adaptive: V.2), δ likewise (VI.4); for zCDP (VI.13) and
        Gaussian privacy (VI.21) d² is the sum of the squares.
        """
        theorem = self._theorem("composition")
        return self._summed(theorem, [pulled_back(each) for each in self._placed(theorem, mechanisms, OnItsOwnDomain)])

    def sequential(self, statements: Sequence[P]) -> P:
        """Return the privacy of mechanisms that all read the whole database.

        That is Σ d_i-privacy (Theorem IV.3; adaptive: V.3), δ likewise (VI.5); for zCDP (VI.15) and Gaussian privacy
        (VI.23, corrected) d² is the sum of the squares. For VI.23 each must be d_i-Gaussian private. The paper asks for
        "d_i-DP", with which it is false: randomized response with ε = 1 has total variation 0.462, the two normal
        distributions of μ = 1 have 0.383.
        """
        theorem = self._theorem("sequential")
        given = _tuple(theorem, statements)
        for privacy in given:
            self._check_statement(theorem, privacy)
        _check_one_domain(theorem, [privacy.distance.domain for privacy in given])
        return self._summed(theorem, given)

    def common_domain(self, mechanisms: Sequence[OnTheCommonDomain]) -> P:
        """Return the privacy* of mechanisms that are private on 𝔻 and depend on f_i(D).

        That is Σ d_i^(f_i)-privacy* (Theorem IV.11; adaptive: V.5), δ likewise (VI.7, corrected); for zCDP (VI.14) and
        Gaussian privacy (VI.22) d² is the sum of the squares. The distance is a StarDistance, of which
        `over_neighbours` makes a parameter.

        For VI.7 δ^f(D, D') is the least δ(D~, D~') over the pairs with f(D~) = f(D), f(D~') = f(D') and
        d(D~, D~') = d^f(D, D'). The paper's δ^f (VI.7, A.12) leaves out the first two conditions, and is false: with f
        the identity it would take the δ of any pair at the same distance.
        """
        theorem = self._theorem("common_domain")
        placed = self._placed(theorem, mechanisms, OnTheCommonDomain)
        return self._summed(theorem, [minimum_privacy(each) for each in placed])

    # Rules for partitions.

    def best_bound(self, mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> P:
        """Return 𝒢-privacy with the largest parameters of mechanisms on the parts: a maximum, no sum.

        Theorem IV.6 (adaptive: V.4) for ε, VI.6 for (ε, δ), VI.16 for zCDP, VI.26 for Gaussian privacy. Needs a
        partition that is compatible with the granularity, Δp_i <= 1, and mechanisms that are 𝒢-private on their parts
        (`privacy`).
        """
        columns = self._of_parts("best_bound", mechanisms, parted, PartedClass.require_best_bound)
        return self.privacy(parted.canonical, *map(max, columns))

    def best_bound_common_domain(self, mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass) -> P:
        """Return 𝒢-privacy with the largest parameters of mechanisms that depend on the parts, on the common domain.

        Theorem IV.12 (adaptive: V.6) for ε, A.13 (corrected) for (ε, δ), A.15 (corrected) for zCDP, A.17 for Gaussian
        privacy. Needs a partition that is compatible with the granularity, and mechanisms that are 𝒢-private on 𝔻. For
        A.13 and A.15 the paper does not ask for a compatible partition. Without one they are false.
        """
        columns = self._of_parts("best_bound_common_domain", mechanisms, parted, lambda one: one.require_touched(1))
        return self.privacy(parted.canonical, *map(max, columns))

    def bounded_partition(self, mechanisms: Sequence[OnTheCommonDomain], parted: PartedClass) -> P:
        """Return 𝒢-privacy for changes that touch at most two parts, on the common domain.

        ε is the largest ε_i + ε_j over i ≠ j (Corollary IV.13; its proof from Theorem V.5 holds for adaptive
        mechanisms too), δ and ρ likewise, μ the largest √(μ_i² + μ_j²) (A.18). With one part it is ε_1, .., which the
        paper's maximum over i ≠ j leaves out. On their own domains nothing can be said (Example II.9).

        Those for (ε, δ) and ρ are in neither paper; proof: "Changes that touch two parts", docs/granularity-rules.md.
        A change between the parts i and j loses (ε_i + ε_j, δ_i + δ_j), so that one pair (ε, δ) for all changes has the
        largest of both; `common_domain` keeps them apart. A δ above 1 becomes 1.
        """
        columns = self._of_parts("bounded_partition", mechanisms, parted, lambda one: one.require_touched(2))
        largest_two = (self._added(place, sorted(column)[-2:]) for place, column in enumerate(columns))
        return self.privacy(parted.canonical, *largest_two)

    def commuting(self, mechanisms: Sequence[OnItsOwnDomain], parted: PartedClass) -> P:
        """Return the largest parameter times d, for a metric d that commutes with the parts.

        Section IV-C for ε; for ρ, times d², the proof of Theorem VI.24 with ρ_i for μ_i² ("Metrics that commute",
        docs/granularity-rules.md); Theorem VI.24 for μ. There is none for (ε, δ). Mechanism i has a parameter times the
        metric of its part, such as `PurePrivacy(ScaledMetric(metric, ε_i))`. All that the proofs need is
        Σ_i d(p_i(D), p_i(D')) <= d(D, D'). `composition` is sharper where more than one part differs (Example VI.25).
        """
        columns = self._of_parts("commuting", mechanisms, parted, PartedClass.require_commuting)
        return self._multiple(parted.metric, tuple(map(max, columns)))

    # What the rules are made of.

    def _theorem(self, rule: str) -> str:
        theorem = _THEOREMS[rule][self.column]
        if not theorem:
            raise InvalidInputError(f"{rule}: no theorem gives this rule for {self.notion.__name__}")
        return theorem

    def _check_count(self, parameters: Sequence[Any]) -> None:
        if len(parameters) != len(self.symbols):
            raise InvalidInputError(f"parameters: expected {' and '.join(self.symbols)}, got {len(parameters)}")

    def _checked(self, parameters: Sequence[Amount], suffix: str = "") -> tuple[Amount, ...]:
        """Return parameters of at least 0, of which a δ is a probability."""
        self._check_count(parameters)
        return tuple(
            (checked_delta if name == "delta" else checked_amount)(each, f"{name}{suffix}")
            for name, each in zip(self.symbols, parameters, strict=True)
        )

    def _multiple(self, base: Metric, parameters: tuple[Amount, ...]) -> P:
        """Return parameters times a metric."""
        notion: Any = self.notion
        if notion is ZeroConcentratedPrivacy:
            return cast("P", notion(RootScaledMetric(base, *parameters)))
        distance = ScaledMetric(base, parameters[0])
        deltas = [GroupDelta(base, parameters[0], delta) for delta in parameters[1:]]
        return cast("P", notion(distance, *deltas))

    def _added(self, place: int, values: Sequence[Amount]) -> Amount:
        """Return the sum of one parameter over mechanisms that are touched together."""
        if self.notion is GaussianPrivacy:
            return upward_norm(values)
        total = upward_sum(values)
        return min(total, 1) if self.symbols[place] == "delta" else total

    def _summed(self, theorem: str, statements: Sequence[Statement]) -> P:
        """Return the pairwise sum over all mechanisms, of one domain; private* if they are."""
        domain, starred = statements[0].distance.domain, statements[0].starred
        notion: Any = self.notion

        def total(place: int) -> Callable[[Database, Database], Amount]:
            return lambda a, b: upward_sum(_terms(each, a, b)[place] for each in statements)

        squared = issubclass(notion, ZeroConcentratedPrivacy | GaussianPrivacy)
        distances = [made(domain, total(0), f"the distance of {theorem}", squared=squared, starred=starred)]
        if notion is ApproximatePrivacy:
            distances.append(made(domain, total(1), f"the δ of {theorem}", squared=False, starred=True))
        return cast("P", notion(*distances))

    def _placed(self, theorem: str, mechanisms: Sequence[Any], kind: type[_Placed]) -> tuple[_Placed, ...]:
        placed = _tuple(theorem, mechanisms)
        for each in placed:
            if not isinstance(each, kind):
                raise _refusal(theorem, _wrong_kind(each, kind))
            self._check_statement(theorem, each.privacy)
        _check_one_domain(theorem, [each.reads.domain for each in placed])
        return placed

    def _check_statement(self, theorem: str, privacy: Any) -> None:
        if not isinstance(privacy, self.notion):
            raise _refusal(theorem, f"expected {self.notion.__name__}, got {shown(type(privacy).__name__)}")
        if privacy.starred:
            raise _refusal(
                theorem,
                f"expected a metric, got {privacy.distance.name}, which is private* only (a StarDistance): the triangle"
                " inequality may fail",
            )

    def _of_parts(
        self,
        rule: str,
        mechanisms: Sequence[OnItsOwnDomain] | Sequence[OnTheCommonDomain],
        parted: PartedClass,
        require: Callable[[PartedClass], None],
    ) -> list[tuple[Amount, ...]]:
        """Return the parameters of mechanisms, one for each part, transposed: all ε, then all δ."""
        theorem = self._theorem(rule)
        if not isinstance(parted, PartedClass):
            raise _refusal(theorem, f"expected a PartedClass, got {shown(parted)}")
        own = rule in ("best_bound", "commuting")
        placed: tuple[Any, ...] = self._placed(theorem, mechanisms, OnItsOwnDomain if own else OnTheCommonDomain)
        if tuple(each.reads for each in placed) != parted.maps:
            raise _refusal(
                theorem, "expected one mechanism for each part of the partition, in its order, which reads that part"
            )
        try:
            require(parted)
            metrics = parted.metrics if own else [parted.metric] * len(placed)
            rows = [parameters(each.privacy, metric) for each, metric in zip(placed, metrics, strict=True)]
        except InvalidInputError as error:
            raise _refusal(theorem, str(error)) from error
        return list(zip(*rows, strict=True))


#: ε (II to V).
PURE = Accounting(PurePrivacy, ("epsilon",), 0)
#: (ε, δ) (VI-A).
APPROXIMATE = Accounting(ApproximatePrivacy, ("epsilon", "delta"), 1)
#: ρ of zCDP (VI-B).
CONCENTRATED = Accounting(ZeroConcentratedPrivacy, ("rho",), 2)
#: μ of Gaussian differential privacy (VI-C).
GAUSSIAN = Accounting(GaussianPrivacy, ("mu",), 3)


def parameters(privacy: Statement, metric: Metric | None = None) -> tuple[Amount, ...]:
    """Return the parameters of a statement that was made from them: (ε,), (ε, δ), (ρ,) or (μ,).

    Parameters
    ----------
    privacy : Statement
        Made by `Accounting.privacy`, by a rule that gives a parameter times a metric, or from a `ScaledMetric` or
        `RootScaledMetric`.
    metric : Metric, optional
        What it must be stated for.
    """
    distance: Any = privacy.distance
    kind = RootScaledMetric if isinstance(privacy, ZeroConcentratedPrivacy) else ScaledMetric
    if not isinstance(distance, kind):
        raise InvalidInputError(
            f"privacy: expected a parameter times a metric, as Accounting.privacy makes it, got {distance.name}"
        )
    if metric is not None and distance.base != metric:
        raise InvalidInputError(f"privacy: expected a statement for {metric.name}, got one for {distance.base.name}")
    if isinstance(distance, RootScaledMetric):
        return (distance.rho,)
    if not isinstance(privacy, ApproximatePrivacy):
        return (distance.factor,)
    delta = privacy.delta
    if not isinstance(delta, GroupDelta) or delta.base != distance.base or delta.epsilon != distance.factor:
        raise InvalidInputError(f"privacy: expected a statement made by APPROXIMATE.privacy, got the δ of {delta.name}")
    return distance.factor, delta.delta


def parallel(epsilons: Sequence[Amount], subsets: Sequence[Collection[Any]]) -> Amount:
    """Return the unbounded ε of mechanisms that read the records in disjoint subsets of the universe (Theorem II.8).

    It is max ε_i, for unbounded neighbours. For bounded neighbours that is false (Example II.9).

    Parameters
    ----------
    epsilons : sequence of int, Fraction or float
        Mechanism i is unbounded ε_i-DP for multisets of records, all or those in its subset.
    subsets : sequence of collections
        𝒳_i: mechanism i reads the records of D that lie in it. They need not make up the universe.
    """
    amounts = checked_amounts(epsilons, "epsilons")
    blocks = [frozenset(subset) for subset in subsets]
    if len(blocks) != len(amounts):
        raise InvalidInputError(f"Theorem II.8: expected one subset for each ε, got {len(blocks)} for {len(amounts)}")
    seen: set[Any] = set()
    for i, block in enumerate(blocks):
        if seen & block:
            raise InvalidInputError(
                f"Theorem II.8: expected disjoint subsets, got {shown(min(seen & block, key=repr))} in subset {i} and"
                " in an earlier one: Theorem IV.1 adds up what one record reaches"
            )
        seen |= block
    return max(amounts)


def _refusal(theorem: str, text: str) -> InvalidInputError:
    return InvalidInputError(f"{theorem}: {text}")


def _canonical(theorem: str, metric: Any) -> CanonicalMetric:
    """Return the metric, of a class with neighbours; refuse others, such as a restriction of one (Remark A.2)."""
    if not isinstance(metric, CanonicalMetric):
        name = metric.name if isinstance(metric, Metric) else shown(metric)
        raise _refusal(theorem, f"expected a CanonicalMetric, as canonical_metric makes it, got {name}")
    refuse_without_neighbours(metric)
    return metric


def _terms(privacy: Statement, first: Database, second: Database) -> tuple[Amount, ...]:
    """Return what adds up: the distance, and δ; or the square of the distance."""
    if isinstance(privacy, ZeroConcentratedPrivacy | GaussianPrivacy):
        return (privacy.distance.square(first, second),)
    distance = privacy.distance(first, second)
    return (distance, privacy.delta(first, second)) if isinstance(privacy, ApproximatePrivacy) else (distance,)


def _changes(touched: Touched, amounts: Sequence[Amount]) -> list[dict[int, Amount]]:
    """Return the changes that matter: of those that touch at most m, the one with the m largest parameters."""
    if touched == "each" or isinstance(touched, int):
        if touched != "each":
            whole("touched", touched, 1)
        largest = sorted(range(len(amounts)), key=lambda i: amounts[i], reverse=True)
        return [dict.fromkeys(largest if touched == "each" else largest[:touched], 1)]
    given: Any = touched
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence) or not given:
        raise InvalidInputError(f"touched: expected each, a number, or one change or more, got {shown(touched)}")
    changes: list[dict[int, Amount]] = [
        dict(one) if isinstance(one, Mapping) else dict.fromkeys(one, 1) for one in given
    ]
    for i, change in enumerate(changes):
        checked_amounts(change.values() or [0], f"touched[{i}]")
        number: Any
        for number in change:
            if not isinstance(number, int) or isinstance(number, bool) or not 0 <= number < len(amounts):
                raise InvalidInputError(
                    f"touched[{i}]: expected numbers of mechanisms below {len(amounts)}, got {shown(number)}"
                )
    return changes


def _wrong_kind(given: Any, kind: type[Any]) -> str:
    text = f"expected {kind.__name__}, got {shown(type(given).__name__)}"
    if isinstance(given, OnItsOwnDomain):
        return f"{text}: privacy on what is read is not privacy on the whole database (Example II.9)"
    if isinstance(given, OnTheCommonDomain):
        return f"{text}: privacy on the whole database is not privacy on what is read"
    return text


def _check_one_domain(theorem: str, domains: Sequence[DatabaseClass]) -> None:
    for domain in domains:
        if domain != domains[0]:
            raise _refusal(theorem, f"expected one class of databases, got {domains[0].name} and {domain.name}")


def _tuple(theorem: str, values: Sequence[Any]) -> tuple[Any, ...]:
    try:
        given = tuple(values)
    except TypeError as error:
        raise _refusal(theorem, f"expected a sequence of mechanisms, got {shown(values)}") from error
    if not given:
        raise _refusal(theorem, "give at least one mechanism")
    return given
