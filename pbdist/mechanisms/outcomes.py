"""Masses of pairs that are given outcome by outcome."""

import math
from abc import abstractmethod
from dataclasses import replace
from functools import lru_cache

import numpy as np

from pbdist.mechanisms.masses import UNIT_ROUNDOFF, LossMasses, MassBounds
from pbdist.mechanisms.pair import ElementaryPair
from pbdist.types import BoolArray, FloatArray

#: A description with more outcomes of their own loss is refused: they would not fit into memory.
MAX_OUTCOMES = 20_000_000

#: Masses of up to so many outcomes are cached: some 30 MB.
_MAX_CACHED = 500_000

#: Below this a mass is too close to underflow for the logarithm of a ratio.
_RELIABLE_MASS = 1e-280


class PairOfOutcomes(ElementaryPair):
    """A pair all of whose events are atoms or infinite losses."""

    @abstractmethod
    def atoms(self) -> LossMasses:
        """Masses of the atoms and of the infinite losses, with a single empty bin."""

    def loss_masses(self, edges: FloatArray) -> LossMasses:
        """The atoms, with empty bins between `edges`; those of the last pair are cached."""
        masses = _cached(self) if self.outcomes <= _MAX_CACHED else self.atoms()
        empty = MassBounds.zeros(edges.size + 1)
        return replace(masses, bins_a=empty, bins_b=empty)


@lru_cache(maxsize=1)
def _cached(pair: PairOfOutcomes) -> LossMasses:
    masses = pair.atoms()
    masses.atom_loss.setflags(write=False)
    return masses


def masses_of_outcomes(
    edges: FloatArray,
    a: FloatArray,
    b: FloatArray,
    *,
    error_a: FloatArray | float,
    error_b: FloatArray | float,
    known_loss: FloatArray | None = None,
    known_error: FloatArray | None = None,
    further_a: float = 0.0,
    further_b: float = 0.0,
) -> LossMasses:
    """Masses of a pair given by the masses of its outcomes: one atom for each outcome that both distributions have.

    `a` and `b` are the computed masses, 0 exactly where the distribution lacks the outcome, with their relative errors.
    `known_loss` has losses known better than from the masses, NaN where they are not, and `known_error` their errors in
    nats; without it they are taken to be known to 3u relatively. `further_a` and `further_b` are upper values of the
    masses outside the outcomes, revealing in the upper values only.

    An outcome whose mass in either distribution is below 1e-280 has no reliable loss, unless it is known. Its loss is
    taken as plus or minus infinity, by the larger mass; the smaller mass counts as that distribution's own as well, in
    its upper value, so that neither direction takes its loss as too low. The smaller mass has the lower value 0: then
    nothing of the other distribution is credited to it in proportion (the corner -n), whatever its real loss.
    """
    error_a = np.broadcast_to(np.asarray(error_a, dtype=np.float64), a.shape)
    error_b = np.broadcast_to(np.asarray(error_b, dtype=np.float64), b.shape)
    reliable = (a > _RELIABLE_MASS) & (b > _RELIABLE_MASS)
    if known_loss is not None:
        reliable |= (a > 0.0) & (b > 0.0) & np.isfinite(known_loss)
    own_a, own_b = (a > 0.0) & (b == 0.0), (b > 0.0) & (a == 0.0)
    faint = (a > 0.0) & (b > 0.0) & ~reliable
    above = a[faint] > b[faint]
    faint_a = _upper_alone(MassBounds.around(a[faint], error_a[faint]), ~above)
    faint_b = _upper_alone(MassBounds.around(b[faint], error_b[faint]), above)

    def own(sure: MassBounds, possible: FloatArray, further: float) -> MassBounds:
        lower = math.fsum(sure.lower) * (1.0 - 4.0 * UNIT_ROUNDOFF)
        upper = (math.fsum(sure.upper) + math.fsum(possible) + further) * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return MassBounds(np.array([lower]), np.array([upper]))

    faint_loss = np.where(above, np.inf, -np.inf)
    only_a = own(MassBounds.around(a[own_a], error_a[own_a]), faint_a.upper[~above], further_a)
    only_b = own(MassBounds.around(b[own_b], error_b[own_b]), faint_b.upper[above], further_b)
    a, b, error_a, error_b = a[reliable], b[reliable], error_a[reliable], error_b[reliable]
    log_a, log_b = np.log(a), np.log(b)
    with np.errstate(over="ignore", under="ignore"):
        ratio = a / b
    plain = (ratio > _RELIABLE_MASS) & (ratio < 1.0 / _RELIABLE_MASS)
    loss = np.where(plain, np.log(np.where(plain, ratio, 1.0)), log_a - log_b)
    rounding = np.where(plain, 4.0 + 4.0 * np.abs(loss), 8.0 + 4.0 * (np.abs(log_a) + np.abs(log_b))) * UNIT_ROUNDOFF
    rounding += 1.5 * (error_a + error_b)
    if known_loss is not None:
        known = np.isfinite(known_loss[reliable])
        loss = np.where(known, known_loss[reliable], loss)
        error = 4.0 * UNIT_ROUNDOFF * np.abs(loss) if known_error is None else known_error[reliable]
        rounding = np.where(known, error, rounding)
    empty = MassBounds.zeros(edges.size + 1)
    return LossMasses(
        bins_a=empty,
        bins_b=empty,
        atom_loss=np.concatenate((loss, faint_loss)),
        atoms_a=MassBounds.around(a, error_a).joined(faint_a),
        atoms_b=MassBounds.around(b, error_b).joined(faint_b),
        only_a=only_a,
        only_b=only_b,
        loss_error=float(rounding.max(initial=0.0)),
    )


def _upper_alone(masses: MassBounds, chosen: BoolArray) -> MassBounds:
    """These masses, those chosen with a lower value of 0."""
    return MassBounds(np.where(chosen, 0.0, masses.lower), masses.upper)
