"""What `explain` and `history` read: objects, events and records of a server that answers what a test says.

The server is in the test's own process; requests that no path of it matches are not found.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec
import pytest
from aiohttp import web
from msgspec.structs import replace

from reprieve.cli import evidence
from reprieve.cli.evidence import Evidence, ExplainTarget, leaves_below, read_above
from reprieve.client.connection import Connection, Identity
from reprieve.client.errors import ApiError, ConfigError
from reprieve.client.kubeconfig import SCHEDULER_EXTENSION
from reprieve.decisions.records import DecisionRecord
from reprieve.observability.database.location import RecordsDatabase
from reprieve.observability.database.store import DatabaseStore
from tests import manifests
from tests.cli.test_demo_acts import MADE
from tests.client.scripted import Reply, scripted, status

Json = dict[str, Any]
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
FOREIGN = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
TREES = "/apis/scheduling.k8s.io/v1alpha3/namespaces/default/compositepodgroups"
PODS = "/api/v1/namespaces/default/pods"
EVENTS = "/api/v1/namespaces/default/events"
EVERY_POD = "/api/v1/pods"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/reprieve-scheduler"
TOKEN = Identity(token="secret")


def group(name: str, version: str, **kinds: str) -> Json:
    resources = [
        {"resource": plural, "responseKind": {"kind": kind}, "scope": "Cluster" if kind == "Node" else "Namespaced"}
        for kind, plural in kinds.items()
    ]
    return {"metadata": {"name": name}, "versions": [{"version": version, "resources": resources}]}


DISCOVERY: Mapping[str, Json] = {
    "/api": {"items": [group("", "v1", Pod="pods", Node="nodes")]},
    "/apis": {
        "items": [
            group("scheduling.k8s.io", "v1beta1", PodGroup="podgroups"),
            group("scheduling.k8s.io", "v1alpha3", CompositePodGroup="compositepodgroups"),
            group("scheduling.x-k8s.io", "v1alpha1", PodGroup="podgroups"),
        ]
    },
}


def pod(name: str, group: str = "", node: str = "") -> Json:
    return manifests.pod(name, group=group, node=node, meta={"namespace": "default", "uid": name})


def gang(name: str, parent: str = "") -> Json:
    of: Json = {"parentCompositePodGroupName": parent, "workloadRef": {"workloadName": "w", "templateName": name}}
    return manifests.gang(name, 1, meta={"namespace": "default"}, **(of if parent else {}))


def tree(name: str, parent: str = "") -> Json:
    spec: Json = {
        "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        "workloadRef": {"workloadName": "w", "templateName": name},
    }
    spec |= {"parentCompositePodGroupName": parent} if parent else {}
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": "scheduling.k8s.io/v1alpha3", "kind": "CompositePodGroup", "metadata": meta, "spec": spec}


def listed(*items: Json) -> Json:
    return {"metadata": {"resourceVersion": "7"}, "items": list(items)}


def record(number: int, kind: str = "Pod", name: str = "p", result: str = "Unschedulable", nodes: int = 0) -> Json:
    entity = {"kind": kind, "namespace": "default", "name": name}
    return {
        "id": number,
        "time": "",
        "entity": entity,
        "result": result,
        "message": "no",
        "attempt": 1,
        "timings": {"attemptSeconds": 0.0, "waitingSeconds": 0.0},
        "nodes": nodes,
    }


def answering(answers: Mapping[str, Json | int], seen: list[str]) -> Reply:
    """Each path its answer: a document, or the code of a refusal."""

    async def reply(request: web.Request) -> web.StreamResponse:
        seen.append(request.path_qs)
        found = answers.get(request.path, 404)
        return await status(found)(request) if isinstance(found, int) else web.json_response(found)

    return reply


def ask(
    asked: ExplainTarget,
    answers: Mapping[str, Json | int],
    records: str | None = None,
    extensions: Mapping[str, object] | None = None,
) -> Evidence:
    return asking(asked, answers, records, extensions)[0]


def asking(
    asked: ExplainTarget,
    answers: Mapping[str, Json | int],
    records: str | None = None,
    extensions: Mapping[str, object] | None = None,
) -> tuple[Evidence, list[str]]:
    """`SERVER` in `records` and `extensions` is the server itself."""
    seen: list[str] = []

    async def run() -> Evidence:
        async with scripted(answering({**DISCOVERY, **answers}, seen)) as server:
            of_context = json.loads(json.dumps(extensions or {}).replace("SERVER", server.url))
            there = Connection(server=server.url, source="test", identity=TOKEN, extensions=of_context)
            where = records.replace("SERVER", server.url) if records is not None else None
            return await evidence.gather(there, asked, where, suggest=False)

    return asyncio.run(run()), seen


RUNS = ExplainTarget("Pod", "default", "p")


def test_pod_is_read_with_its_group_and_all_trees_above() -> None:
    """The members are the pods of the group; names of the nearest tree first (composite.md 2)."""
    found, seen = asking(
        RUNS,
        {
            f"{PODS}/p": pod("p", "g", "n1"),
            PODS: listed(pod("p", "g", "n1"), pod("q", "g"), pod("other", "h"), pod("alone")),
            f"{GROUPS}/g": gang("g", "mid"),
            f"{TREES}/mid": tree("mid", "root"),
            f"{TREES}/root": tree("root"),
        },
    )
    assert found.exists
    assert found.pod is not None
    assert found.group is not None
    assert (found.pod.name, found.group.name, found.above, found.missing) == ("p", "g", ["mid", "root"], "")
    assert [member.name for member in found.members] == ["p", "q"]
    assert found.computed is None  # it runs: nothing is to be computed
    assert not any("/nodes" in each for each in seen)


def test_group_of_its_own_api_counts_before_one_of_another() -> None:
    answers: dict[str, Json | int] = {f"{PODS}/p": pod("p", "g", "n1"), PODS: listed(pod("p", "g", "n1"))}
    foreign = {**gang("g"), "apiVersion": "scheduling.x-k8s.io/v1alpha1", "spec": {"minMember": 3}}
    both, seen = asking(RUNS, {**answers, f"{GROUPS}/g": gang("g"), f"{FOREIGN}/g": foreign})
    assert both.group is not None
    assert (both.group.min_count, f"{FOREIGN}/g" in seen) == (1, False)
    one = ask(RUNS, {**answers, f"{FOREIGN}/g": foreign})
    assert one.group is not None
    assert one.group.min_count == 3


def test_pod_of_no_group_has_no_members_and_what_is_gone_is_no_error() -> None:
    found, seen = asking(RUNS, {f"{PODS}/p": pod("p", "", "n1")})
    assert (found.exists, found.group, found.members) == (True, None, [])
    assert not any(each.startswith((f"{PODS}?", GROUPS)) for each in seen)
    gone = ask(RUNS, {})
    assert (gone.exists, gone.pod, gone.members, gone.computed) == (False, None, [], None)


@pytest.mark.parametrize("path", [f"{PODS}/p", f"{GROUPS}/g"])
def test_forbidden_object_is_an_error_and_not_deleted(path: str) -> None:
    answers: dict[str, Json | int] = {f"{PODS}/p": pod("p", "g", "n1"), PODS: listed(), path: 403}
    with pytest.raises(ApiError) as refused:
        ask(RUNS, answers)
    assert refused.value.code == 403


def test_object_that_cannot_be_read_is_an_error_that_says_why() -> None:
    with pytest.raises(ApiError, match="containers"):
        ask(RUNS, {f"{PODS}/p": {**pod("p"), "spec": {"containers": 3}}})


def test_tree_has_the_pods_of_all_groups_below_it() -> None:
    found = ask(
        ExplainTarget("CompositePodGroup", "default", "mid"),
        {
            f"{TREES}/mid": tree("mid", "root"),
            f"{TREES}/root": tree("root", "gone"),
            TREES: listed(tree("root"), tree("mid", "root"), tree("low", "mid")),
            GROUPS: listed(gang("a", "mid"), gang("b", "low"), gang("c", "root"), gang("d")),
            FOREIGN: listed(),
            PODS: listed(*(pod(f"{name}-0", name, "n1") for name in "abcd"), pod("alone")),
        },
    )
    assert found.exists
    assert found.composite is not None
    assert (found.composite.name, found.above, found.missing) == ("mid", ["root"], "gone")
    assert [member.name for member in found.members] == ["a-0", "b-0"]
    assert (found.pod, found.group) == (None, None)


def test_trees_that_go_round_or_too_deep_are_read_no_further() -> None:
    """A tree has four levels (composite.md 1); what goes round is left once it is back."""
    answers: dict[str, Json | int] = {f"{PODS}/p": pod("p", "g", "n1"), PODS: listed(), f"{GROUPS}/g": gang("g", "t0")}
    chain: dict[str, Json | int] = {f"{TREES}/t{number}": tree(f"t{number}", f"t{number + 1}") for number in range(20)}
    assert ask(RUNS, {**answers, **chain}).above == [f"t{number}" for number in range(8)]
    round_: dict[str, Json | int] = {f"{TREES}/t0": tree("t0", "t1"), f"{TREES}/t1": tree("t1", "t0")}
    assert ask(RUNS, {**answers, **round_}).above == ["t0", "t1"]


# -- events --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "count", "at"),
    [
        ({"lastTimestamp": "2026-01-01T00:00:05Z", "count": 4}, 4, 5),
        ({"lastTimestamp": "2026-01-01T00:00:05Z"}, 1, 5),
        ({"eventTime": "2026-01-01T00:00:06.500000Z"}, 1, 6.5),
        ({"eventTime": "2026-01-01T00:00:06Z", "lastTimestamp": "2026-01-01T00:00:07Z"}, 1, 7),
        (
            {
                "eventTime": "2026-01-01T00:00:06Z",
                "lastTimestamp": "2026-01-01T00:00:07Z",
                "count": 2,
                "series": {"count": 9, "lastObservedTime": "2026-01-01T00:00:08Z"},
            },
            9,
            8,
        ),
        ({"eventTime": "2026-01-01T00:00:06Z", "series": {"count": 9}}, 9, 6),
        ({"count": 4, "series": {"lastObservedTime": "2026-01-01T00:00:08Z"}}, 1, 8),
        ({}, 1, None),
        ({"eventTime": "yesterday"}, 1, None),
    ],
)
def test_event_says_how_often_and_when_last(event: Json, count: int, at: float | None) -> None:
    """In each of the forms that events have (core/v1): counted, of a series, once."""
    begin = 1_767_225_600.0  # 2026-01-01T00:00:00Z
    found = ask(RUNS, {EVENTS: {"items": [{"type": "Warning", "reason": "R", "message": "m", **event}]}})
    [one] = found.events
    assert (one.type, one.reason, one.note, one.count) == ("Warning", "R", "m", count)
    assert one.at == (begin + at if at is not None else 0.0)


def test_events_are_those_of_the_object_in_order_of_time() -> None:
    items = [{"reason": name, "eventTime": f"2026-01-01T00:00:0{at}Z"} for name, at in (("b", 2), ("c", 3), ("a", 1))]
    found, seen = asking(ExplainTarget("PodGroup", "default", "g"), {PODS: listed(), EVENTS: {"items": items}})
    assert [each.reason for each in found.events] == ["a", "b", "c"]
    [asked] = [each for each in seen if each.startswith(EVENTS)]
    assert unquote(asked).endswith("?fieldSelector=involvedObject.kind=PodGroup,involvedObject.name=g")
    refused = ask(RUNS, {EVENTS: 403})
    assert refused.events == []
    [warning] = [each for each in refused.warnings if each.startswith("events not read: ")]
    assert "403" in warning


# -- records -------------------------------------------------------------------------------------------------------


def test_records_are_those_of_the_object_its_group_and_the_root_of_its_tree_newest_first() -> None:
    """Each once, though several questions find it."""
    answers: dict[str, Json | int] = {
        f"{PODS}/p": pod("p", "g", "n1"),
        PODS: listed(),
        f"{GROUPS}/g": gang("g", "mid"),
        f"{TREES}/mid": tree("mid", "root"),
        f"{TREES}/root": tree("root"),
        EVENTS: {"items": []},
        "/explain": {"items": [record(2), record(5), record(3)]},
    }
    found, seen = asking(RUNS, answers, "SERVER/")
    assert [one.id for one in found.records] == [5, 3, 2]
    assert found.source.startswith("http://127.0.0.1:")
    assert [each for each in seen if each.startswith("/explain")] == [
        "/explain?kind=Pod&namespace=default&name=p",
        "/explain?kind=PodGroup&namespace=default&name=g",
        "/explain?kind=CompositePodGroup&namespace=default&name=root",
    ]
    assert found.warnings == []


@pytest.mark.parametrize(
    ("records", "message"),
    [
        ("ftp://127.0.0.1/", "ftp://127.0.0.1/: expected http://HOST:PORT, https://HOST:PORT, postgresql:"),
        ("http://", "http://: expected http://HOST:PORT, https://HOST:PORT, postgresql:"),
        ("http://[::1", "http://[::1: not a URL"),
        ("nowhere.db", "nowhere.db: not a file of decision records"),
    ],
)
def test_records_that_are_named_and_cannot_be_read_are_an_error(records: str, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        ask(RUNS, {}, records)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("extension", "found", "warning"),
    [
        ({"url": "SERVER"}, [5], ""),
        ({"url": "", "records": "SERVER"}, [5], ""),
        ({}, [], ""),
        ("SERVER", [], ""),
        ({"url": "SERVER/none"}, [], "the scheduler's records could not be read: "),
        ({"url": "SERVER", "certificate-authority-data": "*"}, [], "certificate-authority-data: not base64"),
        ({"url": "SERVER", "certificate-authority-data": base64.b64encode(b"x").decode()}, [5], ""),
        ({"url": "SERVER", "certificate-authority-data": 3}, [5], ""),
    ],
)
def test_context_says_where_the_records_are(extension: object, found: list[int], warning: str) -> None:
    answers: Mapping[str, Json | int] = {"/explain": {"items": [record(5)]}}
    gathered = ask(RUNS, answers, extensions={"reprieve.dev/scheduler": extension})
    assert [one.id for one in gathered.records] == found
    shown = [each for each in gathered.warnings if each.startswith("the scheduler's records")]
    assert len(shown) == bool(warning)
    assert warning in "".join(shown)
    assert bool(gathered.source) == bool(found)


def our_pod(name: str, namespace: str = "ours") -> Json:
    return {"metadata": {"name": name, "namespace": namespace}}


def lease(holder: str) -> Json:
    return {"spec": {"holderIdentity": holder}}


LEASES = "/apis/coordination.k8s.io/v1/namespaces/ours/leases"
PROXY = "/api/v1/namespaces/ours/pods/https:leader:10259/proxy/explain"
LED: Mapping[str, Json | int] = {PROXY: {"items": [record(5)]}}


@pytest.mark.parametrize(
    ("answers", "found"),
    [
        ({EVERY_POD: {"items": [our_pod("standby"), our_pod("leader")]}, LEASE: lease("leader_uuid")}, True),
        ({EVERY_POD: {"items": [our_pod("standby"), our_pod("leader")]}, LEASES: {"items": [lease("leader_u")]}}, True),
        ({EVERY_POD: {"items": [our_pod("leader")]}, LEASE: 403, LEASES: {"items": [{}, lease("leader_u")]}}, True),
        ({EVERY_POD: {"items": [our_pod("standby")]}, LEASES: {"items": [lease("leader_u")]}}, False),
        ({EVERY_POD: {"items": [our_pod("leader")]}, LEASES: {"items": [{"spec": {}}]}}, False),
        ({EVERY_POD: {"items": None}, LEASE: 404}, False),
        ({EVERY_POD: 403}, False),
        ({EVERY_POD: 401}, False),
        ({}, False),
    ],
)
def test_leader_is_asked_by_way_of_the_api_server(answers: Mapping[str, Json | int], found: bool) -> None:
    """It is our pod that holds a lease; without the right to read leases nothing is reported of it."""
    gathered = ask(RUNS, {LEASES: {"items": []}, **LED, **answers})
    assert [one.id for one in gathered.records] == ([5] if found else [])
    assert gathered.source == ("the scheduler's pod leader" if found else "")
    assert gathered.warnings == [each for each in gathered.warnings if "events" in each]


def test_leader_that_refuses_is_a_warning() -> None:
    answers: Mapping[str, Json | int] = {
        EVERY_POD: {"items": [our_pod("leader")]},
        LEASES: {"items": []},
        LEASE: lease("leader"),
        PROXY: 403,
    }
    [shown] = [each for each in ask(RUNS, answers).warnings if "records" in each]
    assert shown.startswith("the scheduler's records could not be read: ")


@pytest.mark.parametrize(
    ("records", "computed"),
    [
        ([], True),
        ([record(1, nodes=500)], True),
        ([record(1, nodes=501)], False),
        ([record(1, result="Preempting", nodes=1)], False),
        ([record(1, nodes=501), record(2, nodes=1)], True),
        ([record(1, nodes=1), record(2, nodes=501)], False),
    ],
)
def test_suggestions_come_from_the_last_record_in_clusters_of_up_to_500_nodes(
    records: list[Json], computed: bool
) -> None:
    """A pod with records of a small cluster, or none, is explained from the API server's objects."""
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}
    answers: dict[str, Json | int] = {
        f"{PODS}/p": pod("p"),
        "/api/v1/nodes": listed(node),
        EVERY_POD: listed(pod("p")),
        "/apis/scheduling.k8s.io/v1beta1/podgroups": listed(),
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": listed(),
        "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups": listed(),
        "/explain": {"items": records},
    }
    found = ask(RUNS, answers, "SERVER" if records else None)
    assert (found.computed is not None) == computed
    if found.computed is not None:
        assert found.computed.fits


