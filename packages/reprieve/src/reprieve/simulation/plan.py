"""`reprieve plan`: what would happen, and why, without changing anything (interfaces.md).

The input's cluster is rebuilt around an engine and runs in simulated time until nothing changes, or to the first
decision to preempt. A Scenario document adds events.
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
    """Receives decisions while the cluster is still in the state of the decision."""

    def attach(self, engine: Engine) -> None:
        """Receive the engine that makes the decisions."""

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Receive the decision of an ended attempt; `seconds` is not measured here."""


class EngineKeeper:
    """An observer that stores the engine of a plan and forwards decisions to others (`PlanObserver`)."""

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
    """The options of a plan. Without profiles the default profile schedules all pods."""

    first_decision: bool = False
    """Stop at the first decision to preempt, before victims are evicted; else run until nothing changes."""
    gates: FeatureGates = field(default_factory=FeatureGates)
    profiles: tuple[Profile, ...] = ()
    sources: GroupSources = DEFAULT_SOURCES
    """The sources of group membership."""
    any_scheduler: bool = False
    """The first profile also schedules the pods of unknown schedulers."""
    on_object: Callable[[objects.KubernetesObject], None] | None = None
    """Called with every object of the input before any decision."""
    warnings: tuple[str, ...] = ()
    """Additional warnings of the answer."""
    timing: Timing = field(default_factory=Timing)
    seed: int | None = None
    rows: Rows = TABLE
    """Rows of the kinds that create pods, also for steps of a scenario."""
    now: float | None = None
    """The start of simulated time in seconds since the epoch, after all objects; None: a second after the newest."""
    observer: PlanObserver | None = None
    """Receives every decision."""
    on_loaded: Callable[[Engine, float], None] | None = None
    """Called with the engine and the simulated time after loading, before any decision."""
    account: bool = True
    """Create the additional data of the text output; without it the account has only numbers."""
    share: bool = True
    """Share work between identical pods; turn it off only for comparison (the answer is the same)."""

    def __post_init__(self) -> None:
        if not isinstance(self.gates, FeatureGates):
            type_name = type(self.gates).__name__
            raise TypeError(
                f"PlanOptions: gates: expected FeatureGates, not a {type_name}: FeatureGates.of makes them by name"
            )


def plan(manifests: Manifests, options: PlanOptions | None = None) -> Answer:
    """Run the input in simulated time, with the pods that controllers would create (whatif.md 1).

    Raises InputError for an input that cannot be decided correctly, and for a workload that cannot be expanded. Expand
    the input first to plan without such a workload.
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
    owner_kinds = {kind.KIND for kind, of_kind in manifests.objects.items() if of_kind and issubclass(kind, GroupOwner)}
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
    later = [remark for scenario in scenarios for step in scenario.steps for remark in step.remarks]
    remarks = input_remarks(manifests, engine.sources, later) if options.account else []
    warnings = [*remarks, *options.warnings, *_incidents(world), *world.admission.refused_objects]
    answer = _answer(world, ledger, pending, running, warnings, time.perf_counter() - began)
    idle = [*manifests.suspended, *(item for script in scenarios for step in script.steps for item in step.suspended)]
    makers = [*manifests.expanded, *(item for script in scenarios for step in script.steps for item in step.makers)]
    refused = refused_workloads(world.admission, makers)
    document = msgspec.structs.replace(answer.plan, suspended=suspended_workloads(idle), refused=refused)
    return Answer(document, answer.account, moves=engine.cluster.touched.total)


def _incidents(world: VirtualCluster) -> list[str]:
    """Return the distinct incidents in plugins."""
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
    """Run the steps of one scenario; after a last step without a wait the cluster settles."""
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
    reported = {**pending, **{pod.uid: pod for pod in world.made_later}}
    outcomes = [*(pod_outcome(world, pod) for pod in reported.values()), *refused_pods(world.admission, engine.sources)]
    pods = sorted(outcomes, key=lambda p: (p.namespace, p.name))
    removed = gone_by_group(world)
    groups = [
        group_outcome(world, key, *removed[key]) for key, group in sorted(engine.cluster.groups.items()) if group.spec
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
