"""Random allocation: each record is used in one step of an epoch, chosen at random (balls and bins)."""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from pbdist.errors import InvalidInputError
from pbdist.mechanisms.additive import Gaussian
from pbdist.mechanisms.declaration import SPREADS, mechanism, parameter, positive, sensitivity_of, whole
from pbdist.mechanisms.masses import UNIT_ROUNDOFF, LossMasses
from pbdist.mechanisms.pair import ElementaryPair, NoiseOrder, ordered
from pbdist.types import Adjacency, Direction, FloatArray

#: Steps of an epoch at most, and sensitivity / scale at least and at most.
_MAX_STEPS, _SMALLEST_RATIO, _LARGEST_RATIO = 100_000, 1e-4, 10.0
#: A search for noise begins so far above a close estimate.
_CLEARLY = 1.02


@mechanism
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

    The scale is from a tenth of the sensitivity to 10^4 times as much. With one step it is the Gaussian mechanism.

    Its masses on losses have no closed form. They are bounded by two finite pairs, one that it dominates and one that
    dominates it, as fine as a tolerance takes (Theorem 34). So bounds on δ and on ε, noise that is sized, and stored
    studies are to be had; what needs exact masses (privacy buckets, Rényi divergences, trade-off curves, exact
    verification) refuses it.

    Examples
    --------
    >>> from pbdist import RandomAllocation, privacy_bounds
    >>> found = privacy_bounds(RandomAllocation(1.0, steps=8), compositions=1, epsilon=3.711)
    >>> bool(1.043e-8 < found.delta_lower.item() < 1.044e-8 < found.delta_upper.item() < 1.045e-8)
    True
    """

    aliases = ("ballsandbins", "balls-and-bins", "balls_and_bins")
    noise_family = "Gaussian"
    does = (
        "An epoch has several steps, and each individual's record is used in one of them, chosen at random; Gaussian"
        " noise is added to what each step computes, as in training with DP-SGD by balls and bins."
    )
    assumes = (
        "A round is an epoch; in each, every record draws its step anew, each with the same probability and"
        " independently of all others. Neighbouring data sets differ by one individual added or removed, whose"
        " contribution is clipped to the sensitivity. Batches of a fixed size, or a data set that is shuffled and cut"
        " into batches, are other mechanisms, about which nothing is said here. The noise multiplier is scale /"
        " sensitivity."
    )
    checked_together = ("scale", "sensitivity")
    adjacency = Adjacency.ADD_OR_REMOVE
    enclosed = True

    scale: float = parameter(
        positive,
        "the standard deviation of the noise of a step",
        unit="counts",
        aliases=SPREADS,
        hint="scale is the standard deviation of the noise of a step: the noise multiplier times the sensitivity",
        example=[0.8, 1.0, 2.0],
        sized=True,
    )
    steps: int = parameter(
        whole(1, _MAX_STEPS), "the number of steps of a round, in one of which a record is used", example=100
    )
    sensitivity: float = sensitivity_of("the clipping norm of a record")

    def check(self) -> None:
        """Refuse noise that is too small or too large beside the sensitivity."""
        if not _SMALLEST_RATIO * self.scale <= self.sensitivity <= _LARGEST_RATIO * self.scale:
            raise InvalidInputError(
                f"{type(self).__name__}.scale: expected from a tenth of the sensitivity {self.sensitivity!r} to 10,000"
                f" times as much, got {self.scale!r}"
            )

    @classmethod
    def usual_noise(cls, deviation: float, parameters: Mapping[str, Any]) -> float:
        """The scale whose likelihood ratio varies as that of the Gaussian noise, rather too large.

        Coarse bounds are to tell that it meets a goal.
        """
        varies = math.expm1(min(1.0 / (deviation * deviation), 500.0))
        sensitivity, steps = float(parameters.get("sensitivity", 1.0)), float(parameters["steps"])
        return _CLEARLY * sensitivity / math.sqrt(math.log1p(steps * varies))

    @property
    def order(self) -> NoiseOrder | None:
        """By scale / sensitivity, of equally many steps."""
        return ordered(self, RandomAllocation, Fraction(self.scale) / Fraction(self.sensitivity), family=(self.steps,))

    @property
    def symmetric(self) -> bool:
        """Only with one step."""
        return self.steps == 1

    @property
    def between_gaussians(self) -> tuple[Gaussian, Gaussian]:
        """Of the noise of all steps together, and of one step (Theorem 48 of docs/theory.md)."""
        # More noise is a post-processing of less (Theorem 11): it is rounded up for what is dominated.
        all_steps = self.scale * math.sqrt(self.steps) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return Gaussian(all_steps, self.sensitivity), Gaussian(self.scale, self.sensitivity)

    def loss_bound(self, direction: Direction) -> float | None:  # noqa: ARG002
        """Infinite."""
        return math.inf

    def loss_masses(self, edges: FloatArray) -> LossMasses:  # noqa: ARG002
        """Refuse: there is no closed form."""
        raise InvalidInputError(
            "mechanism: expected one whose masses are known exactly, got RandomAllocation, which is enclosed by two"
            " others; bounds on δ and on ε with method tight are to be had"
        )