@pytest.mark.parametrize(
    ("asked", "on", "worked_out"),
    [
        (RUNS, ("", "n1"), True),
        (RUNS, ("n1", ""), False),
        (ExplainTarget("PodGroup", "default", "g"), ("n1", ""), True),
        (ExplainTarget("PodGroup", "default", "g"), ("n1", "n1"), False),
        (ExplainTarget("PodGroup", "default", "gone"), ("", ""), False),
    ],
)
def test_plan_is_computed_for_pending_pods_alone(asked: ExplainTarget, on: tuple[str, str], worked_out: bool) -> None:
    """Of a pod by itself, of a group if one of its pods waits; of what is gone nothing."""
    pods = [pod("p", "g", on[0]), pod("q", "g", on[1])]
    node = {"metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": "1", "pods": "9"}}}
    answers: dict[str, Json | int] = {
        f"{PODS}/p": pods[0],
        f"{GROUPS}/g": gang("g"),
        PODS: listed(*pods),
        "/api/v1/nodes": listed(node),
        EVERY_POD: listed(*pods),
        "/apis/scheduling.k8s.io/v1beta1/podgroups": listed(gang("g")),
        "/apis/scheduling.x-k8s.io/v1alpha1/podgroups": listed(),
        "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups": listed(),
    }
    found = ask(asked, answers)
    assert (found.computed is not None) == worked_out
    if found.computed is not None:
        assert found.computed.fits


