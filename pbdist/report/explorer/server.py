"""A small server of read-only routes: a page, its scripts, and answers from one store as JSON."""

import ipaddress
import json
import re
import secrets
import socket
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop
from tornado.web import Application, HTTPError, RequestHandler

from pbdist.errors import InvalidInputError, PbdistError, StoreMismatchError, shown
from pbdist.report.explorer.answers import Answers
from pbdist.report.explorer.export import page, static_files
from pbdist.report.explorer.snapshot import MOST_CELLS, Snapshot, contents, listing_of, reading_notices, take_snapshot
from pbdist.types import JsonValue

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


_HOST = re.compile(r"(?P<name>\[[0-9a-fA-F:.]{2,45}\]|[0-9A-Za-z.-]{1,253})(:[0-9]{1,5})?", re.ASCII)


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
    if found is None:
        return False
    name = found["name"].strip("[]").lower().removesuffix(".")
    if is_loopback(name):
        return True
    if is_loopback(bound):
        return False
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name in {bound.lower(), socket.gethostname().lower(), socket.getfqdn().lower()}
    return True


class Served:
    """A store by the name that its user gives it, opened when made.

    Raises
    ------
    NotAStoreError, StoreFormatError, StoreDamagedError
        As `pbdist.open_study`.
    InvalidInputError
        It has too many cells.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._listing = listing_of(name)
        self._answers = Answers(_checked(take_snapshot(name)))

    @property
    def title(self) -> str:
        """The name of the study."""
        return self._answers.snapshot.union.study.name

    def without_place(self, text: str) -> str:
        """Return a message without the path of the store, which is nobody else's business."""
        for place in (self._answers.snapshot.parts[0].stored.where, self._name):
            text = text.replace(place, "the store")
        return text

    def latest(self) -> Answers:
        """Return answers from the store as it is now: it is opened again if it has changed, or was damaged."""
        with self._lock:
            listing = listing_of(self._name)
            snapshot = self._answers.snapshot
            if listing != self._listing or snapshot.damaged or snapshot.problem is not None:
                found = Answers(_checked(take_snapshot(self._name)))
                self._answers.close()
                self._answers, self._listing = found, listing
            return self._answers

    def of(self, token: str) -> Answers:
        """Return answers from the state that a page shows; a `StoreMismatchError` if that is no longer the latest."""
        answers = self._answers
        if answers.snapshot.token != token:
            raise StoreMismatchError("the store has changed since this page was loaded: load it again")
        return answers

    def close(self) -> None:
        """End the background reading."""
        self._answers.close()


def _checked(snapshot: Snapshot) -> Snapshot:
    cells = len(snapshot.union.study.cells)
    if cells > MOST_CELLS:
        raise InvalidInputError(f"store: expected at most {MOST_CELLS:,} noise settings to explore, got {cells:,}")
    return snapshot


