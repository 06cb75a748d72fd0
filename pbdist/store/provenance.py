"""Which software computed a result. No times and no host names: equal inputs shall give equal stores."""

import os
import platform
import subprocess
from functools import cache
from importlib import metadata
from pathlib import Path

from pbdist.types import JsonValue

__all__ = ["provenance"]

_PACKAGES = ("pbdist", "numpy", "scipy", "zarr")
_GIT_SECONDS = 10


@cache
def provenance() -> dict[str, JsonValue]:
    """Return the versions of pbdist, Python and the libraries that decide the numbers, and pbdist's git revision.

    The revision is that of the checkout that pbdist runs from or was built from, with ``-dirty`` where it had been
    changed, and None for a pbdist that was not built from a checkout.
    """
    versions: dict[str, JsonValue] = {package: metadata.version(package) for package in _PACKAGES}
    return {**versions, "python": platform.python_version(), "git_revision": _git_revision()}


def _git_revision() -> str | None:
    built_from = Path(__file__).resolve().parents[1] / "_git_revision.txt"
    if built_from.is_file():
        return built_from.read_text(encoding="utf-8").strip() or None
    checkout = Path(__file__).resolve().parents[2]
    if not (checkout / ".git").exists():
        # An installed package may lie inside somebody else's checkout, which says nothing about it.
        return None
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    # fsmonitor and hooks are programs that a checkout's configuration names: not to be started from here.
    command = ["git", "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-C", str(checkout)]
    try:
        answer = subprocess.run(  # noqa: S603 -- a fixed command on the package's own folder
            [*command, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            check=True,
            text=True,
            timeout=_GIT_SECONDS,
            env=environment,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