def evictions(records: str | None, answers: Mapping[str, Json | int]) -> tuple[list[int], str, list[str]]:
    seen: list[str] = []

    async def run() -> tuple[list[int], str]:
        async with scripted(answering({**DISCOVERY, **answers}, seen)) as server:
            there = Connection(server=server.url, source="test")
            where = records.replace("SERVER", server.url) if records is not None else None
            found, source = await evidence.evictions(there, 12.5, where)
            return [one.id for one in found], source.replace(server.url, "SERVER")

    return *asyncio.run(run()), seen


def test_preemptions_since_a_time_are_asked_for_by_it() -> None:
    answers: Mapping[str, Json | int] = {"/explain": {"items": [record(1), record(2)]}}
    assert evictions("SERVER", answers) == ([2, 1], "SERVER", ["/explain?since=12.5"])


def test_preemptions_since_a_time_are_read_from_the_file_of_the_context(tmp_path: Path) -> None:
    """Records of attempts without evictions are no preemptions, and older ones are left out."""
    store = DatabaseStore(RecordsDatabase(tmp_path / "decisions.db"))
    for number, time, made in ((1, "1970-01-01T00:00:12Z", MADE), (2, LATER, MADE), (3, LATER, None)):
        entry = msgspec.convert(record(number), DecisionRecord)
        store.put(replace(entry, time=time, preemption=made), [("Pod", "default", "p")])
    store.close()
    there = Connection(
        "https://api", "test", extensions={SCHEDULER_EXTENSION: {"records": str(tmp_path / "decisions.db")}}
    )
    found, source = asyncio.run(evidence.evictions(there, 12.5, None))
    assert ([one.id for one in found], source) == ([2], str(tmp_path / "decisions.db"))


