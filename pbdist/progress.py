"""Report the steps of a computation to a listener, if there is one.

>>> with heard_by(lambda what, reached, of: print(what, reached, "of", of)):
...     report("r =", 4096, 1 << 20)
r = 4096 of 1048576
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

#: Called with what is counted, how far the count has come, and its end.
Hearer = Callable[[str, int, int], None]
_Item = TypeVar("_Item")


def _ignore(*_: object) -> None:
    """Hear nothing."""


#: Of steps, and of parts.
_hearers: ContextVar[tuple[Hearer, Hearer]] = ContextVar("pbdist_progress", default=(_ignore, _ignore))


def report(what: str, reached: int, of: int) -> None:
    """Report a step that is done; without a listener this does nothing.

    `what` is followed by the numbers in a text, as in ``r = 4096 of 1048576``. No result depends on it.
    """
    _hearers.get()[0](what, reached, of)


def reported(what: str, items: Sequence[_Item]) -> Iterator[_Item]:
    """Yield items that take about the same time, and report how many are done: before each one, and at the end."""
    for done, item in enumerate(items):
        report_part(what, done, len(items))
        yield item
    report_part(what, len(items), len(items))


def report_part(what: str, done: int, of: int) -> None:
    """Report how many parts are done that take about the same time."""
    _hearers.get()[1](what, done, of)


@contextmanager
def heard_by(hearer: Hearer, by_parts: Hearer = _ignore) -> Iterator[None]:
    """Have `hearer` called with each step that this thread reports, until the block is left; `by_parts` with parts.

    The computation waits for each call: it must be quick, and an exception in it ends the computation.
    """
    token = _hearers.set((hearer, by_parts))
    try:
        yield
    finally:
        _hearers.reset(token)
