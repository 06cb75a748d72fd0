"""What a round consists of, by the transforms of its losses."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF, ElementaryPair, Gaussian, Reversed, SubsampledGaussian
from pbdist.pld.loss_transform import LossTransform, TransformLine
from pbdist.types import Direction, FloatArray

__all__ = ["Rounds", "rounds_of"]

_U = UNIT_ROUNDOFF
#: Different pairs of a round, at most, and their largest sensitivity in deviations: beyond, transforms take long.
_MOST_PAIRS, _LARGEST_RATIO = 12, 4.0


@dataclass(frozen=True)
class Rounds:
    """What a round consists of, seen in one direction.

    Attributes
    ----------
    sampled : tuple of (LossTransform, bool, int)
        Transforms, whether the pair is taken as it is (its loss under the mixture), and how often it occurs.
    variance : float
        Of the losses of all Gaussian mechanisms of a round together.
    """

    sampled: tuple[tuple[LossTransform, bool, int], ...]
    variance: float

    def log_moment(self, tilt: FloatArray) -> FloatArray:
        """Return ln E e^{τ loss} of a round."""
        total = 0.5 * self.variance * (tilt + tilt * tilt)
        for transform, forward, count in self.sampled:
            total = total + count * transform.log_real(1.0 + tilt if forward else -tilt)
        return total

    def log_moment_error(self, tilt: FloatArray) -> FloatArray:
        """Return by how much `log_moment` may be off."""
        counts = sum(count for _, _, count in self.sampled)
        # Of ln χ, as the transforms say.
        variance = self.variance + sum(8.0 * count * transform.ratio**2 for transform, _, count in self.sampled)
        return np.asarray(1e-11 * counts * (2.0 + np.abs(tilt)) + 8.0 * _U * variance * (2.0 + np.abs(tilt)) ** 2)

    def lines(self, tilt: float) -> list[tuple[TransformLine, bool, int]]:
        """Return the transforms on the line that belongs to a tilt."""
        return [
            (transform.line(1.0 + tilt if forward else -tilt), forward, count)
            for transform, forward, count in self.sampled
        ]


def rounds_of(counts: Mapping[ElementaryPair, int], direction: Direction) -> Rounds | None:
    """Return what a round consists of, None where a pair has no transform here."""
    sampled, variance = [], 0.0
    for pair, count in counts.items():
        inner = pair.pair if isinstance(pair, Reversed) else pair
        if isinstance(inner, Gaussian) and inner.truncate is None:
            variance += count * (inner.sensitivity / inner.scale) ** 2
        elif isinstance(inner, SubsampledGaussian) and inner.rate < 1.0:
            transform = LossTransform(inner.sensitivity / inner.scale, inner.rate)
            if transform.ratio > _LARGEST_RATIO:
                return None
            sampled.append((transform, (direction is Direction.A_TO_B) is (inner is pair), count))
        else:
            return None
    if not 1 <= len(sampled) <= _MOST_PAIRS:
        return None
    return Rounds(tuple(sampled), variance)
