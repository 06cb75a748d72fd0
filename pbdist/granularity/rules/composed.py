"""The engine of the rules: a sum, or a root of a sum of squares, of what is known of each mechanism for each pair.

The rules for (ε), (ε, δ), zCDP and GDP differ in what they add: distances for the first two, squares of distances for
the others. The proofs are the same: the loss of a composition is bounded by that of its parts, given every earlier
output.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar, cast

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.canonical import CanonicalMetric, refuse_without_neighbours
from pbdist.granularity.distances import RootMetric, RootStarDistance, square_of
from pbdist.granularity.minimum_privacy import minimum_privacy
from pbdist.granularity.parted import PartedClass
from pbdist.granularity.sensitivity import pulled_back
from pbdist.granularity.spaces import Database, DatabaseClass, DatabaseMap, Metric, StarDistance
from pbdist.granularity.statements import (
    ApproximatePrivacy,
    GaussianPrivacy,
    OnItsOwnDomain,
    OnTheCommonDomain,
    PurePrivacy,
    Statement,
    ZeroConcentratedPrivacy,
)
from pbdist.granularity.upward import Amount, upward_sum

#: What is known of a mechanism for one pair: its term of the sum, and its δ.
Terms: TypeAlias = tuple[Amount, Amount]
Placed = TypeVar("Placed", OnItsOwnDomain, OnTheCommonDomain)


@dataclass(frozen=True)
class Rule:
    """A theorem: its name, and the notion of privacy that it is about."""

    name: str
    notion: type[PurePrivacy] | type[ApproximatePrivacy] | type[ZeroConcentratedPrivacy] | type[GaussianPrivacy]

    def refuse(self, text: str) -> InvalidInputError:
        """Return the error that names the theorem."""
        return InvalidInputError(f"{self.name}: {text}")


def numbered(independent: str, adaptive_number: str, adaptive: bool, notion: Any) -> Rule:
    """Return a rule with the number of its independent or adaptive form, whose bounds are the same."""
    if not isinstance(adaptive, bool):
        raise InvalidInputError(f"adaptive: expected True or False, got {shown(adaptive)}")
    return Rule(adaptive_number if adaptive else independent, notion)


def on_own_domains(rule: Rule, mechanisms: Sequence[OnItsOwnDomain]) -> Statement:
    """Return the privacy of mechanisms that are private on what they read: the sum of d_i(f_i(D), f_i(D'))."""
    return _summed(rule, [pulled_back(each) for each in _checked(rule, mechanisms, OnItsOwnDomain)])


def in_sequence(rule: Rule, statements: Sequence[Statement]) -> Statement:
    """Return the privacy of mechanisms that all read the whole database: the pairwise sum of d_i."""
    given = _tuple(rule, statements)
    for privacy in given:
        _check_statement(rule, privacy)
    _check_one_domain(rule, [privacy.distance.domain for privacy in given])
    return _summed(rule, given)


def on_the_common_domain(rule: Rule, mechanisms: Sequence[OnTheCommonDomain]) -> Statement:
    """Return the privacy* of mechanisms that are private on 𝔻 and depend on f_i(D): the pairwise sum of d_i^(f_i)."""
    return _summed(rule, [minimum_privacy(each) for each in _checked(rule, mechanisms, OnTheCommonDomain)])


def over_neighbours(rule: Rule, privacy: Statement, granularity: CanonicalMetric) -> Terms:
    """Return the largest term and the largest δ between neighbours; a δ above 1 says no more than 1."""
    checked_canonical(rule, granularity)
    if not isinstance(privacy, rule.notion):
        raise rule.refuse(f"expected {rule.notion.__name__}, got {shown(privacy)}")
    if privacy.distance.domain != granularity.domain:
        raise rule.refuse(
            f"expected privacy over {granularity.domain.name}, the class of {granularity.name}, got privacy over"
            f" {privacy.distance.domain.name}"
        )
    granularity.domain.listed(f"{rule.name}, for its maximum over neighbours,")
    terms = [_terms(privacy, first, second) for first, second in granularity.neighbours]
    largest = max((term for term, _ in terms), default=0)
    return largest, min(max((delta for _, delta in terms), default=0), 1)


def checked_canonical(rule: Rule, metric: Any) -> CanonicalMetric:
    """Return the metric, of a class with neighbours; refuse others, such as a restriction of one (Remark A.2)."""
    if not isinstance(metric, CanonicalMetric):
        name = metric.name if isinstance(metric, Metric) else shown(metric)
        raise rule.refuse(f"expected a CanonicalMetric, as canonical_metric makes it, got {name}")
    refuse_without_neighbours(metric)
    return metric


def statements_of_parts(
    rule: Rule, mechanisms: Sequence[Placed], kind: type[Placed], parted: PartedClass
) -> tuple[Statement, ...]:
    """Return the statements of mechanisms, one for each part.

    Whether a statement is a parameter times the right metric is looked at by `rules.group.parameters`.
    """
    if not isinstance(parted, PartedClass):
        raise rule.refuse(f"expected a PartedClass, got {shown(parted)}")
    placed = _checked(rule, mechanisms, kind)
    if tuple(_map_of(each) for each in placed) != parted.maps:
        raise rule.refuse("expected one mechanism for each part of the partition, in its order, which reads that part")
    return tuple(each.privacy for each in placed)


def _summed(rule: Rule, statements: Sequence[Statement]) -> Statement:
    """Return the sum over all mechanisms, of one domain; private* if they are."""
    domain, starred = statements[0].distance.domain, statements[0].starred

    def total(first: Database, second: Database) -> float:
        return cast("float", upward_sum(_terms(each, first, second)[0] for each in statements))

    def delta(first: Database, second: Database) -> float:
        return cast("float", upward_sum(_terms(each, first, second)[1] for each in statements))

    name = f"the distance of {rule.name}"
    notion = rule.notion
    if _adds_squares(notion):
        root = (RootStarDistance if starred else RootMetric)(domain, total, name)
        return notion(root)  # type: ignore[call-arg]
    distance: Metric | StarDistance = (StarDistance if starred else Metric)(domain, total, name)
    if issubclass(notion, ApproximatePrivacy):
        return notion(distance, StarDistance(domain, delta, f"the δ of {rule.name}"))
    return notion(distance)


def _terms(privacy: Statement, first: Database, second: Database) -> Terms:
    if _adds_squares(type(privacy)):
        return square_of(privacy.distance, first, second), 0
    delta = privacy.delta(first, second) if isinstance(privacy, ApproximatePrivacy) else 0
    return privacy.distance(first, second), delta


def _adds_squares(notion: type[Any]) -> bool:
    return issubclass(notion, ZeroConcentratedPrivacy | GaussianPrivacy)


def _checked(rule: Rule, mechanisms: Sequence[Placed], kind: type[Placed]) -> tuple[Placed, ...]:
    placed = _tuple(rule, mechanisms)
    for each in placed:
        if not isinstance(each, kind):
            raise rule.refuse(_wrong_kind(each, kind))
        _check_statement(rule, each.privacy)
    _check_one_domain(rule, [_map_of(each).domain for each in placed])
    return placed


def _map_of(mechanism: OnItsOwnDomain | OnTheCommonDomain) -> DatabaseMap:
    return mechanism.reads if isinstance(mechanism, OnItsOwnDomain) else mechanism.depends_on


def _wrong_kind(given: Any, kind: type[Any]) -> str:
    text = f"expected {kind.__name__}, got {shown(type(given).__name__)}"
    if isinstance(given, OnItsOwnDomain):
        return f"{text}: privacy on what is read is not privacy on the whole database (Example II.9)"
    if isinstance(given, OnTheCommonDomain):
        return f"{text}: privacy on the whole database is not privacy on what is read"
    return text


def _check_statement(rule: Rule, privacy: Any) -> None:
    if not isinstance(privacy, rule.notion):
        raise rule.refuse(f"expected {rule.notion.__name__}, got {shown(type(privacy).__name__)}")
    if privacy.starred:
        raise rule.refuse(
            f"expected a metric, got {privacy.distance.name}, which is private* only (a StarDistance): the triangle"
            " inequality may fail"
        )


def _check_one_domain(rule: Rule, domains: Sequence[DatabaseClass]) -> None:
    for domain in domains:
        if domain != domains[0]:
            raise rule.refuse(f"expected one class of databases, got {domains[0].name} and {domain.name}")


def _tuple(rule: Rule, values: Sequence[Any]) -> tuple[Any, ...]:
    try:
        given = tuple(values)
    except TypeError as error:
        raise rule.refuse(f"expected a sequence of mechanisms, got {shown(values)}") from error
    if not given:
        raise rule.refuse("expected one mechanism or more, got none")
    return given
