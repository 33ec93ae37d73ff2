"""A plan is what a cluster does: the same manifests in `plan` and in a running `reprieve up` (whatif.md 1, 14).

Each example has a namespace of its own on the same three nodes. Objects are created one step after the other; before
the next step the cluster must have come to what the plan of the steps so far says: which pods exist and where they run,
what is refused with which message, which are evicted, and what the conditions of pods and groups say. In the plan the
steps are a Scenario. A mismatch is a state that the cluster does not come to, however long one waits (`DEADLINE`).

The scheduler hears of all pods of a step at once: what preempts together is decided together. What breaks ties is the
same on both sides: of earlier steps the plan gets the pods as the cluster stored them, with their UIDs, and after each
step the starts of the cluster's pods are put in the order of the plan. Kubelets write whole seconds, so two pods of a
gang may differ by one.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from kube_rules.admission.amounts import ZERO, Amounts, added, amounts
from kube_rules.admission.quotas import counted
from kube_rules.admission.usage import classes_of_groups
from reprieve.inputs.loader import read
from reprieve.python.cluster import load
from reprieve.python.plans import PlanResult, plan
from tests.drawing import examples
from tests.e2e.cluster import CLASSES, GROUPS, PODS, Json, Up, condition, eventually, nodes_file, priority_class, up

NODES = ("n1", "n2", "n3")
CPU = 4
VALUES = {"low": 10, "mid": 20, "high": 30, "never": 25}
APP = {"app": "x"}
BUDGETS = "/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets"
QUOTAS = "/api/v1/namespaces/{namespace}/resourcequotas"
COLLECTIONS = {
    "Pod": PODS,
    "PodGroup": GROUPS,
    "Job": "/apis/batch/v1/namespaces/{namespace}/jobs",
    "Deployment": "/apis/apps/v1/namespaces/{namespace}/deployments",
    "StatefulSet": "/apis/apps/v1/namespaces/{namespace}/statefulsets",
    "PodDisruptionBudget": BUDGETS,
    "ResourceQuota": QUOTAS,
    "LimitRange": "/api/v1/namespaces/{namespace}/limitranges",
}
VERSIONS = {
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "Job": "batch/v1",
    "Deployment": "apps/v1",
    "StatefulSet": "apps/v1",
    "PodDisruptionBudget": "policy/v1",
}
GATED = "Gated"
Step = tuple[str, list[Json]]
"""(create or delete, objects)."""


# -- what is drawn -------------------------------------------------------------------------------------------------


def made(kind: str, name: str, spec: Json, **metadata: Any) -> Json:
    return {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def pod_spec(cpu: int, limit: int, class_name: str, **more: Any) -> Json:
    amounts = {part: {"cpu": str(amount)} for part, amount in (("requests", cpu), ("limits", limit)) if amount}
    containers = [{"name": "c", "image": "x", "resources": amounts}]
    classed = {"priorityClassName": class_name} if class_name else {}
    return {"containers": containers, "terminationGracePeriodSeconds": 0, **classed, **more}


CLASS_NAMES = st.sampled_from(["", "low", "mid", "high", "never"])
AMOUNTS = st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 0, 3, 4]))


@st.composite
def pods(draw: st.DrawFn, name: str) -> list[Json]:
    cpu, limit = draw(AMOUNTS)
    more: Json = {"activeDeadlineSeconds": 3600} if draw(st.integers(0, 5)) == 0 else {}
    if draw(st.integers(0, 3)) == 0:
        more["nodeSelector"] = {"kubernetes.io/hostname": draw(st.sampled_from(NODES))}
    labels = APP if draw(st.booleans()) else {}
    return [made("Pod", name, pod_spec(cpu, limit, draw(CLASS_NAMES), **more), labels=labels)]


@st.composite
def gangs(draw: st.DrawFn, name: str) -> list[Json]:
    """A group and its pods; now and then the pods have another class than the group."""
    count, class_name = draw(st.integers(2, 3)), draw(CLASS_NAMES)
    of_pods = draw(CLASS_NAMES) if draw(st.integers(0, 4)) == 0 else class_name
    mode = draw(st.sampled_from(["single", "all"]))
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": count}}, "disruptionMode": {mode: {}}}
    if class_name:
        spec["priorityClassName"] = class_name
    of_pod = pod_spec(draw(st.integers(1, 4)), 0, of_pods, schedulingGroup={"podGroupName": name})
    return [made("PodGroup", name, spec), *(made("Pod", f"{name}-{at}", of_pod) for at in range(count))]


@st.composite
def controllers(draw: st.DrawFn, name: str) -> list[Json]:
    """A controller of the highest class: its pods are no victims, which it would make again."""
    kind = draw(st.sampled_from(["Job", "Deployment", "StatefulSet"]))
    number, (cpu, limit) = draw(st.integers(1, 4)), draw(AMOUNTS)
    spec = pod_spec(cpu, limit, "high")
    if kind == "Job":
        template = {"spec": {**spec, "restartPolicy": "Never"}}
        return [made(kind, name, {"parallelism": number, "completions": number, "template": template})]
    labels = {"of": name}
    more = {"serviceName": name, "podManagementPolicy": "Parallel"} if kind == "StatefulSet" else {}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return [made(kind, name, {"replicas": number, "selector": {"matchLabels": labels}, "template": template, **more})]


@st.composite
def quotas(draw: st.DrawFn) -> Json:
    scope = draw(st.sampled_from(["", "", "Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "class"]))
    hard: Json = {"pods": str(draw(st.integers(1, 6)))}
    if scope != "BestEffort" and draw(st.booleans()):
        hard[draw(st.sampled_from(["requests.cpu", "cpu", "limits.cpu"]))] = str(draw(st.integers(2, 9)))
    spec: Json = {"hard": hard}
    if scope == "class":
        chosen = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2, unique=True))
        expression = {"scopeName": "PriorityClass", "operator": draw(st.sampled_from(["In", "NotIn"]))}
        spec["scopeSelector"] = {"matchExpressions": [{**expression, "values": chosen}]}
    elif scope:
        spec["scopes"] = [scope]
    return made("ResourceQuota", "quota", spec)


@st.composite
def limit_ranges(draw: st.DrawFn) -> Json:
    item: Json = {"type": draw(st.sampled_from(["Container", "Container", "Pod"]))}
    if item["type"] == "Container" and draw(st.booleans()):
        item["defaultRequest"] = {"cpu": "1"}
    if item["type"] == "Container" and draw(st.booleans()):
        item["default"] = {"cpu": "2"}
    bound = draw(st.sampled_from(["", "min", "max", "maxLimitRequestRatio"]))
    if bound:
        item[bound] = {"cpu": {"min": "1", "max": "3", "maxLimitRequestRatio": "2"}[bound]}
    return made("LimitRange", "limits", {"limits": [item]})


@st.composite
def budgets(draw: st.DrawFn, name: str) -> list[Json]:
    bound = draw(st.sampled_from(["minAvailable", "minAvailable", "maxUnavailable"]))
    return [made("PodDisruptionBudget", name, {bound: draw(st.integers(0, 2)), "selector": {"matchLabels": APP}})]


@st.composite
def stories(draw: st.DrawFn) -> tuple[list[Json], list[Step]]:
    """What limits the namespace, and the steps."""
    limits = [draw(quotas())] if draw(st.booleans()) else []
    limits += [draw(limit_ranges())] if draw(st.integers(0, 2)) == 0 else []
    steps: list[Step] = []
    alone: list[Json] = []
    for turn in range(draw(st.integers(2, 6))):
        kind = draw(st.sampled_from(["pod", "pod", "pod", "gang", "gang", "controller", "budget", "delete"]))
        if kind == "delete" and alone:
            steps.append(("delete", [alone.pop(draw(st.integers(0, len(alone) - 1)))]))
        elif kind == "gang":
            steps.append(("create", draw(gangs(f"g{turn}"))))
        elif kind == "controller":
            steps.append(("create", draw(controllers(f"w{turn}"))))
        elif kind == "budget":
            steps.append(("create", draw(budgets(f"b{turn}"))))
        else:
            steps.append(("create", draw(pods(f"p{turn}"))))
            alone += steps[-1][1]
    return limits, steps


# -- what the plan says --------------------------------------------------------------------------------------------


def expected(namespace: str, limits: list[Json], steps: list[Step]) -> PlanResult:
    """The plan of the steps so far."""
    nodes = [
        {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
         "status": {"allocatable": {"cpu": str(CPU), "memory": "16Gi", "pods": "20"}}}
        for name in NODES
    ]  # fmt: skip
    documents = [*nodes, *(priority_class(name, value, **_policy(name)) for name, value in VALUES.items())]
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "metadata": {"name": "story"},
        "spec": {"steps": [_step(namespace, *step) for step in (("create", limits), *steps)]},
    }
    return plan(load(read([(f"document {at}", one) for at, one in enumerate((*documents, scenario))])), suggest=False)


def _policy(name: str) -> Json:
    return {"preemptionPolicy": "Never"} if name == "never" else {}


def _step(namespace: str, verb: str, objects: list[Json]) -> Json:
    if verb == "delete":
        return {"delete": [{"kind": "Pod", "namespace": namespace, "name": one["metadata"]["name"]} for one in objects],
                "wait": "settled"}  # fmt: skip
    return {"create": [_within(namespace, one) for one in objects], "together": True, "wait": "settled"}


def _within(namespace: str, manifest: Json) -> Json:
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def owner_of(name: str) -> str:
    """The controller of a pod; empty for one by itself."""
    return name.split("-")[0] if name.startswith("w") else ""


def planned_state(result: PlanResult) -> Json:
    """In terms that a cluster has as well; pods of a controller are counted, as their names are random there."""
    running = {key.partition("/")[2]: node for key, node in result.cluster.pods.items()}
    waiting = [one for one in result.plan.pods if one.name in running and running[one.name] is None]
    reasons: dict[str, str | None] = {one.name: GATED if one.outcome == "Gated" else one.reason for one in waiting}
    return _state(running, reasons, {one.name: _scheduled(one.outcome) for one in result.plan.pod_groups})


def _scheduled(outcome: str) -> str:
    return {"Scheduled": "True", "Gated": ""}.get(outcome, "False")


def _state(running: dict[str, str | None], reasons: dict[str, str | None], groups: Json) -> Json:
    places: Counter[str] = Counter()
    for name, node in running.items():
        places[f"{owner_of(name) or name} on {node or 'no node'}"] += 1
    why = {f"{owner_of(name) or name}": reason for name, reason in reasons.items()}
    return {"pods": dict(sorted(places.items())), "pending": dict(sorted(why.items())), "groups": groups}


# -- what the cluster does -----------------------------------------------------------------------------------------


def state_of(cluster: Up, namespace: str, groups: list[str]) -> Json:
    """How it is now."""
    api = cluster.api
    there = {name: one for name, one in api.pods(namespace).items() if "deletionTimestamp" not in one["metadata"]}
    running = {name: one["spec"].get("nodeName") for name, one in there.items()}
    reasons: dict[str, str | None] = {
        name: _reason(condition(there[name], "PodScheduled")) for name, node in running.items() if not node
    }
    found = {name: condition(api.group(name, namespace) or {}, "PodGroupInitiallyScheduled") for name in groups}
    told = {name: "" if _reason(one) == GATED else one["status"] for name, one in found.items()}
    for name in groups:  # once all its pods say that they are kept back, it says so too
        own = [reason for pod, reason in reasons.items() if pod.startswith(f"{name}-")]
        if own and set(own) == {GATED} and told[name] == "False":
            told[name] = ""
    return _state(running, reasons, told)


def _reason(told: Json) -> str:
    """Of what is kept back a condition says so after five seconds; what is scheduled is not kept back."""
    reason = told.get("reason", "")
    return GATED if reason in ("", "NotReadyForScheduling") else reason


def comes_to(cluster: Up, namespace: str, result: PlanResult) -> None:
    """Wait until the cluster is as the plan says, refusals of controllers included."""
    wanted = planned_state(result)
    refused = {one.name: one.message for one in result.plan.refused}
    seen: Json = {}

    def same() -> bool:
        seen.clear()
        seen.update(state_of(cluster, namespace, list(wanted["groups"])))
        return seen == wanted

    try:
        eventually(same, "the state that the plan names")
        for name, message in refused.items():
            eventually(lambda name=name, message=message: _tells(cluster, namespace, name, message),  # type: ignore[misc]
                       f"{name}: {message}")  # fmt: skip
    except AssertionError:
        raise AssertionError(f"plan: {json.dumps(wanted)}\ncluster: {json.dumps(seen)}\nrefused: {refused}") from None


def _tells(cluster: Up, namespace: str, owner: str, message: str) -> bool:
    events = cluster.api.events("FailedCreate", namespace)
    return any(message in one.get("note", "") and one["regarding"]["name"].startswith(owner) for one in events)


def is_steady(cluster: Up, namespace: str) -> bool:
    """Whether kubelets and controllers of budgets and quotas have caught up: what comes next reads what they write."""
    found = cluster.api.pods(namespace).values()
    groups = {one["metadata"]["name"]: one for one in cluster.api.items(GROUPS.format(namespace=namespace))}
    if not all(map(partial(_is_counted, list(found), groups), cluster.api.items(QUOTAS.format(namespace=namespace)))):
        return False
    if any(one["spec"].get("nodeName") and condition(one, "Ready").get("status") != "True" for one in found):
        return False
    matching = [one for one in found if (one["metadata"].get("labels") or {}).get("app") == "x"]
    healthy = sum(1 for one in matching if one["spec"].get("nodeName"))
    for budget in cluster.api.items(BUDGETS.format(namespace=namespace)):
        status = budget.get("status") or {}
        expected = 0 if "maxUnavailable" in budget["spec"] else len(matching)  # no controller says how many
        if (status.get("expectedPods"), status.get("currentHealthy")) != (expected, healthy):
            return False
        cluster.heard({**budget, "apiVersion": "policy/v1", "kind": "PodDisruptionBudget"})
    return True


def _is_counted(there: list[Json], groups: dict[str, Json], quota: Json) -> bool:
    """Whether the status of a quota is that of the pods there are."""
    hard, told = amounts(quota["spec"]["hard"]), amounts(quota.get("status", {}).get("used"))
    used: Amounts = dict.fromkeys(hard, ZERO)
    for one in there:
        classes = classes_of_groups(one, lambda _, name: groups.get(name))
        used = added(used, counted(quota, hard, "pods", one, datetime.now(UTC), classes))
    return {name: one.nano for name, one in used.items()} == {name: one.nano for name, one in told.items()}


def start_in_planned_order(cluster: Up, namespace: str, result: PlanResult, began: datetime) -> None:
    """Let the running pods have started in the order of the plan, whole seconds apart, before `began`."""
    starts = {one.object.name: one.object.status.start_time for one in result.cluster.manifests.pods}
    order = sorted({start for start in starts.values() if start is not None})
    for name, one in cluster.api.pods(namespace).items():
        start = starts.get(name)  # pods of controllers have other names in the plan; they are no victims
        if start is None or not one["spec"].get("nodeName"):
            continue
        stamp = (began - timedelta(seconds=60 - order.index(start))).strftime("%Y-%m-%dT%H:%M:%SZ")
        if one["status"]["startTime"] != stamp:
            path = f"{PODS.format(namespace=namespace)}/{name}/status"
            cluster.heard(cluster.api.patch(path, {"status": {"startTime": stamp}}))


def play(cluster: Up, namespace: str, limits: list[Json], steps: list[Step]) -> None:
    """Create and delete, step by step; after each the cluster comes to what the plan says."""
    api = cluster.api
    began = datetime.now(UTC)
    api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
    for one in limits:
        api.create(COLLECTIONS[one["kind"]].format(namespace=namespace), one)
    eventually(lambda: is_steady(cluster, namespace), "the quota's status")
    for number, (verb, objects) in enumerate(steps, 1):
        result = expected(namespace, limits, steps[:number])
        if verb == "delete":
            for one in objects:
                answer = api.delete(f"{PODS.format(namespace=namespace)}/{one['metadata']['name']}")
                assert answer["kind"] == "Pod", answer
        else:
            groups = [one for one in objects if one["kind"] == "PodGroup"]
            answers = [created(cluster, namespace, one, result) for one in groups]
            cluster.heard(*answers)
            with cluster.scheduler_stopped():
                answers += [created(cluster, namespace, one, result) for one in objects if one not in groups]
                eventually(partial(has_pods_of_controllers, cluster, namespace, result), "the pods of controllers")
            for one, answer in zip([*groups, *(one for one in objects if one not in groups)], answers, strict=True):
                if one["kind"] in ("Pod", "PodGroup") and answer["kind"] != "Status":  # from now on it exists
                    one.update(metadata={**one["metadata"], "uid": answer["metadata"]["uid"]}, spec=answer["spec"])
        comes_to(cluster, namespace, result)
        eventually(lambda: is_steady(cluster, namespace), "kubelets and budgets")
        start_in_planned_order(cluster, namespace, result, began)


def created(cluster: Up, namespace: str, one: Json, result: PlanResult) -> Json:
    """Create an object and return the answer; it is refused where the plan refuses it, with the same message."""
    name = one["metadata"]["name"]
    refusals = {pod.name: pod.message for pod in result.plan.pods if pod.outcome == "Refused"}
    answer: Json = cluster.api.request("POST", COLLECTIONS[one["kind"]].format(namespace=namespace), one)
    message = answer.get("message") if answer["kind"] == "Status" else None
    assert message == refusals.get(name), f"{name}: cluster {message!r}, plan {refusals.get(name)!r}"
    return answer


def has_pods_of_controllers(cluster: Up, namespace: str, result: PlanResult) -> bool:
    """Whether controllers have made the pods of the plan, or something kept them from it."""
    planned, there = (
        Counter(owner for owner in map(owner_of, names) if owner)
        for names in ([key.partition("/")[2] for key in result.cluster.pods], cluster.api.pods(namespace))
    )
    refused = {one["regarding"]["name"].split("-")[0] for one in cluster.api.events("FailedCreate", namespace)}
    return all(there[owner] >= number or owner in refused for owner, number in planned.items())


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """One for all examples."""
    directory = tmp_path_factory.mktemp("up")
    with up(directory, f"--nodes-file={nodes_file(directory, *NODES, cpu=str(CPU))}") as found:
        for name, value in VALUES.items():
            found.heard(found.api.create(CLASSES, priority_class(name, value, **_policy(name))))
        yield found
        assert "Traceback" not in found.log.read_text()


_numbers = itertools.count(1)


@settings(
    parent=examples(10),
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.generate),  # to shrink would wait for each mismatch
)
@given(story=stories())
def test_plan_is_what_the_cluster_does(cluster: Up, story: tuple[list[Json], list[Step]]) -> None:
    """whatif.md 14.9, interfaces.md 1.5: refusals, pods, places, evictions and conditions."""
    limits, steps = story
    namespace = f"e{next(_numbers)}"
    note(json.dumps({"limits": limits, "steps": steps}))
    done: list[Step] = []
    for step in steps:  # a pod that was evicted or refused cannot be deleted
        if step[0] == "delete":
            there = expected(namespace, limits, done).cluster.pods
            if f"{namespace}/{step[1][0]['metadata']['name']}" not in there:
                continue
        done.append(step)
    try:
        play(cluster, namespace, limits, done)
    finally:
        path = f"/api/v1/namespaces/{namespace}"
        cluster.api.delete(path)
        eventually(lambda: cluster.api.get(path)["kind"] == "Status", "the namespace gone")


def test_mismatch_is_reported(cluster: Up) -> None:
    """A plan of fewer nodes than there are is another answer than the cluster's."""
    pod = made("Pod", "p0", pod_spec(1, 0, ""))
    result = expected("other", [], [("create", [{**pod, "spec": {**pod["spec"], "nodeSelector": {"no": "node"}}}])])
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "other"}})
    cluster.api.create(PODS.format(namespace="other"), pod)
    eventually(lambda: cluster.api.runs("p0", namespace="other"), "the pod runs")
    assert state_of(cluster, "other", []) != planned_state(result)
    cluster.api.delete(f"{PODS.format(namespace='other')}/p0")
