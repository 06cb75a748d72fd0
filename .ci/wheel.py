"""Build hook: a wheel carries the studies of ``pipelines/``, and the revision of the checkout it was built from."""

import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class WheelHook(BuildHookInterface):
    """Adds ``pbdist/studies/*.yaml`` and ``pbdist/_git_revision.txt``, unless the install is editable."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Tell which files go into the wheel beside the package."""
        if version == "editable":
            return
        pipelines = Path(self.root) / "pipelines"
        for study in sorted([*pipelines.glob("*.yaml"), *pipelines.glob("records/*.yaml")]):
            build_data["force_include"][str(study)] = f"pbdist/studies/{study.name}"
        revision = self._revision()
        if revision is not None:
            self._folder = tempfile.TemporaryDirectory()
            file = Path(self._folder.name) / "revision.txt"
            file.write_text(revision + "\n", encoding="utf-8")
            build_data["force_include"][str(file)] = "pbdist/_git_revision.txt"

    def _revision(self) -> str | None:
        """Return the revision, with ``-dirty`` where the checkout has been changed; None without git or a checkout."""
        if not (Path(self.root) / ".git").exists():
            return None
        command = ["git", "-C", self.root, "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"]
        try:
            answer = subprocess.run(command, capture_output=True, check=True, text=True, timeout=10)  # noqa: S603
        except (OSError, subprocess.SubprocessError):
            return None
        return answer.stdout.strip()
