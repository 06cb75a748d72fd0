"""Make many requests to a store at the same time, a bounded number of them: an object store takes milliseconds each."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

#: Requests at the same time.
MOST_AT_ONCE = 16


def at_once(do: Callable[[Item], Result], items: Sequence[Item], most: int = MOST_AT_ONCE) -> Iterator[Result]:
    """Yield what `do` returns for each item, in order; up to `most` of them are done at the same time.

    After an exception of one item, those that have not begun are not begun, and the others have ended when it is
    raised.
    """
    if min(len(items), most) < 2:
        yield from map(do, items)
        return
    with ThreadPoolExecutor(min(most, len(items))) as threads:
        yield from threads.map(do, items)
