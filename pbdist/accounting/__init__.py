"""Privacy accounting of training runs: an accountant that is stepped, and DP-SGD in one line."""

from pbdist.accounting.accountant import Accountant

__all__ = ["Accountant"]
