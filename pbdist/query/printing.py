"""What other rooms import from here: it is in `pbdist.results`, `pbdist.rounding` and `pbdist.query.judging`."""

from pbdist.query.judging import neighbours_line, precision_line
from pbdist.results import NOT_KNOWN
from pbdist.rounding import rounded_down, rounded_up

__all__ = ["NOT_KNOWN", "neighbours_line", "precision_line", "rounded_down", "rounded_up"]
