"""The file with the address of a running scheduler may have any content."""

from pathlib import Path

import pytest

from pbdist.errors import InvalidInputError
from pbdist.run.dask_executor import RunningScheduler


@pytest.mark.parametrize("content", ['{"address": 5}', "{}", "", "\0"])
def test_a_file_that_has_no_address_is_refused_in_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "scheduler.json"
    file.write_text(content)
    with pytest.raises(InvalidInputError, match="--scheduler-file: expected the address of a running scheduler"):
        RunningScheduler(file=file).connect(1.0)


def test_a_file_beyond_all_measure_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "scheduler.json"
    with file.open("wb") as sparse:
        sparse.truncate(10 << 40)
    with pytest.raises(InvalidInputError, match="more than the 67,108,864 that are allowed"):
        RunningScheduler(file=file).connect(1.0)