LATER = "1970-01-01T00:00:13Z"


def test_preemptions_without_records_are_an_error() -> None:
    with pytest.raises(ConfigError) as refused:
        evictions(None, {})
    expected = "no scheduler that keeps decision records was found (set their location with --records URL|FILE)"
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    "answers",
    [
        {EVERY_POD: {"items": [our_pod("leader")]}, LEASES: {"items": []}, LEASE: lease("leader"), PROXY: 403},
        {EVERY_POD: 401},
        {EVERY_POD: 403},
        {EVERY_POD: {"items": [our_pod("leader")]}, LEASE: lease("x"), LEASES: 403},
    ],
)
def test_refusal_is_no_scheduler_without_records(answers: Mapping[str, Json | int]) -> None:
    """interfaces.md 1.9: `history` ends with exit code 3 and the server's words."""
    with pytest.raises(ApiError) as refused:
        evictions(None, answers)
    assert refused.value.code in (401, 403)


@pytest.mark.parametrize(
    ("where", "trusted"),
    [
        ("http://localhost:1", True),
        ("http://127.0.0.1:1", True),
        ("http://[::1]:1", True),
        ("https://scheduler.example:1", True),
        ("http://scheduler.example:1", False),
        ("http://127.0.0.2:1", False),
    ],
)
def test_token_goes_to_this_machine_or_behind_tls_alone(
    where: str, trusted: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Connection] = []

    class Noted:
        def __init__(self, connection: Connection, **_: object) -> None:
            asked.append(connection)

        async def __aenter__(self) -> Noted:
            raise ConfigError("enough")

        async def __aexit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr(evidence, "ApiClient", Noted)
    with pytest.raises(ConfigError, match="enough"):
        asyncio.run(evidence._from(f"{where}/", Connection("https://api", "test", identity=TOKEN), [RUNS], ca=b"ca"))
    [there] = asked
    assert there.identity == (TOKEN if trusted else Identity())
    assert (there.server, there.tls.ca_data, there.source) == (where, b"ca", "--records")


