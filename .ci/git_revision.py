"""Build hook: a wheel built from a git checkout carries the checkout's revision, for the provenance of results."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class GitRevisionHook(BuildHookInterface):
    """Adds ``pbdist/_git_revision.txt``, unless there is no git, no checkout, or the install is editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the revision, with ``-dirty`` where the checkout has been changed."""
        if version == "editable" or not (Path(self.root) / ".git").exists():
            return
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        try:
            answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            return
        self._folder = tempfile.TemporaryDirectory()
        revision = Path(self._folder.name) / "revision.txt"
        revision.write_text(answer.stdout.strip() + "\n", encoding="utf-8")
        build_data["force_include"][str(revision)] = "pbdist/_git_revision.txt"
