"""How much random tests do, and what they draw: the environment variables PBDIST_EFFORT and PBDIST_SEED."""

import os

__all__ = ["EFFORT", "SEED", "times"]

#: A factor on the number of draws, parts, runs and moments: 1 every night, 5 before a release.
EFFORT = float(os.environ.get("PBDIST_EFFORT", "0.3"))
#: Another seed gives other draws; 0 gives the same in every run.
SEED = int(os.environ.get("PBDIST_SEED", "0"))


def times(default: int) -> int:
    """Return `default` times the effort, at least 1."""
    return max(1, round(default * EFFORT))
