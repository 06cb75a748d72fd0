"""Make the evaluation from nothing: studies, figures, and the pages that are generated from them.

    python -m pipelines.evaluate

It needs the repository and ``pip install -e '.[test]'``. Points in the stores are not computed again. Progress goes
to stderr.
"""

import argparse
import subprocess
import sys
import time
from pathlib import Path

from pipelines.evaluation import mechanisms, noise, vuvuzela
from pipelines.evaluation.beyond_page import beyond_page
from pipelines.evaluation.page import CLAIMS, FINDINGS, claims_table, findings_table, page, written
from pipelines.evaluation.stored import Stored

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_PIPELINES, _DOCS = _ROOT / "pipelines", _ROOT / "docs"
#: Studies that are run beside the figures, by their files' names.
_STUDIES = (
    "evaluation",
    "census-2020",
    "laplace-against-gauss",
    "optimal-mechanisms",
    *(f"bucket-convergence{name}" for name in ("", "-1e3", "-1e4", "-1e4-r512", "-1e5", "-1e6", "-1e7")),
)


def main(arguments: list[str] | None = None) -> int:
    """Run every step; return the first exit code that is not 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stores", type=Path, default=_ROOT / "data", help="where the stores are (default: data)")
    parser.add_argument("--docs", type=Path, default=_DOCS, help="where pages and figures are written (default: docs)")
    parser.add_argument("--page", action="store_true", help="only write the page, from the stores as they are")
    options = parser.parse_args(arguments)
    if not options.page:
        for title, command in _steps(options.stores, options.docs):
            _tell(title)
            since = time.monotonic()
            code = subprocess.run([sys.executable, *command], cwd=_ROOT, check=False).returncode  # noqa: S603
            if code:
                _tell(f"{title}: ended with {code}")
                return code
            _tell(f"{title}: {time.monotonic() - since:.0f} s")
    stored = Stored(options.stores)
    _tell("claims")
    claims = [*vuvuzela.claims(stored), *mechanisms.claims(stored), *noise.claims(stored)]
    written(options.docs / "evaluation.md", page(stored, claims))
    written(options.docs / CLAIMS, claims_table(claims))
    written(options.docs / FINDINGS, findings_table(claims))
    _tell("beyond")
    text, tables = beyond_page(options.stores)
    written(options.docs / "beyond.md", text)
    for name, table in tables.items():
        written(options.docs / name, table)
    _tell(f"{options.docs / 'evaluation.md'}: {len(claims)} claims")
    return 0


def _steps(stores: Path, docs: Path) -> list[tuple[str, list[str]]]:
    """Return what is run, with its name, as arguments of Python."""
    pbdist = ["-m", "pbdist"]
    studies = [
        (name, [*pbdist, "run", str(_PIPELINES / f"{name}.yaml"), "--store", str(stores / f"{name}.zarr")])
        for name in _STUDIES
    ]
    figures = ["-m", "pipelines.figures", "all", str(docs / "figures"), "--stores", str(stores), "--workers", "2"]
    pages = [
        ("measured timing", ["-m", "pipelines.measured_timing", "--folder", str(docs / "measured-timing")]),
        ("comparison", ["-m", "pipelines.comparison", "--output", str(docs / "comparison.md")]),
    ]
    return [*studies, ("figures", figures), *pages]


def _tell(text: str) -> None:
    print(f"evaluate: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
