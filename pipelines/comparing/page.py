"""Write the page from what every method answered."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from io import StringIO
from math import inf

from pipelines.comparing.judgement import Claim, Judgement, Verdict, judged
from pipelines.comparing.methods import IMPORTS, LIBRARIES, THEOREMS, Answer, delta_below, evaluated
from pipelines.comparing.numbers import above, below, cell, nearest, times
from pipelines.comparing.setting import Setting

__all__ = ["Compared", "answers_table", "page", "source"]

#: The columns of `answers_table`.
COLUMNS = (
    *("setting", "asked", "lower", "upper", "theorems", "call"),
    *("method", "answer", "judgement", "their_call", "note"),
)

_SHORT = {
    "moments-improved": "moments, improved",
    "concentrated-improved": "concentrated, improved",
    "clt": "limit (CLT)",
}
_READING = """\
# Who is wrong where

Each setting below is one question: which ε does a composition meet at a given δ, or which δ at a given ε? The bounds of
earlier work ([earlier-bounds.md](earlier-bounds.md)) and two libraries answer it, and our bracket judges them. The
words are in the [glossary](glossary.md). Every answer and every call is in the table `docs/comparison.csv`. Both are
generated, see [the end](#how-to-make-this-page-again).

{versions}

## How to read it

An answer is a number with a claim: an *upper bound*, a *lower bound*, or an *estimate* that claims neither. Our bracket
is proved from both sides, so:

| in a table | an upper bound | a lower bound | an estimate |
|---|---|---|---|
| 1.03× | *valid*: at least our upper bound, so many times as large | below 1×: *valid*, at most our lower bound | |
| ≈ | lies in our bracket, which is narrower than 1 % | the same | the same |
| **refuted** 0.93× | below our lower bound, its share of that: no bound | above our upper bound: no bound | |
| **too small**, **too large** | | | outside our bracket |
| ? | lies in our bracket, which is wide: undecided | the same | the same |
| says nothing | ∞, or δ = 1; for a theorem: nothing up to 10^6 times our ε | 0 or less | |
| refused, left out | gives no number; the table says why | the same | the same |
| – | has no such mechanism, or no such call | the same | the same |

A refutation of an upper bound needs no trust in our upper bounds: δ at their ε is *larger* than they say. The theorems
of earlier work take ε from δ by bisection, whose upper end is given, so that 1 + 3e-4× may be the bisection's. A call
in the table is the call that was run. Nothing is said of other versions than these; where the rounding of a
library's Fourier transforms decides, another processor may round otherwise. Nothing is said of speed either, in which
dp-accounting is ahead of us in some settings: see [benchmarks.md](benchmarks.md).
"""
#: What the settings show; each line has a test.
_FAULTS = """\
What is wrong, in words; the column `note` of the table says more.

- dp-accounting's `PLDAccountant` ignores the count of a randomized response event.
- Its `RdpAccountant` takes `REPLACE_ONE` for Gaussian and Laplace noise, and computes as if a record were added.
- Its `RdpAccountant` takes divergences that rounding made negative for 0: no loss at all.
- Its loss distributions do not bound the rounding of their Fourier transforms. Where δ is 1e-12 or less and rounds are
  many, its pessimistic ε is now above, now below the truth.
- Its optimistic δ never falls below 1e-15 under composition, which is then above the truth.
- Its closed form for Gaussian noise loses digits where noise is large, at last all of them.
- prv-accountant's `PureDPMechanism` and `ApproximateDPMechanism` choose a domain that is too small: its certified
  interval is below the truth.
- prv-accountant's `compute_delta` answers tiny δ with negative upper bounds, where `compute_epsilon` refuses.
- The central limit theorem, used as a bound, is too small for DP-SGD with little noise, and for tiny δ.
"""
_RIGHT = """\
## Where the libraries are right

The settings are chosen to find faults, so these counts are no rates of error. In ordinary settings (δ from 1e-5 to
1e-8, the default neighbours) dp-accounting's loss distributions are valid, and mostly as good as our bracket.
prv-accountant's interval holds for DP-SGD, Gaussian and Laplace noise wherever it gives an ε.
"""
_OURS = """\
## An error of our own

We hold ourselves to the same standard. From 22 November 2026 (commit b90dd55) to 25 November 2026, in no release,
`epsilon_bounds(.., direction="each")` returned lower bounds above the truth.

- *What was wrong.* Where no exact transform is known, ε of many rounds is read off a few frequencies. The function that
  reads them did not take a direction, and used the larger δ of both. So the smaller direction got the ε of the larger
  one: a lower bound above the truth, and an upper bound that held, but was too large.
- *What it affected.* `epsilon_bounds` and `Accountant.epsilon` with `direction="each"`, and `pbdist epsilon --direction
  each`: for asymmetric pairs such as `SubsampledLaplace`, `SubsampledGaussianGroup`, `GaussianMixture` and histograms,
  for their products and reverses, and for `RandomAllocation`. For `SubsampledGaussian` with noise multipliers below
  0.25, and with any multiplier in histories with more than 12 different steps or with another kind of noise; in such
  histories the lower bound could exceed the upper one. The command added that no analysis can prove an ε below the
  lower bound, which was wrong there.
- *What was right.* `direction="both"`, the default; δ of each direction; sizes, studies and stores; and all numbers of
  this page.
- *How it was found.* By hostile comparison with δ of the same direction at the ε returned. No test had asked this of
  each direction for many rounds.

| setting, B\\|\\|A | lower bound on ε | in truth |
|---|---|---|
| `SubsampledLaplace(0.2, 0.001)`, r 5,000, δ 1e-6 | 3.63779 | ε lies in [2.64238, 2.64247] |
| `SubsampledLaplace(33.0522, 0.0162522)`, r 1,419,895, δ 1.39606e-4 | 1.97209198 | δ there is 1.395613e-4 |
| `SubsampledGaussianGroup(65.3744, 0.750421, 10)`, r 132, δ 0.0175213 | 3.0637295 | δ there is 0.0174209 |
| 13 steps `SubsampledGaussian(1 + i/20, 0.01)`, 100 of each, δ 1e-6 | 1.66749 | ε lies in [1.36358, 1.36363] |
| `SubsampledGaussian(0.8, 0.001)` with `Laplace(3000)`, r 5,000, δ 1e-6 | 0.73738 | ε lies in [0.50970, 0.50972] |

*Checked by* `tests/bounds/test_each_direction.py`: for every mechanism and every engine, δ of each direction at both
bounds on its ε.
"""
_AGAIN = """\
## How to make this page again

```sh
pip install -e '.[test]'
python pipelines/comparison.py --output docs/comparison.md
```

It takes some minutes. The names in the calls come from

```python
{imports}```

and `DIALING` holds the logarithms of the probabilities of both counts (`pipelines/comparing/methods.py`). The settings
are in `pipelines/comparing/settings.py`. *Checked by* `tests/pipelines/test_comparison.py`, which confirms each
refutation without pbdist, by closed forms and binomial sums in 50 digits or by Fourier inversion.
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
    def asked(self) -> str:
        """What is asked for."""
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
    """Return the page."""
    return "\n".join(
        [
            _READING.format(versions=_versions()),
            _summary(results),
            _FAULTS,
            _refutations(results),
            _fairness(results),
            _OURS,
            _AGAIN.format(imports=IMPORTS),
        ]
    )


def _versions() -> str:
    names = ("dp-accounting", "prv-accountant", "numpy", "scipy")
    return "Compared are " + ", ".join(f"{name} {version(name)}" for name in names) + "."


def _table(head: Sequence[str], rows: Iterator[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def _summary(results: Sequence[Compared]) -> str:
    """Return the tables of all settings: theorems, then libraries."""
    parts = ["## Summary\n"]
    for title, names in (("Earlier theorems", THEOREMS), ("dp-accounting and prv-accountant (PRV)", LIBRARIES)):
        head = ["setting", "ours", *(_SHORT.get(name, name) for name in names)]
        rows = ([one.setting.name, _ours(one), *(one.shown(name) for name in names)] for one in results)
        parts += [f"**{title}**\n", _table(head, rows)]
    parts.append(
        "*PLD* is dp-accounting's `PLDAccountant` with its defaults, or its loss distributions where it has no event;"
        " *other call* is explained in the table; *optimistic* has `pessimistic_estimate=False`, a lower bound; *RDP*"
        " is its `RdpAccountant`; *closed form* its `get_epsilon_gaussian`.\n"
    )
    return "\n".join(parts)


def _ours(one: Compared) -> str:
    return f"{one.asked} in [{below(one.lower)}, {above(one.upper)}]"


def _refutations(results: Sequence[Compared]) -> str:
    """Return the table of all bounds that are none, and of the estimates that are too small."""
    rows, low = [], []
    for one in results:
        for name, answer in one.answers.items():
            judgement = one.judgement(name)
            if judgement is None or answer.value is None:
                continue
            if judgement.verdict is Verdict.REFUTED:
                theorems = source(one.setting, upper=answer.claim is Claim.LOWER)
                rows.append([one.setting.name, name, *_numbers(one, answer), theorems])
            if judgement.verdict is Verdict.LOW:
                low.append([one.setting.name, _SHORT.get(name, name), *_numbers(one, answer), source(one.setting)])
    head = ["setting", "method", "their value", "our proof", "so that", "theorems"]
    return "\n".join(
        [
            "## Refutations\n",
            f"{len(rows)} numbers that are told as bounds are none. Theorems are those of [pld.md](pld.md).\n",
            _table(head, iter(rows)),
            f"{len(low)} estimates are below our lower bound: taken for bounds, they would be wrong.\n",
            _table(head, iter(low)),
        ]
    )


def _numbers(one: Compared, answer: Answer) -> list[str]:
    """Return their value, our bound, and what that means at their value."""
    value = answer.value or 0.0
    told = f"{one.asked} = {nearest(value)}"
    if answer.claim is Claim.LOWER:
        return [told, f"{one.asked} ≤ {above(one.upper)}", "it is no lower bound"]
    proof = f"{one.asked} ≥ {below(one.lower)}"
    if not one.setting.delta:
        return [
            told,
            proof,
            "a negative δ" if value < 0.0 else f"δ is at least {_many(one.lower / value)} times theirs",
        ]
    asked, found = evaluated(one.setting.delta), delta_below(one.setting, max(value, 0.0))
    at = f"at ε = {nearest(value)}" if value >= 0.0 else "even at ε = 0"
    return [told, proof, f"δ {at} is at least {below(found)}, {_many(found / asked)} times the δ asked for"]


def _many(ratio: float) -> str:
    return times(ratio).removesuffix("×")


def _fairness(results: Sequence[Compared]) -> str:
    """Return how often each library is right, and where we say little."""
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
    head = ["method", "≈", "valid", "refuted, or outside", "says nothing", "undecided", "refused"]
    wide = [one.setting.name for one in results if one.upper > 1.01 * one.lower]
    said = f"Our own bracket is wider than 1 % in {len(wide)} settings: {'; '.join(wide)}.\n"
    return "\n".join([_RIGHT, _table(head, iter(rows)), said])


def answers_table(results: Sequence[Compared]) -> str:
    """Return every answer as CSV: a line for each setting and method that has a number or a refusal."""
    text = StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(COLUMNS)
    for one in results:
        ours = one.setting.name, one.asked, below(one.lower), above(one.upper), source(one.setting), one.call
        for name, answer in one.answers.items():
            if answer.value is not None or answer.refusal is not None:
                number = nearest(answer.value) if answer.value is not None else answer.refusal
                judgement = one.shown(name).replace("**", "")
                # The three numbers of prv-accountant have one call.
                call = answer.call if name not in {"PRV, estimate", "PRV, upper"} else ""
                lines.writerow([*ours, _SHORT.get(name, name), number, judgement, call, one.setting.note])
    return text.getvalue()
