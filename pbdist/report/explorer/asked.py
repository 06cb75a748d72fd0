"""The arguments of a request, checked before anything is done with them."""

import re
from collections.abc import Mapping, Sequence

from pbdist.errors import InvalidInputError, shown

_LONGEST = 64
_WHOLE = re.compile(r"[0-9]{1,9}", re.ASCII)
_DECIMAL = re.compile(r"[0-9]{1,20}(\.[0-9]{0,30})?([eE][+-]?[0-9]{1,4})?", re.ASCII)
_TOKEN = re.compile(r"[0-9a-f]{16}", re.ASCII)


class Asked:
    """The arguments of one request: those that are allowed, each once, of the expected form.

    Parameters
    ----------
    arguments
        As Tornado gives them: for each name its values, as bytes.
    allowed
        The names that there may be.

    Raises
    ------
    InvalidInputError
        There are others, or one twice, or one that is too long or no plain text.
    """

    def __init__(self, arguments: Mapping[str, Sequence[bytes]], allowed: Sequence[str]) -> None:
        self._values: dict[str, str] = {}
        for name, values in arguments.items():
            if name not in allowed:
                raise InvalidInputError(f"argument: expected one of {', '.join(allowed) or 'none'}, got {shown(name)}")
            if len(values) != 1 or len(values[0]) > _LONGEST or not values[0].isascii():
                raise InvalidInputError(f"{name}: expected one short text, got {shown(list(values))}")
            self._values[name] = values[0].decode("ascii")

    def has(self, name: str) -> bool:
        """Whether an argument is given."""
        return name in self._values

    def token(self) -> str:
        """Return the token of the state of the store that the page shows."""
        return self._matched("token", _TOKEN, "16 hexadecimal digits")

    def index(self, name: str, count: int) -> int:
        """Return an index below `count`."""
        value = int(self._matched(name, _WHOLE, f"a whole number below {count}"))
        if value >= count:
            raise InvalidInputError(f"{name}: expected a whole number below {count}, got {value}")
        return value

    def share(self, name: str) -> float:
        """Return a number above 0 and below 1."""
        value = float(self._matched(name, _DECIMAL, "a number above 0 and below 1"))
        if not 0.0 < value < 1.0:
            raise InvalidInputError(f"{name}: expected a number above 0 and below 1, got {shown(value)}")
        return value

    def _matched(self, name: str, form: re.Pattern[str], expected: str) -> str:
        value = self._values.get(name, "")
        if not form.fullmatch(value):
            raise InvalidInputError(f"{name}: expected {expected}, got {shown(value)}")
        return value
