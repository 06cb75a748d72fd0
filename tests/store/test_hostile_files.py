"""Any file of a store may say anything: no other number, one line at most, no crash, no end that does not come.

The files are found by listing the store, whatever its format.
"""

import json
import random
import resource
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest

from pbdist import open_study
from pbdist.errors import PbdistError
from pbdist.store.metadata import json_of
from tests.effort import SEED, times
from tests.store.commands import QUERY, Answer, ask, run, state_of
from tests.store.mutations import Files, changed_bytes, changed_document, files_of, put_special

#: More memory than any command on a store of this size may take.
_MOST_MEMORY = 2 << 30
_PARTS = 2


@contextmanager
def _limited() -> Iterator[None]:
    """Refuse more memory; what takes too long is ended with the test."""
    pages, limits = int(Path("/proc/self/statm").read_text().split()[0]), resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MOST_MEMORY, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _commands(store: Path) -> dict[str, tuple[object, ...]]:
    return {
        "status": ("status", store),
        "check": ("status", store, "--check"),
        "list": ("query", store, "--json"),
        "point": ("query", store, *QUERY, "--json"),
        "verify": ("verify", store, "--sample", 1, "--cells", 2000),
        "export": ("export", store, store.parent / "export.csv"),
        "run": run(store),
    }


def _survives(store: Path, what: str) -> dict[str, Answer]:
    """Give all commands; return their answers."""
    answers = {}
    for name, arguments in _commands(store).items():
        with _limited(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                answers[name] = code, text = ask(*arguments)
            except Exception as error:
                raise AssertionError(f"{what}: {name}: {error!r:.300}") from error
        assert code in (0, 1, 2), (what, name, text)
        assert "Traceback" not in text, (what, name)
        assert all(letter.isprintable() or letter == "\n" for letter in text), (what, name, text)
        if code == 2 and text.count("pbdist: error"):
            assert sum(line.startswith("pbdist: error: ") for line in text.splitlines()) == 1, (what, name, text)
        if name == "list":
            _opens(store, what)
    return answers


def _opens(store: Path, what: str) -> None:
    """Open the store from Python: what is wrong is an error of pbdist's."""
    with _limited(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            study = open_study(store)
            assert repr(study).isprintable()
            assert "<script>" not in study._repr_html_()
            study.frame()
        except PbdistError:
            pass
        except Exception as error:
            raise AssertionError(f"{what}: open_study: {error!r:.300}") from error


def _change(store: Path, generator: random.Random) -> str:
    """Change a file of a store; return its name."""
    files = files_of(store)
    name, changed = generator.choice(sorted(files)), None
    if generator.random() < 0.7:
        documents = [one for one, data in sorted(files.items()) if data[:1] == b"{"]
        # The few documents that say something of others, as often as all the rest.
        seals = [one for one in documents if b"sha256" in files[one]]
        name = generator.choice(seals if generator.random() < 0.5 else documents)
        changed = changed_document(files[name], generator)
    (store / name).write_bytes(changed_bytes(files[name], files, generator) if changed is None else changed)
    return name


def _bounds(answer: Answer) -> dict[str, tuple[float, float]] | None:
    """Return the bounds of a printed answer by what they are of, None where there is none."""
    code, text = answer
    if code != 0:
        return None
    found = {}

    def collect(content: object, name: str) -> None:
        if isinstance(content, dict):
            for lower in content:
                upper = str(lower).replace("lower", "upper")
                if upper != lower and isinstance(content[lower], float) and isinstance(content.get(upper), float):
                    found[f"{name}.{lower}"] = content[lower], content[upper]
            for key, value in content.items():
                collect(value, f"{name}.{key}")
        elif isinstance(content, list):
            for index, value in enumerate(content):
                collect(value, f"{name}[{index}]")

    collect(json.loads(text), "")
    return found


@pytest.fixture(scope="module")
def told(made: Path) -> dict[str, tuple[float, float]]:
    bounds = _bounds(ask("query", made, *QUERY, "--json"))
    assert bounds
    return bounds


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_what_was_changed_is_never_another_number(
    store: Path, outside: Path, told: dict[str, tuple[float, float]], part: int
) -> None:
    sound, before = files_of(store), state_of(outside)
    generator = random.Random(f"{SEED} {part}")  # noqa: S311 -- no secret
    for _ in range(times(8)):
        if generator.random() < 0.3:
            what = generator.choice(sorted(sound))
            put_special(store / what, outside, generator)
        else:
            what = _change(store, generator)
        answers = _survives(store, what)
        for name, (lower, upper) in (_bounds(answers["point"]) or {}).items():
            # Other points may still prove something, but nothing closer.
            assert name in told, (what, name)
            assert lower <= told[name][0] <= told[name][1] <= upper, (what, name)
        assert state_of(outside) == before
        _put_back(store, sound)


def _put_back(store: Path, sound: Files) -> None:
    for path in sorted(store.rglob("*"), reverse=True):
        name = str(path.relative_to(store))
        if path.is_symlink() or not path.is_dir():
            if name not in sound or path.is_symlink() or not path.is_file() or path.read_bytes() != sound[name]:
                path.unlink()
        elif not any(path.iterdir()) and name in sound:
            path.rmdir()
    for name, data in sound.items():
        if not (store / name).exists():
            (store / name).parent.mkdir(parents=True, exist_ok=True)
            (store / name).write_bytes(data)
    for path in store.parent.glob("export.csv*"):
        path.unlink()


@pytest.mark.parametrize(
    ("data", "deep"),
    [
        (b"[" * 100 + b"]" * 100, False),
        (b"[" * 101 + b"]" * 101, True),
        (b'["' + b"[" * 500 + b'"]', False),
        (b'["\\"' + b"[" * 500 + b'"]', False),
        (b'["\\\\", ' + b"[" * 500 + b'"', True),
        (b'{"a":' * 200_000, True),
        (b"[" + b"[]," * 200 + b'"' + b'\\"' * 200_000 + b'"]', False),
    ],
)
def test_levels_are_counted_outside_of_texts(data: bytes, deep: bool) -> None:
    with pytest.raises(ValueError, match="levels") if deep else nullcontext():
        assert json_of(data) == json.loads(data)
