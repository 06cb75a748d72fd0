"""Give Opacus an accountant of certified bounds: ``register()``, then ``PrivacyEngine(accountant="pbdist")``."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pbdist.accounting.accountant import Accountant, step_of
from pbdist.accounting.events import REVEALED
from pbdist.errors import InvalidInputError, MissingDependencyError, shown
from pbdist.mechanisms import Pair
from pbdist.results import DeltaBounds, EpsilonBounds

try:
    from opacus.accountants import IAccountant, register_accountant
    from opacus.utils.uniform_sampler import DistributedUniformWithReplacementSampler, UniformWithReplacementSampler
except ImportError as error:
    raise MissingDependencyError("an accountant for Opacus needs it: pip install 'pbdist[opacus]'") from error

#: What the accountant is called in Opacus.
NAME = "pbdist"
_OWNER = "OpacusAccountant"
#: What draws each record independently of the others. A subclass may draw otherwise.
_POISSON = (UniformWithReplacementSampler, DistributedUniformWithReplacementSampler)


def register() -> None:
    """Register the accountant with Opacus under the name "pbdist"; where it is registered, nothing changes.

    Then ``PrivacyEngine(accountant="pbdist")`` counts with it, as do ``opacus.accountants.create_accountant`` and
    ``make_private_with_epsilon``.
    """
    register_accountant(NAME, OpacusAccountant, force=True)


class OpacusAccountant(IAccountant):  # type: ignore[misc]  # Opacus has no types
    """Counts the steps of a training with Opacus, and bounds their ε and δ from both sides.

    What Opacus asks for, ``get_epsilon``, is the certified upper bound. Bounds are those of the Gaussian mechanism on a
    Poisson sample for one record added or removed, which is what Opacus runs with ``poisson_sampling=True``, its
    default; data loaders that draw otherwise are refused. The steps are those that the optimizer takes: in an epoch
    examples / batch, rounded up, as `pbdist.accounting.dpsgd` counts them.

    Attributes
    ----------
    history : list of (float, float, int)
        Noise multiplier, sampling rate, and for how many steps in a row: as Opacus' own accountants keep it.
    """

    history: list[tuple[float, float, int]]

    def __init__(self) -> None:
        super().__init__()

    @classmethod
    def mechanism(cls) -> str:
        """Return the name under which Opacus knows the accountant."""
        return NAME

    def __len__(self) -> int:
        """Return how many steps were taken."""
        return sum(steps for _, _, steps in self.history)

    def step(self, *, noise_multiplier: float, sample_rate: float) -> None:
        """Count a step of the optimizer.

        Raises
        ------
        InvalidInputError
            The noise multiplier is below 0, or the sampling rate not in (0, 1]. Nothing is counted then.
        """
        _pair_of(noise_multiplier, sample_rate)
        phase, steps = (float(noise_multiplier), float(sample_rate)), 1
        if self.history and tuple(self.history[-1][:2]) == phase:
            steps += self.history.pop()[2]
        self.history.append((*phase, steps))

    def get_optimizer_hook_fn(self, sample_rate: float, data_loader: Any = None) -> Callable[[Any], None]:
        """Return what Opacus calls after each step of an optimizer.

        It refuses the gradients of several batches in one step, which Opacus counts as one larger sample: a record may
        be in more than one of the batches, and then moves the sum further than the noise is made for. Opacus itself
        refuses them under Poisson sampling.

        Parameters
        ----------
        sample_rate : float
            The probability with which each record is in a batch.
        data_loader : DataLoader, optional
            What draws the batches: by default the loader of the calling ``PrivacyEngine``; without one, nothing is
            checked. If it draws records with a higher probability than `sample_rate`, that is counted.

        Raises
        ------
        InvalidInputError
            The loader does not draw Poisson samples.
        """
        frame = inspect.currentframe()
        if data_loader is None and frame is not None and frame.f_back is not None:
            # make_private does not hand its loader on.
            data_loader = frame.f_back.f_locals.get("data_loader")
        rate = sample_rate if data_loader is None else max(sample_rate, _rate_of(data_loader))

        def count(optimizer: Any) -> None:
            batches = optimizer.accumulated_iterations
            if batches != 1:
                raise InvalidInputError(
                    f"{_OWNER}: expected a step for each batch, got one for {batches}, together no Poisson sample"
                )
            self.step(noise_multiplier=optimizer.noise_multiplier, sample_rate=rate)

        return count

    def get_epsilon(self, delta: float, *, tolerance: float | None = None) -> float:
        """Return the certified upper bound on ε(δ) of all steps so far, nats; see ``epsilon_bounds``."""
        return float(self.epsilon_bounds(delta, tolerance=tolerance).upper)

    def epsilon_bounds(self, delta: Any, *, tolerance: float | None = None) -> EpsilonBounds:
        """Bound ε(δ) of all steps so far from both sides; arguments, errors and warnings as of `Accountant.epsilon`."""
        return self.accountant.epsilon(delta, tolerance=tolerance)

    def delta_bounds(self, epsilon: Any, *, tolerance: float | None = None) -> DeltaBounds:
        """Bound δ(ε) of all steps so far from both sides; arguments, errors and warnings as of `Accountant.delta`."""
        return self.accountant.delta(epsilon, tolerance=tolerance)

    @property
    def accountant(self) -> Accountant:
        """A `pbdist.Accountant` of the same steps."""
        return _accountant_of(self.history)

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue the history of a checkpoint, in place of this one.

        Raises
        ------
        ValueError
            The checkpoint is of another accountant, or of none; what was counted stays.
        """
        _accountant_of((state_dict or {}).get("history", ()))
        super().load_state_dict(state_dict)
        self.history = list(self.history)


def _pair_of(noise_multiplier: Any, sample_rate: Any) -> Pair:
    """Return the pair of a step; without noise it reveals the data."""
    pair = step_of(noise_multiplier or 1.0, sample_rate)
    return pair if noise_multiplier else REVEALED


def _accountant_of(history: Iterable[Any]) -> Accountant:
    """Return an accountant of the steps of a history, or refuse it."""
    found = Accountant()
    for phase in history:
        try:
            noise_multiplier, sample_rate, steps = phase
        except (TypeError, ValueError):
            raise InvalidInputError(
                f"history: expected (noise multiplier, sampling rate, steps), got {shown(phase)}"
            ) from None
        found = found.add(_pair_of(noise_multiplier, sample_rate), steps)
    return found


def _rate_of(data_loader: Any) -> float:
    """Return the probability with which a loader draws each record; what does not draw independently is refused."""
    sampler: Any = getattr(data_loader, "batch_sampler", None)
    if type(sampler) in _POISSON:
        return float(sampler.sample_rate)
    names = [type(one).__name__ for one in (sampler, getattr(sampler, "sampler", None)) if one is not None]
    raise InvalidInputError(
        f"{_OWNER}: expected batches that are Poisson samples, got those of {' of '.join(names) or 'no sampler'}: leave"
        " poisson_sampling=True in make_private, or make the loader with DPDataLoader.from_data_loader of Opacus"
    )
