"""Hostile requests over raw sockets: each is answered with what a page may see, or refused; nothing else is touched."""

import random
import socket
from collections import Counter

import pytest

from tests.effort import SEED
from tests.report.explorer.studies import STUDY, answer, asked, serving
from tests.studies import files_of

#: What stands beside the store, in its configuration, and in the process: none of it may be in an answer.
SECRET = b"explorer-secret-4711"
ROUTES = (
    "/", "/contents.json", "/cell.json", "/group.json",
)  # fmt: skip
CLIMBS = (
    "..", "%2e%2e", "%2E.", "..%2f", "%252e%252e", "....", "%c0%ae%c0%ae", "..\\", "%5c..", "%00", "\x00", "~",
    "//", "/./",
)  # fmt: skip
TARGETS = (
    "secret.txt", "etc/passwd", "proc/self/environ", "zarr.json", "s.zarr/zarr.json",
    "bounds/0.0.0.0.0", "",
)  # fmt: skip
METHODS = (
    "GET", "GET", "GET", "HEAD", "POST", "PUT", "DELETE", "TRACE", "CONNECT", "OPTIONS", "PROPFIND", "get",
    "G\x00T", "",
)  # fmt: skip
HOSTS = (
    "127.0.0.1", "127.0.0.1", "127.0.0.1", "localhost:1", "evil.example", "", "127.0.0.1@evil.example", "[::1",
    "a" * 300, "\xff",
)  # fmt: skip
VALUES = (
    "0", "1", "-1", "99999999999999999999", "1e999", "nan", "inf", "%00", "..%2f..%2fsecret.txt", "'", "%22%3E",
    "0x1", "", "%F0%9F%98%80", "a" * 500, "1;2", "[]", "${7*7}", "%ff", "0.5", "1e-300",
)  # fmt: skip
NAMES = ("token", "cell", "compositions", "epsilon", "group", "start", "delta", "path", "file", "__proto__", "%00")
VERSIONS = ("HTTP/1.1", "HTTP/1.1", "HTTP/1.0", "HTTP/9.9", "")
HEADERS = (
    "Content-Length: 99999999999", "Content-Length: -1", "Transfer-Encoding: chunked", "X: " + "a" * 20_000,
    "Origin: null", "Range: bytes=0-10", "no header at all", "If-None-Match: *", "X-Forwarded-Host: evil",
    "Upgrade: websocket",
)  # fmt: skip
#: Arguments that are answered.
SOUND = {
    "/contents.json": {},
    "/cell.json": {"cell": "18"},
    "/group.json": {"group": "0", "compositions": "2", "epsilon": "3", "start": "0"},
}


@pytest.mark.slow
@pytest.mark.parametrize("count", [200, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_hostile_requests_get_nothing(finished_store, tmp_path, monkeypatch, count):
    store = finished_store(STUDY)
    (tmp_path / "secret.txt").write_bytes(SECRET)
    (tmp_path / "s.zarr").symlink_to(store)
    monkeypatch.setenv("EXPLORER_SECRET", SECRET.decode())
    monkeypatch.chdir(tmp_path)
    before = files_of(store.parent)
    draw = random.Random(SEED)  # noqa: S311 -- no secret
    seen: Counter[int] = Counter()
    with serving(tmp_path / "s.zarr") as port:
        token = asked(port, "/contents.json")["token"]
        known = {route: answer(port, route)[2] for route in ROUTES[1:2]}
        for _ in range(count):
            request, path = hostile(draw, token)
            status, headers, body = sent(port, request)
            seen[status] += 1
            # 304: as the page was when the client asked before.
            assert status in (0, 200) or 400 <= status < 500 or (status == 304 and not body), (request, status)
            whole = headers + body
            assert SECRET not in whole
            assert b"root:" not in whole
            assert b"Traceback" not in whole
            if status == 200 and path in known and body:
                assert body == known[path], request
            if 400 <= status < 500 and body:
                assert body.startswith(b'{"error": ')
        assert asked(port, "/contents.json")["token"] == token
    assert files_of(store.parent) == before
    # Many go deep; a request that is no HTTP is answered by closing the connection.
    assert seen[200] > count / 20, seen
    assert seen[400] > count / 20, seen
    assert seen[404] > count / 20, seen
    assert seen[0] < count / 4, seen


def hostile(draw: random.Random, token: str) -> tuple[bytes, str]:
    """A request, and the path that it asks for: often only one thing of it is wrong, or none."""
    path = hostile_path(draw, token)
    sound = draw.random() < 0.6
    method, version, host = "GET", "HTTP/1.1", "127.0.0.1"
    if not sound:
        method, version, host = draw.choice(METHODS), draw.choice(VERSIONS), draw.choice(HOSTS)
    lines = [f"{method} {path} {version}"]
    if sound or draw.random() < 0.95:
        lines.append(f"Host: {host}")
    if draw.random() < 0.1:
        lines.append(draw.choice(HEADERS))
    lines.append("Connection: close")
    return ("\r\n".join(lines) + "\r\n\r\n0\r\n\r\n").encode("latin-1"), path


def hostile_path(draw: random.Random, token: str) -> str:
    kind = draw.random()
    if kind < 0.3:
        return "/" + "/".join(draw.choice(CLIMBS) for _ in range(draw.randint(1, 8))) + "/" + draw.choice(TARGETS)
    if kind < 0.35:
        return "/" + "".join(chr(draw.randint(1, 255)) for _ in range(draw.choice((5, 50, 5_000, 40_000))))
    if kind < 0.4:
        return draw.choice(ROUTES)
    if kind < 0.8:
        route = draw.choice(list(SOUND))
        query = {**SOUND[route], "token": token}
        for _ in range(draw.randint(0, 2)):
            query[draw.choice([*query, *NAMES])] = draw.choice(VALUES)
        return f"{route}?{'&'.join(f'{name}={value}' for name, value in query.items())}"
    names = [draw.choice(NAMES) for _ in range(draw.randint(0, 6))]
    query = "&".join(f"{name}={token if name == 'token' else draw.choice(VALUES)}" for name in names)
    return f"{draw.choice(ROUTES)}?{query}"


def sent(port: int, request: bytes) -> tuple[int, bytes, bytes]:
    """Status, headers and body of the answer to raw bytes; 0 where the connection was closed without one."""
    received = bytearray()
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        try:
            connection.sendall(request)
            while block := connection.recv(1 << 20):
                received += block
        except ConnectionError:
            pass
    headers, _, body = bytes(received).partition(b"\r\n\r\n")
    if not headers.startswith(b"HTTP/"):
        return 0, headers, body
    return int(headers.split(b" ", 2)[1]), headers, body
