"""Measure the page with 5,000 nodes and 50,000 pods: first paint, frames while panning, memory, cost of the server.

    python tools/measure_page.py [NODES [PODS]]

Needs Chromium and the packages of the tests. Frames are those of the browser's own trace. Times are of this machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), *(str(ROOT / "packages" / name) for name in ("kube-rules", "kube-standin", "reprieve"))]

import msgspec  # noqa: E402
from playwright.sync_api import Browser, Page  # noqa: E402

from reprieve.live import page_snapshots  # noqa: E402
from reprieve.page.builder import document_of  # noqa: E402
from reprieve.page.documents import PageDocument  # noqa: E402
from reprieve.page.html import as_file  # noqa: E402
from reprieve.page.pictures import PictureTaker  # noqa: E402
from reprieve.scheduling.engine import Engine  # noqa: E402
from tests.building import START, Item, gang, node, pod  # noqa: E402
from tests.page.browser import chromium  # noqa: E402
from tests.page.serving import ServedWorld, served  # noqa: E402

DRAGS: Final = 120
WATCHERS: Final = 10
WATCHED: Final = 60
"""Seconds for which they watch."""
FRAME: Final = 1000 / 60
"""Milliseconds."""


def items_of(nodes: int, pods: int) -> list[Item | Sequence[Item]]:
    """Return GPU nodes in racks, full of pods of gangs and others, and a gang that waits."""
    items: list[Item | Sequence[Item]] = []
    for at in range(nodes):
        labels = {"topology.kubernetes.io/rack": f"r{at // 32}", "topology.kubernetes.io/zone": f"z{at // 1000}"}
        items.append(node(f"node-{at:05}", cpu=128, gpu=8, labels=labels, unschedulable=at % 97 == 0))
    for at in range(pods):
        where, turn = at % nodes, at // nodes
        gpu = 1 if turn < 7 else 0
        labels = {"app": f"app-{at % 400}"}
        there = pod(f"pod-{at:06}", cpu="2", gpu=gpu, node=f"node-{where:05}", priority=turn * 100, labels=labels)
        items.append(there)
    return [*items, gang("waits", 16, gpu=8, priority=5)]


def engine_of(nodes: int, pods: int) -> Engine:
    """Return an engine with these items."""
    engine = Engine()
    for item in items_of(nodes, pods):
        for part in item if isinstance(item, list) else [item]:
            engine.set(part, START)
    return engine


def main() -> int:
    """Measure, and print a line for each figure."""
    nodes, pods = (int(text) for text in (*sys.argv[1:], "5000", "50000")[:2])
    engine = engine_of(nodes, pods)
    document = server_cost(engine)
    pictures_cost(engine)
    watchers_cost(nodes, pods)
    with tempfile.TemporaryDirectory() as folder, chromium() as browser:
        file = Path(folder) / "page.html"
        file.write_text(as_file(document), encoding="utf-8")
        print(f"file: {file.stat().st_size / 1e6:.1f} MB")
        client_cost(browser, file.as_uri(), Path(folder) / "trace.json")
    return 0


def server_cost(engine: Engine) -> PageDocument:
    """Print what one snapshot costs, and how often it is made at most; watchers share it."""
    began = time.process_time()
    document = document_of(engine, START, lambda _: None)
    read = time.process_time() - began
    encoded = page_snapshots.encoded(document, None)
    took = time.process_time() - began
    pause = max(page_snapshots.LEAST_SECONDS, took / page_snapshots.MOST_SHARE)
    print(f"snapshot: {took:.2f} s of processor time ({read:.2f} s of it with the engine at rest)")
    print(f"snapshot: {len(encoded.body) / 1e6:.2f} MB gzipped; one in {pause:.1f} s: {took / pause:.1%} of a core")
    return document


def pictures_cost(engine: Engine) -> None:
    """Print what pictures of the cluster at decisions cost: of everything, and of a gang of 32 that has come."""
    taker = PictureTaker(engine, lambda _: None)
    for name, take in (("everything", taker.whole), ("what has changed", lambda: taker.changed(0.0))):
        for at in range(32):
            engine.set(pod(f"{name.split()[0]}-{at}", cpu="1", node=f"node-{97 * at:05}"), START)
        began = time.process_time()
        picture = take()
        took = time.process_time() - began
        size = len(zlib.compress(msgspec.json.encode(picture), 1))
        print(f"picture of {name}: {1000 * took:.1f} ms of processor time, {size / 1000:.0f} kB")


WATCHER: Final = """
import sys, threading, time, urllib.request
def watch(url):
    with urllib.request.urlopen(url + "api/v1/events") as events:
        for line in events:
            if line.startswith(b"data: "):
                urllib.request.urlopen(url + "api/v1/page").read()
for _ in range(int(sys.argv[2])):
    threading.Thread(target=watch, args=(sys.argv[1],), daemon=True).start()
