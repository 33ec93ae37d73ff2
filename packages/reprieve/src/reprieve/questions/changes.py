"""Changes to an input before it is planned: cordon, drain, more nodes, fewer replicas (whatif.md 4).

Terms: a displaced pod ran on a node that is drained, removed or failed. A pod with a controller has a successor, which
is pending as if the controller had created it.

Invariants: changes apply in the given order, each to the result of the earlier ones, to a copy of the input. A change
that matches no object is an error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.admission import HIGHEST_USER_PRIORITY, PriorityAdmission
from kube_rules.errors import FieldError, InputError, Origin, names_text
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.meta import KubernetesObject
from kube_rules.objects import Taint
from kube_rules.selectors import SelectorError, parse_label_selector
from kube_rules.taints import EFFECTS
from kube_rules.unknown_fields import did_you_mean, nearest
from reprieve.cluster.taints import tolerates
from reprieve.decisions.phrases import count
from reprieve.questions.changed_objects import (
    copies_of_node,
    cordoned,
    empty_dirs,
    failed,
    gang_sizes,
    kubectl_needs,
    label_problem,
    stays,
    uncordoned,
    waiting_like,
)
from reprieve.simulation.controllers.disruption import allowed_now, followed, is_healthy
from reprieve.simulation.report import Answer, BrokenGang, ChangeMade, DisplacedPod, LostPod, Plan, PodOutcome
from reprieve.simulation.workloads.named_workloads import NamedObject, NotThereError, Workloads
from reprieve.simulation.workloads.owners import reference_of, whole_number
from reprieve.simulation.workloads.rows import Rows
from reprieve.simulation.workloads.table import TABLE

MOST_ADDED: Final = 10_000
"""The maximum number of nodes that one change may add."""
MOST_REPLICAS: Final = 100_000
"""The maximum count of a workload."""

ObjectT = TypeVar("ObjectT", bound=KubernetesObject)


@dataclass(frozen=True, slots=True)
class InputChange:
    """One flag with its value: `drain`, `n1`. `like`: the node that new nodes copy."""

    flag: str
    value: str
    like: str = ""

    def __str__(self) -> str:
        return f"--{self.flag} {self.value}" + (f" --like {self.like}" if self.like else "")


@dataclass(slots=True)
class ChangedInput:
    """An input after its changes. The outcomes of `displaced` and `broken` are set when the plan is known."""

    manifests: Manifests
    applied: list[ChangeMade] = field(default_factory=list)
    displaced: list[DisplacedPod] = field(default_factory=list)
    broken: list[BrokenGang] = field(default_factory=list)
    concerned: set[tuple[str, str]] = field(default_factory=set)
    """(namespace, name) of pods with a number or priority that a change sets."""


def changed(manifests: Manifests, changes: Sequence[InputChange], *, rows: Rows = TABLE) -> ChangedInput:
    """Return the input after its changes. Raises InputError, with the flag as its origin, if one matches nothing."""
    if not changes:
        return ChangedInput(manifests)
    changer = _Changer(manifests, rows)
    for change in changes:
        changer.make(change)
    return changer.finished()


def changed_and_expanded(
    manifests: Manifests,
    changes: Sequence[InputChange],
    expand: Callable[[Manifests], Manifests],
    *,
    rows: Rows = TABLE,
) -> tuple[Manifests, ChangedInput]:
    """Return the changed and expanded input, and the changes.

    A change may name an object that only the expansion creates, such as the gang of a Job. Raises InputError as
    `changed` and `expand` do.
    """
    try:
        result = changed(manifests, changes, rows=rows)
    except _NotThereError as error:
        whole = expand(manifests)
        try:
            result = changed(whole, changes, rows=rows)
        except InputError:
            raise error from None
        return result.manifests, result
    return expand(result.manifests), result


def pod_name(loaded: LoadedObject[objects.Pod]) -> tuple[str, str]:
    """Return (namespace, name) of a pod of an input."""
    return loaded.object.namespace, loaded.object.name


def asks_about_pods(change: InputChange) -> bool:
    """Return whether a change restricts the question to the pods that it displaces, creates or ranks."""
    return change.flag in _OF_PODS or (change.flag == "taint" and change.value.endswith(":NoExecute"))


_OF_PODS: Final = ("drain", "remove-node", "fail", "scale", "set-priority")


class _NotThereError(InputError):
    """A change of an object that may exist only after the workloads are expanded."""


class _Changer:
    """Applies changes to a copy of an input."""

    def __init__(self, manifests: Manifests, rows: Rows) -> None:
        of_rows, unknown = rows.makers_among(manifests.unknown)
        self._manifests = Manifests(
            objects={kind: list(loaded_objects) for kind, loaded_objects in manifests.objects.items()},
            scenarios=manifests.scenarios,
            unknown=unknown,
            pod_makers=[*manifests.pod_makers, *of_rows],
            unknown_fields=manifests.unknown_fields,
            unknown_fields_total=manifests.unknown_fields_total,
            expanded=manifests.expanded,
            jobs=manifests.jobs,
            suspended=manifests.suspended,
            remarks=manifests.remarks,
        )
        self._workloads = Workloads(self._manifests, rows)
        everything = [loaded for loaded_objects in manifests.objects.values() for loaded in loaded_objects]
        self._order = 1 + max((loaded.order for loaded in everything), default=0)
        self._latest = max((loaded.created for loaded in everything), default=0.0)
        self._given = manifests.pods
        self._before = gang_sizes(manifests)
        self._change = InputChange("", "")
        self._applied: list[ChangeMade] = []
        self._displaced: list[DisplacedPod] = []
        self._concerned: set[tuple[str, str]] = set()
        self._makers: dict[str, Callable[[str], str]] = {
            "cordon": lambda value: self._on_nodes(value, cordoned, "no new pods are placed there"),
            "uncordon": lambda value: self._on_nodes(value, uncordoned, "new pods may be placed there again"),
            "drain": self._drain,
            "remove-node": lambda value: self._take(value, "removed", keep=False),
            "fail": lambda value: self._take(value, "failed", keep=True),
            "taint": self._taint,
            "label": self._label,
            "add-nodes": self._add_nodes,
            "scale": self._scale,
            "set-priority": self._set_priority,
            "move": self._move,
            "without": self._without,
        }
        self._tried: dict[tuple[str, str], int] = {}
        self._touched: tuple[str, ...] = ()
        self._needs: tuple[str, ...] = ()

    @cached_property
    def _names(self) -> set[tuple[str, str]]:
        """Return the namespaces and names of existing pods, computed on first use."""
        return {(loaded.object.namespace, loaded.object.name) for loaded in self._given}

    def make(self, change: InputChange) -> None:
        """Apply one change."""
        self._change, self._touched, self._needs = change, (), ()
        sentence = self._makers[change.flag](change.value)
        applied = ChangeMade(change=str(change), sentence=sentence, nodes=self._touched, kubectl_needs=self._needs)
        self._applied.append(applied)

    def finished(self) -> ChangedInput:
        """Return the changed input."""
        after = gang_sizes(self._manifests) if self._before else {}
        broken = []
        for key, (minimum, before) in self._before.items():
            now = after.get(key)
            if now is not None and before >= minimum > now[1] and minimum == now[0]:
                namespace, name = key
                back = sum(
                    (item.namespace, item.pod_group) == key and item.successor is not None for item in self._displaced
                )
                broken.append(
                    BrokenGang(
                        namespace=namespace, name=name, min_count=minimum, before=before, left=now[1], coming_back=back
                    )
                )
        return ChangedInput(self._manifests, self._applied, self._displaced, broken, self._concerned)

    def _error(self, message: str) -> InputError:
        return InputError(Origin(str(self._change)), message)

    def _meets_nothing(self, error: FieldError) -> InputError:
        kind = _NotThereError if isinstance(error, NotThereError) else InputError
        return kind(Origin(str(self._change)), error.message)

    def _list(self, kind: type[ObjectT]) -> list[LoadedObject[ObjectT]]:
        return cast("list[LoadedObject[ObjectT]]", self._manifests.objects.setdefault(kind, []))

    # -- nodes -------------------------------------------------------------------------------------

    def _nodes(self, text: str) -> list[LoadedObject[objects.Node]]:
        """Return the node with this name, or the nodes that a selector matches."""
        nodes = self._list(objects.Node)
        named = [loaded for loaded in nodes if loaded.object.name == text]
        if not named and re.search(r"[=!,()]|\s(in|notin)\s", text):
            try:
                selector = parse_label_selector(text)
            except SelectorError as error:
                raise self._error(f'"{text}": neither a node nor a label selector: {error}') from None
            named = [loaded for loaded in nodes if selector.matches(loaded.object.metadata.labels)]
            if not named:
                raise self._error(f'no node matches "{text}"')
        if not named:
            hint = did_you_mean(nearest(text, (loaded.object.name for loaded in nodes)))
            raise self._error(f'no node "{text}"{hint}')
        self._touched = (*self._touched, *(loaded.object.name for loaded in named))
        return named

    def _on_nodes(self, text: str, change: Callable[[objects.Node], objects.Node], effect: str) -> str:
        nodes = self._nodes(text)
        for loaded in nodes:
            self._put(loaded, change(loaded.object))
        return f"{count(len(nodes), 'node')}: {effect}"

    def _put(self, loaded: LoadedObject[ObjectT], item: ObjectT) -> None:
        """Replace an object, without modifying the original."""
        items = self._list(type(item))
        items[items.index(loaded)] = LoadedObject(item, loaded.origin, loaded.order, loaded.created, dated=loaded.dated)

    def _taint(self, value: str) -> str:
        target, text = self._target(value, "KEY=VALUE:EFFECT")
        removes = text.endswith("-")
        match = re.fullmatch(r"([^=:\s]+)(?:=([^=:\s]*))?(?::(\w+))?-?", text)
        whole = match is not None and (not match[1].endswith("-") or match[1] == text)
        if match is None or not whole or ((match[3] or not removes) and match[3] not in EFFECTS):
            raise self._error(
                f'"{text}": expected KEY[=VALUE]:EFFECT with {", ".join(EFFECTS)}, or KEY[:EFFECT]- to remove it'
            )
        # The match includes the dash of `KEY-` in the key; no key ends in a dash.
        key, content, effect = match[1].removesuffix("-"), match[2] or "", match[3] or ""
        if not removes and (problem := label_problem(key, content)):
            raise self._error(problem)

        def taint(node: objects.Node) -> objects.Node:
            taints = tuple(item for item in node.spec.taints if item.key != key or (effect and item.effect != effect))
            if removes and len(taints) == len(node.spec.taints):
                raise self._error(f'node "{node.name}" has no taint "{text.removesuffix("-")}"')
            more = () if removes else (Taint(key=key, value=content, effect=effect),)
            return replace(node, spec=replace(node.spec, taints=(*taints, *more)))

        sentence = self._on_nodes(target, taint, f"taint {text.removesuffix('-')} {'removed' if removes else 'added'}")
        if removes or effect != "NoExecute":
            return sentence
        return ", ".join([sentence, *self._driven_off((key, content, effect))])

    def _driven_off(self, taint: tuple[str, str, str]) -> list[str]:
        """Evict pods that do not tolerate a taint of the nodes just changed; return their fates as text."""
        pods = self._pods_on(set(self._touched))
        going = [
            item
            for item in pods
            if not any(tolerates(toleration, taint) for toleration in item.object.spec.tolerations)
        ]
        daemons = [item for item in going if stays(item.object)]
        evictable = [item for item in going if not stays(item.object)]
        for loaded in daemons:
            self._list(objects.Pod).remove(loaded)
        back, lost, _ = self._displace(evictable, None)
        evicted = len(daemons) + back + lost
        parts = [f"{count(evicted, 'pod')} evicted"] if evicted else []
        return [*parts, *_fates(back, lost)]

    def _label(self, value: str) -> str:
        target, text = self._target(value, "KEY=VALUE")
        key, equals, content = text.partition("=")
        is_removal = not equals and text.endswith("-")
        if not key or not (equals or is_removal):
            raise self._error(f'"{text}": expected KEY=VALUE, or KEY- to remove it')
        key = key.removesuffix("-") if is_removal else key
        if not is_removal and (problem := label_problem(key, content)):
            raise self._error(problem)

        def label(node: objects.Node) -> objects.Node:
            labels = {name: old for name, old in node.metadata.labels.items() if name != key}
            if is_removal and key not in node.metadata.labels:
                raise self._error(f'node "{node.name}" has no label "{key}"')
            labels = labels if is_removal else {**labels, key: content}
            return replace(node, metadata=replace(node.metadata, labels=labels))

        return self._on_nodes(target, label, f"label {key} removed" if is_removal else f"label {text}")

    def _target(self, value: str, form: str) -> tuple[str, str]:
        """Split `NODE=KEY...`, or `NODE|SELECTOR KEY...`, into target and change."""
        target, space, text = value.strip().partition(" ")
        if not space:
            names = [loaded.object.name for loaded in self._list(objects.Node)]
            fitting = [name for name in names if value.startswith((f"{name}=", f"{name}:"))]
            if not fitting:
                raise self._error(f'expected "NODE|SELECTOR {form}", or NODE={form} with the name of a node')
            target = max(fitting, key=len)
            text = value[len(target) + 1 :]
        return target, text.strip()

    def _drain(self, value: str) -> str:
        nodes = self._nodes(value)
        names = {loaded.object.name for loaded in nodes}
        for loaded in nodes:
            self._put(loaded, cordoned(loaded.object))
        pods_on_nodes = self._pods_on(names)
        self._needs = kubectl_needs([loaded.object for loaded in pods_on_nodes])
        pods = [pod for pod in pods_on_nodes if not stays(pod.object)]
        over = allowed_now(
            [loaded.object for loaded in self._list(objects.PodDisruptionBudget)],
            [loaded.object for loaded in self._list(objects.Pod)],
        )
        staying = len(pods_on_nodes) - len(pods)
        emptied = sum(bool(empty_dirs(pod.object)) for pod in pods if not pod.object.terminating)
        back, lost, against = self._displace(pods, over)
        parts = [f"{count(back + lost, 'pod')} evicted from {count(len(nodes), 'node')}", *_fates(back, lost)]
        parts += [f"{emptied} {'loses' if emptied == 1 else 'lose'} emptyDir data"] if emptied else []
        parts += [f"{against} {'violates' if against == 1 else 'violate'} a budget"] if against else []
        parts += [f"{staying} DaemonSet or static {'pod stays' if staying == 1 else 'pods stay'}"] if staying else []
        return ", ".join(parts)

    def _take(self, value: str, participle: str, *, keep: bool) -> str:
        """Remove nodes with their pods, or keep the nodes as not ready."""
        nodes = self._nodes(value)
        names = {loaded.object.name for loaded in nodes}
        pods = self._pods_on(names)
        daemons = [pod for pod in pods if stays(pod.object)]
        back, lost, _ = self._displace([pod for pod in pods if not stays(pod.object)], None)
        for pod in daemons:
            self._list(objects.Pod).remove(pod)
        for loaded in nodes:
            if keep:
                self._put(loaded, failed(loaded.object))
            else:
                self._list(objects.Node).remove(loaded)
        slices = self._list(objects.ResourceSlice)
        slices[:] = [device_slice for device_slice in slices if device_slice.object.spec.node_name not in names]
        return ", ".join(
            [f"{count(len(nodes), 'node')} {participle} with {count(back + lost, 'pod')}", *_fates(back, lost)]
        )

    def _pods_on(self, names: set[str]) -> list[LoadedObject[objects.Pod]]:
        return [
            loaded
            for loaded in self._list(objects.Pod)
            if loaded.object.spec.node_name in names and not loaded.object.finished
        ]

    def _displace(
        self, pods: Sequence[LoadedObject[objects.Pod]], over: Callable[[objects.Pod], tuple[str, ...]] | None
    ) -> tuple[int, int, int]:
        """Remove pods from their nodes; return how many come back, are lost, and violate a budget.

        `over`: returns the budgets that do not allow the eviction of a pod, and counts each eviction.
        """
        back = lost = against = 0
        evicted: list[objects.Pod] = []  # pods that count for budgets
        for loaded in pods:
            pod = loaded.object
            if pod.terminating:  # it is terminating anyway: neither evicted nor lost
                self._list(objects.Pod).remove(loaded)
                continue
            budgets = over(pod) if over is not None else ()
            against += bool(budgets)
            evicted += [pod] if is_healthy(pod) else []
            self._list(objects.Pod).remove(loaded)
            self._names.discard((pod.namespace, pod.name))
            successor = None
            if reference_of(pod) is not None:
                successor = self._add_successor(loaded)
                back += 1
            else:
                lost += 1
            self._displaced.append(
                DisplacedPod(
                    namespace=pod.namespace,
                    name=pod.name,
                    pod_group=pod_group_name(pod),
                    priority=pod.spec.priority or 0,
                    node_name=pod.spec.node_name,
                    change=str(self._change),
                    successor=successor,
                    budgets=budgets,
                    empty_dirs=empty_dirs(pod),
                )
            )
        pdbs = self._list(objects.PodDisruptionBudget)
        for loaded_budget, budget in zip(list(pdbs), followed((item.object for item in pdbs), evicted), strict=True):
            self._put(loaded_budget, budget)
        return back, lost, against

    def _add_successor(self, loaded: LoadedObject[objects.Pod]) -> str:
        pod = waiting_like(loaded.object, self._names, self._tried)
        self._add(pod, loaded.origin)
        return pod.name

    def _add(self, item: KubernetesObject, origin: Origin) -> None:
        """Add an object that is newer than all others."""
        self._latest += 1e-3
        self._list(type(item)).append(LoadedObject(item, origin, self._order, self._latest, dated=False))
        if isinstance(item, objects.Pod):
            self._names.add((item.namespace, item.name))
        self._order += 1

    def _add_nodes(self, value: str) -> str:
        number_of_nodes = whole_number(value, MOST_ADDED)
        if not number_of_nodes:
            raise self._error(f'"{value}": expected a number of nodes from 1 to {MOST_ADDED}')
        if not self._change.like:
            raise self._error("--like NODE must name the node that the new nodes copy")
        (model, *more) = self._nodes(self._change.like)
        if more:
            raise self._error(f'"{self._change.like}" matches {len(more) + 1} nodes: expected one')
        node_names = {loaded.object.name for loaded in self._list(objects.Node)}
        names: list[str] = []
        number = 1
        while len(names) < number_of_nodes:
            name = f"{model.object.name}-{number}"
            if name not in node_names:
                names.append(name)
            number += 1
        for name in names:
            for item in copies_of_node(self._manifests, model.object, name, self._workloads.makes_daemons):
                self._add(item, model.origin)
        self._touched = tuple(names)
        return f"{count(len(names), 'node')} like {model.object.name}: {names_text(names)}"

    # -- workloads ---------------------------------------------------------------------------------

    def _assigned(self, value: str, metavar: str) -> tuple[NamedObject, str]:
        name, equals, text = value.rpartition("=")
        if not equals or not text:
            raise self._error(f'"{value}": expected KIND/NAME={metavar}')
        return self._found(name), text

    def _found(self, name: str) -> NamedObject:
        try:
            return self._workloads.named(name)
        except FieldError as error:
            raise self._meets_nothing(error) from None

    def _scale(self, value: str) -> str:
        workload, text = self._assigned(value, "N")
        self._concerned.update(pod_name(loaded) for loaded in self._workloads.members(workload)[0])
        number = whole_number(text, MOST_REPLICAS)
        if number is None:
            raise self._error(f'"{text}": expected a number from 0 to {MOST_REPLICAS}')
        if workload.kind == "PodGroup":
            (loaded,) = [item for item in self._list(objects.PodGroup) if item.object.key == workload.key]
            gang = loaded.object.spec.scheduling_policy.gang
            if gang is None:
                raise self._error("a group without a gang has no minimum")
            policy = replace(loaded.object.spec.scheduling_policy, gang=replace(gang, min_count=number))
            self._put(loaded, replace(loaded.object, spec=replace(loaded.object.spec, scheduling_policy=policy)))
            return f"minCount of {workload} {gang.min_count} -> {number}"
        try:
            before, surplus, like = self._workloads.scale(workload, number)
        except FieldError as error:
            raise self._meets_nothing(error) from None
        for pod in surplus:
            self._list(objects.Pod).remove(pod)
        for model in like:
            self._add(waiting_like(model.object, self._names, self._tried), model.origin)
        cloned = f", the new ones like pod {like[0].object.name}: its template is not in the input" if like else ""
        return f"{workload} {before} -> {number}{cloned}"

    def _set_priority(self, value: str) -> str:
        workload, text = self._assigned(value, "CLASS|N")
        classes = {loaded.object.name: loaded.object for loaded in self._list(objects.PriorityClass)}
        admission = PriorityAdmission(classes.values())
        numeric = re.fullmatch(r"-?[0-9]+", text) is not None
        name, number = ("" if numeric else text), 0
        if name:
            try:
                spec = admission.resolve(objects.Pod(spec=objects.PodSpec(priority_class_name=name))).spec
            except FieldError as error:
                raise self._error(error.message) from None
            number = spec.priority or 0
        else:
            most = 2**31 if text.startswith("-") else HIGHEST_USER_PRIORITY
            amount = whole_number(text.removeprefix("-"), most)
            if amount is None:
                raise self._error(f'"{text}": expected a class, or a number up to {HIGHEST_USER_PRIORITY}')
            number = -amount if text.startswith("-") else amount
        policy = classes[name].preemption_policy if name in classes else None
        pods, groups = self._workloads.members(workload)
        self._concerned.update(map(pod_name, pods))

        def changed_spec(spec: Any) -> Any:
            more = {"preemption_policy": policy} if policy is not None else {}
            return replace(spec, priority=number, priority_class_name=name, **more)

        for loaded in pods:
            self._put(loaded, replace(loaded.object, spec=changed_spec(loaded.object.spec)))
        for group in groups:
            self._put(group, replace(group.object, spec=changed_spec(group.object.spec)))
        templates = self._workloads.set_priority(workload, name, number)
        if not pods and not groups and not templates:
            raise _NotThereError(Origin(str(self._change)), f"{workload} has no pods and no template")
        return f"priority of {workload} is {number}" + (f" ({name})" if name else "")

    def _move(self, value: str) -> str:
        pod, target = self._assigned(value, "NODE")
        if pod.kind != "Pod" or not any(loaded.object.name == target for loaded in self._list(objects.Node)):
            raise self._error(f'no node "{target}"' if pod.kind == "Pod" else f"{pod}: only a pod can move")
        (loaded,) = (item for item in self._list(objects.Pod) if pod_name(item) == (pod.namespace, pod.name))
        source = loaded.object.spec.node_name
        if source in ("", target):
            raise self._error(f"{pod} {f'runs on {source} already' if source else 'does not run'}")
        self._put(loaded, replace(loaded.object, spec=replace(loaded.object.spec, node_name=target)))
        return f"{pod} moves from {source} to {target}"

    def _without(self, value: str) -> str:
        workload = self._found(value)
        if workload.kind == "Node":
            raise self._error(f"--remove-node {workload.name} removes a node with its pods")
        pods, groups = self._workloads.remove(workload)
        removed_ids = {id(loaded) for loaded in (*pods, *groups)}
        for kind in (objects.Pod, objects.PodGroup):
            listed: Any = self._list(kind)
            listed[:] = [loaded for loaded in listed if id(loaded) not in removed_ids]
        return f"{workload} is left out" + (f", with its {count(len(pods), 'pod')}" if pods else "")


def with_changes(answer: Answer, changed_input: ChangedInput) -> Answer:
    """Return the answer with the effects of the changes and the outcomes of displaced pods."""
    if not changed_input.applied:
        return answer
    plan = answer.plan
    outcomes = {(pod.namespace, pod.name): pod for pod in plan.pods}
    because = why_waits(plan)
    displaced = []
    for evicted in changed_input.displaced:
        outcome = outcomes.get((evicted.namespace, evicted.successor)) if evicted.successor is not None else None
        if outcome is not None and outcome.node_name is not None:
            evicted = replace(evicted, outcome="Moved", to=outcome.node_name)
        elif outcome is not None:
            evicted = replace(evicted, outcome="Waiting", message=because(outcome))
        displaced.append(evicted)
    lost = [
        LostPod(
            namespace=evicted.namespace,
            name=evicted.name,
            pod_group=evicted.pod_group,
            node_name=evicted.node_name,
            priority=evicted.priority,
        )
        for evicted in displaced
        if evicted.outcome == "Lost"
    ]
    scheduled = {(group.namespace, group.name): group.scheduled for group in plan.pod_groups}
    broken = tuple(replace(gang, after=scheduled.get((gang.namespace, gang.name), 0)) for gang in changed_input.broken)
    displaced.sort(key=lambda evicted: (evicted.namespace, evicted.name))
    changed_plan = replace(
        plan,
        changes=tuple(changed_input.applied),
        displaced=tuple(displaced),
        broken_gangs=broken,
        lost=tuple(sorted((*plan.lost, *lost), key=lambda pod: (pod.namespace, pod.name))),
    )
    return Answer(changed_plan, answer.account)


def why_waits(plan: Plan) -> Callable[[PodOutcome], str | None]:
    """Return a function that gives the reason why a pod of the plan waits: its own message, else its group's."""
    groups = {(group.namespace, group.name): group.message for group in plan.pod_groups}
    return lambda pod: pod.message or groups.get((pod.namespace, pod.pod_group or ""))


# -- parts -----------------------------------------------------------------------------------------


def _fates(back: int, lost: int) -> list[str]:
    """Return the numbers of displaced pods that come back and that are lost, as text."""
    parts = [f"{back} {'comes' if back == 1 else 'come'} back"] if back else []
    return parts + ([f"{lost} without a controller {'is' if lost == 1 else 'are'} lost"] if lost else [])
