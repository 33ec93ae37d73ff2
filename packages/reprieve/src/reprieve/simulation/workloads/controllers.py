"""Kinds for which a row does not suffice: the pods that their controllers would create now (whatif.md 2.1-2.5).

Each function takes the object and a `Maker`, and creates its pods or intermediate objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kube_rules.controllers.cronjobs import job_of_cron_job
from kube_rules.controllers.daemons import DaemonNodes, daemon_labels, daemon_pod, daemon_tolerations, node_of
from kube_rules.controllers.jobs import INDEX, free_indexes, is_managed, job_labels, job_pod, pods_wanted
from kube_rules.controllers.pods import POD_TEMPLATE_HASH, PodParts, template_hash
from kube_rules.controllers.sets import claim_of, claim_templates, replica_set_of, revision_of, set_pod
from kube_rules.job_indexes import JobIndexes
from kube_rules.json import mapping, text
from kube_rules.selectors import parse_integer
from reprieve.simulation.workloads.owners import is_active, name_of_meta, object_id_of
from reprieve.simulation.workloads.rows import value_at

if TYPE_CHECKING:
    from reprieve.simulation.workloads.batches import PodWorkload
    from reprieve.simulation.workloads.expansion_order import Maker

_ANCESTOR: Final = "trainer.kubeflow.org/trainjob-ancestor-step"
_CLASS_OF_JOB: Final = "template.spec.template.spec.priorityClassName"


def job(workload: PodWorkload, maker: Maker) -> None:
    """Expand a Job: create the missing pods of its parallelism (whatif.md 2.1)."""
    spec, status = workload.spec, workload.status
    template = maker.template(workload, "spec.template", spec.get("template"))
    if template is None:
        return
    if not is_managed(spec):
        maker.problem(workload, f'it is managed by "{text(spec["managedBy"])[:128]}", not by the Job controller')
        return
    name = workload.name
    parallelism = maker.count(workload, "spec.parallelism", spec.get("parallelism"), 1)
    completions = spec.get("completions")
    indexed = spec.get("completionMode") == "Indexed"
    if completions is not None or indexed:
        completions = maker.count(workload, "spec.completions", completions, 1)
    existing = [pod for pod in maker.there(workload) if is_active(pod)]
    finished = (text(status.get("completedIndexes")), text(status.get("failedIndexes")))
    done = JobIndexes((completions or 0) if indexed else 0, *finished)
    succeeded = len(done) if indexed else _number(status.get("succeeded"))
    wanted = pods_wanted(parallelism, completions, succeeded, len(existing))
    group = maker.gangs.of_job(workload, template, wanted, existing)
    pods = maker.pods(workload, template, "spec.template", labels=job_labels(name, workload.uid), group=group)
    indexes: Iterable[int | None] = itertools.repeat(None)
    if indexed:
        used_indexes = {parse_integer(pod.metadata.labels.get(INDEX, "")) for pod in existing}
        indexes = free_indexes(done, completions or 0, used_indexes)
    for index in itertools.islice(indexes, max(0, wanted - len(existing))):
        pods.add(job_pod(name, index))


def cron_job(workload: PodWorkload, maker: Maker) -> None:
    """Expand a CronJob: create a Job only for a requested run (whatif.md 1.8)."""
    if maker.run_asked(workload):
        template = mapping(workload.spec.get("jobTemplate"))
        meta = mapping(template.get("metadata"))
        meta = {"labels": meta.get("labels"), "annotations": mapping(meta.get("annotations"))}
        template = {"metadata": meta, "spec": template.get("spec")}
        at = datetime.fromtimestamp(maker.now // 60 * 60, UTC)
        job_manifest = {"apiVersion": "batch/v1", "kind": "Job", **job_of_cron_job(workload.name[:52], template, at)}
        maker.child(workload, job_manifest, "spec.jobTemplate")
    elif not workload.uid:
        maker.problem(
            workload, f"its schedule is not simulated: --run cronjob/{workload.name} plans one run", scheduled=True
        )


def _template(workload: PodWorkload, maker: Maker) -> Mapping[str, Any] | None:
    """Return the pod template; None without one, or for an invalid one, which is reported."""
    return maker.template(workload, "spec.template", workload.spec["template"]) if "template" in workload.spec else None


def deployment(workload: PodWorkload, maker: Maker) -> None:
    """Expand a Deployment: create its ReplicaSet, or the missing pods of the newest one (whatif.md 2.2)."""
    spec = workload.spec
    template = _template(workload, maker)
    if template is None:
        return
    wanted = maker.count(workload, "spec.replicas", spec.get("replicas"), 1)
    sets = maker.owned(workload)
    existing_count = sum(is_active(pod) for pod in maker.there(workload, below=True))
    digest = template_hash(template)
    named = maker.owners.set_of(workload.object_id)
    owner: Mapping[str, Any]
    if sets:
        owner = max(sets, key=_newest)
        meta = mapping(owner.get("metadata"))
        digest = text(mapping(meta.get("labels")).get(POD_TEMPLATE_HASH))
    elif named is not None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": named[3]}}
        digest = named[3].removeprefix(f"{workload.name}-")
    else:
        owner = replica_set_of(workload.manifest, digest, wanted)
        maker.adopt(workload, owner)
    owner_name = name_of_meta(mapping(owner.get("metadata")))
    group = maker.gangs.of(workload)
    labels = {POD_TEMPLATE_HASH: digest} if digest else {}
    pods = maker.pods(workload, template, "spec.template", labels=labels, group=group, owner=owner)
    for _ in range(wanted - existing_count):
        pods.add(PodParts(f"{owner_name}-"))


def stateful_set(workload: PodWorkload, maker: Maker) -> None:
    """Expand a StatefulSet: pods are named by ordinal and have their own claims (whatif.md 2.3)."""
    spec = workload.spec
    template = _template(workload, maker)
    if template is None:
        return
    start = maker.count(workload, "spec.ordinals.start", value_at(spec, "ordinals.start"), 0)
    wanted = maker.count(workload, "spec.replicas", spec.get("replicas"), 1)
    claims, digest = claim_templates(spec), template_hash(template)
    pods = maker.pods(workload, template, "spec.template", group=maker.gangs.of(workload))
    for ordinal in range(start, start + wanted):
        parts = set_pod(workload.manifest, ordinal, digest)
        if maker.is_taken(workload, parts.name):
            continue
        for index, template_of_claim in enumerate(claims):
            claim = claim_of(workload.manifest, template_of_claim, parts.name)
            maker.claim(workload, claim, f"spec.volumeClaimTemplates[{index}]")
        pods.add(parts)


def daemon_set(workload: PodWorkload, maker: Maker) -> None:
    """Expand a DaemonSet: create a pod pinned to each eligible node (whatif.md 2.4)."""
    template = _template(workload, maker)
    if template is None:
        return
    pod_spec = mapping(template.get("spec"))
    nodes, tolerations = DaemonNodes(pod_spec), daemon_tolerations(pod_spec)
    used_nodes = {node_of(pod.spec.node_name, pod.spec.affinity) for pod in maker.there(workload) if is_active(pod)}
    labels = daemon_labels(workload.manifest, template_hash(template))
    pods = maker.pods(workload, template, "spec.template", labels=labels, tolerations=tolerations)
    for node in sorted(maker.nodes, key=lambda node: node.name):
        taints = ((taint.key, taint.value, taint.effect) for taint in node.spec.taints)
        if node.name not in used_nodes and nodes.verdict(node.name, node.metadata.labels, taints).should_run:
            pods.add(daemon_pod(workload.name, node.name))


_POLICIES: Final = ("coscheduling", "volcano")
"""Members of `podGroupPolicy` that create a group (workloads.md 5.4)."""


def train_job(workload: PodWorkload, maker: Maker) -> None:
    """Expand a TrainJob: create the JobSet of its runtime, with its trainer's nodes and resources (whatif.md 2.5)."""
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
    job_set: dict[str, Any] = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": workload.name, "labels": mapping(spec.get("labels"))},
        "spec": {"replicatedJobs": [_trained(item, trainer, nodes) for item in jobs] if isinstance(jobs, list) else []},
    }
    policy = mapping(value_at(runtime_spec, "podGroupPolicy"))
    for member in policy.keys() - _POLICIES:
        names = " and ".join(_POLICIES)
        at = f"{kind} {name[:253]}: spec.podGroupPolicy.{str(member)[:128]}"
        maker.remark(workload, f"{at} is ignored: only {names} are known", strict=True)
    if policy.keys() & {*_POLICIES}:
        templates = [text(value_at(item, _CLASS_OF_JOB)) for item in jobs] if isinstance(jobs, list) else []
        named = [item for item in templates if item] if "volcano" in policy else []
        maker.gangs.always(workload, named[-1] if named else "")  # the last one applies, as in its plugin
        if value_at(policy, "volcano.networkTopology") is not None:
            maker.remark(workload, f"{kind} {name[:253]}: spec.podGroupPolicy.volcano.networkTopology is not read")
    maker.child(workload, job_set, f"{kind} {name[:253]}: spec.template", group=maker.gangs.of(workload))


