"""Times, numbers of things and bytes as text."""


def duration(seconds: float) -> str:
    """Return seconds as text: ``12.5 s``, ``3.4 min``, ``7.25 h``, ``11.2 days``."""
    for least, unit, length in ((172_800.0, "days", 86_400.0), (7_200.0, "h", 3_600.0), (120.0, "min", 60.0)):
        if seconds >= least:
            return f"{_short(seconds / length)} {unit}"
    return f"{_short(seconds)} s"


def counted(count: int, what: str, many: str = "") -> str:
    """Return how many there are of something: ``1 batch``, ``1,000 cells``."""
    return f"{count:,} {what if count == 1 else many or f'{what}s'}"


def size(count: float) -> str:
    """Return bytes as text: ``812 B``, ``1.5 MiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if count < 1024:
            return f"{_short(count)} {unit}"
        count /= 1024
    return f"{_short(count)} TiB"


def _short(value: float) -> str:
    """Return three digits, or all before the point; never an exponent."""
    return f"{value:.0f}" if value >= 999.5 else f"{value:.3g}"
