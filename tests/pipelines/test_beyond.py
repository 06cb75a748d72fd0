"""What is said about noise over many rounds: its studies, its tables, and docs/evaluation-theory.md."""

import math
import re
from fractions import Fraction
from pathlib import Path

import mpmath
import numpy as np
import pytest

from pbdist import DiscreteGaussian, DiscreteLaplace, Gaussian, Laplace, Staircase, epsilon_bounds, privacy_bounds
from pbdist.cli import main
from pbdist.mechanisms import Pair
from pbdist.study import StudySpec, load_study
from pipelines import beyond
from tests.studies import write_study

pytestmark = pytest.mark.nightly
mpmath.mp.dps = 40

PIPELINES = Path(__file__).parents[2] / "pipelines"


def shipped(name: str) -> StudySpec:
    return load_study(PIPELINES / f"{name}.yaml")


def computed(folder: Path, name: str, changes: dict[str, str]) -> Path:
    """The store of a shipped study with some lines replaced, by how they begin."""
    text = (PIPELINES / f"{name}.yaml").read_text(encoding="utf-8")
    for start, line in changes.items():
        text, count = re.subn(rf"(?m)^{re.escape(start)}.*$", line, text)
        assert count > 0
    store = folder / f"{name}.zarr"
    assert main(["run", str(write_study(folder, text)), "--store", str(store), "--serial"]) == 0
    return store


# -- Laplace against Gaussian noise ----------------------------------------------------------------------------------


