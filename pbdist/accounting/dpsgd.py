"""`dpsgd`: ε of a run of DP-SGD after some epochs, from both sides, in the words of those who train."""

from dataclasses import dataclass
from typing import Any

from pbdist.accounting.accountant import Accountant
from pbdist.accounting.training import Training, checked_training
from pbdist.notebook import html_table
from pbdist.results import EpsilonBounds


@dataclass(frozen=True, eq=False)
class DpsgdEpsilon:
    """ε of a run of DP-SGD, and what was taken for granted.

    Attributes
    ----------
    training : Training
        Records, batch, epochs, steps and δ.
    noise_multiplier : float
    epsilon : EpsilonBounds
        Of shape (numbers of steps, δ), with a leading axis of the removal and the addition of a record where each
        direction was asked for.
    """

    training: Training
    noise_multiplier: float
    epsilon: EpsilonBounds

    def _repr_html_(self) -> str:
        """Return the answers as a small table, for notebooks."""
        title = f"DP-SGD, noise multiplier {self.noise_multiplier!r}, neighbours: {self.training.adjacency}"
        asked = self.training.columns(delta=self.training.delta)
        lower, upper = (side.reshape(-1, len(asked["steps"])) for side in (self.epsilon.lower, self.epsilon.upper))
        each = [("A||B ", "B||A ")[axis] if len(lower) > 1 else "" for axis in range(len(lower))]
        heads = [*asked, *(f"{name}epsilon {side}" for name in each for side in ("lower", "upper"))]
        sides = [side[axis].tolist() for axis in range(len(lower)) for side in (lower, upper)]
        return html_table(title, zip(*asked.values(), *sides, strict=True), heads)


def dpsgd(
    *,
    examples: int,
    batch: int,
    noise_multiplier: float,
    epochs: Any = None,
    steps: Any = None,
    delta: Any = None,
    tolerance: float | None = None,
    direction: str = "both",
    strict: bool = False,
) -> DpsgdEpsilon:
    """Bound ε of a run of DP-SGD from both sides.

    Each step draws every record with probability batch / examples, independently (Poisson sampling), clips each
    gradient, and adds Gaussian noise to their sum. Neighbours are data sets with one record more or less. Nothing is
    proved here for shuffled batches of fixed size.

    Parameters
    ----------
    examples : int
        Records of the data set.
    batch : int
        Records of a batch on average, at most `examples`.
    noise_multiplier : float
        Standard deviation of the noise, divided by the norm to which gradients are clipped; above 0.
    epochs, steps : number or array_like
        How long the run is: one of both, one number or several. The steps of some epochs are epochs · examples / batch,
        rounded up.
    delta : float or array_like of float, optional
        Above 0 and below 1; by default one over `examples`, which is the largest that anybody should take.
    tolerance : float, optional
        ``upper / lower - 1`` that is aimed at, 1e-3 by default.
    direction : {"both", "each"}, optional
        ``"each"``: the removal of a record, A||B, and the addition, B||A, apart.
    strict : bool, optional
        Whether a tolerance that is missed is an error.

    Returns
    -------
    DpsgdEpsilon
        The bounds, and what was taken for granted.

    Raises
    ------
    InvalidInputError
        An argument is out of its range; before any computation.
    PrecisionError
        If `strict`, and the tolerance is missed.

    Warns
    -----
    PrecisionWarning
        If the tolerance is missed; the bounds hold.

    Examples
    --------
    >>> from pbdist.accounting import dpsgd
    >>> run = dpsgd(examples=60_000, batch=256, noise_multiplier=1.1, epochs=[15, 60], delta=1e-5)
    >>> run.training.steps
    (3516, 14063)
    >>> bool((run.epsilon.upper <= 1.001 * run.epsilon.lower).all())
    True
    """
    training = checked_training(examples, batch, epochs, steps, delta)
    step = training.step(noise_multiplier)
    epsilon = (
        Accountant()
        .add(step)
        .epsilon(
            [list(training.delta)] * len(training.steps),
            repeats=[[number] for number in training.steps],
            tolerance=tolerance,
            direction=direction,
            strict=strict,
        )
    )
    return DpsgdEpsilon(training, float(noise_multiplier), epsilon)