#: Requests have no body and short headers.
_MOST_BODY, _MOST_HEADER = 1024, 16 << 10
_MOST_URL = 1024
#: A connection that says nothing for so long is closed.
_IDLE_SECONDS = 60.0
_HEADERS = {
    "Cache-Control": "no-cache",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "Server": "pbdist",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; connect-src 'self';"
    " img-src data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class ExplorerServer:
    """Serves a store on one address until it is stopped.

    Parameters
    ----------
    served
        The store.
    host, port
        Where; port 0 picks a free one.

    Attributes
    ----------
    port
        The port that was bound.
    """

    def __init__(self, served: Served, host: str, port: int) -> None:
        self._readers = ThreadPoolExecutor(1, thread_name_prefix="pbdist-explorer")
        common = {"served": served, "host": host, "readers": self._readers}
        routes: list[Any] = [("/", _Page, common)]
        routes += [
            (path, _File, {**common, "kind": kind, "content": content})
            for path, (kind, content) in static_files().items()
        ]
        routes += [(f"/{name}", _Answer, {**common, "answer": answer}) for name, answer in _ANSWERS.items()]
        application = Application(
            routes, default_handler_class=_Nothing, default_handler_args=common, log_function=lambda _: None
        )
        self._server = HTTPServer(
            application, max_body_size=_MOST_BODY, max_header_size=_MOST_HEADER, idle_connection_timeout=_IDLE_SECONDS
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
        self._readers.shutdown(wait=True, cancel_futures=True)


class _Handler(RequestHandler):
    """Answers GET and HEAD of this machine's own pages, and nothing else."""

    def initialize(self, served: Served, host: str, readers: ThreadPoolExecutor) -> None:
        """Take what all handlers share."""
        self.served, self.bound, self.readers = served, host, readers

    def set_default_headers(self) -> None:
        """Set the headers of every answer; the page has a policy of its own."""
        for name, value in _HEADERS.items():
            self.set_header(name, value)
        self.set_header("Content-Security-Policy", _POLICY.format(nonce=""))

    def prepare(self) -> None:
        """Refuse what no page of this server asks."""
        if self.request.method not in ("GET", "HEAD"):
            raise HTTPError(405, "expected GET or HEAD")
        if not allowed_host(self.request.headers.get("Host", ""), self.bound):
            raise HTTPError(403, "expected a Host header that names this machine by its address")
        if len(self.request.uri or "") > _MOST_URL or self.request.body:
            raise HTTPError(400, "expected a short URL and no body")

    async def head(self) -> None:
        """Answer as to GET; the body is left out on the way."""
        await self.get()

    async def get(self) -> None:
        """Answer; by default there is nothing."""
        raise HTTPError(404, "expected one of this server's paths")

    def write_error(self, status_code: int, **details: Any) -> None:  # noqa: ARG002 -- as Tornado calls it
        """Answer in one line of JSON, without what the server knows of the error."""
        error = details.get("exc_info", (None, None, None))[1]
        text = self._reason
        if isinstance(error, HTTPError) and error.log_message:
            text = error.log_message
        elif isinstance(error, PbdistError):
            text = str(error)
        self._finish_json({"error": text})

    def log_exception(self, *_: Any) -> None:
        """Log nothing: what is wrong with a request is in its answer."""

    def _expect_no_arguments(self) -> None:
        if self.request.arguments:
            raise HTTPError(400, "expected no arguments")

    def _finish_json(self, value: JsonValue) -> None:
        self.set_header("Content-Type", "application/json; charset=utf-8")
        self.finish(json.dumps(value, allow_nan=False))


class _Nothing(_Handler):
    """Answers to any other path."""


class _Page(_Handler):
    """The page."""

    async def get(self) -> None:
        """Answer with the page; its styles are allowed by a number used once."""
        self._expect_no_arguments()
        nonce = secrets.token_urlsafe(16)
        self.set_header("Content-Security-Policy", _POLICY.format(nonce=nonce))
        self.set_header("Content-Type", "text/html; charset=utf-8")
        self.set_header("Cache-Control", "no-store")
        self.finish(page(self.served.title, nonce))


class _File(_Handler):
    """A script or a style sheet, which were read when the server started."""

    def initialize(self, kind: str, content: bytes, **common: Any) -> None:  # type: ignore[override]
        """Take the file."""
        super().initialize(**common)
        self.kind, self.content = kind, content

    async def get(self) -> None:
        """Answer with the file."""
        self._expect_no_arguments()
        self.set_header("Content-Type", f"{self.kind}; charset=utf-8")
        self.finish(self.content)


class _Answer(_Handler):
    """An answer from the store, found in another thread."""

    def initialize(self, answer: Callable[[Served, Any], JsonValue], **common: Any) -> None:  # type: ignore[override]
        """Take the function that answers."""
        super().initialize(**common)
        self.answer = answer

    async def get(self) -> None:
        """Answer."""
        if self.request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            raise HTTPError(403, "expected a request of this server's own page")
        self.set_header("Cache-Control", "no-store")
        try:
            found = await IOLoop.current().run_in_executor(
                self.readers, self.answer, self.served, self.request.arguments
            )
        except InvalidInputError as error:
            raise HTTPError(400, str(error).replace("%", "%%")) from error
        except (PbdistError, OSError) as error:
            self.set_status(409)
            found = {"error": str(PbdistError(self.served.without_place(str(error))))}
        self._finish_json(found)


def _contents(served: Served, arguments: Any) -> JsonValue:
    Asked(arguments, ())
    answers = served.latest()
    return contents(answers.snapshot, answers.snapshot.groups)


def _progress(served: Served, arguments: Any) -> JsonValue:
    asked = Asked(arguments, ("token", "compositions", "epsilon"))
    answers = served.of(asked.token())
    done = answers.slabs.progress(*_point(asked, answers))
    return {
        "progress": done,
        "notices": list(reading_notices(answers.snapshot, answers.slabs.points, answers.slabs.missed)),
    }


def _bounds(served: Served, arguments: Any) -> JsonValue:
    asked = Asked(arguments, ("token", "cell", "compositions", "epsilon"))
    answers = served.of(asked.token())
    study = answers.snapshot.union.study
    cell = asked.index("cell", len(study.cells))
    if asked.has("compositions") == asked.has("epsilon"):
        raise InvalidInputError("compositions: expected it or epsilon, got both or none")
    if asked.has("compositions"):
        return answers.bounds(cell, compositions=asked.index("compositions", len(study.compositions)))
    return answers.bounds(cell, epsilon=asked.index("epsilon", len(study.epsilon)))


def _verdicts(served: Served, arguments: Any) -> JsonValue:
    asked = Asked(arguments, ("token", "group", "compositions", "epsilon", "delta"))
    answers = served.of(asked.token())
    group = asked.index("group", len(answers.snapshot.groups))
    return answers.verdicts(group, *_point(asked, answers), asked.share("delta"))


def _point(asked: Asked, answers: Answers) -> tuple[int, int]:
    study = answers.snapshot.union.study
    return asked.index("compositions", len(study.compositions)), asked.index("epsilon", len(study.epsilon))


_ANSWERS: dict[str, Callable[[Served, Any], JsonValue]] = {
    "contents.json": _contents,
    "progress.json": _progress,
    "bounds.json": _bounds,
    "verdicts.json": _verdicts,
}
