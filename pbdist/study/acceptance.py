"""Check that a constructor accepts all combinations of some grids, without making all of them.

Most constructors check each parameter by itself. Then all combinations are accepted if each value is, together with
one value of every other parameter. Where parameters are checked together, more is tried, as is said below.
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pbdist.mechanisms import DiscreteLaplace, Laplace, Pair
from pbdist.mechanisms.outcomes import MOST_OUTCOMES
from pbdist.study.pair_grid import Axis, PairGrid, alike_values, parameters_of

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]

#: Each parameter is checked by itself.
_BY_THEMSELVES = (
    "RandomizedResponse",
    "KaryRandomizedResponse",
    "BoundedRange",
    "SubsampledGaussian",
    "SubsampledLaplace",
    "TruncatedPoissonGaussian",
    "ApproximateDP",
    "LaplaceSum",
    "Staircase",
    "Reversed",
)
#: Scale and truncation are checked together, as the truncated noise must not be too little.
_TRUNCATED = ("Laplace", "Gaussian")
#: Scale or mean, and sensitivity, are checked together: the number of outcomes and the largest loss must not be too
#: large, or the scale too small beside it. A larger sensitivity makes all of it worse.
_WITH_SENSITIVITY = ("Poisson", "DiscreteLaplace", "DiscreteGaussian", "RandomAllocation")
#: Noise of a noisy count reaches at most this many scales; the counts that it leaves are so many more than its reach.
_REACH, _MORE_COUNTS = 38.0, 6.0


def accepted_grid(kind: str, grids: Grids, make: Make) -> PairGrid:
    """Return the pairs of all combinations of the grids.

    Guaranteed: the constructor accepts all of them. It raises what it raises for those that it refuses.
    """
    names = [name for name, values in grids.items() if len(values) > 1]
    first = {name: values[0] for name, values in grids.items()}
    if kind in _WITH_SENSITIVITY and "sensitivity" in names:
        first["sensitivity"] = max(grids["sensitivity"])

    def pair(**chosen: Any) -> Pair:
        return make([*{**first, **chosen}.values()])

    base = pair()
    axes = []
    for name in names:
        made = (parameters_of(pair(**{name: value})) for value in grids[name])
        # A split that is not given follows from ε.
        fields = (name, "split") if kind == "Staircase" and name == "epsilon" and "split" not in grids else (name,)
        rows = [tuple(found[field] for field in fields) for found in made]
        axes.append(Axis(fields, tuple(zip(*rows, strict=True))))
    for together in _tried(kind, grids, names):
        pair(**together)
    return PairGrid.around(base, axes)


def _tried(kind: str, grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    together: Sequence[str] = names
    if kind == "Product":
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        grids = {name: [grids[name][place] for place in alike_values(grids[name])] for name in names}
        together = [name for name in names if len(grids[name]) > 1]
    elif kind in (*_BY_THEMSELVES, *_WITH_SENSITIVITY) or (kind == "NoisyCount" and _few_counts(grids)):
        together = ()
    elif kind in _TRUNCATED:
        together = [name for name in names if name in ("scale", "truncate")]
    if len(together) > 1:
        for chosen in itertools.product(*(grids[name] for name in together)):
            yield dict(zip(together, chosen, strict=True))


def _few_counts(grids: Grids) -> bool:
    """Whether noisy counts have few counts, and half of the noise is kept, whatever the combination.

    Then the constructor has only checks of single parameters left, as all noises of an entry are of one class, for
    which a mean is whole enough or not: a mean m with a reach t leaves at most
    ⌈m + t⌉ - ⌊m - t⌋ + shift counts, and a negative mean is the only one that may keep too little.
    """
    reach = max(
        0.0 if isinstance(noise, Laplace | DiscreteLaplace) else _REACH * noise.scale + 1.0 for noise in grids["noise"]
    )
    most = 2.0 * reach + float(max(grids["shift"])) + _MORE_COUNTS
    return math.isfinite(most) and most <= MOST_OUTCOMES and float(min(grids["mean"])) >= 0.0
