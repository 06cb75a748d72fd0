"""A release plan: several analyses, what each of them reads, and which databases are neighbours."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from pbdist.arguments import Neighbours, checked_compositions, checked_delta, checked_epsilon, checked_tolerance
from pbdist.bounds.delta import Axis, Variable, bounds_dataset
from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.notions import Bounded, EdgeLevel, FreeLunch, Granularity, NodeLevel, Unbounded, UserLevel
from pbdist.granularity.release.declared import (
    Analysis,
    Blocks,
    Memberships,
    Overlapping,
    Partition,
    Profile,
    checked_list,
)
from pbdist.granularity.release.products import Resolved, Resolver, without_dominated, without_reversed
from pbdist.granularity.release.profiles import profiles_of
from pbdist.granularity.release.worst import Largest, largest_delta, largest_epsilon
from pbdist.mechanisms import Adjacency, Pair, Product, RandomizedResponse, WorstOf
from pbdist.pld.engine import delta_above, delta_below
from pbdist.results import log_relative_width, relative_width
from pbdist.types import DELTA, EPSILON, IntArray, joined

if TYPE_CHECKING:
    import xarray as xr

#: Pairs of a plan that is one mechanism of a study, and factors of one of them.
_MAX_PAIRS, _MAX_FACTORS = 1000, 4096


@dataclass(frozen=True)
class ReleasePlan:
    """Analyses that are released together, and what of them one change of the database can touch.

    Theorem G2 of docs/granularity.md: δ of the release is at most the largest δ, over the profiles of all changes, of
    the product of the pairs that dominate the touched analyses. That holds for adaptive analyses too, as long as what
    each of them reads is fixed beforehand.

    Parameters
    ----------
    granularity : Granularity
        Which databases of the release are neighbours. The databases are all finite multisets of records.
    analyses : sequence of Analysis
        At least one; each name once.
    blocks : Partition, Overlapping or Memberships, optional
        What the blocks are that the analyses read. None where every analysis reads all records.
    profiles : sequence of Profile, optional
        For a granularity that is given as a relation or a metric: every way in which its neighbours may differ, as
        declared data. For the others they follow from the blocks.

    Raises
    ------
    InvalidInputError
        If a field is none of these, an analysis reads a block that is not there, or a pair says nothing about
        neighbours at that distance, such as one for `Bounded` on its own domain where a record moves between blocks;
        or two pairs say themselves that they are for different neighbours.
    """

    granularity: Granularity
    analyses: tuple[Analysis, ...]
    blocks: Blocks | None = None
    profiles: tuple[Profile, ...] = ()

    def __post_init__(self) -> None:
        given: Any = self
        if not isinstance(given.granularity, Granularity):
            raise InvalidInputError(f"ReleasePlan.granularity: expected a Granularity, got {shown(given.granularity)}")
        if given.blocks is not None and not isinstance(given.blocks, Partition | Overlapping | Memberships):
            raise InvalidInputError(f"ReleasePlan.blocks: expected declared blocks, got {shown(given.blocks)}")
        object.__setattr__(self, "analyses", checked_list("ReleasePlan.analyses", given.analyses, Analysis))
        object.__setattr__(self, "profiles", checked_list("ReleasePlan.profiles", given.profiles, Profile))
        self._check_names()
        self._check_profiles()
        pairs = ((one, pair) for one in self.analyses for pair in (one.pair, one.replaced) if isinstance(pair, Pair))
        joined(((pair.adjacency, one.name) for one, pair in pairs), "ReleasePlan.analyses")
        # What cannot be bounded is refused now.
        if not self._resolved:
            raise InvalidInputError("ReleasePlan.analyses: no change can touch any of them; check their blocks")

    def _check_names(self) -> None:
        if not self.analyses:
            raise InvalidInputError("ReleasePlan.analyses: give at least one analysis")
        names = [one.name for one in self.analyses]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise InvalidInputError(f"ReleasePlan.analyses: expected each name once, got {shown(twice)} twice")
        known = set() if self.blocks is None else set(self.blocks.blocks)
        for one in self.analyses:
            unknown = [name for name in one.reads or () if name not in known]
            if unknown:
                raise InvalidInputError(
                    f"{one.name}.reads: expected blocks among {shown(sorted(known))}, got {shown(unknown[0])}"
                )

    def _check_profiles(self) -> None:
        own = isinstance(self.granularity, Unbounded | Bounded | UserLevel | EdgeLevel | NodeLevel | FreeLunch)
        if own and self.profiles:
            raise InvalidInputError(
                f"ReleasePlan.profiles: leave them out: the changes of {self.granularity!r} follow from the blocks"
            )
        if not own and not self.profiles:
            raise InvalidInputError(
                f"ReleasePlan.profiles: give every way in which neighbours of {self.granularity.title} may differ:"
                " pbdist cannot derive them from a relation that is given as a function"
            )
        known = {one.name for one in self.analyses}
        for profile in self.profiles:
            for touch in profile.touches:
                if touch.analysis not in known:
                    raise InvalidInputError(
                        f"ReleasePlan.profiles: expected analyses among {shown(sorted(known))},"
                        f" got {shown(touch.analysis)}"
                    )

    @property
    def adjacency(self) -> Adjacency:
        """Which neighbours the granularity means: of records removed, added or changed; of others it is as stated."""
        if isinstance(self.granularity, Unbounded):
            return Adjacency.ADD_OR_REMOVE
        return Adjacency.REPLACE_ONE if isinstance(self.granularity, Bounded) else Adjacency.AS_STATED

    @cached_property
    def changes(self) -> tuple[Profile, ...]:
        """The profiles of all changes, one of each kind: those declared, or those that follow from the blocks.

        Without those of blocks that tell provably no more than enough others.
        """
        return self.profiles or tuple(profiles_of(self.granularity, self.blocks, self.analyses))

    @cached_property
    def _resolved(self) -> tuple[Resolved, ...]:
        return tuple(Resolver(self.granularity, self.blocks, self.analyses).resolve(self.changes))

    @cached_property
    def _informative(self) -> tuple[Resolved, ...]:
        """The products that count for the larger of the two directions."""
        return tuple(without_dominated(without_reversed(self._resolved)))

    def pair(self) -> Pair:
        """Return the plan as one mechanism, for studies, queries and sizing.

        Returns
        -------
        Pair
            The worst of the products of all profiles, in both directions, without those that others dominate. Where
            none is attained its lower bounds are 0.

        Raises
        ------
        InvalidInputError
            If there are more than 1,000, or one has more than 4,096 pairs.
        """
        products = without_dominated(self._resolved)
        most = max(sum(count for _, count in one.factors) for one in products)
        if len(products) > _MAX_PAIRS or most > _MAX_FACTORS:
            raise InvalidInputError(
                f"ReleasePlan: expected at most {_MAX_PAIRS} products of at most {_MAX_FACTORS} pairs, got"
                f" {len(products)} of up to {most}: ask for privacy_bounds of the plan itself"
            )
        pairs = [_product(one) for one in products]
        attained = [one.attained for one in products]
        # What pairs say is about the inputs of analyses: a record that is removed there may be replaced in the release.
        # Where a user, an edge or a node is removed, what they say of one record is less than the truth.
        own = WorstOf(*pairs, attained=attained).adjacency
        removal = own is Adjacency.ADD_OR_REMOVE and isinstance(self.granularity, UserLevel | EdgeLevel | NodeLevel)
        if own.definite and own is not self.adjacency and not removal:
            return WorstOf(*pairs, attained=attained, neighbours=self.adjacency)
        return pairs[0] if len(pairs) == 1 and attained[0] else WorstOf(*pairs, attained=attained)

    def privacy_bounds(self, *, compositions: Any, epsilon: Any, tolerance: float | None = None) -> "xr.Dataset":
        """Bound δ(ε) of r releases of the whole plan, with the same input each time.

        Parameters
        ----------
        compositions : int or array_like of int
            r, at least 1.
        epsilon : float or array_like of float
            ε >= 0, nats.
        tolerance : float, optional
            As `pbdist.privacy_bounds` takes it; 1e-3 by default.

        Returns
        -------
        xarray.Dataset
            As `pbdist.privacy_bounds` returns it, for the larger of the two directions. Lower bounds are NaN where no
            declared change attains all pairs that it touches; then no bounds are within the tolerance.
        """
        rounds, losses = checked_compositions(compositions), checked_epsilon(epsilon)
        precision = checked_tolerance(tolerance)
        found = largest_delta(self._informative, rounds, losses, tolerance=tolerance)
        lower = np.where(np.isnan(found.lower), np.nan, delta_below(found.lower))
        upper = np.minimum(delta_above(found.upper), 1.0)
        with np.errstate(invalid="ignore"):
            within = log_relative_width(found.lower, found.upper) <= precision
        variables = {
            "delta_lower": Variable(lower[None], "certified lower bound on δ"),
            "delta_upper": Variable(upper[None], "certified upper bound on δ"),
            "log_delta_lower": Variable(found.lower[None], "natural logarithm of the certified lower bound on δ"),
            "log_delta_upper": Variable(found.upper[None], "natural logarithm of the certified upper bound on δ"),
            "within_tolerance": Variable(within[None], "whether the bounds meet within the tolerance", "", np.all),
        }
        axis = Axis(EPSILON, losses, "privacy loss ε in nats")
        return self._dataset(variables, rounds, axis, found)

    def epsilon_bounds(self, *, compositions: Any, delta: Any, tolerance: float | None = None) -> "xr.Dataset":
        """Bound ε(δ) of r releases of the whole plan: the smallest ε with which (ε, δ) is met.

        Parameters
        ----------
        compositions : int or array_like of int
            r, at least 1.
        delta : float or array_like of float
            δ, above 0 and below 1.
        tolerance : float, optional
            As `pbdist.epsilon_bounds` takes it; 1e-3 by default.

        Returns
        -------
        xarray.Dataset
            As `pbdist.epsilon_bounds` returns it. Lower bounds are NaN where no declared change attains all pairs that
            it touches.
        """
        rounds, wanted = checked_compositions(compositions), checked_delta(delta)
        precision = checked_tolerance(tolerance)
        found = largest_epsilon(self._informative, rounds, wanted, tolerance=tolerance)
        with np.errstate(invalid="ignore"):
            within = relative_width(found.lower, found.upper) <= precision
        variables = {
            "epsilon_lower": Variable(found.lower[None], "certified lower bound on ε in nats"),
            "epsilon_upper": Variable(found.upper[None], "certified upper bound on ε in nats"),
            "within_tolerance": Variable(within[None], "whether the bounds meet within the tolerance", "", np.all),
        }
        axis = Axis(DELTA, wanted, "δ")
        return self._dataset(variables, rounds, axis, found)

    def _dataset(self, variables: dict[str, Variable], rounds: IntArray, axis: Axis, found: Largest) -> "xr.Dataset":
        about = {
            "method": "tight",
            "granularity": repr(self.granularity),
            "profiles": len(self.changes),
            "products": len(self._informative),
            "products_computed": found.computed,
        }
        neighbours = Neighbours(self.adjacency, None)
        return bounds_dataset(variables, rounds, axis, direction="both", neighbours=neighbours, attributes=about)


def _product(one: Resolved) -> Pair:
    """Return the pair of a product; one that tells nothing where there are no factors."""
    factors = [factor for factor, count in sorted(one.factors, key=repr) for _ in range(count)]
    if not factors:
        return RandomizedResponse(0.5)
    return factors[0] if len(factors) == 1 else Product(*factors)
