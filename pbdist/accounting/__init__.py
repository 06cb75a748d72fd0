"""Privacy accounting of training runs: an accountant that is stepped, and DP-SGD in one line."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbdist.accounting.accountant import Accountant
from pbdist.accounting.dpsgd import DpsgdEpsilon, dpsgd
from pbdist.accounting.training import Training

if TYPE_CHECKING:
    from pbdist.accounting.calibration import DpsgdNoise, dpsgd_noise

__all__ = ["Accountant", "DpsgdEpsilon", "DpsgdNoise", "Training", "dpsgd", "dpsgd_noise"]


def __getattr__(name: str) -> Any:
    """Import what sizes noise on first use: it takes longer to import than an accountant."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("pbdist.accounting.calibration"), name)
    globals()[name] = value
    return value
