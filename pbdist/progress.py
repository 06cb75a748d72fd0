"""How far a computation has come: told by whatever computes, and heard by nobody unless somebody listens.

>>> with heard_by(lambda what, reached, of: print(what, reached, "of", of)):
...     report("r =", 4096, 1 << 20)
r = 4096 of 1048576
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["Hearer", "heard_by", "report"]

#: Called with what is counted, how far it has come, and how far it goes.
Hearer = Callable[[str, int, int], None]

_hearer: ContextVar[Hearer | None] = ContextVar("pbdist_progress", default=None)


def report(what: str, reached: int, of: int) -> None:
    """Tell of a step that is done; where nobody listens, this does nothing.

    Nothing that is computed depends on it.

    Parameters
    ----------
    what : str
        What is counted, as in ``r =``: followed by the numbers it reads as a text.
    reached, of : int
        How far it has come, and how far it goes.
    """
    hearer = _hearer.get()
    if hearer is not None:
        hearer(what, reached, of)


@contextmanager
def heard_by(hearer: Hearer) -> Iterator[None]:
    """Have `hearer` called with each step that this thread tells of, until the block is left.

    It is called by the computation, which waits for it: it has to be quick, and what it raises ends the computation.
    """
    token = _hearer.set(hearer)
    try:
        yield
    finally:
        _hearer.reset(token)