time.sleep(3600)
"""
"""A process of watchers, each of which reads every new document as the page does."""


def watchers_cost(nodes: int, pods: int) -> None:
    """Print what ten watchers cost a server on which something changes every second."""
    with served(engine=engine_of(nodes, pods)) as world:
        figures = [seconds_of(world, watchers) for watchers in (0, WATCHERS)]
    print(f"{WATCHERS} watchers: {(figures[1] - figures[0]) / WATCHED:.1%} of a core, a change every second")


def seconds_of(world: ServedWorld, watchers: int) -> float:
    """Return the processor time of this process while so many watch and something changes every second."""
    command = [sys.executable, "-c", WATCHER, world.url, str(watchers)]
    engine = world.world.engine
    with subprocess.Popen(command) as process:
        time.sleep(5 if watchers else 1)
        began = time.process_time()
        for turn in range(WATCHED):
            flipped = node("node-00001", cpu=128, gpu=8, unschedulable=turn % 2 == 0)
            world.change(lambda flipped=flipped: engine.set(flipped, START))  # type: ignore[misc]
            time.sleep(1)
        took = time.process_time() - began
        process.kill()
    return took


def client_cost(browser: Browser, url: str, trace: Path) -> None:
    """Print what a browser needs to show and to pan it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(SHOWN)
    page.goto(url)
    page.wait_for_function("window.shownAt !== undefined")
    paint = page.evaluate("performance.getEntriesByName('first-contentful-paint')[0].startTime")
    shown = page.evaluate("window.shownAt")
    print(f"first contentful paint after {paint:.0f} ms, the map after {shown:.0f} ms")
    box = page.locator(".overlay").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    browser.start_tracing(page=page, path=trace, categories=CATEGORIES)
    page.evaluate(PAN, DRAGS)
    browser.stop_tracing()
    before = processor_seconds(browser)
    page.evaluate(PAN, 5 * DRAGS)
    took = processor_seconds(browser) - before
    print(f"panning: {1000 * took / (5 * DRAGS):.1f} ms of processor time a frame, of all processes of the browser")
    page.mouse.up()
    memory(browser, page)
    frames_of(json.loads(trace.read_text())["traceEvents"])
    context.close()


CATEGORIES: Final = ["benchmark", "devtools.timeline", "disabled-by-default-devtools.timeline.frame"]
SHOWN: Final = """new MutationObserver((_, observer) => {
  if (!document.querySelector("nav a[aria-current]")) return;
  observer.disconnect();
  const frame = requestAnimationFrame;
  frame(() => frame(() => frame(() => { window.shownAt = performance.now(); })));
}).observe(document, { childList: true, subtree: true });"""
"""When the map has been drawn."""
PAN: Final = """(steps) => new Promise((done) => {
  const map = document.querySelector(".overlay");
  const box = map.getBoundingClientRect();
  let step = 0;
  function next() {
    const clientX = box.left + box.width / 2 + 4 * (step % 60);
    const clientY = box.top + box.height / 2 + 3 * (step % 40);
    map.dispatchEvent(new PointerEvent("pointermove", { pointerId: 1, pointerType: "mouse", clientX, clientY }));
    if (++step < steps) requestAnimationFrame(next);
    else done();
  }
  requestAnimationFrame(next);
})"""
"""Drag the map, a step in each frame."""


def processes_of(browser: Browser) -> list[dict[str, Any]]:
    """Return the processes of the browser."""
    found: list[dict[str, Any]] = browser.new_browser_cdp_session().send("SystemInfo.getProcessInfo")["processInfo"]
    return found


def processor_seconds(browser: Browser) -> float:
    """Return the processor time that the browser has taken so far."""
    ticks = 0
    for process in processes_of(browser):
        fields = Path(f"/proc/{process['id']}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def memory(browser: Browser, page: Page) -> None:
    """Print what the tab has for itself."""
    session = page.context.new_cdp_session(page)
    session.send("HeapProfiler.collectGarbage")
    session.send("Performance.enable")
    metrics = {item["name"]: item["value"] for item in session.send("Performance.getMetrics")["metrics"]}
    sizes = []
    for process in processes_of(browser):
        if process["type"] == "renderer":
            text = Path(f"/proc/{process['id']}/status").read_text()
            sizes += [int(line.split()[1]) / 1000 for line in text.splitlines() if line.startswith("RssAnon:")]
    print(
        f"memory: {max(sizes):.0f} MB of the tab's process, {metrics['JSHeapUsedSize'] / 1e6:.0f} MB of it JavaScript"
    )


def frames_of(events: list[dict[str, Any]]) -> None:
    """Print frames and the work in them."""
    frames = sorted(event["ts"] / 1000 for event in events if event["name"] == "DrawFrame")
    work = sorted(event["dur"] / 1000 for event in events if event["name"] == "FireAnimationFrame" and "dur" in event)
    gaps = [later - earlier for earlier, later in pairwise(frames)]
    rate = 1000 * len(gaps) / (frames[-1] - frames[0])
    slow = sum(1 for gap in gaps if gap > 1.5 * FRAME)
    print(f"panning: {rate:.0f} frames a second, {slow} of {len(gaps)} late by half a frame")
    print(f"panning: work in a frame {work[len(work) // 2]:.1f} ms (median), {work[-1]:.1f} ms at most")


if __name__ == "__main__":
    sys.exit(main())
