"""δ(ε) of settings of ``docs/comparison.md`` by closed forms, binomial sums and Fourier inversion, without pbdist.

Each is within `CLOSE` of δ, relative: binomial sums and Gaussians have 50 digits, and the integrals are trapezoidal
sums of analytic functions, whose error is far below that of float64, which r rounds multiply. What is left out of the
slowly fading integrals of Laplace noise is the most.
"""

import math
from collections.abc import Callable

import mpmath
import numpy as np

__all__ = ["CLOSE", "TRUTHS"]

CLOSE = 1e-5

_Truth = Callable[[float], float]


def gaussian(mu: str) -> _Truth:
    """Return δ(ε) of Gaussian noise of sensitivity over scale μ (Balle & Wang 2018, Theorem 8)."""

    def delta(epsilon: float) -> float:
        with mpmath.workdps(80):
            m, e = mpmath.mpf(eval(mu, {"mpf": mpmath.mpf})), mpmath.mpf(epsilon)  # noqa: S307 -- our own text
            return float(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))

    return delta


def randomized(loss: str, rounds: int, revealed: str = "0") -> _Truth:
    """Return δ(ε) of rounds that lose ±loss, or all with a probability: the binomial sum of Kairouz et al. 2015."""

    def delta(epsilon: float) -> float:
        with mpmath.workdps(50):
            one, e = eval(loss, {"mpf": mpmath.mpf, "log": mpmath.log}), mpmath.mpf(epsilon)  # noqa: S307
            p = 1 / (1 + mpmath.exp(one))
            total = mpmath.mpf(0)
            for worse in range(rounds + 1):
                excess = (rounds - 2 * worse) * one - e
                if excess > 0:
                    mass = mpmath.binomial(rounds, worse) * p**worse * (1 - p) ** (rounds - worse)
                    total -= mass * mpmath.expm1(-excess)
            kept = (1 - mpmath.mpf(revealed)) ** rounds
            return float(1 - kept + kept * total)

    return delta


def many_coins(bias: float, rounds: int) -> _Truth:
    """Return a lower bound on δ(ε) of that many coins of probabilities 1/2 ± bias, tight next to ε = 0.

    The event is more than half of heads. Its probabilities differ by the integral of r C(r-1, k-1) x^(k-1) (1-x)^(r-k)
    from 1/2 - bias to 1/2 + bias, at least its width times the lesser end; e^ε - 1 times one of at most 0.51 is lost.
    """

    def delta(epsilon: float) -> float:
        with mpmath.workdps(50):
            k, half, d = rounds // 2 + 1, mpmath.mpf("0.5"), mpmath.mpf(bias)
            scale = mpmath.log(rounds) + mpmath.loggamma(rounds) - mpmath.loggamma(k) - mpmath.loggamma(rounds - k + 1)
            ends = [
                mpmath.exp(scale + (k - 1) * mpmath.log(x) + (rounds - k) * mpmath.log(1 - x))
                for x in (half - d, half + d)
            ]
            return float(2 * d * min(ends) - mpmath.mpf("0.51") * mpmath.expm1(mpmath.mpf(epsilon)))

    return delta


def discrete_gaussian(scale: float, rounds: int) -> _Truth:
    """Return δ(ε) of discrete Gaussian noise with a scale of at least 20.

    The loss is a function of the sum S of all rounds. P(S = k) = e^(-k²/(2rσ²)) / √(2πrσ²) within e^(-σ²π²/2), by
    Poisson summation, as the characteristic function of one round is e^(-σ²t²/2) within that on [-π, π].
    """

    def delta(epsilon: float) -> float:
        spread = scale * math.sqrt(rounds)
        k = np.arange(-math.ceil(40 * spread) - rounds, math.ceil(40 * spread))
        log_a = -(k.astype(float) ** 2) / (2 * spread**2)
        log_b = -((k + float(rounds)) ** 2) / (2 * spread**2)
        gap = epsilon + log_b - log_a
        terms = np.exp(log_a) * -np.expm1(np.minimum(gap, 0.0))
        return math.fsum(terms) / (spread * math.sqrt(2 * math.pi))

    return delta


