"""How much a compressed chunk says that it unpacks to, before it is unpacked: a few bytes may say terabytes."""

#: The most bytes of a chunk before it is compressed: those of a larger one cannot be compressed.
MOST_CONTENT = (1 << 31) - 1
#: The most bytes of the head of a frame.
HEAD_BYTES = 18
#: The first bytes of what is compressed, and how many bytes tell its length, by the two highest bits of the next one.
_MAGIC, _LENGTHS = b"\x28\xb5\x2f\xfd", (0, 2, 4, 8)
#: Bytes of the name of a dictionary, by the two lowest bits.
_DICTIONARIES = (0, 1, 2, 4)


def is_frame(data: bytes) -> bool:
    """Whether some bytes begin as what is compressed does."""
    return data[:4] == _MAGIC


def check_content(data: bytes, most: int = MOST_CONTENT) -> None:
    """Refuse what has more than so many bytes once it is decompressed, or does not say how many, by a `ValueError`.

    The first bytes say it, by RFC 8878, section 3.1.1. No more than that are then made of it.
    """
    head = data[4] if is_frame(data) and len(data) > 5 else 0
    # In a frame of one segment no byte tells the window, and one byte may tell the length.
    single = bool(head & 0x20)
    begin = 5 + (not single) + _DICTIONARIES[head & 3]
    length = _LENGTHS[head >> 6] or int(single)
    size = int.from_bytes(data[begin : begin + length], "little") + (256 if length == 2 else 0)
    if not length or len(data) < begin + length or size > min(most, MOST_CONTENT):
        raise ValueError(f"a chunk that is not compressed by zstd, or has more than {min(most, MOST_CONTENT):,} bytes")
