"""Screenshots of the page for docs/, of the demo's cluster: docs/page-*.png.

    python tools/draw_page.py

Needs Chromium and the packages of the tests. The pictures differ a little with fonts, so no test compares them.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "packages" / name) for name in ("kube-rules", "kube-standin", "reprieve"))]

from playwright.sync_api import Browser, Page  # noqa: E402

from reprieve.cli.plan_page import planned_page  # noqa: E402
from reprieve.decisions.shadow import decode_report  # noqa: E402
from reprieve.live.page_plans import PagePlans  # noqa: E402
from reprieve.page.html import as_file  # noqa: E402
from reprieve.page.shadow_view import shadow_page  # noqa: E402
from reprieve.python.inputs import InputSource, gather  # noqa: E402
from reprieve.simulation import demo  # noqa: E402
from reprieve.simulation.plan import PlanOptions  # noqa: E402
from tests.page.browser import Scheme, chromium, opened  # noqa: E402
from tests.page.serving import served  # noqa: E402
from tests.page.test_served_in_a_browser import items  # noqa: E402

DEMO: Final = Path(demo.__file__).parent
FILES: Final = ("cluster.yaml", "train.yaml", "giant.yaml")


class Picture(NamedTuple):
    """A view, and what is done before it is drawn. `at`: what it begins with, if not the top of the page."""

    name: str
    view: str
    clicks: tuple[str, ...] = ()
    scheme: Scheme = "light"
    size: tuple[int, int] = (1280, 800)
    at: str = ""


PICTURES: Final = (
    Picture("page-cluster", "cluster", ("[data-key=before]",)),
    Picture("page-cluster-dark", "cluster", ("[data-key=after]",), "dark"),
    Picture("page-queue", "queue", ("ol.cards a",), size=(1280, 560)),
    Picture("page-decisions", "decisions", size=(1280, 720)),
)
WHAT_IF: Final = Picture("page-whatif", "whatif", size=(1280, 900))
SHADOW: Final = Picture("page-shadow", "shadow", size=(1280, 900))
REPLAY: Final = (
    Picture("page-replay", "replay", size=(1280, 1000)),
    Picture(
        *("page-replay-nodes", "replay", ("[aria-label='Zoom in on the time']",)),
        size=(1280, 900),
        at="h2:text('Nodes over')",
    ),
)
POLICIES: Final = ROOT / "examples" / "policies"


def main() -> int:
    """Write the pictures."""
    prepared = gather(InputSource(files=tuple(str(DEMO / name) for name in FILES)), print)
    _, document = planned_page(prepared, PlanOptions(), suggest=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "page.html"
        file.write_text(as_file(document), encoding="utf-8")
        for picture in PICTURES:
            width, height = picture.size
            address = f"{file.as_uri()}#/{picture.view}"
            with opened(browser, address, width=width, height=height, scheme=picture.scheme) as page:
                draw(page, picture)
        draw_file(browser, Path(folder), shadow_file(), (SHADOW,))
        draw_file(browser, Path(folder), replay_file(), REPLAY)
        draw_what_if(browser)
    return 0


def shadow_file() -> str:
    """Return the page of the report in examples/."""
    report = decode_report((ROOT / "examples" / "shadow" / "report.json").read_bytes())
    return as_file(shadow_page(report))


def replay_file() -> str:
    """Return the page of a replay of the jobs in examples/."""
    policies = [f"--policy={POLICIES / name}.yaml" for name in ("no-preemption", "checkpoints")]
    command = [sys.executable, "-m", "reprieve", "replay", str(POLICIES / "jobs.csv"), "--restart", "5m"]
    command += ["--policy", "default", *policies, "-o", "html"]
    return subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout


def draw_file(browser: Browser, folder: Path, text: str, pictures: Sequence[Picture]) -> None:
    """Draw pictures of a page in a file."""
    file = folder / f"{pictures[0].name}.html"
    file.write_text(text, encoding="utf-8")
    for picture in pictures:
        width, height = picture.size
        with opened(browser, file.as_uri(), width=width, height=height, scheme=picture.scheme) as page:
            draw(page, picture)


def draw_what_if(browser: Browser) -> None:
    """Draw the answer to a question, asked of a served page."""
    cluster = DEMO / FILES[0]
    with served(*items(), plans=PagePlans(("-f", str(cluster)))) as world:
        width, height = WHAT_IF.size
        with opened(browser, f"{world.url}#/whatif", width=width, height=height, own=world.url[:-3]) as page:
            page.fill("#what-if-changes", "--drain gpu-01")
            page.click("[data-key=plan]")
            page.locator(".view .map").wait_for()
            draw(page, WHAT_IF)


def draw(page: Page, picture: Picture) -> None:
    """Click what has to be clicked, and write the screenshot."""
    for click in picture.clicks:
        page.locator(click).first.click()
    if picture.at:
        page.locator(picture.at).evaluate("element => element.scrollIntoView()")
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    target = ROOT / "docs" / f"{picture.name}.png"
    page.screenshot(path=target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
