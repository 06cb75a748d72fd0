"""ε or δ of a setting by every method: theorems of earlier work, dp-accounting and prv-accountant.

A call of a library is Python text: the table prints the call that ran.
"""

import logging
import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import pbdist
from pbdist.arguments import checked_components, components_of
from pbdist.theorems import THEOREMS as EARLIER
from pbdist.theorems.renyi import Moments, moments_of
from pipelines.comparing.judgement import Claim
from pipelines.comparing.setting import Setting

__all__ = ["LIBRARIES", "THEOREMS", "Answer", "answers", "delta_below", "evaluated", "ours"]

#: Where the names of the calls come from.
_IMPORTS = """\
from math import exp, log, sqrt

from dp_accounting import *
from dp_accounting.dp_event import *
from dp_accounting.gaussian_mechanism import get_epsilon_gaussian
from dp_accounting.pld import PLDAccountant
from dp_accounting.pld.common import DifferentialPrivacyParameters
from dp_accounting.pld.privacy_loss_distribution import *
from dp_accounting.rdp import RdpAccountant
from prv_accountant import *
from prv_accountant.privacy_random_variables import *

from pbdist import *

SHARES = (0.02, 0.274, 0.085, 0.131, 0.131, 0.238, 0.118, 0.003)  # of the Census's budget, ρ = 3.65
"""
#: The earlier theorems, in the order of the page; "clt" is none of a bound.
THEOREMS: dict[str, Claim] = {theorem: Claim.ESTIMATE if theorem == "clt" else Claim.UPPER for theorem in EARLIER}
#: The libraries' answers.
LIBRARIES: dict[str, Claim] = {
    "PLD": Claim.UPPER,
    "PLD, other call": Claim.UPPER,
    "PLD, optimistic": Claim.LOWER,
    "RDP": Claim.UPPER,
    "closed form": Claim.UPPER,
    "PRV, lower": Claim.LOWER,
    "PRV, estimate": Claim.ESTIMATE,
    "PRV, upper": Claim.UPPER,
}
#: Numbers of ε looked at in one call, and how often the best ones are looked at closer.
_FIRST, _CLOSER, _SEARCHES = 129, 65, 2
#: Times a first ε that are tried, halvings of ln ε, and rounds at most, for the optimal theorem.
_FACTORS = (1.0, 1.01, 1.1, 2.0, 10.0, 100.0)
_HALVINGS, _MAX_ROUNDS = 12, 100_000
#: Characters of a library's reason for a refusal.
_REASON = 110


@dataclass(frozen=True)
class Answer:
    """What a method answers: a number, or the reason for none; both None where the method is not about the setting."""

    claim: Claim
    value: float | None = None
    refusal: str | None = None
    call: str = ""


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep warnings and logs of the libraries to themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@cache
def _names() -> dict[str, Any]:
    """Return the names that calls use."""
    names: dict[str, Any] = {}
    exec(_IMPORTS, names)  # noqa: S102 -- our own text
    # `import *` leaves out what a package's __all__ does not list.
    names["DIALING"] = dialing()
    return names


def evaluated(text: str) -> Any:
    """Return the value of a call."""
    with _quiet():
        return eval(text, _names())  # noqa: S307 -- our own text, which the page prints


def dialing(mean: float = 8_000.0, scale: float = 500.0, shift: int = 2) -> tuple[dict[int, float], dict[int, float]]:
    """Return ln P of N = ⌈max(0, mean + Laplace noise)⌉ and of shift + N, by count; the last one holds all beyond."""
    last = int(mean + 700 * scale)
    counts = np.arange(1, last)
    # Both ends of (k - 1, k] lie on one side of a whole mean: e^(-d/scale) (1 - e^(-1/scale)) / 2, d of the nearer end.
    near = np.where(counts > mean, counts - 1 - mean, mean - counts)
    inner = -near / scale + math.log(-math.expm1(-1.0 / scale) / 2.0)
    logs = {0: -mean / scale - math.log(2.0), last: -(last - 1 - mean) / scale - math.log(2.0)}
    logs |= dict(zip(counts.tolist(), inner.tolist(), strict=True))
    return logs, {count + shift: value for count, value in logs.items()}


