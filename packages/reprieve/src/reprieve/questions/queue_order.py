"""The pending pods and groups of an input, in scheduling order (whatif.md 6).

The input is planned once. The first decision about each pod or group gives its position, why it is pending and what it
would evict. A pod without a decision is gated, and comes last.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from kube_rules.admission import HIGHEST_USER_PRIORITY
from kube_rules.durations import readable_time
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from kube_rules.requests import pod_requests
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cluster.groups import GroupState
from reprieve.decisions.outcomes import Document
from reprieve.decisions.queue_items import (
    BACKOFF,
    CONSTRAINTS,
    GATED,
    PREEMPTING,
    PRIORITY,
    READY,
    RESOURCES,
    QueueItem,
    reserved_sentence,
)
from reprieve.decisions.requested_nodes import requested_sentence
from reprieve.preemption.eligibility import group_never_preempts
from reprieve.questions.changes import InputChange, changed
from reprieve.scheduling.decision import Decision, Result
from reprieve.scheduling.engine import Engine
from reprieve.simulation.plan import EngineKeeper, PlanObserver, PlanOptions, plan
from reprieve.simulation.report import Answer, ChangeMade, Plan, PodGroupOutcome, PodOutcome
from reprieve.simulation.report_refusals import REFUSED, refusal_sentences

MOST_SEARCHED: Final = 25_000
"""The maximum number of nodes and pods that all trials of priorities of one answer may search."""
LEAST_SEARCHED: Final = 200
"""The minimum cost of a trial, in nodes and pods."""
_PLAN_COST: Final = 4
"""The cost of another plan of the input, in trials."""

Key = tuple[str, str, str]
"""(Pod or PodGroup, namespace, name)."""


class Queue(Document, frozen=True, kw_only=True):
    """The document."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "Queue"
    changes: tuple[ChangeMade, ...] = ()
    items: tuple[QueueItem, ...] = ()
    refused: tuple[str, ...] = ()
    """Sentences about pods that admission refuses, which therefore do not exist."""


class _FirstDecisions(EngineKeeper):
    """An observer that stores the first decision about each entity, in order."""

    def __init__(self, observer: PlanObserver | None) -> None:
        super().__init__(observer)
        self.first_decisions: dict[str, Decision] = {}

    def decided(self, decision: Decision, *, seconds: float, now: float) -> None:
        """Store the first decision; see `PlanObserver`."""
        self.first_decisions.setdefault(decision.ref, decision)
        super().decided(decision, seconds=seconds, now=now)


def queue_of(
    manifests: Manifests, options: PlanOptions, helped: Callable[[Answer], Answer] = lambda answer: answer
) -> Queue:
    """Return the pending pods and groups in order. `helped` adds suggestions for those pending at the end of the plan.

    Raises InputError as a plan does.
    """
    first = _FirstDecisions(options.observer)
    document = helped(plan(manifests, replace(options, observer=first, first_decision=False, account=False))).plan
    waiting: dict[Key, list[PodOutcome]] = {}
    for pod in document.pods:
        if pod.outcome == REFUSED:
            continue
        kind, name = ("Pod", pod.name) if pod.pod_group is None else ("PodGroup", pod.pod_group)
        waiting.setdefault((kind, pod.namespace, name), []).append(pod)
    created, refs = _created(manifests, first.engine)
    order = {key: turn for turn, key in enumerate(first.first_decisions)}
    turned = sorted(
        waiting, key=lambda key: (order.get(refs.get(key, ""), len(order)), created.get(key, _NEVER)[0], key)
    )
    pending = {
        (loaded.object.namespace, loaded.object.name): loaded.object
        for loaded in manifests.pods
        if not loaded.object.spec.node_name
    }
    requests_of = {name: pod_requests(pod) for name, pod in pending.items()}
    groups = {(pod_group.namespace, pod_group.name): pod_group for pod_group in document.pod_groups}
    trials = _PriorityTrials(first.engine, manifests, options) if first.engine is not None else None
    items = []
    for position, key in enumerate(turned, 1):
        pods, decision = waiting[key], first.first_decisions.get(refs.get(key, ""))
        group = groups.get(key[1:]) if key[0] == "PodGroup" else None
        requests = [requests_of.get((pod.namespace, pod.name), {}) for pod in pods]
        preemption = decision.preemption if decision is not None else None
        evicts = tuple(sorted(verdict.unit.name for verdict in preemption.victims)) if preemption is not None else ()
        items.append(
            QueueItem(
                position=position,
                kind=key[0],
                namespace=key[1],
                name=key[2],
                priority=pods[0].priority,
                pods=len(pods),
                since=readable_time(created[key][0]) if created.get(key, _NEVER)[1] else None,
                why=_why(decision, key, pods[0].priority, requests, trials),
                message=_message(group, pods),
                evicts=evicts,
                help=group.help if group is not None else pods[0].help,
                tried=group.tried if group is not None else pods[0].tried,
                reserved=_reserved(first.engine, refs.get(key, "")),
                requested=requested_sentence(
                    found_pod for pod in pods if (found_pod := pending.get((pod.namespace, pod.name)))
                ),
            )
        )
    items += _resizes(document, first.first_decisions, len(items))
    return Queue(items=tuple(items), refused=tuple(refusal_sentences(document)))


