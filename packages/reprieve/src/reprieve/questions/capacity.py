"""How many more copies of a shape fit: now, with preemption, and in each topology domain; fragmentation (whatif.md 8).

Terms: a shape is a pod or a gang. A copy is another instance of it with its own names. Capacity is stranded where some
is free, but not enough for another pod of the shape.

Copies are placed one after the other, and each preempts what it needs. Searching victims for one gang after the other
takes minutes with thousands of running pods and hundreds of gangs that fit. Beyond `MOST_SEARCHED` the copies are
counted on the cluster without all pods that may be evicted, and one search finds the victims of that many copies.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from dataclasses import replace as with_fields
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from kube_rules import objects
from kube_rules.errors import InputError, Origin, names_text
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import LoadedObject, Manifests
from kube_rules.requests import pod_requests, resource_list
from kube_rules.topology_terms import HOSTNAME
from kube_rules.unknown_fields import did_you_mean, nearest
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cluster.extended_resources import served_by
from reprieve.cluster.resources import readable
from reprieve.decisions.outcomes import Document
from reprieve.questions.pod_edits import workload_of_pod
from reprieve.scheduling.preemptor_reservations import waits_for_completions
from reprieve.simulation.controllers.admission import exists
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import ChangeMade, Plan
from reprieve.simulation.report_refusals import REFUSED

MOST_COPIES: Final = 1_000
"""The maximum number of copies to try."""
MOST_SINGLES: Final = 2_000
"""The maximum number of single pods of the shape to try."""
MOST_PODS: Final = 20_000
"""The maximum number of pods of a copy."""
MOST_TRIED: Final = 4_000
"""The maximum number of pods of all copies together, if there is more than one copy."""
MOST_SEARCHED: Final = 40_000
"""The maximum number of objects searched for one gang after the other; beyond, all copies are one gang."""
MOST_NAMED: Final = 3

Amounts = dict[str, int]


class Domain(Document, frozen=True, kw_only=True):
    """How many pods of the shape fit into one topology domain: the largest gang there."""

    name: str
    nodes: int
    pods: int


class NodePool(Document, frozen=True, kw_only=True):
    """Similar nodes. `free`, `stranded`: amounts of the scarcest resource; `by`: workloads that use most of the rest.

    `stranded` is None if more pods may fit than were tried.
    """

    name: str
    nodes: int
    pods: int
    free: str
    stranded: str | None
    by: tuple[str, ...] = ()


class CapacityReport(Document, frozen=True, kw_only=True):
    """The document. `now`: copies that fit without preemption; `with_preemption`: copies that fit if they evict
    `victims` pods.

    `largest_gang` is within one domain if the shape has a topology constraint.

    `at_least`: the figures (`now`, `withPreemption`, `largestGang`) that may be higher, because other placements may
    fit more, or because the maximum was reached (`untried`). All others are exact.
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
    """Some figure reached the maximum. For single pods, stranded capacity and its workloads are then unknown."""
    refusal: str | None = None
    """The answer of admission to the first copy that exceeds a quota or a limit range."""
    topology_key: str | None = None
    domains: tuple[Domain, ...] = ()
    resource: str | None = None
    pools: tuple[NodePool, ...] = ()


