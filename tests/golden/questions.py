"""The questions of the golden table, in groups that are computed together.

They use what users use: public functions, study files and commands. So they outlive what is moved or renamed inside.
"""

import contextlib
import io
import os
import re
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pbdist
from pbdist import (
    Accountant,
    ApproximateDP,
    BoundedRange,
    DiscreteGaussian,
    DiscreteLaplace,
    FixedBatchGaussian,
    Gaussian,
    GaussianMixture,
    Histogram,
    KaryRandomizedResponse,
    Laplace,
    LaplaceSum,
    NoisyCount,
    Poisson,
    Product,
    RandomAllocation,
    RandomizedResponse,
    Reversed,
    Staircase,
    SubsampledGaussian,
    SubsampledGaussianGroup,
    SubsampledLaplace,
    TruncatedPoissonGaussian,
    WorstOf,
)
from pbdist.accounting import dpsgd, dpsgd_noise
from pbdist.cli import main
from pbdist.granularity import Analysis, Bounded, Memberships, Overlapping, Partition, ReleasePlan, Unbounded, UserLevel
from pbdist.theorems import THEOREMS
from tests.studies import compute_store

__all__ = ["GROUPS", "Answer", "answers_of"]

#: Numbers, or what is printed.
Answer = list[float] | str
_Answers = Iterator[tuple[str, Answer]]

