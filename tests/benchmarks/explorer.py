"""How fast the explorer is in a browser: ``python -m tests.benchmarks.explorer [STORE] [--cells N]``.

Prints the seconds from the request of the page to its first plot, and of every kind of interaction, from the event to
the frame after everything is drawn. Without a store it makes one of Gaussian noise with so many cells.
"""

import argparse
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Page

from tests.report.explorer.browser import a_page, chromium

STUDY = """\
format: 1
name: many-gaussians
mechanisms:
  - kind: Gaussian
    scale: {{geomspace: [1, 1000, {half}]}}
  - label: sensitive
    kind: Gaussian
    sensitivity: [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]
    scale: {{geomspace: [10, 1000, {tenth}]}}
compositions: [1, 64, 1024]
epsilon: [0.1, 0.5, 1, 2, 4]
"""
REPEATS = 5
#: Sets a control and sends the event that a user's hand would; returns the milliseconds until all is drawn.
ACT = """async ([id, value, event]) => {
  const frame = () => new Promise((resolve) => requestAnimationFrame(resolve))
  const control = document.getElementById(id)
  const began = performance.now()
  if (event === "click") control.click()
  else { control.value = value; control.dispatchEvent(new Event(event, {bubbles: true})) }
  do { await frame() } while (document.querySelector("main").getAttribute("aria-busy") !== "false")
  await frame()
  return performance.now() - began
}"""


def pbdist(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-m", "pbdist", *words], stdout=-1, stderr=subprocess.DEVNULL, text=True)


@contextlib.contextmanager
def served(store: str) -> Iterator[str]:
    with pbdist("explore", store) as process:
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def until_plotted(page: Page) -> None:
    page.wait_for_selector("#curve[data-drawn]")


def interactions(page: Page) -> dict[str, list[float]]:
    """The seconds of each kind of interaction, several times with other values."""
    settings = int(page.get_attribute("#amount-range", "max") or 0)
    labels = page.eval_on_selector_all("#label option", "all => all.map((one) => one.value)")
    acts = {
        "noise": lambda turn: ("amount-range", str(settings * (turn + 1) // (REPEATS + 1)), "input"),
        "r": lambda turn: ("rounds-range", str(turn % 3), "input"),
        "ε": lambda turn: ("epsilon-range", str(turn), "input"),
        "δ": lambda turn: ("delta-range", str(-3 - 2 * turn), "input"),
        "ε or e^ε": lambda turn: ("axis", "ye"[turn % 2], "change"),
        "add to comparison": lambda _: ("add", "", "click"),
        "noise, compared": lambda turn: ("amount-range", str(settings * (turn + 2) // (REPEATS + 3)), "input"),
        "mechanism": lambda turn: ("label", labels[(turn + 1) % len(labels)], "change"),
    }
    found: dict[str, list[float]] = {}
    for name, act in acts.items():
        for turn in range(REPEATS):
            if name == "add to comparison":
                page.evaluate(ACT, list(acts["noise"](turn)))
            found.setdefault(name, []).append(page.evaluate(ACT, list(act(turn))) / 1000.0)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("store", nargs="?")
    parser.add_argument("--cells", type=int, default=1_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store = arguments.store
        if store is None:
            store = f"{folder}/s.zarr"
            study = Path(folder) / "study.yaml"
            study.write_text(STUDY.format(half=arguments.cells // 2, tenth=arguments.cells // 20), encoding="utf-8")
            with pbdist("run", str(study), "--serial", "--store", store) as run:
                run.communicate()
        began = time.perf_counter()
        address = stack.enter_context(served(store))
        print(f"started after {time.perf_counter() - began:.2f} s")
        page = stack.enter_context(a_page(stack.enter_context(chromium())))
        for which in ("first", "second"):
            began = time.perf_counter()
            page.goto(address)
            until_plotted(page)
            print(f"{which} load: first plot after {time.perf_counter() - began:.2f} s")
        page.wait_for_selector("main[aria-busy=false]")
        print(f"all read after {time.perf_counter() - began:.2f} s")
        found = interactions(page)
        every = [one for seconds in found.values() for one in seconds]
        print(f"{len(every)} interactions: median {statistics.median(every):.3f} s, longest {max(every):.3f} s")
        for name, seconds in found.items():
            print(f"{name:20} median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s")


if __name__ == "__main__":
    main()
