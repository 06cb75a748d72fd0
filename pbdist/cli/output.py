"""The console of stdout."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["page"]


def page() -> "Console":
    """Return the console of stdout, of a width that fits a page where it is no terminal."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=100)
