"""Changes of a store's files, as damage makes them, and as somebody would who wants readers to crash."""

import json
import os
import random
from pathlib import Path
from typing import Any

__all__ = ["Files", "changed_bytes", "changed_document", "files_of", "put_special"]

#: The content of each file by its name.
Files = dict[str, bytes]

_TEXTS = (
    *("", "x", "../../x", "/dev/zero", "0x1p+10000", "nan", "1e400", "999999999999", "\x00", "a" * 100_000),
    *("\x1b[31m\n\u202e\x9b\u2028", "<script>alert(1)</script>", "[red]x[/red]", "[/]", "\\write18{x}"),
)
_NUMBERS = (0, -1, 1, 2**31, 2**53, 2**63, 2**64, 10**30, 10**400, -(10**30), 1e308, -0.0, 0.5)
_OTHERS: tuple[Any, ...] = (None, True, False, float("nan"), float("inf"), [], [[]], {}, {"a": 1}, [0] * 1000)
_SPECIAL = ("pipe", "link", "device", "folder", "sparse", "gone")


def files_of(store: Path) -> Files:
    """Return all regular files of a store."""
    return {str(path.relative_to(store)): path.read_bytes() for path in sorted(store.rglob("*")) if path.is_file()}


def changed_bytes(data: bytes, files: Files, generator: random.Random) -> bytes:
    """Return other bytes: a flipped bit, a cut end, another file, what is no JSON, or too deep."""
    flipped = bytearray(data or b"x")
    flipped[generator.randrange(len(flipped))] ^= 1 << generator.randrange(8)
    return generator.choice(
        (
            bytes(flipped),
            data[: generator.randrange(len(data) + 1)],
            files[generator.choice(sorted(files))],
            b"[" * 200_000,
            b'{"a":' * 100_000,
            b'{"attributes": ' + b"[" * 90 + b"]" * 90 + b', "node_type": "group", "zarr_format": 3}',
            b"\xff\xfe" * 50,
            data.replace(b"1", b"NaN").replace(b"0", b"-Infinity"),
            b'{"attributes": {}, "attributes": {"pbdist_format": 5}, "node_type": "group", "zarr_format": 3}',
            data + data,
        )
    )


def changed_document(data: bytes, generator: random.Random) -> bytes | None:
    """Return a document with one or two values of another kind, gone, renamed or nested; None where there is none."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError):
        return None
    for _ in range(generator.choice((1, 1, 2))):
        keys = generator.choice(list(_paths(content)))
        if not keys:
            continue
        outer = content
        for key in keys[:-1]:
            outer = outer[key]
        value = generator.choice((*_TEXTS, *_NUMBERS, *_OTHERS))
        kind = generator.choice(("set", "set", "set", "gone", "renamed", "deep"))
        if kind == "gone":
            del outer[keys[-1]]
        elif kind == "renamed" and isinstance(outer, dict):
            outer[str(value)[:300]] = outer.pop(keys[-1])
        else:
            outer[keys[-1]] = _nested(outer[keys[-1]], generator) if kind == "deep" else value
    return json.dumps(content, sort_keys=True).encode()


def put_special(path: Path, outside: Path, generator: random.Random) -> None:
    """Put something in the place of a file that is none, or has no end."""
    kind = generator.choice(_SPECIAL)
    path.unlink()
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "sparse":
        path.touch()
        os.truncate(path, 10 << 40)
    elif kind in ("link", "device"):
        path.symlink_to("/dev/zero" if kind == "device" else outside)


def _nested(value: Any, generator: random.Random) -> Any:
    for _ in range(generator.choice((1, 60, 300))):
        value = [value] if generator.random() < 0.5 else {"a": value}
    return value


def _paths(content: Any, keys: tuple[Any, ...] = ()) -> Any:
    yield keys
    if isinstance(content, dict):
        for key in content:
            yield from _paths(content[key], (*keys, key))
    elif isinstance(content, list):
        for index in range(min(len(content), 5)):
            yield from _paths(content[index], (*keys, index))
