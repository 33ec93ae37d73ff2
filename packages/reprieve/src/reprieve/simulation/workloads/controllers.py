"""Kinds for which a row is not enough: what their controllers would make now (whatif.md 2.1-2.5).

Each function is given the object and what makes things (`Maker`), and makes its pods or the objects between.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from kube_rules.controllers.cronjobs import job_of_cron_job
from kube_rules.job_indexes import JobIndexes
from kube_rules.objects import Node, NodeSelector, Pod, Toleration
from kube_rules.selectors import CompiledNodeSelector, SelectorError, compile_node_selector, parse_integer
from reprieve.cluster.taints import tolerates
from reprieve.simulation.workloads.owners import HASH, is_active, key_of, mapping, name_of_meta, text, whole_number
from reprieve.simulation.workloads.rows import value_at

if TYPE_CHECKING:
    from reprieve.simulation.workloads.batches import Workload
    from reprieve.simulation.workloads.making import Maker

INDEX: Final = "batch.kubernetes.io/job-completion-index"
_REVISION: Final = "deployment.kubernetes.io/revision"
_ALPHABET: Final = "bcdfghjklmnpqrstvwxz2456789"
_OURS: Final = (None, "", "kubernetes.io/job-controller")
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_DAEMONS_TOLERATE: Final = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_ON_HOST_NETWORK: Final = ("node.kubernetes.io/network-unavailable", "NoSchedule")
_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_CLASS_OF_JOB: Final = "template.spec.template.spec.priorityClassName"
_HIGHEST_REVISION: Final = 2**63 - 1


def job(workload: Workload, maker: Maker) -> None:
    """A Job: as many as run side by side and still lack (whatif.md 2.1)."""
    spec, status = workload.spec, workload.status
    template = maker.template(workload, "spec.template", spec.get("template"))
    if template is None:
        return
    if spec.get("managedBy") not in _OURS:
        maker.problem(workload, f'it is managed by "{text(spec["managedBy"])[:128]}", not by the Job controller')
        return
    name = workload.name
    parallelism = maker.count(workload, "spec.parallelism", spec.get("parallelism"), 1)
    completions = spec.get("completions")
    indexed = spec.get("completionMode") == "Indexed"
    if completions is not None or indexed:
        completions = maker.count(workload, "spec.completions", completions, 1)
    there = [pod for pod in maker.there(workload) if is_active(pod)]
    finished = (text(status.get("completedIndexes")), text(status.get("failedIndexes")))
    done = JobIndexes((completions or 0) if indexed else 0, *finished)
    succeeded = len(done) if indexed else _number(status.get("succeeded"))
    if completions is not None:
        wanted = max(0, min(parallelism, completions - succeeded))
    else:
        wanted = len(there) if succeeded else parallelism
    labels = {
        "batch.kubernetes.io/controller-uid": workload.uid,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": workload.uid,
        "job-name": name,
    }
    labels = {key: value for key, value in labels.items() if value}
    group = maker.gangs.of_job(workload, template, wanted, there)
    pods = maker.pods(workload, template, "spec.template", labels=labels, group=group)
    if not indexed:
        for _ in range(wanted - len(there)):
            pods.add(f"{name}-")
        return
    taken = {parse_integer(pod.metadata.labels.get(INDEX, "")) for pod in there}
    free = (index for index in done.missing(completions or 0) if index not in taken)
    for index in itertools.islice(free, max(0, wanted - len(there))):
        at = {INDEX: str(index)}
        pods.add(f"{name}-{index}-", labels=at, annotations=at, hostname=f"{name}-{index}")


def cron_job(workload: Workload, maker: Maker) -> None:
    """A CronJob: nothing by itself; what it runs is made where it was asked for (whatif.md 1.8)."""
    if maker.run_asked(workload):
        template = mapping(workload.spec.get("jobTemplate"))
        meta = mapping(template.get("metadata"))
        meta = {"labels": meta.get("labels"), "annotations": mapping(meta.get("annotations"))}
        template = {"metadata": meta, "spec": template.get("spec")}
        at = datetime.fromtimestamp(maker.now // 60 * 60, UTC)
        made = {"apiVersion": "batch/v1", "kind": "Job", **job_of_cron_job(workload.name[:52], template, at)}
        maker.child(workload, made, "spec.jobTemplate")
    elif not workload.uid:
        maker.problem(
            workload, f"it runs by the clock: --run cronjob/{workload.name} plans a run of it", scheduled=True
        )


def _template(workload: Workload, maker: Maker) -> Mapping[str, Any] | None:
    """The pod template; None where there is none, or none that makes sense, which is reported."""
    return maker.template(workload, "spec.template", workload.spec["template"]) if "template" in workload.spec else None


def deployment(workload: Workload, maker: Maker) -> None:
    """A Deployment: one ReplicaSet, or what is missing of the newest of those it has (whatif.md 2.2)."""
    spec = workload.spec
    template = _template(workload, maker)
    if template is None:
        return
    wanted = maker.count(workload, "spec.replicas", spec.get("replicas"), 1)
    sets = maker.owned(workload)
    there = sum(is_active(pod) for pod in maker.there(workload, below=True))
    digest, made_of = template_hash(template), f"{workload.name}-{template_hash(template)}"
    named = maker.owners.set_of(workload.key)
    owner: Mapping[str, Any]
    if sets:
        owner = max(sets, key=_newest)
        meta = mapping(owner.get("metadata"))
        digest = text(mapping(meta.get("labels")).get(HASH))
    elif named is not None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": named[3]}}
        digest = named[3].removeprefix(f"{workload.name}-")
    else:
        meta = mapping(template.get("metadata"))
        labels = {**mapping(meta.get("labels")), HASH: digest}
        selector = mapping(spec.get("selector"))
        selector = {**selector, "matchLabels": {**mapping(selector.get("matchLabels")), HASH: digest}}
        owner = {
            "apiVersion": "apps/v1",
            "kind": "ReplicaSet",
            "metadata": {"name": made_of, "labels": labels},
            "spec": {"replicas": wanted, "selector": selector, "template": template},
        }
        maker.adopt(workload, owner)
    owner_name = name_of_meta(mapping(owner.get("metadata")))
    group = maker.gangs.of(workload)
    labels = {HASH: digest} if digest else {}
    pods = maker.pods(workload, template, "spec.template", labels=labels, group=group, owner=owner)
    for _ in range(wanted - there):
        pods.add(f"{owner_name}-")


def stateful_set(workload: Workload, maker: Maker) -> None:
    """A StatefulSet: names by ordinal, with claims of their own (whatif.md 2.3)."""
    spec, name = workload.spec, workload.name
    template = _template(workload, maker)
    if template is None:
        return
    start = maker.count(workload, "spec.ordinals.start", value_at(spec, "ordinals.start"), 0)
    wanted = maker.count(workload, "spec.replicas", spec.get("replicas"), 1)
    claims = spec.get("volumeClaimTemplates")
    claims = [claim for claim in claims if isinstance(claim, Mapping)] if isinstance(claims, list) else []
    digest = template_hash(template)
    group = maker.gangs.of(workload)
    pods = maker.pods(workload, template, "spec.template", labels={"controller-revision-hash": digest}, group=group)
    for ordinal in range(start, start + wanted):
        pod = f"{name}-{ordinal}"
        if maker.is_taken(workload, pod):
            continue
        volumes = {}
        for index, claim in enumerate(claims):
            claim_name = text(mapping(claim.get("metadata")).get("name"))
            volumes[claim_name] = f"{claim_name}-{pod}"
            maker.claim(workload, claim, f"{claim_name}-{pod}", f"spec.volumeClaimTemplates[{index}]")
        labels = {"apps.kubernetes.io/pod-index": str(ordinal), "statefulset.kubernetes.io/pod-name": pod}
        pods.add(pod, labels=labels, hostname=pod, claims=volumes)


def daemon_set(workload: Workload, maker: Maker) -> None:
    """A DaemonSet: a pod for each node it may run on, pinned to it (whatif.md 2.4)."""
    template = _template(workload, maker)
    if template is None:
        return
    pod_spec = mapping(template.get("spec"))
    tolerations = _with_daemons_own(pod_spec)
    fits = _fitting(pod_spec, tolerations)
    taken = {_node_of(pod) for pod in maker.there(workload) if is_active(pod)}
    labels = {"controller-revision-hash": template_hash(template), "pod-template-generation": "1"}
    pods = maker.pods(workload, template, "spec.template", labels=labels, tolerations=tolerations)
    for node in sorted(maker.nodes, key=lambda node: node.name):
        if node.name not in taken and fits(node):
            pods.add(f"{workload.name}-", node=node.name)


def train_job(workload: Workload, maker: Maker) -> None:
    """A TrainJob: the JobSet of its runtime, with its trainer's nodes and resources (whatif.md 2.5)."""
    spec = workload.spec
    reference = mapping(spec.get("runtimeRef"))
    kind, name = text(reference.get("kind")) or "ClusterTrainingRuntime", text(reference.get("name"))
    runtime = maker.runtime(workload)
    if runtime is None:
        maker.problem(workload, f'its {kind} "{name[:253]}" is not in the input')
        return
    trainer, runtime_spec = mapping(spec.get("trainer")), mapping(runtime.get("spec"))
    jobs = value_at(runtime_spec, "template.spec.replicatedJobs")
    nodes = trainer.get("numNodes")
    nodes = value_at(runtime_spec, "mlPolicy.numNodes") if nodes is None else nodes
    nodes = maker.count(workload, "spec.trainer.numNodes", nodes, 1)
    made: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": workload.name, "labels": mapping(spec.get("labels"))},
        "spec": {"replicatedJobs": [_trained(each, trainer, nodes) for each in jobs] if isinstance(jobs, list) else []},
    }
    policy = mapping(value_at(runtime_spec, "podGroupPolicy"))
    if policy:
        templates = [text(value_at(each, _CLASS_OF_JOB)) for each in jobs] if isinstance(jobs, list) else []
        named = [each for each in templates if each] if "volcano" in policy else []
        maker.gangs.always(workload, named[-1] if named else "")  # the last counts, as its plugin has it
        if value_at(policy, "volcano.networkTopology") is not None:
            maker.remark(workload, f"{kind} {name[:253]}: spec.podGroupPolicy.volcano.networkTopology is not read")
    maker.child(workload, made, f"{kind} {name[:253]}: spec.template", group=maker.gangs.of(workload))


