"""`reprieve plan`: what would happen, and why, without touching anything (interfaces.md).

The input's cluster is rebuilt around an engine and run in virtual time until nothing changes, or to the first decision
to preempt; a Scenario document lets things happen meanwhile.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from reprieve.api import objects
from reprieve.api.decoding import name_of
from reprieve.api.durations import readable_time
from reprieve.api.errors import InputError, Origin
from reprieve.api.foreign_groups import FOREIGN_VERSIONS
from reprieve.api.group_owners import GroupOwner
from reprieve.api.group_sources import DEFAULT_SOURCES, GroupSources, group_problems, size_problem
from reprieve.api.loading import Loaded, Manifests, Suspended
from reprieve.api.work_annotations import annotation_problems
from reprieve.cluster.pods import PodRecord
from reprieve.cluster.resources import FIRST_RESOURCE, readable, shortages_text
from reprieve.cluster.state import ClusterState
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.plugins.gang_scheduling import WAITING_FOR_MEMBERS
from reprieve.preemption.cost_report import by_criterion, cost_sentences, decisive, lost_by, names_of, turns
from reprieve.preemption.outcome import CascadeStep, Missing, Preemption, Verdict, scarcest_first
from reprieve.queueing.entity import QueueState
from reprieve.queueing.queue import Timing
from reprieve.scheduling.arrival_order import in_order
from reprieve.scheduling.decision import SCHEDULER_ERROR, SCHEDULING_GATED, UNSCHEDULABLE, Decision
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.simulation.report import (
    Account,
    Answer,
    AvoidedEviction,
    EvictionCost,
    InTurn,
    LostPod,
    PlacingByScore,
    Plan,
    PodGroupOutcome,
    PodOutcome,
    PreemptionAccount,
    PreemptionOutcome,
    Preemptor,
    Stats,
    SuspendedWorkload,
    UnitAccount,
    Victim,
    VictimReason,
)
from reprieve.simulation.report_put_off import put_off_outcomes, released_outcomes
from reprieve.simulation.report_trees import composite_outcomes
from reprieve.simulation.scenario import Scenario, read_scenarios
from reprieve.simulation.virtual import Preempted, VirtualCluster
from reprieve.simulation.workloads.expanding import expand, is_unknown_kind
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

_OFF = "the feature gate {gate} is off: the claims of the group would be ignored and the answer could be wrong"

_MOST_REMARKS = 20
_LISTED_IN_ALL, _LISTED_OF_EACH = 5_000, 20
"""Spared units that are listed: all of them until there are so many in all, then so many of each decision."""


class Observer(Protocol):
    """Who wants to know what was decided, while the cluster is still the one it was decided on."""

    def attach(self, engine: Engine) -> None:
        """Whose decisions these are."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """An attempt ended; `seconds` are not measured here."""


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """How to run a plan. Without profiles every pod is scheduled by the default one, whatever its schedulerName."""

    first_decision: bool = False
    """Stop at the first decision to preempt, victims still there; else run until nothing changes."""
    gates: FeatureGates = field(default_factory=FeatureGates)
    profiles: tuple[Profile, ...] = ()
    sources: GroupSources = DEFAULT_SOURCES
    """By what pods say that they belong together."""
    any_scheduler: bool = False
    """Pods that no profile is named for are scheduled by the first one."""
    on_object: Callable[[objects.KubernetesObject], None] | None = None
    """Called for every object of the input before anything is decided."""
    warnings: tuple[str, ...] = ()
    """To be given with the answer."""
    timing: Timing = field(default_factory=Timing)
    seed: int | None = None
    rows: Rows = TABLE
    """Where the kinds that make pods have their templates, those that steps of a scenario create too."""
    now: float | None = None
    """Seconds since the epoch when virtual time begins, not before anything there; without it a second after that."""
    observer: Observer | None = None
    """Notified of every decision."""
    account: bool = True
    """Make what the text tells beyond the document; without it the account has numbers alone."""
    share: bool = True
    """Share work between identical pods; off only to compare (the answer is the same)."""


def plan(manifests: Manifests, options: PlanOptions | None = None) -> Answer:
    """Run the input in virtual time, with the pods that controllers would make of it (whatif.md 1).

    Raises InputError for what cannot be decided faithfully, and for a workload that cannot be expanded: who wants to
    plan without it expands the input himself.
    """
    options = options or PlanOptions()
    began = time.perf_counter()
    expansion = expand(manifests, rows=options.rows, now=options.now)
    for problem in expansion.problems:
        if problem.certain:
            raise InputError(problem.origin, problem.reason, subject=problem.subject)
    manifests = expansion.manifests
    scenarios = read_scenarios(manifests, options.rows)
    engine = Engine(
        EngineOptions(
            {profile.name: profile for profile in options.profiles},
            options.gates,
            options.timing,
            options.sources,
            seed=options.seed,
            share=options.share,
            any_scheduler=options.any_scheduler or not options.profiles,
        )
    )
    everything = manifests.all()
    for loaded in everything:
        refuse_unsupported(loaded.object, loaded.origin, options.gates)
        refuse_unsized(loaded.object, loaded.origin, engine.sources)
        if options.on_object is not None:
            options.on_object(loaded.object)
    for item in (item for scenario in scenarios for step in scenario.steps for item in step.create):
        if options.on_object is not None:
            options.on_object(item)
    start = starts_at(everything) if options.now is None else not_before(options.now, everything)
    engine.watch_owners({type(each.object).KIND for each in everything if isinstance(each.object, GroupOwner)}, start)
    world = VirtualCluster(engine, start)
    world.first_preemption = lambda _: options.first_decision
    ledger = _Ledger(world, accounts=options.account)
    world.keep = ledger.note
    if options.observer is not None:
        options.observer.attach(engine)
        world.observer = options.observer.decided
    for job in manifests.jobs:
        engine.set_job(job, start)
    for item, created in in_order((loaded.object, loaded.created) for loaded in everything):
        world.add(item, created)
    world.note_complete()
    running = sum(1 for pod in world.records.values() if pod.row >= 0)
    asked = {pod.uid: pod for pod in world.records.values() if pod.row < 0}
    if scenarios:
        for scenario in scenarios:
            _play(scenario, world, asked)
    else:
        world.settle()
    remarks = input_remarks(manifests, engine.sources) if options.account else []
    warnings = [*remarks, *options.warnings, *_troubles(engine)]
    answer = _answer(world, ledger, asked, running, warnings, time.perf_counter() - began)
    idle = [*manifests.suspended, *(each for one in scenarios for step in one.steps for each in step.suspended)]
    return Answer(msgspec.structs.replace(answer.plan, suspended=suspended_workloads(idle)), answer.account)


def suspended_workloads(idle: Iterable[Suspended]) -> tuple[SuspendedWorkload, ...]:
    """What calls for no pods as long as it is suspended, sorted (whatif.md 1.5)."""
    found = sorted({(*each[1:], each.message) for each in idle})
    return tuple(
        SuspendedWorkload(api_version=version, kind=kind, namespace=namespace, name=name, message=message)
        for version, kind, namespace, name, _, message in found
    )


def _troubles(engine: Engine) -> list[str]:
    """What went wrong in plugins, each thing once."""
    counts = Counter(trouble.text for trouble in engine.take_plugin_incidents())
    return [text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()]


def _play(scenario: Scenario, world: VirtualCluster, asked: dict[str, PodRecord]) -> None:
    """Run the steps of one scenario; a last step that waits for nothing is followed by settling."""
    world.drain()
    for step in scenario.steps:
        for job in step.jobs:
            world.engine.set_job(job, world.now)
        for turn, item in enumerate(step.create):
            refuse_unsupported(item, scenario.origin, world.engine.gates)
            refuse_unsized(item, scenario.origin, world.engine.sources)
            if isinstance(item, objects.Pod) and world.runs(_key(item)):
                path = f"{step.places[turn]}.metadata.name"
                raise InputError(scenario.origin, f"Pod {_key(item)} already exists at that time", path=path)
            record = world.add(item, world.now + turn * 1e-6)
            if record is not None and record.row < 0:
                asked[record.uid] = record
            if not step.together:
                world.drain()
        for kind, namespace, name in step.delete:
            if not world.delete(kind, namespace, name):
                raise InputError(
                    scenario.origin,
                    f"{kind} {namespace}/{name} does not exist at that time",
                    path=step.path + ".delete",
                )
            if kind == "Pod":
                for uid in [uid for uid, pod in asked.items() if pod.key == f"{namespace}/{name}"]:
                    del asked[uid]
        world.drain()
        if step.wait == "settled":
            world.settle()
        elif step.wait == "victims-gone":
            world.until_victims_are_gone()
        elif step.wait is not None:
            world.until(world.now + float(step.wait))
        if world.stopped:
            return
    if not scenario.steps or scenario.steps[-1].wait is None:
        world.settle()


def starts_at(loaded: Iterable[Loaded[objects.KubernetesObject]]) -> float:
    """When virtual time begins if nobody says, in seconds since the epoch: after all there was made and started."""
    return max(map(_latest, loaded), default=0.0) + 1.0


def _latest(entry: Loaded[objects.KubernetesObject]) -> float:
    item = entry.object
    started = item.status.start_time if isinstance(item, objects.Pod) else None
    return max(entry.created, started.timestamp() if started is not None else 0.0)


def not_before(now: float, loaded: Iterable[Loaded[objects.KubernetesObject]]) -> float:
    """A time to plan for, if everything had been made and started by then. Raises InputError for what had not."""
    for entry in loaded:
        if _latest(entry) > now:
            late, asked = readable_time(_latest(entry)), readable_time(now)
            message = f"made or started at {late}, after the time that is planned for, {asked}"
            raise InputError(entry.origin, message, subject=name_of(entry.object))
    return now


def misread_annotations(loaded: Iterable[Loaded[objects.KubernetesObject]]) -> list[str]:
    """What is wrong with annotations that cannot be read and count as not there (cost.md 2), with whose they are."""
    return [
        f"{entry.object.KIND} {entry.object.key}: {problem}"
        for entry in loaded
        for problem in annotation_problems(entry.object)
    ]


def refuse_unsized(item: objects.KubernetesObject, origin: Origin, sources: GroupSources) -> None:
    """Raise InputError for a pod of a new manifest that gives no size, or none that can be read, for its group.

    One that a cluster has admitted already (it has a UID) waits instead (workloads.md 2.4).
    """
    if isinstance(item, objects.Pod) and not item.metadata.uid:
        membership = sources.membership(item)
        problem = size_problem(membership.source, item) if membership is not None else ""
        if problem:
            path, _, message = problem.partition(": ")
            raise InputError(origin, message, path=path, subject=name_of(item))


def group_remarks(loaded: Sequence[Loaded[objects.KubernetesObject]], sources: GroupSources) -> list[str]:
    """What of groups is left aside: fields nobody reads, further groups of a pod, weaker objects of one name, sizes."""
    found: list[str] = []
    versions: dict[str, set[str]] = {}
    sizes: dict[tuple[str, str], set[int]] = {}
    for entry in loaded:
        item = entry.object
        found += [f"{item.KIND} {item.key}: {problem}" for problem in group_problems(item, sources)]
        if isinstance(item, objects.PodGroup) and sources.read(item):
            version = item.foreign.api_version if item.foreign is not None else item.API_VERSION
            versions.setdefault(item.key, set()).add(version)
        elif isinstance(item, objects.Pod):
            membership = sources.membership(item)
            if membership is not None and membership.size is not None:
                sizes.setdefault((item.namespace, membership.name), set()).add(membership.size)
    for key, several in versions.items():
        strong, *weak = sorted(several, key=(objects.PodGroup.API_VERSION, *FOREIGN_VERSIONS).index)
        found += [f"PodGroup {key} is there as {strong}, which counts, and as {other}" for other in weak]
    for (namespace, name), counts in sizes.items():
        if len(counts) > 1:
            most, *others = sorted(counts, reverse=True)
            rest = ", ".join(map(str, others))
            found.append(f"group {namespace}/{name}: its pods say it has {most} pods, which counts, and {rest}")
    more = len(found) - _MOST_REMARKS
    return [*found[:_MOST_REMARKS], *([f"and {more} more remarks on groups"] if more > 0 else [])]


def _remarks(loaded: Sequence[Loaded[objects.KubernetesObject]]) -> list[str]:
    """The first of the annotations that cannot be read, and how many more there are."""
    found = misread_annotations(loaded)
    more = len(found) - _MOST_REMARKS
    return [*found[:_MOST_REMARKS], *([f"and {more} more annotations that cannot be read"] if more > 0 else [])]


def input_remarks(manifests: Manifests, sources: GroupSources = DEFAULT_SOURCES) -> list[str]:
    """What of an input is left aside, for whoever asks about it."""
    everything = manifests.all()
    return [*left_aside(manifests), *_remarks(everything), *group_remarks(everything, sources)]


def left_aside(manifests: Manifests) -> list[str]:
    """Kinds that do not matter for a plan, and how many objects there are of each."""
    counts = Counter(f"{each.api_version}/{each.kind}" for each in manifests.unknown if not is_unknown_kind(each))
    return [f"{count} × {kind}: not read" for kind, count in sorted(counts.items())]


def refuse_unsupported(item: objects.KubernetesObject, origin: Origin, gates: FeatureGates) -> None:
    """Raise InputError where a rule is in play that is not built or that the gates turn off: never a wrong answer."""
    off = gates.generic_workload and not gates.dra_workload_resource_claims
    if off and isinstance(item, objects.PodGroup) and item.spec.resource_claims:
        text = _OFF.format(gate="DRAWorkloadResourceClaims")
        raise InputError(origin, text, path="spec.resourceClaims", subject=f'PodGroup "{_key(item)}"')


# -- the answer ------------------------------------------------------------------------------------


class _Ledger:
    """Preemptions as they will be told, made of each decision at once: a decision holds on to the whole cluster.

    Spared units are listed one by one up to a number in all; after that only the most important of each decision.
    """

    def __init__(self, world: VirtualCluster, *, accounts: bool) -> None:
        self._world = world
        self._accounts = accounts
        self._listed = 0
        self._evicted: set[str] = set()
        """UIDs of the victims so far."""
        self.outcomes: list[PreemptionOutcome] = []
        self.accounts: list[PreemptionAccount] = []

    def note(self, made: Preempted) -> None:
        """A decision was made."""
        self.outcomes.append(_preemption(self._world, made))
        if not self._accounts:
            return
        spared = made.preemption.reprieved
        most = spared if self._listed < _LISTED_IN_ALL else _LISTED_OF_EACH
        self._listed += min(spared, most)
        self.accounts.append(_account(self._world, made, most, self._evicted))
        self._evicted.update(pod.uid for verdict in made.preemption.victims for pod in verdict.unit.pods)


def _answer(
    world: VirtualCluster,
    ledger: _Ledger,
    asked: dict[str, PodRecord],
    running: int,
    warnings: Sequence[str],
    seconds: float,
) -> Answer:
    engine = world.engine
    pods = sorted((_pod_outcome(world, pod) for pod in asked.values()), key=lambda p: (p.namespace, p.name))
    gone = _gone_by_group(world)
    groups = [
        _group_outcome(world, key, *gone[key]) for key, group in sorted(engine.cluster.groups.items()) if group.spec
    ]
    groups.sort(key=lambda g: (g.namespace, g.name))
    document = Plan(
        pods=tuple(pods),
        pod_groups=tuple(groups),
        composite_pod_groups=composite_outcomes(world),
        preemptions=tuple(ledger.outcomes),
        put_off=put_off_outcomes(world),
        released=released_outcomes(world),
        lost=tuple(_lost_pods(world)),
        stats=Stats(
            seconds=round(seconds, 6),
            virtual_seconds=round(world.now - world.start, 6),
            attempts=engine.attempts,
        ),
    )
    account = Account(
        nodes=engine.cluster.nodes.count,
        running_before=running,
        running_after=sum(1 for pod in engine.cluster.pods.values() if pod.row >= 0),
        preemptions=tuple(ledger.accounts),
        warnings=tuple(warnings),
        terminating=tuple(world.leaving),
    )
    return Answer(document, account)


def _pod_outcome(world: VirtualCluster, pod: PodRecord) -> PodOutcome:
    names = world.engine.cluster.nodes.names
    lost = world.lost.get(pod.uid)
    here = world.engine.cluster.pods.get(pod.uid) is pod and lost is None
    outcome, reason, message = "Scheduled", None, None
    if lost is not None:
        outcome, reason, message = "Unschedulable", "Lost", f"was placed and then lost with node {lost}"
    elif not here:
        preemptor = world.evicted.get(pod.uid)
        outcome, reason = "Unschedulable", "Preempted" if preemptor else "Deleted"
        message = f"was placed and then preempted for {_readable(preemptor)}" if preemptor else None
    elif pod.row < 0:
        outcome, reason, message = _why_pending(world, pod)
    return PodOutcome(
        namespace=pod.namespace,
        name=pod.name,
        pod_group=_group_name(pod),
        priority=pod.priority,
        outcome=outcome,
        node_name=names[pod.row] if here and pod.row >= 0 else None,
        nominated_node_name=names[pod.nominated] if here and pod.nominated >= 0 else None,
        reason=reason,
        message=message,
    )


def _why_pending(world: VirtualCluster, pod: PodRecord) -> tuple[str, str | None, str | None]:
    entity = world.engine.queue.find(pod)
    if entity is not None:
        held = entity.held.get(pod.uid)
        if held is not None:
            return "Gated", SCHEDULING_GATED if pod.gates else UNSCHEDULABLE, held.reason
        if entity.state is QueueState.GATED and entity.blocked is None and not entity.gate.ok:
            return "Gated", UNSCHEDULABLE, entity.gate.reason
    rejection = world.rejections.get(pod.uid)
    if rejection is None:
        running = world.engine.running
        if entity is None and pod.scheduler_name not in running:
            return "Unschedulable", None, f'no profile has the schedulerName "{pod.scheduler_name}"'
        return "Unschedulable", None, None
    if rejection.reason == SCHEDULER_ERROR:
        return "Error", rejection.reason, rejection.message
    waiting = entity is not None and (world.engine.preempting(entity.key) or world.awaits_room(entity.key))
    outcome = "Nominated" if waiting and pod.nominated >= 0 else "Unschedulable"
    return outcome, rejection.reason, rejection.message


def _gone_by_group(world: VirtualCluster) -> defaultdict[str, tuple[int, int]]:
    """By group: how many pods of it were preempted, and how many were lost or deleted."""
    gone: defaultdict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for uid in {**world.evicted, **world.lost, **dict.fromkeys(world.deleted)}:
        pod = world.records.get(uid)
        if pod is not None and pod.group is not None:
            evicted, lost = gone[pod.group]
            gone[pod.group] = (evicted + 1, lost) if uid in world.evicted else (evicted, lost + 1)
    return gone


def _lost_pods(world: VirtualCluster) -> list[LostPod]:
    found = [
        LostPod(
            namespace=pod.namespace,
            name=pod.name,
            pod_group=_group_name(pod),
            node_name=node,
            priority=pod.priority,
        )
        for uid, node in world.lost.items()
        if (pod := world.records.get(uid)) is not None
    ]
    return sorted(found, key=lambda pod: (pod.namespace, pod.name))


def _group_outcome(world: VirtualCluster, key: str, evicted: int, lost: int) -> PodGroupOutcome:
    """`evicted` and `lost`: pods of it that were on a node and are gone or going."""
    engine = world.engine
    group = engine.cluster.groups[key]
    spec = group.spec
    assert spec is not None
    condition = world.conditions.get(group.ref)
    entity = engine.queue.get(group.home)
    outcome, reason, message = "Scheduled", None, None
    gate = entity.gate if entity is not None and entity.state is QueueState.GATED and entity.blocked is None else None
    scheduled = sum(1 for pod in group.running() if pod.uid not in world.lost)
    below = key in world.complete and scheduled < max(group.min_count, 1)
    if condition is not None and condition.scheduled:
        pass
    elif below and scheduled and not group.pending():
        pass  # nobody of it waits: all that is left of it runs
    elif gate is not None and not gate.ok:
        outcome, reason, message = "Gated", UNSCHEDULABLE, gate.reason
    elif condition is not None:
        reason, message = condition.reason, condition.message
        outcome = "Error" if reason == SCHEDULER_ERROR else "Unschedulable"
        if engine.preempting(group.home) or world.awaits_room(group.home):
            outcome = "Nominated"
    elif scheduled < max(group.min_count, 1):
        outcome, reason = "Gated", UNSCHEDULABLE
        message = WAITING_FOR_MEMBERS if group.is_gang else None
    if below and message is None:
        message = f"fell below its minimum: {scheduled} of minCount {group.min_count} left"
    return PodGroupOutcome(
        namespace=group.namespace,
        name=group.name,
        priority=spec.priority,
        min_count=spec.min_count,
        scheduled=scheduled,
        outcome=outcome,
        reason=reason,
        message=message,
        parent=spec.parent.split("/", 1)[1] if spec.parent is not None else None,
        below_minimum=below,
        evicted=evicted,
        lost=lost,
    )


def _preemption(world: VirtualCluster, made: Preempted) -> PreemptionOutcome:
    names = world.engine.cluster.nodes.names
    preemption = made.preemption
    amounts = _amounts(world.engine.cluster, preemption)
    who = preemption.group or preemption.pod
    assert who is not None
    kind = preemption.group.kind if preemption.group is not None else "Pod"
    return PreemptionOutcome(
        preemptor=Preemptor(kind=kind, namespace=who.namespace, name=who.name, priority=preemption.priority),
        domain=preemption.domain,
        nominations={
            pod.key: names[row]
            for pod, row in sorted(preemption.nominations, key=lambda n: (n[0].namespace, n[0].name))
        },
        victims=tuple(
            Victim(
                namespace=pod.namespace,
                name=pod.name,
                pod_group=_group_name(pod),
                node_name=names[row],
                priority=verdict.unit.priority,
                unit=verdict.unit.name,
                violates_pdb=verdict.violates_pdb,
                why=_victim_reason(names, verdict),
            )
            for verdict in preemption.victims
            for pod, row in sorted(
                zip(verdict.unit.pods, verdict.unit.rows, strict=True), key=lambda v: (v[0].namespace, v[0].name)
            )
        ),
        reprieved=preemption.reprieved,
        pdb_violations=preemption.pdb_violations,
        needed={resource: readable(resource, needed) for resource, needed, _ in amounts},
        freed={resource: readable(resource, freed) for resource, _, freed in amounts},
        by_score=_by_score(world.engine.cluster, preemption),
        cost=_cost(world.engine.cluster, preemption),
        cascade=_in_turn(preemption.cascade),
        avoided=AvoidedEviction(units=names_of(preemption.avoided.victims), cascade=_in_turn(preemption.avoided.steps))
        if preemption.avoided is not None
        else None,
    )


def _cost(cluster: ClusterState, preemption: Preemption) -> EvictionCost:
    lost, decided = lost_by(cluster, preemption), decisive(preemption)
    return EvictionCost(
        lost_gpu_hours=round(lost.gpu / 3600, 3),
        lost_cpu_hours=round(lost.cpu / 3600, 3),
        by_criterion=by_criterion(preemption.criteria, preemption.cost),
        decided_by=decided[0].name if decided is not None else None,
        values=decided[1:] if decided is not None else (),
    )


def _in_turn(steps: Sequence[CascadeStep]) -> tuple[InTurn, ...]:
    return tuple(InTurn(round=t.round, by=t.evictor, evicted=t.evicted, pods=t.pods) for t in turns(steps))


def _amounts(cluster: ClusterState, preemption: Preemption) -> list[tuple[str, int, int]]:
    """(resource, needed, freed) of everything the preemptor asks for, the largest part of the cluster first.

    Pods are no resource anybody asks for.
    """
    needed: Counter[int] = Counter()
    for pod, _ in preemption.nominations:
        needed.update(dict(pod.signature.requests))
    nodes, names = cluster.nodes, cluster.resources.names
    columns = [column for column in needed if column >= FIRST_RESOURCE and names[column] != "pods"]
    victims = [pod for verdict in preemption.victims for pod in verdict.unit.pods]
    freed = {column: sum(int(pod.signature.delta[column]) for pod in victims) for column in columns}
    n = len(nodes)
    have = {column: int(nodes.stated(column)[nodes.alive[:n]].sum()) for column in columns}
    parts = scarcest_first(Missing(names[column], needed[column], max(1, have[column])) for column in columns)
    by_name = {names[column]: column for column in columns}
    return [(one.resource, needed[by_name[one.resource]], freed[by_name[one.resource]]) for one in parts]


def _by_score(cluster: ClusterState, preemption: Preemption) -> PlacingByScore | None:
    units = preemption.by_score
    if units is None:
        return None
    asked = {column for pod, _ in preemption.nominations for column, _ in pod.signature.requests}
    names = cluster.resources.names
    pods = [pod for unit in units for pod in unit.pods]
    freed = {names[column]: sum(int(pod.signature.delta[column]) for pod in pods) for column in asked}
    return PlacingByScore(
        pods=len(pods),
        highest_priority=max((unit.priority for unit in units), default=None),
        freed={name: readable(name, freed[name]) for name in sorted(freed) if name != "pods"},
    )


def _worth(preemption: Preemption) -> tuple[int, int] | None:
    """Pods and highest priority of the other way to place the group, where they differ from what was chosen."""
    others = preemption.by_score
    if not others:
        return None
    chosen = [verdict.unit for verdict in preemption.victims]
    one, other = (
        (sum(len(unit.pods) for unit in units), max((unit.priority for unit in units), default=0))
        for units in (chosen, others)
    )
    return other if one != other else None


def _victim_reason(names: Sequence[str], verdict: Verdict) -> VictimReason | None:
    reason = verdict.reason
    if reason is None:
        return None
    missing = {one.resource: readable(one.resource, one.short) for one in reason.missing}
    return VictimReason(pod=reason.pod.key, node_name=names[reason.row], message=reason.text, missing=missing)


def _account(world: VirtualCluster, made: Preempted, most: int, before: Set[str]) -> PreemptionAccount:
    """`most`: how many spared units to list; `before`: UIDs of the victims of earlier decisions."""
    names = world.engine.cluster.nodes.names
    preemption = made.preemption
    if preemption.group is not None:
        preemptor = f"{preemption.group.kind.lower()} {preemption.group.key}"
    else:
        preemptor = f"pod {preemption.pod.key if preemption.pod is not None else ''}"
    amounts = _amounts(world.engine.cluster, preemption)
    listed: list[UnitAccount] = []
    more = protected = 0
    for verdict in preemption.verdicts:
        if verdict.evicted or most > 0:
            listed.append(_unit(world, verdict, made.at, before))
            most -= not verdict.evicted
        else:
            more += 1
            protected += verdict.violates_pdb
    return PreemptionAccount(
        preemptor=preemptor,
        priority=preemption.priority,
        domain=preemption.domain,
        at=made.at - world.start,
        nominations=tuple((pod.key, names[row]) for pod, row in preemption.nominations),
        units=tuple(listed),
        candidates=preemption.candidates,
        needed=_first_amount(amounts),
        by_score=_worth(preemption),
        cost_notes=cost_sentences(world.engine.cluster, preemption),
        more_spared=more,
        more_protected=protected,
    )


def _first_amount(amounts: Sequence[tuple[str, int, int]]) -> tuple[str, str, str] | None:
    for resource, needed, freed in amounts:
        return resource, readable(resource, needed), readable(resource, freed)
    return None


def _unit(world: VirtualCluster, verdict: Verdict, now: float, before: Set[str]) -> UnitAccount:
    names = world.engine.cluster.nodes.names
    unit, reason = verdict.unit, verdict.reason
    why = ""
    if reason is not None:
        short = {one.resource: readable(one.resource, one.short) for one in reason.missing}
        text = shortages_text(short) if short else reason.text
        why = f"with it back, {reason.pod.key} would not fit on {names[reason.row]}: {text}"
    started = [pod.start for pod in unit.pods if pod.start is not None]
    return UnitAccount(
        unit=unit.name,
        whole_group=unit.group is not None,
        pods=tuple(pod.key for pod in unit.pods),
        nodes=tuple(sorted({names[row] for row in unit.rows})),
        priority=unit.priority,
        violates_pdb=verdict.violates_pdb,
        evicted=verdict.evicted,
        why=why,
        running_seconds=max(0.0, now - min(started)) if started else None,
        evicted_before=verdict.evicted and all(pod.uid in before for pod in unit.pods),
    )


def _readable(key: str) -> str:
    kind, _, name = key.partition("/")
    return f"{_KINDS[kind]} {name}"


_KINDS = {"pod": "pod", "group": "podgroup", "composite": "compositepodgroup"}


def _group_name(pod: PodRecord) -> str | None:
    return pod.group.split("/", 1)[1] if pod.group is not None else None


def _key(item: objects.KubernetesObject) -> str:
    return f"{item.metadata.namespace or 'default'}/{item.metadata.name}"
