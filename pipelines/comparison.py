"""Make ``docs/comparison.md`` and its tables: earlier theorems and other libraries, judged by our bracket.

    python pipelines/comparison.py [--output docs/comparison.md]

Progress goes to stderr. It needs the libraries of the extra ``test``.
"""

import argparse
import importlib
import sys
from importlib.util import find_spec
from pathlib import Path

__all__ = ["main"]

_ROOT = Path(__file__).resolve().parents[1]
_LIBRARIES = {"dp_accounting": "dp-accounting", "prv_accountant": "prv-accountant"}


def main(arguments: list[str] | None = None) -> int:
    """Compute all answers and write the page; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--output", type=Path, default=_ROOT / "docs" / "comparison.md", help="the page; its tables go beside it"
    )
    options = parser.parse_args(arguments)
    missing = [package for name, package in _LIBRARIES.items() if find_spec(name) is None]
    if missing:
        _tell(f"comparison: {' and '.join(missing)} missing: pip install 'pbdist[test]'")
        return 2
    if str(_ROOT) not in sys.path:  # run as a file, not as a module
        sys.path.insert(0, str(_ROOT))
    # Late, for they import the libraries.
    compared = importlib.import_module("pipelines.comparing.run").compared
    writer = importlib.import_module("pipelines.comparing.page")
    results = compared(_tell)
    for name, text in {options.output.name: writer.page(results), **writer.tables(results)}.items():
        path = options.output.with_name(name)
        path.write_text(text, encoding="utf-8")
        _tell(f"comparison: {path} written")
    return 0


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
