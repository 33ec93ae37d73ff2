"""The page as a scheduler serves it, in a browser (page.md 7, 8), and ten questions of at most three clicks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from reprieve.live import page_snapshots
from reprieve.live.page_plans import PagePlans
from reprieve.page.rights import visible
from tests.building import Item, gang, group, node, pdb, pod
from tests.outside import needs_browser
from tests.page.browser import chromium, opened, overflow, violations
from tests.page.serving import ServedWorld, served

pytestmark = needs_browser
EXAMPLES = Path(__file__).parents[4] / "examples"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def items() -> list[Item | Sequence[Item]]:
    """Two racks; `old` is evicted for `train`, budgeted notebooks are spared, `wide` and `picky` wait."""
    rack = "topology.kubernetes.io/rack"
    return [
        *[node(f"gpu-{at}", gpu=8, labels={rack: f"r{at // 2}"}) for at in range(4)],
        node("closed", gpu=8, labels={rack: "r2"}, unschedulable=True),
        pdb("notebooks", {"app": "notebook"}),
        group("old", min_count=2, whole=True, priority=10),
        *[pod(f"old-{at}", gpu=8, group="old", node=f"gpu-{at}", priority=10) for at in range(2)],
        *[pod(f"book-{at}", gpu=8, node=f"gpu-{2 + at}", priority=20, labels={"app": "notebook"}) for at in range(2)],
        *gang("train", 2, gpu=8, priority=1000),
        pod("picky", gpu=8, priority=5, selector={"disk": "none"}),
        pod("gated", priority=1, gates=["example.com/quota"]),
    ]


@pytest.fixture(scope="module")
def live() -> Iterator[ServedWorld]:
    cluster = str(EXAMPLES / "gpus" / "cluster.yaml")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(page_snapshots, "LEAST_SECONDS", 0.05)
        patch.setattr(page_snapshots, "MOST_SHARE", 10.0)
        with served(*items(), plans=PagePlans(("-f", cluster))) as world:
            yield world


def own(live: ServedWorld) -> str:
    return live.url.removesuffix("ui/")


def test_served_views_fit_and_have_no_violations(browser: Browser, live: ServedWorld) -> None:
    """page.md 5.4, 7.1: under the policy that forbids everything inline."""
    with opened(browser, live.url, width=360, own=own(live)) as page:
        for view in ("cluster", "queue", "decisions", "whatif"):
            page.goto(f"{live.url}#/{view}")
            page.locator(f'nav a[aria-current][href="#/{view}"]').wait_for()
            assert overflow(page) <= 0, view
            assert "undefined" not in page.locator("body").inner_text()
            assert violations(page) == [], view


def test_changes_are_shown_as_they_happen(browser: Browser, live: ServedWorld) -> None:
    """page.md 7.3: and not while it is paused; the focus stays where it is."""
    with opened(browser, live.url, own=own(live)) as page:
        sentence = page.locator("#sentence")
        expect(sentence).to_contain_text("on 5 nodes")
        page.locator("[data-key=find]").focus()
        live.change(lambda: live.world.engine.set(node("new-node", gpu=8), live.world.now))
        expect(sentence).to_contain_text("on 6 nodes")
        assert page.evaluate("document.activeElement.dataset.key") == "find"
        page.click("text=Pause")
        live.change(lambda: live.world.engine.remove(node("new-node").ref, live.world.now))
        expect(page.locator(".state")).to_contain_text("New data is available.")
        expect(sentence).to_contain_text("on 6 nodes")
        page.click("text=Resume")
        expect(sentence).to_contain_text("on 5 nodes")


def test_cluster_is_shown_as_it_was_at_a_decision(browser: Browser, live: ServedWorld) -> None:
    """page.md 11.2: from the decision, with an address of its own, and back to now; a time before all is refused."""
    with opened(browser, live.url + "#/decisions", own=own(live)) as page:
        page.click("[data-key=as-it-was]")
        expect(page.locator("#sentence")).to_contain_text("At 20")
        page.locator("summary", has_text="Nodes as a table").click()
        page.locator("table button", has_text="gpu-0").click()
        expect(page.locator(".detail").first).to_contain_text("default/old")
        expect(page.locator(".detail").first).to_contain_text("evicted")
        assert violations(page) == []
        page.reload()
        expect(page.locator("#sentence")).to_contain_text("At 20")
        page.click("nav >> text=Queue")
        expect(page.locator("#sentence")).to_contain_text("1 Preempting")
        page.click("text=default/train")
        expect(page.locator(".detail").first).to_contain_text("starts when they have ended")
        page.click("nav >> text=Decisions")
        expect(page.locator("#sentence")).to_contain_text("Until 20")
        page.click("[data-key=now]")
        expect(page.locator("#sentence")).not_to_contain_text("Until 20")
    context = browser.new_context()
    page = context.new_page()
    page.goto(live.url + "#/decisions")
    page.fill("#until", "2001-01-01T00:00:00")
    page.click("text=Go")
    expect(page.locator(".state")).to_contain_text("no state of the cluster is kept")
    context.close()


def test_question_shows_the_cluster_after_the_change(browser: Browser, live: ServedWorld) -> None:
    """page.md 8.1: by clicking a node; a refusal is shown as it is."""
    with opened(browser, live.url + "#/whatif", own=own(live)) as page:
        page.locator("summary", has_text="Nodes as a table").click()
        page.locator("table button", has_text="gpu-3").click()
        page.click("text=Cordon it")
        expect(page.locator("#what-if-changes")).to_have_value("--cordon gpu-3")
        page.click("[data-key=plan]")
        expect(page.locator("pre.answer")).to_contain_text("gpu-3", timeout=60_000)
        expect(page.locator(".view .map")).to_have_count(1)


FULL = """
{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: waits}, spec: {containers: [{name: c, resources: {requests: {cpu: 3}}}]}}
---
apiVersion: v1
kind: Pod
metadata: {name: runs}
spec: {nodeName: n1, containers: [{name: c, resources: {requests: {cpu: 3}}}]}
"""


def test_suggestion_can_be_tried(browser: Browser, tmp_path: Path) -> None:
    """page.md 8.5: a plan lists changes that would help workloads that are still pending, and each is one click."""
    file = tmp_path / "in.yaml"
    file.write_text(FULL)
    waits = pod("waits", cpu=3)
    with (
        served(node("n1"), pod("runs", cpu=3, node="n1"), waits, plans=PagePlans(("-f", str(file)))) as world,
        opened(browser, world.url + "#/queue", own=own(world)) as page,
    ):
        page.click("text=default/waits")
        page.click("text=Find what would help")
        page.locator("li", has_text="--add-nodes 1 --like n1").locator("button").click()
        expect(page.locator(".view > div > .status")).to_have_text("The pod is placed. No pods are evicted.")


def test_waiting_gang_can_be_picked(browser: Browser) -> None:
    """page.md 8.5: the answer begins with what happens to the workload: where it runs, and what is evicted for it."""
    files = [str(EXAMPLES / "gpus" / name) for name in ("cluster.yaml", "train.yaml")]
    plans = PagePlans(tuple(word for file in files for word in ("-f", file)))
    waiting = [*gang("train", 2, gpu=8, priority=1000), pod("other", gpu=8)]
    with (
        served(node("gpu-1", gpu=4), *waiting, plans=plans) as world,
        opened(browser, world.url + "#/whatif", own=own(world)) as page,
    ):
        pending = page.get_by_label("What happens to")
        expect(pending.locator("option")).to_have_count(3)
        expect(pending.locator("option").first).to_have_text("all pending workloads")
        pending.select_option(label="default/train, PodGroup")
        page.click("[data-key=plan]")
        answer = page.get_by_role("region", name="The workload that was picked")
        expect(answer).to_contain_text("2 of 2 pods run after the plan, on", timeout=60_000)
        expect(answer).to_contain_text("gpu-1 gpu-2")
        expect(answer).to_contain_text("default/nightly, priority 10, 2 pods")
        pending.select_option(label="default/other, Pod")
        page.click("[data-key=plan]")
        expect(answer).to_contain_text("The plan has no pods of it.", timeout=60_000)
        assert violations(page) == []


RACKS = """
apiVersion: v1
kind: List
items:
- &node
  apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {rack: r1, pool: a}}
  status: {allocatable: {cpu: 4, memory: 8Gi, pods: 9}}
