"""The exit codes of the command line."""

__all__ = ["EXIT_CODES", "FAILED", "MISSED", "WRONG"]

FAILED, WRONG, MISSED = 1, 2, 3

EXIT_CODES = """\
exit codes:
    0  done: everything asked for is there
    1  some cells could not be computed, or the store is not complete, not sound or not right
    2  something in the input is wrong: the one line on stderr names it
    3  done, with --strict: bounds miss the tolerance that was asked for; they hold, and are told or stored
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP: the same command goes on where this one stopped
"""
