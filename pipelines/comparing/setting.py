"""A setting: one question, and the calls of every library as they are printed and run."""

from dataclasses import dataclass, field

__all__ = ["Setting", "dp_sgd", "gaussian", "laplace", "pure"]


@dataclass(frozen=True)
class Setting:
    """One question, and the calls of each library.

    Attributes
    ----------
    name : str
        Short, for tables.
    mechanism : str
        Python text of our pair or sequence of pairs.
    compositions : int
    delta, epsilon : str
        Python text of the one that is given; the other one is in question.
    event : str
        dp-accounting's event of one composition, for its two accountants; empty if it has none.
    rdp_event : str
        Another event, which only its accountant by Rényi divergences takes.
    relation : str
        The neighbouring relation that its accountants are given, if not their default.
    leaves : tuple of (str, int)
        dp-accounting's privacy loss distributions of one composition, with ``{}`` for options, and how many.
    other : str
        One more call of dp-accounting, which the note explains.
    prv : tuple of (str, int)
        prv-accountant's mechanisms of one composition, and how often each occurs.
    eps_error : float
        The error in ε for prv-accountant.
    gaussian : str
        Scale of one Gaussian that has the same losses, for dp-accounting's closed form.
    left_out : dict of str to str
        Theorems that are left out, and why.
    note : str
        What is to be seen.
    """

    name: str
    mechanism: str
    compositions: int
    delta: str = ""
    epsilon: str = ""
    event: str = ""
    rdp_event: str = ""
    relation: str = ""
    leaves: tuple[tuple[str, int], ...] = ()
    other: str = ""
    prv: tuple[tuple[str, int], ...] = ()
    eps_error: float = 0.01
    gaussian: str = ""
    left_out: dict[str, str] = field(default_factory=dict)
    note: str = ""


def dp_sgd(scale: float, rate: float, steps: int, delta: str, *, note: str = "", fine: bool = False) -> Setting:
    """Return a setting of DP-SGD: Gaussian noise, Poisson sampling."""
    event = f"PoissonSampledDpEvent({rate}, GaussianDpEvent({scale}))"
    accountant = f"PLDAccountant(value_discretization_interval=1e-5).compose({event}, {steps}).get_epsilon({delta})"
    return Setting(
        name=f"DP-SGD, σ {scale:g}, q {rate:g}, r {steps:,}, δ {delta.replace('_', ',')}",
        mechanism=f"SubsampledGaussian({scale}, {rate})",
        compositions=steps,
        delta=delta,
        event=event,
        leaves=((f"from_gaussian_mechanism({scale}, sampling_prob={rate}{{}})", 1),),
        other=accountant if fine else "",
        prv=((f"PoissonSubsampledGaussianMechanism(sampling_probability={rate}, noise_multiplier={scale})", 1),),
        eps_error=0.1 if steps > 50_000 else 0.01,
        note=note,
    )


def gaussian(scale: float, rounds: int, alone: str, *, note: str = "", delta: str = "", epsilon: str = "") -> Setting:
    """Return a setting of Gaussian noise; `alone` is the scale of all rounds in one."""
    return Setting(
        name=f"Gaussian, σ {scale:g}, r {rounds:,}, {f'δ {delta}' if delta else f'ε {epsilon}'}",
        mechanism=f"Gaussian({scale})",
        compositions=rounds,
        delta=delta,
        epsilon=epsilon,
        event=f"GaussianDpEvent({scale})",
        leaves=((f"from_gaussian_mechanism({scale}{{}})", 1),),
        prv=((f"GaussianMechanism({scale})", 1),),
        gaussian=alone,
        note=note,
    )


def laplace(scale: float, rounds: int, *, note: str = "", delta: str = "", epsilon: str = "") -> Setting:
    """Return a setting of Laplace noise."""
    return Setting(
        name=f"Laplace, scale {scale:g}, r {rounds:,}, {f'δ {delta}' if delta else f'ε {epsilon}'}",
        mechanism=f"Laplace({scale})",
        compositions=rounds,
        delta=delta,
        epsilon=epsilon,
        event=f"LaplaceDpEvent({scale})",
        leaves=((f"from_laplace_mechanism({scale}{{}})", 1),),
        prv=((f"LaplaceMechanism(1 / {scale})", 1),),
        note=note,
    )


def pure(epsilon: int, rounds: int, note: str) -> Setting:
    """Return a setting of randomized response with that ε, the worst case of all mechanisms with it."""
    noise = f"2 / (1 + exp({epsilon}))"
    return Setting(
        name=f"pure ε₀ = {epsilon}, r {rounds:,}, δ 1e-5",
        mechanism=f"RandomizedResponse(1 / (1 + exp(-{epsilon})))",
        compositions=rounds,
        delta="1e-5",
        event=f"RandomizedResponseDpEvent({noise}, 2)",
        relation="NeighboringRelation.REPLACE_ONE",
        leaves=((f"from_randomized_response({noise}, 2{{}})", 1),),
        other=f"from_randomized_response({noise}, 2).self_compose({rounds}).get_epsilon_for_delta(1e-5)",
        prv=((f"PureDPMechanism({epsilon})", 1),),
        eps_error=0.1 if rounds > 500 else 0.01,
        note=note,
    )