- {<<: *node, metadata: {name: n2, labels: {rack: r1, pool: a}}}
- {<<: *node, metadata: {name: n3, labels: {rack: r2, pool: a}}}
"""


def test_rack_can_be_drained_as_a_whole(browser: Browser, tmp_path: Path) -> None:
    """page.md 5.7: what if I drain a rack? In three clicks, of the label by which the map groups."""
    file = tmp_path / "in.yaml"
    file.write_text(RACKS)
    nodes = [node(name, labels={"rack": rack}) for name, rack in (("n1", "r1"), ("n2", "r1"), ("n3", "r2"))]
    with (
        served(*nodes, plans=PagePlans(("-f", str(file)))) as world,
        opened(browser, world.url, own=own(world)) as page,
    ):
        for click in (
            "summary >> text=Nodes as a table",
            "table button >> text=n1",
            "text=What if rack=r1 is drained?",
        ):
            page.locator(click).first.click()
        expect(page.locator("pre.answer")).to_contain_text("--drain rack=r1", timeout=60_000)


def test_refused_question_says_why(browser: Browser, live: ServedWorld) -> None:
    """page.md 8.2."""
    context = browser.new_context()
    page = context.new_page()
    page.goto(live.url + "#/whatif")
    page.fill("#what-if-changes", "--plugin x:Y")
    page.click("[data-key=plan]")
    expect(page.locator(".view .status").first).to_contain_text("--plugin: not a change")
    context.close()


def test_reader_of_one_namespace_sees_no_names_of_others(browser: Browser) -> None:
    """page.md 4.1."""
    theirs = pod("secret", gpu=4, node="gpu-3", namespace="b", priority=7)
    with (
        served(*items(), theirs, shown=lambda document: visible(document, {"default"})) as world,
        opened(browser, world.url, own=own(world)) as page,
    ):
        assert "secret" not in page.content()
        page.locator("summary", has_text="Nodes as a table").click()
        page.locator("table button", has_text="gpu-3").click()
        expect(page.locator(".detail").first).to_contain_text("hidden Pod, priority 7")
        expect(page.locator(".state")).to_contain_text("some namespaces are hidden")


# Question, what is clicked in turn, and what the answer contains.
QUESTIONS = [
    ("what was evicted for train, and why?", ["nav >> text=Decisions"], ".detail", "if it stayed, default/train"),
    ("what was spared, and by which constraint?", ["nav >> text=Decisions"], ".detail", "PodDisruptionBudget protects"),
    ("what waits?", ["nav >> text=Queue"], "ol.cards", "default/picky"),
    ("why does picky wait?", ["nav >> text=Queue", "text=default/picky"], ".detail", "node affinity/selector"),
    ("when will train start?", ["nav >> text=Queue", "text=default/train"], ".detail", "starts when they have ended"),
    ("what keeps gated back?", ["nav >> text=Queue", "text=default/gated"], ".detail", "non-empty scheduling gates"),
    ("how full is the cluster?", [], "#sentence", "32 of 40 GPUs in use"),
    (
        "which nodes are closed?",
        ["summary >> text=Nodes as a table"],
        "table",
        "cordoned",
    ),
    (
        "what runs on gpu-3?",
        ["summary >> text=Nodes as a table", "table button >> text=gpu-3"],
        ".detail",
        "default/book-1",
    ),
    (
        "what if I drain gpu-3?",
        ["summary >> text=Nodes as a table", "table button >> text=gpu-3", "text=What if it is drained?"],
        "pre.answer",
        "gpu-3",
    ),
]


@pytest.mark.parametrize(("question", "clicks", "place", "answer"), QUESTIONS, ids=[row[0] for row in QUESTIONS])
def test_question_is_answered_in_three_clicks(
    browser: Browser, live: ServedWorld, question: str, clicks: list[str], place: str, answer: str
) -> None:
    """page.md 5.7."""
    assert len(clicks) <= 3
    with opened(browser, live.url, own=own(live)) as page:
        for click in clicks:
            page.locator(click).first.click()
        expect(page.locator(place).first).to_contain_text(answer, timeout=60_000)