def _trained(entry: Any, trainer: Mapping[str, Any], nodes: int) -> Any:
    """Return a replicated job of a runtime; the trainer's job gets the number of nodes and their resources."""
    template = mapping(mapping(entry).get("template"))
    step = mapping(value_at(template, "metadata.labels")).get(_ANCESTOR)
    launched = text(mapping(entry).get("name")) == "launcher"
    if step != "trainer" and text(mapping(entry).get("name")) != "node":
        return entry
    job_spec = mapping(template.get("spec"))
    pod = mapping(job_spec.get("template"))
    pod_spec = mapping(pod.get("spec"))
    containers = pod_spec.get("containers")
    resources = trainer.get("resourcesPerNode")
    if isinstance(containers, list) and isinstance(resources, Mapping):
        only_one = len(containers) == 1
        containers = [
            {**container, "resources": resources}
            if isinstance(container, Mapping) and (only_one or container.get("name") == "node")
            else container
            for container in containers
        ]
        pod = {**pod, "spec": {**pod_spec, "containers": containers}}
    side_by_side = {} if launched else {"parallelism": nodes, "completions": nodes}
    return {**entry, "template": {**template, "spec": {**job_spec, **side_by_side, "template": pod}}}


RULES: Final[Mapping[tuple[str, str], Callable[[PodWorkload, Maker], None]]] = {
    ("batch", "Job"): job,
    ("batch", "CronJob"): cron_job,
    ("apps", "Deployment"): deployment,
    ("extensions", "Deployment"): deployment,
    ("apps", "StatefulSet"): stateful_set,
    ("apps", "DaemonSet"): daemon_set,
    ("extensions", "DaemonSet"): daemon_set,
    ("trainer.kubeflow.org", "TrainJob"): train_job,
}
"""(API group, kind) -> its rule."""


# -- parts -----------------------------------------------------------------------------------------


def _newest(owner: Mapping[str, Any]) -> tuple[int, str, str]:
    meta = mapping(owner.get("metadata"))
    return revision_of(owner), str(meta.get("creationTimestamp") or ""), object_id_of(owner)[3]


def _number(value: object) -> int:
    return max(0, value) if isinstance(value, int) and not isinstance(value, bool) else 0
