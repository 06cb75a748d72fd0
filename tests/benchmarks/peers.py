"""The same bounds by other libraries: what is computed, and with which tolerance pbdist is at least as accurate.

Each peer returns its bounds at the ε of the case. pbdist computes both directions and both bounds, leaf included.
"""

import json
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from xarray import Dataset

from pbdist import Gaussian, SubsampledGaussian, privacy_bounds
from tests.benchmarks.side_by_side import SideBySide, in_turns

#: Tried from the left, so that the largest sufficient tolerance is found: an eighth of a decade apart.
TOLERANCES = tuple(float(f"{10.0 ** (-k / 8):.2g}") for k in range(45))


@dataclass(frozen=True)
class Bounds:
    """A peer's bounds on δ at each ε; the lower one where it gives one."""

    upper: np.ndarray
    lower: np.ndarray | None = None


@dataclass(frozen=True)
class Comparison:
    """A computation, a peer's and our own."""

    name: str
    peer_name: str
    #: δ at each ε.
    exact: tuple[float, ...]
    peer: Callable[[], Bounds]
    #: Of the tolerance.
    own: Callable[[float], Dataset]
    #: How many times as fast as the peer pbdist is meant to be.
    target: float
    #: For a table; fewer where the peer takes long.
    repetitions: int
    #: No tolerance above this is tried.
    largest: float = 1.0

    def as_accurate(self, theirs: Bounds, tolerance: float) -> bool:
        """Whether our bounds are at no ε farther from δ than the peer's are."""
        bounds = self.own(tolerance)
        upper, lower = np.ravel(bounds.delta_upper.values), np.ravel(bounds.delta_lower.values)
        return bool(np.all(upper <= theirs.upper) and (theirs.lower is None or np.all(lower >= theirs.lower)))

    def tolerance(self, theirs: Bounds) -> float:
        """Return the largest tolerance that is as accurate as the peer's bounds."""
        tried = [tolerance for tolerance in TOLERANCES if tolerance <= self.largest]
        return next(tolerance for tolerance in tried if self.as_accurate(theirs, tolerance))

    def errors(self, upper: np.ndarray) -> tuple[float, ...]:
        """Relative errors of upper bounds."""
        return tuple((np.ravel(upper) / np.array(self.exact) - 1.0).tolist())

    def times(self, tolerance: float, repetitions: int) -> SideBySide:
        """Run both in turns, after a run of each whose late imports are not its time."""
        self.peer(), self.own(tolerance)
        return in_turns(self.peer, partial(self.own, tolerance), repetitions)


def comparisons() -> list[Comparison]:
    """Return the cases."""
    return [
        _subsampled(1e-4, 10.0, 7),
        _subsampled(1e-5, 30.0, 3),
        _gaussian(1e-5, 10.0, 15),
        _gaussian(1e-5, 1.0, 15, truncate=(-40.0 * _SCALE, 40.0 * _SCALE)),
        _prv(300.0, 3),
        _many_gaussians(1e-4, 10.0, 5),
    ]


#: DP-SGD: noise 4, rate 0.01, 65,536 steps.
_NOISE, _RATE, _STEPS, _STEP_EPSILON = 4.0, 0.01, 65_536, (1.0, 2.0, 3.0)
_SUBSAMPLED = SubsampledGaussian(scale=_NOISE, rate=_RATE)
#: δ at ε = 3, within 1e-6 of it: by pbdist, at tolerance 2e-6.
_EXACT_AT_3 = 1.141893e-06

_SCALE, _ROUNDS, _EPSILON = 200.0 * math.sqrt(2.0), 512, (0.1, 0.2, 0.3)
_SCALES = tuple(200.0 + 0.8 * j for j in range(1000))


def _own(mechanism: object, rounds: int, epsilon: tuple[float, ...], tolerance: float) -> Dataset:
    return privacy_bounds(mechanism, compositions=rounds, epsilon=epsilon, tolerance=tolerance)


def _exact(name: str, epsilon: tuple[float, ...]) -> tuple[float, ...]:
    path = Path(__file__).parents[1] / "exact_values.json"
    cases = {case["name"]: case["delta"] for case in json.loads(path.read_text(encoding="utf-8"))["cases"]}
    known = {float(key): float(delta) for key, delta in cases[name].items()}
    return tuple(known[each] for each in epsilon)


