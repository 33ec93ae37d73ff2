"""How many more copies of a shape fit: now, with preemption, in each topology domain; and fragmentation (whatif.md 8).

Terms: a shape is a pod or a gang; a copy is one more of it under names of its own; capacity is stranded where some is
free, but not enough for one more pod of the shape.

Copies come one after the other, and each preempts what it needs.  Searching victims for one gang after the other takes
minutes where thousands of pods run and hundreds of gangs fit.  Beyond `MOST_SEARCHED` the cluster is counted without
all pods that may be evicted, and the victims of that many copies are searched once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import InputError, Origin
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Loaded, Manifests
from kube_rules.requests import pod_requests, resource_list
from kube_rules.unknown_fields import nearest
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cluster.extended_resources import served_by
from reprieve.cluster.resources import readable
from reprieve.decisions.outcomes import Document
from reprieve.questions.changed_objects import HOSTNAME
from reprieve.questions.pod_edits import workload_of_pod
from reprieve.scheduling.preemptor_reservations import waits_for_completions
from reprieve.simulation.controllers.admission import exists
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import ChangeMade, Plan
from reprieve.simulation.report_refusals import REFUSED

MOST_COPIES: Final = 1_000
"""Copies of the shape that are tried."""
MOST_SINGLES: Final = 2_000
"""Single pods of the shape that are tried."""
MOST_PODS: Final = 20_000
"""Pods that a copy may have."""
MOST_TRIED: Final = 4_000
"""Pods that all copies together may have, if they are more than one."""
MOST_SEARCHED: Final = 40_000
"""Objects of the cluster that are inspected for room for one gang after the other; of more gangs all are one."""
MOST_NAMED: Final = 3

Amounts = dict[str, int]


class Domain(Document, frozen=True, kw_only=True):
    """How many pods of the shape fit into one topology domain: the largest gang there."""

    name: str
    nodes: int
    pods: int


class NodePool(Document, frozen=True, kw_only=True):
    """Similar nodes. `free`, `stranded`: of the resource scarcest for the shape; `by`: workloads with most of the rest.

    `stranded` is None where more pods may fit than were tried.
    """

    name: str
    nodes: int
    pods: int
    free: str
    stranded: str | None
    by: tuple[str, ...] = ()


class CapacityReport(Document, frozen=True, kw_only=True):
    """The document. `now`: copies that fit beside all that runs; `with_preemption`: if they evict `victims` pods.

    `largest_gang` is within one domain where the shape has a topology constraint.
    `at_least`: the figures (`now`, `withPreemption`, `largestGang`) that may be higher: in other places more may fit,
    or they are as many as were tried (`untried`). All others are exact.
    """

    api_version: str = DOCUMENT_VERSION
    kind: str = "Capacity"
    changes: tuple[ChangeMade, ...] = ()
    shape: str
    pods_per_copy: int
    requests: dict[str, str]
    now: int
    with_preemption: int
    victims: int
    largest_gang: int
    at_least: tuple[str, ...] = ()
    untried: bool = False
    """Some figure is as many as were tried. Of single pods, stranded capacity and its workloads are then unknown."""
    refusal: str | None = None
    """What admission answers to the first copy that does not fit for a quota or a limit range."""
    topology_key: str | None = None
    domains: tuple[Domain, ...] = ()
    resource: str | None = None
    pools: tuple[NodePool, ...] = ()


def capacity(
    manifests: Manifests, shape: Manifests, options: PlanOptions, *, topology: str = "", pool: str = ""
) -> CapacityReport:  # long: every figure of the document, with when it is exact
    """Return how many more of the shape the cluster takes. Both inputs are expanded.

    Pending pods of the cluster are left out.

    `topology`: the node label with the domains as values; by default the shape's own constraint. `pool`: the label
    of pools; by default nodes of one size are one pool. Raises InputError for a shape without pods or with too many,
    and for a label that no node has.
    """
    pods = [loaded.object for loaded in shape.pods if not loaded.object.spec.node_name]
    if not pods:
        raise InputError(Origin("--shape"), "the manifests have no pending pods")
    if len(pods) > MOST_PODS:
        raise InputError(Origin("--shape"), f"a copy has {len(pods)} pods: at most {MOST_PODS} can be tried")
    for option, label in (("--topology", topology), ("--pool", pool)):
        _check_label(manifests, option, label)
    groups = [loaded.object for loaded in shape.pod_groups]
    cluster = _settled(manifests, shape)
    options = with_fields(options, first_decision=False, observer=None, on_object=None, account=False)
    asked: Counter[str] = Counter()
    for pod in pods:
        asked.update(pod_requests(pod))
    free, whole = _amounts(cluster.nodes, cluster.pods)
    by_claim = served_by(one.object for one in cluster.of(objects.DeviceClass)).keys()
    most = min(MOST_COPIES, max(1, MOST_TRIED // len(pods)))
    one = pod_requests(pods[0])
    number = _most(free, pods[:1], MOST_SINGLES, by_claim)
    on_nodes, _ = _singles(_unlimited(cluster), pods[0], options, number)
    singles, refusal = sum(on_nodes.values()), None
    if limited := any(limit.object.namespace == pods[0].namespace for limit in _limits(cluster)):
        admitted, refusal = _singles(cluster, pods[0], options, number)
        singles = sum(admitted.values())
    adds_up = _places_add_up(pods[0]) and not by_claim & one.keys()
    alike = adds_up and _only_amounts_count(pods, groups)
    known = not limited and ((alike and singles < MOST_SINGLES) or (len(pods) == 1 and not groups))
    counting = _Counting(cluster, pods, groups, options, most, by_claim, alike)
    copies = counting.counts(free, min(singles // len(pods), most) if known else None)
    own = next((key.key for group in groups for key in _topology(group)), "")
    topology = topology or own
    in_domains = _domains(cluster, on_nodes, own) if own else ()
    largest = max((domain.pods for domain in in_domains), default=0) if own and not limited else singles
    at_most = most  # copies that single pods have places for
    if adds_up and singles < MOST_SINGLES and _are_alike(pods) and len(groups) <= 1:
        at_most = sum(domain.pods // len(pods) for domain in in_domains) if own else singles // len(pods)
    exact = {
        "now": copies.now < most and (copies.refused or copies.now >= min(at_most, _most(free, pods, most, by_claim))),
        "withPreemption": copies.exact and copies.with_preemption < copies.tried,
        "largestGang": singles < MOST_SINGLES and (adds_up or refusal is not None or singles == number),
    }
    untried = copies.now >= most or copies.with_preemption >= copies.tried or singles >= MOST_SINGLES
    allocatable = sum(map(Counter, whole), Counter[str]())
    scarce = max(one, key=lambda name: one[name] / max(1, allocatable[name]), default="")
    return CapacityReport(
        shape=_called(pods, groups),
        pods_per_copy=len(pods),
        requests={name: readable(name, amount) for name, amount in sorted(asked.items())},
        now=copies.now,
        with_preemption=copies.with_preemption,
        victims=copies.victims,
        largest_gang=largest,
        at_least=tuple(figure for figure, is_exact in exact.items() if not is_exact),
        untried=untried,
        refusal=refusal,
        topology_key=topology or None,
        domains=_domains(cluster, on_nodes, topology) if topology else (),
        resource=scarce or None,
        pools=_pools(cluster, on_nodes, one, scarce, pool, known=singles < MOST_SINGLES),
    )


def _places_add_up(pod: objects.Pod) -> bool:
    """Return whether a node takes as many of such pods as it has places for, whatever is on other nodes."""
    spec = pod.spec
    between_pods = spec.affinity is not None and (
        spec.affinity.pod_affinity is not None or spec.affinity.pod_anti_affinity is not None
    )
    return not (between_pods or spec.topology_spread_constraints or spec.resource_claims or spec.volumes)


def _are_alike(pods: Sequence[objects.Pod]) -> bool:
    spec, labels = pods[0].spec, pods[0].metadata.labels
    return all((pod.spec, pod.metadata.labels) == (spec, labels) for pod in pods)


def _only_amounts_count(pods: Sequence[objects.Pod], groups: Sequence[objects.PodGroup]) -> bool:
    """Return whether as many copies fit as there are places for their pods: gangs of pods that are alike and do not
    care where others are. However they are placed, each node takes as many as it has room for.
    """
    spec = pods[0].spec
    if len(groups) != 1 or groups[0].min_count != len(pods) or groups[0].spec.resource_claims:
        return False
    if _topology(groups[0]) or groups[0].spec.parent_composite_pod_group_name:
        return False
    if spec.affinity or spec.topology_spread_constraints or spec.resource_claims or spec.volumes or spec.host_network:
        return False
    if spec.scheduling_group is None or spec.scheduling_group.pod_group_name != groups[0].name:
        return False
    if any(port.host_port for container in spec.containers for port in container.ports) or spec.scheduling_gates:
        return False
    return _are_alike(pods)


def _check_label(manifests: Manifests, option: str, label: str) -> None:
    """Raise InputError for a label that no node has: it is misspelt."""
    labels = {name for loaded in manifests.nodes for name in loaded.object.metadata.labels}
    if label and manifests.nodes and label not in labels:
        meant = nearest(label, sorted(labels))
        hint = f', did you mean "{meant}"?' if meant else ""
        raise InputError(Origin(option), f'no node has the label "{label}"{hint}')


def _settled(manifests: Manifests, shape: Manifests) -> Manifests:
    """Return what runs, the nodes and everything else; the shape's classes are there too."""
    result: dict[Any, list[Any]] = {kind: list(each) for kind, each in manifests.objects.items()}
    result[objects.Pod] = [item for item in manifests.pods if item.object.spec.node_name]
    known = {(type(item.object), item.object.key) for item in manifests.all()}
    for item in shape.all():
        if not isinstance(item.object, objects.Pod | objects.PodGroup | objects.Node) and (
            (type(item.object), item.object.key) not in known
        ):
            result.setdefault(type(item.object), []).append(item)
    counted = [item for item in manifests.pods if not item.object.spec.node_name and exists(item.object)]
    return Manifests(objects=result, counted=[*manifests.counted, *counted])


