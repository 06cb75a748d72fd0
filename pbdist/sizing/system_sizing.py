"""The noise of a system: whether what was published meets a target, and the smallest that does."""

from dataclasses import dataclass
from typing import Any

from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import Laplace, Pair
from pbdist.query.targets import Verdict
from pbdist.sizing.api import CountFamily, SizedNoise, size
from pbdist.sizing.observations import CountNoise, NoisyCounts, System, SystemTarget
from pbdist.table import bounds_table

__all__ = ["Judgement", "judge", "size_system"]

#: Widths of the bounds that are asked for until the target is told from δ.
_TOLERANCES = (1e-3, 1e-4, 1e-6)


@dataclass(frozen=True)
class Judgement:
    """Certified bounds on δ at a target, the larger of the two directions, and what they say about it."""

    delta_lower: float
    delta_upper: float
    verdict: Verdict


def judge(mechanism: Pair, target: SystemTarget) -> Judgement:
    """Tell whether a mechanism meets a target: YES and NO are proved, else UNDECIDED."""
    lower, upper = 0.0, 1.0
    for tolerance in _TOLERANCES:
        table = bounds_table(
            [(mechanism, 1)],
            compositions=target.compositions,
            epsilon=target.epsilon,
            tolerance=tolerance,
            # Bounds that miss the tolerance are bounds still.
            strict=False,
            together=True,
        )
        lower, upper = max(lower, float(table.delta_lower.max())), min(upper, float(table.delta_upper.max()))
        if upper <= target.delta:
            return Judgement(lower, upper, Verdict.YES)
        if lower > target.delta:
            return Judgement(lower, upper, Verdict.NO)
    return Judgement(lower, upper, Verdict.UNDECIDED)


def size_system(
    system: System,
    target: SystemTarget,
    *,
    noise: CountNoise | None = None,
    reading: str | None = None,
    tolerance: float = 0.01,
    **options: Any,
) -> SizedNoise:
    """Return the smallest noise of a system that provably meets a target, with its certificate.

    Parameters
    ----------
    system : System
    target : SystemTarget
        One of the system's, or any other.
    noise : Laplace or Gaussian, optional
        For noisy counts: the class of the noise, by default that of the first published setting, or else Laplace.
    reading : str, optional
        For noisy counts: by default the protocol's own.
    tolerance : float, optional
        How much smaller the noise is that is refuted, relatively.
    **options
        Passed on to `pbdist.size`.

    Returns
    -------
    SizedNoise
        For noisy counts mean and scale are those of the system's noise, of which each count has its share, and
        ``expected_messages`` are those on all counts.

    Raises
    ------
    InvalidInputError
        If noise or reading is given to a system without noisy counts, the reading is none of the system's, or no noise
        is found that meets the target.
    PrecisionError
        If the bounds cannot tell δ from the target where that decides.
    """
    goal: dict[str, Any] = {"compositions": target.compositions, "epsilon": target.epsilon, "delta": target.delta}
    observation = system.observation
    if not isinstance(observation, NoisyCounts):
        for name, value in (("noise", noise), ("reading", reading)):
            if value is not None:
                raise InvalidInputError(f"{name}: expected none for {system.name}, got {shown(value)}")
        parameters: dict[str, Any] = dict(observation.parameters)
        return size(observation.kind, tolerance=tolerance, **goal, **parameters, **options)
    chosen = reading or observation.readings[0]
    if chosen not in observation.readings:
        known = ", ".join(observation.readings)
        raise InvalidInputError(f"reading: expected one of {known} for {system.name}, got {shown(reading)}")
    published = next((setting.noise for setting in system.settings if setting.noise is not None), Laplace)
    kind = noise or published
    family = CountFamily(
        lambda mean, scale: observation.mechanism(kind, mean, scale, chosen),
        weights=tuple(count.messages for count in observation.counts),
    )
    return size(family, tolerance=tolerance, **goal, **options)
