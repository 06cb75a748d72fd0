"""Write the page from what every method answered."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from math import inf

from pipelines.comparing.judgement import Claim, Judgement, Verdict, judged
from pipelines.comparing.methods import LIBRARIES, THEOREMS, Answer, delta_below, evaluated
from pipelines.comparing.numbers import above, below, cell, nearest, times
from pipelines.comparing.setting import Setting
from pipelines.csv_tables import csv_text, shown

__all__ = ["Compared", "answers_table", "page", "source", "tables"]

#: The columns of `answers_table`.
COLUMNS = (
    *("setting", "quantity", "lower", "upper", "theorems", "call"),
    *("method", "answer", "judgement", "their_call", "note"),
)

#: The name of the page, with which those of its tables begin.
_PAGE = "comparison"
_METHODS = {"theorems": THEOREMS, "libraries": LIBRARIES}
_SHORT = {
    "moments-improved": "moments, improved",
    "concentrated-improved": "concentrated, improved",
    "clt": "limit (CLT)",
}
_READING = """\
# Who is wrong where

Each setting asks one question: which ε meets a given δ, or which δ holds at a given ε? The theorems of [earlier
work](earlier-bounds.md) and two libraries answer, and our bracket, proved from both sides, judges them. The page and
its tables are generated; every answer with the call that gave it is in [comparison.csv](comparison.csv).

{versions}

"""
#: What the settings show; each line has a test.
_FAULTS = """\
## Faults found

- dp-accounting's `PLDAccountant` ignores the count of a randomized response event.
- Its `RdpAccountant` accepts `REPLACE_ONE` for Gaussian and Laplace noise, and computes as if a record were added.
- Its `RdpAccountant` sets to 0 the divergences that rounding made negative, as if no privacy were lost.
- Its loss distributions do not bound the rounding of their Fourier transforms. For δ of 1e-12 or less and many rounds,
  its pessimistic ε is sometimes above, sometimes below the truth.
- Under composition its optimistic δ never falls below 1e-15, even where the truth does.
- Its closed form for Gaussian noise loses digits where noise is large, eventually all of them.
- prv-accountant's `PureDPMechanism` and `ApproximateDPMechanism` choose too small a domain: the certified interval lies
  below the truth.
- prv-accountant's `compute_delta` gives negative upper bounds for tiny δ, where `compute_epsilon` refuses.
- The central limit theorem, used as a bound, is too small for DP-SGD with little noise, and for tiny δ.
"""
_LEGEND = """\
## How to read the tables

An answer is a number with a claim: an *upper bound*, a *lower bound*, or an *estimate* that claims neither.

| in a table | upper bound | lower bound | estimate |
|---|---|---|---|
| 1.03× | *valid*: this multiple of our upper bound | below 1×: *valid*, this multiple of our lower bound | |
| ≈ | in our bracket, which is narrower than 1 % | same | same |
| **refuted** 0.93× | below our lower bound: no bound | above our upper bound: no bound | |
| **too small**, **too large** | | | outside our bracket |
| ? | in our bracket, which is wide: undecided | same | same |
| says nothing | ∞, or δ = 1; for a theorem, also an ε above 10^6 times ours | 0 or less | |
| refused, left out | no number; the table gives the reason | same | same |
| – | no such mechanism, or no such call | same | same |

To refute an upper bound, only our lower bound is needed: δ at their ε is *larger* than they say. Theorems give ε by
bisection and report its upper end, which may cause an excess of up to 3e-4. The results hold for these versions only,
and another processor may round a library's Fourier transforms otherwise. For speed see [benchmarks](benchmarks.md).

*PLD* is dp-accounting's `PLDAccountant` with its defaults, or its loss distributions where it has no event; *other
call* is named in the table; *optimistic* has `pessimistic_estimate=False`, a lower bound; *RDP* is its `RdpAccountant`;
*closed form* is its `get_epsilon_gaussian`; *PRV* is prv-accountant.
"""
_RIGHT = """\
## Where the libraries are right

