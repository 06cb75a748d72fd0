"""The entry of the command line: its commands, its exit codes, and what it says of errors."""

import argparse
import io
import os
import sys
from collections.abc import Sequence

from pbdist.cli import plan, query, run, size, status, verify
from pbdist.cli.exits import EXIT_CODES, FAILED, WRONG
from pbdist.cli.interrupts import INTERRUPTED, LINE, end_if_watched
from pbdist.errors import BatchError, PbdistError

__all__ = ["run_command"]


def run_command(arguments: Sequence[str] | None) -> int:
    """Run a command and return the exit code: see `pbdist.cli.main`."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A terminal without Greek letters gets a question mark, not a traceback.
            stream.reconfigure(errors="replace")
    options = _parser().parse_args(arguments)
    try:
        code = int(options.action(options))
        sys.stdout.flush()
        return code
    except PbdistError as error:
        print(f"pbdist: error: {error}", file=sys.stderr)
        return FAILED if isinstance(error, BatchError) else WRONG
    except KeyboardInterrupt:
        end_if_watched()
        print(LINE, end="", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read the output has gone: nothing is left to tell, nor to be flushed at the exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"pbdist: error: {PbdistError(str(error))}", file=sys.stderr)
        return WRONG


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pbdist",
        description="Certified bounds on r-fold approximate differential privacy, for whole studies.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in (plan, run, status, query, size, verify):
        command.add_to(commands)
    return parser


class _Version(argparse.Action):
    """Prints the version; the import waits until it is asked for."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        from importlib import metadata

        print(f"pbdist {metadata.version('pbdist')}")
        parser.exit()
