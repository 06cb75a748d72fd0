"""The command line. Everything heavy is imported when it is used."""

TYPE_CHECKING = False  # As in `typing`, which is not imported before the signals are watched.
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["main"]


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Run the command line and return the exit code, as the help of each command explains it.

    With `arguments`, for a call from Python, the signal handlers of the process stay. Without, it takes the arguments
    of the process, and Ctrl-C, SIGTERM and SIGHUP end it with one line.
    """
    if arguments is None:
        from pbdist.cli.interrupts import watch

        watch()
    from pbdist.cli.entry import run_command

    return run_command(arguments)
