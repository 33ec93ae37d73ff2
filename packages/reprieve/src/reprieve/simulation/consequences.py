"""Lasting effects of a plan: Jobs that end because their pods are evicted (whatif.md 15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from kube_rules.controllers.jobs import INDEX
from kube_rules.job_failures import FAILURES, end_by_evictions
from kube_rules.manifests import Manifests
from kube_rules.objects import Pod
from kube_rules.selectors import parse_integer
from kube_rules.workloads import group_of
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.owners import Owner, object_id_of, reference_of, subject_of_maker


def ended_jobs(manifests: Manifests, plan: Plan) -> list[str]:
    """Return a sentence for each Job of an expanded input that ends because of the plan's evictions.

    Jobs outside of the input are left out, because their earlier failures are unknown.
    """
    jobs = {object_id_of(maker.manifest): maker for maker in manifests.expanded}
    jobs = {key: maker for key, maker in jobs.items() if key[:2] == ("batch", "Job")}
    if not jobs:
        return []
    pods = {(loaded.object.namespace, loaded.object.name): loaded.object for loaded in manifests.pods}
    evicted: dict[Owner, Counter[int | None]] = {}
    failures: dict[Owner, dict[int, int]] = {}
    for name in _evictions(plan):
        pod = pods.get(name)
        job = _job_of(pod) if pod is not None else None
        if pod is None or job is None or job not in jobs:
            continue
        annotations, labels = pod.metadata.annotations, pod.metadata.labels
        index = parse_integer(annotations.get(INDEX, "") or labels.get(INDEX, ""))
        evicted.setdefault(job, Counter())[index] += 1
        if index is not None:
            failures.setdefault(job, {})[index] = max(parse_integer(annotations.get(FAILURES, "")) or 0, 0)
    outcomes = (
        (jobs[key], end_by_evictions(jobs[key].manifest, evicted[key], failures.get(key, {}))) for key in evicted
    )
    return [f"{maker.origin}: {subject_of_maker(maker.manifest)}: {end}" for maker, end in outcomes if end]


def _evictions(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield namespace and name of evicted pods, and of the successors of displaced pods."""
    for preemption in plan.preemptions:
        yield from ((victim.namespace, victim.name) for victim in preemption.victims)
    yield from ((pod.namespace, pod.successor or pod.name) for pod in plan.displaced)
    yield from ((pod.namespace, pod.name) for pod in plan.lost)


def _job_of(pod: Pod) -> Owner | None:
    reference = reference_of(pod)
    if reference is None or reference.kind != "Job" or group_of(reference.api_version) != "batch":
        return None
    return "batch", "Job", pod.namespace or "default", reference.name
