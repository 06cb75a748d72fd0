"""Time ε of a training run by pbdist and by the everyday call of each rival, in turns, in one process.

``python -m tests.benchmarks.rivals`` prints a table. The rivals come from PyPI: dp-accounting, prv-accountant,
opake-accounting with opake-dpsgd (Python 3.13), riskcal, jax-privacy and pld-accounting. Times are CPU seconds; set
``OPENBLAS_NUM_THREADS=1``. Each repetition changes σ in the eighth digit, so that no cache answers, and a first call
does the late imports.
"""

import contextlib
import io
import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import NamedTuple

from pbdist import RandomAllocation, SubsampledGaussian, epsilon_bounds

_DELTA = 1e-5
#: With the default, 1e-3, our bounds are not always closer than the others' ε.
_TOLERANCE = 1e-4
#: σ, q, r of DP-SGD; σ, steps, epochs of random allocation.
_TRAINING = ((1.0, 0.01, 10_000), (0.8, 0.001, 100_000), (2.0, 0.02, 1_000), (4.0, 0.01, 65_536), (2.0, 0.001, 10_000))
_ALLOCATION = ((1.0, 100, 10),)
#: Questions that no time is taken of.
_FIRST_TRAINING, _FIRST_ALLOCATION = (1.3, 0.02, 100), (3.0, 4, 1)


class Timed(NamedTuple):
    """An ε, and the CPU seconds of its call."""

    epsilon: float
    seconds: float


#: Returns the ε that a user of the rival would state, of σ, q and r (or σ, steps and epochs).
Call = Callable[[float, float, int], float]


def _dp_accounting(sigma: float, rate: float, steps: int) -> float:
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    made = from_gaussian_mechanism(sigma, value_discretization_interval=1e-4, sampling_prob=rate)
    return float(made.self_compose(steps).get_epsilon_for_delta(_DELTA))


def _prv_accountant(sigma: float, rate: float, steps: int) -> float:
    from prv_accountant import PoissonSubsampledGaussianMechanism, PRVAccountant

    one = PoissonSubsampledGaussianMechanism(noise_multiplier=sigma, sampling_probability=rate)
    made = PRVAccountant(prvs=[one], max_self_compositions=[steps], eps_error=0.01, delta_error=1e-8)
    return float(made.compute_epsilon(_DELTA, [steps])[2])


def _opake(sigma: float, rate: float, steps: int) -> float:
    from opake.dpsgd import accounting

    return float((accounting.poisson(accounting.gaussian(sigma), sample_rate=rate) * steps).epsilon_at(_DELTA))


def _riskcal(sigma: float, rate: float, steps: int) -> float:
    from riskcal.accountants import CTDAccountant

    made = CTDAccountant()
    # What a loop of steps leaves there, without the loop.
    made.history = [(sigma, rate, steps)]
    return float(made.get_epsilon(delta=_DELTA))


def _jax_privacy(sigma: float, rate: float, steps: int) -> float:
    from jax_privacy.accounting import accountants, analysis

    examples = 10**6
    run = analysis.DpParams(
        noise_multipliers=sigma, num_samples=examples, delta=_DELTA, batch_size=round(rate * examples)
    )
    return float(analysis.DpsgdTrainingAccountant(accountants.PldAccountantConfig()).compute_epsilon(steps, run))


def _pld_accounting(sigma: float, steps: float, epochs: int) -> float:
    from PLD_accounting import gaussian_allocation_epsilon_range

    return float(
        gaussian_allocation_epsilon_range(delta=_DELTA, sigma=sigma, num_steps=int(steps), num_epochs=epochs)[0]
    )


#: The package of each rival, and its call.
_RIVALS_TRAINING: Mapping[str, Call] = {
    "dp-accounting": _dp_accounting,
    "prv-accountant": _prv_accountant,
    "opake-accounting": _opake,
    "riskcal": _riskcal,
    "jax-privacy": _jax_privacy,
}
_RIVALS_ALLOCATION: Mapping[str, Call] = {"pld-accounting": _pld_accounting}


def _own_training(sigma: float, rate: float, steps: int) -> tuple[float, float]:
    found = epsilon_bounds(
        SubsampledGaussian(scale=sigma, rate=rate), compositions=steps, delta=_DELTA, tolerance=_TOLERANCE
    )
    return found.epsilon_lower.item(), found.epsilon_upper.item()


def _own_allocation(sigma: float, steps: float, epochs: int) -> tuple[float, float]:
    found = epsilon_bounds(RandomAllocation(scale=sigma, steps=int(steps)), compositions=epochs, delta=_DELTA)
    return found.epsilon_lower.item(), found.epsilon_upper.item()


def _median(call: Call, repetitions: int, sigma: float, *rest: float) -> Timed:
    """Return the answer at σ, and the median time of calls very close to it."""
    times: list[float] = []
    for repetition in range(repetitions):
        start = time.process_time()
        # Some rivals print.
        with contextlib.redirect_stdout(io.StringIO()):
            found = call(sigma * (1.0 + 1e-8 * (repetition + 1)), rest[0], int(rest[1]))
        times.append(time.process_time() - start)
    return Timed(found, statistics.median(times))


def main() -> None:
    """Print a Markdown table of times and answers."""
    warnings.simplefilter("ignore")
    print(", ".join(f"{name} {version(name)}" for name in (*_RIVALS_TRAINING, *_RIVALS_ALLOCATION, "pbdist")))
    print("\n| question | rival | its ε | its time, s | ours | our time, s | ratio |\n|---|---|---|---|---|---|---|")
    ratios: list[float] = []
    for named, first, questions, rivals, own, repetitions in (
        ("σ {}, q {}, r {:,}", _FIRST_TRAINING, _TRAINING, _RIVALS_TRAINING, _own_training, 3),
        (
            "σ {}, one of {:,} steps, {:,} epochs",
            _FIRST_ALLOCATION,
            _ALLOCATION,
            _RIVALS_ALLOCATION,
            _own_allocation,
            1,
        ),
    ):
        for call in (*rivals.values(), own):
            call(*first)
        for question in questions:
            for name, call in rivals.items():
                theirs = _median(call, repetitions, *question)
                ours = _median(lambda *given, own=own: own(*given)[1], repetitions, *question)
                lower, upper = own(*question)
                verdict = ", below our lower bound" if theirs.epsilon < lower * (1.0 - 1e-7) else ""
                ratios.append(theirs.seconds / ours.seconds)
                print(
                    f"| {named.format(*question)} | {name} | {theirs.epsilon:.6g}{verdict} | {theirs.seconds:.3f} "
                    f"| {lower:.6g} to {upper:.6g} | {ours.seconds:.3f} | {ratios[-1]:.1f} |",
                    flush=True,
                )
    print(f"\nleast ratio {min(ratios):.1f}, geometric mean {math.exp(statistics.mean(map(math.log, ratios))):.1f}")


if __name__ == "__main__":
    main()
