"""How the commands write numbers and tables."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["duration", "page", "size"]


def page() -> "Console":
    """Return the console of stdout."""
    from rich.console import Console

    console = Console()
    # A pipe has no width: take one that fits a page.
    return console if console.is_terminal else Console(width=100)


def duration(seconds: float) -> str:
    """Return seconds as text, in the unit that suits."""
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.3g} min" if seconds < 7200 else f"{seconds / 3600:.3g} h"


def size(count: float) -> str:
    """Return bytes as text, in the unit that suits."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{count:.3g} {unit}"
        count /= 1024
    return f"{count:.3g} TiB"
