"""What is gone leaves nothing behind: an engine that runs for months keeps what is there and no more (scheduling.md 1).

Each case is a life: objects come, are decided about, and go.  After the next such life, of other pods, the engine keeps
as much as before it, wherever it keeps it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from kube_rules.decoding import decode_object
from kube_rules.group_owners import Job
from kube_rules.group_sources import GroupSources
from kube_rules.meta import ObjectRef, OwnerReference
from kube_rules.objects import Namespace, ObjectMeta
from kube_rules.owners import Service, ServiceSpec
from reprieve.cluster.evictions import EvictionHistory
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from tests.building import annotated, composite, group, node, pdb, pod, priority_class

GROWS = (dict, set, list, deque)


def _parts(found: object) -> Iterator[tuple[str, object]]:
    for kind in type(found).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if hasattr(found, name):
                yield name, getattr(found, name)
    yield from getattr(found, "__dict__", {}).items()


def kept(engine: Engine) -> dict[str, int]:
    """How many entries there are in each place where the engine keeps something, by its path."""
    sizes: dict[str, int] = {}
    seen: set[int] = set()
    todo: list[tuple[str, object]] = [("engine", engine)]
    while todo:
        path, found = todo.pop()
        if id(found) in seen or isinstance(found, type | EvictionHistory):  # bounded by time (cost.md 9)
            continue
        seen.add(id(found))
        if isinstance(found, GROWS):
            sizes[path] = sizes.get(path, 0) + len(found)
            inside = list(found.values()) if isinstance(found, dict) else list(found)
            todo += [(f"{path}[]", one) for one in inside]
        elif isinstance(found, tuple):
            todo += [(f"{path}[]", one) for one in found]
        elif type(found).__module__.startswith("reprieve."):
            todo += [(f"{path}.{name}", one) for name, one in _parts(found)]
    return sizes


def settle(engine: Engine, now: float, *, confirms: bool = True) -> None:
    """All that can be tried now is; bindings and preemptions come to their end."""
    engine.tick(now)
    while (decision := engine.step(now).decision) is not None:
        for binding in decision.bindings:
            if confirms:
                engine.confirm_binding(binding.pod.uid)
        if decision.preemption is not None:
            for uid in [pod.uid for verdict in decision.preemption.victims for pod in verdict.unit.pods]:
                engine.mark_terminating(uid, now, preempted=True)
                engine.remove(ObjectRef("Pod", uid=uid), now)
            engine.finish_preemption(decision.ref, now)


def _owned(name: str, job: str, **more: Any) -> Any:
    made = pod(name, cpu=1, **more)
    reference = OwnerReference(api_version="batch/v1", kind="Job", name=job, uid=f"uid-{job}", controller=True)
    return replace(made, metadata=replace(made.metadata, owner_references=(reference,)))


def _job(name: str) -> Job:
    notes = {"scheduling.reprieve.dev/gang": "true"}
    return Job(metadata=ObjectMeta(name=name, namespace="default", annotations=notes), spec={"parallelism": 2})


def _foreign(name: str) -> Any:
    manifest = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"minMember": 2, "minTaskMember": {"master": 1, "worker": 1}},
    }
    return decode_object(manifest)


def alone(engine: Engine, life: str, now: float) -> None:
    """Pods that are bound, one that waits, and one with a nomination of before."""
    for turn in range(3):
        engine.set(pod(f"p{life}{turn}", cpu=1), now)
    engine.set(pod(f"w{life}", cpu=9), now)
    engine.set(pod(f"g{life}", cpu=1, gates=["x"]), now)
    engine.set(pod(f"n{life}", cpu=9, nominated="n"), now)
    settle(engine, now)


def unconfirmed(engine: Engine, life: str, now: float) -> None:
    """No answer reports what happened to the bindings: the pods go while these are under way."""
    for turn in range(3):
        engine.set(pod(f"p{life}{turn}", cpu=1), now)
    settle(engine, now, confirms=False)


def refused(engine: Engine, life: str, now: float) -> None:
    """A binding fails and is done again."""
    engine.set(pod(f"p{life}", cpu=1), now)
    settle(engine, now, confirms=False)
    engine.fail_binding(f"uid-p{life}", now)
    settle(engine, now + 30.0)


def elsewhere(engine: Engine, life: str, now: float) -> None:
    """Another client binds them: one that waits, one that was assumed on another node."""
    engine.set(pod(f"w{life}", cpu=9), now)
    engine.set(pod(f"a{life}", cpu=1), now)
    settle(engine, now, confirms=False)
    there = engine.cluster.nodes.names[engine.cluster.pods[f"uid-a{life}"].row]
    engine.set(pod(f"w{life}", cpu=9, node="m"), now)
    engine.set(pod(f"a{life}", cpu=1, node="n" if there == "m" else "m"), now)


def gangs(engine: Engine, life: str, now: float) -> None:
    """One that is placed and one that waits."""
    for name, cpu in (("small", 1), ("large", 3)):
        engine.set(group(f"{name}{life}", min_count=3), now)
        for turn in range(3):
            engine.set(pod(f"{name}{life}{turn}", cpu=cpu, group=f"{name}{life}"), now)
    settle(engine, now)
    for name in ("small", "large"):
        engine.remove(ObjectRef("PodGroup", f"default/{name}{life}"), now)


def tree(engine: Engine, life: str, now: float) -> None:
    """Two groups below one."""
    engine.set(composite(f"top{life}", min_groups=2), now)
    for turn in range(2):
        engine.set(group(f"leaf{life}{turn}", min_count=1, parent=f"top{life}"), now)
        engine.set(pod(f"l{life}{turn}", cpu=1, group=f"leaf{life}{turn}"), now)
    settle(engine, now)
    for turn in range(2):
        engine.remove(ObjectRef("PodGroup", f"default/leaf{life}{turn}"), now)
    engine.remove(ObjectRef("CompositePodGroup", f"default/top{life}"), now)


def preempting(engine: Engine, life: str, now: float) -> None:
    """A pod and a gang evict less important pods, and are placed."""
    for turn in range(8):
        engine.set(pod(f"low{life}{turn}", cpu=1), now)
    settle(engine, now)
    engine.set(pod(f"high{life}", cpu=2, priority=5), now)
    engine.set(group(f"crew{life}", min_count=2, priority=7), now)
    for turn in range(2):
        engine.set(pod(f"c{life}{turn}", cpu=2, group=f"crew{life}", priority=7), now)
    settle(engine, now)
    settle(engine, now + 30.0)
    engine.remove(ObjectRef("PodGroup", f"default/crew{life}"), now)


def nominated(engine: Engine, life: str, now: float) -> str:
    """The key of a preemptor with victims that are chosen and not gone yet."""
    for turn in range(8):
        engine.set(pod(f"low{life}{turn}", cpu=1), now)
    settle(engine, now)
    engine.set(pod(f"high{life}", cpu=4, priority=5), now)
    engine.tick(now)
    decision = engine.step(now).decision
    assert decision is not None
    assert decision.preemption is not None
    return decision.ref


def without_success(engine: Engine, life: str, now: float) -> None:
    """A preemption fails, and its preemptor goes."""
    key = nominated(engine, life, now)
    engine.fail_preemption(key, now)


def given_up(engine: Engine, life: str, now: float) -> None:
    """The preemptor goes while its victims still leave."""
    key = nominated(engine, life, now)
    engine.finish_preemption(key, now)
    engine.remove(ObjectRef("Pod", uid=f"uid-high{life}"), now)


def controllers(engine: Engine, life: str, now: float) -> None:
    """Jobs with pods that are gangs."""
    engine.set(_job(f"job{life}"), now)
    for turn in range(2):
        engine.set(_owned(f"o{life}{turn}", f"job{life}"), now)
    settle(engine, now)
    engine.remove(ObjectRef("Job", f"default/{f'job{life}'}"), now)


def sized(engine: Engine, life: str, now: float) -> None:
    """Pods that say themselves how many they are."""
    for turn in range(2):
        notes = {"kueue.x-k8s.io/pod-group-total-count": "2"}
        labels = {"kueue.x-k8s.io/pod-group-name": f"k{life}"}
        engine.set(pod(f"k{life}{turn}", cpu=1, labels=labels, annotations=notes), now)
    settle(engine, now)


def foreign(engine: Engine, life: str, now: float) -> None:
    """A PodGroup of Volcano that stands for a tree."""
    engine.set(_foreign(f"v{life}"), now)
    for turn, task in enumerate(("master", "worker")):
        notes = {"scheduling.k8s.io/group-name": f"v{life}", "volcano.sh/task-spec": task}
        engine.set(pod(f"v{life}{turn}", cpu=1, annotations=notes), now)
    settle(engine, now)
    engine.remove(ObjectRef("PodGroup", f"default/v{life}"), now)


def around(engine: Engine, life: str, now: float) -> None:
    """What stands around pods: classes, budgets, namespaces and services."""
    terms = annotated(minimum_runtime="1h", pdb_policy="Respect")
    labels = {"app": life}
    engine.set(Namespace(metadata=ObjectMeta(name=f"ns{life}", labels=labels)), now)
    engine.set(priority_class(f"class{life}", 5, terms), now)
    engine.set(pdb(f"budget{life}"), now)
    service = Service(metadata=ObjectMeta(name=f"s{life}", namespace="default"), spec=ServiceSpec(selector=labels))
    engine.set(service, now)
    engine.set(pod(f"p{life}", cpu=1, priority_class=f"class{life}", priority=5, annotations=terms), now)
    settle(engine, now)
    assert engine.remove(ObjectRef("Service", f"default/{f's{life}'}"), now).known
    engine.remove(ObjectRef("PodDisruptionBudget", f"default/budget{life}"), now)
    engine.remove(ObjectRef("PriorityClass", f"class{life}"), now)
    engine.remove(ObjectRef("Namespace", f"ns{life}"), now)


LIVES = (
    around,
    alone,
    unconfirmed,
    refused,
    elsewhere,
    gangs,
    tree,
    preempting,
    without_success,
    given_up,
    controllers,
    sized,
    foreign,
)
LOGS = ("._log.entries", ".resized_gangs.entries", "._lasting", "._undone")
"""Logs of what changed lately: bounded by themselves."""


@pytest.mark.parametrize("life", LIVES, ids=lambda life: str(life.__name__))
def test_removed_objects_leave_nothing_behind(life: Callable[[Engine, str, float], None]) -> None:
    """The first lives fill what is kept by shape; from then on nothing grows."""
    engine = Engine(EngineOptions(sources=GroupSources.switched({"owners": True})))
    engine.watch_owners(["Job"], 0.0)
    engine.set(node("n", cpu=4), 0.0)
    engine.set(node("m", cpu=4), 0.0)
    sizes = []
    for turn in range(4):
        now = 1000.0 * (turn + 1)
        life(engine, f"{turn}x", now)
        for one in list(engine.cluster.pods.values()):
            engine.remove(ObjectRef("Pod", uid=one.uid), now + 60.0)
        settle(engine, now + 700.0)
        sizes.append({path: size for path, size in kept(engine).items() if not path.endswith(LOGS)})
    assert engine.cluster.groups == {}
    assert sizes[3] == sizes[2]


def test_attempt_is_forgotten_once_its_binding_is_confirmed() -> None:
    """scheduling.md 1: how often a pod was tried matters only while its binding may still fail."""
    left = {}
    for confirms in (False, True):
        engine = Engine(EngineOptions())
        engine.set(node("n", cpu=4), 0.0)
        for turn in range(3):
            engine.set(pod(f"p{turn}", cpu=1), 1.0)
        settle(engine, 2.0, confirms=confirms)
        left[confirms] = kept(engine)
    fewer = {path: size - left[True][path] for path, size in left[False].items() if left[True][path] < size}
    assert fewer == {"engine._pods._assumed_pods._attempts": 3}
