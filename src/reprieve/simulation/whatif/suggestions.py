"""The smallest change after which somebody who waits would run (whatif.md 5), each tried before it is suggested.

Terms: a trial plans the same input again with one change more, as the flags of the command line would make it; the
input is never changed, so there is nothing to undo.  A suggestion holds if with it the pod or gang runs at the end, and
with one step less of the same sort it does not.

Invariants: what could not be tried is left out; the number of trials is bounded by the size of the input (`MOST_WORK`),
never by the clock, so the same input gets the same suggestions.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from typing import Final, TypeVar

from msgspec.structs import replace

from reprieve.api import objects
from reprieve.api.errors import InputError
from reprieve.api.group_sources import pod_group_name
from reprieve.api.manifests import Loaded, Manifests
from reprieve.api.meta import KubernetesObject
from reprieve.api.quantity import milli_value_of, value_of
from reprieve.api.requests import pod_requests, resource_list
from reprieve.cluster.taints import tolerates
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import Answer, Help, Plan
from reprieve.simulation.whatif.changes import HOSTNAME, Change, changed, named
from reprieve.simulation.workloads.expanding import expand
from reprieve.simulation.workloads.owners import HASH, reference_of
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_WORK: Final = 25_000
"""Objects that the trials of one answer may plan in all; many rules of one pod count as objects do."""
FEW_RULES: Final = 8
"""Affinity terms and spread constraints of a pod that count with it."""
LEAST_WORK: Final = 200
"""A trial counts as so many objects at least."""
MOST_HELPED: Final = 5
"""For so many of those who wait it is reported what would help, the most important first."""
MOST_NODES: Final = 64
MOST_SHAPES: Final = 3
MOST_DOMAINS: Final = 8
MOST_WORKLOADS: Final = 24
MOST_TAINTS: Final = 3
HIGHEST_PRIORITY: Final = 1_000_000_000
_LIFECYCLE: Final = "node.kubernetes.io/"
_REJECTING: Final = ("NoSchedule", "NoExecute")

_T = TypeVar("_T", bound=KubernetesObject)

Waiting = tuple[str, str, str]
"""(Pod or PodGroup, namespace, name)."""


@dataclass(slots=True)
class Trials:
    """Plans an input again and again. `base`: before its workloads were expanded, to which flags apply."""

    manifests: Manifests
    options: PlanOptions
    base: Manifests | None = None
    rows: Rows = TABLE
    run: Sequence[str] = ()
    left: int = MOST_WORK
    spent: bool = False
    """Something was not tried because there had been trials enough."""
    _known: dict[tuple[Waiting, tuple[str, ...]], bool] = field(default_factory=dict)

    def runs(self, who: Waiting, changes: Sequence[Change]) -> bool:
        """Whether it runs after these changes. Raises _Spent when there have been trials enough."""
        key = (who, tuple(map(str, changes)))
        if key not in self._known:
            self._known[key] = self.runs_in(who, self._changed(changes))
        return self._known[key]

    def runs_in(self, who: Waiting, manifests: Manifests) -> bool:
        """Whether it runs in another input."""
        cost = max(LEAST_WORK, sum(map(len, manifests.objects.values())) + sum(map(_rules, manifests.pods)))
        if cost > self.left:
            self.spent = True
            raise _SpentError
        self.left -= cost
        now = self.options.now  # what a change adds may be newer
        now = max(now, starts_at(manifests.all())) if now is not None else None
        options = with_fields(self.options, first_decision=False, observer=None, on_object=None, now=now, account=False)
        try:
            return _runs(plan(manifests, options).plan, who)
        except InputError:
            return False

    def _changed(self, changes: Sequence[Change]) -> Manifests:
        """The input as it is when the flags are given too; groups that were made are there only when it is expanded."""
        base = self.base
        if base is not None and base.pod_makers:
            try:
                return expand(changed(base, changes, rows=self.rows).manifests, rows=self.rows, run=self.run).manifests
            except InputError:
                pass
        return changed(self.manifests, changes, rows=self.rows).manifests


def _rules(loaded: Loaded[objects.Pod]) -> int:
    """How many rules about other pods a pod has beyond a few: each takes about as long as an object."""
    spec = loaded.object.spec
    affinity, count = spec.affinity, len(spec.topology_spread_constraints)
    for kind in () if affinity is None else (affinity.pod_affinity, affinity.pod_anti_affinity):
        if kind is not None:
            count += len(kind.required_during_scheduling_ignored_during_execution)
            count += len(kind.preferred_during_scheduling_ignored_during_execution)
    return max(0, count - FEW_RULES)


class _SpentError(Exception):
    """There have been trials enough."""


def helped(
    answer: Answer, trials: Trials, hints: Callable[[Waiting], Sequence[Help]], only: Waiting | None = None
) -> Answer:
    """The answer with what would help those who wait, each suggestion tried; `only`: nobody but this one.

    `hints`: what the last attempt of somebody says would help; what does not hold in a trial is left out.
    """
    document = answer.plan
    waiting: list[tuple[int, Waiting]] = [
        (-pod.priority, ("Pod", pod.namespace, pod.name))
        for pod in document.pods
        if pod.asked and pod.outcome == "Unschedulable" and pod.pod_group is None and pod.reason == "Unschedulable"
    ]
    waiting += [
        (-group.priority, ("PodGroup", group.namespace, group.name))
        for group in document.pod_groups
        if group.asked and group.outcome == "Unschedulable"
    ]
    found: dict[Waiting, tuple[Help, ...]] = {}
    chosen = [one for one in sorted(waiting) if only in (None, one[1])][:MOST_HELPED]
    for turn, (_, who) in enumerate(chosen):
        share = trials.left // (len(chosen) - turn)
        aside, trials.left = trials.left - share, share
        found[who] = tuple(_Finder(who, trials, document).all(hints(who)))
        trials.left += aside
    pods = tuple(replace(pod, help=found.get(("Pod", pod.namespace, pod.name), ())) for pod in document.pods)
    groups = tuple(
        replace(group, help=found.get(("PodGroup", group.namespace, group.name), ())) for group in document.pod_groups
    )
    return Answer(replace(document, pods=pods, pod_groups=groups), answer.account)


def _runs(document: Plan, who: Waiting) -> bool:
    kind, namespace, name = who
    if kind == "Pod":
        return any((pod.namespace, pod.name, pod.outcome) == (namespace, name, "Scheduled") for pod in document.pods)
    return any(
        (group.namespace, group.name, group.outcome) == (namespace, name, "Scheduled") for group in document.pod_groups
    )


class _Finder:
    """Looks for the smallest changes for one who waits."""

    def __init__(self, who: Waiting, trials: Trials, document: Plan) -> None:
        self._who = who
        self._trials = trials
        self._document = document
        kind, namespace, name = who
        manifests = trials.manifests
        self._pods = [
            loaded.object
            for loaded in manifests.pods
            if loaded.object.namespace == namespace
            and (loaded.object.name == name if kind == "Pod" else pod_group_name(loaded.object) == name)
        ]
        groups = (one.object for one in manifests.pod_groups if (one.object.namespace, one.object.name) == who[1:])
        self._group = next(groups, None) if kind == "PodGroup" else None
        self._nodes = [loaded.object for loaded in manifests.nodes]

    def all(self, hints: Sequence[Help]) -> Iterator[Help]:
        """Every suggestion that holds; the first sorts are those that nobody else pays for."""
        if not self._pods:
            return
        sorts: tuple[Callable[[], Iterable[Help]], ...] = (
            self._more_nodes,
            lambda: (hint for hint in hints if self._holds(hint)),
            self._uncordoned,
            self._untainted,
            self._lower_minimum,
            self._higher_priority,
            self._workload_ends,
        )
        for sort in sorts:
            try:
                yield from sort()
            except _SpentError:
                return

    def _works(self, *changes: Change) -> bool:
        return self._trials.runs(self._who, changes)

    @property
    def _called(self) -> str:
        kind, namespace, name = self._who
        return f"{namespace}/{kind.lower()}/{name}"

    @property
    def _waits_for(self) -> int:
        """How many pods need a place."""
        if self._group is None:
            return 1
        waiting = sum(not pod.spec.node_name for pod in self._pods)
        bound = len(self._pods) - waiting
        return max(1, (self._group.min_count or 1) - bound)

    @property
    def _all_waiting(self) -> int:
        """Pods that wait: others may take the room that is made."""
        return sum(pod.node_name is None for pod in self._document.pods)

    # -- nodes -------------------------------------------------------------------------------------

    def _more_nodes(self) -> Iterator[Help]:
        topology = self._topology_key
        found: list[tuple[int, str, str]] = []
        shapes = list(self._shapes(topology))[: MOST_DOMAINS if topology else MOST_SHAPES]
        for like, domain, per_node in shapes:
            most = min(MOST_NODES, found[0][0] - 1 if found else MOST_NODES, self._all_waiting)
            try:
                number = self._fewest(like, per_node, most)
            except _SpentError:  # what was found holds, though another sort might do with fewer
                break
            if number is not None:
                found.insert(0, (number, like, domain))
        if not found:
            return
        number, like, domain = found[0]
        flag = f"--add-nodes {number} --like {like}"
        nodes = f"{number} more node{'' if number == 1 else 's'} like {like}"
        if domain:
            yield Help(
                kind="Domain",
                resource=f"{topology}={domain}",
                nodes=number,
                like=like,
                flags=(flag,),
                sentence=f"{topology} {domain} comes closest: with {nodes} in it it would run ({flag}).",
            )
        yield Help(
            kind="Nodes", nodes=number, amount=str(number), like=like, flags=(flag,), sentence=f"{nodes} ({flag})."
        )

    def _fewest(self, like: str, per_node: int, most: int) -> int | None:
        """The fewest nodes like this one with which it runs, none if not even `most` would do."""

        def works(number: int) -> bool:
            return number > 0 and self._works(Change("add-nodes", str(number), like))

        low = 0  # does not do
        number = min(most, max(1, -(-self._waits_for // max(1, per_node))))
        if number < 1:
            return None
        while not works(number):
            low = number
            if number >= most:
                return None
            number = min(most, number * 2)
        while number - low > 1:
            middle = number - 1 if low == 0 else (low + number) // 2
            if works(middle):
                number = middle
            else:
                low = middle
        return number

    @property
    def _topology_key(self) -> str:
        constraints = self._group.spec.scheduling_constraints if self._group is not None else None
        topology = constraints.topology if constraints is not None else ()
        return topology[0].key if topology else ""

    def _shapes(self, topology: str) -> Iterator[tuple[str, str, int]]:
        """(node, its domain, pods of it that an empty one holds) of each sort of nodes, the roomiest first."""
        kinds: dict[object, objects.Node] = {}
        for node in sorted(self._nodes, key=lambda one: one.name):
            domain = node.metadata.labels.get(topology, "") if topology else ""
            if topology and not domain:
                continue
            taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints if not t.key.startswith(_LIFECYCLE))
            labels = tuple(sorted((k, v) for k, v in node.metadata.labels.items() if k != HOSTNAME and v != node.name))
            shape = (domain, tuple(sorted((k, str(v)) for k, v in node.status.allocatable.items())), taints, labels)
            kinds.setdefault(shape, node)
        asked = pod_requests(next((pod for pod in self._pods if not pod.spec.node_name), self._pods[0]))
        found = [
            (-_holds(node, asked), node.name, node.metadata.labels.get(topology, "") if topology else "")
            for node in kinds.values()
            if _holds(node, asked) > 0
        ]
        for room, name, domain in sorted(found):
            yield name, domain, -room

    def _uncordoned(self) -> Iterator[Help]:
        cordoned = sorted(node.name for node in self._nodes if node.spec.unschedulable)
        chosen = self._fewest_of([(name, Change("uncordon", name)) for name in cordoned])
        if chosen:
            flags = tuple(f"--uncordon {name}" for name in chosen)
            number = f"{len(chosen)} node{'' if len(chosen) == 1 else 's'}"
            sentence = f"{number} uncordoned, {named(chosen)}: nothing goes there meanwhile ({_abbreviated(flags)})."
            yield Help(kind="Uncordon", nodes=len(chosen), amount=str(len(chosen)), flags=flags, sentence=sentence)

    def _untainted(self) -> Iterator[Help]:
        tainted: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for node in sorted(self._nodes, key=lambda one: one.name):
            for taint in node.spec.taints:
                parts = (taint.key, taint.value, taint.effect)
                if taint.effect not in _REJECTING or taint.key.startswith(_LIFECYCLE):
                    continue
                if not all(any(tolerates(t, parts) for t in pod.spec.tolerations) for pod in self._pods):
                    tainted[parts].append(node.name)
        for (key, value, effect), names in sorted(tainted.items())[:MOST_TAINTS]:
            text = f"{key}{f'={value}' if value else ''}:{effect}"
            chosen = self._fewest_of([(name, Change("taint", f"{name} {key}:{effect}-")) for name in names])
            if chosen:
                flags = tuple(f'--taint "{name} {key}:{effect}-"' for name in chosen)
                number = f"{len(chosen)} node{'' if len(chosen) == 1 else 's'}"
                sentence = (
                    f"A toleration for the taints of {number}, or the taint {text} taken off {named(chosen)} "
                    f"({_abbreviated(flags)})."
                )
                yield Help(
                    kind="Toleration",
                    resource=text,
                    nodes=len(chosen),
                    amount=str(len(chosen)),
                    flags=flags,
                    sentence=sentence,
                )

    def _fewest_of(self, choices: Sequence[tuple[str, Change]]) -> list[str]:
        """Names of which none can be left out: with them it runs, without any one of them it does not."""
        choices = choices[:MOST_NODES]
        if not choices or not self._works(*(change for _, change in choices)):
            return []
        low, high = 0, len(choices)
        while high - low > 1:
            middle = (low + high) // 2
            if self._works(*(change for _, change in choices[:middle])):
                high = middle
            else:
                low = middle
        kept = list(choices[:high])
        for choice in list(kept):
            rest = [one for one in kept if one is not choice]
            if rest and self._works(*(change for _, change in rest)):
                kept = rest
        return [name for name, _ in kept]

    # -- itself ------------------------------------------------------------------------------------

    def _lower_minimum(self) -> Iterator[Help]:
        minimum = self._group.min_count if self._group is not None else None
        if minimum is None or minimum < 2:
            return

        def works(number: int) -> bool:
            return self._works(Change("scale", f"{self._called}={number}"))

        low, high = 1, minimum  # the highest that works is at least low, below high
        placed = next((one.scheduled for one in self._document.pod_groups if self._is(one.namespace, one.name)), 0)
        first = min(max(1, placed), minimum - 1)
        if works(first):
            low = first
        elif first == 1 or not works(1):
            return
        else:
            high = first
        while high - low > 1:
            middle = (low + high) // 2
            if works(middle):
                low = middle
            else:
                high = middle
        flag = f"--scale {self._called}={low}"
        sentence = f"With minCount {low} instead of {minimum} it could start ({flag})."
        yield Help(kind="MinCount", min_count=low, amount=str(low), flags=(flag,), sentence=sentence)

    def _is(self, namespace: str, name: str) -> bool:
        return (namespace, name) == self._who[1:]

    def _higher_priority(self) -> Iterator[Help]:
        has = max(pod.spec.priority or 0 for pod in self._pods)
        if self._group is not None:
            open_priority = self._group.foreign is not None and not self._group.spec.priority_class_name
            has = has if open_priority else self._group.spec.priority or 0
        manifests = self._trials.manifests
        levels = {loaded.object.spec.priority or 0 for loaded in manifests.pods}
        levels |= {loaded.object.spec.priority or 0 for loaded in manifests.pod_groups}
        steps = sorted(level + 1 for level in levels if has <= level < HIGHEST_PRIORITY)

        def works(priority: int) -> bool:
            return self._works(Change("set-priority", f"{self._called}={priority}"))

        if not steps or not works(steps[-1]):
            return
        low, high = -1, len(steps) - 1
        while high - low > 1:
            middle = (low + high) // 2
            if works(steps[middle]):
                high = middle
            else:
                low = middle
        priority = steps[high]
        if priority - 1 > has and works(priority - 1):
            return  # it is not the level that counts
        flag = f"--set-priority {self._called}={priority}"
        sentence = f"A priority of {priority} or more (it has {has}): it could then make room ({flag})."
        yield Help(kind="Priority", priority=priority, amount=str(priority), flags=(flag,), sentence=sentence)

    # -- others ------------------------------------------------------------------------------------

    def _workload_ends(self) -> Iterator[Help]:
        pods: dict[str, list[objects.Pod]] = defaultdict(list)
        for loaded in self._trials.manifests.pods:
            if loaded.object.spec.node_name and loaded.object not in self._pods:
                name = workload_of_pod(loaded.object)
                if name is not None:
                    pods[name].append(loaded.object)
        order = sorted(pods, key=lambda name: (len(pods[name]), min(p.spec.priority or 0 for p in pods[name]), name))
        for name in order[:MOST_WORKLOADS]:
            if self._works(Change("without", name)):
                number = len(pods[name])
                flag = f"--without {name}"
                sentence = f"{name} with its {number} pod{'' if number == 1 else 's'} gone, or ended ({flag})."
                yield Help(kind="Workload", workload=name, amount=str(number), flags=(flag,), sentence=sentence)
                return

    # -- what the last attempt says ----------------------------------------------------------------

    def _holds(self, hint: Help) -> bool:
        """Whether a hint of the last attempt is true in a trial; other sorts are searched for anyway."""
        edit: Callable[[int], Manifests | None] | None = {
            "Free": lambda less: self._freed(hint, less),
            "Node": lambda less: self._larger_node(hint) if not less else None,
            "Selector": lambda less: self._with_pods(_without_selectors) if not less else None,
            "Ports": lambda less: self._with_pods(_without_ports) if not less else None,
            "Policy": lambda less: self._with_pods(_preempting) if not less else None,
        }.get(hint.kind)
        if edit is None:
            return False
        whole, less = edit(0), edit(1)
        if whole is None or not self._trials.runs_in(self._who, whole):
            return False
        return less is None or not self._trials.runs_in(self._who, less)

    def _freed(self, hint: Help, less: int) -> Manifests | None:
        """The input with room on as many nodes as the hint says; `less`: the smallest amount less on one of them.

        Where fewer nodes lack as little, the others that must find a place find it on the first of them.
        """
        if not hint.missing or not hint.on:
            return None
        number = hint.nodes or 1
        names, more = (hint.on[:number], 0) if number <= len(hint.on) else (hint.on[:1], number - 1)
        asked = pod_requests(next((pod for pod in self._pods if not pod.spec.node_name), self._pods[0]))

        def roomier(node: objects.Node) -> objects.Node:
            if node.name not in names:
                return node
            allocatable = dict(node.status.allocatable)
            for turn, (name, amount) in enumerate(hint.missing.items()):
                whole = _amount(allocatable.get(name, "0"), name) + _amount(amount, name) + more * asked.get(name, 0)
                allocatable[name] = _text(whole - (less and node.name == names[-1] and turn == 0), name)
            for name, each in asked.items():
                if name not in hint.missing and more:  # for the others nothing is missing for the first alone
                    allocatable[name] = _text(_amount(allocatable.get(name, "0"), name) + more * each, name)
            return replace(node, status=replace(node.status, allocatable=allocatable))

        return self._edited(objects.Node, roomier)

    def _larger_node(self, hint: Help) -> Manifests | None:
        """The input with one more node, as large as what the pod asks for."""
        asked = pod_requests(self._pods[0])
        names = sorted(self._nodes, key=lambda node: (-_holds(node, {hint.resource or "": 1}), node.name))
        if not names:
            return None
        manifests = changed(self._trials.manifests, [Change("add-nodes", "1", names[0].name)]).manifests

        def larger(node: objects.Node) -> objects.Node:
            if node is not manifests.nodes[-1].object:
                return node
            allocatable = dict(node.status.allocatable)
            for name, amount in asked.items():
                if amount > _amount(allocatable.get(name, "0"), name):
                    allocatable[name] = _text(amount, name)
            return replace(node, status=replace(node.status, allocatable=allocatable))

        return _edited(manifests, objects.Node, larger)

    def _with_pods(self, edit: Callable[[objects.Pod], objects.Pod]) -> Manifests:
        ours = {id(pod) for pod in self._pods}
        made = self._edited(objects.Pod, lambda pod: edit(pod) if id(pod) in ours else pod)
        if edit is _preempting and self._group is not None:
            group = self._group
            policy = replace(group, spec=replace(group.spec, preemption_policy="PreemptLowerPriority"))
            made = _edited(made, objects.PodGroup, lambda one: policy if one is group else one)
        return made

    def _edited(self, kind: type[_T], edit: Callable[[_T], _T]) -> Manifests:
        return _edited(self._trials.manifests, kind, edit)


# -- parts -----------------------------------------------------------------------------------------


def _edited(manifests: Manifests, kind: type[_T], edit: Callable[[_T], _T]) -> Manifests:
    """The input with other objects of a kind."""
    found = dict(manifests.objects)
    listed = manifests.of(kind)
    found[kind] = [Loaded(edit(one.object), one.origin, one.order, one.created) for one in listed]
    return with_fields(manifests, objects=found, pod_makers=[])


def workload_of_pod(pod: objects.Pod) -> str | None:
    """What `--without` calls the workload of a pod; None for daemons and static pods, which no one ends."""
    namespace = pod.namespace or "default"
    group = pod_group_name(pod)
    if group is not None:
        return f"{namespace}/podgroup/{group}"
    reference = reference_of(pod)
    if reference is None:
        return f"{namespace}/pod/{pod.name}"
    if reference.kind in ("DaemonSet", "Node"):
        return None
    label = pod.metadata.labels.get(HASH)
    if reference.kind == "ReplicaSet" and label and reference.name.endswith(f"-{label}"):
        return f"{namespace}/deployment/{reference.name.removesuffix(f'-{label}')}"
    return f"{namespace}/{reference.kind.lower()}/{reference.name}"


def _holds(node: objects.Node, asked: Mapping[str, int]) -> int:
    """How many pods that ask for this an empty node has room for, as far as amounts go."""
    there = resource_list(node.status.allocatable)
    return min((there.get(name, 0) // amount for name, amount in asked.items() if amount), default=1)


def _amount(text: str | int | float, name: str) -> int:
    """An amount as integers are kept: cpu in milli-units, others in base units."""
    return milli_value_of(text) if name == "cpu" else value_of(text)


def _text(amount: int, name: str) -> str:
    return f"{amount}m" if name == "cpu" else str(amount)


def _without_selectors(pod: objects.Pod) -> objects.Pod:
    affinity = pod.spec.affinity
    if affinity is not None and affinity.node_affinity is not None:
        of_node = replace(affinity.node_affinity, required_during_scheduling_ignored_during_execution=None)
        affinity = replace(affinity, node_affinity=of_node)
    return replace(pod, spec=replace(pod.spec, node_selector={}, affinity=affinity))


def _without_ports(pod: objects.Pod) -> objects.Pod:
    containers = tuple(
        replace(one, ports=tuple(replace(port, host_port=0) for port in one.ports)) for one in pod.spec.containers
    )
    return replace(pod, spec=replace(pod.spec, containers=containers))


def _preempting(pod: objects.Pod) -> objects.Pod:
    return replace(pod, spec=replace(pod.spec, preemption_policy="PreemptLowerPriority"))


def _abbreviated(flags: Sequence[str], most: int = 3) -> str:
    return " ".join(flags[:most]) + (" ..." if len(flags) > most else "")
