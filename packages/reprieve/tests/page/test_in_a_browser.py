"""The page as a file, in a browser (page.md 5, 6)."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from playwright.sync_api import Browser, FloatRect, Page, expect

from reprieve.cli.plan_page import planned_page
from reprieve.decisions.shadow import decode_report
from reprieve.page.documents import PageDocument
from reprieve.page.html import as_file, client_files
from reprieve.page.shadow_view import shadow_page
from reprieve.python.inputs import InputSource, gather
from reprieve.simulation.plan import PlanOptions
from tests.outside import needs_browser
from tests.page.browser import Scheme, chromium, opened, overflow, violations

pytestmark = needs_browser
EXAMPLES = Path(__file__).parents[4] / "examples"
VIEWS = ("cluster", "plan", "queue", "decisions")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def planned(*files: Path) -> PageDocument:
    prepared = gather(InputSource(files=tuple(map(str, files))), lambda _: None)
    return planned_page(prepared, PlanOptions(), suggest=True)[1]


def written(folder: Path, *files: Path) -> str:
    """The address of the page of a plan."""
    (folder / "plan.html").write_text(as_file(planned(*files)), encoding="utf-8")
    return (folder / "plan.html").as_uri()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The plan of the first example of the README, beside a pod that cannot run and a node that is closed."""
    folder = tmp_path_factory.mktemp("page")
    more = folder / "more.yaml"
    more.write_text(MORE)
    return written(folder, EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml", more)


MORE = """
apiVersion: v1
kind: Node
metadata: {name: closed, labels: {pool: b}}
spec: {unschedulable: true, taints: [{key: gpu, value: "yes", effect: NoSchedule}]}
status: {allocatable: {cpu: "8", memory: 8Gi, pods: "10", nvidia.com/gpu: "8"}}
---
apiVersion: v1
kind: Pod
metadata: {name: waits, labels: {app: web}}
spec:
  priority: 1
  containers: [{name: c, resources: {requests: {nvidia.com/gpu: "8"}, limits: {nvidia.com/gpu: "8"}}}]
"""


def sentence(page: Page) -> str:
    return page.locator("#sentence").inner_text()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (768, "light"), (1440, "light"), (3840, "dark")])
def test_every_view_fits_and_has_no_violations(browser: Browser, url: str, width: int, scheme: Scheme) -> None:
    """page.md 5.4: no overflow, and axe finds nothing."""
    with opened(browser, url, width=width, scheme=scheme) as page:
        for view in VIEWS:
            page.goto(f"{url}#/{view}")
            page.locator(f'nav a[aria-current][href="#/{view}"]').wait_for()
            assert overflow(page) <= 0, view
            assert "undefined" not in page.locator("body").inner_text()
            if width in (360, 1440):
                assert violations(page) == [], view
            assert sentence(page)


def test_each_view_begins_with_its_sentence(browser: Browser, url: str) -> None:
    """page.md 3.1, 6.2."""
    with opened(browser, url) as page:
        assert sentence(page).startswith("2 of 3 pods placed, 1 pending. 1 workload (2 pods) evicted")
        page.click("text=Queue 1")
        expect(page.locator("#sentence")).to_contain_text("1 pending workload. waits would run after this: ")
        page.click("nav >> text=Decisions")
        expect(page.locator("#sentence")).to_have_text("nightly was evicted for train, 5 spared.")


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_shadow_report_is_a_view(browser: Browser, tmp_path: Path, width: int, scheme: Scheme) -> None:
    """page.md 10.1: the conclusion first, figures side by side, each difference with what either did."""
    report = decode_report((EXAMPLES / "shadow" / "report.json").read_bytes())
    (tmp_path / "shadow.html").write_text(as_file(shadow_page(report)), encoding="utf-8")
    with opened(browser, (tmp_path / "shadow.html").as_uri(), width=width, scheme=scheme) as page:
        assert sentence(page).startswith(
            "The acting scheduler evicts 2 pods and loses 32.2 GPU-hours, the shadow 1 pod and 8.2. 2 "
        )
        assert page.locator("nav a").all_inner_texts() == ["Shadow"]
        assert page.locator("tbody tr", has_text="pods evicted").locator("td").all_inner_texts() == ["2", "1"]
        section = page.get_by_role("region", name="More evicted than by the shadow")
        assert "shadow evicts default/sweep: 8.2 GPU-hours lost" in section.inner_text()
        assert overflow(page) <= 0
        assert violations(page) == []


