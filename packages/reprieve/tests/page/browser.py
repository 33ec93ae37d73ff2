"""A Chromium for tests: every page is watched for complaints and for requests to anything but itself."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Error, Page, expect, sync_playwright

from tests.outside import CHROMIUM

ARGUMENTS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
expect.set_options(timeout=30_000)
SCREENSHOTS: Final = Path(__file__).parents[4] / "build" / "screenshots"
"""Of pages on which a test failed."""
Scheme = Literal["light", "dark"]


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser with a profile of its own."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Browser, url: str, *, width: int = 1440, height: int = 900, scheme: Scheme = "light", own: str = "file:"
) -> Iterator[Page]:
    """A page that has shown its first view. Fails for complaints, and requests to other places than `own`."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda asked: None if asked.url.startswith((own, "data:")) else complaints.append(asked.url))
    try:
        page.goto(url)
        page.locator("nav a[aria-current]").wait_for()
        yield page
        assert not complaints
    except BaseException:
        SCREENSHOTS.mkdir(parents=True, exist_ok=True)
        name = os.environ.get("PYTEST_CURRENT_TEST", "page").partition(" ")[0].rpartition("::")[2]
        with suppress(Error):
            page.screenshot(path=SCREENSHOTS / f"{re.sub('[^a-z0-9_]+', '-', name)}.png", full_page=True)
        raise
    finally:
        context.close()


def violations(page: Page) -> list[tuple[str, list[str]]]:
    """What axe finds: rules, and where."""
    page.evaluate(AXE_SCRIPT)
    found: dict[str, Any] = page.evaluate("axe.run({resultTypes: ['violations']})")
    return [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found["violations"]]


def overflow(page: Page) -> int:
    """By how many pixels the page is wider than its window."""
    wide: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return wide
