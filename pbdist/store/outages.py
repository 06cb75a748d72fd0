"""Which failures of a store pass, which stay, and waiting for those that pass."""

import errno
import random
import time
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, TypeVar
from uuid import uuid4

from pbdist.errors import (
    NotAStoreError,
    StoreDamagedError,
    StoreFormatError,
    StoreMismatchError,
    StoreRefusedError,
    StoreUnreachableError,
)

if TYPE_CHECKING:
    from pbdist.store.place import Place

__all__ = [
    "FIRST_PAUSE",
    "LONGEST_PAUSE",
    "PATIENCE_SECONDS",
    "Trouble",
    "patiently",
    "probe",
    "trouble_of",
]

Result = TypeVar("Result")

#: For how long what cannot be reached is tried again where somebody waits for the answer.
PATIENCE_SECONDS = 20.0
#: The pauses between two attempts, in seconds: each is twice the one before, up to the longest.
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 15.0
#: What a network file system answers that is not there at the moment, and a disk that cannot be read.
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
#: Where one file cannot be written for these, no other will be.
_LASTING = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EACCES, errno.EPERM})
#: The store is gone, or is another one.
_GONE = (NotAStoreError, StoreDamagedError, StoreFormatError, StoreMismatchError)


class Trouble(Enum):
    """What keeps every batch from being written, not only one."""

    PASSING = "passing"
    LASTING = "lasting"


def trouble_of(error: BaseException) -> Trouble | None:
    """Return whether a failure is one of the store as a whole, and whether it may pass; None where of one file."""
    if isinstance(error, StoreUnreachableError):
        return Trouble.PASSING
    if isinstance(error, (StoreRefusedError, *_GONE)):
        return Trouble.LASTING
    number = error.errno if isinstance(error, OSError) else None
    return Trouble.PASSING if number in _PASSING else Trouble.LASTING if number in _LASTING else None


def patiently(seconds: float, request: Callable[[], Result]) -> Result:
    """Return what a request returns, which is made again while what it asks cannot be reached.

    Parameters
    ----------
    seconds
        For how long; at least once.
    request
        What is done.

    Raises
    ------
    StoreUnreachableError
        It could not be reached all the time.
    """
    began, pause = time.monotonic(), FIRST_PAUSE
    while True:
        try:
            return request()
        except StoreUnreachableError:
            left = began + seconds - time.monotonic()
            if left <= 0.0:
                raise
        # Many workers that lost it at the same moment do not come back at the same moment.
        time.sleep(min(left, pause * random.uniform(0.75, 1.25)))  # noqa: S311 -- no secret
        pause = min(2.0 * pause, LONGEST_PAUSE)


def probe(place: "Place") -> None:
    """Write a file and remove it, to see whether that can be done.

    Raises
    ------
    OSError
        It cannot.
    """
    # Its name ends as that of a file being written: one that is left behind is removed at the end of a run.
    name = f"probe.{uuid4().hex}.partial"
    place.write(name, b"")
    place.remove(name)
