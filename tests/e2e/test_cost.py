"""Victims by their cost, and budgets that are respected, with `reprieve up` (cost.md 1, 2): read off the watches.

Each part has a namespace and nodes of its own.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.e2e.cluster import (
    CLASSES,
    GROUPS,
    History,
    Json,
    Up,
    condition,
    eventually,
    is_preempted,
    is_running,
    nodes_file,
    pod,
    pod_group,
    preemption_config,
    priority_class,
    up,
)

GPUS = 8
"""GPUs of a node; every pod here takes a whole one."""
NODES = {f"{pool}{index}": {"pool": pool} for pool, size in (("a", 3), ("b", 4), ("c", 4)) for index in range(size)}
CHECKPOINT = "scheduling.reprieve.dev/last-checkpoint"
PDB_POLICY = "scheduling.reprieve.dev/pdb-policy"
BUDGETS = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
BUDGET_TOLD = "a PodDisruptionBudget would be violated"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    directory = tmp_path_factory.mktemp("cost")
    nodes = nodes_file(directory, *NODES, gpus=str(GPUS), labels=NODES)
    args = {"cost": ["lostWork", "pods", "startTime"]}
    # A rejected pod is tried again within a second, not within ten.
    config = preemption_config(directory, args, podMaxBackoffSeconds=1)
    with up(directory, f"--nodes-file={nodes}", f"--config={config}") as running:
        respects = priority_class("respects", 1000)
        respects["metadata"]["annotations"] = {PDB_POLICY: "Respect"}
        for item in (priority_class("low", 100), priority_class("high", 1000), respects):
            running.heard(running.api.create(CLASSES, item))
        yield running
        assert "Traceback" not in running.log.read_text(), running.log.read_text()


def full(name: str, pool: str, priority: str, group: str | None = None) -> Json:
    """A pod that takes a whole node of a pool, with its GPUs."""
    made = pod(name, cpu="4", priority=priority, group=group, selector={"pool": pool})
    resources = made["spec"]["containers"][0]["resources"]
    # An extended resource is asked for by its limit as well.
    resources["limits"] = {"nvidia.com/gpu": str(GPUS)}
    resources["requests"]["nvidia.com/gpu"] = str(GPUS)
    return made


def stamp(when: datetime) -> str:
    return f"{when:%Y-%m-%dT%H:%M:%SZ}"


def names(history: History, check: Callable[[Json], bool]) -> set[str]:
    """Names of the objects that were so at some time."""
    found: set[str] = set()

    def note(item: Json) -> bool:
        if check(item):
            found.add(item["metadata"]["name"])
        return False

    history.seen(note)
    return found


def firsts(history: History, check: Callable[[Json], bool]) -> list[int]:
    """When, in the server's revisions, the objects were so for the first time; each object counts once."""
    found: dict[str, int] = {}

    def note(item: Json) -> bool:
        if check(item):
            found.setdefault(item["metadata"]["uid"], int(item["metadata"]["resourceVersion"]))
        return False

    history.seen(note)
    return sorted(found.values())


def first_told(history: History) -> datetime:
    """When the first one was deleted."""
    times: list[datetime] = []

    def note(item: Json) -> bool:
        if is_preempted(item):
            times.append(datetime.fromisoformat(condition(item, "DisruptionTarget")["lastTransitionTime"]))
        return False

    history.seen(note)
    return min(times)


def preemption_of(cluster: Up, group: str, space: str, home: Path) -> Json | None:
    """The last preemption for a group as its records tell it, or None."""
    answer = json.loads(cluster.explained("podgroup", group, space, home, "json"))
    made = [record["preemption"] for record in answer["records"] if (record.get("preemption") or {}).get("evicted")]
    return made[-1] if made else None


