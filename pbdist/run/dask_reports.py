"""Reports of cells on their way from Dask workers to the driver: as events, by way of the scheduler."""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from distributed import get_worker

from pbdist.run.cell_watch import Report, Send

__all__ = ["TOPIC", "DaskReports", "sender"]

#: One topic for all runs: a scheduler that outlives them keeps the last events of every topic.
TOPIC = "pbdist-cells-at-work"
#: Reports that wait to be asked for, at most: the oldest are forgotten.
_MOST_WAITING = 10_000


class DaskReports:
    """What the workers report to this client.

    Parameters
    ----------
    client
        The client of the scheduler.
    """

    def __init__(self, client: Any) -> None:
        self._run = str(client.id)
        self._heard: deque[tuple[float, Report]] = deque(maxlen=_MOST_WAITING)
        client.subscribe_topic(TOPIC, self._take)

    def heard(self) -> Sequence[tuple[float, Report]]:
        """Return what has come since the last call, and when by the monotonic clock."""
        return [self._heard.popleft() for _ in range(len(self._heard))]

    def _take(self, event: tuple[float, Mapping[str, Any]]) -> None:
        _, message = event
        if message["run"] == self._run:
            self._heard.append((time.monotonic(), Report(**message["report"])))


def sender(run: str) -> Send:
    """Return what sends the reports of a task to the client of that name, from the worker that this thread is of."""
    worker = get_worker()
    return lambda report: worker.log_event(TOPIC, {"run": run, "report": asdict(report)})
