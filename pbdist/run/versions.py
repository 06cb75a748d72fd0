"""What a worker must have as the driver has it, so that the same study gives the same bytes wherever it is computed."""

import platform
from collections.abc import Callable, Mapping
from functools import cache
from importlib import metadata

from pbdist.store.documents import provenance

__all__ = ["Versions", "difference", "inquiry", "own_versions"]

#: By name; None where something is not installed, or its revision not known.
Versions = Mapping[str, str | None]

#: The packages that decide numbers and bytes: numcodecs compresses the chunks.
_PACKAGES = ("pbdist", "numpy", "scipy", "zarr", "numcodecs")


@cache
def own_versions() -> Versions:
    """Return the versions of this process: Python, the packages, and pbdist's git revision."""
    return {
        "python": platform.python_version(),
        **{package: metadata.version(package) for package in _PACKAGES},
        "revision": provenance()["git_revision"],
    }


def inquiry() -> Callable[[], dict[str, str | None]]:
    """Return a function that finds the versions of the process it runs in.

    It is sent as code, and not by name, so that it runs where no pbdist is, or an earlier one.
    """
    packages = _PACKAGES

    def found() -> dict[str, str | None]:
        import platform  # noqa: PLC0415 -- what it needs, wherever it runs
        from importlib import metadata  # noqa: PLC0415

        try:
            from pbdist.run.versions import own_versions  # noqa: PLC0415

            return dict(own_versions())
        except ImportError:
            pass
        # No pbdist, or one without what this run needs: never the same.
        versions: dict[str, str | None] = {"python": platform.python_version(), "revision": "of another kind"}
        for package in packages:
            try:
                versions[package] = metadata.version(package)
            except metadata.PackageNotFoundError:
                versions[package] = None
        return versions

    return found


def difference(expected: Versions, found: Versions) -> str | None:
    """Return in what two versions differ, as ``expected .., got ..``; None where in nothing."""
    names = [name for name in expected if expected[name] != found.get(name)]
    if not names:
        return None
    wanted, got = (", ".join(_told(name, side.get(name)) for name in names) for side in (expected, found))
    return f"expected {wanted}, got {got}"


def _told(name: str, version: str | None) -> str:
    if name == "revision":
        return f"pbdist's git revision {version or 'unknown'}"
    return f"{name} {version}" if version else f"no {name}"
