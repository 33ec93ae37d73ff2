"""The page of a replay in a browser, wide and narrow, light and dark (page.md 9).

In a file of their own: `tools/mutate.py` takes no tests of a file that starts processes for judges.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from reprieve.replay.page import as_page
from tests.outside import needs_browser
from tests.page.browser import Scheme, chromium, opened, overflow, violations
from tests.replay.test_page_and_trace import outcome

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_replay_is_shown_without_complaints(browser: Browser, tmp_path: Path, width: int, scheme: Scheme) -> None:
    """page.md 5.4, 9.1, 9.4: three policies fit, each with a strip; axe finds nothing; the sentence comes first."""
    names = ("one", "<two> $x$", "three")
    (tmp_path / "replay.html").write_text(as_page([outcome(name) for name in names], {"jobs": 60, "nodes": 2}))
    with opened(browser, (tmp_path / "replay.html").as_uri(), width=width, scheme=scheme) as page:
        assert page.locator("#sentence").inner_text().startswith("one and <two> $x$ let jobs wait equally long: ")
        assert page.locator(".strip canvas").count() == 3
        assert page.locator(".curves svg").count() == 5
        assert page.locator("th", has_text="<two> $x$").count() == page.locator("table").count() == 2
        assert overflow(page) <= 0
        assert violations(page) == []
        last = page.locator("table").first.locator("th", has_text="three")
        box = last.bounding_box()
        assert box is not None
        assert box["x"] < width


def test_strips_zoom_together_with_keys_and_pointer(browser: Browser, tmp_path: Path) -> None:
    """page.md 9.5: the axes stay the same; each key states the time that is shown; the stays are also a list."""
    (tmp_path / "replay.html").write_text(as_page([outcome(name) for name in ("one", "two")], {"jobs": 60, "nodes": 2}))
    with opened(browser, (tmp_path / "replay.html").as_uri()) as page:
        first, second = page.locator(".strip canvas").all()
        status = page.locator(".status").first
        drawn = [canvas.evaluate("canvas => canvas.toDataURL()") for canvas in (first, second)]
        first.focus()
        page.keyboard.press("+")
        expect(status).to_have_text("From day 0, 01:16 to day 0, 03:49.")
        page.keyboard.press("ArrowRight")
        expect(status).to_have_text("From day 0, 01:35 to day 0, 04:08.")
        for canvas, before in zip((first, second), drawn, strict=True):
            assert canvas.evaluate("canvas => canvas.toDataURL()") != before
        page.keyboard.press("0")
        assert [canvas.evaluate("canvas => canvas.toDataURL()") for canvas in (first, second)] == drawn
        first.hover()
        page.keyboard.down("Control")
        page.mouse.wheel(0, -100)
        page.keyboard.up("Control")
        page.wait_for_function("before => document.querySelector('.strip canvas').toDataURL() !== before", arg=drawn[0])
        page.locator("summary", has_text="Stays as a list").first.click()
        assert " on " in page.locator(".cut-list p").first.inner_text()