def _limits(manifests: Manifests) -> Sequence[Loaded[Any]]:
    """Return the quotas and limit ranges."""
    return [*manifests.of(objects.ResourceQuota), *manifests.of(objects.LimitRange)]


def _unlimited(manifests: Manifests) -> Manifests:
    """Return the cluster without quotas and limit ranges: what its nodes take."""
    kept = {kind: found for kind, found in manifests.objects.items() if kind not in _LIMITING}
    return with_fields(manifests, objects=kept)


_LIMITING: Final = (objects.ResourceQuota, objects.LimitRange)


def _amounts(
    nodes: Sequence[Loaded[objects.Node]], pods: Sequence[Loaded[objects.Pod]]
) -> tuple[list[Amounts], list[Amounts]]:
    """Return what of each node these pods leave free, and what there is."""
    whole = {node.object.name: resource_list(node.object.status.allocatable) for node in nodes}
    left = {name: Counter(amounts) for name, amounts in whole.items()}
    for loaded in pods:
        pod = loaded.object
        if pod.spec.node_name in left and pod.status.phase not in ("Succeeded", "Failed"):
            left[pod.spec.node_name].subtract({**pod_requests(pod), "pods": 1})
    return [dict(amounts) for amounts in left.values()], list(whole.values())


def _most(nodes: Sequence[Mapping[str, int]], pods: Sequence[objects.Pod], most: int, by_claim: Set[str]) -> int:
    """Return a number of copies that is not too low: as many as would fit if only resources mattered, `most` at most.

    Each node takes as many pods as it has room for the least that any of them asks of each resource, and all nodes
    together what all pods ask, but for `by_claim`: nodes do not list what drivers offer. A higher number cannot
    fit, and trying it costs as much as one that fits.
    """
    requests = [pod_requests(pod) for pod in pods]
    asked: Counter[str] = Counter()
    for request in requests:
        asked.update(request)
    asked = Counter({name: amount for name, amount in asked.items() if amount and name not in by_claim})
    least = {name: found for name in asked if (found := min(request.get(name, 0) for request in requests))}
    fits, free = 0, Counter[str]()
    for node in nodes:
        free.update({name: max(0, node.get(name, 0)) for name in asked})
        room = [max(0, node.get(name, 0)) // amount for name, amount in least.items()]
        fits += max(0, min([node.get("pods", MOST_PODS), *room]))
    return min([most, fits // len(pods), *(free[name] // amount for name, amount in asked.items())])


class _CopyCount(NamedTuple):
    """Copies that fit now and with preemption, the pods evicted for them, and with how many copies that was tried."""

    now: int
    with_preemption: int
    victims: int
    tried: int
    exact: bool
    """No more fit with preemption, however they are placed."""
    refused: bool
    """Admission refused all copies that do not fit now."""


@dataclass(frozen=True, slots=True)
class _Counting:
    """Counts copies of a shape, at most `most`; `by_claim`: resources that nodes do not list.

    `alike`: whether as many copies fit as there are places for their pods, however they are placed.
    """

    cluster: Manifests
    pods: Sequence[objects.Pod]
    groups: Sequence[objects.PodGroup]
    options: PlanOptions
    most: int
    by_claim: Set[str]
    alike: bool

    def counts(self, free: Sequence[Mapping[str, int]], now: int | None) -> _CopyCount:
        """Return all of it; `free` on each node; `now`: the copies that fit now, where that is known."""
        emptied = self._emptied()
        room, _ = _amounts(emptied.nodes, emptied.pods)
        number = self._at_most(room)
        searched = len(self.cluster.nodes) + len(self.cluster.pods)
        refused = False
        if now is None:
            now, _, refused = self._placed(self.cluster, self._at_most(free), never=True)
        if now >= number:
            return _CopyCount(now, now, 0, self.most, exact=True, refused=refused)
        if not self.groups or (number - now) * searched <= MOST_SEARCHED:
            placed, victims, all_refused = self._one_after_the_other(number)
            exact = all_refused or placed >= number
            if not exact and (self.alike or (len(self.pods) == 1 and _places_add_up(self.pods[0]))):
                exact = placed >= self._placed(emptied, number, never=True)[0]
            return _CopyCount(now, placed, victims, self.most, exact=exact, refused=refused)
        without = self._placed(emptied, number, never=True)[0]
        together = self._together(without) if without > now else None
        if together is not None:  # of pods that differ more may fit where others of them are put on each node
            tried = self.most if self.alike else without
            return _CopyCount(now, without, together, tried, exact=self.alike, refused=refused)
        few = min(number, now + max(1, MOST_SEARCHED // searched))
        placed, victims, all_refused = self._one_after_the_other(few)
        exact = all_refused or placed >= number
        return _CopyCount(now, placed, victims, few if few < number else self.most, exact=exact, refused=refused)

    def _at_most(self, nodes: Sequence[Mapping[str, int]]) -> int:
        return _most(nodes, self.pods, self.most, self.by_claim)

    @property
    def _asking(self) -> Sequence[objects.Pod | objects.PodGroup]:
        return (*self.pods, *self.groups)

    def _emptied(self) -> Manifests:
        """Return the cluster without the pods that a copy might evict."""
        if waits_for_completions(self.options.profiles):
            result = dict(self.cluster.objects)
            result[objects.Pod] = []
            return with_fields(self.cluster, objects=result)
        top = max(item.spec.priority or 0 for item in self._asking)
        groups = {
            loaded.object.key: loaded.object.spec.priority or 0
            for loaded in self.cluster.pod_groups
            if not loaded.object.spec.parent_composite_pod_group_name
        }

        def stays(pod: objects.Pod) -> bool:
            name = pod_group_name(pod, self.options.sources)
            priority = pod.spec.priority or 0
            if name is not None:
                priority = min(priority, groups.get(f"{pod.namespace}/{name}", priority))
                if f"{pod.namespace}/{name}" not in groups:
                    return False
            return priority >= top and pod.metadata.deletion_timestamp is None

        result = dict(self.cluster.objects)
        result[objects.Pod] = [loaded for loaded in self.cluster.pods if stays(loaded.object)]
        return with_fields(self.cluster, objects=result)

    def _one_after_the_other(self, number: int) -> tuple[int, int, bool]:
        """Return how many of so many copies, one after the other, are placed whole, and the number of their victims.

        And whether admission refused all others.
        """
        placed, victims, refused = self._placed(self.cluster, number)
        parts = any(group.min_count != len(self.pods) for group in self.groups) if self.groups else len(self.pods) > 1
        if placed < number and victims and parts:  # parts of copies that are not placed whole evict pods too
            again = self._placed(self.cluster, placed)
            victims = again[1] if again[0] == placed else victims
        return placed, victims, refused

    def _placed(self, cluster: Manifests, number: int, *, never: bool = False) -> tuple[int, int, bool]:
        """Return how many of so many copies are placed whole, their victims, and whether admission refused all others.

        `never`: without preemption.
        """
        if not number:
            return 0, 0, False
        policy = {"preemption_policy": "Never"} if never else {}
        items: list[Any] = []
        for copy in range(number):
            ending = f"-copy-{copy:04d}"
            for group in self.groups:
                meta = replace(group.metadata, name=f"{group.name}{ending}", uid="")
                items.append(replace(group, metadata=meta, spec=replace(group.spec, **policy)))
            items += self._pods(ending, ending, policy)
        document = _planned(cluster, items, self.options)
        waiting = {_copy_of(pod.name) for pod in document.pods if pod.outcome != "Scheduled"}
        refused = {_copy_of(pod.name) for pod in document.pods if pod.outcome == REFUSED}
        return number - len(waiting), _victims(document), bool(waiting) and waiting == refused

    def _together(self, number: int) -> int | None:
        """Return how many pods go for so many copies if all come at once, as one gang; None if they cannot."""
        (group, *others) = self.groups
        spec = group.spec
        apart = spec.scheduling_constraints.topology or spec.resource_claims or spec.parent_composite_pod_group_name
        named = {pod_group_name(pod, self.options.sources) for pod in self.pods}
        native = all(pod.spec.scheduling_group is not None for pod in self.pods)
        if others or apart or spec.scheduling_policy.gang is None or named != {group.name} or not native:
            return None
        gang = replace(spec.scheduling_policy.gang, min_count=number * len(self.pods))
        meta = replace(group.metadata, name=f"{group.name}-copies", uid="")
        policy = replace(spec.scheduling_policy, gang=gang)
        items: list[Any] = [replace(group, metadata=meta, spec=replace(spec, scheduling_policy=policy))]
        for copy in range(number):
            items += self._pods(f"-copy-{copy:04d}", "-copies", {})
        document = _planned(self.cluster, items, self.options)
        if any(pod.outcome != "Scheduled" for pod in document.pods):
            return None
        return _victims(document)

    def _pods(self, ending: str, of_group: str, policy: Mapping[str, Any]) -> Iterator[objects.Pod]:
        """Yield the pods of a copy, by its own ending and that of its groups."""
        for pod in self.pods:
            spec = replace(pod.spec, **policy)
            named = spec.scheduling_group
            if named is not None:
                spec = replace(
                    spec, scheduling_group=replace(named, pod_group_name=f"{named.pod_group_name}{of_group}")
                )
            yield replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}{ending}", uid=""), spec=spec)


def _copy_of(pod: str) -> str:
    return pod[-len("-copy-0000") :]


def _victims(document: Plan) -> int:
    return len({f"{victim.namespace}/{victim.name}" for made in document.preemptions for victim in made.victims})


def _singles(
    cluster: Manifests, pod: objects.Pod, options: PlanOptions, number: int
) -> tuple[Counter[str], str | None]:
    """Return how many pods of the shape each node takes, if each goes where it fits; what admission answers to the
    next.
    """
    spec = replace(pod.spec, scheduling_group=None, preemption_policy="Never")
    items = [
        replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}-copy-{copy:04d}", uid=""), spec=spec)
        for copy in range(number)
    ]
    document = _planned(cluster, items, options) if items else Plan()
    refusal = next((item.message for item in document.pods if item.outcome == REFUSED), None)
    return Counter(item.node_name for item in document.pods if item.node_name is not None), refusal


def _planned(cluster: Manifests, items: list[Any], options: PlanOptions) -> Plan:
    """Return the plan of the cluster with more in it."""
    there = [one for found in cluster.objects.values() for one in found]
    created = max((one.created for one in there), default=0.0)
    order = 1 + max((one.order for one in there), default=0)
    found: dict[Any, list[Any]] = {kind: list(each) for kind, each in cluster.objects.items()}
    for turn, item in enumerate(items):
        loaded = Loaded(item, Origin("--shape"), order + turn, created + 1e-6 * turn)
        found.setdefault(type(item), []).append(loaded)
    return plan(with_fields(cluster, objects=found), options).plan


def _topology(group: objects.PodGroup) -> tuple[Any, ...]:
    constraints = group.spec.scheduling_constraints
    return constraints.topology if constraints is not None else ()


def _called(pods: list[objects.Pod], groups: list[objects.PodGroup]) -> str:
    names = [f"gang {group.key}" for group in groups] or [f"pod {pod.key}" for pod in pods]
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _domains(cluster: Manifests, on_nodes: Counter[str], topology: str) -> tuple[Domain, ...]:
    nodes: Counter[str] = Counter()
    fits: Counter[str] = Counter()
    for loaded in cluster.nodes:
        name = loaded.object.metadata.labels.get(topology)
        if name is not None:
            nodes[name] += 1
            fits[name] += on_nodes[loaded.object.name]
    made = (Domain(name=name, nodes=nodes[name], pods=fits[name]) for name in nodes)
    return tuple(sorted(made, key=lambda one: (-one.pods, one.name)))


def _pools(
    cluster: Manifests, on_nodes: Counter[str], one: Mapping[str, int], scarce: str, label: str, *, known: bool
) -> tuple[NodePool, ...]:
    """Return the pools; `known`: all pods of the shape that fit were tried, so the rest is stranded."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    """Node -> workload -> how much of the scarce resource it has there."""
    for loaded in cluster.pods:
        pod = loaded.object
        if pod.status.phase not in ("Succeeded", "Failed"):
            workload = workload_of_pod(pod) or "daemons and static pods"
            used[pod.spec.node_name][workload] += pod_requests(pod).get(scarce, 0)
    members: dict[str, list[objects.Node]] = defaultdict(list)
    for node in (loaded.object for loaded in cluster.nodes):
        members[_pool_of(node, label)].append(node)
    pools = []
    for name, nodes in members.items():
        free = stranded = 0
        by: Counter[str] = Counter()
        for node in nodes:
            there = resource_list(node.status.allocatable).get(scarce, 0)
            left = max(0, there - sum(used[node.name].values()))
            wasted = left - min(left, on_nodes[node.name] * one.get(scarce, 0))
            free, stranded = free + left, stranded + wasted
            if wasted:
                by.update(used[node.name])
        most = sorted((workload for workload in by if by[workload]), key=lambda workload: (-by[workload], workload))[
            :MOST_NAMED
        ]
        pools.append(
            NodePool(
                name=name,
                nodes=len(nodes),
                pods=sum(on_nodes[node.name] for node in nodes),
                free=readable(scarce, free),
                stranded=readable(scarce, stranded) if known else None,
                by=tuple(most) if known else (),
            )
        )
    return tuple(sorted(pools, key=lambda found: (-found.pods, found.name)))


def _pool_of(node: objects.Node, label: str) -> str:
    """Return the value of the pool label, else the size of the node."""
    if label:
        return node.metadata.labels.get(label, "(none)")
    amounts = resource_list(node.status.allocatable)
    return ", ".join(
        f"{readable(name, amount)} {name}" for name, amount in sorted(amounts.items()) if name not in ("pods", HOSTNAME)
    )
