"""``pbdist verify``: whether a store is complete, unchanged, and right at sampled points."""

import argparse
import json

from pbdist.cli.exits import FAILED

__all__ = ["add_to"]


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command."""
    parser = commands.add_parser("verify", help="check a store: complete, unchanged, and right at sampled points")
    parser.add_argument("store", metavar="STORE", help="a store: a path or s3://BUCKET/PREFIX")
    parser.add_argument("--sample", metavar="K", type=int, default=20, help="points to recompute (default: 20)")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="seed of the choice of points (default: 0)")
    parser.add_argument("--cells", metavar="N", type=int, help="cells of the exact arithmetic (default: 100,000)")
    parser.add_argument("--json", action="store_true", help="print JSON, unrounded")
    parser.set_defaults(action=_verify)


def _verify(options: argparse.Namespace) -> int:
    from pbdist.verify.store import DEFAULT_CELLS, verify_store

    cells = DEFAULT_CELLS if options.cells is None else options.cells
    found = verify_store(options.store, sample=options.sample, seed=options.seed, max_cells=cells)
    if options.json:
        print(json.dumps(found.as_json(), indent=2, allow_nan=False))
    else:
        print(*found.lines(), sep="\n")
    return 0 if found.passed else FAILED
