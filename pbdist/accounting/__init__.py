"""Privacy accounting of training runs: an accountant that is stepped, and DP-SGD in one line.

For those who come from other libraries: `from_dp_event` reads the events of dp-accounting,
`pbdist.accounting.dp_accounting` has an accountant for them, and `pbdist.accounting.opacus` one for Opacus.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pbdist.accounting.accountant import Accountant
from pbdist.accounting.dpsgd import DpsgdEpsilon, Training, TrainingPhase, dpsgd
from pbdist.accounting.events import EventPairs, EventRefusedError, from_dp_event

if TYPE_CHECKING:
    from pbdist.accounting.calibration import DpsgdNoise, dpsgd_noise

__all__ = [
    "Accountant",
    "DpsgdEpsilon",
    "DpsgdNoise",
    "EventPairs",
    "EventRefusedError",
    "Training",
    "TrainingPhase",
    "dpsgd",
    "dpsgd_noise",
    "from_dp_event",
]


def __getattr__(name: str) -> Any:
    """Import what sizes noise on first use: it takes longer to import than an accountant."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module("pbdist.accounting.calibration"), name)
    globals()[name] = value
    return value