def capacity(
    manifests: Manifests, shape: Manifests, options: PlanOptions, *, topology: str = "", pool: str = ""
) -> CapacityReport:  # long: every figure of the document, with its exactness
    """Return how many more copies of the shape fit in the cluster. Both inputs are expanded.

    Pending pods of the cluster are left out.

    `topology`: the node label of the domains; by default the shape's own constraint. `pool`: the node label of pools;
    by default nodes of the same size form a pool. Raises InputError for a shape without pods or with too many, and for
    a label that no node has.
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
    copy_requests: Counter[str] = Counter()
    for pod in pods:
        copy_requests.update(pod_requests(pod))
    free, whole = _amounts(cluster.nodes, cluster.pods)
    by_claim = served_by(pod_request.object for pod_request in cluster.of(objects.DeviceClass)).keys()
    most = min(MOST_COPIES, max(1, MOST_TRIED // len(pods)))
    pod_request = pod_requests(pods[0])
    number = _most(free, pods[:1], MOST_SINGLES, by_claim)
    on_nodes, _ = _singles(_unlimited(cluster), pods[0], options, number)
    singles, refusal = sum(on_nodes.values()), None
    if limited := any(limit.object.namespace == pods[0].namespace for limit in _limits(cluster)):
        admitted, refusal = _singles(cluster, pods[0], options, number)
        singles = sum(admitted.values())
    adds_up = _places_add_up(pods[0]) and not by_claim & pod_request.keys()
    alike = adds_up and _only_amounts_count(pods, groups)
    single_pods_suffice = not limited and ((alike and singles < MOST_SINGLES) or (len(pods) == 1 and not groups))
    counting = _CopyCounter(cluster, pods, groups, options, most, by_claim, alike)
    copies = counting.counts(free, min(singles // len(pods), most) if single_pods_suffice else None)
    own = next((key.key for group in groups for key in _topology(group)), "")
    topology = topology or own
    in_domains = _domains(cluster, on_nodes, own) if own else ()
    largest = max((domain.pods for domain in in_domains), default=0) if own and not limited else singles
    at_most = most  # copies with single places for all their pods
    if adds_up and singles < MOST_SINGLES and _are_alike(pods) and len(groups) <= 1:
        at_most = sum(domain.pods // len(pods) for domain in in_domains) if own else singles // len(pods)
    exact = {
        "now": copies.now < most and (copies.refused or copies.now >= min(at_most, _most(free, pods, most, by_claim))),
        "withPreemption": copies.exact and copies.with_preemption < copies.tried,
        "largestGang": singles < MOST_SINGLES and (adds_up or refusal is not None or singles == number),
    }
    untried = copies.now >= most or copies.with_preemption >= copies.tried or singles >= MOST_SINGLES
    allocatable = sum(map(Counter, whole), Counter[str]())
    scarce = max(pod_request, key=lambda name: pod_request[name] / max(1, allocatable[name]), default="")
    return CapacityReport(
        shape=_called(pods, groups),
        pods_per_copy=len(pods),
        requests={name: readable(name, amount) for name, amount in sorted(copy_requests.items())},
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
        pools=_pools(cluster, on_nodes, pod_request, scarce, pool, all_tried=singles < MOST_SINGLES),
    )


def _places_add_up(pod: objects.Pod) -> bool:
    """Return whether the number of such pods on a node is independent of other nodes."""
    spec = pod.spec
    between_pods = spec.affinity is not None and (
        spec.affinity.pod_affinity is not None or spec.affinity.pod_anti_affinity is not None
    )
    return not (between_pods or spec.topology_spread_constraints or spec.resource_claims or spec.volumes)


def _are_alike(pods: Sequence[objects.Pod]) -> bool:
    spec, labels = pods[0].spec, pods[0].metadata.labels
    return all((pod.spec, pod.metadata.labels) == (spec, labels) for pod in pods)


def _only_amounts_count(pods: Sequence[objects.Pod], groups: Sequence[objects.PodGroup]) -> bool:
    """Return whether only amounts limit the copies: gangs of equal, independent pods without other constraints.

    However they are placed, each node fits as many pods as its free amounts allow.
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
    """Raise InputError for a label that no node has: it is misspelled."""
    labels = {name for loaded in manifests.nodes for name in loaded.object.metadata.labels}
    if label and manifests.nodes and label not in labels:
        hint = did_you_mean(nearest(label, labels))
        raise InputError(Origin(option), f'no node has the label "{label}"{hint}')


def _settled(manifests: Manifests, shape: Manifests) -> Manifests:
    """Return the cluster without pending pods, with the classes of the shape."""
    result: dict[Any, list[Any]] = {kind: list(loaded_objects) for kind, loaded_objects in manifests.objects.items()}
    result[objects.Pod] = [item for item in manifests.pods if item.object.spec.node_name]
    existing_keys = {(type(item.object), item.object.key) for item in manifests.all()}
    for item in shape.all():
        if not isinstance(item.object, objects.Pod | objects.PodGroup | objects.Node) and (
            (type(item.object), item.object.key) not in existing_keys
        ):
            result.setdefault(type(item.object), []).append(item)
    counted = [item for item in manifests.pods if not item.object.spec.node_name and exists(item.object)]
    return Manifests(objects=result, counted=[*manifests.counted, *counted])


def _limits(manifests: Manifests) -> Sequence[LoadedObject[Any]]:
    """Return the quotas and limit ranges."""
    return [*manifests.of(objects.ResourceQuota), *manifests.of(objects.LimitRange)]


