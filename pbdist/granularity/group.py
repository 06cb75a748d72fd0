"""The worst-case pair of a group: what several individuals together change, at most."""

from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.granularity.release.group_pair import group_pair
from pbdist.mechanisms import (
    ElementaryPair,
    Pair,
    Product,
    Reversed,
    WorstOf,
    validation,
)
from pbdist.types import Adjacency

#: Larger groups are refused.
_LARGEST_GROUP = 10**9


def group(pair: Pair, size: int) -> Pair:
    """Return a pair that dominates what a group of individuals changes: group privacy of a whole worst-case pair.

    Parameters
    ----------
    pair : Pair
        The worst case of one individual: (A, B) for its removal and (B, A) for its addition, or either order where
        neighbours replace a record.
    size : int
        How many individuals differ, at most: all are removed, all are added, or each is replaced.

    Returns
    -------
    Pair
        For the same neighbours, `size` of them in a row (Theorem 44 of docs/theory.md). Exact, the pair of `size` times
        the sensitivity, for noise that is added: `Laplace`, `Gaussian`, also truncated, `LaplaceSum`,
        `DiscreteLaplace`, `DiscreteGaussian` and `Poisson`. For `SubsampledGaussian` a `SubsampledGaussianGroup`: each
        individual is sampled by itself, and both bounds are close to what the group changes (Theorem 45).
        `BoundedRange` of `size` times η, which is the worst of all mechanisms of that range. For all others a pair of
        histograms that is nowhere below the best chain of `size` steps, and may be above what the group changes: it
        comes as a `WorstOf` that is not attained, without lower bounds. A product factor by factor.

    Raises
    ------
    InvalidInputError
        If the size is no whole number of at least 1, or above 100,000 on samples; for the worst of several pairs, as
        the steps of a chain may follow different ones; and for a reversed `SubsampledGaussian`.

    Examples
    --------
    >>> from pbdist import Gaussian, group
    >>> group(Gaussian(4.0), 3)
    Gaussian(scale=4.0, sensitivity=3.0, truncate=None)
    """
    times = validation.integer("group", "size", size, minimum=1, maximum=_LARGEST_GROUP)
    given: Any = pair
    if not isinstance(given, Pair) or pair.several:
        raise InvalidInputError(
            f"group.pair: expected one worst-case pair, not the worst of several: a group may follow several of them,"
            f" got {shown(pair)}"
        )
    if times == 1:
        return pair
    parts = pair.pairs if isinstance(pair, Product) else (pair,)
    found = [_of(factor, times) for part in parts for factor in part.factors]
    whole = Product(*(one for one, _ in found)) if isinstance(pair, Product) else found[0][0]
    if all(exact for _, exact in found):
        return whole
    # Of a factor that is known from both sides the pair that dominates it.
    above = [one.sides[0] if one.sides else one for one, _ in found]
    neighbours = Adjacency.ADD_OR_REMOVE_GROUP if pair.adjacency is Adjacency.ADD_OR_REMOVE else None
    return WorstOf(Product(*above) if isinstance(pair, Product) else above[0], attained=(False,), neighbours=neighbours)


def _of(pair: ElementaryPair, times: int) -> tuple[Pair, bool]:
    """Return the pair of a group, and whether it is what the group changes and not only above it."""
    found = pair.inner.of_group(times)
    if found is None:
        # A chain of one pair is one pair.
        return group_pair(pair, times, 0).factors[0], pair.neutral
    if not isinstance(pair, Reversed):
        return found, True
    if not isinstance(found, ElementaryPair):
        raise InvalidInputError(
            f"group.pair: expected a pair that is not reversed, got {shown(pair)}: what a group on samples changes"
            " is bounded by two pairs, for which there is no reversed one"
        )
    return Reversed(found), True
