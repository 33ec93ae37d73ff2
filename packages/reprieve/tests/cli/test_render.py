"""What the text says of answers that are too large to list (rules of the rendering alone)."""

import pytest
from msgspec.structs import replace as replaced

from reprieve.cli.capacity import capacity_sections
from reprieve.cli.drain_plan import drain_sections
from reprieve.cli.preemption_text import MOST_ROWS
from reprieve.cli.queue import queue_section
from reprieve.cli.render import _spread, plan_sections
from reprieve.cli.sections import Tone, plain
from reprieve.decisions.outcomes import Help
from reprieve.decisions.phrases import seconds_text
from reprieve.decisions.queue_items import QueueItem
from reprieve.questions.capacity import CapacityReport, Domain, NodePool
from reprieve.questions.drain_order import DrainedNode, DrainPlan
from reprieve.questions.queue_order import Queue
from reprieve.simulation.report import (
    Account,
    Answer,
    BrokenGang,
    DisplacedPod,
    LostPod,
    Plan,
    PlannedPreemption,
    PodGroupOutcome,
    PodOutcome,
    Stats,
)
from tests.decisions.made import planned, unit


def pod(name: str, node: str | None, group: str | None = None, message: str | None = None) -> PodOutcome:
    outcome = "Scheduled" if node else "Unschedulable"
    return PodOutcome(
        namespace="a", name=name, pod_group=group, priority=0, outcome=outcome, node_name=node, message=message
    )


def text(*pods: PodOutcome, preemptions: tuple[PlannedPreemption, ...] = ()) -> str:
    plan = Plan(pods=pods, stats=Stats(seconds=12345.678, virtual_seconds=0, attempts=1))
    account = Account(nodes=3, running_before=0, running_after=0, preemptions=preemptions)
    return plain(plan_sections(Answer(plan, account)))


def test_long_tables_end_with_a_count_of_what_is_left_out() -> None:
    shown = text(*(pod(f"p{i:03d}", "n1") for i in range(MOST_ROWS + 7)))
    assert f"p{MOST_ROWS - 1:03d}" in shown
    assert f"p{MOST_ROWS:03d}" not in shown
    assert "... and 7 more (-o json lists them all)" in shown


def test_pods_that_wait_for_the_same_reason_share_a_row() -> None:
    shown = text(*(pod(f"p{i}", None, message="0/3 nodes are available: 3 Insufficient cpu.") for i in range(500)))
    assert shown.count("Insufficient cpu") == 1
    assert "pod a/p0 and 499 more  500 pods  Unschedulable" in shown


def test_domain_of_a_group_is_named() -> None:
    """Under a topology constraint (preemption.md 4.6); the whole cluster goes without saying."""
    notes = {}
    for domain, candidates in (("cluster", 1), ("rack-1", 1), ("rack-1", 2)):
        made = planned(unit("v0"), preemptor="PodGroup", domain=domain, candidates=candidates)
        shown = text(preemptions=(made,))
        notes[domain, candidates] = [line.strip() for line in shown.splitlines() if "is placed in" in line]
    assert notes == {
        ("cluster", 1): [],
        ("rack-1", 1): ["The group is placed in rack-1."],
        ("rack-1", 2): ["The group is placed in rack-1, the cheapest of 2 domains."],
    }
    assert "is placed in" not in text(preemptions=(planned(unit("v0")),))


def test_victims_of_one_node_for_one_reason_share_a_row() -> None:
    shown = text(preemptions=(planned(*(unit(f"v{i}", running_seconds=60.0 + 3600 * i) for i in range(6))),))
    assert "pods a/v0, v1, v2, v3 and 2 more  6 pods" in shown
    assert "1 min to 5 h 1 min" in shown
    assert shown.count("why: ") == 1


def test_victim_already_terminating_is_counted_once() -> None:
    """A leaving victim, with its capacity taken by a more important preemptor, is named for both and evicted once."""
    first = planned(unit("v0"), unit("v1"))
    again = planned(unit("v0"), evicted_before=frozenset({"a/v0"}))
    shown = text(preemptions=(first, again))
    assert "2 workloads (2 pods) evicted to free capacity." in shown
    assert shown.count("already being evicted for an earlier preemptor; this one takes its capacity") == 1


def test_most_important_spared_are_named_and_the_others_counted() -> None:
    shown = text(preemptions=(planned(unit("v"), *(unit(f"s{i}", evicted=False) for i in range(8))),))
    assert "Spared: 8 workloads of lower priority" in shown
    assert "pod a/s4" in shown
    assert "pod a/s5" not in shown
    assert "... and 3 more" in shown


