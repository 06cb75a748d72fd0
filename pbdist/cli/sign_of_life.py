"""A sign of life on a terminal, while a command without a progress of its own computes for more than two seconds."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread

from pbdist.progress import heard_by

#: Seconds until the first sign, and between two of them.
_FIRST, _NEXT = 2.0, 1.0
#: Clears the line of a terminal from the cursor on.
_CLEAR = "\x1b[K"


@contextmanager
def sign_of_life() -> Iterator[None]:
    """Tell on stderr how long something computes, and the last step that it reported; nothing where no terminal is."""
    if not sys.stderr.isatty():
        yield
        return
    began, done, heard = time.monotonic(), Event(), [""]

    def hear(what: str, reached: int, of: int) -> None:
        heard[0] = f": {what} {reached} of {of}"

    def tell() -> None:
        wait = _FIRST
        while not done.wait(wait):
            # What is printed next begins on the same line.
            line = f"computing for {time.monotonic() - began:.0f} s{heard[0]}"
            print(line, end=f"{_CLEAR}\r", file=sys.stderr, flush=True)
            wait = _NEXT

    teller = Thread(target=tell, daemon=True)
    teller.start()
    try:
        with heard_by(hear):
            yield
    finally:
        done.set()
        teller.join()
        print(end=_CLEAR, file=sys.stderr, flush=True)
