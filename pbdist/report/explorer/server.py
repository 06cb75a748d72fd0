"""A small server of read-only routes: a page, and answers from one store as JSON."""

import ipaddress
import json
import re
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application, HTTPError, RequestHandler

from pbdist.errors import InvalidInputError, PbdistError, StoreMismatchError, shown
from pbdist.report.explorer.export import page, policy
from pbdist.report.explorer.snapshot import MAX_CELLS, Snapshot, tables_as_json
from pbdist.types import JsonValue

#: The arguments of a request as Tornado gives them: for each name its values.
_Arguments = Mapping[str, Sequence[bytes]]
_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z.-]{1,253})(:[0-9]{1,5})?", re.ASCII)
#: Requests have no body, short headers and short addresses.
_MAX_BODY, _MAX_HEADER, _MAX_URL = 1024, 16 << 10, 1024
#: A connection without requests is closed after so long.
_IDLE_SECONDS = 60.0
_HEADERS = {
    "Cache-Control": "no-store",
    "Content-Type": "application/json; charset=utf-8",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "pbdist",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


def _indices(arguments: _Arguments, counts: Mapping[str, int]) -> list[int]:
    """Return arguments that are indices, each below its count; beside them only a token is allowed."""
    unknown = [name for name in arguments if name not in counts and name != "token"]
    if unknown:
        raise InvalidInputError(f"argument: expected one of token, {', '.join(counts)}, got {shown(unknown[0])}")
    found = []
    for name, count in counts.items():
        values = arguments.get(name, [])
        if len(values) != 1 or not re.fullmatch(rb"[0-9]{1,9}", values[0]) or int(values[0]) >= count:
            raise InvalidInputError(f"{name}: expected a whole number below {count}, got {shown([*values])}")
        found.append(int(values[0]))
    return found


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def allowed_host(header: str, bound: str) -> bool:
    """Whether a Host header names this machine: by an address, as localhost, or by its own name if it is served so.

    A name that resolves to this machine is what an attacker's page has; an address it cannot claim. Ports are not
    compared: a tunnel has another one.
    """
    found = _HOST.fullmatch(header)
    name = found["name"].strip("[]").lower().removesuffix(".") if found else ""
    if is_loopback(name) or is_loopback(bound) or not name:
        return is_loopback(name)
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return name in {bound.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}


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

    def without_place(self, text: str) -> str:
        """Return a message without the path of the store, which is nobody else's business."""
        for place in (self.snapshot.study.where, self._name):
            text = text.replace(place, "the store")
        return text

    def contents(self, arguments: _Arguments) -> JsonValue:
        """Return the index of the store as it is now: it is opened again if it has changed, or was damaged."""
        if arguments:
            raise InvalidInputError("argument: expected none")
        latest = Snapshot(self._name)
        if latest.token != self.snapshot.token or not self.snapshot.sound:
            self.snapshot = latest
        return self.snapshot.index(self.snapshot.groups)

    def cell(self, arguments: _Arguments) -> JsonValue:
        """Return all bounds of one noise setting, in the form of an exported file."""
        snapshot = self._of(arguments)
        cells = _indices(arguments, {"cell": len(snapshot.study.spec.cells)})
        found = snapshot.table(cells)
        return {"tables": tables_as_json(found), "settings": snapshot.settings(cells, found)}

    def group(self, arguments: _Arguments) -> JsonValue:
        """Return the bounds of some noise settings of a group at an r and an ε, from a start on."""
        snapshot = self._of(arguments)
        study = snapshot.study.spec
        grids = {"compositions": len(study.compositions), "epsilon": len(study.epsilon)}
        counts = {"group": len(snapshot.groups), **grids, "start": len(study.cells)}
        return snapshot.group(*_indices(arguments, counts))

    def _of(self, arguments: _Arguments) -> Snapshot:
        """Return the state that a page shows; a `StoreMismatchError` if that is no longer the latest."""
        values = arguments.get("token", [])
        if len(values) != 1 or not re.fullmatch(rb"[0-9a-f]{16}", values[0]):
            raise InvalidInputError(f"token: expected 16 hexadecimal digits, got {shown([*values])}")
        if values[0].decode() != self.snapshot.token:
            raise StoreMismatchError("the store has changed since this page was loaded: load it again")
        return self.snapshot


class ExplorerServer:
    """Serves a store at an address until it is closed; `port` is the port that was bound, for 0 a free one."""

    def __init__(self, served: Served, host: str, port: int) -> None:
        self._reader = ThreadPoolExecutor(1, thread_name_prefix="pbdist-explorer")
        options = {"served": served, "host": host, "reader": self._reader}
        application = Application([(".*", _Handler, options)], log_function=lambda _: None)
        self._server = HTTPServer(
            application, max_body_size=_MAX_BODY, max_header_size=_MAX_HEADER, idle_connection_timeout=_IDLE_SECONDS
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


class _Handler(RequestHandler):
    """Answers GET and HEAD of this machine's own pages, and nothing else."""

    def initialize(self, served: Served, host: str, reader: ThreadPoolExecutor) -> None:
        """Take what all requests share."""
        self.served, self.bound, self.reader = served, host, reader
        names = ("contents", "cell", "group")
        self.answers = {f"/{name}.json": getattr(served, name) for name in names}

    def set_default_headers(self) -> None:
        """Set the headers of every answer; the page has a policy of its own."""
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")

    def prepare(self) -> None:
        """Refuse what no page of this server asks."""
        if self.request.method not in ("GET", "HEAD"):
            raise HTTPError(405, "expected GET or HEAD")
        if not allowed_host(self.request.headers.get("Host", ""), self.bound):
            raise HTTPError(403, "expected a Host header that names this machine by its address")
        if len(self.request.uri or "") > _MAX_URL or self.request.body:
            raise HTTPError(400, "expected a short URL and no body")

    async def head(self) -> None:
        """Answer as to GET; the body is left out on the way."""
        await self.get()

    async def get(self) -> None:
        """Answer with the page, or from the store, which another thread reads."""
        if self.request.path == "/":
            if self.request.arguments:
                raise HTTPError(400, "expected no arguments")
            self.set_header("Content-Security-Policy", policy("'self'") + "; frame-ancestors 'none'")
            self.set_header("Content-Type", "text/html; charset=utf-8")
            self.finish(page(self.served.snapshot.study.spec.name))
            return
        if self.request.path not in self.answers:
            raise HTTPError(404, "expected one of this server's paths")
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise HTTPError(403, "expected a request of this server's own page")
        answer = self.answers[self.request.path]
        try:
            found = await IOLoop.current().run_in_executor(self.reader, answer, self.request.arguments)
        except InvalidInputError as error:
            raise HTTPError(400, str(error).replace("%", "%%")) from error
        except (PbdistError, OSError) as error:
            self.set_status(409)
            found = {"error": str(PbdistError(self.served.without_place(str(error))))}
        self.finish(json.dumps(found, allow_nan=False))

    def write_error(self, status_code: int, **details: Any) -> None:  # noqa: ARG002 -- as Tornado calls it
        """Answer in one line of JSON, without what the server knows of the error."""
        error = details.get("exc_info", (None, None, None))[1]
        known = error.log_message if isinstance(error, HTTPError) else None
        self.finish(json.dumps({"error": known or self._reason}))

    def log_exception(self, *_: Any) -> None:
        """Log nothing: what is wrong with a request is in its answer."""
