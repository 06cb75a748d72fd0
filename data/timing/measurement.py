"""Read what was measured: the files of counts in data/timing, and what provenance.yaml says of them."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from data.timing.delay import UNIT_NS, GaussianDelay

__all__ = ["Measurement", "measurements"]

_FOLDER = Path(__file__).resolve().parent
_UNIT_US = UNIT_NS // 1_000


@dataclass(frozen=True)
class Measurement:
    """One file of counts, and what provenance.yaml says of it."""

    folder: Path
    facts: Mapping[str, Any]

    @property
    def name(self) -> str:
        """The delay, as a table names it."""
        scale = self.facts["delay_scale_us"]
        blocks = self.delayed and self.facts["order"] == "blocks"
        return "none" if scale is None else f"{scale // 1_000} ms{', blocks' if blocks else ''}"

    @property
    def delayed(self) -> bool:
        """Whether the service drew delays."""
        return self.facts["delay_scale_us"] is not None

    @property
    def path(self) -> Path:
        """The counts of the response times."""
        return self.folder / str(self.facts["file"])

    @property
    def delay(self) -> GaussianDelay | None:
        """The delay that the service drew."""
        scale = self.facts["delay_scale_us"]
        return None if scale is None else GaussianDelay(scale // _UNIT_US)

    @property
    def deadline(self) -> int:
        """The deadline of the work, in units of the delay."""
        return int(self.facts["deadline_us"]) // _UNIT_US

    def counts(self, column: str, *, rest: bool = False) -> list[int]:
        """Return one column of the file, or of the one without the delays."""
        path = self.path.with_name(f"{self.path.stem}-rest.csv") if rest else self.path
        with path.open(encoding="utf-8", newline="") as file:
            return [int(row[column]) for row in csv.DictReader(file)]


def measurements(folder: Path = _FOLDER) -> list[Measurement]:
    """Return all measurements of a folder, the undelayed one first."""
    known = yaml.safe_load((folder / "provenance.yaml").read_text(encoding="utf-8"))
    return [Measurement(folder, facts) for facts in known["measurements"]]