def test_what_the_scheduler_does_over_time_is_shown(browser: Browser, tmp_path: Path) -> None:
    """page.md 5.7: a reservation with its start and its backfill, a limit that was reached, a degraded gang."""
    document = planned(EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml")
    given: Any = msgspec.to_builtins(document)
    tables = given["cluster"]
    running = next(at for at, node in enumerate(tables["pods"]["nodes"]) if node >= 0)
    node, workload = tables["pods"]["nodes"][running], tables["pods"]["workloads"][running]
    tables["pods"]["flags"] = [8 if at == running else 0 for at in range(len(tables["pods"]["flags"]))]
    tables["workloads"]["degraded"] = [
        "1 of 2" if at == workload else "" for at in range(len(tables["workloads"]["names"]))
    ]
    item = {"position": 1, "kind": "PodGroup", "namespace": "default", "name": "train", "priority": 5, "pods": 2}
    given["queue"] = [{**item, "since": None, "why": "Backoff"}]
    given["queueTotal"] = 1
    record = given["records"][0]
    limit = {"reason": "EvictionLimit", "message": "default/a was evicted twice today", "until": "2026-01-05T13:00:00Z"}
    given["records"] = [{**{key: record[key] for key in record if key != "preemption"}, "waits": limit}]
    given["reservations"] = [
        {
            "holder": {"kind": "PodGroup", "namespace": "default", "name": "train", "priority": 5},
            "nodes": [tables["nodes"]["names"][node]],
            "expectedStart": "2026-01-05T14:00:00Z",
            "waitsFor": ["default/long"],
            "message": "",
            "backfill": "pods that end before",
        }
    ]
    file = tmp_path / "time.html"
    file.write_text(as_file(msgspec.convert(given, PageDocument)), encoding="utf-8")
    with opened(browser, f"{file.as_uri()}#/queue/PodGroup/default/train") as page:
        expect(page.locator(".detail")).to_contain_text("A limit of evictions was reached: default/a was evicted twice")
        reserved = page.locator(".card", has=page.locator("h3", has_text="default/train"))
        expect(reserved).to_contain_text("Expected start 2026-01-05 14:00:00 UTC.")
        expect(reserved).to_contain_text(f"pods that end before. Now: {tables['pods']['names'][running]}.")
        page.click("nav >> text=Cluster")
        page.locator("summary", has_text="Nodes as a table").click()
        page.locator("table button").nth(node).click()
        expect(page.locator(".detail").first).to_contain_text("degraded: 1 of 2")
        expect(page.locator(".detail").first).to_contain_text("backfill")


def test_cluster_before_a_plan_is_not_that_of_a_trial(tmp_path: Path) -> None:
    """page.md 6.2: changes that would help are tried on other clusters; the time is that of the last decision."""
    (tmp_path / "more.yaml").write_text(MORE)
    document = planned(EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml", tmp_path / "more.yaml")
    assert document.queue[0].help  # there were trials
    assert document.before is not None
    assert document.before.nodes.names == ("closed", "gpu-1", "gpu-2", "gpu-3")
    running = {
        name for name, node in zip(document.before.pods.names, document.before.pods.nodes, strict=True) if node >= 0
    }
    assert running == {
        *(f"{name}-{at}" for name in ("nightly", "sweep") for at in (0, 1)),
        *(f"notebook-{at}" for at in range(4)),
    }
    assert document.time >= max(record.time for record in document.records)[:19]


def test_what_is_not_read_is_listed_with_the_plan(browser: Browser, tmp_path: Path) -> None:
    """page.md 8.6: the first of it, with the number of all."""
    prepared = gather(InputSource(files=(str(EXAMPLES / "gpus" / "cluster.yaml"),)), lambda _: None)
    lines = [f"quotas are not read: {at}" for at in range(250)]
    _, document = planned_page(prepared, PlanOptions(), suggest=False, warnings=lines)
    (tmp_path / "noted.html").write_text(as_file(document), encoding="utf-8")
    with opened(browser, f"{(tmp_path / 'noted.html').as_uri()}#/plan") as page:
        notes = page.locator(".notes")
        expect(notes).to_contain_text("250 parts of the input are not read, or not understood")
        expect(notes).to_contain_text("200 of 250 are here.")
        notes.locator("button").click()
        expect(notes).to_contain_text("quotas are not read: 199")


def test_decisions_over_time_have_an_axis(browser: Browser, tmp_path: Path) -> None:
    """page.md 3.3: a bar for each, which leads to it; the colours are explained."""
    given: Any = msgspec.to_builtins(planned(EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml"))
    first = next(record for record in given["records"] if record.get("preemption"))
    given["records"] = [{**first, "id": 901, "time": "2026-01-05T13:00:00.000000Z"}, first]
    file = tmp_path / "decisions.html"
    file.write_text(as_file(msgspec.convert(given, PageDocument)), encoding="utf-8")
    with opened(browser, f"{file.as_uri()}#/decisions") as page:
        expect(page.locator(".moments a")).to_have_count(2)
        expect(page.locator(".key")).to_contain_text("priority 10")
        expect(page.locator(".moments a[aria-current]")).to_have_attribute("href", "#/decisions/901")


def test_decision_has_its_own_url_and_its_record_as_text_and_json(browser: Browser, tmp_path: Path) -> None:
    """page.md 5.5: the URL opens that decision, not the latest."""
    given: Any = msgspec.to_builtins(planned(EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml"))
    first = next(record for record in given["records"] if record.get("preemption"))
    earlier = {**first, "id": 901, "entity": {**first["entity"], "name": "earlier"}}
    given["records"] = [first, earlier]
    file = tmp_path / "decisions.html"
    file.write_text(as_file(msgspec.convert(given, PageDocument)), encoding="utf-8")
    with opened(browser, f"{file.as_uri()}#/decisions/901") as page:
        detail = page.get_by_role("region", name="Decision")
        expect(detail.locator("h2")).to_have_text("For default/earlier")
        expect(detail.locator("a", has_text="Link to this decision")).to_have_attribute("href", "#/decisions/901")
        detail.locator("summary", has_text="Receipt as text").click()
        receipt = detail.locator("pre").first
        expect(receipt).to_contain_text("default/earlier  priority 1000")
        expect(receipt).to_contain_text("Evicted\n  default/nightly  priority 10  2 pods")
        detail.locator("summary", has_text="Receipt as JSON").click()
        assert json.loads(detail.locator("pre").last.inner_text()) == json.loads(json.dumps(earlier))


def test_terms_are_defined_below_every_view_and_where_they_are_used(browser: Browser, url: str) -> None:
    """page.md 5.2."""
    with opened(browser, url) as page:
        expect(page.get_by_role("region", name="Legend")).to_be_visible()
        for view in VIEWS:
            page.goto(f"{url}#/{view}")
            page.locator(f'nav a[aria-current][href="#/{view}"]').wait_for()
            terms = page.get_by_role("region", name="Terms")
            words = terms.locator("dt").all_inner_texts()
            assert "workload" in words or view == "decisions"
            assert len(terms.locator("dd:visible").all()) == len(words)
            assert all(terms.locator("dd").all_inner_texts())
            used = page.locator("main dfn").all()
            assert used or view in ("cluster", "plan")
            assert all(term.get_attribute("title") for term in used), view


def test_blocks_have_colours_by_priority_and_every_state_its_shape(browser: Browser, url: str) -> None:
    """page.md 5.1: the highest first; of the marks only which pixels are drawn counts, not in which colour."""
    with opened(browser, url) as page:
        legend = page.get_by_role("region", name="Legend")
        rows = legend.locator("li").all_inner_texts()
        priorities = [int(number) for number in re.findall(r"priority (\d+)", "\n".join(rows))]
        assert priorities[0] == 1000
        assert priorities == sorted(priorities, reverse=True)
        marks = legend.locator("li", has=page.locator("canvas")).filter(has=page.locator("b"))
        names = marks.locator("b").all_inner_texts()
        assert names == ["terminating", "evicted", "backfill", "placed", *FLAGS]
        shapes = [mark.evaluate(OUTLINE) for mark in marks.locator("canvas").all()]
        assert len({*shapes}) == len(names)
        page.locator("[data-key=colour]").select_option("workload")
        expect(legend).to_contain_text("A colour and a pattern for each workload")
        text = client_files()["palette.js"]
        looks = page.context.new_page().evaluate(LOOKS, text)
    assert len({(look["fill"], look["pattern"]) for look in looks}) == 64
    assert len({look["fill"] for look in looks[:8]}) == len({look["pattern"] for look in looks[:8]}) == 8


FLAGS = ("cordoned", "tainted", "draining", "nominated", "reserved")
OUTLINE = """canvas => {
  const { width, height } = canvas, { data } = canvas.getContext("2d").getImageData(0, 0, width, height);
  const pixels = [...Array(width * height).keys()].map((at) => data.slice(4 * at, 4 * at + 4).join());
  const counts = pixels.reduce((found, pixel) => found.set(pixel, (found.get(pixel) ?? 0) + 1), new Map());
  const most = Math.max(...counts.values());
  return pixels.map((pixel) => counts.get(pixel) === most ? "." : "#").join("");
}"""
"""Which pixels of a mark are not those of what it is drawn on."""
LOOKS = """async (text) => {
  const palette = await import("data:text/javascript," + encodeURIComponent(text));
  return [...Array(64).keys()].map((index) => palette.look(index));
}"""


@pytest.mark.parametrize(("scheme", "lightest"), [("light", 255), ("dark", 40)])
def test_page_is_light_or_dark_as_the_reader_has_it(browser: Browser, url: str, scheme: Scheme, lightest: int) -> None:
    """page.md 5.1."""
    with opened(browser, url, scheme=scheme) as page:
        paper = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
        assert max(map(int, re.findall(r"\d+", paper))) <= lightest
        assert (max(map(int, re.findall(r"\d+", paper))) == 255) == (scheme == "light")


def test_file_loads_nothing_and_allows_nothing(browser: Browser, url: str, tmp_path: Path) -> None:
    """page.md 6.1: a script that comes in by any way does not run."""
    text = Path(url.removeprefix("file://")).read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    assert "unsafe" not in policy[1]
    assert "connect-src" not in policy[1]
    assert policy[1].startswith("default-src 'none'")
    with opened(browser, url) as page:
        assert page.evaluate("performance.getEntriesByType('resource').length") == 0
    (tmp_path / "x.html").write_text(text.replace("</body>", "<script>document.title='ran'</script></body>"))
    context = browser.new_context()
    page = context.new_page()
    page.goto((tmp_path / "x.html").as_uri())
    page.locator("nav a[aria-current]").wait_for()
    assert page.title() == "Cluster · reprieve"
    context.close()


def test_keyboard_alone_reaches_everything(browser: Browser, url: str) -> None:
    """page.md 5.4: tabs reach the views and the map; arrows choose nodes, and each is stated in words."""
    with opened(browser, url) as page:
        page.locator(".overlay").focus()
        page.keyboard.press("ArrowRight")
        assert page.locator(".map-column [role=status]").inner_text().startswith("closed: 0 of 8 GPUs in use, 0 pods")
        page.keyboard.press("ArrowDown")
        assert page.locator(".detail h2").first.inner_text() != "closed"
        page.keyboard.press("Escape")
        assert page.locator(".detail h2").first.inner_text() == "No node is chosen"
        page.evaluate("document.activeElement.blur()")
        seen = set()
        for _ in range(20):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.dataset.key ?? document.activeElement.className"))
        assert {"nav-queue", "nav-decisions", "find", "group", "colour", "in", "out", "fit", "overlay"} <= seen
        page.locator("[data-key=nav-queue]").focus()
        page.keyboard.press("Enter")
        page.locator("[data-key='#/queue/Pod/default/waits']").focus()
        page.keyboard.press("Enter")
        expect(page.locator(".detail h2").first).to_have_text("default/waits")


def test_search_states_what_matches(browser: Browser, url: str) -> None:
    """page.md 5.3."""
    with opened(browser, url) as page:
        status = page.locator(".map-column [role=status]")
        for text, found in (
            ("notebook", "4 pods and 0 nodes match."),
            ("app=web", "1 pod and 0 nodes match."),
            ("app=web,app!=db", "1 pod and 0 nodes match."),
            ("app=web, app!=web", "0 pods and 0 nodes match."),
            ("priority>=1000", "2 pods and 0 nodes match."),
            ("closed", "0 pods and 1 node match."),
        ):
            page.fill("[data-key=find]", text)
            assert status.inner_text() == found


def test_pointing_at_a_pod_lights_its_workload(browser: Browser, url: str) -> None:
    """page.md 5.3."""
    with opened(browser, url) as page:
        page.locator(".map canvas").first.wait_for()
        before = page.screenshot(clip=MAP)
        page.locator("summary", has_text="Nodes as a table").click()
        page.locator("table button", has_text="gpu-1").click()
        page.locator(".detail button", has_text="default/sweep").click()
        expect(page.locator(".moving canvas").last).to_be_visible()  # it is drawn with the next frame
        assert page.screenshot(clip=MAP) != before


MAP = FloatRect(x=20, y=260, width=900, height=400)


MARKED = ("<img src=x onerror=document.title='ran'>", "</script><script>alert(1)</script>", '\u202e"&')


@pytest.mark.parametrize("name", MARKED)
def test_names_with_marks_are_text(browser: Browser, tmp_path: Path, name: str) -> None:
    """page.md 5.6: whatever has such a name."""

    def renamed(content: object) -> object:
        if isinstance(content, str):
            return content.replace("default", name).replace("waits", name).replace("train", name)
        if isinstance(content, list):
            return [renamed(item) for item in content]
        return {key: renamed(item) for key, item in content.items()} if isinstance(content, dict) else content

    (tmp_path / "more.yaml").write_text(MORE)
    document = planned(EXAMPLES / "gpus" / "cluster.yaml", EXAMPLES / "gpus" / "train.yaml", tmp_path / "more.yaml")
    file = tmp_path / "p.html"
    file.write_text(as_file(msgspec.convert(renamed(msgspec.to_builtins(document)), PageDocument)), encoding="utf-8")
    with opened(browser, file.as_uri()) as page:
        for view in VIEWS:
            page.goto(f"{file.as_uri()}#/{view}")
            page.locator(f'nav a[aria-current][href="#/{view}"]').wait_for()
            assert name in page.locator("body").inner_text() or view == "cluster"
            assert page.locator("img").count() == 0
            assert "ran" not in page.title()


def test_modules_have_names_of_their_own() -> None:
    """page.md 6.1: as they stand in one script, and import what is exported."""
    files = {name: text for name, text in client_files().items() if name.endswith(".js")}
    defined = re.compile(r"^(export )?(?:async )?(?:function|class|const|let) (\w+)", re.MULTILINE)
    names = [(name, bool(exported), word) for name, text in files.items() for exported, word in defined.findall(text)]
    assert len({word for _, _, word in names}) == len(names)
    assert not re.search(r"^(?:export )?const \w+ = [^;\n]*, \w+ = ", "\n".join(files.values()), re.MULTILINE), (
        "one a line"
    )
    exported = {(name, word) for name, is_exported, word in names if is_exported}
    for text in files.values():
        for words, name in re.findall(r'^import \{([^}]*)\} from "\./([a-z_]+\.js)";$', text, re.MULTILINE):
            assert {(name, word.strip()) for word in words.split(",")} <= exported
