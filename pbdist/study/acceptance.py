"""Check that a constructor accepts all combinations of some grids, without making all of them.

Every value is tried with the first ones of the other parameters, and so are all combinations of the parameters that
a mechanism says it checks together; of some of these it says that the largest value decides.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pbdist.mechanisms import MECHANISMS, Pair, Product
from pbdist.study.pair_grid import Axis, PairGrid, alike_values, values_of

#: The values of each parameter, in the order of the grids.
Grids: TypeAlias = Mapping[str, Sequence[Any]]
#: Makes a pair of one value of each parameter.
Make: TypeAlias = Callable[[Sequence[Any]], Pair]


def accepted_grid(kind: str, grids: Grids, make: Make) -> PairGrid:
    """Return the pairs of all combinations of the grids.

    Guaranteed: the constructor accepts all of them. It raises what it raises for those that it refuses.
    """
    if any(name.endswith("]") for name in grids) and not issubclass(MECHANISMS[kind], Product):
        # Only the fields of products are known to be their pairs.
        return _listed(grids, make)
    names = [name for name, values in grids.items() if len(values) > 1]
    first = {name: values[0] for name, values in grids.items()}

    def pair(**chosen: Any) -> Pair:
        return make([*{**first, **chosen}.values()])

    base = pair()
    held = values_of(base)
    not_given = [name for name in held if name not in grids]
    axes = []
    for name in names:
        fields = (name, *not_given)
        made = (values_of(pair(**{name: value})) for value in grids[name])
        rows = [tuple(found[field] for field in fields) for found in made]
        columns = dict(zip(fields, zip(*rows, strict=True), strict=True))
        # What is not given may follow from what varies, as the split of a staircase does from its ε.
        following = [field for field in not_given if any(value != held[field] for value in columns[field])]
        axes.append(Axis((name, *following), (columns[name], *(columns[field] for field in following))))
    for together in _tried(MECHANISMS[kind], grids, names):
        pair(**together)
    grid = PairGrid.around(base, axes)
    if len(axes) > 1 and any(len(axis.fields) > 1 for axis in axes):
        # It may follow from several parameters at once: then no grid has the pairs.
        every = map(make, itertools.product(*grids.values()))
        if not all(one == other for one, other in zip(every, grid, strict=True)):
            return _listed(grids, make)
    return grid


def _listed(grids: Grids, make: Make) -> PairGrid:
    return PairGrid.listed([make(values) for values in itertools.product(*grids.values())])


def _tried(kind: type[Pair], grids: Grids, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yield what is to be tried besides each value with the first ones of the others."""
    if issubclass(kind, Product):
        # Of the pairs of a product only that they are for the same neighbours is checked together.
        grids = {name: [grids[name][place] for place in alike_values(grids[name])] for name in names}
        together = [name for name in names if len(grids[name]) > 1]
    else:
        wanted = kind.tried_together(grids)
        together = [name for name in names if name in wanted]
        grids = {**grids, **{name: [max(grids[name])] for name in together if name in kind.largest_decides}}
    if len(together) > 1:
        for chosen in itertools.product(*(grids[name] for name in together)):
            yield dict(zip(together, chosen, strict=True))
