"""Wide answers on the command line: a line on stderr, and no more."""

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["telling"]


@contextmanager
def telling() -> Iterator[list[str]]:
    """Print every `PrecisionWarning` as one line on stderr, whatever is asked of warnings; yield what was printed.

    Other warnings are what they would be.
    """
    from pbdist.errors import PbdistError, PrecisionWarning

    told: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("always", PrecisionWarning)
        plain = warnings.showwarning

        def show(message: Warning | str, category: type[Warning], *where: Any) -> None:
            if not issubclass(category, PrecisionWarning):
                plain(message, category, *where)
                return
            told.append(str(message))
            print(f"pbdist: warning: {PbdistError(str(message))}", file=sys.stderr)

        showing: Any = warnings
        showing.showwarning = show
        yield told
