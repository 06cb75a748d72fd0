"""Fields of cluster profiles: their types, each with the check of what the file says."""

import math
import re
from typing import Annotated, Any, TypeAlias

from pydantic import PlainValidator
from pydantic_core import PydanticCustomError

from pbdist.study.document import shown
from pbdist.study.grids import GridError
from pbdist.study.parameters import custom_error

_MOST_WORKERS = 4096
#: A day: to wait longer for a first worker, start the driver in a job.
_MOST_SECONDS = 86_400
_SIZE = re.compile(r"(?P<number>[0-9]+(\.[0-9]+)?) ?(?P<unit>[kKMGT]i?)B")
_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY_UNITS = {"Ki": 2**10, "ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_CLOCK_TIME = re.compile(r"([0-9]+-)?[0-9]{1,4}(:[0-9]{2}){1,2}")
_RESOURCE_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ADDRESS = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?")
#: A label of DNS, short enough that the operator's suffixes fit.
_KUBERNETES_NAME = re.compile(r"[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?")


def _wrong(expected: str, value: object) -> PydanticCustomError:
    return custom_error(GridError(f"expected {expected}, got {shown(value)}"))


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise _wrong(f"an integer from 1 to {_MOST_WORKERS}", value)
    return value


def _count_or_auto(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise _wrong(f"auto or an integer from 1 to {_MOST_WORKERS}", value)
    return value


def _flag(value: Any) -> bool:
    if type(value) is not bool:
        raise _wrong("true or false", value)
    return value


def _port(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= 65535:
        raise _wrong("a port from 0 to 65535", value)
    return value


def _seconds(value: Any) -> float:
    if type(value) not in (int, float) or not 0 < value <= _MOST_SECONDS:
        raise _wrong(f"a number of seconds above 0 and at most {_MOST_SECONDS}", value)
    return float(value)


def _size(value: Any) -> int:
    found = _SIZE.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise _wrong("a size such as 2GiB", value)
    unit = found["unit"]
    size = int(float(found["number"]) * (_UNITS | _BINARY_UNITS)[unit])
    if size < 2**20:
        raise _wrong("at least 1MiB", value)
    return size


def _text(value: Any) -> str | None:
    if value is not None and not (isinstance(value, str) and value and value.isprintable()):
        raise _wrong("a text on one line", value)
    return value


def _address(value: Any) -> str:
    """Check a name or an address of a machine, without a port."""
    if not isinstance(value, str) or not _ADDRESS.fullmatch(value):
        raise _wrong("the name or the address of a machine, such as 10.0.0.5", value)
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list | tuple) or not all(isinstance(x, str) and x and x.isprintable() for x in value):
        raise _wrong("a list of texts of one line each", value)
    return tuple(value)


def _some_texts(value: Any) -> tuple[str, ...]:
    texts = _texts(value)
    if not texts:
        raise _wrong("at least one", value)
    return texts


def _amounts(value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise _wrong("a mapping of names to amounts", value)
    for name, amount in value.items():
        if not _RESOURCE_NAME.fullmatch(name):
            raise _wrong("names of letters, digits, - and _", name)
        if type(amount) not in (int, float) or not (amount > 0 and math.isfinite(amount)):
            raise _wrong(f"an amount above 0 of {name}", amount)
    return {name: float(amount) for name, amount in value.items()}


def _variables(value: Any) -> dict[str, str]:
    if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
        raise _wrong('a mapping of names to texts (numbers in quotation marks: "1")', value)
    for name in value:
        if not _VARIABLE_NAME.fullmatch(name):
            raise _wrong("names of environment variables", name)
    return dict(value)


def _clock_time(value: Any) -> str | None:
    """Check a time such as ``02:00:00`` or ``1-00:00:00``, as batch systems write it."""
    if value is not None and not (isinstance(value, str) and _CLOCK_TIME.fullmatch(value)):
        raise _wrong("a time such as 02:00:00", value)
    return value


def _kubernetes_name(value: Any) -> str:
    """Check a name that Kubernetes and Dask's operator take."""
    if not isinstance(value, str) or not _KUBERNETES_NAME.fullmatch(value):
        raise _wrong("at most 32 lower-case letters, digits and -", value)
    return value


Count: TypeAlias = Annotated[int, PlainValidator(_count)]
CountOrAuto: TypeAlias = Annotated[int | None, PlainValidator(_count_or_auto)]
Address: TypeAlias = Annotated[str, PlainValidator(_address)]
Flag: TypeAlias = Annotated[bool, PlainValidator(_flag)]
Port: TypeAlias = Annotated[int, PlainValidator(_port)]
Seconds: TypeAlias = Annotated[float, PlainValidator(_seconds)]
#: Bytes.
Size: TypeAlias = Annotated[int, PlainValidator(_size)]
Text: TypeAlias = Annotated[str | None, PlainValidator(_text)]
Texts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_texts)]
SomeTexts: TypeAlias = Annotated[tuple[str, ...], PlainValidator(_some_texts)]
Amounts: TypeAlias = Annotated[dict[str, float], PlainValidator(_amounts)]
Variables: TypeAlias = Annotated[dict[str, str], PlainValidator(_variables)]
ClockTime: TypeAlias = Annotated[str | None, PlainValidator(_clock_time)]
KubernetesName: TypeAlias = Annotated[str, PlainValidator(_kubernetes_name)]