def ours(setting: Setting) -> tuple[float, float, str]:
    """Return our bracket, and the call."""
    quantity, given = (
        ("epsilon", f"delta={setting.delta}") if setting.delta else ("delta", f"epsilon={setting.epsilon}")
    )
    name = "epsilon_bounds" if setting.delta else "privacy_bounds"
    call = f"{name}({setting.mechanism}, compositions={setting.compositions}, {given}, tolerance=1e-4)"
    found = evaluated(call)
    return float(found[f"{quantity}_lower"].item()), float(found[f"{quantity}_upper"].item()), call


def delta_below(setting: Setting, epsilon: float) -> float:
    """Return our lower bound on δ at an ε."""
    with _quiet():
        found = pbdist.privacy_bounds(
            evaluated(setting.mechanism), compositions=setting.compositions, epsilon=epsilon, tolerance=1e-3
        )
    return float(found.delta_lower.item())


def answers(setting: Setting, lower: float, upper: float, said: Callable[[str], None]) -> dict[str, Answer]:
    """Return every method's answer; `said` is called before each."""
    found: dict[str, Answer] = {}
    for theorem in THEOREMS:
        said(theorem)
        found[theorem] = _theorem(theorem, setting, lower, upper, found)
    for name, call in _calls(setting).items():
        said(name)
        found[name] = _library(name, call)
    said("PRV")
    return found | _prv(setting)


def _theorem(name: str, setting: Setting, lower: float, upper: float, known: dict[str, Answer]) -> Answer:
    """Return what an earlier theorem proves: δ at the ε, or the least ε found whose δ is at most the target."""
    claim = THEOREMS[name]
    if name in setting.left_out:
        return Answer(claim, refusal=setting.left_out[name])
    if name == "kov" and setting.compositions > _MAX_ROUNDS:
        return Answer(claim, refusal=f"left out: over {_MAX_ROUNDS:,} rounds take minutes")
    try:
        log_delta = _log_delta(name, setting)
        if setting.epsilon:
            log = float(log_delta(np.array([evaluated(setting.epsilon)]))[0])
            return Answer(claim, min(math.exp(log) * (1.0 + 1e-12), 1.0))
        slowly = known["advanced-kov"].value if name == "kov" else None
        return Answer(claim, _inverted(log_delta, evaluated(setting.delta), lower, upper, slowly))
    except pbdist.PbdistError as error:
        return Answer(claim, refusal=_reason(error))


def _log_delta(name: str, setting: Setting) -> Callable[[np.ndarray], np.ndarray]:
    """Return the function from ε to ln δ."""
    rounds, mechanism = setting.compositions, evaluated(setting.mechanism)
    if name.startswith("moments"):
        # As `earlier_bounds` does, with divergences that are computed once for both conversions.
        moments = _moments(setting.mechanism)
        return lambda epsilon: moments.log_delta(rounds, epsilon, improved=name.endswith("improved"))

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        with _quiet():
            found = pbdist.earlier_bounds(mechanism, compositions=rounds, epsilon=epsilon, theorem=name)
        return np.asarray(found[f"log_delta_{'approximate' if name == 'clt' else 'upper'}"].values[0])

    return log_delta


@cache
def _moments(mechanism: str) -> Moments:
    return moments_of(checked_components(components_of(evaluated(mechanism))))


def _inverted(
    log_delta: Callable[[np.ndarray], np.ndarray], target: float, lower: float, upper: float, slowly: float | None
) -> float:
    """Return an ε whose δ is at most the target, next to the least one; ∞ if there is none up to 10^6 times ours.

    Where each ε takes long, `slowly` is one that meets the target.
    """
    log_target = math.nextafter(math.log(target), -math.inf)

    def meets(epsilon: np.ndarray) -> np.ndarray:
        return log_delta(epsilon) <= log_target

    if meets(np.zeros(1))[0]:
        return 0.0
    about = upper if 0.0 < upper < math.inf else 1.0
    if slowly is not None:
        return _halved(meets, max(lower, 1e-3 * about), slowly)
    epsilon, high = np.append(0.0, about * np.geomspace(1e-3, 1e6, _FIRST)), math.inf
    for _ in range(1 + _SEARCHES):
        met = np.flatnonzero(meets(epsilon))
        # An ε that met the target may miss it by a rounding in one call with others.
        if met.size == 0:
            break
        high = float(epsilon[met[0]])
        epsilon = np.linspace(epsilon[met[0] - 1], high, _CLOSER) if met[0] > 0 else np.array([high])
    return high


