"""`reprieve plan`: what would happen, and why, without touching anything (interfaces.md).

The input's cluster is rebuilt around an engine and run in simulated time until nothing changes, or to the first
decision to preempt; a Scenario document lets things happen meanwhile.
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kube_rules import objects
from kube_rules.errors import InputError
from kube_rules.group_owners import GroupOwner
from kube_rules.group_sources import DEFAULT_SOURCES, GroupSources
from kube_rules.manifests import Manifests
from reprieve.cluster.pods import PodRecord
from reprieve.decisions.reserved_capacity import reserved_capacity
from reprieve.framework.gates import FeatureGates
from reprieve.framework.profile import Profile
from reprieve.queueing.timers import Timing
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.scheduling.engine_options import EngineOptions
from reprieve.simulation.plan_inputs import input_remarks, not_before, refuse_unplannable, starts_at
from reprieve.simulation.report import Account, Answer, Plan, Stats
from reprieve.simulation.report_outcomes import (
    gone_by_group,
    group_outcome,
    lost_pods,
    pod_outcome,
    resize_outcomes,
    suspended_workloads,
)
from reprieve.simulation.report_preemptions import (
    PreemptionLedger,
    deferred_preemptions,
    released_capacity,
)
from reprieve.simulation.report_refusals import refused_pods, refused_workloads
from reprieve.simulation.report_trees import composite_outcomes
from reprieve.simulation.scenario import ScenarioScript, read_scenarios
from reprieve.simulation.virtual import VirtualCluster
from reprieve.simulation.workloads.expansion import expand
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE


class PlanObserver(Protocol):
    """Is notified of decisions while the cluster is still the one that they were made on."""

    def attach(self, engine: Engine) -> None:
        """Take the engine that makes the decisions."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Take the decision of an attempt that ended; `seconds` are not measured here."""


class EngineKeeper:
    """Keeps the engine of a plan, and passes decisions on to further observers (`PlanObserver`)."""

    def __init__(self, *observers: PlanObserver | None) -> None:
        self.engine: Engine | None = None
        self._observers = [observer for observer in observers if observer is not None]

    def attach(self, engine: Engine) -> None:
        """See `PlanObserver`."""
        self.engine = engine
        for observer in self._observers:
            observer.attach(engine)

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """See `PlanObserver`."""
        for observer in self._observers:
            observer.decided(decision, seconds=seconds, now=now)


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
    """Seconds since the epoch when simulated time begins, after all objects; without it a second after the newest."""
    observer: PlanObserver | None = None
    """Notified of every decision."""
    on_loaded: Callable[[Engine, float], None] | None = None
    """Called when the engine knows the whole input and nothing is decided yet, with the time in simulated seconds."""
    account: bool = True
    """Make what the text reports beyond the document; without it the account has numbers alone."""
    share: bool = True
    """Share work between identical pods; off only to compare (the answer is the same)."""

    def __post_init__(self) -> None:
        if not isinstance(self.gates, FeatureGates):
            found = type(self.gates).__name__
            raise TypeError(
                f"PlanOptions: gates: expected FeatureGates, not a {found}: FeatureGates.of makes them by name"
            )


