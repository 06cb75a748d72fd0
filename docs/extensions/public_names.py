"""Whether the reference has every public name exactly once; a build that lacks one ends with a warning."""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from typing import Any

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

#: The modules whose public names the reference has, and packages whose modules it has.
MODULES = ("pbdist", "pbdist.granularity", "pbdist.query", "pbdist.report.plots", "pbdist.study")
PACKAGES = ("pbdist.granularity",)
_logger = logging.getLogger(__name__)


def _modules() -> Iterator[Any]:
    """Yield every module that says what is public in it."""
    inside = (
        found.name
        for package in PACKAGES
        for found in pkgutil.iter_modules(import_module(package).__path__, f"{package}.")
        if not found.ispkg
    )
    yield from (room for name in (*MODULES, *inside) if hasattr(room := import_module(name), "__all__"))


def public_names() -> list[set[str]]:
    """Return the full names of every public class and function; one may be public in several modules."""
    found: dict[int, set[str]] = {}
    for room in _modules():
        for name in room.__all__:
            value = getattr(room, name)
            if str(getattr(value, "__module__", "")).startswith("pbdist."):
                found.setdefault(id(value), set()).add(f"{room.__name__}.{name}")
    return list(found.values())


def _check(_: Sphinx, env: BuildEnvironment) -> None:
    described = {name for name, entry in env.domains.python_domain.objects.items() if not entry.aliased}
    for names in public_names():
        if len(names & described) != 1:
            _logger.warning(
                "reference: expected one description of %s, got %d", " or ".join(sorted(names)), len(names & described)
            )


def setup(app: Sphinx) -> dict[str, bool]:
    """Check once all pages are read."""
    app.connect("env-check-consistency", _check)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