def _trained(entry: Any, trainer: Mapping[str, Any], nodes: int) -> Any:
    """A replicated job of a runtime: the one that trains has as many pods as there are nodes, and what they ask for."""
    template = mapping(mapping(entry).get("template"))
    step = mapping(value_at(template, "metadata.labels")).get(_ANCESTOR)
    launched = text(mapping(entry).get("name")) == "launcher"
    if step != "trainer" and text(mapping(entry).get("name")) != "node":
        return entry
    job_spec = mapping(template.get("spec"))
    pod = mapping(job_spec.get("template"))
    pod_spec = mapping(pod.get("spec"))
    containers = pod_spec.get("containers")
    asked = trainer.get("resourcesPerNode")
    if isinstance(containers, list) and isinstance(asked, Mapping):
        one = len(containers) == 1
        containers = [
            {**each, "resources": asked} if isinstance(each, Mapping) and (one or each.get("name") == "node") else each
            for each in containers
        ]
        pod = {**pod, "spec": {**pod_spec, "containers": containers}}
    side_by_side = {} if launched else {"parallelism": nodes, "completions": nodes}
    return {**entry, "template": {**template, "spec": {**job_spec, **side_by_side, "template": pod}}}


RULES: Final[Mapping[tuple[str, str], Callable[[Workload, Maker], None]]] = {
    ("batch", "Job"): job,
    ("batch", "CronJob"): cron_job,
    ("apps", "Deployment"): deployment,
    ("extensions", "Deployment"): deployment,
    ("apps", "StatefulSet"): stateful_set,
    ("apps", "DaemonSet"): daemon_set,
    ("extensions", "DaemonSet"): daemon_set,
    ("trainer.kubeflow.org", "TrainJob"): train_job,
}
"""(API group, kind) -> its rules."""