def _unlimited(manifests: Manifests) -> Manifests:
    """Return the cluster without quotas and limit ranges, to count what its nodes fit."""
    unlimited = {kind: loaded_objects for kind, loaded_objects in manifests.objects.items() if kind not in _LIMITING}
    return with_fields(manifests, objects=unlimited)


_LIMITING: Final = (objects.ResourceQuota, objects.LimitRange)


def _amounts(
    nodes: Sequence[LoadedObject[objects.Node]], pods: Sequence[LoadedObject[objects.Pod]]
) -> tuple[list[Amounts], list[Amounts]]:
    """Return the free amounts of each node beside these pods, and its allocatable amounts."""
    whole = {node.object.name: resource_list(node.object.status.allocatable) for node in nodes}
    left = {name: Counter(amounts) for name, amounts in whole.items()}
    for loaded in pods:
        pod = loaded.object
        if pod.spec.node_name in left and not pod.finished:
            left[pod.spec.node_name].subtract({**pod_requests(pod), "pods": 1})
    return [dict(amounts) for amounts in left.values()], list(whole.values())


def _most(nodes: Sequence[Mapping[str, int]], pods: Sequence[objects.Pod], most: int, by_claim: Set[str]) -> int:
    """Return an upper bound of the number of copies, from resources alone; at most `most`.

    Each node fits as many pods as its free amounts allow for the smallest request of each resource. All nodes together
    fit the requests of all pods, without `by_claim`, because nodes do not list the devices of drivers. A higher number
    cannot fit, and trying it takes as long as one that fits.
    """
    requests = [pod_requests(pod) for pod in pods]
    total: Counter[str] = Counter()
    for request in requests:
        total.update(request)
    total = Counter({name: amount for name, amount in total.items() if amount and name not in by_claim})
    least = {name: smallest for name in total if (smallest := min(request.get(name, 0) for request in requests))}
    fits, free = 0, Counter[str]()
    for node in nodes:
        free.update({name: max(0, node.get(name, 0)) for name in total})
        room = [max(0, node.get(name, 0)) // amount for name, amount in least.items()]
        fits += max(0, min([node.get("pods", MOST_PODS), *room]))
    return min([most, fits // len(pods), *(free[name] // amount for name, amount in total.items())])


class _CopyCount(NamedTuple):
    """Copies that fit now and with preemption, the evicted pods, and the number of copies tried."""

    now: int
    with_preemption: int
    victims: int
    tried: int
    exact: bool
    """No placement fits more copies with preemption."""
    refused: bool
    """Admission refused all copies that do not fit now."""


@dataclass(frozen=True, slots=True)
class _CopyCounter:
    """Counts copies of a shape, at most `most`; `by_claim`: resources that nodes do not list.

    `alike`: copies fit exactly when there are places for their pods, however they are placed.
    """

    cluster: Manifests
    pods: Sequence[objects.Pod]
    groups: Sequence[objects.PodGroup]
    options: PlanOptions
    most: int
    by_claim: Set[str]
    alike: bool

    def counts(self, free: Sequence[Mapping[str, int]], now: int | None) -> _CopyCount:
        """Return all counts; `free`: the free amounts of each node; `now`: the copies that fit now, if known."""
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
        if together is not None:  # with unequal pods another placement may fit more
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
            return priority >= top and not pod.terminating

        result = dict(self.cluster.objects)
        result[objects.Pod] = [loaded for loaded in self.cluster.pods if stays(loaded.object)]
        return with_fields(self.cluster, objects=result)

    def _one_after_the_other(self, number: int) -> tuple[int, int, bool]:
        """Place copies one after the other; return how many are placed whole, and their number of victims.

        Also return whether admission refused all others.
        """
        placed, victims, refused = self._placed(self.cluster, number)
        parts = any(group.min_count != len(self.pods) for group in self.groups) if self.groups else len(self.pods) > 1
        if placed < number and victims and parts:  # incomplete copies also evict pods
            again = self._placed(self.cluster, placed)
            victims = again[1] if again[0] == placed else victims
        return placed, victims, refused

    def _placed(self, cluster: Manifests, number: int, *, never: bool = False) -> tuple[int, int, bool]:
        """Return how many copies are placed whole, their victims, and whether admission refused all others.

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
        """Return the number of victims if all copies are placed at once as one gang; None if they cannot be."""
        (group, *other_groups) = self.groups
        spec = group.spec
        apart = spec.scheduling_constraints.topology or spec.resource_claims or spec.parent_composite_pod_group_name
        named = {pod_group_name(pod, self.options.sources) for pod in self.pods}
        native = all(pod.spec.scheduling_group is not None for pod in self.pods)
        if other_groups or apart or spec.scheduling_policy.gang is None or named != {group.name} or not native:
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
        """Yield the pods of a copy, with the suffixes for pods and groups."""
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
    return len({f"{victim.namespace}/{victim.name}" for p in document.preemptions for victim in p.victims})


def _singles(
    cluster: Manifests, pod: objects.Pod, options: PlanOptions, number: int
) -> tuple[Counter[str], str | None]:
    """Return how many single pods of the shape each node fits, and the answer of admission to the next pod."""
    spec = replace(pod.spec, scheduling_group=None, preemption_policy="Never")
    items = [
        replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}-copy-{copy:04d}", uid=""), spec=spec)
        for copy in range(number)
    ]
    document = _planned(cluster, items, options) if items else Plan()
    refusal = next((item.message for item in document.pods if item.outcome == REFUSED), None)
    return Counter(item.node_name for item in document.pods if item.node_name is not None), refusal


def _planned(cluster: Manifests, items: list[Any], options: PlanOptions) -> Plan:
    """Return the plan of the cluster with additional objects."""
    loaded_objects = [loaded for of_kind in cluster.objects.values() for loaded in of_kind]
    created = max((loaded.created for loaded in loaded_objects), default=0.0)
    order = 1 + max((loaded.order for loaded in loaded_objects), default=0)
    objects_by_kind: dict[Any, list[Any]] = {kind: list(existing) for kind, existing in cluster.objects.items()}
    for turn, item in enumerate(items):
        loaded = LoadedObject(item, Origin("--shape"), order + turn, created + 1e-6 * turn)
        objects_by_kind.setdefault(type(item), []).append(loaded)
    return plan(with_fields(cluster, objects=objects_by_kind), options).plan


def _topology(group: objects.PodGroup) -> tuple[Any, ...]:
    constraints = group.spec.scheduling_constraints
    return constraints.topology if constraints is not None else ()


def _called(pods: list[objects.Pod], groups: list[objects.PodGroup]) -> str:
    names = [f"gang {group.key}" for group in groups] or [f"pod {pod.key}" for pod in pods]
    return names_text(names, MOST_NAMED)


def _domains(cluster: Manifests, on_nodes: Counter[str], topology: str) -> tuple[Domain, ...]:
    nodes: Counter[str] = Counter()
    fits: Counter[str] = Counter()
    for loaded in cluster.nodes:
        name = loaded.object.metadata.labels.get(topology)
        if name is not None:
            nodes[name] += 1
            fits[name] += on_nodes[loaded.object.name]
    domains = (Domain(name=name, nodes=nodes[name], pods=fits[name]) for name in nodes)
    return tuple(sorted(domains, key=lambda domain: (-domain.pods, domain.name)))


def _pools(
    cluster: Manifests,
    on_nodes: Counter[str],
    request: Mapping[str, int],
    scarce: str,
    label: str,
    *,
    all_tried: bool,
) -> tuple[NodePool, ...]:
    """Return the pools; `all_tried`: all pods of the shape that fit were tried, so the rest is stranded."""
    used: dict[str, Counter[str]] = defaultdict(Counter)
    """Node -> workload -> the amount of the scarce resource that it uses there."""
    for loaded in cluster.pods:
        pod = loaded.object
        if not pod.finished:
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
            allocatable = resource_list(node.status.allocatable).get(scarce, 0)
            left = max(0, allocatable - sum(used[node.name].values()))
            wasted = left - min(left, on_nodes[node.name] * request.get(scarce, 0))
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
                stranded=readable(scarce, stranded) if all_tried else None,
                by=tuple(most) if all_tried else (),
            )
        )
    return tuple(sorted(pools, key=lambda node_pool: (-node_pool.pods, node_pool.name)))


def _pool_of(node: objects.Node, label: str) -> str:
    """Return the value of the pool label, else the size of the node."""
    if label:
        return node.metadata.labels.get(label, "(none)")
    amounts = resource_list(node.status.allocatable)
    return ", ".join(
        f"{readable(name, amount)} {name}" for name, amount in sorted(amounts.items()) if name not in ("pods", HOSTNAME)
    )