def test_group_without_its_object_and_partly_placed() -> None:
    shown = text(pod("g-0", "n1", "g"), pod("g-1", None, "g", "no room"))
    assert "group a/g  1/2 pods placed  1 on n1" in shown
    assert "group a/g  1 of 2 pods  Unschedulable\n      no room" in shown


def test_nodes_are_listed_fullest_first_and_the_others_counted() -> None:
    pods = [pod(f"p{i}", f"n{i % 9}") for i in range(10)]
    assert _spread(pods) == "2 on n0, 1 on n1, 1 on n2, 1 on n3, 1 on n4, 1 on n5, 3 on 3 more nodes"
    assert _spread(pods[:7]).endswith("1 on n5, 1 on 1 more node")


def test_text_does_not_depend_on_the_wall_clock() -> None:
    assert "12345" not in text(pod("p", "n1"))


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (0.25, "0.25 s"),
        (31, "31 s"),
        (60, "1 min"),
        (61.4, "1 min 1 s"),
        (3600, "1 h"),
        (3600 * 26, "1 d 2 h"),
        (86400 * 2 + 59, "2 d"),
    ],
)
def test_durations_are_shown_in_their_two_largest_units(seconds: float, words: str) -> None:
    assert seconds_text(seconds) == words


def lost(name: str, node: str, group: str | None = None, namespace: str = "a") -> LostPod:
    return LostPod(namespace=namespace, name=name, pod_group=group, node_name=node, priority=0)


@pytest.mark.parametrize(
    ("pods", "row"),
    [
        ([lost("p", "n1")], "pod a/p  1 pod  with n1"),
        ([lost("p", "n1"), lost("q", "n1")], "pods a/p, q  2 pods  with n1"),
        ([lost("p", "n1"), lost("q", "n1", namespace="b")], "pods a/p, b/q  2 pods  with n1"),
        ([lost(name, "n1") for name in "pqrs"], "pods a/p, q, r, s  4 pods  with n1"),
        ([lost(name, "n1") for name in "pqrst"], "pods a/p, q, r, s and 1 more  5 pods  with n1"),
        ([lost("p", "n1"), lost("q", "n2")], "pod a/p  1 pod  with n1\npod a/q  1 pod  with n2"),
        ([lost("p", "n1", "g"), lost("q", "n1", "g")], "gang a/g  2 pods  with n1"),
    ],
)
def test_pods_lost_with_one_node_share_a_row(pods: list[LostPod], row: str) -> None:
    gang = PodGroupOutcome(namespace="a", name="g", priority=0, min_count=2, scheduled=0, outcome="Unschedulable")
    plan = Plan(lost=tuple(pods), pod_groups=(gang,), stats=Stats(seconds=0, virtual_seconds=0, attempts=0))
    sections = plan_sections(Answer(plan, Account(nodes=3, running_before=0, running_after=0)))
    [found] = [section for section in sections if section.title == "Lost with their node"]
    assert "\n".join("  ".join(each.cells) for each in found.rows) == row


@pytest.mark.parametrize(
    ("evicted", "gone", "why"), [(2, 0, "2 evicted"), (0, 1, "1 lost"), (2, 1, "2 evicted, 1 lost")]
)
def test_gangs_below_their_minimum_count_evictions_and_losses(evicted: int, gone: int, why: str) -> None:
    values = {"namespace": "a", "priority": 0, "min_count": 4, "scheduled": 3, "outcome": "Scheduled"}
    broken = PodGroupOutcome(name="g", below_minimum=True, evicted=evicted, lost=gone, **values)  # type: ignore[arg-type]
    whole = PodGroupOutcome(name="h", **values)  # type: ignore[arg-type]
    plan = Plan(pod_groups=(broken, whole), stats=Stats(seconds=0, virtual_seconds=0, attempts=0))
    sections = plan_sections(Answer(plan, Account(nodes=3, running_before=0, running_after=0)))
    [found] = [section for section in sections if section.title == "Below their minimum"]
    assert [row.cells for row in found.rows] == [("gang a/g", "3 of minCount 4 left", why)]


POOL = NodePool(name="gpu", nodes=2, pods=3, free="12", stranded="4")
CAPACITY = CapacityReport(
    shape="job default/j",
    pods_per_copy=1,
    requests={},
    now=2,
    with_preemption=2,
    victims=0,
    largest_gang=3,
    resource="cpu",
    pools=(POOL,),
)


