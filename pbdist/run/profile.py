"""Cluster profiles: the YAML files of ``cluster/`` that say which workers to start."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, PlainValidator, ValidationError

from pbdist.study.document import read_document, shown
from pbdist.study.entries import custom_error, first_problem
from pbdist.study.grids import GridError

__all__ = ["LocalProfile", "load_profile"]

_MOST_WORKERS = 4096


def _count(value: Any) -> int:
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise custom_error(GridError(f"expected an integer from 1 to {_MOST_WORKERS}, got {shown(value)}"))
    return value


def _count_or_auto(value: Any) -> int | None:
    if value is None or value == "auto":
        return None
    if type(value) is not int or not 1 <= value <= _MOST_WORKERS:
        raise custom_error(GridError(f"expected auto or an integer from 1 to {_MOST_WORKERS}, got {shown(value)}"))
    return value


class LocalProfile(BaseModel):
    """Worker processes on this machine.

    Attributes
    ----------
    kind
        ``local``.
    workers
        How many; None for one on each core that this process may use.
    threads_per_worker
        1: the transforms of one cell are a single thread's work, and two cells at once double the memory.
    memory_limit
        ``auto`` (an equal share of the memory for each worker) or a size such as ``4GiB``.
    dashboard_port
        The port of the dashboard; another one is taken where it is in use. 0 for any.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["local"] = "local"
    workers: Annotated[int | None, PlainValidator(_count_or_auto)] = None
    threads_per_worker: Annotated[int, PlainValidator(_count)] = 1
    memory_limit: str = "auto"
    dashboard_port: int = 8787


def load_profile(path: str | Path) -> LocalProfile:
    """Read the cluster profile at `path`.

    Raises
    ------
    StudyFileError
        The file is not YAML, or a key is unknown or has a wrong value; the text names the line.
    """
    document = read_document(Path(path), "cluster")
    if not isinstance(document.data, dict):
        raise document.error((), f"expected a mapping with a kind, got {shown(document.data)}")
    if "kind" not in document.data:
        raise document.error(("kind",), "expected local, got nothing: the key is missing")
    try:
        profile = LocalProfile.model_validate(document.data)
    except ValidationError as error:
        raise document.error(*first_problem(error, LocalProfile)) from error
    if not 0 <= profile.dashboard_port <= 65535:
        problem = f"expected a port from 0 to 65535, got {profile.dashboard_port}"
        raise document.error(("dashboard_port",), problem)
    return profile