# -- trees of groups in files --------------------------------------------------------------------------------------


def test_above_and_below_of_what_is_known_by_name() -> None:
    from kube_rules import objects
    from reprieve.client.decoding import stored
    from reprieve.client.discovery import Resource

    def read(manifest: Json) -> Any:
        kind: Any = {"PodGroup": objects.PodGroup, "CompositePodGroup": objects.CompositePodGroup}[manifest["kind"]]
        group_name, _, version = manifest["apiVersion"].rpartition("/")
        resource = Resource(group_name, version, "any", manifest["kind"], True)
        return stored(kind, json.dumps(manifest).encode(), resource)

    chain = {f"t{number}": read(tree(f"t{number}", f"t{number + 1}")) for number in range(20)}
    deep = Evidence(RUNS)
    read_above(deep, "t0", chain)
    assert (deep.above, deep.missing) == ([f"t{number}" for number in range(8)], "")
    short = Evidence(RUNS)
    read_above(short, "t18", chain)
    assert (short.above, short.missing) == (["t18", "t19"], "t20")
    none = Evidence(RUNS)
    read_above(none, "", chain)
    assert (none.above, none.missing) == ([], "")
    round_ = Evidence(RUNS)
    read_above(round_, "a", {"a": read(tree("a", "b")), "b": read(tree("b", "a"))})
    assert (round_.above, round_.missing) == (["a", "b"], "")
    trees = {"mid": read(tree("mid", "root")), "low": read(tree("low", "mid")), "root": read(tree("root"))}
    groups = {name: read(gang(name, parent)) for name, parent in (("a", "low"), ("b", "mid"), ("c", "root"), ("d", ""))}
    assert leaves_below("mid", trees, groups) == {"a", "b"}
    assert leaves_below("root", trees, groups) == {"a", "b", "c"}
    assert leaves_below("none", trees, groups) == set()


def test_records_of_a_file_are_those_of_the_object(tmp_path: Path) -> None:
    file = tmp_path / "decisions.db"
    store = DatabaseStore(RecordsDatabase(file))
    for number, name in enumerate(("p", "q", "p"), 1):
        entry = msgspec.convert(record(number, name=name, nodes=501), DecisionRecord)
        store.put(replace(entry, time=LATER), [("Pod", "default", name)])
    store.close()
    found = ask(RUNS, {f"{PODS}/p": pod("p")}, str(file))
    assert [one.entity.name for one in found.records] == ["p", "p"]
    assert found.source == str(file)


def test_file_of_something_else_is_no_file_of_records(tmp_path: Path) -> None:
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    with pytest.raises(ConfigError, match="not a file of decision records"):
        ask(RUNS, {}, str(tmp_path / "x.db"))
