"""Report the steps of a computation to a listener, if there is one.

>>> with heard_by(lambda what, reached, of: print(what, reached, "of", of)):
...     report("r =", 4096, 1 << 20)
r = 4096 of 1048576
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

#: Called with what is counted, how far the count has come, and its end.
Hearer = Callable[[str, int, int], None]

_hearer: ContextVar[Hearer | None] = ContextVar("pbdist_progress", default=None)


def report(what: str, reached: int, of: int) -> None:
    """Report a step that is done; without a listener this does nothing.

    `what` is followed by the numbers in a text, as in ``r = 4096 of 1048576``. No result depends on it.
    """
    hearer = _hearer.get()
    if hearer is not None:
        hearer(what, reached, of)


@contextmanager
def heard_by(hearer: Hearer) -> Iterator[None]:
    """Have `hearer` called with each step that this thread reports, until the block is left.

    The computation waits for each call: it must be quick, and an exception in it ends the computation.
    """
    token = _hearer.set(hearer)
    try:
        yield
    finally:
        _hearer.reset(token)
