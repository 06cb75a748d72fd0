"""What an observer sees of one round, to be drawn: densities of noise, probabilities of few outcomes."""

import math
from collections.abc import Iterator

import numpy as np
from scipy.stats import laplace, norm

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ApproximateDP, Gaussian, Laplace, Pair
from pbdist.types import FloatArray


def densities(pair: Pair, outputs: FloatArray) -> Iterator[tuple[str, FloatArray, FloatArray]]:
    """Yield A and B of one round: name, outputs, and densities at them, or probabilities of all outcomes.

    Of Gaussian and Laplace noise at `outputs`; of M_{ε,δ} at its four outcomes, which are numbered from 0. They are
    float64 values for drawing, no bounds.

    Raises
    ------
    InvalidInputError
        For other mechanisms.
    """
    if isinstance(pair, ApproximateDP):
        likely = (1.0 - pair.delta) / (1.0 + math.exp(-pair.epsilon))
        unlikely = (1.0 - pair.delta) / (1.0 + math.exp(pair.epsilon))
        masses = np.array([pair.delta, likely, unlikely, 0.0])
        yield "A", np.arange(4.0), masses
        yield "B", np.arange(4.0), masses[::-1].copy()
        return
    if not isinstance(pair, Gaussian | Laplace):
        raise InvalidInputError(f"mechanism: expected Gaussian, Laplace or ApproximateDP to draw, got {shown(pair)}")
    for name, mean in (("A", 0.0), ("B", pair.sensitivity)):
        yield name, outputs, _density(pair, outputs - mean)


def _density(pair: Gaussian | Laplace, draw: FloatArray) -> FloatArray:
    """Return the density of noise about its mean, truncated as the pair's."""
    noise = norm if isinstance(pair, Gaussian) else laplace
    density = np.asarray(noise.pdf(draw, scale=pair.scale))
    if pair.truncate is None:
        return density
    low, high = pair.truncate
    inside = (draw >= low) & (draw <= high)
    return np.where(inside, density / np.diff(noise.cdf([low, high], scale=pair.scale)), 0.0)
