"""The command line: arguments in, one call, output out. Everything heavy is imported when it is used."""

TYPE_CHECKING = False  # As in `typing`: nothing is imported before the signals are watched.
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the command line and return the exit code.

    0: done; 1: some cells failed, or a store does not pass; 2: something in the input is wrong; 130: interrupted.

    Parameters
    ----------
    arguments
        What the command is called with, for who calls it from Python; then the signals of the process stay as they
        are. None for the process's own arguments: Ctrl-C, SIGTERM and SIGHUP end it from now on, with one line.
    """
    if arguments is None:
        from pbdist.cli.interrupts import watch

        watch()
    from pbdist.cli.entry import run_command

    return run_command(arguments)
