"""Random allocation: each record is used in one step of an epoch, chosen at random (balls and bins)."""

import math
from dataclasses import dataclass

from pbdist.errors import InvalidInputError
from pbdist.mechanisms import validation
from pbdist.mechanisms.masses import LossMasses
from pbdist.mechanisms.pair import ElementaryPair
from pbdist.types import Adjacency, Direction, FloatArray

#: Steps of an epoch at most, and sensitivity / scale at least and at most.
_MOST_STEPS, _SMALLEST_RATIO, _LARGEST_RATIO = 100_000, 1e-4, 10.0


@dataclass(frozen=True)
class RandomAllocation(ElementaryPair):
    """An epoch of Gaussian noise in which each record is used in exactly one of some steps, chosen at random.

    Also known as balls-and-bins sampling (Chua et al. 2025; Feldman & Shenfeld 2025): every record draws its step
    independently of all others, and every step's sum gets noise. One composition is one epoch, with fresh draws. Where
    batches have a fixed size instead, or records are shuffled and cut into batches, the draws are not independent, and
    nothing is claimed.

    B is N(0, scale²) in each step, independently, and A the uniform mixture over i of the same with the mean of step i
    moved by the sensitivity: the pair is attained, and it dominates the epoch for adaptive steps too (Theorem 35 of
    docs/theory.md). The direction "A||B" is the removal of a record, "B||A" the addition. A record that is replaced by
    one that contributes nothing (zero-out) has the same pair.

    Its masses on losses have no closed form. They are bounded by two finite pairs, one that it dominates and one that
    dominates it, as fine as a tolerance takes (Theorem 34). So bounds on δ and on ε, noise that is sized, and stored
    studies are to be had; what needs exact masses (privacy buckets, Rényi divergences, trade-off curves, exact
    verification) refuses it.

    Parameters
    ----------
    scale : float
        Standard deviation of the noise of each step (the noise multiplier, where the sensitivity is 1); from a
        tenth of the sensitivity to 10^4 times as much.
    steps : int
        t, the number of steps in an epoch, from 1 to 10^5. With one step it is the Gaussian mechanism.
    sensitivity : float, optional
        The clipping norm, above 0.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    Examples
    --------
    >>> from pbdist import RandomAllocation, privacy_bounds
    >>> found = privacy_bounds(RandomAllocation(1.0, steps=8), compositions=1, epsilon=3.711)
    >>> bool(1.043e-8 < found.delta_lower.item() < 1.044e-8 < found.delta_upper.item() < 1.045e-8)
    True
    """

    scale: float
    steps: int
    sensitivity: float = 1.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        object.__setattr__(self, "scale", validation.size(name, "scale", self.scale))
        object.__setattr__(self, "sensitivity", validation.size(name, "sensitivity", self.sensitivity))
        steps = validation.integer(name, "steps", self.steps, minimum=1, maximum=_MOST_STEPS)
        object.__setattr__(self, "steps", steps)
        if not _SMALLEST_RATIO * self.scale <= self.sensitivity <= _LARGEST_RATIO * self.scale:
            raise InvalidInputError(
                f"{name}.scale: expected from a tenth of the sensitivity {self.sensitivity!r} to 10,000 times as much,"
                f" got {self.scale!r}"
            )

    @property
    def adjacency(self) -> Adjacency:
        """One record is added or removed."""
        return Adjacency.ADD_OR_REMOVE

    @property
    def symmetric(self) -> bool:
        """Only with one step."""
        return self.steps == 1

    @property
    def enclosed(self) -> bool:
        """True: its masses are known through enclosures."""
        return True

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def loss_masses(self, edges: FloatArray) -> LossMasses:  # noqa: ARG002
        """Refuse: there is no closed form.

        Raises
        ------
        InvalidInputError
            Always.
        """
        raise InvalidInputError(
            "mechanism: expected one whose masses are known exactly, got RandomAllocation, which is enclosed by two"
            " others; bounds on δ and on ε with method tight are to be had"
        )
