"""Tell failures of a store that may pass from those that last, and wait for the ones that may pass."""

import errno
import random
import time
from collections.abc import Callable
from enum import Enum
from typing import TypeVar

from pbdist.errors import (
    NotAStoreError,
    StoreDamagedError,
    StoreFormatError,
    StoreMismatchError,
    StoreRefusedError,
    StoreTakenError,
    StoreUnreachableError,
)

Result = TypeVar("Result")

#: For how many seconds a request is tried again where somebody waits for the answer.
PATIENCE_SECONDS = 20.0
#: The first and the longest pause between two attempts, in seconds; each is twice the one before.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
#: Answers of a network file system that is away at the moment, and of a disk that cannot be read.
_PASSING = frozenset(
    {
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENOTCONN,
        errno.ESHUTDOWN,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
#: Failures of one file that every other file will have too.
_LASTING = frozenset({errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM})
#: There is no room until somebody makes some.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: The store is gone, or it is another one.
_GONE = (NotAStoreError, StoreDamagedError, StoreFormatError, StoreMismatchError)


class Trouble(Enum):
    """A failure that keeps every batch from being written: it passes by itself, when there is room again, or never."""

    PASSING = "passing"
    FULL = "full"
    LASTING = "lasting"


def trouble_of(error: BaseException) -> Trouble | None:
    """Return whether a failure of the store as a whole may pass, is a full disk, or lasts; None for a single file's."""
    if isinstance(error, StoreUnreachableError):
        return Trouble.PASSING
    if isinstance(error, (StoreRefusedError, StoreTakenError, *_GONE)):
        return Trouble.LASTING
    number = error.errno if isinstance(error, OSError) else None
    kinds = {Trouble.PASSING: _PASSING, Trouble.FULL: _FULL, Trouble.LASTING: _LASTING}
    return next((trouble for trouble, numbers in kinds.items() if number in numbers), None)


def patiently(seconds: float, request: Callable[[], Result]) -> Result:
    """Return the result of a request, which is made again for that long while it raises `StoreUnreachableError`."""
    began, pause = time.monotonic(), FIRST_PAUSE
    while True:
        try:
            return request()
        except StoreUnreachableError:
            left = began + seconds - time.monotonic()
            if left <= 0.0:
                raise
        # Many workers that lost the store at the same moment must not all come back at the same moment.
        time.sleep(min(left, pause * random.uniform(0.75, 1.25)))  # noqa: S311 -- no secret
        pause = min(2.0 * pause, LONGEST_PAUSE)
