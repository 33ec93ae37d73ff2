"""Answers to questions that are found by trying everything, to hold those of the product against."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import HIGHEST_USER_PRIORITY
from kube_rules.manifests import Manifests
from kube_rules.requests import pod_requests, resource_list
from reprieve.decisions.hints import helps_of
from reprieve.decisions.outcomes import Help
from reprieve.decisions.queue_items import PRIORITY
from reprieve.python.pending_records import WaitingRecords
from reprieve.questions import drain_order
from reprieve.questions.capacity import capacity
from reprieve.questions.changes import InputChange, changed
from reprieve.questions.drain_order import DrainPlan
from reprieve.questions.drain_steps import steps_of
from reprieve.questions.pod_edits import amount_of, edited, text_of
from reprieve.questions.queue_order import queue_of
from reprieve.scheduling.decision import Decision
from reprieve.scheduling.engine import Engine
from reprieve.simulation.plan import PlanOptions, plan
from tests.questions.random_inputs import RACK, random_input, random_shape

Workload = tuple[str, str, str]
"""(Pod or PodGroup, namespace, name)."""


def runs(manifests: Manifests, workload: Workload) -> bool:
    """Whether a plan of the input places it."""
    kind, namespace, name = workload
    document = plan(manifests, PlanOptions(account=False)).plan
    outcomes = document.pods if kind == "Pod" else document.pod_groups
    return any((one.namespace, one.name, one.outcome) == (namespace, name, "Scheduled") for one in outcomes)


def with_highest_priority(manifests: Manifests, workload: Workload) -> Manifests:
    """The input with the highest priority that users may give it."""
    kind, namespace, name = workload
    change = InputChange("set-priority", f"{namespace}/{kind.lower()}/{name}={HIGHEST_USER_PRIORITY}")
    return changed(manifests, [change]).manifests


def waiting_for_priority(seed: int) -> list[tuple[Workload, bool, bool]]:
    """Of each pending workload of a random input: whether the queue says Priority, and whether the highest would help.

    Those that the queue says are placed, gated or held back by constraints are left out.
    """
    manifests = random_input(seed)
    found = []
    for item in queue_of(manifests, PlanOptions()).items:
        if item.why in (PRIORITY, "Resources"):
            workload = (item.kind, item.namespace, item.name)
            found.append((workload, item.why == PRIORITY, runs(with_highest_priority(manifests, workload), workload)))
    return found


# -- shortages -------------------------------------------------------------------------------------


class _Preemptions:
    """Keeps what each preemption of a plan states as missing, and what is missing by counting pods (`PlanObserver`)."""

    def __init__(self) -> None:
        self.engine: Engine | None = None
        self.stated: list[Stated] = []

    def attach(self, engine: Engine) -> None:
        self.engine = engine

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        if decision.preemption is None or self.engine is None:
            return
        cluster, made = self.engine.cluster, decision.preemption
        gone = {pod.uid for verdict in made.victims for pod in verdict.unit.pods}
        for verdict in made.victims:
            reason = verdict.reason
            if reason is None or not reason.missing:
                continue
            row = reason.row
            there = [pod for pod in cluster.nodes.pods[row].values() if pod.uid not in gone]
            there += [pod for pod, at in zip(verdict.unit.pods, verdict.unit.rows, strict=True) if at == row]
            there += [pod for pod in cluster.nodes.nominated.get(row, {}).values() if pod.priority >= made.priority]
            missing = {one.resource: one.short for one in reason.missing}
            for column, _ in reason.pod.signature.requests:
                name = cluster.resources.names[column]
                taken = sum(int(pod.signature.delta[column]) for pod in there)
                lacking = taken - int(cluster.nodes.allocatable[column, row])
                if lacking > 0 or name in missing:
                    self.stated.append((verdict.unit.name, name, missing.get(name, 0), lacking))


Stated = tuple[str, str, int, int]
"""(victim, resource, amount stated as missing if it stayed, amount missing by counting pods)."""


def missing_with_victims_back(seed: int) -> list[Stated]:
    """What preemptions of a random input state as missing on a node with a victim back, and what is missing."""
    seen = _Preemptions()
    plan(random_input(seed), PlanOptions(observer=seen))
    return seen.stated


def freed(manifests: Manifests, hint: Help) -> Manifests:
    """The input with what a hint states as missing added to as many nodes as it names."""

    def larger(node: objects.Node) -> objects.Node:
        if node.name not in hint.on[: hint.nodes]:
            return node
        amounts = resource_list(node.status.allocatable)
        for name, amount in hint.missing.items():
            amounts[name] = amounts.get(name, 0) + amount_of(amount, name)
        allocatable = {name: text_of(amount, name) for name, amount in amounts.items()}
        return replace(node, status=replace(node.status, allocatable=allocatable))

    return edited(manifests, objects.Node, larger)


def stated_shortages(seed: int) -> list[tuple[str, bool]]:
    """Of each statement that so much is to be freed in a random input of one pending workload: the sentence and whether
    the workload runs then."""
    found = []
    manifests = random_input(seed, pending_workloads=1)
    records = WaitingRecords()
    document = plan(manifests, PlanOptions(observer=records, account=False)).plan
    waiting = [("PodGroup", one.namespace, one.name, one.outcome) for one in document.pod_groups]
    waiting += [("Pod", one.namespace, one.name, one.outcome) for one in document.pods if one.pod_group is None]
    for kind, namespace, name, outcome in waiting:
        record = records.of(kind, namespace, name)
        if outcome != "Unschedulable" or record is None:
            continue
        hints = [hint for hint in helps_of(record) if hint.kind == "Free" and len(hint.on) >= (hint.nodes or 1)]
        found += [(hint.sentence, runs(freed(manifests, hint), (kind, namespace, name))) for hint in hints]
    return found


# -- drains ----------------------------------------------------------------------------------------


def breaks_of(found: DrainPlan) -> int:
    """How often a drain plan breaks gangs."""
    return sum(gang.times for gang in found.gangs)


def fewest_breaks(manifests: Manifests, names: Sequence[str], below: int = 1 << 30) -> int:
    """The fewest times that gangs break over all orders of the nodes, each alone or in the steps of the product.

    `below`: what is known to be possible; only less is searched for.
    """
    options = PlanOptions(first_decision=False)
    closed = changed(manifests, [InputChange("cordon", name) for name in names]).manifests
    best = below

    def search(there: Manifests, left: list[tuple[str, ...]], so_far: int) -> None:
        nonlocal best
        if so_far >= best:
            return
        if not left:
            best = so_far
            return
        for step in left:
            drained = drain_order._planned(drain_order._Drain(there, step), options)
            after = drain_order._after(there, drained)
            search(after, [one for one in left if one != step], so_far + len(drained.step.broken))

    together: list[tuple[str, ...]] = steps_of(closed, names)
    alone: list[tuple[str, ...]] = [(name,) for name in names]
    search(closed, together, 0)
    if together != alone:
        search(closed, alone, 0)
    return best


# -- capacity --------------------------------------------------------------------------------------


def _topology(group: objects.PodGroup) -> list[str]:
    constraints = group.spec.scheduling_constraints
    return [one.key for one in constraints.topology] if constraints is not None else []


def most_copies(cluster: Manifests, shape: Manifests, *, evicting: bool) -> int:
    """How many copies of a gang fit, by an integer program over amounts; `evicting`: beside what it may not evict."""
    (made,) = (loaded.object for loaded in shape.pod_groups)
    key = next(iter(_topology(made)), None)
    free: dict[str, dict[str, int]] = {}
    domain: dict[str, str] = {}
    for node in (loaded.object for loaded in cluster.nodes):
        free[node.name] = resource_list(node.status.allocatable)
        domain[node.name] = node.metadata.labels[key] if key else ""
    for pod in (loaded.object for loaded in cluster.pods):
        if not evicting or (pod.spec.priority or 0) >= (made.spec.priority or 0):
            for name, amount in {**pod_requests(pod), "pods": 1}.items():
                free[pod.spec.node_name][name] -= amount
    sorts = Counter(tuple(sorted(pod_requests(loaded.object).items())) for loaded in shape.pods)
    return sum(
        _copies_on([free[name] for name in free if domain[name] == there], sorts) for there in set(domain.values())
    )


def _copies_on(nodes: Sequence[Mapping[str, int]], sorts: Mapping[tuple[tuple[str, int], ...], int]) -> int:
    from scipy.optimize import Bounds, LinearConstraint, milp

    kinds = [({**dict(requests), "pods": 1}, count) for requests, count in sorts.items()]
    width = 1 + len(kinds) * len(nodes)  # the copies; how many of each sort are on each node
    rows, low, high = [], [], []
    for sort, (_, count) in enumerate(kinds):
        row = [0.0] * width
        row[0] = -count
        row[1 + sort * len(nodes) : 1 + (sort + 1) * len(nodes)] = [1.0] * len(nodes)
        rows.append(row)
        low.append(0.0)
        high.append(0.0)
    for at, node in enumerate(nodes):
        for name in {name for requests, _ in kinds for name in requests}:
            row = [0.0] * width
            # In bytes the solver's tolerances lose whole copies.
            largest = max(requests.get(name, 0) for requests, _ in kinds) or 1
            for sort, (requests, _) in enumerate(kinds):
                row[1 + sort * len(nodes) + at] = requests.get(name, 0) / largest
            rows.append(row)
            low.append(-1e9)
            high.append(max(0, node.get(name, 0)) / largest)
    found = milp(
        [-1.0] + [0.0] * (width - 1),
        constraints=LinearConstraint(rows, low, high),
        integrality=[1] * width,
        bounds=Bounds(0, 1000),
        options={"presolve": False},  # with it a copy that fits was left out (scipy 1.17, seed 770361)
    )
    copies = -float(found.fun)
    return round(copies)


def capacities(seed: int) -> list[tuple[str, int, bool, int]]:
    """(figure, what capacity answers, whether it says that it is exact, what is true) of a random gang and cluster."""
    cluster, shape = random_shape(seed)
    found = capacity(cluster, shape, PlanOptions())
    first = next(loaded for loaded in shape.pods)
    group = shape.pod_groups[0].object
    single = Manifests(objects={**shape.objects, objects.Pod: [first]})
    largest = most_copies(cluster, single, evicting=False)
    if _topology(group):
        racks = {loaded.object.metadata.labels[RACK] for loaded in cluster.nodes}
        of_rack = [
            Manifests(
                objects={
                    **cluster.objects,
                    objects.Node: [one for one in cluster.nodes if one.object.metadata.labels[RACK] == rack],
                    objects.Pod: [
                        one
                        for one in cluster.pods
                        if one.object.spec.node_name
                        in {n.object.name for n in cluster.nodes if n.object.metadata.labels[RACK] == rack}
                    ],
                }
            )
            for rack in sorted(racks)
        ]
        largest = max(most_copies(rack, single, evicting=False) for rack in of_rack)
    figures = {
        "now": (found.now, most_copies(cluster, shape, evicting=False)),
        "withPreemption": (found.with_preemption, most_copies(cluster, shape, evicting=True)),
        "largestGang": (found.largest_gang, largest),
    }
    return [(name, says, name not in found.at_least, true) for name, (says, true) in figures.items()]
