"""A compressed chunk that would unpack to terabytes is refused before it is unpacked."""

from collections.abc import Callable

import numpy as np
import pytest
from numcodecs.zstd import Zstd

from pbdist.store.columns import decode_chunk
from pbdist.store.files import HEAD_BYTES, check_content

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


BOMBS: dict[str, Callable[[], bytes]] = {"says": lambda: saying(1 << 40), "unsaid": lambda: unsaid(200_000)}


def test_a_chunk_of_results_becomes_no_more_than_its_numbers() -> None:
    for bomb in BOMBS.values():
        with pytest.raises(ValueError, match="more than 8,192 bytes"):
            decode_chunk(bomb(), (4, 2, 16, 8), "delta_upper")
    values = np.arange(1000, dtype="<f8")
    data = bytes(Zstd(level=3, checksum=True).encode(values))
    assert decode_chunk(data, (1000,), "delta_upper").tobytes() == values.tobytes()
    with pytest.raises(ValueError, match="has more than"):
        decode_chunk(data, (999,), "delta_upper")
