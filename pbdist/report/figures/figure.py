"""A figure as a value: what it shows over what, its panels and curves, and the study that has its bounds."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from pbdist.arguments import DEFAULT_FLOOR, DEFAULT_TOLERANCE
from pbdist.mechanisms import Pair
from pbdist.study import Cell, StudySpec
from pbdist.theorems.vuvuzela import VuvuzelaRound, conversation, dialing
from pbdist.types import FloatArray

DELTA, RENYI, PROBABILITY = "delta", "renyi", "probability"
COMPOSITIONS, ORDER, OUTPUT = "compositions", "order", "output"
#: The names of a loss: ε itself, and e^ε.
LOSSES = ("epsilon", "exp_epsilon")
#: ε that a study of curves over r is computed at; its states answer all others.
_LOSSES_OF_STATES = 16
#: ε that a study is computed at where ε between them is bounded by convexity.
_LOSSES_BETWEEN = 61

PROTOCOLS: dict[str, Callable[[float, float], VuvuzelaRound]] = {"dialing": dialing, "conversation": conversation}


@dataclass(frozen=True)
class Promise:
    """What Vuvuzela's authors promise of Laplace noise on one of their protocols.

    Attributes
    ----------
    protocol
        One of `PROTOCOLS`.
    mean, scale
        Of the noise, in messages.
    """

    protocol: str
    mean: float
    scale: float

    def after(self, rounds: int) -> tuple[float, float]:
        """Return (ε', δ') after that many rounds, as the authors compute them."""
        return PROTOCOLS[self.protocol](self.mean, self.scale).composed(rounds)


@dataclass(frozen=True)
class Curve:
    """One curve of a panel.

    Attributes
    ----------
    label
        What the legend says.
    pair
        The worst-case pair that is bounded; None of a promise without one.
    theorem
        A theorem of `pbdist.THEOREMS`, or of `pbdist.report.figures.curves.FORMULAS`; None for certified bounds.
    promise
        What Vuvuzela's authors promise, instead of a theorem.
    delta
        The δ at which ε is sought, instead of the figure's.
    from_states
        Whether Rényi divergences are read off the kept states of the study.
    """

    label: str
    pair: Pair | None
    theorem: str | None = None
    promise: Promise | None = None
    delta: float | None = None
    from_states: bool = False

    @property
    def certified(self) -> bool:
        """Whether these are our bounds."""
        return self.theorem is None and self.promise is None


@dataclass(frozen=True)
class Panel:
    """Curves over one pair of axes.

    Attributes
    ----------
    title
        What distinguishes the panel; empty where there is one.
    curves
        In the order of the legend.
    compositions
        r of a panel over something else.
    """

    title: str
    curves: tuple[Curve, ...]
    compositions: int


@dataclass(frozen=True)
class Figure:
    """What a figure file says.

    Attributes
    ----------
    name, title, caption, source
        Texts; the name is that of the files and of the store.
    shows
        ``delta``, ``epsilon``, ``exp_epsilon``, ``renyi`` or ``probability``.
    over
        ``epsilon``, ``exp_epsilon``, ``compositions``, ``order`` or ``output``.
    values
        The points on that axis, increasing.
    panels
        At least one.
    delta, matching
        Of a figure over r: the δ at which ε is sought, or the promise whose ε or δ is taken at each r.
    largest
        Of a figure over r: the largest ε that is sought, nats.
    target
        ε in nats and δ that are wanted; drawn as a region.
    lowest
        Where the axis of δ ends; None for the smallest δ drawn.
    method, tolerance, floor, buckets
        As of a study.
    """

    name: str
    title: str
    caption: str
    source: str
    shows: str
    over: str
    values: FloatArray
    panels: tuple[Panel, ...]
    delta: float | None = None
    matching: Promise | None = None
    largest: float | None = None
    target: tuple[float, float] | None = None
    lowest: float | None = None
    method: str = "tight"
    tolerance: float = DEFAULT_TOLERANCE
    floor: float = DEFAULT_FLOOR
    buckets: int | None = None

    @property
    def over_rounds(self) -> bool:
        """Whether the number of compositions is the axis."""
        return self.over == COMPOSITIONS

    @property
    def losses(self) -> FloatArray:
        """The points of an axis of losses, as ε in nats."""
        return np.array([math.log(x) for x in self.values]) if self.over == "exp_epsilon" else self.values

    @property
    def keeps_states(self) -> bool:
        """Whether the study keeps its states, which answer any ε.

        Where a promise tells another δ or ε at each r they are not kept: of wide counts after many rounds they take
        minutes, and δ between stored ε is bounded closely enough.
        """
        return self.shows == RENYI or (self.over_rounds and self.matching is None)

    @cached_property
    def study(self) -> StudySpec | None:
        """The study that has the certified bounds of all panels; None where no curve needs one."""
        needed = [c for panel in self.panels for c in panel.curves if c.certified and c.pair is not None]
        if self.shows == PROBABILITY or (self.shows == RENYI and not any(c.from_states for c in needed)):
            return None
        cells: dict[Pair, Cell] = {}
        for curve in needed:
            if curve.pair is not None:
                cells.setdefault(curve.pair, Cell(curve.label, curve.pair, None))
        if self.over_rounds:
            rounds = tuple(int(r) for r in self.values)
        else:
            rounds = tuple(sorted({panel.compositions for panel in self.panels}))
        tight = self.method == "tight"
        return StudySpec(
            name=self.name,
            cells=tuple(cells.values()),
            method=self.method,
            tolerance=self.tolerance if tight else None,
            buckets=self.buckets,
            compositions=rounds,
            epsilon=self._grid(),
            keep_states=self.keeps_states,
            floor=self.floor if tight else DEFAULT_FLOOR,
            direction="both" if tight else "each",
            description=self.title,
        )

    def _promised(self) -> Iterator[float]:
        """Yield the ε of the promises that are drawn, so that ours are known there too."""
        for panel in self.panels:
            for curve in panel.curves:
                if curve.promise is not None:
                    yield curve.promise.after(panel.compositions)[0]

    def _grid(self) -> tuple[float, ...]:
        """The ε of the study, in nats."""
        if self.over in LOSSES:
            return tuple(sorted(set(self.losses.tolist()) | set(self._promised())))
        largest = 1.0 if self.largest is None else self.largest
        if self.keeps_states:
            return tuple(np.linspace(0.0, largest, _LOSSES_OF_STATES).tolist())
        between = {math.log(x) for x in np.linspace(1.0, math.exp(largest), _LOSSES_BETWEEN).tolist()}
        told = {self.matching.after(int(r))[0] for r in self.values} if self.matching is not None else set()
        return tuple(sorted(between | told))