def _resizes(document: Plan, first_decisions: Mapping[str, Decision], before: int) -> list[QueueItem]:
    """Return running pods with a deferred resize, after the pending ones, by priority."""
    decided = {rejection.pod.key: d for d in first_decisions.values() if d.resize for rejection in d.rejections}
    ordered = sorted(document.resizes, key=lambda item: (-item.priority, item.namespace, item.name))
    items = []
    for position, item in enumerate(ordered, before + 1):
        decision = decided.get(f"{item.namespace}/{item.name}")
        preempts = decision is not None and decision.preemption is not None
        why = READY if decision is None and item.outcome == "Resized" else PREEMPTING if preempts else RESOURCES
        items.append(
            QueueItem(
                position=position,
                kind="Pod",
                namespace=item.namespace,
                name=item.name,
                priority=item.priority,
                pods=1,
                since=None,
                why=why,
                message=item.message or "",
                evicts=item.evicts,
                node_name=item.node_name,
            )
        )
    return items


def _reserved(engine: Engine | None, ref: str) -> str:
    return reserved_sentence(engine, ref) if engine is not None else ""


def _why(
    decision: Decision | None,
    key: Key,
    priority: int,
    requests: list[dict[str, int]],
    trials: _PriorityTrials | None,
) -> str:
    """Return the reason as one word. `requests`: of each pod."""
    if decision is None or trials is None:
        return GATED
    engine = trials.engine
    if decision.result is Result.SCHEDULED:
        return READY
    if decision.preemption is not None and decision.preemption.victims:
        return PREEMPTING
    if decision.deferral is not None or decision.result is Result.ERROR:
        return BACKOFF
    large = [
        _large_enough(engine, item)
        for item in {tuple(sorted(request.items())): request for request in requests}.values()
    ]
    if not all(rows.any() for rows in large):
        return RESOURCES
    diagnosis = decision.diagnosis
    if diagnosis is not None:
        cured = np.zeros(len(engine.cluster.nodes), dtype=np.bool_)
        cured[[row for row in diagnosis.resolvable_rows() if row < len(cured)]] = True
        if not any((rows & cured).any() for rows in large):
            return CONSTRAINTS
    return PRIORITY if trials.strongest >= priority and trials.helps(decision.ref, key) else RESOURCES