def loss_moments(scale: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """Mean, variance and third absolute central moment of the loss of Laplace noise, by integrals."""
    t = 1 / mpmath.mpf(scale)

    def mean_of(f):
        inner = mpmath.quad(lambda u: f(t - 2 * u) * mpmath.exp(-u) / 2, [0, t / 4, t / 2, 3 * t / 4, t])
        return f(t) / 2 + inner + f(-t) * mpmath.exp(-t) / 2

    mean = mean_of(lambda x: x)
    return mean, mean_of(lambda x: (x - mean) ** 2), mean_of(lambda x: abs(x - mean) ** 3)


@pytest.mark.parametrize("scale", [0.3, 1.0, 2.0, 19.9, 20.1, 200.0, 1e5])
def test_moments_of_the_loss_and_the_limit(scale: float) -> None:
    mean, variance, _ = loss_moments(scale)
    found = beyond.laplace_loss_moments(scale)
    assert found == (pytest.approx(float(mean), rel=1e-11), pytest.approx(float(variance), rel=1e-11))
    limit = beyond.gap_limit(scale)
    assert limit == pytest.approx(float(2 * mpmath.mpf(scale) ** 2 * mean - 1), rel=1e-8)
    assert -1 / (3 * scale) < limit < min(0.0, -1 / (3 * scale) + 1 / (12 * scale**2) + 1e-15)


@pytest.mark.parametrize("scale", [1.0, 2.0, 20.0])
@pytest.mark.parametrize("rounds", [2**14, 2**20])
def test_epsilon_lies_where_proposition_2_says(scale: float, rounds: int) -> None:
    mean, variance, third = (float(moment) for moment in loss_moments(scale))
    c = 0.4748 * third / variance**1.5
    spread, root = math.sqrt(variance * rounds), math.sqrt(rounds)
    delta = 0.1
    found = epsilon_bounds(Laplace(scale), compositions=rounds, delta=delta)
    low = rounds * mean + spread * float(beyond.NormalDist().inv_cdf(1 - delta - (1 + c) / root))
    high = rounds * mean + spread * float(beyond.NormalDist().inv_cdf(1 - delta + c / root))
    assert low - 0.5 * math.log(rounds) <= found.epsilon_upper.item()
    assert found.epsilon_lower.item() <= max(0.0, high)
    # The statement tells something: both ends are within a few deviations' part of ε.
    assert high - low < 0.2 * spread


@pytest.mark.parametrize(
    ("scale", "delta", "percent"),
    [(1, 1e-2, -26.3904), (2, 1e-4, -14.6965), (20, 1e-4, -1.5460), (200, 1e-2, -0.1309), (200, 1e-4, -0.1199)],
)
def test_the_gap_after_a_million_rounds(scale: float, delta: float, percent: float) -> None:
    laplace, gaussian = (
        epsilon_bounds(pair(scale), compositions=2**20, delta=delta, tolerance=1e-4) for pair in (Laplace, Gaussian)
    )
    lower = laplace.epsilon_lower.item() / gaussian.epsilon_upper.item() - 1
    upper = laplace.epsilon_upper.item() / gaussian.epsilon_lower.item() - 1
    assert 100 * lower - 1e-4 <= percent <= 100 * upper + 1e-4
    assert upper - lower < 1e-5
    # It is on its way to the limit, and the expansion says where.
    assert beyond.gap_limit(scale) < lower
    assert upper < -1 / (6.0 * scale) + 1 / (10.0 * scale**2)
    assert beyond.gap_expansion(scale, 2**20, delta) == pytest.approx(lower, rel=0.05)


def one_round_gaussian(scale: float, delta: float) -> mpmath.mpf:
    """ε of one round of Gaussian noise by its closed form."""

    def missing(epsilon):
        x = 1 / mpmath.mpf(scale)
        return mpmath.ncdf(x / 2 - epsilon / x) - mpmath.exp(epsilon) * mpmath.ncdf(-x / 2 - epsilon / x) - delta

    return mpmath.findroot(missing, (0.01, 4.0), solver="anderson")


def test_gaps_are_read_from_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {
        "    scale:": "    scale: [1, 200]",
        "compositions:": "compositions: [1, 16]",
        "epsilon:": "epsilon: {geomspace: [1e-3, 1e3, 13]}",
    }
    store = computed(tmp_path, "laplace-against-gauss", changes)
    found = {(gap.scale, gap.delta, gap.compositions): gap for gap in beyond.gaps(store)}
    assert len(found) == 8
    for delta in beyond.GAP_DELTAS:
        # One round of Laplace noise: δ = 1 - e^((ε - 1/γ) / 2).
        exact = (1 + 2 * mpmath.log(1 - mpmath.mpf(delta))) / one_round_gaussian(1.0, delta) - 1
        gap = found[1.0, delta, 1]
        assert gap.lower <= exact <= gap.upper < gap.lower + 1e-3
        lower, upper = (
            epsilon_bounds(pair(200.0), compositions=16, delta=delta, tolerance=1e-4) for pair in (Laplace, Gaussian)
        )
        if upper.epsilon_lower.item() > 0.0:
            ratio = lower.epsilon_upper.item() / upper.epsilon_lower.item() - 1
            assert found[200.0, delta, 16].lower <= ratio + 1e-12
    assert math.isnan(found[200.0, 1e-2, 1].lower)
    capsys.readouterr()
    assert beyond.main(["laplace", "--stores", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| limit | -26.424 | -0.166 |" in printed
    assert "both ε are 0" in printed
    low, high = re.search(r"\| 2\^0 \| (\S+) \.\. (\S+) \(", printed).groups()
    gap = found[1.0, 1e-2, 1]
    assert float(low) <= 100 * gap.lower <= 100 * gap.upper <= float(high)


# -- optimal mechanisms ----------------------------------------------------------------------------------------------


def whole_numbers(pair: Pair, power: int) -> mpmath.mpf:
    """E |X|^power of discrete noise by its sum."""
    if isinstance(pair, DiscreteLaplace):
        b = mpmath.exp(-1 / mpmath.mpf(pair.scale))
        return 2 * b / (1 - b**2) if power == 1 else 2 * b / (1 - b) ** 2
    scale = mpmath.mpf(pair.scale)
    masses = [mpmath.exp(-(mpmath.mpf(k) ** 2) / (2 * scale**2)) for k in range(1, math.ceil(12 * scale) + 2)]
    return 2 * sum(k**power * mass for k, mass in enumerate(masses, 1)) / (1 + 2 * sum(masses))


def cost_of(pair: Pair, power: int) -> mpmath.mpf:
    if isinstance(pair, Staircase):
        return mpmath.mpf(pair.mean_absolute_noise if power == 1 else pair.noise_variance)
    if isinstance(pair, Laplace):
        return math.factorial(power) * mpmath.mpf(pair.scale) ** power
    if isinstance(pair, Gaussian):
        return mpmath.mpf(pair.scale) * mpmath.sqrt(2 / mpmath.pi) if power == 1 else mpmath.mpf(pair.scale) ** 2
    return whole_numbers(pair, power)


def test_all_noise_of_a_label_costs_the_same() -> None:
    cells = shipped("optimal-mechanisms").cells
    kinds = [Staircase, Laplace, Gaussian, DiscreteLaplace, DiscreteGaussian]
    for number, cell in enumerate(cells):
        assert type(cell.pair) is kinds[number % 5]
        assert cell.pair.sensitivity == 1
        name, _, cost = cell.label.rpartition(" ")
        power = {"mean size": 1, "standard deviation": 2}[name]
        assert abs(cost_of(cell.pair, power) / mpmath.mpf(cost) ** power - 1) < 1e-12
    assert len(cells) == 30


def test_splits_are_best_for_their_cost() -> None:
    for cell in shipped("optimal-mechanisms").cells:
        if isinstance(cell.pair, Staircase):
            squared = cell.label.startswith("standard")
            for factor in (0.99, 1.01):
                other = Staircase(cell.pair.epsilon, split=cell.pair.split * factor)
                if squared:
                    assert other.noise_variance > cell.pair.noise_variance
                else:
                    assert other.mean_absolute_noise > cell.pair.mean_absolute_noise
            q = math.exp(-cell.pair.epsilon)
            best = ((q - 2 * q**2 + 2 * q**4 - q**5) / 2) ** (1 / 3) / (1 - q) ** 2 - q / (1 - q)
            assert not squared or cell.pair.split == pytest.approx(best, rel=1e-6)


def test_needs_are_read_from_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    changes = {
        "compositions:": "compositions: [1, 64]",
        "epsilon:": "epsilon: {geomspace: [1e-2, 100, 17]}",
        "  - {label: mean size 20": "",
        "  - {label: mean size 100": "",
        "  - {label: standard deviation": "",
    }
    store = computed(tmp_path, "optimal-mechanisms", changes)
    found = {(need.kind, need.compositions): need for need in beyond.epsilon_needs(store)}
    assert len(found) == 10
    # One round: δ(ε) = p (1 - e^(ε - ε0)), p the mass of the largest loss ε0.
    stair = Staircase(0.96242365011920689)
    q, g = mpmath.exp(-mpmath.mpf(stair.epsilon)), mpmath.mpf(stair.split)
    discrete = 1 / mpmath.mpf(1.134592657106511)
    for kind, largest, mass in (
        ("Staircase", mpmath.mpf(stair.epsilon), (2 * g * (1 - q) + q) / (2 * (g + q * (1 - g)))),
        ("DiscreteLaplace", discrete, 1 / (1 + mpmath.exp(-discrete))),
    ):
        exact = largest + mpmath.log(1 - mpmath.mpf(beyond.COST_DELTA) / mass)
        need = found[kind, 1]
        assert need.epsilon_lower <= exact <= need.epsilon_upper < need.epsilon_lower * 1.001
        assert need.delta_upper < 1e-12
    for kind, pair in (("Laplace", Laplace(1.0)), ("Gaussian", Gaussian(1.2533141373155003))):
        ours = epsilon_bounds(pair, compositions=64, delta=beyond.COST_DELTA)
        assert found[kind, 64].epsilon_lower <= ours.epsilon_upper.item()
        assert ours.epsilon_lower.item() <= found[kind, 64].epsilon_upper
    capsys.readouterr()
    assert beyond.main(["optimal", "--stores", str(tmp_path)]) == 0
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if line.startswith("| 2^")]
    # The discrete Laplace noise is best for one round, and discrete Gaussian noise for 64.
    assert [position for position, cell in enumerate(rows[0]) if "**" in cell] == [4]
    assert [position for position, cell in enumerate(rows[1]) if "**" in cell] == [5]


# -- buckets ---------------------------------------------------------------------------------------------------------


def test_widths_are_read_from_the_stores(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("", "-1e3", "-1e4"):
        computed(tmp_path, f"bucket-convergence{name}", {"compositions:": "compositions: [1, 8, 512]"})
    widths = beyond.bucket_widths(tmp_path)
    assert len(widths) == 3 * 3 * 3 * 6
    by_point: dict[tuple[str, int, float], list[beyond.Width]] = {}
    for one in widths:
        by_point.setdefault((one.mechanism, one.compositions, one.epsilon), []).append(one)
    for found in by_point.values():
        # All brackets hold the same δ.
        assert max(one.lower for one in found) <= min(one.upper for one in found)
    told = {(one.mechanism, one.compositions, one.epsilon, one.buckets): one for one in widths}
    ours = privacy_bounds(
        Laplace(200, truncate=(-2500, 2500)), compositions=512, epsilon=0.3, method="buckets", buckets=1000
    )
    one = told["Laplace", 512, 0.3, 1000]
    assert (one.lower, one.upper) == (ours.delta_lower.item(), ours.delta_upper.item())
    assert one.width >= Fraction(one.upper) / Fraction(one.lower) - 1
    assert told["Laplace", 512, 0.3, 10**4].width < 0.1 * one.width
    worst = beyond.widest(widths, buckets=10**4, floor=1e-8)
    assert 1e-4 < worst["Laplace", 512].width < 0.01
    assert 0.05 < worst["Gaussian", 512].width < 0.5
    capsys.readouterr()
    assert beyond.main(["buckets", "--stores", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "| mechanism | r | ε | δ, tight | tight | 1,000 | 10,000 |" in printed
    assert "| Laplace | 2^9 | 0.3 | 1.64" in printed


def test_widths_of_what_is_not_known_from_below() -> None:
    assert beyond.Width(1000, "x", 1, 0.0, 0.0, 0.5).width == math.inf
    assert beyond.Width(1000, "x", 1, 0.0, 0.0, 0.0).width == 0.0
    assert beyond.Width(1000, "x", 1, 0.0, 0.1, 0.1).width == 0.0
    wide, none = beyond.Width(10, "x", 1, 0.0, 1e-9, 0.5), beyond.Width(0, "x", 1, 0.0, 0.2, 0.2)
    # The other one shows that δ is above the floor.
    assert beyond.widest([wide, none], buckets=10, floor=0.1) == {("x", 1): wide}
    assert beyond.widest([wide, none], buckets=10, floor=0.3) == {}


def test_percents_are_rounded_to_their_side() -> None:
    values = np.array([-0.263904137, 0.1, 1e-9])
    for value in values.tolist():
        low, high = (float(beyond._percent(value, up=up)) for up in (False, True))
        assert low <= 100 * value <= high <= low + 0.00101
