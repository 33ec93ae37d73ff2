"""The smallest changes that would let a pending pod or gang run (whatif.md 5), each tried before it is suggested.

Terms: a trial plans the same input again with one additional change, as the command-line flags would apply it. The
input itself never changes. A suggestion holds if the pod or gang runs at the end with it, and does not with one step
less of the same kind.

Invariants: untried changes are left out. The work of the plan and `MOST_WORK` bound the trials, never the clock, so the
same input gets the same suggestions. The answer states where the search stopped.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace as replace_fields
from functools import partial
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import HIGHEST_USER_PRIORITY
from kube_rules.errors import InputError, names_text
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from kube_rules.meta import KubernetesObject
from kube_rules.requests import pod_requests, resource_list
from kube_rules.topology_terms import HOSTNAME
from reprieve.cluster.taints import REJECTING, tolerates
from reprieve.decisions.outcomes import ALL, NONE, SOME, Help
from reprieve.questions.changes import InputChange, changed
from reprieve.questions.move_suggestions import moving
from reprieve.questions.node_space import NodeSpace, requested
from reprieve.questions.pairs import ChangePart, fewest, pairs
from reprieve.questions.pod_edits import (
    LIFECYCLE,
    amount_of,
    edited,
    holds,
    may_take,
    preempting,
    text_of,
    without_ports,
    without_selectors,
    workload_of_pod,
)
from reprieve.questions.trials import PendingKey, SpentError, Trials
from reprieve.simulation.report import Answer, Plan, PodGroupOutcome, PodOutcome

MOST_HELPED: Final = 5
"""The maximum number of pending pods and groups with suggestions, the most important first."""
MOST_NODES: Final = 64
MOST_SHAPES: Final = 3
MOST_DOMAINS: Final = 8
MOST_WORKLOADS: Final = 24
MOST_TAINTS: Final = 3
MOST_ENDING: Final = 3
"""The maximum number of workloads to end in combination with another change."""
MOST_LOOKED_AT: Final = 1_000
"""The maximum number of workloads to check for the capacity that they would free."""

_T = TypeVar("_T", bound=KubernetesObject)


def helped(
    answer: Answer, trials: Trials, hints: Callable[[PendingKey], Sequence[Help]], only: PendingKey | None = None
) -> Answer:
    """Return the answer with tried suggestions for pending pods and groups; `only`: for this one alone.

    `hints`: returns the hints of the last attempt; a hint that fails in a trial is left out.
    """
    document = answer.plan
    waiting: list[tuple[int, PendingKey]] = [
        (-pod.priority, ("Pod", pod.namespace, pod.name))
        for pod in document.pods
        if pod.asked and pod.outcome == "Unschedulable" and pod.pod_group is None and pod.reason == "Unschedulable"
    ]
    waiting += [
        (-group.priority, ("PodGroup", group.namespace, group.name))
        for group in document.pod_groups
        if group.asked and group.outcome == "Unschedulable"
    ]
    helps_of: dict[PendingKey, tuple[tuple[Help, ...], str | None]] = {entity: ((), NONE) for _, entity in waiting}
    if only is not None:
        helps_of = {}
    trials.attempts = max(trials.attempts, document.stats.attempts)
    trials.moves = max(trials.moves, answer.moves)
    chosen = [entry for entry in sorted(waiting) if only in (None, entry[1])][:MOST_HELPED]
    for turn, (_, pending) in enumerate(chosen):
        left = trials.allowed()
        share = left // (len(chosen) - turn)
        trials.left, before, trials.spent, spent = share, trials.runs_done, False, trials.spent
        helps = tuple(Finder(pending, trials, document).all(hints(pending)))
        helps_of[pending] = helps, ALL if not trials.spent else SOME if trials.runs_done > before else NONE
        trials.left += left - share
        trials.spent = trials.spent or spent
    nothing: tuple[tuple[Help, ...], str | None] = ((), None)

    def with_help(outcome: _Outcome, kind: str) -> _Outcome:
        helps, tried = helps_of.get((kind, outcome.namespace, outcome.name), nothing)
        return replace(outcome, help=helps, tried=tried)

    pods = tuple(with_help(pod, "Pod") for pod in document.pods)
    groups = tuple(with_help(group, "PodGroup") for group in document.pod_groups)
    return replace_fields(answer, plan=replace(document, pods=pods, pod_groups=groups))


_Outcome = TypeVar("_Outcome", PodOutcome, PodGroupOutcome)


class Finder:
    """Finds the smallest changes for one pending pod or group."""

    def __init__(self, pending: PendingKey, trials: Trials, document: Plan) -> None:
        self._pending = pending
        self._trials = trials
        self._document = document
        kind, namespace, name = pending
        manifests = trials.manifests
        self._pods = [
            loaded.object
            for loaded in manifests.pods
            if loaded.object.namespace == namespace
            and (loaded.object.name == name if kind == "Pod" else pod_group_name(loaded.object) == name)
        ]
        said = ((pod.spec.node_selector, pod.spec.affinity, pod.spec.tolerations) for pod in self._pods)
        self._choosy = list(dict(zip(map(msgspec.json.encode, said), self._pods, strict=True)).values())
        """Pods with distinct constraints on nodes."""
        groups = (
            pod_group.object
            for pod_group in manifests.pod_groups
            if (pod_group.object.namespace, pod_group.object.name) == pending[1:]
        )
        self._group = next(groups, None) if kind == "PodGroup" else None
        self._nodes = [loaded.object for loaded in manifests.nodes]
        self._of_workload: Mapping[str, Sequence[objects.Pod]] = {}

    def all(self, hints: Sequence[Help]) -> Iterator[Help]:
        """Yield every suggestion that holds; changes without cost to other workloads come first."""
        if not self._pods:
            return
        sorts: tuple[Callable[[], Iterable[Help]], ...] = (
            lambda: (hint for hint in hints if hint.moves and self._works(*moving(hint.moves))),
            self._more_nodes,
            lambda: (hint for hint in hints if self._holds(hint)),
            self._uncordoned,
            self._untainted,
            self._lower_minimum,
            self._higher_priority,
            self._workload_ends,
        )
        any_found = False
        for sort in sorts:
            try:
                for help in sort():
                    any_found = True
                    yield help
            except SpentError:
                return
        if not any_found:
            with suppress(SpentError):
                yield from pairs(self)

    def _works(self, *changes: InputChange) -> bool:
        return self._trials.runs(self._pending, changes)

    def works_with(self, changes: Sequence[InputChange], edits: Sequence[Callable[[Manifests], Manifests]]) -> bool:
        """Return whether the pod or group runs after these changes and edits."""
        try:
            manifests = self._trials.after(changes)
        except InputError:
            return False
        for edit in edits:
            manifests = edit(manifests)
        return self._trials.runs_in(self._pending, manifests)

    def parts(self) -> list[ChangePart]:
        """Return the changes to combine, those of the pod or group itself first."""
        result = []
        if any(pod != without_selectors(pod) for pod in self._pods):
            edit = self._editor(without_selectors)
            result.append(
                ChangePart("Selector", lambda _: "a node selector or affinity that lets it on more nodes", edit=edit)
            )
        for (key, value, effect), names in self._taints():
            text = f"{key}{f'={value}' if value else ''}:{effect}"
            choices = tuple((name, InputChange("taint", f"{name} {key}:{effect}-")) for name in names[:MOST_NODES])
            result.append(ChangePart("Toleration", partial(_tolerated, text), choices))
        cordoned = sorted(node.name for node in self._nodes if node.spec.unschedulable)[:MOST_NODES]
        if cordoned:
            choices = tuple((name, InputChange("uncordon", name)) for name in cordoned)
            result.append(ChangePart("Uncordon", lambda chosen: f"uncordoning {names_text(chosen)}", choices))
        if any(pod != without_ports(pod) for pod in self._pods):
            result.append(ChangePart("Ports", lambda _: "freeing its host ports", edit=self._editor(without_ports)))
        if any(pod.spec.preemption_policy == "Never" for pod in self._pods):
            edit = self._editor(preempting)
            result.append(ChangePart("Policy", lambda _: "a preemptionPolicy other than Never", edit=edit))
        steps = self._priorities()
        if steps:
            change = InputChange("set-priority", f"{self._called}={steps[-1]}")
            result.append(ChangePart("Priority", lambda _: f"a priority of {steps[-1]}", ((self._called, change),)))
        for name in self._workloads()[:MOST_ENDING]:
            choices = ((name, InputChange("without", name)),)
            result.append(ChangePart("Workload", lambda chosen: f"the end or removal of {chosen[0]}", choices))
        return result

    @property
    def _called(self) -> str:
        kind, namespace, name = self._pending
        return f"{namespace}/{kind.lower()}/{name}"

    @property
    def request(self) -> dict[str, int]:
        """Return the request of a pending pod: cpu in milli-units, others in base units."""
        return pod_requests(next((pod for pod in self._pods if not pod.spec.node_name), self._pods[0]))

    def may_take(self, node: objects.Node) -> bool:
        """Return whether taints, selectors and affinity of all pods allow a new node like this one."""
        return all(may_take(node, pod) for pod in self._choosy)

    @property
    def _waits_for(self) -> int:
        """Return the number of pods that must be placed."""
        if self._group is None:
            return 1
        waiting = sum(not pod.spec.node_name for pod in self._pods)
        bound = len(self._pods) - waiting
        return max(1, (self._group.min_count or 1) - bound)

    @property
    def _all_waiting(self) -> int:
        """Return the number of all pending pods, which may use added capacity as well."""
        return sum(pod.node_name is None for pod in self._document.pods)

    # -- nodes -------------------------------------------------------------------------------------

    def _more_nodes(self) -> Iterator[Help]:
        topology = self._topology_key
        candidates: list[tuple[int, str, str]] = []
        shapes = list(self._shapes(topology))[: MOST_DOMAINS if topology else MOST_SHAPES]
        for like, domain, per_node in shapes:
            most = min(MOST_NODES, candidates[0][0] - 1 if candidates else MOST_NODES, self._all_waiting)
            try:
                number = self._fewest(like, per_node, most)
            except SpentError:  # earlier results hold, though another kind might need fewer
                break
            if number is not None:
                candidates.insert(0, (number, like, domain))
        if not candidates:
            return
        number, like, domain = candidates[0]
        flag = f"--add-nodes {number} --like {like}"
        nodes = f"{number} more node{'' if number == 1 else 's'} like {like}"
        if domain:
            yield Help(
                kind="Domain",
                resource=f"{topology}={domain}",
                nodes=number,
                like=like,
                flags=(flag,),
                sentence=f"Add {nodes} in {topology} {domain}, where the fewest are needed ({flag}).",
            )
        yield Help(
            kind="Nodes", nodes=number, amount=str(number), like=like, flags=(flag,), sentence=f"Add {nodes} ({flag})."
        )

    def _fewest(self, like: str, per_node: int, most: int) -> int | None:
        """Return the smallest sufficient number of nodes like this one; None if even `most` do not suffice."""

        def works(number: int) -> bool:
            return number > 0 and self._works(InputChange("add-nodes", str(number), like))

        low = 0  # does not work
        number = min(most, max(1, -(-self._waits_for // max(1, per_node))))
        if number < 1:
            return None
        if not works(number):
            low, number = number, most
            if low == most or not works(most):
                return None
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
        """Yield (node, its domain, number of pods that fit on an empty one) of each kind of nodes, largest first."""
        kinds: dict[object, objects.Node] = {}
        request = self.request
        for node in sorted(self._nodes, key=lambda node: node.name):
            domain = node.metadata.labels.get(topology, "") if topology else ""
            if (topology and not domain) or not self.may_take(node):
                continue
            taints = tuple((t.key, t.value, t.effect) for t in node.spec.taints if not t.key.startswith(LIFECYCLE))
            labels = tuple(sorted((k, v) for k, v in node.metadata.labels.items() if k != HOSTNAME and v != node.name))
            shape = (domain, tuple(sorted((k, str(v)) for k, v in node.status.allocatable.items())), taints, labels)
            kinds.setdefault(shape, node)
        ranked = [
            (-holds(node, request), node.name, node.metadata.labels.get(topology, "") if topology else "")
            for node in kinds.values()
            if holds(node, request) > 0
        ]
        for room, name, domain in sorted(ranked):
            yield name, domain, -room

    def _uncordoned(self) -> Iterator[Help]:
        cordoned = sorted(node.name for node in self._nodes if node.spec.unschedulable)
        chosen = self._fewest_of([(name, InputChange("uncordon", name)) for name in cordoned])
        if chosen:
            flags = tuple(f"--uncordon {name}" for name in chosen)
            number = f"{len(chosen)} node{'' if len(chosen) == 1 else 's'}"
            sentence = f"Uncordon {number}: {names_text(chosen)} ({_abbreviated(flags)})."
            yield Help(kind="Uncordon", nodes=len(chosen), amount=str(len(chosen)), flags=flags, sentence=sentence)

    def _taints(self) -> list[tuple[tuple[str, str, str], list[str]]]:
        """Return the taints that exclude the pods, each with its nodes; the first MOST_TAINTS."""
        tainted: dict[tuple[str, str, str], list[str]] = defaultdict(list)
        for node in sorted(self._nodes, key=lambda node: node.name):
            for taint in node.spec.taints:
                parts = (taint.key, taint.value, taint.effect)
                if taint.effect not in REJECTING or taint.key.startswith(LIFECYCLE):
                    continue
                if not all(any(tolerates(t, parts) for t in pod.spec.tolerations) for pod in self._pods):
                    tainted[parts].append(node.name)
        return sorted(tainted.items())[:MOST_TAINTS]

    def _untainted(self) -> Iterator[Help]:
        for (key, value, effect), names in self._taints():
            text = f"{key}{f'={value}' if value else ''}:{effect}"
            chosen = self._fewest_of([(name, InputChange("taint", f"{name} {key}:{effect}-")) for name in names])
            if chosen:
                flags = tuple(f'--taint "{name} {key}:{effect}-"' for name in chosen)
                number = f"{len(chosen)} node{'' if len(chosen) == 1 else 's'}"
                sentence = (
                    f"Tolerate the taints of {number}, or remove the taint {text} from {names_text(chosen)} "
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

    def _fewest_of(self, choices: Sequence[tuple[str, InputChange]]) -> list[str]:
        """Return the names of a minimal set of changes: all are needed."""
        choices = choices[:MOST_NODES]
        if not choices or not self._works(*(change for _, change in choices)):
            return []
        number = fewest(0, len(choices), lambda number: self._works(*(change for _, change in choices[:number])))
        needed = list(choices[:number])
        for choice in list(needed):
            rest = [item for item in needed if item is not choice]
            if rest and self._works(*(change for _, change in rest)):
                needed = rest
        return [name for name, _ in needed]

    # -- itself ------------------------------------------------------------------------------------

    def _lower_minimum(self) -> Iterator[Help]:
        minimum = self._group.min_count if self._group is not None else None
        if minimum is None or minimum < 2:
            return

        def works(number: int) -> bool:
            return self._works(InputChange("scale", f"{self._called}={number}"))

        low, high = 1, minimum  # the highest number that works is in low..high-1
        placed = (group.scheduled for group in self._document.pod_groups if self._is(group.namespace, group.name))
        first = min(max(1, next(placed, 0)), minimum - 1)
        if works(first):
            low = first
        elif first == 1 or not works(1):
            return
        else:
            high = first
        low = fewest(low, high, lambda number: not works(number)) - 1
        flag = f"--scale {self._called}={low}"
        sentence = f"Set minCount to {low} instead of {minimum} ({flag})."
        yield Help(kind="MinCount", min_count=low, amount=str(low), flags=(flag,), sentence=sentence)

    def _is(self, namespace: str, name: str) -> bool:
        return (namespace, name) == self._pending[1:]

    @property
    def _priority(self) -> int:
        """Return its priority after admission."""
        outcomes = self._document.pods if self._pending[0] == "Pod" else self._document.pod_groups
        return next((outcome.priority for outcome in outcomes if self._is(outcome.namespace, outcome.name)), 0)

    def _priorities(self) -> list[int]:
        """Return the priorities just above each existing one, not below its own."""
        has = self._priority
        manifests = self._trials.manifests
        levels = {loaded.object.spec.priority or 0 for loaded in manifests.pods}
        levels |= {loaded.object.spec.priority or 0 for loaded in manifests.pod_groups}
        return sorted(level + 1 for level in levels if has <= level < HIGHEST_USER_PRIORITY)

    def _higher_priority(self) -> Iterator[Help]:
        has, steps = self._priority, self._priorities()

        def works(priority: int) -> bool:
            return self._works(InputChange("set-priority", f"{self._called}={priority}"))

        if not steps or not works(steps[-1]):
            return
        priority = steps[fewest(-1, len(steps) - 1, lambda at: works(steps[at]))]
        if priority - 1 > has and works(priority - 1):
            return  # the suggestion would be unnecessarily high
        flag = f"--set-priority {self._called}={priority}"
        sentence = f"Set a priority of {priority} or more (it has {has}): it could then preempt ({flag})."
        yield Help(kind="Priority", priority=priority, amount=str(priority), flags=(flag,), sentence=sentence)

    # -- others ------------------------------------------------------------------------------------

    def _workloads(self) -> list[str]:
        """Return the running workloads without which there would be places by amounts, the smallest first.

        Pods of lower priority count as removed, because they may be evicted.
        """
        pods: dict[str, list[objects.Pod]] = defaultdict(list)
        for pod in (loaded.object for loaded in self._trials.manifests.pods):
            if pod.spec.node_name and pod not in self._pods and not pod.finished:
                name = workload_of_pod(pod)
                if name is not None:
                    pods[name].append(pod)
        self._of_workload = pods
        order = sorted(pods, key=lambda name: (len(pods[name]), min(p.spec.priority or 0 for p in pods[name]), name))
        rivals: Callable[[objects.Pod], bool] = lambda pod: (pod.spec.priority or 0) >= self._priority  # noqa: E731
        pods_of_input = (loaded.object for loaded in self._trials.manifests.pods)
        space = NodeSpace(self._nodes, requested(pods_of_input, rivals), self.request)
        missing = self._waits_for - space.places()
        return [name for name in order[:MOST_LOOKED_AT] if space.more_places(requested(pods[name], rivals)) >= missing][
            :MOST_WORKLOADS
        ]

    def _workload_ends(self) -> Iterator[Help]:
        for name in self._workloads():
            if self._works(InputChange("without", name)):
                number = len(self._of_workload[name])
                flag = f"--without {name}"
                sentence = f"End or remove {name} with its {number} pod{'' if number == 1 else 's'} ({flag})."
                yield Help(kind="Workload", workload=name, amount=str(number), flags=(flag,), sentence=sentence)
                return

    # -- hints of the last attempt ------------------------------------------------------------------

    def _holds(self, hint: Help) -> bool:
        """Return whether a hint of the last attempt holds in a trial; other kinds are searched anyway."""
        edit: Callable[[int], Manifests | None] | None = {
            "Free": lambda less: self._freed(hint, less),
            "Node": lambda less: self._larger_node(hint) if not less else None,
            "Selector": lambda less: self._with_pods(without_selectors) if not less else None,
            "Ports": lambda less: self._with_pods(without_ports) if not less else None,
            "Policy": lambda less: self._with_pods(preempting) if not less else None,
        }.get(hint.kind)
        if edit is None:
            return False
        whole, less = edit(0), edit(1)
        if whole is None or not self._trials.runs_in(self._pending, whole):
            return False
        return less is None or not self._trials.runs_in(self._pending, less)

    def _freed(self, hint: Help, less: int) -> Manifests | None:
        """Return the input with capacity freed on the nodes of a hint; `less`: the smallest amount less on one.

        None if that capacity is not in use on enough equally loaded nodes, so that it cannot be freed.
        """
        names = self._lacking_as_little(hint)
        if not hint.missing or len(names) < (hint.nodes or 1):
            return None

        def roomier(node: objects.Node) -> objects.Node:
            if node.name not in names:
                return node
            allocatable = dict(node.status.allocatable)
            for turn, (name, amount) in enumerate(hint.missing.items()):
                whole = amount_of(allocatable.get(name, "0"), name) + amount_of(amount, name)
                allocatable[name] = text_of(whole - (less and node.name == names[-1] and turn == 0), name)
            return replace(node, status=replace(node.status, allocatable=allocatable))

        return edited(self._trials.manifests, objects.Node, roomier)

    def _lacking_as_little(self, hint: Help) -> list[str]:
        """Return the nodes of the hint and equally loaded ones, if they have enough in use; else none."""
        in_use = requested(loaded.object for loaded in self._trials.manifests.pods)
        node_of = {node.name: node for node in self._nodes}
        on = [name for name in hint.on if name in node_of]
        if not on:
            return []

        def free(node: objects.Node) -> tuple[tuple[str, int], ...]:
            allocatable, has = resource_list(node.status.allocatable), in_use.get(node.name, Counter())
            return tuple((name, allocatable.get(name, 0) - has[name]) for name in sorted(hint.missing))

        alike = free(node_of[on[0]])
        alike_names = (name for name in sorted(node_of) if name not in on and free(node_of[name]) == alike)
        names = [*on, *(name for name in alike_names if self.may_take(node_of[name]))][: hint.nodes or 1]
        enough = all(
            in_use.get(name, Counter())[resource] >= amount_of(amount, resource)
            for name in names
            for resource, amount in hint.missing.items()
        )
        return names if enough else []

    def _larger_node(self, hint: Help) -> Manifests | None:
        """Return the input with an additional node that is large enough for the pod."""
        request = pod_requests(self._pods[0])
        largest = {hint.resource or "": 1}
        names = sorted(self._nodes, key=lambda node: (not self.may_take(node), -holds(node, largest), node.name))
        if not names:
            return None
        manifests = changed(self._trials.manifests, [InputChange("add-nodes", "1", names[0].name)]).manifests

        def larger(node: objects.Node) -> objects.Node:
            if node is not manifests.nodes[-1].object:
                return node
            allocatable = dict(node.status.allocatable)
            for name, amount in request.items():
                if amount > amount_of(allocatable.get(name, "0"), name):
                    allocatable[name] = text_of(amount, name)
            return replace(node, status=replace(node.status, allocatable=allocatable))

        return edited(manifests, objects.Node, larger)

    def _with_pods(self, edit: Callable[[objects.Pod], objects.Pod]) -> Manifests:
        return self._editor(edit)(self._trials.manifests)

    def _editor(self, edit: Callable[[objects.Pod], objects.Pod]) -> Callable[[Manifests], Manifests]:
        """Return an edit of its pods in an input, and of its group if the edit allows preemption."""
        ours, group = {pod.key for pod in self._pods}, self._group

        def allowed(pod_group: objects.PodGroup) -> objects.PodGroup:
            if group is None or pod_group.key != group.key:
                return pod_group
            return replace(pod_group, spec=replace(pod_group.spec, preemption_policy="PreemptLowerPriority"))

        def changed_pods(manifests: Manifests) -> Manifests:
            result = edited(manifests, objects.Pod, lambda pod: edit(pod) if pod.key in ours else pod)
            return edited(result, objects.PodGroup, allowed) if edit is preempting and group is not None else result

        return changed_pods


# -- parts -----------------------------------------------------------------------------------------


def _tolerated(taint: str, nodes: Sequence[str]) -> str:
    return f"tolerating the taint {taint}, or removing it from {names_text(nodes)}"


def _abbreviated(flags: Sequence[str]) -> str:
    return " ".join(flags[:3]) + (" ..." if len(flags) > 3 else "")
