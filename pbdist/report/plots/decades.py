"""Ticks of an axis of decimal logarithms, which reaches below what a float64 holds."""

import math
from typing import Any

import numpy as np
from matplotlib.ticker import MaxNLocator

#: From this many decades on ticks are whole powers of ten; below so few they are equally far apart.
_WHOLE, _FEW = 2.5, 0.7


class DecadeLocator(MaxNLocator):
    """Ticks at powers of ten; within few decades at 1, 2 and 5 times them, or at equally spaced numbers."""

    def __init__(self, most: int = 8) -> None:
        super().__init__(nbins=most, integer=True, steps=[1, 2, 5, 10])

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return the places of the ticks for an interval."""
        if vmax - vmin >= _WHOLE:
            return super().tick_values(vmin, vmax)
        first = math.floor(vmin)
        if vmax - vmin >= _FEW:
            return np.add.outer(np.arange(first, math.ceil(vmax) + 1), np.log10([1, 2, 5])).ravel()
        parts = MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(10 ** (vmin - first), 10 ** (vmax - first))
        return first + np.log10([part for part in parts if part > 0.0])


def decade_text(x: float, _: int | None = None) -> str:
    """Return 10^-5 for -5, and 2·10^-5 between."""
    power = math.floor(x + 1e-9)
    part = 10.0 ** (x - power)
    if -3 < power < 3:
        return f"{part * 10.0**power:.6g}"
    return f"$10^{{{power}}}$" if abs(part - 1.0) < 1e-9 else rf"${part:.6g}\cdot10^{{{power}}}$"
