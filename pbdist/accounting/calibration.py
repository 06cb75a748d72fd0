"""`dpsgd_noise`: the smallest noise multiplier of DP-SGD that provably meets a target, and one that does not."""

from dataclasses import dataclass
from itertools import product
from typing import Any

from pbdist.accounting.dpsgd import Answered, Training, checked_training
from pbdist.arguments import checked_epsilon
from pbdist.mechanisms import SubsampledGaussian
from pbdist.progress import reported
from pbdist.rounding import exact, rounded_down, rounded_up
from pbdist.sizing.api import size
from pbdist.sizing.sized import SizedNoise
from pbdist.tables import Column, Sheet, Shown, head_of

#: What the refuted noise proves of all smaller noise.
SMALLER = "At this sampling rate no noise multiplier at or below the refuted one meets the target."
#: How much smaller the refuted noise multiplier is, by default.
DEFAULT_STEP = 1e-3


@dataclass(frozen=True, repr=False)
class DpsgdNoise(Answered):
    """Noise multipliers of a run of DP-SGD, and its assumptions; ``print`` shows them as a table.

    Attributes
    ----------
    training : Training
        Records, phases and δ.
    epsilon : tuple of float
        The promised ε, nats.
    sized : tuple of SizedNoise
        The smallest noise multiplier found (`scale`) for each number of steps, ε and δ, the last one varying fastest;
        each with a smaller one that provably does not meet the promise (`refuted_scale`).
    """

    training: Training
    epsilon: tuple[float, ...]
    sized: tuple[SizedNoise, ...]

    @property
    def columns(self) -> dict[str, list[float]]:
        """The length, ε and δ of each of `sized`."""
        return self.training.columns(epsilon=self.epsilon, delta=self.training.delta)

    @property
    def sentence(self) -> str:
        """What a paper can say of the longest run, for the last ε and δ, its noise multiplier rounded up."""
        steps, promises = self.training.steps, len(self.epsilon) * len(self.training.delta)
        last = self.sized[(steps.index(max(steps)) + 1) * promises - 1]
        return self.training.sentence([(exact(last.epsilon), last.delta)], noise=last.printed.meets.scale)

    @property
    def sheet(self) -> Sheet:
        """A row for each of `sized`; the notes end with a sentence for a paper."""
        training = self.training
        fixed = {"mechanism": "DP-SGD", **training.given}
        columns = (
            *(Column(name, "", printed=False, shared=True) for name in fixed),
            *(Column(name, head_of(name)) for name in self.columns),
            Column("noise_multiplier", "noise multiplier that meets it", side="upper"),
            Column("delta_upper", head_of("delta_upper")),
            Column("refuted_noise_multiplier", "refuted", side="lower"),
            Column("refuted_delta_lower", head_of("delta_lower")),
            Column("within_tolerance", "", number=False, printed=False),
            Column("adjacency", "", number=False, printed=False, shared=True),
        )
        rows = []
        for point, one in zip(zip(*self.columns.values(), strict=True), self.sized, strict=True):
            meets, less = one.printed.meets, one.printed.refuted
            cells = (
                Shown(meets.scale, one.scale),
                Shown(rounded_up(meets.bound), one.delta_upper),
                Shown(less.scale, one.refuted_scale),
                Shown(rounded_down(less.bound), one.refuted_delta_lower),
            )
            rows.append((*fixed.values(), *point, *cells, one.within_tolerance, one.adjacency.value))
        given = " ".join(f"{name}={value}" for name, value in training.given.items())
        caption = f"DP-SGD {given}", f"neighbours: {training.adjacency.in_words}"
        return Sheet(columns, tuple(rows), caption, (SMALLER, *training.notes, f"For a paper: {self.sentence}"))


def dpsgd_noise(
    *,
    examples: int,
    batch: int | None = None,
    sample_rate: float | None = None,
    epsilon: Any,
    epochs: Any = None,
    steps: Any = None,
    delta: Any = None,
    tolerance: float = DEFAULT_STEP,
    strict: bool = False,
) -> DpsgdNoise:
    """Return the smallest noise multiplier with which a run of DP-SGD provably is (ε, δ)-private.

    The assumptions are those of `dpsgd`.

    Parameters
    ----------
    examples, batch, sample_rate, epochs, steps, delta
        As of `dpsgd`.
    epsilon : float or array_like of float
        The promised ε, nats, at least 0.
    tolerance : float, optional
        How much smaller the refuted noise multiplier is, relatively; from 1e-6 to 1/2.
    strict : bool, optional
        Whether it is an error if the refuted one is smaller by more than the tolerance.

    Returns
    -------
    DpsgdNoise
        For each number of steps, ε and δ the noise multiplier with its certificate, both for the sampling rate batch /
        examples, rounded up to a float.

    Raises
    ------
    InvalidInputError
        An argument is out of its range; or no noise multiplier that `size` looks at meets the target, or all do.
    PrecisionError
        As for `size`; warnings likewise.

    Examples
    --------
    >>> from pbdist.accounting import dpsgd_noise
    >>> found = dpsgd_noise(examples=60_000, batch=256, epsilon=2.0, epochs=60, delta=1e-5)
    >>> sized, = found.sized
    >>> sized.delta_upper <= 1e-5 < sized.refuted_delta_lower
    True
    """
    given = {"batch": batch, "sample_rate": sample_rate, "epochs": epochs, "steps": steps}
    training = checked_training(examples, delta, given, sized=True)
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
        for number, one, wanted in reported("target", [*product(training.steps, promised, training.delta)])
    )
    return DpsgdNoise(training, promised, sized)
