"""Composition of many states on an evolving grid.

After Ghazi, Kamath, Kumar & Manurangsi 2022 (arXiv 2207.04381); the squaring of the 2018 paper is its ancestor. A
stage composes `RADIX` equal states and makes the grid √`RADIX` times as coarse, so that a state keeps its number of
elements while the losses spread: the cost of r compositions grows with log r, and every stage adds equally much to the
variance of the loss, relative to it. The numbers r are read in the digits of that radix; each takes its own way through
the same stages, whose states are the ladder's checkpoints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pbdist.buckets.tight.composition import coarsen, compose
from pbdist.buckets.tight.merging import merge_above
from pbdist.buckets.tight.state import TiltedMasses
from pbdist.progress import report

__all__ = ["RADIX", "STEP", "Ladder", "stages_of"]

#: Equal states that one stage composes, and by how much it makes the grid coarser.
RADIX, STEP = 16, 4
#: The last stage composes fewer than this many.
_LAST = 64


def stages_of(compositions: int, *, coarsens: bool) -> int:
    """Return how often the grid is made coarser on the way to that many compositions."""
    stages = 0
    while coarsens and compositions >= _LAST:
        compositions //= RADIX
        stages += 1
    return stages


@dataclass(frozen=True)
class Ladder:
    """How states are composed.

    Attributes
    ----------
    leaves : int
        Largest number of leaves that any result is made of.
    outside : float
        Weight that all windows together may leave out.
    limit : float
        Losses above this, in nats, are merged; infinite where none are.
    coarsens : bool
        Whether the grid evolves.
    longest : int
        Length of the longest transform.
    extended : bool
        Whether to transform the first two stages in extended precision.
    """

    leaves: int
    outside: float
    limit: float
    coarsens: bool
    longest: int
    extended: bool

    def product(self, factors: Sequence[tuple[TiltedMasses, int]], leaves: int) -> TiltedMasses:
        """Compose states to one of `leaves` leaves."""
        windows = stages_of(self.leaves, coarsens=self.coarsens) + 2.0
        share = min(1.0, leaves / self.leaves)
        # What is rounded first counts most often: the error of a stage is that of its leaves' number times.
        extended = self.extended and (leaves <= RADIX**2 or not self.coarsens)
        result = compose(factors, max(self.outside * share / windows, 1e-250), self.longest, extended=extended)
        if self.limit < float("inf"):
            result = merge_above(result, self.limit)
        return result.normalised()

    def coarser(self, state: TiltedMasses) -> TiltedMasses:
        """Make the grid coarser by one step, where it evolves."""
        return coarsen(state, STEP).normalised() if self.coarsens else state

    def round(self, items: Sequence[tuple[TiltedMasses, int]], *, final: bool) -> tuple[TiltedMasses, int]:
        """Compose stacks of states, each as often as its count says, all together.

        Parameters
        ----------
        items : sequence of (TiltedMasses, int)
            Stacks on one grid.
        final : bool
            Whether nothing is composed with the result.

        Returns
        -------
        TiltedMasses, int
            The single state, and its number of leaves.
        """
        leaves = 1
        total = sum(state.count * count for state, count in items)
        everything = total
        while total >= 2 * _LAST:
            leaves *= RADIX
            following: list[tuple[TiltedMasses, int]] = []
            rest: list[tuple[TiltedMasses, int]] = []
            for state, count in items:
                whole, digit = divmod(count, RADIX)
                if whole:
                    following.append((self.coarser(self.product([(state, RADIX)], leaves)), whole))
                if digit:
                    grouped, left = self._grouped(state, digit, leaves)
                    following += grouped
                    rest += left
            following += [(self.coarser(self.product(group, leaves)), 1) for group in _packed(rest)]
            items = following
            total = sum(state.count * count for state, count in items)
        singles = [(state.members(slice(i, i + 1)), count) for state, count in items for i in range(state.count)]
        result = self.product(singles, everything)
        if not final and total >= RADIX // 2:
            result = self.coarser(result)
        return result, everything

    def _grouped(
        self, state: TiltedMasses, count: int, leaves: int
    ) -> tuple[list[tuple[TiltedMasses, int]], list[tuple[TiltedMasses, int]]]:
        """Compose the members of a stack in groups; return the stack of groups, and the members left over."""
        together = RADIX // count
        groups = state.count // together
        grouped: list[tuple[TiltedMasses, int]] = []
        if groups > 1 and together > 1:
            parts = [(state.members(slice(j * groups, (j + 1) * groups)), count) for j in range(together)]
            grouped.append((self.coarser(self.product(parts, leaves)), 1))
            first = groups * together
        elif state.count > 1 and together == 1:
            grouped.append((self.coarser(self.product([(state, count)], leaves)), 1))
            first = state.count
        else:
            first = 0
        return grouped, [(state.members(slice(i, i + 1)), count) for i in range(first, state.count)]

    def powers(self, state: TiltedMasses, leaves: int, rounds: Sequence[int]) -> Iterator[tuple[int, TiltedMasses]]:
        """Yield (r, the r-fold composition of a state of that many leaves) for distinct r, as they are done."""
        waiting: dict[int, TiltedMasses | None] = dict.fromkeys(rounds)
        done = 1
        while waiting:
            for r in [r for r in waiting if r // done < _LAST or not self.coarsens]:
                digit, partial = r // done, waiting.pop(r)
                factors = ([(partial, 1)] if partial is not None else []) + ([(state, digit)] if digit else [])
                yield r, self.product(factors, r * leaves)
            if not waiting:
                return
            for r, partial in list(waiting.items()):
                digit = r // done % RADIX
                factors = ([(partial, 1)] if partial is not None else []) + ([(state, digit)] if digit else [])
                waiting[r] = self.coarser(self.product(factors, r % (done * RADIX) * leaves)) if factors else None
            state = self.coarser(self.product([(state, RADIX)], done * RADIX * leaves))
            done *= RADIX
            report("r =", done, max(rounds))


def _packed(items: Sequence[tuple[TiltedMasses, int]]) -> list[list[tuple[TiltedMasses, int]]]:
    """Pack single states into groups of at most `RADIX` in all, in order."""
    groups: list[list[tuple[TiltedMasses, int]]] = []
    room = 0
    for state, count in items:
        if count > room:
            groups.append([])
            room = RADIX
        groups[-1].append((state, count))
        room -= count
    return groups
