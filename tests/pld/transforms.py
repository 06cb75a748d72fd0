"""Transforms of losses for tests."""

import math

from pbdist.pld.loss_transform import LossTransform


def subsampled(ratio: float, rate: float) -> LossTransform:
    """That of a sampling probability q, above 0 and below 1, and a shift μ above 0."""
    return LossTransform((ratio,), (math.log(rate),), math.log1p(-rate))
