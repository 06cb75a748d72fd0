"""A small server: the page of the explorer, and answers from one store as JSON."""

import json
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application, RequestHandler, url

from pbdist.errors import InvalidInputError, PbdistError, StoreMismatchError, shown
from pbdist.report.explorer.export import page
from pbdist.report.explorer.snapshot import MAX_CELLS, Snapshot, tables_as_json
from pbdist.types import JsonValue


class Served:
    """A store by the name that its user gives it; `snapshot` is the state that pages show. Of one thread at a time."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.snapshot = Snapshot(name)
        cells = len(self.snapshot.study.spec.cells)
        if cells > MAX_CELLS:
            raise InvalidInputError(f"store: expected at most {MAX_CELLS:,} noise settings to explore, got {cells:,}")
        # Of many settings it takes seconds: the first page does not wait for it.
        _ = self.snapshot.groups

    def contents(self, _: Mapping[str, str]) -> JsonValue:
        """Return the index of the store as it is now: it is opened again if it has changed, or was damaged."""
        latest = Snapshot(self._name)
        if latest.token != self.snapshot.token or self.snapshot.damaged:
            self.snapshot = latest
        return self.snapshot.index(self.snapshot.groups)

    def cell(self, arguments: Mapping[str, str]) -> JsonValue:
        """Return all bounds of one noise setting, in the form of an exported file."""
        cells = self._indices(arguments, cell=len(self.snapshot.study.spec.cells))
        found = self.snapshot.table(cells)
        return {"tables": tables_as_json(found), "settings": self.snapshot.settings(cells, found)}

    def group(self, arguments: Mapping[str, str]) -> JsonValue:
        """Return the bounds of some noise settings of a group at an r and an ε, from a start on."""
        study = self.snapshot.study.spec
        counts = {"compositions": len(study.compositions), "epsilon": len(study.epsilon), "start": len(study.cells)}
        return self.snapshot.group(*self._indices(arguments, group=len(self.snapshot.groups), **counts))

    def _indices(self, arguments: Mapping[str, str], **counts: int) -> list[int]:
        """Return the arguments of a page, indices below their counts, if it shows the latest state of the store."""
        if arguments.get("token") != self.snapshot.token:
            raise StoreMismatchError("the store has changed since this page was loaded: load it again")
        for name, count in counts.items():
            given = arguments.get(name, "")
            if not given.isdecimal() or int(given) >= count:
                raise InvalidInputError(f"{name}: expected a whole number below {count}, got {shown(given)}")
        return [int(arguments[name]) for name in counts]


class ExplorerServer:
    """Serves a store at an address until it is closed; `port` is the port that was bound, for 0 a free one."""

    def __init__(self, served: Served, host: str, port: int) -> None:
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pbdist-explorer")
        routes = [url("/", _Page), url(r"/(contents|cell|group)\.json", _Answer)]
        self._server = HTTPServer(
            Application([*routes], served=served, reader=self._reader, log_function=lambda _: None)
        )
        # One address: of a name with several, two sockets could get two free ports.
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        bound = socket.create_server((host, port), family=family)
        bound.setblocking(False)
        self._server.add_sockets([bound])
        self.port: int = bound.getsockname()[1]

    def close(self) -> None:
        """Accept no more connections, and end the threads."""
        self._server.stop()
        self._reader.shutdown(wait=True, cancel_futures=True)


class _Page(RequestHandler):
    """The page."""

    def get(self) -> None:
        """Answer with the page."""
        self.finish(page(self.settings["served"].snapshot.study.spec.name))


class _Answer(RequestHandler):
    """Answers from the store, which another thread reads."""

    async def get(self, name: str) -> None:
        """Answer as JSON; what cannot be answered is an ``error`` of one line."""
        arguments = {key: self.get_query_argument(key) for key in self.request.query_arguments}
        found: Any
        try:
            ask = partial(getattr(self.settings["served"], name), arguments)
            found = await IOLoop.current().run_in_executor(self.settings["reader"], ask)
        except (PbdistError, OSError) as error:
            self.set_status(400 if isinstance(error, InvalidInputError) else 409)
            found = {"error": str(error)}
        self.set_header("Cache-Control", "no-store")
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(found, allow_nan=False))
