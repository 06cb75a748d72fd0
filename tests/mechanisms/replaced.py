"""A pair that says itself that it is for one record replaced, as no public one need do."""

from dataclasses import dataclass

from pbdist.mechanisms import Adjacency, Gaussian

__all__ = ["Replaced"]


@dataclass(frozen=True)
class Replaced(Gaussian):
    """Gaussian noise, for one record replaced."""

    @property
    def adjacency(self) -> Adjacency:
        return Adjacency.REPLACE_ONE
