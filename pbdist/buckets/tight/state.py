"""Tilted masses: the state that the tight engine composes.

A state of direction (A, B) and tilt θ >= 0 holds three vectors on a grid of positions ℓ, in nats:

- `DOMINATING`: the P_A masses p of a pair on the grid that dominates the composition (its P_B masses are p e^-ℓ),
- `EXACT_A`, `EXACT_B`: P_A and P_B masses of the same events, gathered in cells; the position is only a label.

Kept is w = p e^{θℓ - κ} (for `EXACT_B` with θ + 1 in place of θ, so that it is about as large where `EXACT_A` is),
with κ such that w sums to about 1. Whatever a computation does to w is paid for in the 1-norm: ``error`` T bounds Σ|w
- w*|
over all positions, those outside the vector included. So T costs δ(ε) at most e^κ T sup_ℓ e^-θℓ (1 - e^{ε-ℓ})_+, which
for the θ at the saddle point of ε is little against δ(ε) itself however small that is.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from pbdist.mechanisms import UNIT_ROUNDOFF
from pbdist.types import FloatArray

__all__ = [
    "DOMINATING",
    "EXACT_A",
    "EXACT_B",
    "HIGHEST",
    "LARGEST_RATE",
    "LOG_TOTAL_A",
    "LOG_TOTAL_B",
    "LOG_TOTAL_DOMINATING",
    "LOSS_SHIFT",
    "RATE_A",
    "RATE_B",
    "RATE_DOMINATING",
    "ROWS",
    "SCALARS",
    "TiltedMasses",
    "joined",
    "outwards",
]

#: Rows of the vectors.
DOMINATING, EXACT_A, EXACT_B = range(3)
ROWS = 3

#: Columns of ``additive``, which add up under composition. A total M >= P, its logarithm, and for the mass at infinity
#: I of that total the rate ρ = -ln(1 - I / M), so that after composition I = M (1 - e^-ρ). For `DOMINATING` and B upper
#: values of M and I, for A lower ones.
LOG_TOTAL_DOMINATING, RATE_DOMINATING, LOG_TOTAL_A, RATE_A, LOG_TOTAL_B, RATE_B, LOSS_SHIFT, HIGHEST = range(8)
SCALARS = 8

#: A rate so large that nothing finite is left, and far from overflow.
LARGEST_RATE = 1e200


@dataclass(frozen=True, eq=False)
class TiltedMasses:
    """A stack of k states on one grid.

    Attributes
    ----------
    width : float
        Unit of the positions, nats: the loss width of the leaves.
    tilt : float
        θ >= 0.
    stride : int
        Distance of neighbouring positions, in units.
    origins : k pairs of int
        Position of the first element of `DOMINATING`, and of the two others, in half units, for each state.
    weights : ndarray, shape (k, 3, n)
        w >= 0.
    log_scale, log_scale_error : ndarray, shape (k, 3)
        κ, and how far rounding may have moved it.
    error : ndarray, shape (k, 3)
        T.
    additive : ndarray, shape (k, 8)
        Totals and masses at infinity, see the module; `LOSS_SHIFT`: how far rounding may have moved losses; and
        `HIGHEST`: a loss that no finite position of the dominating pair exceeds; nats.
    """

    width: float
    tilt: float
    stride: int
    origins: tuple[tuple[int, int], ...]
    weights: FloatArray
    log_scale: FloatArray
    log_scale_error: FloatArray
    error: FloatArray
    additive: FloatArray

    @property
    def count(self) -> int:
        """Number k of states."""
        return int(self.weights.shape[0])

    @property
    def size(self) -> int:
        """Number n of positions."""
        return int(self.weights.shape[-1])

    @property
    def spacing(self) -> float:
        """Distance of neighbouring positions, nats."""
        return self.stride * self.width

    def members(self, chosen: slice) -> "TiltedMasses":
        """The states of a part of the stack."""
        return TiltedMasses(
            self.width,
            self.tilt,
            self.stride,
            self.origins[chosen],
            np.ascontiguousarray(self.weights[chosen]),
            self.log_scale[chosen],
            self.log_scale_error[chosen],
            self.error[chosen],
            self.additive[chosen],
        )

    def positions(self, row: int) -> FloatArray:
        """Positions of a row of the first state, nats, each a product of exact numbers rounded twice at most."""
        result: FloatArray = (0.5 * self.width) * (
            self.origins[0][min(row, 1)] + 2.0 * self.stride * np.arange(float(self.size))
        )
        return result

    def normalised(self, within: float = 0.1) -> "TiltedMasses":
        """Return the same states with weights that sum to 1, or up to `within` beside it, in each row not empty."""
        total = np.add.reduce(self.weights, axis=-1)
        total[total <= 0.0] = 1.0
        if np.all(np.abs(total - 1.0) <= max(within, 1e-13)):
            return self
        log_scale = self.log_scale + np.log(total)
        with np.errstate(over="ignore"):
            # Next to nothing may be left of a row beside its error, which then is infinite.
            error = self.error / total * (1.0 + 4.0 * UNIT_ROUNDOFF)
        return TiltedMasses(
            self.width,
            self.tilt,
            self.stride,
            self.origins,
            outwards(self.weights / total[..., None], 2.0 * UNIT_ROUNDOFF),
            log_scale,
            # The logarithm and the sum are rounded; κ is a name for what was divided by, whatever it is.
            self.log_scale_error + 4.0 * UNIT_ROUNDOFF * (np.abs(log_scale) + np.abs(np.log(total)) + 1.0),
            error,
            self.additive,
        )


def outwards(weights: FloatArray, relative: float) -> FloatArray:
    """Move weights of shape (k, 3, n), known to that relative error, to their sides: `EXACT_A` down, the others up."""
    weights *= np.array([[1.0 + relative], [1.0 - relative], [1.0 + relative]])
    return weights


def joined(stacks: Sequence[TiltedMasses]) -> TiltedMasses:
    """Join stacks on one grid, of one length, to one."""
    first = stacks[0]
    if len(stacks) == 1:
        return first
    return replace(
        first,
        origins=tuple(origin for stack in stacks for origin in stack.origins),
        weights=np.concatenate([stack.weights for stack in stacks]),
        log_scale=np.concatenate([stack.log_scale for stack in stacks]),
        log_scale_error=np.concatenate([stack.log_scale_error for stack in stacks]),
        error=np.concatenate([stack.error for stack in stacks]),
        additive=np.concatenate([stack.additive for stack in stacks]),
    )
