"""Bounds of earlier work on δ of a composition, with the inputs and outputs of `privacy_bounds`."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import log_ndtr

from pbdist.arguments import (
    check_choice,
    check_totals,
    checked_components,
    checked_compositions,
    checked_delta,
    checked_epsilon,
    checked_neighbours,
    components_of,
)
from pbdist.bounds.delta import Axis, Variable, bounds_dataset
from pbdist.errors import InvalidInputError, shown
from pbdist.mechanisms import ApproximateDP, Pair, SubsampledGaussian, reveals_nothing
from pbdist.pld.engine import delta_above
from pbdist.pld.loss_profile import loss_profile
from pbdist.table import bounds_table
from pbdist.theorems import oblivious
from pbdist.theorems.renyi import RoundPrivacy, concentrated_of, moments_of
from pbdist.types import EPSILON, FloatArray

if TYPE_CHECKING:
    import xarray as xr


def gaussian_parameter(components: Sequence[tuple[Pair, int]], rounds: int) -> float:
    """Return μ of the Gaussian differential privacy that a composition tends to; an approximation.

    Of sampled Gaussian noise q √(r (e^(1/σ²) - 1)) (Bu, Dong, Long & Su 2020, Corollary 5.4), of anything else
    2 Σ E L / √(Σ Var L) for the losses L of all rounds (Dong, Roth & Su 2022, Theorem 5.2).
    """
    factors = [(factor, count) for pair, count in components for factor in pair.factors]
    if all(isinstance(factor, SubsampledGaussian) for factor, _ in factors):
        total = 0.0
        for factor, count in factors:
            if isinstance(factor, SubsampledGaussian):
                exponent = (factor.sensitivity / factor.scale) ** 2
                total += count * factor.rate**2 * math.expm1(exponent) if exponent < 700.0 else math.inf
        return _representable(math.sqrt(rounds * total))
    mean = variance = 0.0
    for factor, count in factors:
        profile = loss_profile(factor, 1.0, 1.0)
        if profile.only_a > 0.0 or profile.only_b > 0.0 or not profile.loss.size:
            raise InvalidInputError(f"theorem: clt needs a mechanism whose losses are finite, got {shown(factor)}")
        _, means, variances, _ = profile.moments(np.array([0.0]))
        mean, variance = mean + count * float(means[0]), variance + count * float(variances[0])
    return _representable(2.0 * math.sqrt(rounds) * mean / math.sqrt(variance) if variance > 0.0 else 0.0)


def _representable(mu: float) -> float:
    """Refuse a μ whose δ float64 does not represent."""
    if not 1e-150 < mu < 1e150:
        raise InvalidInputError(f"mechanism: expected losses whose limit theorem float64 holds, got μ = {mu:.3g}")
    return mu


def gaussian_log_delta(mu: float, wanted: FloatArray) -> FloatArray:
    """Return ln δ of μ-Gaussian differential privacy: δ = Φ(μ/2 - ε/μ) - e^ε Φ(-μ/2 - ε/μ)."""
    first, second = log_ndtr(0.5 * mu - wanted / mu), wanted + log_ndtr(-0.5 * mu - wanted / mu)
    with np.errstate(divide="ignore"):
        return np.asarray(first + np.log(-np.expm1(np.minimum(second - first, 0.0))))


def clt_log_delta(components: Sequence[tuple[Pair, int]], rounds: int, wanted: FloatArray) -> FloatArray:
    """Return ln δ of a composition by the central limit theorem; neither an upper nor a lower bound."""
    return gaussian_log_delta(gaussian_parameter(components, rounds), wanted)


_Oblivious = Callable[[FloatArray, FloatArray, FloatArray, FloatArray], FloatArray]

_OBLIVIOUS: dict[str, _Oblivious] = {
    "naive": oblivious.naive,
    "adaptive": oblivious.adaptive,
    "advanced": oblivious.advanced,
    "advanced-kov": oblivious.advanced_closed_form,
}
#: The names that `earlier_bounds` takes, and the theorems they stand for.
THEOREMS = {
    "naive": "sums of ε and of δ (Meiser & Mohammadi 2018, Lemma 2)",
    "adaptive": "sum of ε, 1 - Π (1 - δ) (Meiser & Mohammadi 2018, Lemma 3)",
    "advanced": "advanced composition (Dwork, Rothblum & Vadhan 2010, Theorem III.3)",
    "advanced-kov": "advanced composition with better constants (Kairouz, Oh & Viswanath 2015, Theorem 3.5)",
    "kov": "optimal composition of one (ε, δ) (Kairouz, Oh & Viswanath 2015; Murtagh & Vadhan 2016)",
    "moments": "moments accountant (Abadi et al. 2016), Rényi differential privacy (Mironov 2017)",
    "moments-improved": "the same with the conversion of Canonne, Kamath & Steinke 2020",
    "concentrated": "zero-concentrated differential privacy (Bun & Steinke 2016)",
    "concentrated-improved": "the same with the conversion of Canonne, Kamath & Steinke 2020",
    "clt": "central limit theorem of Gaussian differential privacy (Dong, Roth & Su 2022): no bound",
}
#: Points of the first grid of ε of one round, of its refinements, and the number of these.
_FIRST, _CLOSER, _SEARCHES = 65, 9, 2
#: Compositions whose binomial probabilities are summed, at most.
_MAX_ROUNDS = 10**8
#: Points of the grid of ε of one round where each needs a composition of its own.
_FEW = 9


def earlier_bounds(
    mechanism: Pair | Iterable[tuple[Pair, int]], *, compositions: Any, epsilon: Any, theorem: str
) -> "xr.Dataset":
    """Bound δ(ε) after r compositions from above by a theorem of earlier work.

    Parameters
    ----------
    mechanism : Pair or sequence of (Pair, int)
        One worst-case pair, or several with how often each occurs, composed together.
    compositions : int or array_like of int
        Numbers of compositions r, at least 1; for a sequence, of repeats of the whole sequence.
    epsilon : float or array_like of float
        ε >= 0, nats.
    theorem : str
        One of `THEOREMS`. Those that start from one (ε, δ) of each pair use the best one on the pair's exact curve
        δ(ε). Any choice is valid.

    Returns
    -------
    xarray.Dataset
        ``delta_upper`` and its natural logarithm ``log_delta_upper`` over (``compositions``, ``epsilon``), rounded up,
        of the larger of the two directions; at most 1. With ``"clt"`` the names are ``delta_approximate`` and
        ``log_delta_approximate``: these are not bounds, and the truth may lie above them.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range, or the theorem does not apply to the mechanism: the text says why.

    Examples
    --------
    >>> from pbdist import RandomizedResponse, earlier_bounds
    >>> known = earlier_bounds(RandomizedResponse(0.51), compositions=512, epsilon=1.0, theorem="kov")
    >>> bool(known.delta_upper > 0.0)
    True
    """
    check_choice("theorem", theorem, tuple(THEOREMS))
    components = components_of(mechanism)
    parts = checked_components(components)
    rounds = checked_compositions(compositions)
    losses = checked_epsilon(epsilon)
    check_totals(parts, rounds)
    bound = bound_by(theorem, parts)
    # The largest first, which may be refused: that comes before any work.
    order = np.argsort(-rounds, kind="stable")
    log_delta = np.empty((rounds.size, losses.size))
    for index in order.tolist():
        log_delta[index] = bound(int(rounds[index]), losses)
    values = delta_above(log_delta)
    kind, what = ("approximate", "approximation of") if theorem == "clt" else ("upper", "upper bound on")
    return bounds_dataset(
        {
            f"delta_{kind}": Variable(np.minimum(values, 1.0)[None], f"{what} δ"),
            f"log_delta_{kind}": Variable(log_delta[None], f"natural logarithm of the {what} δ"),
        },
        rounds,
        Axis(EPSILON, losses, "privacy loss ε in nats"),
        direction="both",
        neighbours=checked_neighbours(components, None),
        attributes={"theorem": theorem, "source": THEOREMS[theorem]},
    )


def bound_by(theorem: str, parts: list[tuple[Pair, int]]) -> Callable[[int, FloatArray], FloatArray]:
    """Return the theorem's function from a number of rounds and ε, shape (E,), to ln δ, shape (E,).

    An `InvalidInputError` says why the theorem does not apply to the mechanism.
    """
    if reveals_nothing(parts):
        return lambda _, losses: np.full(losses.size, -np.inf)
    for pair, _ in parts:
        if any(excess for factor in pair.factors for excess in factor.mass_excess):
            raise InvalidInputError(
                f"mechanism: the theorem needs probabilities that sum to 1 exactly, got {shown(pair)}:"
                " give counts of the same sum"
            )
    after = _after(theorem, parts)

    def known(rounds: int, losses: FloatArray) -> FloatArray:
        repeats = rounds * max(count for _, count in parts)
        if theorem == "kov" and repeats > _MAX_ROUNDS:
            raise InvalidInputError(f"compositions: expected at most {_MAX_ROUNDS} with theorem kov, got {repeats}")
        log_delta = after(rounds, losses)
        # A NaN bounds nothing.
        return np.where(np.isnan(log_delta), 0.0, log_delta)

    return known


def _after(theorem: str, parts: list[tuple[Pair, int]]) -> Callable[[int, FloatArray], FloatArray]:
    kind, _, better = theorem.partition("-")
    if kind == "clt":
        return lambda r, losses: clt_log_delta(parts, r, losses)
    if kind in ("moments", "concentrated"):
        divergences = moments_of(parts) if kind == "moments" else concentrated_of(parts)
        return lambda r, losses: divergences.log_delta(r, losses, improved=bool(better))
    privacies = [RoundPrivacy(pair) for pair, _ in parts]
    counts = np.array([float(count) for _, count in parts])
    if theorem in ("naive", "adaptive"):
        return lambda r, losses: _split_evenly(_OBLIVIOUS[theorem], privacies, counts * r, losses)
    if theorem == "kov":
        return lambda r, losses: _optimal(privacies, counts, r, losses)
    return lambda r, losses: _searched(_OBLIVIOUS[theorem], privacies, counts * r, losses)


def _split_evenly(
    bound: _Oblivious, privacies: Sequence[RoundPrivacy], counts: FloatArray, losses: FloatArray
) -> FloatArray:
    """Give each pair a share of ε in proportion to its largest loss; the shares sum to ε."""
    largest = np.array([privacy.largest for privacy in privacies])
    # A little less than the whole, so that the sum of the shares is at most ε.
    share = losses[:, None] * largest / float(counts @ largest) * (1.0 - 1e-14)
    order = np.argsort(losses)
    log_delta = np.empty(share.shape)
    for column, privacy in enumerate(privacies):
        distinct, inverse = np.unique(share[order, column], return_inverse=True)
        log_delta[order, column] = privacy.log_delta(distinct)[inverse]
    return np.array(
        [float(bound(*one, counts, losses[i : i + 1])[0]) for i, one in enumerate(zip(share, log_delta, strict=True))]
    )


def _searched(
    bound: _Oblivious, privacies: Sequence[RoundPrivacy], counts: FloatArray, losses: FloatArray
) -> FloatArray:
    """Return the least bound over the ε of one round, in proportion to the largest losses of the pairs."""

    def bounds(scale: FloatArray) -> FloatArray:
        epsilon = np.stack([scale * privacy.largest for privacy in privacies], axis=1)
        log_delta = np.stack([privacy.log_delta(scale * privacy.largest) for privacy in privacies], axis=1)
        return np.stack([bound(e, d, counts, losses) for e, d in zip(epsilon, log_delta, strict=True)])

    return _least(bounds, privacies, losses.size)


def _optimal(privacies: Sequence[RoundPrivacy], counts: FloatArray, rounds: int, losses: FloatArray) -> FloatArray:
    """Return the least δ of composing M_{ε,δ} of each pair, over the (ε, δ) that it has."""
    if len(privacies) == 1:
        privacy, times = privacies[0], round(float(counts[0])) * rounds

        def one(scale: FloatArray) -> FloatArray:
            epsilon = scale * privacy.largest
            log_delta = privacy.log_delta(epsilon)
            return np.stack(
                [
                    oblivious.kairouz_oh_viswanath(float(e), float(d), times, losses)
                    for e, d in zip(epsilon, log_delta, strict=True)
                ]
            )

        return _least(one, privacies, losses.size)
    best = np.zeros(losses.size)
    for scale in np.append(np.geomspace(0.05, 1.0, _FEW - 1), 1.0 + 1e-12).tolist():
        pairs = []
        for privacy, count in zip(privacies, counts.tolist(), strict=True):
            epsilon = scale * privacy.largest
            delta = min(float(delta_above(privacy.log_delta(np.array([epsilon])))[0]), 1.0)
            pairs.append((ApproximateDP(epsilon, delta), round(count)))
        table = bounds_table(pairs, compositions=rounds, epsilon=losses, strict=False, joint_directions=True)
        best = np.minimum(best, table.log_delta_upper[:, 0].max(axis=0))
    return best


def _least(bound: Callable[[FloatArray], FloatArray], privacies: Sequence[RoundPrivacy], size: int) -> FloatArray:
    """Return the least bound over a grid of scales, refined about the best ones, shape (E,)."""
    scale = np.unique(np.concatenate([privacy.grid(_FIRST) / privacy.largest for privacy in privacies]))
    best = np.zeros(size)
    for _ in range(1 + _SEARCHES):
        found = bound(scale)
        best = np.minimum(best, found.min(axis=0))
        at = np.unique(found.argmin(axis=0))
        low, high = scale[np.maximum(at - 1, 0)], scale[np.minimum(at + 1, scale.size - 1)]
        scale = np.unique(np.concatenate([np.linspace(a, b, _CLOSER) for a, b in zip(low, high, strict=True)]))
    return best


#: The first ε tried, nats.
_FIRST_EPSILON: FloatArray = np.concatenate(([0.0], np.geomspace(1e-9, 1e6, 16)))
#: Relative accuracy of ε; and steps upwards where δ is still above its target.
_CLOSE, _STEPS = 1e-10, 40
#: ln δ where δ is 0.
_NOTHING = -1e9


def earlier_epsilon(
    mechanism: Pair | Iterable[tuple[Pair, int]], *, compositions: Sequence[int], delta: Sequence[float], theorem: str
) -> FloatArray:
    """Bound the least ε with which δ is met after r compositions from above, by a theorem of earlier work.

    The parameters are those of `earlier_bounds`, with a δ above 0 and below 1 for each r. Returned is for each an ε, in
    nats, at which the theorem's δ is at most that; infinite if there is none up to 1e6. Where δ falls steadily with ε,
    it is within a relative 1e-9 of the least. With ``"clt"`` it is an approximation, as its δ is.
    """
    check_choice("theorem", theorem, tuple(THEOREMS))
    parts = checked_components(components_of(mechanism))
    rounds = checked_compositions(compositions)
    check_totals(parts, rounds)
    if len(delta) != rounds.size:
        raise InvalidInputError(f"delta: expected one for each of {rounds.size} compositions, got {len(delta)}")
    checked_delta(delta)
    bound = bound_by(theorem, parts)
    # Below the logarithm: that of δ is rounded to nearest.
    limits = [math.nextafter(math.log(d) - 4e-16, -math.inf) for d in delta]
    return np.array([_least_epsilon(bound, int(r), limit) for r, limit in zip(rounds, limits, strict=True)])


def _least_epsilon(bound: Callable[[int, FloatArray], FloatArray], rounds: int, limit: float) -> float:
    """Return about the least ε with ln δ <= limit; never one where ln δ is above it."""
    from scipy.optimize import brentq  # noqa: PLC0415 -- it takes 20 MB, and no worker needs it

    def above(epsilon: float) -> float:
        return max(float(bound(rounds, np.array([epsilon]))[0]), _NOTHING) - limit

    met = bound(rounds, _FIRST_EPSILON) <= limit
    if not met.any():
        return math.inf
    first = int(np.argmax(met))
    if first == 0:
        return 0.0
    low, high = float(_FIRST_EPSILON[first - 1]), float(_FIRST_EPSILON[first])
    if above(low) <= 0.0 or above(high) > 0.0:
        # A search with fewer points may find another best (ε, δ) of a round.
        return high
    root = float(brentq(above, low, high, xtol=1e-300, rtol=_CLOSE, maxiter=200))
    for step in range(_STEPS):
        epsilon = root * (1.0 + _CLOSE * (2.0**step - 1.0))
        if epsilon < high and above(epsilon) <= 0.0:
            return epsilon
    return high
