"""Answers that took long, kept in a JSON file beside a report as soon as they are known: none is sought twice."""

import hashlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

from pbdist.errors import InvalidInputError
from pbdist.provenance import provenance
from pbdist.report.pages.files import write_whole
from pbdist.types import JsonValue

#: The largest file that is read, in bytes.
_LARGEST = 1 << 28
_FORMAT = "pbdist_answers"


class KeptAnswers:
    """Answers by their questions, for the software that runs; in a file, or in memory alone.

    Raises
    ------
    InvalidInputError
        The file is none of answers, or there is no such folder.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._answers: dict[str, JsonValue] = {}
        #: How many answers were not sought again.
        self.reused = 0
        if path is not None and not path.parent.is_dir():
            raise InvalidInputError(f"--sizes: expected a file in a folder that exists, got {path}")
        if path is None or not path.exists():
            return
        try:
            if path.stat().st_size > _LARGEST:
                raise ValueError
            found = json.loads(path.read_bytes())
            if found[_FORMAT] != 1:
                raise ValueError
            self._answers = dict(found["answers"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(
                f"--sizes: expected a new file, or one that pbdist report has written, got {path}: remove it, or choose"
                " another"
            ) from error

    def answer(self, question: Mapping[str, JsonValue], seek: Callable[[], JsonValue]) -> JsonValue:
        """Return the kept answer to a question, or what `seek` returns; that is kept before it is returned.

        Other versions of pbdist, numpy or scipy, or of own mechanisms, ask other questions. A damaged answer is sought
        again.
        """
        software = {name: value for name, value in provenance().items() if name not in ("zarr", "numcodecs")}
        key = _digest({"question": dict(question), "software": software})
        kept = self._answers.get(key)
        if isinstance(kept, dict) and kept.get("sha256") == _digest([key, kept.get("answer")]):
            self.reused += 1
            return kept["answer"]
        found = json.loads(json.dumps(seek()))
        self._answers[key] = {"question": dict(question), "answer": found, "sha256": _digest([key, found])}
        if self._path is not None:
            write_whole(self._path, json.dumps({_FORMAT: 1, "answers": self._answers}, indent=1).encode())
        return found


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