def plan(manifests: Manifests, options: PlanOptions | None = None) -> Answer:
    """Run the input in simulated time, with the pods that controllers would make of it (whatif.md 1).

    Raises InputError for what cannot be decided faithfully, and for a workload that cannot be expanded: callers that
    plan without it expand the input first.
    """
    options = options or PlanOptions()
    began = time.perf_counter()
    expansion = expand(manifests, rows=options.rows, now=options.now)
    for problem in expansion.problems:
        if problem.certain:
            raise InputError(problem.origin, problem.reason, subject=problem.subject)
    manifests = expansion.manifests
    scenarios = read_scenarios(manifests, options.rows)
    engine = _engine(options)
    everything = manifests.all()
    for loaded in everything:
        refuse_unplannable(loaded.object, loaded, options.gates, engine.sources)
        if options.on_object is not None:
            options.on_object(loaded.object)
    created: list[objects.KubernetesObject] = [
        item for scenario in scenarios for step in scenario.steps for item in step.create
    ]
    if options.on_object is not None:
        for item in created:
            options.on_object(item)
    start = starts_at(everything) if options.now is None else not_before(options.now, everything)
    world = VirtualCluster(engine, start)
    owner_kinds = {kind.KIND for kind, found in manifests.objects.items() if found and issubclass(kind, GroupOwner)}
    world.keep_effects(engine.watch_owners(owner_kinds, start))
    world.first_preemption = lambda _: options.first_decision
    ledger = PreemptionLedger(world, accounts=options.account)
    world.keep = ledger.note
    if options.observer is not None:
        options.observer.attach(engine)
        world.observer = options.observer.decided
    for job in manifests.jobs:
        world.keep_effects(engine.set_job(job, start))
    world.load(((loaded.object, loaded.created) for loaded in everything), manifests, created)
    world.note_complete()
    if options.on_loaded is not None:
        options.on_loaded(engine, start)
    running = sum(1 for pod in engine.cluster.pods.values() if pod.row >= 0)
    pending = {pod.uid: pod for pod in engine.cluster.pods.values() if pod.row < 0}
    for scenario in scenarios:
        _play(scenario, world, pending)
    if not scenarios:
        world.settle()
    later = [each for scenario in scenarios for step in scenario.steps for each in step.remarks]
    remarks = input_remarks(manifests, engine.sources, later) if options.account else []
    warnings = [*remarks, *options.warnings, *_incidents(world), *world.admission.refused_objects]
    answer = _answer(world, ledger, pending, running, warnings, time.perf_counter() - began)
    idle = [*manifests.suspended, *(each for one in scenarios for step in one.steps for each in step.suspended)]
    makers = [*manifests.expanded, *(each for one in scenarios for step in one.steps for each in step.makers)]
    refused = refused_workloads(world.admission, makers)
    document = msgspec.structs.replace(answer.plan, suspended=suspended_workloads(idle), refused=refused)
    return Answer(document, answer.account, moves=engine.cluster.touched.total)


def _incidents(world: VirtualCluster) -> list[str]:
    """Return what went wrong in plugins, each text once."""
    counts = Counter(incident.text for incident in world.incidents)
    return [text if count == 1 else f"{text} ({count} times)" for text, count in counts.items()]


def _engine(options: PlanOptions) -> Engine:
    return Engine(
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


def _play(scenario: ScenarioScript, world: VirtualCluster, pending: dict[str, PodRecord]) -> None:
    """Run the steps of one scenario; a last step that waits for nothing is followed by settling."""
    world.drain()
    for step in scenario.steps:
        for job in step.jobs:
            world.keep_effects(world.engine.set_job(job, world.now))
        world.admission.take_makers(step.makers, world.now)
        for turn, item in enumerate(step.create):
            refuse_unplannable(item, scenario, world.engine.gates, world.engine.sources)
            if isinstance(item, objects.Pod) and world.runs(item.full_key):
                path = f"{step.places[turn]}.metadata.name"
                raise InputError(scenario.origin, f"Pod {item.full_key} already exists at that time", path=path)
            record = world.add(item, world.now + turn * 1e-6)
            if record is not None and record.row < 0:
                pending[record.uid] = record
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
                for uid in [uid for uid, pod in pending.items() if pod.key == f"{namespace}/{name}"]:
                    del pending[uid]
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


def _answer(
    world: VirtualCluster,
    ledger: PreemptionLedger,
    pending: dict[str, PodRecord],
    running: int,
    warnings: Sequence[str],
    seconds: float,
) -> Answer:
    engine = world.engine
    asked = {**pending, **{pod.uid: pod for pod in world.made_later}}
    outcomes = [*(pod_outcome(world, pod) for pod in asked.values()), *refused_pods(world.admission, engine.sources)]
    pods = sorted(outcomes, key=lambda p: (p.namespace, p.name))
    gone = gone_by_group(world)
    groups = [
        group_outcome(world, key, *gone[key]) for key, group in sorted(engine.cluster.groups.items()) if group.spec
    ]
    groups.sort(key=lambda g: (g.namespace, g.name))
    document = Plan(
        pods=tuple(pods),
        pod_groups=tuple(groups),
        composite_pod_groups=composite_outcomes(world),
        preemptions=tuple(ledger.outcomes),
        put_off=deferred_preemptions(world),
        released=released_capacity(world),
        reservations=reserved_capacity(world.engine),
        lost=tuple(lost_pods(world)),
        resizes=resize_outcomes(world),
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