@pytest.mark.parametrize(
    ("found", "title", "notes", "tone"),
    [
        (
            CAPACITY,
            "2 more of job default/j fit now.",
            ("A copy is 1 pod.", "Preemption would not let more of them fit.", "The largest gang of such pods: 3."),
            Tone.GOOD,
        ),
        (
            replaced(CAPACITY, now=1, with_preemption=2, victims=1, pods_per_copy=2, requests={"cpu": "4", "gpu": "1"}),
            "1 more of job default/j fits now.",
            (
                "A copy is 2 pods, 4 cpu, 1 gpu in all.",
                "2 with preemption, which would evict 1 pod.",
                "The largest gang of such pods: 3.",
            ),
            Tone.GOOD,
        ),
        (
            replaced(CAPACITY, now=0, with_preemption=3, victims=2, at_least=("withPreemption",), untried=True),
            "0 more of job default/j fit now.",
            (
                "A copy is 1 pod.",
                "3 or more with preemption, which would evict 2 pods.",
                "The largest gang of such pods: 3.",
                "No more were tried.",
            ),
            Tone.WAITING,
        ),
        (
            replaced(CAPACITY, at_least=("now", "largestGang")),
            "2 or more of job default/j fit now.",
            (
                "A copy is 1 pod.",
                "The largest gang of such pods: 3 or more.",
                '"Or more": in other places more may fit. All other figures are exact.',
            ),
            Tone.GOOD,
        ),
    ],
)
def test_count_that_stopped_early_is_marked_or_more(
    found: CapacityReport, title: str, notes: tuple[str, ...], tone: Tone
) -> None:
    """whatif.md 8: what is as many as were tried, or may be higher, has "or more", each figure by itself."""
    first, *_ = capacity_sections(found)
    assert (first.title, first.notes, first.tone) == (title, notes, tone)


def test_domains_and_pools_are_rows_of_a_capacity() -> None:
    """Owners of the rest have a column where there are any; what is stranded may be unknown."""
    columns = ("pool", "nodes", "pods that fit", "cpu free", "stranded")
    _, alone = capacity_sections(CAPACITY)
    assert (alone.title, alone.columns) == ("Nodes", columns)
    assert [row.cells for row in alone.rows] == [("gpu", "2", "3", "12", "4")]
    other = NodePool(name="cpu", nodes=1, pods=0, free="1", stranded=None, by=("job a/x", "job a/y"))
    domains = (Domain(name="a", nodes=2, pods=3), Domain(name="b", nodes=1, pods=0))
    _, by_zone, pools = capacity_sections(replaced(CAPACITY, topology_key="zone", domains=domains, pools=(POOL, other)))
    assert (by_zone.title, by_zone.columns) == ("By zone", ("domain", "nodes", "largest gang"))
    assert [row.cells for row in by_zone.rows] == [("a", "2", "3"), ("b", "1", "0")]
    assert pools.columns == (*columns, "rest mostly used by")
    assert [row.cells for row in pools.rows] == [
        ("gpu", "2", "3", "12", "4", ""),
        ("cpu", "1", "0", "1", "unknown", "job a/x, job a/y"),
    ]


def displaced(outcome: str, to: str | None = None) -> DisplacedPod:
    return DisplacedPod(
        namespace="a", name="p", pod_group=None, priority=0, node_name="n1", change="drain n1", outcome=outcome, to=to
    )


@pytest.mark.parametrize(
    ("node", "verdict", "notes", "rows", "tones"),
    [
        (
            DrainedNode(name="n1"),
            "Every pod finds another place.",
            ("no pods are evicted",),
            [],
            (Tone.GOOD, Tone.PLAIN),
        ),
        (
            DrainedNode(name="n1", displaced=(displaced("Moved", "n2"),), kubectl_needs=("--force",)),
            "Every pod finds another place.",
            ("kubectl drain needs --force",),
            [("pod a/p", "from n1", "to n2", "")],
            (Tone.GOOD, Tone.PLAIN),
        ),
        (
            DrainedNode(name="n1", displaced=(displaced("Moved", "n1"),)),
            "Every pod finds a place, some only on the node they were on.",
            (),
            [("pod a/p", "from n1", "back to n1", "")],
            (Tone.GOOD, Tone.PLAIN),
        ),
        (
            DrainedNode(name="n1", displaced=(displaced("Waiting"),), waiting=1),
            "Not every pod finds another place: 1 pod stays pending.",
            (),
            [("pod a/p", "from n1", "pending", "")],
            (Tone.WAITING, Tone.WAITING),
        ),
        (
            DrainedNode(name="n1", displaced=(displaced("Lost"),), lost=1, waiting=1),
            "Not every pod finds another place: 1 pod stays pending, 1 pod is lost.",
            (),
            [("pod a/p", "from n1", "lost: no controller recreates it", "")],
            (Tone.WAITING, Tone.BAD),
        ),
        (
            DrainedNode(
                name="n1",
                budgets=("a/b", "a/c"),
                broken_gangs=(
                    BrokenGang(namespace="a", name="g", min_count=4, before=5, left=3, coming_back=2, after=1),
                ),
            ),
            "Not every pod finds another place: 2 budgets do not allow an eviction.",
            (
                "no pods are evicted",
                "blocked by budgets a/b, a/c until the evictions are allowed",
                "breaks gang a/g: 3 of 5 left, minCount 4, 1 placed at the end",
            ),
            [],
            (Tone.WAITING, Tone.BAD),
        ),
    ],
    ids=["empty", "moved", "back", "waiting", "lost", "stopped"],
)
def test_each_drained_node_is_a_numbered_section(
    node: DrainedNode, verdict: str, notes: tuple[str, ...], rows: list[tuple[str, ...]], tones: tuple[Tone, Tone]
) -> None:
    """whatif.md 7: the verdict first; a node in red where a budget stops it or a pod is lost."""
    whole, first, second = drain_sections(DrainPlan(nodes=(node, DrainedNode(name="n9", step=2))))
    assert (whole.title, first.title, second.title) == (verdict, "1. n1", "2. n9")
    assert (first.notes, [row.cells for row in first.rows]) == (notes, rows)
    assert first.columns == (("",) * 4 if rows else ())
    assert (whole.tone, first.tone) == tones


