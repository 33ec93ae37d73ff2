"""Clusters for the tests of plugins, in two lines.

    from reprieve.testing import World, node, pod

    world = World(node("n1", cpu=4), pod("low", cpu=4, node="n1"), pod("high", cpu=4, priority=10), plugins=[Mine()])
    world.settle()
    assert world.where == {"high": "n1"}

A `World` runs an engine with every check enabled (`validate=True`, the queue's invariants after each step) in a virtual
cluster. It needs no server and no clock, and its answers are deterministic. The creation time of an object follows its
place in the argument list, unless a `(object, created)` pair sets it. Times are seconds since the epoch; the world
begins at `START`. The module needs no test framework: a failed check raises AssertionError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Self, TypeVar

from kube_rules import objects
from kube_rules.meta import DISRUPTION_TARGET, ObjectRef
from reprieve.cluster.pods import PodRecord
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.framework.plugin import CycleState, Plugin, ScorePlugin
from reprieve.framework.plugin_guard import PluginIncident
from reprieve.framework.profile import Profile
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.preemption.outcome import MINIMIZE_VICTIMS
from reprieve.queueing.entity import Entity, QueueState
from reprieve.queueing.timers import Timing
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.effects import NO_EFFECTS, Effects
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.scheduling.preemptor_reservations import ReleasedReservation
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.virtual import VirtualCluster

START = 1_600_000_000.0
GPU = "nvidia.com/gpu"
T = TypeVar("T")
Timed = tuple[objects.KubernetesObject, float]
Item = objects.KubernetesObject | Timed
Port = int | tuple[int, str] | tuple[int, str, str]
"""A host port, optionally with protocol and host address."""


def node(
    name: str,
    *,
    cpu: int | str = 4,
    memory: int | str = "64Gi",
    gpu: int = 0,
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Iterable[tuple[str, str, str]] = (),
    unschedulable: bool = False,
    more: Mapping[str, int | str] | None = None,
) -> objects.Node:
    """Return a node; `more` are further allocatable resources."""
    allocatable: dict[str, Any] = {"cpu": cpu, "memory": memory, "pods": pods, **(more or {})}
    if gpu:
        allocatable[GPU] = gpu
    return objects.Node(
        metadata=objects.ObjectMeta(name=name, uid=f"uid-node-{name}", labels=dict(labels or {})),
        spec=objects.NodeSpec(
            unschedulable=unschedulable,
            taints=tuple(objects.Taint(key=k, value=v, effect=e) for k, v, e in taints),
        ),
        status=objects.NodeStatus(allocatable=allocatable),
    )


def toleration(key: str = "", operator: str = "Equal", value: str = "", effect: str = "") -> objects.Toleration:
    """Return a toleration; the arguments follow the order of its fields."""
    return objects.Toleration(key=key, operator=operator, value=value, effect=effect)


def pod(
    # long: every argument is one field of the pod
    name: str,
    *,
    cpu: int | str | None = None,
    memory: int | str | None = None,
    gpu: int = 0,
    more: Mapping[str, int | str] | None = None,
    node: str = "",
    priority: int | None = 0,
    group: str | None = None,
    namespace: str = "default",
    start: float | None = None,
    labels: Mapping[str, str] | None = None,
    tolerations: Iterable[objects.Toleration] = (),
    selector: Mapping[str, str] | None = None,
    affinity: objects.Affinity | None = None,
    ports: Iterable[Port] = (),
    gates: Iterable[str] = (),
    terminating: bool = False,
    preempted: bool = False,
    never: bool = False,
    scheduler: str = "default-scheduler",
    uid: str | None = None,
    grace: int = 30,
    nominated: str = "",
    phase: str | None = None,
    annotations: Mapping[str, str] | None = None,
    priority_class: str = "",
) -> objects.Pod:
    """Return a pod with one container; `start` in seconds after START."""
    wanted = (("cpu", cpu), ("memory", memory), (GPU, gpu or None), *(more or {}).items())
    requests: dict[str, Any] = {key: amount for key, amount in wanted if amount is not None}
    main = objects.Container(
        name="main",
        resources=objects.ResourceRequirements(requests=requests),
        ports=tuple(_port(p) for p in ports),
    )
    condition = objects.PodCondition(type=DISRUPTION_TARGET, status="True", reason="PreemptionByScheduler")
    return objects.Pod(
        metadata=objects.ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"uid-{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            deletion_timestamp=datetime.fromtimestamp(START, UTC) if terminating else None,
        ),
        spec=objects.PodSpec(
            containers=(main,),
            node_name=node,
            node_selector=dict(selector or {}),
            affinity=affinity,
            tolerations=tuple(tolerations),
            priority=priority,
            priority_class_name=priority_class,
            preemption_policy="Never" if never else None,
            scheduler_name=scheduler,
            scheduling_gates=tuple(objects.PodSchedulingGate(name=g) for g in gates),
            scheduling_group=objects.PodSchedulingGroup(pod_group_name=group) if group else None,
            termination_grace_period_seconds=grace,
        ),
        status=objects.PodStatus(
            phase=phase or ("Running" if node else "Pending"),
            start_time=datetime.fromtimestamp(START + start, UTC) if start is not None else None,
            nominated_node_name=nominated,
            conditions=(condition,) if preempted else (),
        ),
    )


def _port(port: Port) -> objects.ContainerPort:
    number, protocol, address = ((port, "TCP", "") if isinstance(port, int) else (*port, "", ""))[:3]
    return objects.ContainerPort(
        container_port=int(number), host_port=int(number), protocol=str(protocol) or "TCP", host_ip=str(address)
    )


def group(
    name: str,
    *,
    min_count: int | None = None,
    priority: int | None = 0,
    priority_class: str = "",
    whole: bool = False,
    policy: str | None = None,
    namespace: str = "default",
    topology: str | None = None,
    uid: str | None = None,
    annotations: Mapping[str, str] | None = None,
    parent: str = "",
    workload: str = "workload",
) -> objects.PodGroup:
    """Return a PodGroup: a gang with `min_count`, else `basic`; `whole`: disruptionMode all; `parent`: a composite."""
    if min_count is None:
        chosen = objects.PodGroupSchedulingPolicy(basic=objects.EMPTY)
    else:
        chosen = objects.PodGroupSchedulingPolicy(gang=objects.GangSchedulingPolicy(min_count=min_count))
    mode = objects.DisruptionMode(all=objects.EMPTY) if whole else objects.DisruptionMode(single=objects.EMPTY)
    constraints = objects.PodGroupSchedulingConstraints(
        topology=(objects.TopologyConstraint(key=topology),) if topology else ()
    )
    return objects.PodGroup(
        metadata=objects.ObjectMeta(
            name=name, namespace=namespace, uid=uid or f"uid-group-{name}", annotations=dict(annotations or {})
        ),
        spec=objects.PodGroupSpec(
            scheduling_policy=chosen,
            scheduling_constraints=constraints,
            disruption_mode=mode,
            priority=priority,
            priority_class_name=priority_class,
            preemption_policy=policy,
            parent_composite_pod_group_name=parent,
            workload_ref=objects.WorkloadReference(workload_name=workload, template_name="t") if parent else None,
        ),
    )


def composite(
    name: str,
    *,
    min_groups: int | None = None,
    parent: str = "",
    priority: int | None = 0,
    whole: bool = False,
    policy: str | None = None,
    topology: str | None = None,
    namespace: str = "default",
    workload: str = "workload",
) -> objects.CompositePodGroup:
    """Return a CompositePodGroup: a gang of groups with a `min_groups`, else `basic`; `whole`: disruptionMode all."""
    if min_groups is None:
        chosen = objects.CompositePodGroupSchedulingPolicy(basic=objects.EMPTY)
    else:
        gang_of = objects.CompositeGangSchedulingPolicy(min_group_count=min_groups)
        chosen = objects.CompositePodGroupSchedulingPolicy(gang=gang_of)
    mode = objects.DisruptionMode(all=objects.EMPTY) if whole else objects.DisruptionMode(single=objects.EMPTY)
    return objects.CompositePodGroup(
        metadata=objects.ObjectMeta(name=name, namespace=namespace, uid=f"uid-composite-{name}"),
        spec=objects.CompositePodGroupSpec(
            workload_ref=objects.WorkloadReference(workload_name=workload, template_name="t"),
            parent_composite_pod_group_name=parent,
            scheduling_policy=chosen,
            scheduling_constraints=objects.PodGroupSchedulingConstraints(
                topology=(objects.TopologyConstraint(key=topology),) if topology else ()
            ),
            disruption_mode=mode,
            priority=priority,
            preemption_policy=policy,
        ),
    )


def priority_class(name: str, value: int, annotations: Mapping[str, str] | None = None) -> objects.PriorityClass:
    """Return a PriorityClass with this value."""
    return objects.PriorityClass(
        metadata=objects.ObjectMeta(name=name, annotations=dict(annotations or {})), value=value
    )


def gang(
    name: str,
    size: int,
    *,
    min_count: int | None = None,
    priority: int = 0,
    whole: bool = False,
    policy: str | None = None,
    parent: str = "",
    topology: str | None = None,
    **pod_fields: Any,
) -> list[objects.KubernetesObject]:
    """Return a gang and its `size` pods `NAME-0`...; `min_count` defaults to `size`; all pods get `pod_fields`."""
    spec = group(
        name,
        min_count=size if min_count is None else min_count,
        priority=priority,
        whole=whole,
        policy=policy,
        parent=parent,
        topology=topology,
    )
    return [spec, *(pod(f"{name}-{i}", group=name, priority=priority, **pod_fields) for i in range(size))]


def pdb(
    name: str,
    labels: Mapping[str, str] | None = None,
    *,
    allowed: int | None = 0,
    nothing: bool = False,
    disrupted: Iterable[str] = (),
    namespace: str = "default",
) -> objects.PodDisruptionBudget:
    """Return a budget for pods with these labels (none: all pods of the namespace; `nothing`: a nil selector)."""
    selector = None if nothing else objects.LabelSelector(match_labels=dict(labels or {}))
    status = None
    if allowed is not None:
        status = objects.PodDisruptionBudgetStatus(
            disruptions_allowed=allowed, disrupted_pods=dict.fromkeys(disrupted, None)
        )
    return objects.PodDisruptionBudget(
        metadata=objects.ObjectMeta(name=name, namespace=namespace),
        spec=objects.PodDisruptionBudgetSpec(selector=selector),
        status=status,
    )


# -- running a cluster ---------------------------------------------------------------------------------------------


def profile_with(*plugins: Plugin, weights: Mapping[str, int] | None = None, drop: Iterable[str] = ()) -> Profile:
    """Return the default profile with `plugins`; a plugin replaces the one of its name or comes first."""
    base = default_profile(FeatureGates())
    own = {plugin.name: plugin for plugin in plugins}
    default_names = {plugin.name for plugin in base.plugins}
    chosen = [plugin for name, plugin in own.items() if name not in default_names]
    chosen += [own.get(plugin.name, plugin) for plugin in base.plugins if plugin.name not in drop]
    return Profile(base.name, chosen, {**base.score_weights, **(weights or {})})


def _profiles_of(
    plugins: Sequence[Plugin | type[Plugin]],
    config: Mapping[str, Any] | None,
    gates: FeatureGates | None,
    profiles: Mapping[str, Profile] | None,
) -> dict[str, Profile]:
    if profiles is not None:
        raise ValueError("World: give profiles, or plugins and config, not both")
    for plugin in plugins:
        if not isinstance(plugin, Plugin) and not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
            raise ValueError(f"World: {plugin!r:.100} is no plugin: expected classes or instances of reprieve.Plugin")
    if config is None:
        own = [plugin if isinstance(plugin, Plugin) else plugin.configured({}) for plugin in plugins]
        profile = profile_with(*own, weights={p.name: 1 for p in own if isinstance(p, ScorePlugin)})
        return {profile.name: profile}
    classes = [plugin for plugin in plugins if isinstance(plugin, type)]
    if len(classes) < len(plugins):
        raise ValueError("World: with a config, give plugins as classes: their args are in the config")
    from reprieve.python.configuration import profiles_for

    loaded_profiles, _ = profiles_for(configuration_of(config), gates or FeatureGates(), classes, call_extenders=False)
    return {profile.name: profile for profile in loaded_profiles}


class WatchedEngine(Engine):
    """An engine that stores its decisions and runs a check before each step and after each decision."""

    def __init__(self, options: EngineOptions) -> None:
        super().__init__(options)
        self.decisions: list[Decision] = []
        self.effects: list[Effects] = []
        """The effects of every call that had any."""
        self.before_step: Callable[[], None] = lambda: None
        self.after_step: Callable[[Decision], None] = lambda _: None

    def collect_effects(self, **outcome: Any) -> Effects:
        effects = super().collect_effects(**outcome)
        if effects is not NO_EFFECTS:
            self.effects.append(effects)
        return effects

    def step(self, now: float) -> Effects:
        self.before_step()
        effects = super().step(now)
        if effects.decision is not None:
            self.decisions.append(effects.decision)
            check_queue(self)
            self.after_step(effects.decision)
        return effects


class PluginFailedError(AssertionError):
    """A plugin raised or returned an invalid result; `plugin` and `point` identify it and its extension point."""

    def __init__(self, trouble: PluginIncident) -> None:
        super().__init__(f"{trouble.text}\n{trouble.detail}".rstrip())
        self.plugin, self.point = trouble.plugin, trouble.point


class World:
    """An engine in a virtual cluster.

    `plugins` precede those of the default profile; score plugins have weight 1; a class is instantiated by its
    `configured`. With `config`, a KubeSchedulerConfiguration as plain data, plugins must be classes and are enabled
    as `--plugin` enables them. Raises ValueError for invalid plugins and configurations.

    `profiles` replaces both. `gates` (also by Kubernetes' names), `timing`, `seed` and `current_reasons` are options of
    the engine. `plain` selects the reference paths: nothing is shared and every filter runs. `placement` is the
    placement policy of a group that preempts.

    If a plugin raises or returns an invalid result, `settle`, `drain` and `step` raise a `PluginFailedError` with its
    traceback. With `contained` the scheduler continues, as in a cluster.
    """

    def __init__(
        self,
        *items: Item | Sequence[Item],
        plain: bool = False,
        gates: FeatureGates | Mapping[str, bool] | None = None,
        timing: Timing | None = None,
        profiles: Mapping[str, Profile] | None = None,
        seed: int | None = None,
        placement: str = MINIMIZE_VICTIMS,
        current_reasons: bool = True,
        plugins: Sequence[Plugin | type[Plugin]] = (),
        config: Mapping[str, Any] | None = None,
        contained: bool = False,
    ) -> None:
        self._contained = contained
        if gates is not None and not isinstance(gates, FeatureGates):
            gates = FeatureGates.of(gates)
        if plugins or config is not None:
            profiles = _profiles_of(plugins, config, gates, profiles)
        if profiles is None and (plain or placement != MINIMIZE_VICTIMS):
            profile = profile_with(
                DefaultPreemption(PreemptionOptions(plain=plain, share=not plain, placement=placement))
            )
            profiles = {profile.name: profile}
        self.engine = WatchedEngine(
            EngineOptions(
                profiles or {},
                gates or FeatureGates(),
                timing or Timing(),
                seed=seed,
                current_reasons=current_reasons,
                share=not plain,
                validate=True,
            )
        )
        self.virtual = VirtualCluster(self.engine, START)
        self.objects: dict[str, objects.Pod] = {}
        self._count = 0
        self.add(*items)

    def add(self, *items: Item | Sequence[Item]) -> Self:
        """Create objects without running anything. Lists are flattened."""
        for item in items:
            if isinstance(item, list):
                self.add(*item)
                continue
            item_object, created = item if isinstance(item, tuple) else (item, START + self._count)
            if not isinstance(item_object, objects.KubernetesObject):
                raise TypeError(
                    f"{item_object!r:.100}: expected objects, as `node` and `pod` make them, or (object, created)"
                )
            self._count += 1
            if isinstance(item_object, objects.Pod):
                self.objects[item_object.metadata.uid] = item_object
            self.virtual.add(item_object, created)
        return self

    def settle(self) -> Self:
        """Run until nothing changes, then check the queue."""
        self.virtual.settle()
        return self._checked()

    def drain(self) -> Self:
        """Run scheduling cycles without advancing the time."""
        self.virtual.drain()
        return self._checked()

    def step(self) -> Decision:
        """Run one cycle without its effects and return the decision; an entity must be ready."""
        effects = self.engine.step(self.now)
        self.virtual.keep_effects(effects)
        decision = effects.decision
        assert decision is not None, "nothing is ready"
        self._checked()
        return decision

    def _checked(self) -> Self:
        """Check the queue, and that no plugin failed. Raises AssertionError."""
        check_queue(self.engine)
        if not self._contained:
            errors = [incident for incident in self.incidents() if incident.kind == "error"]
            if errors:
                raise PluginFailedError(errors[0])
        return self

    @property
    def now(self) -> float:
        """Return the simulated time, in seconds since the epoch."""
        return self.virtual.now

    def record(self, name: str) -> PodRecord:
        """Return the record of a pod by name."""
        return _named("pod", name, ((pod.name, pod) for pod in self.engine.cluster.pods.values()))

    def row(self, name: str) -> int:
        """Return the row of a node."""
        return _named("node", name, self.engine.cluster.nodes.row_of.items())

    def entity(self, name: str) -> Entity:
        """Return the entity of a pending pod or of a group, by name."""
        queue = self.engine.queue
        result = queue.get(f"composite/default/{name}") or queue.get(f"group/default/{name}")
        result = result or queue.find(self.record(name))
        assert result is not None, f"{name} is not queued"
        return result

    def place(self, name: str) -> QueueState:
        """Return the queue state of an entity."""
        return self.entity(name).state

    def state(self, name: str) -> CycleState:
        """Return a new cycle state for a pod, to call plugins directly."""
        return CycleState(self.engine.cluster, self.record(name))

    @property
    def where(self) -> dict[str, str]:
        """Return the node of each placed pod that is not terminating, by name."""
        nodes = self.engine.cluster.nodes
        pods = sorted(self.engine.cluster.pods.values(), key=lambda p: p.key)
        return {p.name: nodes.names[p.row] for p in pods if p.row >= 0 and not p.terminating}

    @property
    def pending(self) -> list[str]:
        """Return the names of pending pods, sorted."""
        return sorted(p.name for p in self.engine.cluster.pods.values() if p.row < 0)

    @property
    def nominated(self) -> dict[str, str]:
        """Return the nominated node of each pending pod with a nomination, by name."""
        names = self.engine.cluster.nodes.names
        return {p.name: names[p.nominated] for p in self.engine.cluster.pods.values() if p.nominated >= 0}

    @property
    def evicted(self) -> list[str]:
        """Return the names of preempted pods, sorted."""
        return sorted(self.virtual.records[uid].name for uid in self.virtual.evicted)

    def released(self) -> list[ReleasedReservation]:
        """Return the reservations that were released unused since the last call."""
        released, self.virtual.released = self.virtual.released, []
        return released

    def incidents(self) -> list[PluginIncident]:
        """Return the plugin incidents since the last call."""
        incidents = list(self.virtual.incidents)
        self.virtual.incidents.clear()
        return incidents

    def message(self, name: str) -> str:
        """Return the PodScheduled=False message of a pod."""
        return self.rejection(name)[1]

    def rejection(self, name: str) -> tuple[str, str]:
        """Return the reason and message of a pod's PodScheduled=False condition."""
        rejection = _named("rejected pod", name, ((r.pod.name, r) for r in self.virtual.rejections.values()))
        return rejection.reason, rejection.message

    def condition(self, name: str) -> tuple[bool, str, str]:
        """Return the condition of a group: scheduled, reason, message."""
        conditions = self.virtual.conditions
        groups = ((key.removeprefix("group/default/"), condition) for key, condition in conditions.items())
        reported = conditions.get(f"composite/default/{name}") or _named("group with a condition", name, groups)
        return reported.scheduled, reported.reason, reported.message

    def gone(self, name: str) -> Self:
        """Delete a pod."""
        record = self.record(name)
        self.virtual.departed[record.uid] = record
        self.virtual.keep_effects(self.engine.remove(ObjectRef("Pod", uid=record.uid), self.now))
        check_queue(self.engine)
        return self

    def change_pod(self, name: str, change: Callable[[objects.Pod], objects.Pod]) -> Self:
        """Replace a pod's object by the result of `change`."""
        uid = self.record(name).uid
        self.objects[uid] = change(self.objects[uid])
        self.virtual.keep_effects(self.engine.set(self.objects[uid], self.now))
        check_queue(self.engine)
        return self


def _named(kind: str, name: str, among: Iterable[tuple[str, T]]) -> T:
    """Return the first item with this name. Raises an AssertionError that lists the names."""
    names = []
    for item_name, item in among:
        if item_name == name:
            return item
        names.append(item_name)
    choices = f"there is {', '.join(sorted(names)[:20])}" if names else "there is none"
    raise AssertionError(f"no {kind} {name!r} in this world: {choices}")


def check_queue(engine: Engine) -> None:
    """Check that each pending entity is in one place (scheduling.md 7) and each pending pod in one entity."""
    queue, cluster = engine.queue, engine.cluster
    entities = list(queue.entities())
    seen: set[str] = set()
    waiting = queue._unschedulable
    for entity in entities:
        assert entity.ready or entity.gated_pods, f"{entity} is empty"
        for uid in (*entity.ready, *entity.gated_pods):
            assert uid not in seen, f"{uid} is in two entities or twice in {entity}"
            seen.add(uid)
        assert entity.state is not QueueState.IN_CYCLE, f"{entity} was left in its cycle"
        active = entity.state is QueueState.ACTIVE
        assert not active or entity in queue._active, f"{entity} is not in the heap"
        waits = (entity.wake, entity.ref) in queue._backoff.entries
        assert entity.state is not QueueState.BACKOFF or waits, f"{entity} has no end of its backoff"
        unschedulable = entity.state is QueueState.UNSCHEDULABLE
        assert unschedulable == (entity.ref in waiting.by_ref), f"{entity} and the list of the unschedulable"
        for plugin, refs_of_plugin in waiting.by_plugin.items():
            listed = unschedulable and plugin in entity.rejected_by_indexed
            assert listed == (entity.ref in refs_of_plugin), f"{entity} and those rejected by {plugin}"
        assert (entity.block_reason is not None) == (entity.ref in queue._listening), f"{entity} and its kept events"
    refs = {entity.ref for entity in entities}
    assert set(waiting.by_ref) <= refs
    assert set(queue._listening) <= refs
    assert all(set(refs_of_plugin) <= refs for refs_of_plugin in waiting.by_plugin.values())
    pending = {
        uid for uid, p in cluster.pods.items() if p.row < 0 and not p.terminating and p.scheduler_name in engine.running
    }
    seen -= {uid for uid in seen if uid in cluster.pods and cluster.pods[uid].resizing}
    assert pending == seen, f"lost: {pending - seen}, left over: {seen - pending}"