The settings were chosen to find faults, so these counts are not error rates. In ordinary settings (δ from 1e-5 to 1e-8,
default neighbours) dp-accounting's loss distributions are valid, and mostly as good as our bracket. prv-accountant's
interval holds for DP-SGD, Gaussian and Laplace noise wherever it gives an ε.
"""
_AGAIN = """\
## Reproduce

```sh
pip install -e '.[test]'
python pipelines/comparison.py --output docs/comparison.md
```

This takes some minutes. Settings are in `pipelines/comparing/settings.py`, and the names used in the calls in
`pipelines/comparing/methods.py`. `tests/pipelines/test_comparison.py` confirms each refutation without pbdist, by
closed forms and binomial sums in 50 digits or by Fourier inversion.
"""


@dataclass(frozen=True)
class Compared:
    """A setting with our bracket and every answer."""

    setting: Setting
    lower: float
    upper: float
    call: str
    answers: Mapping[str, Answer]

    @property
    def quantity(self) -> str:
        """The quantity in question."""
        return "ε" if self.setting.delta else "δ"

    def judgement(self, name: str) -> Judgement | None:
        """Judge a method's number, if it gives one."""
        answer = self.answers[name]
        if answer.value is None:
            return None
        largest = inf if self.setting.delta else 1.0
        return judged(answer.claim, answer.value, self.lower, self.upper, largest)

    def shown(self, name: str) -> str:
        """Return a method's cell in a table."""
        judgement, refusal = self.judgement(name), self.answers[name].refusal
        if judgement is not None:
            return cell(judgement)
        return "–" if refusal is None else "left out" if refusal.startswith("left out") else "refused"


def source(setting: Setting, *, upper: bool = False) -> str:
    """Return the theorems that prove our lower bounds, or our upper ones."""
    if "SubsampledGaussian" in setting.mechanism and "Laplace" not in setting.mechanism:
        numbers = [28, 29, 30]
    elif setting.mechanism.startswith("Gaussian(") and "truncate" not in setting.mechanism:
        numbers = [19]
    else:
        numbers = [18, 21, 22, 25] if upper else [8, 15, 26]
    return ", ".join(str(each) for each in sorted(numbers + ([16] if setting.delta else [])))


def page(results: Sequence[Compared]) -> str:
    """Return the page, which shows the `tables`."""
    return "\n".join(
        [
            _READING.format(versions=_versions()) + _FAULTS,
            _refutations(results),
            _LEGEND,
            _summary(),
            _fairness(results),
            _AGAIN,
        ]
    )


def tables(results: Sequence[Compared]) -> dict[str, str]:
    """Return the CSV files beside the page, by their names."""
    refuted, low = _wrong(results)
    head = ("setting", "method", "claim", "their value", "our proof", "consequence", "theorems")
    rows = [(*row[:2], claim, *row[2:]) for claim, found in (("bound", refuted), ("estimate", low)) for row in found]
    settings = {
        f"{_PAGE}-{kind}.csv": csv_text(
            ("setting", "ours", *(_SHORT.get(name, name) for name in names)),
            ([one.setting.name, _ours(one), *(one.shown(name) for name in names)] for one in results),
        )
        for kind, names in _METHODS.items()
    }
    return {
        f"{_PAGE}.csv": answers_table(results),
        **settings,
        f"{_PAGE}-refutations.csv": csv_text(head, rows),
        f"{_PAGE}-counts.csv": _counts(results),
    }


def _versions() -> str:
    names = ("dp-accounting", "prv-accountant", "numpy", "scipy")
    return "Compared are " + ", ".join(f"{name} {version(name)}" for name in names) + "."


def _summary() -> str:
    """Return the tables of all settings: theorems, then libraries."""
    titles = {"theorems": "Earlier theorems", "libraries": "dp-accounting and prv-accountant"}
    parts = ["## Summary\n"]
    for kind, title in titles.items():
        parts += [f"**{title}**, [as CSV]({_PAGE}-{kind}.csv)\n", shown(f"{_PAGE}-{kind}.csv")]
    return "\n".join(parts)


def _ours(one: Compared) -> str:
    return f"{one.quantity} in [{below(one.lower)}, {above(one.upper)}]"