def _step_exact() -> tuple[float, ...]:
    return (*_exact("dpsgd_remove", _STEP_EPSILON[:2]), _EXACT_AT_3)


def dp_accounting(scale: float, interval: float, **settings: Any) -> Any:
    """Return dp-accounting's loss distribution of Gaussian noise."""
    library = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    return library.from_gaussian_mechanism(
        scale, value_discretization_interval=interval, use_connect_dots=True, **settings
    )


def _asked(composed: Callable[[], Any], epsilon: tuple[float, ...]) -> Callable[[], Bounds]:
    """Return what asks a composition of dp-accounting's: one by one, for given a list it is several times as slow."""

    def peer() -> Bounds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = composed()
            return Bounds(np.array([found.get_delta_for_epsilon(each) for each in epsilon]))

    return peer


def _subsampled(interval: float, target: float, repetitions: int) -> Comparison:
    peer = _asked(lambda: dp_accounting(_NOISE, interval, sampling_prob=_RATE).self_compose(_STEPS), _STEP_EPSILON)
    own = partial(_own, _SUBSAMPLED, _STEPS, _STEP_EPSILON)
    name = f"DP-SGD, σ 4, q 0.01, r 65,536; h {interval:g}"
    return Comparison(name, "dp-accounting", _step_exact(), peer, own, target, repetitions)


def _gaussian(
    interval: float, target: float, repetitions: int, truncate: tuple[float, float] | None = None
) -> Comparison:
    # Noise that is cut so far out has the same δ, by more than 300 digits, and no closed form.
    peer = _asked(lambda: dp_accounting(_SCALE, interval).self_compose(_ROUNDS), _EPSILON)
    own = partial(_own, Gaussian(_SCALE, truncate=truncate), _ROUNDS, _EPSILON)
    name = f"Gaussian, σ 200√2{', cut at 40 σ' if truncate else ''}, r 512; h {interval:g}"
    return Comparison(name, "dp-accounting", _exact("gaussian", _EPSILON), peer, own, target, repetitions)


def _many_gaussians(interval: float, target: float, repetitions: int) -> Comparison:
    def composed() -> Any:
        return reduce(lambda whole, one: whole.compose(one), (dp_accounting(scale, interval) for scale in _SCALES))

    # Gaussians composed are one Gaussian, whose δ is known in closed form.
    mu = math.sqrt(math.fsum(scale**-2 for scale in _SCALES))
    exact = tuple(_gaussian_delta(mu, epsilon) for epsilon in _EPSILON)
    own = partial(_own, [(Gaussian(scale), 1) for scale in _SCALES], 1, _EPSILON)
    name = f"1,000 Gaussians, σ 200 to 999.2; h {interval:g}"
    peer = _asked(composed, _EPSILON)
    return Comparison(name, "dp-accounting", exact, peer, own, target, repetitions, largest=0.01)


def _prv(target: float, repetitions: int) -> Comparison:
    def peer() -> Bounds:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            library = pytest.importorskip("prv_accountant")
            accountant = library.PRVAccountant(
                prvs=[library.PoissonSubsampledGaussianMechanism(noise_multiplier=_NOISE, sampling_probability=_RATE)],
                max_self_compositions=[_STEPS],
                eps_error=0.01,
                delta_error=1e-10,
            )
            found = np.array([accountant.compute_delta(epsilon, [_STEPS]) for epsilon in _STEP_EPSILON])
            return Bounds(upper=found[:, 2], lower=found[:, 0])

    own = partial(_own, _SUBSAMPLED, _STEPS, _STEP_EPSILON)
    name = "DP-SGD, σ 4, q 0.01, r 65,536; errors 0.01 in ε, 1e-10 in δ"
    return Comparison(name, "prv-accountant", _step_exact(), peer, own, target, repetitions)


def _gaussian_delta(mu: float, epsilon: float) -> float:
    """δ of the Gaussian mechanism of sensitivity over scale μ (Balle & Wang 2018, Theorem 8)."""
    with mpmath.workdps(40):
        m, e = mpmath.mpf(mu), mpmath.mpf(epsilon)
        return float(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))