PAIRS: Mapping[str, Any] = {
    "ApproximateDP": ApproximateDP(0.1, 1e-9),
    "BoundedRange": BoundedRange(0.1),
    "DiscreteGaussian": DiscreteGaussian(5.0),
    "DiscreteLaplace": DiscreteLaplace(10.0, 1),
    "FixedBatchGaussian": FixedBatchGaussian(1.0, 10, 10_000),
    "Gaussian": Gaussian(5.0),
    "Gaussian truncated": Gaussian(5.0, truncate=(-40.0, 40.0)),
    "GaussianMixture": GaussianMixture(2.0, (0.0, 1.0, 3.0), (0.9, 0.09, 0.01)),
    "Histogram": Histogram((520, 480, 1), (480, 520, 1)),
    "KaryRandomizedResponse": KaryRandomizedResponse(0.3, 4),
    "Laplace": Laplace(10.0),
    "Laplace truncated": Laplace(10.0, truncate=(-200.0, 200.0)),
    "LaplaceSum": LaplaceSum((10.0, 15.0)),
    "NoisyCount of Laplace": NoisyCount(Laplace(20.0), 400.0, 1),
    "NoisyCount of Gaussian": NoisyCount(Gaussian(20.0), 70.0, 2, reading="redraw-and-floor"),
    "Poisson": Poisson(100.0),
    "Product": Product(Laplace(10.0), Gaussian(8.0)),
    "RandomAllocation": RandomAllocation(1.0, 100),
    "RandomizedResponse": RandomizedResponse(0.6),
    "Reversed": Reversed(SubsampledLaplace(1.0, 0.01)),
    "Staircase": Staircase(0.1),
    "SubsampledGaussian": SubsampledGaussian(1.0, 0.01),
    "SubsampledGaussianGroup": SubsampledGaussianGroup(2.0, 0.01, 5),
    "SubsampledLaplace": SubsampledLaplace(1.0, 0.01),
    "TruncatedPoissonGaussian": TruncatedPoissonGaussian(1.0, 1e-3, 25, 10_000),
    "WorstOf": WorstOf(Laplace(10.0), Gaussian(9.0)),
}
#: The worst of several pairs, or one between two others.
WITHOUT_BUCKETS = (FixedBatchGaussian, RandomAllocation, SubsampledGaussianGroup, TruncatedPoissonGaussian, WorstOf)
#: Questions that go to the limits of each engine: the mechanism, r, ε and δ.
EXTREMES: Mapping[str, tuple[Any, int, float, float]] = {
    "one round": (SubsampledGaussian(0.7, 0.02), 1, 1.5, 1e-7),
    "little noise": (SubsampledGaussian(0.05, 0.1), 3, 500.0, 1e-5),
    "many rounds": (Gaussian(2e4), 10**8, 1.0, 1e-12),
    "many rounds of few outcomes": (RandomizedResponse(0.5001), 10**6, 0.5, 1e-9),
    "a million samples": (SubsampledGaussian(10.0, 1e-3), 10**6, 0.5, 1e-5),
    "a tiny delta": (SubsampledLaplace(10.0, 1e-3), 1000, 0.05, 1e-60),
    "different pairs": ([(SubsampledGaussian(1.0 + k / 10.0, 0.01), 1 + k) for k in range(12)], 5, 1.0, 1e-6),
    "different kinds": ([(Laplace(30.0), 2), (Gaussian(20.0), 3), (RandomizedResponse(0.51), 4)], 8, 0.7, 1e-8),
    "losses of thousands": (Laplace(1e-3), 2, 1500.0, 1e-9),
    "an all but certain answer": (RandomizedResponse(0.9999), 1000, 9000.0, 1e-5),
    "a group on a sample": (SubsampledGaussianGroup(13.2, 4.74e-6, 11), 7994, 0.05, 1e-9),
    "infinite losses": (Laplace(4.0, truncate=(-20.0, 20.0)), 10, 4.0, 0.05),
}
CURVES = (
    "ApproximateDP",
    "DiscreteLaplace",
    "Gaussian",
    "GaussianMixture",
    "Histogram",
    "KaryRandomizedResponse",
    "Laplace",
    "NoisyCount of Laplace",
    "Poisson",
    "RandomizedResponse",
    "SubsampledGaussian",
    "SubsampledLaplace",
)
FAMILIES: Mapping[str, tuple[Any, Mapping[str, Any]]] = {
    "Gaussian": (Gaussian, {}),
    "Laplace": (Laplace, {"sensitivity": 2.0}),
    "SubsampledGaussian": (SubsampledGaussian, {"rate": 0.01}),
    "SubsampledGaussianGroup": (SubsampledGaussianGroup, {"rate": 0.01, "group_size": 3}),
    "SubsampledLaplace": (SubsampledLaplace, {"rate": 0.01}),
    "TruncatedPoissonGaussian": (TruncatedPoissonGaussian, {"rate": 1e-3, "batch": 25, "examples": 10_000}),
    "FixedBatchGaussian": (FixedBatchGaussian, {"batch": 10, "examples": 10_000}),
    "Poisson": (Poisson, {}),
    "DiscreteLaplace": (DiscreteLaplace, {}),
    "DiscreteGaussian": (DiscreteGaussian, {}),
    "RandomizedResponse": (RandomizedResponse, {}),
    "KaryRandomizedResponse": (KaryRandomizedResponse, {"k": 4}),
}
PLANS: Mapping[str, ReleasePlan] = {
    "all records": ReleasePlan(
        Unbounded(),
        [Analysis("sum", Laplace(10.0), attained="every"), Analysis("mean", Gaussian(20.0), attained="every")],
    ),
    "a partition": ReleasePlan(
        Unbounded(),
        [Analysis("left", Laplace(10.0), reads=("a",)), Analysis("right", Laplace(12.0), reads=("b",))],
        Partition(("a", "b")),
    ),
    "a record is moved": ReleasePlan(
        Bounded(),
        [
            Analysis("left", Laplace(10.0), reads=("a",)),
            Analysis("right", Gaussian(12.0), reads=("b",)),
        ],
        Partition(("a", "b"), exhaustive=True),
    ),
    "blocks overlap": ReleasePlan(
        Unbounded(),
        [Analysis(name, SubsampledGaussian(2.0, 0.1), reads=(name,), attained="every") for name in "abcd"],
        Overlapping(tuple("abcd"), 2),
    ),
    "memberships": ReleasePlan(
        Unbounded(),
        [Analysis("1", Laplace(10.0), reads=("a",)), Analysis("2", Gaussian(9.0), reads=("a", "b"))],
        Memberships((("a",), ("b",), ("a", "b"))),
    ),
    "users": ReleasePlan(UserLevel(2), [Analysis("sum", Gaussian(20.0), declared=UserLevel(2))]),
}
STUDIES: Mapping[str, str] = {
    "buckets": """\
format: 1
name: buckets
mechanisms:
  - {kind: Laplace, scale: [2, 3, 5]}
  - {kind: RandomizedResponse, p: [0.6, 0.7]}
method: buckets
buckets: 400
compositions: [1, 2, 4, 7]
exp_epsilon: [1, 1.5, 2]
""",
    "tight": """\
format: 1
name: tight
mechanisms:
  - {kind: SubsampledGaussian, scale: [1, 2], rate: 0.01}
  - {kind: Laplace, scale: [10, 20]}
tolerance: 0.01
keep_states: true
compositions: [1, 10, 100]
epsilon: [0, 0.2, 0.5, 1]
""",
}
#: Of each study a label, two settings, and a scale between them.
_ASKED = {"buckets": ("Laplace", 2.0, 5.0, 2.5), "tight": ("SubsampledGaussian", 1.0, 2.0, 1.5)}
COMMANDS: tuple[str, ...] = (
    "epsilon --family Gaussian --scale 5 --compositions 10 --delta 1e-6",
    "epsilon --family SubsampledGaussian --scale 1 --rate 0.01 --compositions 100 1000 --delta 1e-6 --direction each",
    "delta --family Laplace --scale 10 --compositions 10 --epsilon 0.5 1",
    "delta --family RandomizedResponse --p 0.6 --compositions 3 --epsilon 0.5 --format markdown",
    "delta --family Laplace --scale 10 --compositions 10 --epsilon 0.5 --format csv",
    "dpsgd --examples 60000 --batch 256 --epochs 3 --noise-multiplier 1.1 --delta 1e-5",
    "dpsgd --examples 60000 --batch 256 --epochs 3 --epsilon 2 --delta 1e-5",
    "size --family Gaussian --compositions 100 --epsilon 1 --delta 1e-6",
    "size --family Laplace --compositions 1 16 --epsilon 0.5 1 --delta 1e-6 --format markdown",
    "size --family RandomizedResponse --compositions 16 --epsilon 1 --delta 1e-6 --format json",
    "size --family SubsampledGaussian --rate 0.01 --compositions 100 --epsilon 1 --delta 1e-6 --format latex",
)
_QUESTIONS = (
    "--compositions 1 7 --exp-epsilon 1.5 1.7",
    "--compositions 3 --epsilon 0.3 --format csv",
    "--compositions 4 --delta 0.2 --format markdown",
    "--compositions 4 --delta 0.2 --format latex",
    "--exp-epsilon 2 --delta 0.2 --format json",
    "--compositions 2 --epsilon 0.1 --direction each",
)
_QUERIES = tuple(f"query STORE --mechanism Laplace --scale 2 3 {question}" for question in _QUESTIONS)


