"""Docstrings as they are written: single backticks, bars.

A name in single backticks is a link where that name is described, and code elsewhere. A bar is a bar, as in |S|.
"""

import re
from typing import Any

from docutils import nodes
from sphinx.addnodes import pending_xref
from sphinx.application import Sphinx
from sphinx.domains import Domain
from sphinx.roles import XRefRole


class _SoftName(XRefRole):
    """A reference that need not lead anywhere, unlike those of other roles."""

    def process_link(self, env: Any, refnode: nodes.Element, has_explicit_title: bool, title: str, target: str) -> Any:
        """Look for a Python object of that name, from where it is written."""
        refnode["refdomain"] = "py"
        refnode["reftype"] = "obj"
        refnode["refspecific"] = True
        refnode["soft"] = True
        refnode["py:module"] = env.ref_context.get("py:module")
        refnode["py:class"] = env.ref_context.get("py:class")
        return super().process_link(env, refnode, has_explicit_title, title, target)


def _is_soft(_: Sphinx, __: Domain | None, node: pending_xref) -> bool | None:
    """Return True for names that may be unknown: there is nothing to warn of."""
    return True if node.get("soft") else None


def _keep_bars(_: Sphinx, __: str, ___: str, ____: object, _____: object, lines: list[str]) -> None:
    """Escape bars outside code, which would name substitutions."""
    for number, line in enumerate(lines):
        parts = re.split(r"(`[^`]*`)", line)
        lines[number] = "".join(part if part.startswith("`") else part.replace("|", "\\|") for part in parts)


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the role, and look at docstrings after napoleon."""
    app.add_role("soft", _SoftName(innernodeclass=nodes.literal))
    app.connect("autodoc-process-docstring", _keep_bars, priority=900)
    app.connect("warn-missing-reference", _is_soft)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
