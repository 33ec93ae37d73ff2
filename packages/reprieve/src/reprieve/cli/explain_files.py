"""`explain` for manifests, for controllers and for all pending workloads: computed, because there are no records.

For a controller it shows its gang or one of its pending pods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec.structs import replace as with_fields

from kube_rules import objects
from kube_rules.errors import FieldError
from kube_rules.group_sources import pod_group_name
from kube_rules.manifests import Manifests
from kube_rules.meta import KubernetesObject
from kube_rules.requests import resize_is_deferred
from kube_rules.versions import DOCUMENT_VERSION
from reprieve.cli.evidence import CHANGED, MANIFESTS, Evidence, ExplainTarget, OwnerEvidence, leaves_below, read_above
from reprieve.cli.outcome import CommandError, Exit, refuse
from reprieve.cli.topology import terms_of, use_of
from reprieve.cli.whatif import ExpandedInput, ask
from reprieve.decisions.outcomes import Help
from reprieve.python.pending_records import WaitingRecords
from reprieve.questions.suggestions import helped
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.plan_inputs import starts_at
from reprieve.simulation.report import Answer, ChangeMade, CompositeOutcome, Plan, PodGroupOutcome, PodOutcome
from reprieve.simulation.report_refusals import refusal_sentences, refusals_of
from reprieve.simulation.workloads.named_workloads import NotThereError, Workloads
from reprieve.simulation.workloads.owners import object_id_of
from reprieve.simulation.workloads.table import TABLE

if TYPE_CHECKING:
    from reprieve.python.inputs import InputSource, PreparedInput
    from reprieve.simulation.workloads.rows import Rows

T = TypeVar("T", bound=KubernetesObject)


class WaitingItem(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """A pending workload: the reason, as the scheduler reports it, and what would help."""

    kind: str
    namespace: str
    name: str
    priority: int
    outcome: str
    reason: str | None
    message: str | None
    parent: str | None = None
    """Its parent, a CompositePodGroup."""
    help: tuple[Help, ...] = ()
    tried: str | None = None


class WaitingDocument(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The document."""

    api_version: str = DOCUMENT_VERSION
    kind: str = "Waiting"
    changes: tuple[ChangeMade, ...] = ()
    items: tuple[WaitingItem, ...] = ()


class NoPodsError(FieldError):
    """The owner exists and has no pods."""

    def __init__(self, message: str, owner: OwnerEvidence) -> None:
        super().__init__("", message)
        self.owner = owner


def resolved(
    manifests: Manifests, kind: str, name: str, namespace: str, rows: Rows | None = None
) -> tuple[ExplainTarget, OwnerEvidence]:
    """Return what to explain of an owner: its gang, else a pending pod, else any pod. Without pods the command ends."""
    try:
        return owned(manifests, kind, name, namespace, rows)
    except NotThereError as error:
        raise CommandError(error.message, Exit.NOT_SO) from None
    except FieldError as error:
        refuse(error.message)


def owned(
    manifests: Manifests, kind: str, name: str, namespace: str, rows: Rows | None = None
) -> tuple[ExplainTarget, OwnerEvidence]:
    """Return what to explain of an owner. Raises NoPodsError if it has no pods, NotThereError if it does not exist."""
    workloads = Workloads(manifests, rows or TABLE)
    workload = workloads.named(f"{namespace}/{kind}/{name}")
    created = next(
        (
            _created(pod_maker.manifest)
            for pod_maker in manifests.pod_makers
            if object_id_of(pod_maker.manifest) == workload.owner
        ),
        None,
    )
    pods = sorted(
        (loaded.object for loaded in workloads.pods_of(workload)), key=lambda pod: (bool(pod.spec.node_name), pod.name)
    )
    waiting = sum(not pod.spec.node_name for pod in pods)
    owner = OwnerEvidence(workload.kind, namespace, workload.name, len(pods), waiting, created=created)
    if not pods:
        text = f"{workload} has no pods: it has no replicas, or its controller has not created its pods yet"
        raise NoPodsError(text, owner)
    group = pod_group_name(pods[0])
    target = (
        ExplainTarget("PodGroup", namespace, group)
        if group is not None
        else ExplainTarget("Pod", namespace, pods[0].name)
    )
    return target, owner


def evidence_of(
    gathered: PreparedInput, target: ExplainTarget, source: InputSource, *, suggest: bool = True
) -> Evidence:
    """Return everything that the input has about an object, and the decision that would be made."""
    manifests = gathered.manifests
    evidence = Evidence(target, basis=CHANGED if source.live else MANIFESTS, changes=gathered.changed.applied)
    evidence.pod = next(
        (
            item.object
            for item in manifests.pods
            if target.kind == "Pod" and _is(item.object, target.namespace, target.name)
        ),
        None,
    )
    composites = _by_name(manifests, objects.CompositePodGroup, target.namespace)
    groups = _by_name(manifests, objects.PodGroup, target.namespace)
    pods = [item.object for item in manifests.pods if item.object.namespace == target.namespace]
    if target.kind == "CompositePodGroup":
        evidence.composite = composites.get(target.name)
        leaves = leaves_below(target.name, composites, groups)
        evidence.members = [pod for pod in pods if pod_group_name(pod) in leaves]
    else:
        group = pod_group_name(evidence.pod) if evidence.pod is not None else target.name
        if group is not None:
            evidence.group = groups.get(group)
            evidence.members = [pod for pod in pods if pod_group_name(pod) == group]
    if evidence.group is not None:
        terms = terms_of(evidence.members, (evidence.group,))
        labels = {item.object.metadata.name: item.object.metadata.labels for item in manifests.nodes}
        evidence.topology = use_of(terms, evidence.members, labels)
    now = _now(gathered)
    _note_refusals(evidence, refusals_of(manifests, now))
    child = evidence.composite or evidence.group
    if child is not None:
        read_above(evidence, child.spec.parent_composite_pod_group_name, composites)
    concerned = [evidence.pod] if evidence.pod is not None else evidence.members
    resizing = evidence.pod is not None and resize_is_deferred(evidence.pod)
    waiting = resizing or any(not pod.spec.node_name for pod in concerned)
    if evidence.exists and waiting and not evidence.refused:
        whole = target
        if evidence.group is not None and not resizing:
            whole = ExplainTarget("PodGroup", target.namespace, evidence.group.name)
        expanding = ExpandedInput(gathered.changed.manifests, source.rows, source.run)
        evidence.computed = ask(
            manifests, whole.kind, whole.namespace, whole.name, now=now, suggest=suggest, expanding=expanding
        )
    return evidence


