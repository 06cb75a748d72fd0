"""An axis of powers of ten that reaches below what a float64 holds: its values are decimal logarithms."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.ticker import (
    FixedLocator,
    Formatter,
    FuncFormatter,
    Locator,
    LogLocator,
    MaxNLocator,
    NullFormatter,
)

if TYPE_CHECKING:
    from matplotlib.axis import Axis

#: From this many decades on there are whole powers of ten alone.
_WHOLE, _FEW = 2.5, 0.7


def decades(axis: "Axis") -> None:
    """Make an axis one of decimal logarithms, which says the numbers themselves."""
    axis.set_major_locator(DecadeLocator())
    axis.set_major_formatter(DecadeFormatter())
    axis.set_minor_locator(FixedLocator([]))


def plain_logarithms(axis: "Axis", base: float = 10.0) -> None:
    """Write plain numbers at few ticks of a logarithmic axis."""
    low, high = sorted(axis.get_view_interval())
    few = high < 100.0 * max(low, 1e-300)
    axis.set_major_locator(LogLocator(base=base, subs=(1.0, 2.0, 5.0) if few and base == 10.0 else (1.0,), numticks=9))
    axis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x:,.6g}" if x < 1e6 else f"{x:,.0f}" if x < 1e9 else f"{x:.3g}")
    )
    axis.set_minor_formatter(NullFormatter())


class DecadeLocator(Locator):
    """Ticks at powers of ten; within few decades at their multiples."""

    def __call__(self) -> Any:
        """Return the places of the ticks."""
        axis: Any = self.axis
        low, high = sorted(axis.get_view_interval())
        return self.tick_values(float(low), float(high))

    def tick_values(self, vmin: float, vmax: float) -> Any:
        """Return them for an interval."""
        span = vmax - vmin
        if span >= _WHOLE:
            return MaxNLocator(nbins=8, integer=True, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
        first = math.floor(vmin)
        if span >= _FEW:
            places = [place + math.log10(part) for place in range(first, math.ceil(vmax) + 1) for part in (1, 2, 5)]
            return np.array(places)
        # Equally spaced numbers, in units of the power of ten below them all.
        ends = 10.0 ** (vmin - first), 10.0 ** (vmax - first)
        parts = np.asarray(MaxNLocator(nbins=6, steps=[1, 2, 2.5, 5, 10]).tick_values(*ends), dtype=np.float64)
        return first + np.log10(parts[parts > 0.0])


class DecadeFormatter(Formatter):
    """Says 10^-5 at -5, and 2·10^-5 between."""

    def __call__(self, x: float, pos: int | None = None) -> str:  # noqa: ARG002 -- matplotlib's signature
        """Return the text of a tick."""
        power = math.floor(x + 1e-9)
        part = 10.0 ** (x - power)
        if abs(part - 1.0) < 1e-9:
            return "1" if power == 0 else f"$10^{{{power}}}$"
        if power in (0, -1):
            return f"{part * 10.0**power:.6g}"
        return rf"${part:.6g}\cdot10^{{{power}}}$"
