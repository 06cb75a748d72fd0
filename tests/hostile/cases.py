"""Hostile settings of all kinds."""

from tests.hostile.counts import counts_case
from tests.hostile.draw import Case, Draw
from tests.hostile.finite import corner_case, finite_case, many_rounds_case
from tests.hostile.noise import noise_case, sampled_case, sum_case

__all__ = [
    "Case",
    "Draw",
    "case",
    "corner_case",
    "counts_case",
    "finite_case",
    "many_rounds_case",
    "noise_case",
    "sampled_case",
    "sum_case",
]

KINDS = (
    finite_case,
    finite_case,
    finite_case,
    finite_case,
    noise_case,
    noise_case,
    noise_case,
    many_rounds_case,
    sampled_case,
    sum_case,
    corner_case,
    counts_case,
)


def case(draw: Draw, asked: int = 6) -> Case:
    """A case of any kind."""
    while True:
        found = draw.one_of(KINDS)(draw, asked)
        if found is not None:
            return found