# -- parts -----------------------------------------------------------------------------------------


def template_hash(template: Mapping[str, Any]) -> str:
    """Ten characters that stand for a template."""
    digest = hashlib.sha256(msgspec.json.encode(template, order="sorted")).digest()[:10]
    return "".join(_ALPHABET[byte % len(_ALPHABET)] for byte in digest)


def _newest(owner: Mapping[str, Any]) -> tuple[int, str, str]:
    meta = mapping(owner.get("metadata"))
    revision = text(mapping(meta.get("annotations")).get(_REVISION))
    return whole_number(revision, _HIGHEST_REVISION) or 0, str(meta.get("creationTimestamp") or ""), key_of(owner)[3]


def _number(value: object) -> int:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0


def _with_daemons_own(spec: Mapping[str, Any]) -> list[Any]:
    """The template's tolerations and those that the controller adds."""
    present = spec.get("tolerations")
    present = list(present) if isinstance(present, list) else []
    for key, effect in (*_DAEMONS_TOLERATE, *((_ON_HOST_NETWORK,) if spec.get("hostNetwork") is True else ())):
        wanted = {"key": key, "operator": "Exists", "effect": effect}
        if wanted not in present:
            present.append(wanted)
    return present


def _fitting(spec: Mapping[str, Any], tolerations: Sequence[Any]) -> Callable[[Node], bool]:
    """Whether pods of a template should run on a node; what cannot be read keeps from nothing (the pod is refused)."""
    labels = mapping(spec.get("nodeSelector"))
    required = value_at(spec, f"affinity.nodeAffinity.{_REQUIRED}")
    selector: CompiledNodeSelector | None = None
    tolerated: Iterable[Toleration] = ()
    try:
        tolerated = msgspec.convert(list(tolerations), tuple[Toleration, ...])
        selector = compile_node_selector(msgspec.convert(required, NodeSelector)) if required is not None else None
    except (msgspec.ValidationError, SelectorError):
        pass
    name = text(spec.get("nodeName"))

    def fits(node: Node) -> bool:
        has = node.metadata.labels
        if (name and name != node.name) or any(has.get(key) != value for key, value in labels.items()):
            return False
        if selector is not None and not selector.matches(has, node.name):
            return False
        return not any(
            taint.effect in ("NoSchedule", "NoExecute")
            and not any(tolerates(one, (taint.key, taint.value, taint.effect)) for one in tolerated)
            for taint in node.spec.taints
        )

    return fits


def _node_of(pod: Pod) -> str:
    """The node a daemon's pod runs on or is pinned to."""
    if pod.spec.node_name:
        return pod.spec.node_name
    affinity = pod.spec.affinity
    required = (
        affinity.node_affinity.required_during_scheduling_ignored_during_execution
        if affinity is not None and affinity.node_affinity is not None
        else None
    )
    for term in required.node_selector_terms if required is not None else ():
        for field in term.match_fields:
            if field.key == "metadata.name" and field.values:
                return field.values[0]
    return ""