def test_preemptor_that_respects_budgets_waits_until_they_allow_and_takes_no_more(cluster: Up, tmp_path: Path) -> None:
    """cost.md 2.8: no protected pod is deleted before the budget allows it; then as many are as it allows."""
    space = "budgets"
    path = cluster.workplace(space)
    api = cluster.api
    budgets = BUDGETS.format(namespace=space)
    web = {"web-0", "web-1", "web-2"}
    api.create(
        budgets,
        {"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"app": "web"}}, "minAvailable": 3}},
    )

    def allows(number: int, healthy: int, generation: int) -> Callable[[Json], bool]:
        """The controller has counted these, for this version of the budget."""
        wanted = {"disruptionsAllowed": number, "currentHealthy": healthy, "observedGeneration": generation}
        return lambda item: wanted.items() <= (item.get("status") or {}).items()

    def is_refused(item: Json) -> bool:
        return BUDGET_TOLD in condition(item, "PodScheduled").get("message", "")

    def urgent(item: Json) -> bool:
        return item["metadata"]["name"].startswith("urgent") and is_running(item)

    with api.history(path) as pods, api.history(budgets) as seen:
        for name in sorted(web):
            item = full(name, "a", "low")
            item["metadata"]["labels"] = {"app": "web"}
            api.create(path, item)
        seen.until(lambda: seen.seen(allows(0, 3, 1)), "the budget counts all three and allows none")
        cluster.heard(api.get(f"{budgets}/web"))
        for name in ("urgent-0", "urgent-1"):
            api.create(path, full(name, "a", "respects"))
        pods.until(lambda: len(pods.seen(is_refused)) == 2, "both say that the budget forbids it")
        said = cluster.explained("pod", "urgent-0", space, tmp_path)
        assert BUDGET_TOLD in said, said
        assert pods.seen(is_preempted) == set()

        api.patch(f"{budgets}/web", {"spec": {"minAvailable": 2}})
        pods.until(lambda: pods.seen(urgent), "one of them running")
        seen.until(lambda: seen.seen(allows(0, 2, 2)), "the budget allows none again")
        [first] = names(pods, urgent)
        [other] = {"urgent-0", "urgent-1"} - {first}
        said = cluster.explained("pod", other, space, tmp_path)
        assert BUDGET_TOLD in said, said
        assert len(pods.seen(is_preempted)) == 1

        # The victim was deleted after the controller had written that one may be.
        [written], [told] = firsts(seen, allows(1, 3, 2)), firsts(pods, is_preempted)
        assert written < told

        # Without a budget nothing keeps the other one waiting.
        api.delete(f"{budgets}/web")
        pods.until(lambda: len(pods.seen(urgent)) == 2, "the other one running")
        gone = names(pods, is_preempted)
        assert len(gone) == 2
        assert gone < web
    assert api.runs(*(web - gone), namespace=space)


@pytest.mark.parametrize(
    ("space", "pool", "changes", "goes"),
    [
        pytest.param("saved", "b", False, "beta", id="as-they-were-made"),
        pytest.param("changed", "c", True, "alpha", id="changed-while-they-run"),
    ],
)
def test_gang_that_saved_its_work_a_minute_ago_is_evicted_of_two_equal_ones(
    cluster: Up, tmp_path: Path, space: str, pool: str, changes: bool, goes: str
) -> None:
    """cost.md 1.3, 2.1, 2.4: what the groups say when the preemptor comes counts, and the record says what is lost."""
    path = cluster.workplace(space)
    groups = GROUPS.format(namespace=space)
    api = cluster.api
    now = datetime.now(UTC).replace(microsecond=0)
    start, long_ago, just_now = now - timedelta(hours=3), now - timedelta(hours=2), now - timedelta(minutes=1)
    members = {gang: {f"{gang}-{index}" for index in range(2)} for gang in ("alpha", "beta")}
    with api.history(path) as pods:
        for gang, when in (("alpha", long_ago), ("beta", just_now)):
            group = pod_group(gang, 2, priority="low", mode="all")
            group["metadata"]["annotations"] = {CHECKPOINT: stamp(when)}
            api.create(groups, group)
            for name in sorted(members[gang]):
                api.create(path, full(name, pool, "low", gang))
        pods.until(lambda: len(pods.seen(is_running)) == 4, "both gangs running")
        for name in sorted(members["alpha"] | members["beta"]):
            api.patch(f"{path}/{name}/status", {"status": {"startTime": stamp(start)}})
        if changes:
            for gang, when in (("alpha", just_now), ("beta", long_ago)):
                api.patch(f"{groups}/{gang}", {"metadata": {"annotations": {CHECKPOINT: stamp(when)}}})
        # A group: it comes by the same watches as what was changed, and after it.
        api.create(groups, pod_group("urgent", 2, priority="high"))
        came = [api.create(path, full(f"urgent-{index}", pool, "high", "urgent")) for index in range(2)]
        pods.until(lambda: {"urgent-0", "urgent-1"} <= names(pods, is_running), "the preemptor running")
        assert names(pods, is_preempted) == members[goes]
        told = first_told(pods)
    [stays] = members.keys() - {goes}
    assert api.runs(*members[stays], namespace=space)

    record = eventually(
        lambda: preemption_of(cluster, "urgent", space, tmp_path), "the record of the preemption that was carried out"
    )
    assert record is not None
    assert [unit["unit"] for unit in record["evicted"]] == [f"{space}/{goes}"]
    hours = record["cost"]["lostGpuHours"]
    # Decided between the coming of the preemptor's last pod and the first word to a victim; the API has whole seconds.
    soonest, latest = datetime.fromisoformat(came[-1]["metadata"]["creationTimestamp"]), told + timedelta(seconds=1)
    least, most = ((when - just_now).total_seconds() * 2 * GPUS / 3600 for when in (soonest, latest))
    assert least - 0.001 <= hours <= most + 0.001
    said = cluster.explained("podgroup", "urgent", space, tmp_path)
    words = re.search(r"Unsaved work lost: ([0-9.]+) GPU-hours\.", said)
    assert words is not None, said
    assert float(words[1]) == pytest.approx(hours, rel=0.01)
