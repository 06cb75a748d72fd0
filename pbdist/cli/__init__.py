"""The command line: arguments in, one call, output out. Everything heavy is imported when it is used."""

from pbdist.cli.entry import main

__all__ = ["main"]
