"""Screenshots of the page for docs/, of the demo's cluster: docs/page-*.png.

    python tools/draw_page.py

Needs Chromium and the packages of the tests. The pictures differ a little with fonts, so no test compares them.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "packages" / name) for name in ("kube-rules", "kube-standin", "reprieve"))]

from playwright.sync_api import Page  # noqa: E402

from reprieve.cli.plan_page import planned_page  # noqa: E402
from reprieve.page.html import as_file  # noqa: E402
from reprieve.python.inputs import InputSource, gather  # noqa: E402
from reprieve.simulation import demo  # noqa: E402
from reprieve.simulation.plan import PlanOptions  # noqa: E402
from tests.page.browser import Scheme, chromium, opened  # noqa: E402

DEMO: Final = Path(demo.__file__).parent
FILES: Final = ("cluster.yaml", "train.yaml", "giant.yaml")


class Picture(NamedTuple):
    """A view, and what is done before it is drawn."""

    name: str
    view: str
    clicks: tuple[str, ...] = ()
    scheme: Scheme = "light"
    size: tuple[int, int] = (1280, 800)


PICTURES: Final = (
    Picture("page-cluster", "cluster", ("[data-key=before]",)),
    Picture("page-cluster-dark", "cluster", ("[data-key=after]",), "dark"),
    Picture("page-queue", "queue", ("ol.cards a",), size=(1280, 560)),
    Picture("page-decisions", "decisions", size=(1280, 720)),
)


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
    return 0


def draw(page: Page, picture: Picture) -> None:
    """Click what has to be clicked, and write the screenshot."""
    for click in picture.clicks:
        page.locator(click).first.click()
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    target = ROOT / "docs" / f"{picture.name}.png"
    page.screenshot(path=target)
    print(f"{target.relative_to(ROOT)}: {target.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    sys.exit(main())
