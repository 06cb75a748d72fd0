"""Links to other projects' documentation from lists of names beside these pages: a build needs no network.

``inventories/NAME.txt`` begins with the address of a project's documentation. Each further line has a role, a name and
the page that describes it; a ``$`` at the end of the page stands for the name. The lists become inventories of
intersphinx in the build folder.
"""

import zlib
from dataclasses import dataclass
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.errors import ConfigError

FOLDER = Path(__file__).parents[1] / "inventories"


@dataclass(frozen=True)
class Listed:
    """One project's documentation: its address, and (role, name, page) of what we name."""

    project: str
    address: str
    entries: tuple[tuple[str, str, str], ...]

    def inventory(self) -> bytes:
        """Return it as intersphinx reads it, version 2."""
        head = f"# Sphinx inventory version 2\n# Project: {self.project}\n# Version: \n"
        lines = "".join(f"{name} {role} 1 {page} -\n" for role, name, page in self.entries)
        return f"{head}# The remainder of this file is compressed using zlib.\n".encode() + zlib.compress(
            lines.encode()
        )


def read(path: Path) -> Listed:
    """Read a list of names."""
    address, *lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line and line[0] != "#"]
    entries = []
    for line in lines:
        words = line.split()
        if len(words) != 3 or ":" not in words[0]:
            raise ConfigError(f"{path.name}: expected a role, a name and a page, got {line!r}")
        entries.append((words[0], words[1], words[2]))
    return Listed(path.stem, address, tuple(entries))


def _write(app: Sphinx, config: Config) -> None:
    """Write the inventories, and tell intersphinx where they are."""
    folder = Path(app.doctreedir) / "inventories"
    folder.mkdir(parents=True, exist_ok=True)
    mapping = {}
    for path in sorted(FOLDER.glob("*.txt")):
        listed = read(path)
        file = folder / f"{listed.project}.inv"
        file.write_bytes(listed.inventory())
        mapping[listed.project] = (listed.address, str(file))
    config.intersphinx_mapping = mapping


def setup(app: Sphinx) -> dict[str, bool]:
    """Write them before intersphinx looks."""
    app.connect("config-inited", _write, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
