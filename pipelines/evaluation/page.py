"""Write ``docs/evaluation.md`` from the claims, the figures and the studies beyond the paper."""

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from pipelines.evaluation.claim import DEFINED, HOLDS, NOT_TESTABLE, REFUTED, UNDECIDED, Claim, Finding
from pipelines.evaluation.stored import Stored

__all__ = ["page"]

_HEAD = """\
# The 2018 paper's evaluation, remade

Meiser & Mohammadi (CCS 2018, "Tight on Budget? Tight Bounds for r-Fold Approximate Differential Privacy") compare
privacy buckets with all that came before. Here every claim of theirs that can be computed stands against what is
proved, and every figure is computed again. The [glossary](glossary.md) has the words,
[bounds of earlier work](earlier-bounds.md) the theorems, [comparison](comparison.md) who else is wrong where,
and [beyond](beyond.md) what the paper leaves open.

This page is generated: `python -m pipelines.evaluate` makes all of it from nothing in some 20 minutes, and
nobody types a number into it.
Numbers in brackets are proved from both sides and rounded outwards. A claim holds where our bounds prove it, and is
refuted where they prove the opposite. Some claims have several parts, which all have to hold. "N orders" are powers of
ten, read as N - 0.5 to N + 0.5, and "almost N" as N - 0.5 to N + 0.1.

Where the paper can be read in several ways, each reading has its own line:

* *clamp-and-ceil*: the noise is ⌈max(0, X)⌉, as the papers of Vuvuzela define the protocol;
* *redraw-and-floor*: it is ⌊X⌋, drawn again while negative, as the published code does it;
* *shift-inside*: the difference stands inside the maximum, as section 7.1 of the paper writes it;
* *both counts*: a conversation shows how many dead drops are accessed once and how many twice;
* *singles alone*: only the first of them is seen;
* *one summed count*: section 7.1 literally adds both noises; a real number here, and never cut at 0.

The red dots of the paper's figures are defined nowhere in it. They are taken to be the promise of Vuvuzela's authors:
a round of conversations is (4/γ, e^((2 - μ)/γ))-private, one of dialing (2/γ, ½ e^((1 - μ)/γ))-private, composed by
ε' = ε √(2 r ln(1/d)) + r ε (e^ε - 1) and δ' = r δ + d with d = 1e-5.

In every panel each valid bound of earlier work is compared with ours of the same mechanism, at every point: it must not
lie below our lower bound, nor below our upper one by more than the tolerance. The command fails where one does.
"""


def page(stored: Stored, claims: Sequence[Claim]) -> str:
    """Return the page: what is found of the claims, and the figures with their captions."""
    parts = [_HEAD, _summary(claims), _claims(claims), "## Figures\n", *_figures(stored)]
    return "\n".join(part.rstrip("\n") + "\n" for part in parts)


def _summary(claims: Sequence[Claim]) -> str:
    kinds = {
        HOLDS: "hold",
        f"{HOLDS} only": "hold only under some readings",
        REFUTED: "are refuted",
        f"{REFUTED} for": "are refuted in part",
        UNDECIDED: "are undecided",
        DEFINED: "hold by definition",
        NOT_TESTABLE: "cannot be tested",
    }
    counts = Counter(max((kind for kind in kinds if claim.verdict.startswith(kind)), key=len) for claim in claims)
    told = ", ".join(f"{counts[kind]} {text}" for kind, text in kinds.items() if counts[kind])
    return f"Of {len(claims)} claims {told}.\n"


def _claims(claims: Sequence[Claim]) -> str:
    lines = ["## Claims", "", "| where | claim | found | verdict |", "|---|---|---|---|"]
    for claim in claims:
        found = "<br>".join(_finding(finding) for finding in claim.findings) or "-"
        rule = f" ({claim.rule})" if claim.rule else ""
        cells = (claim.where, claim.text + rule, found, f"**{claim.verdict}**")
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


def _finding(finding: Finding) -> str:
    mark = {True: "yes", False: "no", None: "undecided"}[finding.holds]
    return f"{finding.reading + ': ' if finding.reading else ''}{finding.found}: {mark}"


def _figures(stored: Stored) -> Iterator[str]:
    """Yield each figure with its caption and its files."""
    for name in stored.names:
        figure = stored.figure(name)
        yield f"### {figure.title}\n"
        yield f"![{figure.title}](figures/{name}.svg)\n"
        files = f"[Data](figures/{name}.csv), [parameters](../pipelines/figures/paper.py)"
        yield textwrap.fill(f"{figure.caption} *{figure.source}.* {files}.", 120, break_long_words=False) + "\n"


def written(path: Path, text: str) -> None:
    """Write a page as a whole."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(path)