WAITS = QueueItem(position=1, kind="Pod", namespace="a", name="p", priority=5, pods=1, since=None, why="Resources")
DATED = replaced(WAITS, since="2026-05-04T03:02:01Z")
UNDATED_ORDER = "Workloads of equal priority without a creation time are tried in the order of the input."


@pytest.mark.parametrize(
    ("items", "title", "columns", "notes"),
    [
        ((WAITS,), "1 pending workload", ("#", "workload", "pods", "priority", "why"), ()),
        ((DATED,), "1 pending workload", ("#", "workload", "pods", "priority", "since", "why"), ()),
        (
            (WAITS, WAITS),
            "2 pending workloads, in the order they are tried",
            ("#", "workload", "pods", "priority", "why"),
            (UNDATED_ORDER,),
        ),
        (
            (WAITS, replaced(WAITS, priority=4), DATED),
            "3 pending workloads, in the order they are tried",
            ("#", "workload", "pods", "priority", "since", "why"),
            (),
        ),
        (
            (replaced(DATED, evicts=("a/x",)), DATED),
            "2 pending workloads, in the order they are tried",
            ("#", "workload", "pods", "priority", "since", "why", "would evict"),
            (),
        ),
    ],
    ids=["one", "dated", "undated-of-one-priority", "undated-of-two", "evicting"],
)
def test_queue_has_a_column_for_each_known_fact(
    items: tuple[QueueItem, ...], title: str, columns: tuple[str, ...], notes: tuple[str, ...]
) -> None:
    """whatif.md 6.1, 6.5: what decides where the input gives no times is a note, where it decides anything."""
    section = queue_section(Queue(items=items))
    assert (section.title, section.columns, section.notes) == (title, columns, notes)


@pytest.mark.parametrize(
    ("evicts", "named"),
    [
        (("a/v1",), "a/v1"),
        (("a/v1", "a/v2", "a/v3"), "a/v1, a/v2, a/v3"),
        (("a/v1", "a/v2", "a/v3", "a/v4"), "a/v1, a/v2, a/v3 and 1 more"),
        (("a/v1", "a/v2", "a/v3", "a/v4", "a/v5"), "a/v1, a/v2, a/v3 and 2 more"),
    ],
)
def test_queue_names_three_victims_and_counts_the_others(evicts: tuple[str, ...], named: str) -> None:
    help = Help(kind="Priority", sentence="A priority of 9.")
    items = (
        replaced(DATED, kind="PodGroup", pods=2, why="Preempting", evicts=evicts, help=(help,)),
        replaced(WAITS, position=2, why="Ready"),
    )
    first, second = queue_section(Queue(items=items)).rows
    assert first.cells == ("1", "podgroup a/p", "2", "5", "2026-05-04T03:02:01Z", "Preempting", named)
    assert (first.below, first.tone) == (("would help: A priority of 9.",), Tone.WAITING)
    assert second.cells == ("2", "pod a/p", "1", "5", "unknown", "Ready", "")
    assert (second.below, second.tone) == ((), Tone.GOOD)


def test_empty_queue_is_good_news() -> None:
    section = queue_section(Queue())
    assert (section.title, section.tone, section.columns) == ("No pods are pending.", Tone.GOOD, ())
