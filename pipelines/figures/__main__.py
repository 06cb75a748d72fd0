"""Make figures of the 2018 paper: ``python -m pipelines.figures NAME .. OUT``, or ``all``.

It writes NAME.csv, NAME.svg and NAME.png into OUT. What is in the stores is not computed again.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

from pbdist import PbdistError
from pipelines.figures.drawing import make
from pipelines.figures.paper import FIGURES

__all__ = ["main"]


def main(arguments: list[str] | None = None) -> int:
    """Make the figures; return 1 if curves contradict each other."""
    parser = argparse.ArgumentParser(prog="python -m pipelines.figures", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", choices=[*FIGURES, "all"], help="figure-01a .. or all")
    parser.add_argument("out", type=Path, metavar="OUT", help="the folder of the files")
    parser.add_argument("--stores", type=Path, default=Path("data"), help="where the stores are (default: data)")
    parser.add_argument("--workers", type=int, default=1, help="figures made at once (default: 1)")
    options = parser.parse_args(arguments)
    names = list(FIGURES) if "all" in options.names else list(dict.fromkeys(options.names))
    code = 0
    with ProcessPoolExecutor(options.workers, get_context("spawn")) as pool:
        for name, made in [(name, pool.submit(make, name, options.out, options.stores)) for name in names]:
            try:
                problems = made.result()
            except PbdistError as error:
                problems = [f"{name}: {error}"]
            print(f"{options.out / name}.csv, .svg, .png", *problems, sep="\n", flush=True)
            code = code or int(bool(problems))
    return code


if __name__ == "__main__":
    sys.exit(main())