def _halved(meets: Callable[[np.ndarray], np.ndarray], low: float, start: float) -> float:
    """Halve the logarithm of a range of ε whose upper end meets the target: every ε takes long here."""
    # What meets it by a special case of the theorem may miss it by a little in a coarser search.
    tried = (start * factor for factor in _FACTORS)
    high = next((each for each in tried if math.isfinite(each) and meets(np.array([each]))[0]), math.inf)
    for _ in range(_HALVINGS if math.isfinite(high) else 0):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if meets(np.array([middle]))[0] else (middle, high)
    return high


def _calls(setting: Setting) -> dict[str, str]:
    """Return dp-accounting's calls, empty where it is not about the setting."""
    if setting.delta:
        call, read = f"get_epsilon({setting.delta})", f"get_epsilon_for_delta({setting.delta})"
    else:
        call, read = f"get_delta({setting.epsilon})", f"get_delta_for_epsilon({setting.epsilon})"
    relation = f"neighboring_relation={setting.relation}" if setting.relation else ""
    rdp = setting.rdp_event or setting.event
    composed, optimistic = _composed(setting, ""), ", pessimistic_estimate=False"
    if any("gaussian" in leaf or "laplace" in leaf for leaf, _ in setting.leaves):
        optimistic += ", use_connect_dots=False"
    # Loss distributions from (ε, δ) take no options.
    optional = all("{}" in leaf for leaf, _ in setting.leaves) and _composed(setting, optimistic)
    pld = composed and f"{composed}.{read}"
    if setting.event:
        pld = f"PLDAccountant({relation}).compose({setting.event}, {setting.compositions}).{call}"
    return {
        "PLD": pld,
        "PLD, other call": setting.other,
        "PLD, optimistic": f"{optional}.{read}" if optional else "",
        "RDP": rdp and f"RdpAccountant({relation}).compose({rdp}, {setting.compositions}).{call}",
        "closed form": setting.gaussian and f"get_epsilon_gaussian({setting.gaussian}, {setting.delta})",
    }


def _composed(setting: Setting, options: str) -> str:
    """Return the call of the composed privacy loss distribution."""
    parts = []
    for leaf, count in setting.leaves:
        rounds = count * setting.compositions
        parts.append(leaf.replace("{}", options) + (f".self_compose({rounds})" if rounds > 1 else ""))
    return parts[0] + "".join(f".compose({part})" for part in parts[1:]) if parts else ""


def _library(name: str, call: str) -> Answer:
    """Return a library's number, or why it gives none."""
    claim = LIBRARIES[name]
    if not call:
        return Answer(claim)
    try:
        return Answer(claim, float(evaluated(call)), call=call)
    except (SyntaxError, NameError):  # a call of ours that is none
        raise
    except Exception as error:  # noqa: BLE001 -- whatever a library raises is its refusal
        return Answer(claim, refusal=_reason(error), call=call)


def _prv(setting: Setting) -> dict[str, Answer]:
    """Return prv-accountant's three numbers."""
    names = ("PRV, lower", "PRV, estimate", "PRV, upper")
    if not setting.prv:
        return {name: Answer(LIBRARIES[name]) for name in names}
    counts = [count * setting.compositions for _, count in setting.prv]
    given = f"prvs=[{', '.join(text for text, _ in setting.prv)}], max_self_compositions={counts}"
    # prv-accountant takes an absolute error in δ, "typically around 10^-3 δ"; for δ itself it is tiny here.
    error = f"1e-3 * {setting.delta}" if setting.delta else "1e-20"
    question = (
        f"compute_epsilon({setting.delta}, {counts})"
        if setting.delta
        else f"compute_delta({setting.epsilon}, {counts})"
    )
    call = f"PRVAccountant({given}, eps_error={setting.eps_error}, delta_error={error}).{question}"
    try:
        found = [float(value) for value in evaluated(call)]
    except (SyntaxError, NameError):
        raise
    except Exception as caught:  # noqa: BLE001 -- whatever a library raises is its refusal
        return {name: Answer(LIBRARIES[name], refusal=_reason(caught), call=call) for name in names}
    return {name: Answer(LIBRARIES[name], value, call=call) for name, value in zip(names, found, strict=True)}


def _reason(error: Exception) -> str:
    """Return what an error says, in one line."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:_REASON]}{'..' if len(text) > _REASON else ''}"