def _numbers(*values: Any) -> list[float]:
    return [float(each) for value in values for each in np.ravel(np.asarray(value, dtype=float))]


def _delta(found: Any) -> list[float]:
    return _numbers(found.delta_lower, found.delta_upper, found.log_delta_lower, found.log_delta_upper)


def _of_pair(pair: Any) -> _Answers:
    asked: dict[str, Any] = {"compositions": [1, 30], "epsilon": [0.0, 0.3, 2.0], "direction": "each"}
    yield "delta", _delta(pbdist.privacy_bounds(pair, **asked))
    if not isinstance(pair, WITHOUT_BUCKETS):
        yield "delta by buckets", _delta(pbdist.privacy_bounds(pair, **asked, method="buckets", buckets=300))
    found = pbdist.epsilon_bounds(pair, compositions=[1, 30], delta=[1e-6, 0.02], direction="each")
    yield "epsilon", _numbers(found.epsilon_lower, found.epsilon_upper)
    found = pbdist.epsilon_bounds(pair, compositions=[1, 30], delta=0.0)
    yield "largest loss", _numbers(found.epsilon_lower, found.epsilon_upper)
    found = pbdist.epsilon_bounds(pair, compositions=100, delta=1e-5)
    yield "epsilon of both directions", _numbers(found.epsilon_lower, found.epsilon_upper)


