"""The software that computes: versions that decide numbers and bytes, and pbdist's git revision."""

import hashlib
import inspect
import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

from pbdist.mechanisms.declaration import own_modules
from pbdist.types import JsonValue

#: The packages that decide numbers and bytes: numcodecs compresses the chunks.
PACKAGES = ("pbdist", "numpy", "scipy", "zarr", "numcodecs")
_GIT_SECONDS = 10
#: The result of `provenance`, or a part of it; None where something is not installed, or its revision is unknown.
Versions: TypeAlias = Mapping[str, Any]


def provenance() -> dict[str, JsonValue]:
    """Return the versions of Python and `PACKAGES`, pbdist's git revision, and the SHA-256 of own mechanisms' modules.

    The revision is that of the checkout that pbdist runs from or was built from (``-dirty`` where it was changed), else
    None. There are no times and no host names: equal inputs give equal stores.
    """
    own = {module: _source_digest(module) for module in sorted(own_modules())}
    return {**_versions(), **({"own_modules": own} if own else {})}


def difference(expected: Versions, found: Versions, names: Sequence[str] = PACKAGES) -> str | None:
    """Return how `names` in two results of `provenance` differ, as ``expected .., got ..``; None if they do not.

    Of own mechanisms the modules count that both have imported.
    """
    own, its = (side.get("own_modules") or {} for side in (expected, found))
    expected, found = {**expected, **own}, {**found, **its}
    compared = ["pbdist"] if found.get("pbdist") is None else [*names, *sorted({*own} & {*its})]
    differing = [name for name in compared if expected.get(name) != found.get(name)]
    wanted, got = (", ".join(_described(name, side.get(name)) for name in differing) for side in (expected, found))
    return f"expected {wanted}, got {got}" if differing else None


def _described(name: str, version: str | None) -> str:
    if name == "git_revision":
        return f"pbdist's git revision {version or 'unknown'}"
    if name not in ("python", *PACKAGES):
        return f"the module {name} of SHA-256 {str(version)[:12]}"
    return f"{name} {version}" if version else f"no {name}"


@cache
def _versions() -> dict[str, JsonValue]:
    versions: dict[str, JsonValue] = {package: metadata.version(package) for package in PACKAGES}
    return {**versions, "python": platform.python_version(), "git_revision": _git_revision()}


@cache
def _source_digest(module: str) -> str:
    """Return the SHA-256 of a module's source; of its name where there is no source."""
    source = module
    with suppress(OSError, TypeError, KeyError):
        source = inspect.getsource(sys.modules[module])
    return hashlib.sha256(source.encode()).hexdigest()


def _git_revision() -> str | None:
    built_from = Path(__file__).resolve().parent / "_git_revision.txt"
    if built_from.is_file():
        return built_from.read_text(encoding="utf-8").strip() or None
    checkout = Path(__file__).resolve().parents[1]
    if not (checkout / ".git").exists():
        # An installed package may lie inside somebody else's checkout, which says nothing about it.
        return None
    command = ["git", "-C", str(checkout), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
    with suppress(OSError, subprocess.SubprocessError):
        answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=_GIT_SECONDS)  # noqa: S603
        return answer.stdout.strip() or None
    return None