def _note_refusals(evidence: Evidence, refused: Plan) -> None:
    """Remove pods that admission refuses from the object and its members: they do not exist (whatif.md 14)."""
    target, messages = evidence.target, {(pod.namespace, pod.name): pod.message or "" for pod in refused.pods}
    if evidence.pod is not None:
        evidence.refused = messages.get((target.namespace, target.name), "")
    names = {pod.name for pod in evidence.members if (pod.namespace, pod.name) in messages}
    evidence.members = [pod for pod in evidence.members if pod.name not in names]
    if names and evidence.pod is None:
        of_members = with_fields(
            refused,
            pods=tuple(pod for pod in refused.pods if pod.namespace == target.namespace and pod.name in names),
            refused=tuple(
                item for item in refused.refused if item.namespace == target.namespace and names.intersection(item.pods)
            ),
        )
        evidence.refusals = refusal_sentences(of_members)


def without_refused(owner: OwnerEvidence, gathered: PreparedInput) -> OwnerEvidence:
    """Return the owner without the pods that admission refuses, which a sentence names (whatif.md 14)."""
    key = (owner.kind.lower(), owner.namespace, owner.name)
    for item in refusals_of(gathered.manifests, _now(gathered)).refused:
        if (item.kind.lower(), item.namespace, item.name) == key:
            (text,) = refusal_sentences(Plan(refused=(item,)))
            lacking = len(item.pods)
            return replace(owner, pods=owner.pods - lacking, waiting=owner.waiting - lacking, refused=text)
    return owner


def _created(manifest: Mapping[str, Any]) -> float | None:
    """Return the time of an object's creation, in seconds since 1970; None if it has none."""
    try:
        return datetime.fromisoformat(manifest["metadata"]["creationTimestamp"]).timestamp()
    except (KeyError, TypeError, ValueError):
        return None


def _now(gathered: PreparedInput) -> float:
    return gathered.now if gathered.now is not None else starts_at(gathered.manifests.all())


def all_waiting(
    gathered: PreparedInput,
    options: PlanOptions,
    source: InputSource,
    namespace: str | None = None,
    *,
    suggest: bool = True,
) -> tuple[Answer, WaitingRecords]:
    """Plan the whole input; return what would help each pending workload, and its last attempt.

    `namespace` limits the answer to workloads of that namespace, not the plan.
    """
    records = WaitingRecords()
    options = replace(options, observer=records, now=gathered.now, rows=source.rows)
    answer = plan(gathered.manifests, options)
    if namespace is not None:
        answer = Answer(of_namespace(answer.plan, namespace), answer.account)
    if suggest:
        answer = helped(answer, gathered.trials(options), records.hints)
    return answer, records


def of_namespace(document: Plan, namespace: str) -> Plan:
    """Return the document with only the pods and groups to schedule of one namespace."""
    return with_fields(
        document,
        pods=tuple(item for item in document.pods if item.namespace == namespace),
        pod_groups=tuple(item for item in document.pod_groups if item.namespace == namespace),
        composite_pod_groups=tuple(item for item in document.composite_pod_groups if item.namespace == namespace),
    )


def waiting_document(answer: Answer, changes: Sequence[ChangeMade] = ()) -> WaitingDocument:
    """Return all pending workloads: trees of groups, then groups, then pods, each with what would help."""
    plan = answer.plan
    trees = sorted(plan.composite_pod_groups, key=lambda tree: (tree.namespace, tree.parent is not None, tree.name))
    items = [_item("CompositePodGroup", tree) for tree in trees if tree.outcome != "Scheduled"]
    items += [_item("PodGroup", group) for group in plan.pod_groups if group.outcome != "Scheduled"]
    items += [_item("Pod", pod) for pod in plan.pods if pod.node_name is None and pod.pod_group is None]
    return WaitingDocument(changes=tuple(changes), items=tuple(items))


def _item(kind: str, outcome: PodOutcome | PodGroupOutcome | CompositeOutcome) -> WaitingItem:
    return WaitingItem(
        kind=kind,
        namespace=outcome.namespace,
        name=outcome.name,
        priority=outcome.priority,
        outcome=outcome.outcome,
        reason=outcome.reason,
        message=outcome.message,
        parent=None if isinstance(outcome, PodOutcome) else outcome.parent,
        help=() if isinstance(outcome, CompositeOutcome) else outcome.help,
        tried=None if isinstance(outcome, CompositeOutcome) else outcome.tried,
    )


def _by_name(manifests: Manifests, kind: type[T], namespace: str) -> dict[str, T]:
    return {item.object.name: item.object for item in manifests.of(kind) if item.object.namespace == namespace}


def _is(item: objects.KubernetesObject, namespace: str, name: str) -> bool:
    return (item.namespace, item.name) == (namespace, name)