def _of_extreme(question: tuple[Any, int, float, float]) -> _Answers:
    mechanism, rounds, epsilon, delta = question
    yield "delta", _delta(pbdist.privacy_bounds(mechanism, compositions=rounds, epsilon=epsilon, direction="each"))
    found = pbdist.epsilon_bounds(mechanism, compositions=rounds, delta=delta)
    yield "epsilon", _numbers(found.epsilon_lower, found.epsilon_upper)


def _curves(pair: Any) -> _Answers:
    found = pbdist.tradeoff_bounds(pair, compositions=[1, 10], type_one_error=[0.01, 0.3], direction="each")
    yield "trade-off", _numbers(found.type_two_error_lower, found.type_two_error_upper)
    found = pbdist.total_variation_bounds(pair, compositions=[1, 10])
    yield "total variation", _numbers(found.total_variation_lower, found.total_variation_upper)
    found = pbdist.renyi_bounds(pair, compositions=[1, 10], order=[1.5, 8.0], direction="each")
    yield "Rényi divergence", _numbers(found.renyi_lower, found.renyi_upper)


def _theorems() -> _Answers:
    for name in ("RandomizedResponse", "SubsampledGaussian"):
        for theorem in sorted(THEOREMS):
            # A theorem that says nothing of a mechanism is refused.
            with contextlib.suppress(pbdist.InvalidInputError):
                found = pbdist.earlier_bounds(PAIRS[name], compositions=[1, 64], epsilon=[0.2, 1.0], theorem=theorem)
                yield f"{name}, {theorem}", _numbers(*found.data_vars.values())


def _size(family: tuple[Any, Mapping[str, Any]]) -> _Answers:
    kind, parameters = family
    for rounds, epsilon, delta in ((10, 1.0, 1e-6), (1, 0.3, 1e-4)):
        found = pbdist.size(kind, compositions=rounds, epsilon=epsilon, delta=delta, **parameters)
        proof = found.scale, found.refuted_scale, found.delta_upper, found.refuted_delta_lower
        yield f"{rounds} rounds", _numbers(*proof)


def _plan(plan: ReleasePlan) -> _Answers:
    yield "delta", _delta(plan.privacy_bounds(compositions=[1, 8], epsilon=[0.1, 1.0]))
    found = plan.epsilon_bounds(compositions=[1, 8], delta=1e-6)
    yield "epsilon", _numbers(found.epsilon_lower, found.epsilon_upper)


def _accounting() -> _Answers:
    account = Accountant()
    account.step(noise_multiplier=1.1, sample_rate=0.01, steps=100)
    account.step(noise_multiplier=1.4, sample_rate=0.02, steps=50).add(Laplace(20.0), 3)
    found = account.epsilon(delta=[1e-5, 1e-7])
    yield "accountant, epsilon", _numbers(found.lower, found.upper)
    found = account.delta(epsilon=[0.5, 2.0])
    yield "accountant, delta", _numbers(found.lower, found.upper)
    trained = dpsgd(examples=60_000, batch=600, noise_multiplier=0.8, epochs=2, delta=1e-5)
    yield "DP-SGD", _numbers(trained.epsilon.lower, trained.epsilon.upper)
    noise = dpsgd_noise(examples=60_000, batch=600, epochs=2, epsilon=3.0, delta=1e-5)
    yield "noise of DP-SGD", _numbers(*((each.scale, each.refuted_scale) for each in noise.sized))


