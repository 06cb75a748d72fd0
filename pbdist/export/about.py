"""What an export says of itself: the study, its digest and provenance, and what is missing."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

from pbdist.query import Study
from pbdist.query.blocks import PointState
from pbdist.query.neighbours import neighbours_by_label, neighbours_text
from pbdist.store import read_refinements
from pbdist.types import JsonValue

#: The attribute by which an export is known, and its version.
MARK, EXPORT_FORMAT = "pbdist_export", 1
_WHAT = (
    "certified bounds on delta(epsilon) after r-fold composition: an upper bound is never below the truth, a lower one"
    " never above it"
)
_PARTS_LOST = "parts of the store are missing, and what they hold is not known"


@dataclass
class Points:
    """How many points (cell, r, ε) an export has, and how many of them there are no bounds of, and why."""

    all: int = 0
    missing: int = 0
    failed: int = 0
    damaged: int = 0
    upper_only: int = 0

    def count(self, states: Mapping[PointState, int], upper_only: int) -> None:
        """Add the points of a block."""
        self.all += sum(states.values())
        self.missing += states[PointState.MISSING]
        self.failed += states[PointState.FAILED]
        self.damaged += states[PointState.DAMAGED]
        self.upper_only += upper_only

    @property
    def lacking(self) -> str:
        """What lacks bounds, in words; empty if nothing does."""
        told = {"missing": self.missing, "failed": self.failed, "damaged": self.damaged}
        return ", ".join(f"{count:,} {name}" for name, count in told.items() if count)


def about_study(study: Study, points: Points) -> dict[str, JsonValue]:
    """Return what is said of an export, in the types of JSON.

    There are no times and no host names: the same store gives the same bytes.
    """
    complete = study.complete and not points.lacking
    lacking = {"missing": points.missing, "failed": points.failed, "damaged": points.damaged}
    comment = _WHAT
    if not complete:
        what = f"of {points.all:,} points {points.lacking} are without bounds" if points.lacking else _PARTS_LOST
        comment = f"INCOMPLETE: {what}; {_WHAT}"
    if points.upper_only:
        comment += f"; no lower bound is known of {points.upper_only:,} points of release plans"
    return {
        "Conventions": "CF-1.11",
        "title": study.spec.name,
        "comment": comment,
        MARK: EXPORT_FORMAT,
        "complete": complete,
        "points": {"all": points.all, **lacking, "upper_only": points.upper_only},
        "refinements_left_out": len(read_refinements(study.parts[0])),
        "adjacency": neighbours_text(neighbours_by_label(study.spec)),
        "study_digest": study.spec.digest,
        "study": study.spec.head(),
        "parts": [
            {
                "part": stored.part,
                "study_digest": stored.head.digest,
                "provenance": stored.root.get("provenance"),
            }
            for stored in study.parts
        ],
    }


def as_text(content: JsonValue) -> str:
    """Return JSON, the same text for the same content."""
    return json.dumps(content, sort_keys=True, allow_nan=False, ensure_ascii=False)


def flat(about: Mapping[str, JsonValue]) -> dict[str, str | int]:
    """Return attributes as netCDF takes them: lists and objects as JSON, truth values as 0 or 1."""
    return {
        name: int(value) if isinstance(value, bool | int) else value if isinstance(value, str) else as_text(value)
        for name, value in about.items()
    }