def _wrong(results: Sequence[Compared]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the rows of refuted bounds, and those of estimates that are too small."""
    refuted, low = [], []
    for one in results:
        for name, answer in one.answers.items():
            judgement = one.judgement(name)
            if judgement is None or answer.value is None:
                continue
            if judgement.verdict is Verdict.REFUTED:
                theorems = source(one.setting, upper=answer.claim is Claim.LOWER)
                refuted.append([one.setting.name, name, *_numbers(one, answer), theorems])
            if judgement.verdict is Verdict.LOW:
                low.append([one.setting.name, _SHORT.get(name, name), *_numbers(one, answer), source(one.setting)])
    return refuted, low


def _refutations(results: Sequence[Compared]) -> str:
    """Return the table of refuted bounds and of the estimates that are too small."""
    refuted, low = _wrong(results)
    name = f"{_PAGE}-refutations.csv"
    return (
        "## Refutations\n\n"
        f"{len(refuted)} numbers claimed as bounds are refuted, and {len(low)} estimates are below our lower bound.\n"
        f"[The table]({name}) gives their value, our bound, and the theorems of [pld.md](pld.md) that prove it.\n\n"
        + shown(name, "texts")
    )


def _numbers(one: Compared, answer: Answer) -> list[str]:
    """Return their value, our bound, and what that means at their value."""
    value = answer.value or 0.0
    theirs = f"{one.quantity} = {nearest(value)}"
    if answer.claim is Claim.LOWER:
        return [theirs, f"{one.quantity} ≤ {above(one.upper)}", "it is no lower bound"]
    proof = f"{one.quantity} ≥ {below(one.lower)}"
    if not one.setting.delta:
        return [
            theirs,
            proof,
            "a negative δ" if value < 0.0 else f"δ is at least {_many(one.lower / value)} times theirs",
        ]
    target, found = evaluated(one.setting.delta), delta_below(one.setting, max(value, 0.0))
    at = f"at ε = {nearest(value)}" if value >= 0.0 else "even at ε = 0"
    return [theirs, proof, f"δ {at} is at least {below(found)}, {_many(found / target)} times the target δ"]


def _many(ratio: float) -> str:
    return times(ratio).removesuffix("×")


def _counts(results: Sequence[Compared]) -> str:
    """Return how often each library is right, as CSV."""
    rows = []
    for name in LIBRARIES:
        found = [one.judgement(name) for one in results]
        count = {verdict: sum(each is not None and each.verdict is verdict for each in found) for verdict in Verdict}
        refused = sum(one.answers[name].refusal is not None for one in results)
        outside = count[Verdict.REFUTED] + count[Verdict.LOW] + count[Verdict.HIGH]
        rows.append(
            [
                name,
                *(str(each) for each in (count[Verdict.WITHIN], count[Verdict.VALID], outside)),
                *(str(each) for each in (count[Verdict.SILENT], count[Verdict.OPEN], refused)),
            ]
        )
    head = ("method", "≈", "valid", "refuted, or outside", "says nothing", "undecided", "refused")
    return csv_text(head, rows)


def _fairness(results: Sequence[Compared]) -> str:
    """Return where the libraries are right, and where we say little."""
    wide = [one.setting.name for one in results if one.upper > 1.01 * one.lower]
    number = "one setting" if len(wide) == 1 else f"{len(wide)} settings"
    said = f"Our own bracket is wider than 1 % in {number}: {'; '.join(wide)}.\n"
    return "\n".join([_RIGHT, shown(f"{_PAGE}-counts.csv"), said])


def answers_table(results: Sequence[Compared]) -> str:
    """Return every answer as CSV: a line for each setting and method that has a number or a refusal."""
    rows = []
    for one in results:
        ours = one.setting.name, one.quantity, below(one.lower), above(one.upper), source(one.setting), one.call
        for name, answer in one.answers.items():
            if answer.value is not None or answer.refusal is not None:
                number = nearest(answer.value) if answer.value is not None else str(answer.refusal)
                judgement = one.shown(name).replace("**", "")
                # The three numbers of prv-accountant have one call.
                call = answer.call if name not in {"PRV, estimate", "PRV, upper"} else ""
                rows.append([*ours, _SHORT.get(name, name), number, judgement, call, one.setting.note])
    return csv_text(COLUMNS, rows)
