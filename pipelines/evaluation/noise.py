"""Claims about Laplace against Gaussian noise, and about numbers of buckets: sections 1.1, 4.6, 6 and 8."""

import math

from pbdist.rounding import rounded_up
from pipelines.beyond import FEW_ROUNDS, WIDTH_FLOOR, bucket_widths, gap_limit, gaps, widest
from pipelines.evaluation.claim import Claim, Finding, Interval
from pipelines.evaluation.stored import Stored

__all__ = ["claims"]

#: The last r of the study of Laplace against Gaussian noise.
_LAST = 2**20


def _levels(stored: Stored) -> list[Finding]:
    """δ where the curves of Figure 14(b), left, have levelled out."""
    laplace, gauss = (stored.line("figure-14c", label) for label in ("Laplace", "Gauss"))
    first = Interval(float(laplace.lower[-1]), float(laplace.upper[-1]))
    second = Interval(float(gauss.lower[-1]), float(gauss.upper[-1]))
    ratio = first.over(second)
    orders = Interval(math.log10(ratio.lower), math.log10(ratio.upper))
    text = f"levels {first} and {second}: {orders} orders"
    return [Finding("", text, orders.between(3.5, 4.5))]


def _laplace_over_gauss(stored: Stored, figure: str, exp_epsilon: float) -> Interval:
    """The ratio of both δ."""
    first, second = (stored.delta(figure, name, exp_epsilon) for name in ("Laplace", "Gauss"))
    return first.over(second)


def _closeness(stored: Stored) -> list[Finding]:
    """How far apart Laplace noise and Gaussian noise of half the variance are in Figure 14."""
    found = []
    for delta in ("0.01", "0.001", "0.0001"):
        laplace, gauss = (stored.line("figure-14b", f"{name}, δ = {delta}") for name in ("Laplace", "Gauss"))
        low = math.log(laplace.lower[-1]) / math.log(gauss.upper[-1])
        high = math.log(laplace.upper[-1]) / math.log(gauss.lower[-1])
        ratio = Interval(low, high)
        found.append(Finding(f"ε at δ {delta}, r 512", f"ratio of ε in {ratio}", ratio.between(0.995, 1.005)))
    for exp_epsilon in (1.1, 1.3):
        ratio = stored.delta("figure-14d", "Laplace", exp_epsilon).over(
            stored.delta("figure-14d", "Gauss", exp_epsilon)
        )
        found.append(Finding(f"δ at e^ε {exp_epsilon:g}, r 512", f"ratio of δ in {ratio}", ratio.between(0.9, 1.1)))
    return found


def _better(stored: Stored) -> list[Finding]:
    """How much better Gaussian noise of the same variance is after 512 rounds."""
    found = []
    for exp_epsilon in (1.1, 1.3):
        ratio = stored.delta("figure-14c", "Laplace", exp_epsilon).over(
            stored.delta("figure-14c", "Gauss", exp_epsilon)
        )
        text = f"δ of Laplace over δ of Gauss in {ratio} at e^ε = {exp_epsilon:g}"
        found.append(Finding(f"e^ε = {exp_epsilon:g}", text, ratio.at_least(2.0)))
    return found


def _both(first: bool | None, second: bool) -> bool | None:
    """Whether both hold; None where the first is not known and the second holds."""
    return first if second else False


def _gap(stored: Stored) -> list[Finding]:
    """ε of Laplace noise over that of Gaussian noise of half the variance, at the largest r."""
    found = []
    for one in gaps(stored.folder / "laplace-against-gauss.zarr"):
        if one.compositions == _LAST:
            gap = Interval(100.0 * one.lower, 100.0 * one.upper)
            limit = 100.0 * gap_limit(one.scale)
            text = f"ε differs by {gap} % at r = 2^20, and by {limit:.3f} % as r grows without end"
            found.append(
                Finding(f"γ = {one.scale:g}, δ = {one.delta:g}", text, _both(gap.between(-0.5, 0.5), abs(limit) <= 0.5))
            )
    return found


def _tight_buckets(stored: Stored) -> list[Finding]:
    """The widest bounds of 10,000 buckets at r <= 2^9."""
    widths = bucket_widths(stored.folder, FEW_ROUNDS)
    [buckets] = FEW_ROUNDS.values()
    worst: dict[str, float] = {}
    for (mechanism, rounds), one in widest(widths, buckets=buckets, floor=WIDTH_FLOOR).items():
        if rounds <= 512:
            worst[mechanism] = max(worst.get(mechanism, 0.0), one.width)
    return [
        Finding(name, f"upper / lower - 1 is at most {rounded_up(width, 2)} where δ >= {WIDTH_FLOOR:g}", width <= 0.1)
        for name, width in worst.items()
    ]


def claims(stored: Stored) -> list[Claim]:
    """Return the claims with what is found."""
    return [
        Claim(
            "1.1, 6, 8",
            "ε of Laplace noise and of Gaussian noise of half the variance coincide from some r on",
            _gap(stored),
            "within 0.5 %, at r = 2^20 and in the limit that evaluation-theory.md proves",
            parts=True,
        ),
        Claim(
            "6, Fig. 14",
            "at the same variance Gaussian noise is much better within 512 rounds",
            _better(stored),
            "δ at least halved",
            parts=True,
        ),
        Claim(
            "6, Fig. 14(b)",
            "its δ levels out 4 orders of magnitude lower",
            _levels(stored),
            '"4" is read as 3.5 to 4.5',
        ),
        Claim(
            "6, Fig. 14",
            "Laplace noise of variance 80,000 nearly coincides with Gaussian noise of 40,000 after 512 rounds",
            _closeness(stored),
            "ε within 0.5 %, δ within 10 %",
            parts=True,
        ),
        Claim(
            "4.6",
            "10,000 buckets achieve tight bounds for 2^9 compositions",
            _tight_buckets(stored),
            "within 10 %",
            parts=True,
        ),
    ]
