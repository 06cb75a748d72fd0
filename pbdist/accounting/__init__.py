"""Privacy accounting of training runs: an accountant that is stepped, and DP-SGD in one line.

For those who come from other libraries: `from_dp_event` reads the events of dp-accounting,
`pbdist.accounting.dp_accounting` has an accountant for them, and `pbdist.accounting.opacus` one for Opacus.
"""

from pbdist.accounting.accountant import Accountant
from pbdist.accounting.events import EventPairs, EventRefusedError, from_dp_event

__all__ = ["Accountant", "EventPairs", "EventRefusedError", "from_dp_event"]
