"""A compressed chunk that would unpack to terabytes is refused before it is unpacked."""

import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numcodecs.zstd import Zstd

from pbdist.errors import StoreDamagedError
from pbdist.store import open_store, read_state
from pbdist.store.checksums import checked_content
from pbdist.store.frames import HEAD_BYTES, check_content
from pbdist.store.open import StoredStudy
from pbdist.types import Direction
from tests.store.sealing import Sealing

PLAIN = bytes(Zstd(level=3, checksum=True).encode(np.zeros(1000, dtype=np.uint8)))


def saying(size: int) -> bytes:
    """A frame that says its size in eight bytes."""
    return PLAIN[:4] + bytes([0b11100100]) + size.to_bytes(8, "little") + PLAIN[7:]


def unsaid(blocks: int) -> bytes:
    """A frame that does not say its size, of blocks of 128 KiB of zeros in four bytes each."""
    block = [((1 << 20) | 2 | (number == blocks - 1)).to_bytes(3, "little") + b"\0" for number in range(blocks)]
    return PLAIN[:4] + bytes([0, 0x38]) + b"".join(block)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65_535, 65_536, 65_791, 65_792, 1 << 20])
def test_the_size_that_a_frame_says_is_read(size: int) -> None:
    frame = bytes(Zstd(level=3, checksum=True).encode(np.zeros(size, dtype=np.uint8)))
    check_content(frame, size)
    check_content(frame[:HEAD_BYTES], size + 1)
    with pytest.raises(ValueError, match=f"has more than {size - 1:,} bytes"):
        check_content(frame, size - 1)


@pytest.mark.parametrize("frame", [saying(1 << 40), saying((1 << 64) - 1), saying(1 << 31), unsaid(1), b"", b"plain"])
def test_what_says_too_much_or_nothing_is_refused(frame: bytes) -> None:
    with pytest.raises(ValueError, match="not compressed by zstd, or has more than"):
        check_content(frame)
    for end in range(13):
        # Cut short.
        with pytest.raises(ValueError, match="not compressed by zstd, or has more than"):
            check_content(frame[:end])


def test_the_frames_of_this_test_are_frames() -> None:
    assert bytes(Zstd().decode(saying(1000))) == bytes(1000)
    assert bytes(Zstd().decode(unsaid(3))) == bytes(3 << 17)


BOMBS: dict[str, Callable[[], bytes]] = {"says": lambda: saying(1 << 40), "unsaid": lambda: unsaid(200_000)}


@pytest.fixture
def little_memory() -> Any:
    """What a bomb takes beside what this process has ends it."""
    before = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (2 << 30), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("bomb", BOMBS)
@pytest.mark.parametrize("name", ["scale/c/0", "pair/c/0", "epsilon/c/0", "states/cell-000000/A_TO_B/r-1/"])
def test_a_bomb_in_a_store_is_damage(store: Path, name: str, bomb: str) -> None:
    """With all checksums right, as anybody can make them."""
    files = {str(path.relative_to(store)): path.read_bytes() for path in store.rglob("*") if path.is_file()}
    sealing = Sealing(files)
    chosen = next(file for file in sorted(files) if file.startswith(name) and "/c/" in file)
    for file, data in sealing.sealed({**files, chosen: BOMBS[bomb]()}).items():
        (store / file).write_bytes(data)
    stored = open_store(store)
    if name.startswith("states"):
        record = stored.results.record(0)
        assert record is not None
        # The checksum is right: it is the bomb that is refused.
        assert isinstance(checked_content(stored.place, chosen, record.states[chosen]), bytes)
        with pytest.raises(StoreDamagedError, match="not compressed by zstd"):
            read_state(stored, 0, Direction.A_TO_B, 1)
        return
    with pytest.raises((StoreDamagedError, ValueError), match="not compressed by zstd"):
        reading(stored)


def reading(stored: StoredStudy) -> None:
    """Read the cells and the grids."""
    list(stored.study.cells)
    stored.study.cells.column("scale")  # type: ignore[attr-defined]
    # As `open_study` reads the grids of a store of one part.
    xr.open_zarr(stored.place.zarr_store(stored.most_bytes), consolidated=False, chunks=None)["epsilon"].load()