class _PriorityTrials:
    """Tries pending pods and groups with the highest priority on the cluster after the plan.

    An entity that never preempts and is not placed there is tried in another plan, in which it is first. Identical pods
    are tried once. `MOST_SEARCHED` bounds the total work. `strongest`: the highest priority of running pods.
    """

    def __init__(self, engine: Engine, manifests: Manifests, options: PlanOptions) -> None:
        self.engine, self._manifests = engine, manifests
        self._options = replace(options, observer=None, first_decision=False, account=False)
        pods = engine.cluster.pods.values()
        self.strongest = max((pod.priority for pod in pods if pod.row >= 0 or pod.nominated >= 0), default=-(1 << 31))
        self._left = MOST_SEARCHED
        self._known: dict[Hashable, bool] = {}

    def helps(self, ref: str, key: Key) -> bool:
        """Return whether the highest priority would place the entity; also False if it was not tried."""
        like = self._like(ref)
        if like not in self._known:
            if not self._affordable(1):
                return False
            helps = self.engine.helped_by_priority(ref, HIGHEST_USER_PRIORITY)
            if not helps and self._never_preempts(ref) and self._affordable(_PLAN_COST):
                helps = self._runs_if_first(key)
            self._known[like] = helps
        return self._known[like]

    def _affordable(self, times: int) -> bool:
        """Charge the cost of a number of trials; return False if it exceeds the limit."""
        cluster = self.engine.cluster
        self._left -= times * max(LEAST_SEARCHED, len(cluster.nodes) + len(cluster.pods))
        return self._left >= 0

    def _never_preempts(self, ref: str) -> bool:
        """Return whether a queued pod or group without a tree never preempts."""
        entity = self.engine.queue.get(ref)
        if entity is None:
            return False
        if isinstance(entity.group, GroupState):
            return group_never_preempts(entity.group, group_policy=True)
        return entity.group is None and any(pod.never_preempts for pod in entity.ready.values())

    def _runs_if_first(self, key: Key) -> bool:
        kind, namespace, name = key
        change = InputChange("set-priority", f"{namespace}/{kind.lower()}/{name}={HIGHEST_USER_PRIORITY}")
        document = plan(changed(self._manifests, [change]).manifests, self._options).plan
        outcomes = document.pods if kind == "Pod" else document.pod_groups
        return any((o.namespace, o.name, o.outcome) == (namespace, name, "Scheduled") for o in outcomes)

    def _like(self, ref: str) -> Hashable:
        """Return a key that is equal for pods with the same answer; the ref if the entity must be tried itself."""
        entity = self.engine.queue.get(ref)
        pod = next(iter(entity.ready.values()), None) if entity is not None and entity.group is None else None
        if pod is None or pod.claims or pod.volumes or pod.nominated >= 0:
            return ref
        labels = tuple(sorted(pod.labels.items()))
        never = pod.never_preempts or pod.priority >= HIGHEST_USER_PRIORITY
        return pod.signature.id, pod.namespace, labels, pod.owner, pod.scheduler_name, pod.class_name, never


def _large_enough(engine: Engine, requests: dict[str, int]) -> npt.NDArray[np.bool_]:
    """Return bool[rows]: nodes with sufficient allocatable amounts for a pod."""
    nodes = engine.cluster.nodes
    amounts = [(engine.cluster.resources.column(name), amount) for name, amount in requests.items()]
    nodes.fit_columns()
    result = nodes.alive[: len(nodes)].copy()
    for column, amount in amounts:
        result &= nodes.allocatable[column, : len(nodes)] >= amount
    return result


_NEVER: Final = (0.0, False)


def _created(manifests: Manifests, engine: Engine | None) -> tuple[dict[Key, tuple[float, bool]], dict[Key, str]]:
    """Return when each entity was created, whether the input states it, and the engine's refs.

    A group of a tree is tried with the whole tree.
    """
    groups = engine.cluster.groups if engine is not None else {}
    created: dict[Key, tuple[float, bool]] = {}
    refs: dict[Key, str] = {}
    for loaded in manifests.pods:
        pod = loaded.object
        if pod.spec.node_name:
            continue
        group = pod_group_name(pod)
        key = ("Pod", pod.namespace, pod.name) if group is None else ("PodGroup", pod.namespace, group)
        created[key] = min(created.get(key, (loaded.created, loaded.dated)), (loaded.created, loaded.dated))
        uid = pod.metadata.uid or f"{pod.namespace}/{pod.name}"
        if group is None:
            refs[key] = f"pod/{uid}"
        else:
            group_state = groups.get(f"{pod.namespace}/{group}")
            refs[key] = group_state.home if group_state is not None else f"group/{pod.namespace}/{group}"
    return created, refs


def _message(group: PodGroupOutcome | None, pods: list[PodOutcome]) -> str:
    if group is not None and group.message:
        return group.message
    return next((pod.message for pod in pods if pod.message), "")
