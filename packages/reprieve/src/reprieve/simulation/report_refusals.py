"""Refused pods and their controllers in the report of a plan (whatif.md 14)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from kube_rules import objects
from kube_rules.group_sources import DEFAULT_SOURCES, GroupSources
from kube_rules.manifests import Manifests, PodMaker
from kube_rules.workloads import group_of
from reprieve.scheduling.arrival_order import in_order
from reprieve.simulation.controllers.admission import REFUSING, Admission, Owner, exists
from reprieve.simulation.report import Plan, PodOutcome, RefusedWorkload
from reprieve.simulation.workloads.owners import Owners

REFUSED = "Refused"
"""The outcome of a pod that admission refuses."""


def refused_pods(admission: Admission, sources: GroupSources) -> list[PodOutcome]:
    """Return an outcome for each refused pod."""
    return [_outcome(item.pod, item.message, sources) for item in admission.refused]


def _outcome(pod: objects.Pod, message: str, sources: GroupSources) -> PodOutcome:
    membership = sources.membership(pod)
    return PodOutcome(
        namespace=pod.namespace,
        name=pod.name,
        pod_group=membership.name if membership is not None else None,
        priority=pod.spec.priority or 0,
        outcome=REFUSED,
        reason="Forbidden",
        message=message,
    )


def refusal_sentences(document: Plan) -> list[str]:
    """Return a sentence for each controller with refused pods, and for each other refused pod."""
    sentences = [
        f"{item.kind} {item.namespace}/{item.name} wants {item.wanted} pod{'s' if item.wanted != 1 else ''}, "
        f"{item.exist} exist{'s' if item.exist == 1 else ''}: {item.message}"
        for item in document.refused
    ]
    wanted = {(item.namespace, name) for item in document.refused for name in item.pods}
    alone = (item for item in document.pods if item.outcome == REFUSED and (item.namespace, item.name) not in wanted)
    return [*sentences, *(f"pod {pod.namespace}/{pod.name}: {pod.message}" for pod in alone)]


def refusals_of(manifests: Manifests, now: float) -> Plan:
    """Return the refusals of admission for an expanded input at its start, `now` in seconds since the epoch.

    The document contains only refused pods and their controllers.
    """
    everything = [loaded.object for loaded in manifests.all()]
    if not any(isinstance(item, REFUSING) for item in everything):
        return Plan()
    admission = Admission()
    admission.begin([*everything, *(loaded.object for loaded in manifests.counted)], manifests.expanded, now)
    for item, _ in in_order((loaded.object, loaded.created) for loaded in manifests.all()):
        if not isinstance(item, objects.ResourceQuota | objects.LimitRange) and not exists(item):
            admission.take(item, now)
    pods = tuple(refused_pods(admission, DEFAULT_SOURCES))
    return Plan(pods=pods, refused=refused_workloads(admission, manifests.expanded))


def refused_workloads(admission: Admission, makers: Sequence[PodMaker]) -> tuple[RefusedWorkload, ...]:
    """Return the controllers with refused pods, sorted: for each pod the topmost controller in the input.

    `makers`: the objects that create pods, which determine the owners of a pod.
    """
    refused = [item for item in admission.refused if item.owner is not None]
    if not refused:
        return ()
    top_of = _TopmostOwners(makers)
    reasons: dict[Owner, str] = {}
    lacking: defaultdict[Owner, list[str]] = defaultdict(list)
    for item in refused:
        assert item.owner is not None
        top = top_of(item.owner)
        lacking[top].append(item.pod.name)
        reasons.setdefault(top, item.error.why)
    existing: Counter[Owner] = Counter()
    for owner, number in admission.pods_of.items():
        existing[top_of(owner)] += number
    return tuple(
        RefusedWorkload(
            api_version=version,
            kind=kind,
            namespace=namespace,
            name=name,
            wanted=existing[top] + len(lacking[top]),
            exist=existing[top],
            message=reasons[top],
            pods=tuple(sorted(lacking[top])),
        )
        for top in sorted(reasons, key=lambda owner: (owner[2], owner[1], owner[3]))
        for version, kind, namespace, name in (top,)
    )


class _TopmostOwners:
    """Returns the topmost owner of a controller in an input."""

    def __init__(self, makers: Iterable[PodMaker]) -> None:
        self._owners = Owners(makers)

    def __call__(self, owner: Owner) -> Owner:
        version, kind, namespace, name = owner
        key = (group_of(version), kind, namespace, name)
        top = owner
        while (above := self._owners.owner(key)) is not None:
            maker = self._owners.maker(above)
            if maker is None:
                break
            key, top = above, (maker.manifest["apiVersion"], above[1], above[2], above[3])
        return top
