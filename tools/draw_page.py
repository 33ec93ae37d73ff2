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

from playwright.sync_api import Browser, FloatRect, Page  # noqa: E402

from reprieve.cli.plan_page import planned_page  # noqa: E402
from reprieve.decisions.shadow import decode_report  # noqa: E402
from reprieve.live.page_plans import PagePlans  # noqa: E402
from reprieve.page.html import as_file  # noqa: E402
from reprieve.page.shadow_view import shadow_page  # noqa: E402
from reprieve.python.answers import answered  # noqa: E402
from reprieve.python.inputs import InputSource, gather  # noqa: E402
from reprieve.scheduling.engine import Engine  # noqa: E402
from reprieve.simulation import demo  # noqa: E402
from reprieve.simulation.plan import PlanOptions  # noqa: E402
from tests.page.browser import Scheme, chromium, opened  # noqa: E402
from tests.page.serving import served  # noqa: E402

DEMO: Final = Path(demo.__file__).parent
FILES: Final = ("cluster.yaml", "train.yaml", "giant.yaml")


class Picture(NamedTuple):
    """A view, and what is clicked before it is drawn: from one element to the top of another, so that none is cut."""

    name: str
    view: str
    clicks: tuple[str, ...] = ()
    scheme: Scheme = "light"
    width: int = 1280
    first: str = "body"
    until: str = ".words"


PICTURES: Final = (
    Picture("page-cluster", "cluster", ("[data-key=before]",)),
    Picture("page-cluster-dark", "cluster", ("[data-key=after]",), "dark"),
    Picture("page-queue", "queue", ("ol.cards a",)),
    Picture("page-decisions", "decisions"),
)
WHAT_IF: Final = Picture("page-whatif", "whatif", width=1440)
SHADOW: Final = Picture("page-shadow", "shadow")
REPLAY: Final = (
    Picture("page-replay", "replay", until="h2:text('Nodes over')"),
    Picture(
        *("page-replay-nodes", "replay", ("[aria-label='Zoom in on the time']",)),
        first="h2:text('Nodes over')",
        until="h2:text('Waiting by')",
    ),
)
HEIGHT: Final = 800
POLICIES: Final = ROOT / "examples" / "policies"


def main() -> int:
    """Write the pictures."""
    prepared = gather(InputSource(files=tuple(str(DEMO / name) for name in FILES)), lambda lines: None)
    _, document = planned_page(prepared, PlanOptions(), suggest=True)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "page.html"
        file.write_text(as_file(document), encoding="utf-8")
        for picture in PICTURES:
            address = f"{file.as_uri()}#/{picture.view}"
            with opened(browser, address, width=picture.width, height=HEIGHT, scheme=picture.scheme) as page:
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
        with opened(browser, file.as_uri(), width=picture.width, height=HEIGHT, scheme=picture.scheme) as page:
            draw(page, picture)


def draw_what_if(browser: Browser) -> None:
    """Draw the answer to a question, asked of a served page: the demo's gang comes to its full cluster."""
    cluster, loaded = str(DEMO / FILES[0]), list[tuple[Engine, float]]()
    prepared = gather(InputSource(files=(cluster,)), lambda lines: None)
    options = PlanOptions(on_loaded=lambda engine, now: loaded.append((engine, now)))
    answered(prepared, options, None)
    [(engine, now)] = loaded
    with (
        served(engine=engine, now=now, plans=PagePlans(("-f", cluster))) as world,
        opened(browser, f"{world.url}#/whatif", width=WHAT_IF.width, height=HEIGHT, own=world.url[:-3]) as page,
    ):
        page.fill("#what-if-manifests", (DEMO / FILES[1]).read_text())
        page.click("[data-key=plan]")
        page.locator("pre.answer").wait_for()
        page.click("[data-key=before]")
        draw(page, WHAT_IF)


def draw(page: Page, picture: Picture) -> None:
    """Click what has to be clicked, and write the screenshot."""
    for click in picture.clicks:
        page.locator(click).first.click()
    page.evaluate(
        "() => new Promise((done) => { scrollTo(0, 0); requestAnimationFrame(() => requestAnimationFrame(done)); })"
    )
    top, bottom = (page.locator(place).first.bounding_box() for place in (picture.first, picture.until))
    assert top is not None
    assert bottom is not None
    target = ROOT / "docs" / f"{picture.name}.png"
    clip = FloatRect(x=0, y=top["y"], width=picture.width, height=bottom["y"] - top["y"])
    page.screenshot(path=target, full_page=True, clip=clip)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
