"""Pages in headless Chromium, which the system has; what goes wrong in one is found at its end."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

#: Says what to install, where a test would otherwise be skipped.
MISSING = "expected Chromium on the path: apt-get install chromium"


@contextmanager
def chromium() -> Iterator[Browser]:
    # The default run collects these tests where no playwright is installed.
    from playwright.sync_api import sync_playwright

    found = shutil.which("chromium")
    if found is None:
        raise RuntimeError(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def a_page(browser: Browser, expected: str = "", **context: Any) -> Iterator[Page]:
    """A page of its own; at its end nothing but what is expected has gone wrong, and nothing was asked elsewhere."""
    opened = browser.new_context(**context)
    page = opened.new_page()
    page.set_default_timeout(20_000)
    wrong: list[str] = []
    asked: list[str] = []
    page.on("console", lambda told: wrong.append(told.text) if told.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda request: asked.append(request.url))
    yield page
    assert [text for text in wrong if not expected or expected not in text] == []
    origins = {address.split("/")[2] for address in asked if not address.startswith(("data:", "blob:"))}
    assert len(origins) <= 1, origins
    opened.close()


def settled(page: Page) -> None:
    """Wait until all that follows from the last choice is shown."""
    page.wait_for_selector("main[aria-busy=false]")


def choose(page: Page, control: str, value: str) -> None:
    """Set a control as a user's hand does, and wait."""
    tag = page.eval_on_selector(f"#{control}", "one => one.tagName + one.type")
    if tag.startswith("SELECT"):
        page.select_option(f"#{control}", value)
    elif tag.endswith("range"):
        page.eval_on_selector(
            f"#{control}", "(one, to) => { one.value = to; one.dispatchEvent(new Event('input')) }", value
        )
    else:
        page.fill(f"#{control}", value)
        page.press(f"#{control}", "Enter")
        page.press(f"#{control}", "Tab")
    settled(page)
