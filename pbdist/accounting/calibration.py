"""`dpsgd_noise`: the smallest noise multiplier of DP-SGD that provably keeps a promise, and one that does not."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from pbdist.accounting.training import Training, checked_training, step_of
from pbdist.arguments import checked_epsilon
from pbdist.mechanisms import SubsampledGaussian
from pbdist.notebook import html_table
from pbdist.sizing.api import size
from pbdist.sizing.sized import SizedNoise

#: How much smaller the refuted noise multiplier is, if nobody says otherwise.
DEFAULT_STEP = 1e-3


@dataclass(frozen=True)
class DpsgdNoise:
    """Noise multipliers of a run of DP-SGD, and what was taken for granted.

    Attributes
    ----------
    training : Training
        Records, batch, epochs, steps and δ.
    epsilon : tuple of float
        ε that are promised, nats.
    sized : tuple of SizedNoise
        The smallest noise multiplier found (`scale`) for each number of steps, ε and δ, the last one varying fastest;
        each with a smaller one that provably does not meet the promise (`refuted_scale`).
    """

    training: Training
    epsilon: tuple[float, ...]
    sized: tuple[SizedNoise, ...]

    @property
    def columns(self) -> dict[str, list[float]]:
        """What was asked for each of `sized`."""
        return self.training.columns(epsilon=self.epsilon, delta=self.training.delta)

    @property
    def noise_multipliers(self) -> tuple[float, ...]:
        """Those that will do, in the order of `sized`."""
        return tuple(one.scale for one in self.sized)

    def _repr_html_(self) -> str:
        """Return the answers as a small table, for notebooks."""
        heads = [*self.columns, "noise multiplier", "refuted"]
        refuted = [one.refuted_scale for one in self.sized]
        rows = zip(*self.columns.values(), self.noise_multipliers, refuted, strict=True)
        return html_table(f"DP-SGD, neighbours: {self.training.adjacency}", rows, heads)


def dpsgd_noise(
    *,
    examples: int,
    batch: int,
    epsilon: Any,
    epochs: Any = None,
    steps: Any = None,
    delta: Any = None,
    tolerance: float = DEFAULT_STEP,
    strict: bool = False,
) -> DpsgdNoise:
    """Return the smallest noise multiplier with which a run of DP-SGD provably is (ε, δ)-private.

    What is taken for granted is as of `dpsgd`.

    Parameters
    ----------
    examples, batch, epochs, steps, delta
        As of `dpsgd`.
    epsilon : float or array_like of float
        ε that is promised, nats, at least 0.
    tolerance : float, optional
        From 1e-6 to 1/2: how much smaller the noise multiplier is that is refuted, relatively.
    strict : bool, optional
        Whether it is an error if the refuted one is smaller by more than the tolerance.

    Returns
    -------
    DpsgdNoise
        For each number of steps, ε and δ the noise multiplier with its certificate. Both are of a sampling rate of
        batch / examples, rounded up to a float.

    Raises
    ------
    InvalidInputError
        An argument is out of its range; or no noise multiplier that `size` looks at meets the promise, or all do.
    PrecisionError
        As of `size`.

    Warns
    -----
    PrecisionWarning
        As of `size`.

    Examples
    --------
    >>> from pbdist.accounting import dpsgd_noise
    >>> found = dpsgd_noise(examples=60_000, batch=256, epsilon=2.0, epochs=60, delta=1e-5)
    >>> sized, = found.sized
    >>> sized.delta_upper <= 1e-5 < sized.refuted_delta_lower
    True
    """
    training = checked_training(examples, batch, epochs, steps, delta)
    step_of(1.0, training.sample_rate)
    promised = tuple(checked_epsilon(epsilon).tolist())
    sized = tuple(
        size(
            SubsampledGaussian,
            rate=training.sample_rate,
            compositions=number,
            epsilon=one,
            delta=wanted,
            tolerance=tolerance,
            strict=strict,
        )
        for number, one, wanted in product(training.steps, promised, training.delta)
    )
    return DpsgdNoise(training, promised, sized)