def _inverted(log_moment: Callable[[np.ndarray], np.ndarray], rounds: int, reach: float) -> _Truth:
    """Return δ(ε) = 1/(2πi) ∫ M(z)^r e^(-zε) / (z (z + 1)) dz along Re z = θ > 0, M(z) = E_A e^(zL).

    As (1 - e^(ε-s))⁺ is the same integral of e^(z(s-ε)) / (z (z + 1)). `reach` is how many deviations of the integrand
    are summed.
    """

    def log_size(theta: float, epsilon: float) -> float:
        with np.errstate(over="ignore"):
            value = log_moment(np.array([theta]))[0]
        return float(rounds * value - theta * epsilon - math.log(theta) - math.log1p(theta))

    def delta(epsilon: float) -> float:
        # The integrand is least along the real line where it falls fastest across it: any θ is right.
        grid = np.geomspace(1e-2, 25.0, 121)
        theta = float(grid[np.argmin([log_size(each, epsilon) for each in grid.tolist()])])
        z = theta * (1.0 + 1e-4 * np.array([-1.0, 0.0, 1.0]))
        values = [log_size(each, epsilon) for each in z.tolist()]
        width = 1.0 / math.sqrt((values[0] - 2 * values[1] + values[2]) / (1e-4 * theta) ** 2)
        t = np.arange(0.0, reach, 0.02) * width
        line = theta + 1j * t
        terms = np.exp(rounds * log_moment(line) - line * epsilon - values[1]) / (line * (line + 1))
        whole = 2.0 * math.fsum(terms.real[1:]) + terms.real[0]
        return whole * 0.02 * width / (2 * math.pi) * math.exp(values[1])

    return delta


def subsampled(scale: float, rate: float, rounds: int) -> _Truth:
    """Return δ(ε) of DP-SGD, mixture A from noise B: M(z) = E_B (1 - q + q e^((2x-1)/(2σ²)))^(z+1), B = N(0, σ²).

    For hundreds of sampled rounds and more: of fewer the integrand does not fade.
    """
    x = np.arange(-16.0, 80.0, 1.0 / 64.0)
    log_weight = -0.5 * x**2 - math.log(64.0 * math.sqrt(2 * math.pi))
    loss = np.log1p(rate * np.expm1((2 * scale * x - 1) / (2 * scale**2)))

    def log_moment(z: np.ndarray) -> np.ndarray:
        # M - 1 is summed, so that nothing is lost next to 1.
        return np.log1p(np.array([np.sum(np.exp(log_weight + (one + 1) * loss) - np.exp(log_weight)) for one in z]))

    return _inverted(log_moment, rounds, 14.0)


def laplace(scale: float, sensitivity: float, rounds: int) -> _Truth:
    """Return δ(ε) of Laplace noise, by Proposition 6 of Mironov 2017 for M."""
    one = sensitivity / scale

    def log_moment(z: np.ndarray) -> np.ndarray:
        a = z + 1
        return np.log1p((a * np.expm1((a - 1) * one) + (a - 1) * np.expm1(-a * one)) / (2 * a - 1))

    # Masses at single losses fade slowly.
    return _inverted(log_moment, rounds, 4000.0)


#: By the settings' names.
TRUTHS: dict[str, _Truth] = {
    "DP-SGD, σ 3, q 0.2, r 50, δ 1 / 48,000": subsampled(3.0, 0.2, 50),
    "DP-SGD, σ 4, q 0.01, r 65,536, δ 1e-5": subsampled(4.0, 0.01, 65_536),
    "DP-SGD, σ 4, q 0.01, r 65,536, δ 1e-12": subsampled(4.0, 0.01, 65_536),
    "DP-SGD, σ 1.021, q 0.00038, r 524,288, δ 1e-14": subsampled(1.021, 0.00038, 524_288),
    "DP-SGD, σ 2, q 0.005, r 300,000, δ 1e-12": subsampled(2.0, 0.005, 300_000),
    "Gaussian, σ 20, r 256, ε 7.0": gaussian("mpf(16) / 20"),
    "Gaussian, σ 1e+16, r 1, δ 1e-18": gaussian("1 / mpf(10) ** 16"),
    "Gaussian, σ 1e+08, r 1, δ 1e-10": gaussian("1 / mpf(10) ** 8"),
    "Gaussian, σ 20, one record replaced, r 256, δ 1e-5": gaussian("2 * mpf(16) / 20"),
    "Laplace, scale 20, one record replaced, r 256, δ 1e-5": laplace(20.0, 2.0, 256),
    "Laplace, scale 20, r 256, ε 8.0": laplace(20.0, 1.0, 256),
    "Laplace, scale 1541, r 32,768, δ 1e-13": laplace(1541.0, 1.0, 32_768),
    "discrete Gaussian, σ 20, r 256, ε 0": discrete_gaussian(20.0, 256),
    "discrete Gaussian, σ 200, r 8,192, δ 1e-13": discrete_gaussian(200.0, 8_192),
    "randomized response, 2/3 noise, r 10, δ 1e-5": randomized("log(2)", 10),
    "randomized response, noise 1 - 2^-28, r 2^30, δ 1e-5": many_coins(2.0**-29, 2**30),
    "pure ε₀ = 1, r 50, δ 1e-5": randomized("mpf(1)", 50),
    "pure ε₀ = 5, r 40, δ 1e-5": randomized("mpf(5)", 40),
    "pure ε₀ = 1, r 1,000, δ 1e-5": randomized("mpf(1)", 1000),
    "(0.1, 1e-6)-DP, r 100, δ 1e-3": randomized("mpf('0.1')", 100, "1e-6"),
    "(1, 1e-8)-DP, r 50, δ 1e-5": randomized("mpf(1)", 50, "1e-8"),
}
