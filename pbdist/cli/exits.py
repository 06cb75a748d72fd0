"""The exit codes of the command line."""

__all__ = ["EXIT_CODES", "FAILED", "WRONG"]

FAILED, WRONG = 1, 2

EXIT_CODES = """\
exit codes:
    0  done: everything asked for is there
    1  some cells could not be computed, or the store is not complete, not sound or not right
    2  something in the input is wrong: the one line on stderr names it
  130  interrupted by Ctrl-C, SIGTERM or SIGHUP: the same command goes on where this one stopped
"""