def _store(name: str, folder: Path) -> _Answers:
    study = pbdist.open_study(compute_store(folder, STUDIES[name]))
    label, noise, more, between = _ASKED[name]
    bounds = study.bounds
    yield "all bounds", _numbers(bounds.delta_lower, bounds.delta_upper)
    top = int(bounds.compositions.values.max())
    asked = {
        "stored": (noise, [1, top], [float(bounds.epsilon.values[1])]),
        "another epsilon": (noise, [1, top], [0.1, 0.3]),
        "another r": (noise, [3], [0.3, 0.5]),
        "another scale": (between, [1, top], [0.3]),
        "each": (more, [2], [0.3]),
    }
    for question, (scale, rounds, epsilon) in asked.items():
        direction = "each" if question == "each" else "both"
        r, at = np.array(rounds)[:, None], np.array(epsilon)
        delta = study.delta(label, scale=scale, compositions=r, epsilon=at, direction=direction)
        yield f"delta, {question}", _numbers(delta.lower, delta.upper)
    for delta in (0.2, 0.01):
        for scale in (noise, between):
            found = study.epsilon(label, scale=scale, compositions=[1, top], delta=delta)
            yield f"epsilon, {delta}, {scale}", _numbers(found.lower, found.upper)
    rounds_met = study.compositions(label, scale=more, epsilon=0.5, delta=[0.2, 0.01])
    yield "compositions", _numbers(rounds_met.lower, rounds_met.upper)
    curve = study.tradeoff(label, scale=noise, compositions=[1, top], type_one_error=0.1)
    yield "trade-off", _numbers(curve.lower, curve.upper)
    distance = study.delta(label, scale=noise, compositions=[1, top], epsilon=0.0, direction="each")
    yield "total variation", _numbers(distance.lower.max(axis=0), distance.upper.min(axis=0))


def _printed(command: str) -> str:
    """Return all printed numbers of at least four digits: words and layout may change."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        code = main(command.split())
    found = re.findall(r"\d[\d.]*(?:[eE]-?\d+)?", printed.getvalue())
    long = [each for each in found if len(re.sub(r"[eE].*|\.|^0[.0]*", "", each)) >= 4]
    return " ".join([*long, f"exit code {code}"])


def _commands(folder: Path) -> _Answers:
    for command in COMMANDS:
        yield command, _printed(command)
    compute_store(folder, STUDIES["buckets"])
    before = Path.cwd()
    os.chdir(folder)
    try:
        for command in _QUERIES:
            yield command, _printed(command.replace("STORE", "s.zarr"))
    finally:
        os.chdir(before)


_Group = Callable[[Path], _Answers]
GROUPS: Mapping[str, _Group] = {
    **{f"pair: {name}": lambda _, pair=pair: _of_pair(pair) for name, pair in PAIRS.items()},
    **{f"extreme: {name}": lambda _, asked=asked: _of_extreme(asked) for name, asked in EXTREMES.items()},
    **{f"curves: {name}": lambda _, pair=PAIRS[name]: _curves(pair) for name in CURVES},
    **{f"size: {name}": lambda _, family=family: _size(family) for name, family in FAMILIES.items()},
    **{f"plan: {name}": lambda _, plan=plan: _plan(plan) for name, plan in PLANS.items()},
    **{f"store: {name}": lambda folder, name=name: _store(name, folder) for name in STUDIES},
    "theorems": lambda _: _theorems(),
    "accounting": lambda _: _accounting(),
    "commands": _commands,
}


def answers_of(group: str, folder: Path) -> dict[str, Answer]:
    """Compute the answers of a group; stores are made in the folder."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pbdist.PrecisionWarning)
        return {f"{group}: {name}": answer for name, answer in GROUPS[group](folder)}
