"""Ask everyone about every setting."""

from collections.abc import Callable, Sequence
from functools import partial

from pipelines.comparing.methods import answers, ours
from pipelines.comparing.page import Compared
from pipelines.comparing.setting import Setting
from pipelines.comparing.settings import SETTINGS

__all__ = ["compared"]


def compared(tell: Callable[[str], None], settings: Sequence[Setting] = SETTINGS) -> list[Compared]:
    """Return our brackets and all answers; `tell` is called with each step."""
    results = []
    for number, setting in enumerate(settings, start=1):
        say = partial(_say, tell, f"[{number}/{len(settings)}] {setting.name}")
        say("ours")
        lower, upper, call = ours(setting)
        results.append(Compared(setting, lower, upper, call, answers(setting, lower, upper, say)))
    return results


def _say(tell: Callable[[str], None], head: str, step: str) -> None:
    tell(f"{head}: {step}")
