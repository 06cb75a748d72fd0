"""The table of δ bounds with bucket lists in blocks."""

import math
from collections.abc import Sequence
from typing import Any

from pbdist.arguments import checked_components, checked_compositions, checked_epsilon, checked_factor
from pbdist.buckets.blocked.engine import BlockedEngine
from pbdist.buckets.bucket_table import BoundsTable, bucket_table
from pbdist.buckets.ladder import SHARP_RULE, SquaringRule
from pbdist.mechanisms import Pair

__all__ = ["blocked_table"]


def blocked_table(
    components: Sequence[tuple[Pair, int]],
    *,
    compositions: Any,
    epsilon: Any,
    engine: BlockedEngine,
    buckets: int | None = None,
    factor: float | None = None,
    keep_states: bool = False,
    rule: SquaringRule = SHARP_RULE,
) -> BoundsTable:
    """Compute bounds for every r and ε asked for by privacy buckets, with the lists in blocks.

    Parameters
    ----------
    components, compositions, epsilon, buckets, factor, keep_states, rule
        As `pbdist.buckets.bounds_table` takes them. Kept states are returned whole, in the memory of this process.
    engine : BlockedEngine
        What holds the lists, and who works.

    Returns
    -------
    BoundsTable
        Bit by bit that of `pbdist.buckets.bounds_table` with ``method="buckets"``.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    return bucket_table(
        checked_components(components),
        checked_compositions(compositions),
        checked_epsilon(epsilon),
        engine,
        buckets=buckets,
        width=None if factor is None else math.log1p(checked_factor(factor) - 1.0),
        keep_states=keep_states,
        rule=rule,
    )
