"""The scheduler does everything it does with exactly the rights of deploy/base, and uses each of them.

It runs as a process of its own with the token of its service account, the arguments of the Deployment and the
configuration of the ConfigMap. The API server writes down every right it is asked for.
"""

from __future__ import annotations

import copy
import itertools
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.features import Features
from kube_standin.kubelet import KubeletOptions
from kube_standin.rights import AccessDecision, Attributes
from kube_standin.security import write_kubeconfig
from kube_standin.server.control_plane import ServeOptions
from reprieve.live.local import kept_port
from tests.deploy import manifests
from tests.deploy.manifests import Json, path_of
from tests.deploy.scheduler_at_work import (
    COSCHEDULING,
    PODS,
    SCHEDULER,
    VOLCANO,
    allocates_devices,
    answers_what_if,
    ask,
    binds,
    binds_although_the_answer_was_lost,
    claims_volumes,
    get,
    lets_clients_with_the_right_read_its_metrics,
    makes_claims_for_extended_resources,
    ours,
    post,
    preempts,
    runs,
    says_again_and_again_what_does_not_fit,
    schedules_gangs,
    schedules_trees,
    token,
)
from tests.e2e.cluster import condition, eventually, nodes_file, pod_group, priority_class
from tests.server.live import Live, live
from tests.waiting import DEADLINE

APPLY = {"Content-Type": "application/apply-patch+yaml"}


ACCOUNT = "system:serviceaccount:reprieve-system:reprieve-scheduler"
NAMESPACE = "reprieve-system"


CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NATIVE = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
OURS = "/apis/scheduling.reprieve.dev/v1beta1/namespaces/default/podgroups"


class Right(NamedTuple):
    """One thing that may be done; `name` where only one object of the name is meant."""

    verb: str
    group: str
    resource: str
    namespace: str
    name: str


class Records:
    """What the scheduler asked for, and what of it was refused."""

    def __init__(self) -> None:
        self.used: set[Right] = set()
        self.refused: set[Right] = set()

    def watch(self, plane: Live) -> None:
        """Write down from now on."""
        authorizer = plane.server.control_plane.authorizer
        decide = authorizer.decide

        def written_down(user: User, attributes: Attributes) -> AccessDecision:
            decision = decide(user, attributes)
            if user.name == ACCOUNT and not attributes.path:
                right = Right(
                    attributes.verb, attributes.group, attributes.full_resource, attributes.namespace, attributes.name
                )
                self.used.add(right)
                if not decision.allowed:
                    self.refused.add(right)
            return decision

        authorizer.decide = written_down  # type: ignore[method-assign]
        without_watch_lists(plane)


def without_watch_lists(plane: Live) -> None:
    """As API servers before 1.32: a client that needs all objects has to list them first."""
    app = plane.server.control_plane.app
    answer = app._answer

    async def older(scope: Any, *more: Any) -> Any:
        if b"sendInitialEvents" in scope["query_string"]:
            raise StatusError(
                422, "Invalid", "sendInitialEvents is forbidden for watch unless the WatchList gate is on"
            )
        return await answer(scope, *more)

    app._answer = older  # type: ignore[method-assign, assignment]


def install(plane: Live, objects: Iterable[Json]) -> None:
    """Apply manifests as `kubectl apply` does; what only stands for the Deployment itself is left out."""
    for obj in objects:
        if obj["kind"] in ("Deployment", "PodDisruptionBudget") or obj["apiVersion"].startswith(manifests.OTHERS):
            continue
        status, answer, _ = plane.request("PATCH", f"{path_of(obj)}?fieldManager=tests", obj, headers=APPLY)
        assert status == 201, answer


@contextmanager
def running(plane: Live, directory: Path) -> Iterator[int]:
    """The scheduler with the arguments of the Deployment; the port where it serves."""
    kubeconfig, config = directory / "kubeconfig", directory / "scheduler.yaml"
    bearer = token(plane, NAMESPACE, SCHEDULER)
    write_kubeconfig(kubeconfig, server=plane.url, ca=plane.server.ca, token=bearer)
    [found] = [obj for obj in manifests.base() if obj["kind"] == "ConfigMap"]
    config.write_text(found["data"]["scheduler.yaml"])
    [deployment] = [obj for obj in manifests.base() if obj["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    log = directory / "scheduler.log"
    with kept_port(0) as port, log.open("a") as output:
        changed = {"--config": str(config), "--secure-port": str(port)}
        arguments = [
            f"{name}={changed.get(name, value)}" if value else name
            for name, _, value in (argument.partition("=") for argument in container["args"])
        ]
        process = subprocess.Popen(
            [sys.executable, "-m", "reprieve", *arguments, f"--kubeconfig={kubeconfig}"], stdout=output, stderr=output
        )
        try:
            eventually(lambda: process.poll() is None and healthy(port), "the scheduler ready")
            yield port
        finally:
            process.terminate()
            process.wait(DEADLINE)
    told = log.read_text()
    assert "forbidden" not in told.lower(), told


def healthy(port: int) -> bool:
    try:
        return ask(port, "/readyz") == 200
    except OSError:
        return False


COSCHEDULING_CRD: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
    "spec": {
        "group": "scheduling.x-k8s.io",
        "scope": "Namespaced",
        "names": {"kind": "PodGroup", "listKind": "PodGroupList", "plural": "podgroups", "singular": "podgroup"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {"type": "object", "properties": {"minMember": {"type": "integer"}}},
                            "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                        },
                    }
                },
            }
        ],
    },
}


VOLCANO_CRD = copy.deepcopy(COSCHEDULING_CRD)
"""Like that one, but for its group, and without a status subresource."""
VOLCANO_CRD["metadata"]["name"] = "podgroups.scheduling.volcano.sh"
VOLCANO_CRD["spec"]["group"] = "scheduling.volcano.sh"
VOLCANO_CRD["spec"]["versions"][0] |= {"name": "v1beta1", "subresources": {}}


def with_the_workload_api(records: Records, directory: Path) -> None:
    fleet = KubeletOptions(manifests=nodes(directory), start_seconds=0.05)
    # Without the controller that would give devices back before the scheduler does.
    with live(ServeOptions(controllers="-resourceclaim", kubelets=fleet)) as plane:
        records.watch(plane)
        install(plane, [*manifests.everything(), COSCHEDULING_CRD, VOLCANO_CRD])
        post(plane, CLASSES, priority_class("high", 1000))
        with running(plane, directory) as port:
            binds(plane)
            binds_although_the_answer_was_lost(plane)
            says_again_and_again_what_does_not_fit(plane)
            preempts(plane)
            schedules_gangs(plane, NATIVE, pod_group("gang", 2, priority="high"), {"priority": "high", "group": "gang"})
            schedules_trees(plane, "scheduling.k8s.io/v1alpha3", NATIVE, {"group": "leaf"})
            claims_volumes(plane)
            allocates_devices(plane)
            makes_claims_for_extended_resources(plane)
            lets_clients_with_the_right_read_its_metrics(plane, port)
            answers_what_if(plane, port)
            drop_in = {"metadata": {"name": "older"}, "spec": {"minMember": 2}}
            schedules_gangs(
                plane, COSCHEDULING, drop_in, {"labels": {"scheduling.x-k8s.io/pod-group": "older"}, "cpu": "10m"}
            )
            theirs = {"metadata": {"name": "batch"}, "spec": {"minMember": 2}}
            schedules_gangs(
                plane, VOLCANO, theirs, {"annotations": {"scheduling.k8s.io/group-name": "batch"}, "cpu": "10m"}
            )


def without_the_workload_api(records: Records, directory: Path) -> None:
    """A cluster before 1.36: groups are custom resources, and pods name them by a label (api.md)."""
    fleet = KubeletOptions(manifests=nodes(directory), start_seconds=0.05)
    with live(ServeOptions(controllers="*", kubelets=fleet, features=Features(generic_workload=False))) as plane:
        records.watch(plane)
        install(plane, manifests.everything())
        post(plane, CLASSES, priority_class("high", 1000))
        with running(plane, directory):
            low = [f"low-{index}" for index in range(3)]
            for name in low:
                post(plane, PODS, ours(name, node="n3", cpu="1300m"))
            eventually(lambda: runs(plane, *low))
            # The class of a custom resource is not resolved: the priority of its pods counts, and they preempt.
            label = {"scheduling.reprieve.dev/pod-group": "gang"}
            group = pod_group("gang", 2, priority="high")
            schedules_gangs(plane, OURS, group, {"priority": "high", "labels": label})
            assert len([name for name in low if get(plane, f"{PODS}/{name}")["kind"] == "Pod"]) == 1
            labels = {"scheduling.reprieve.dev/pod-group": "leaf"}
            schedules_trees(plane, "scheduling.reprieve.dev/v1beta1", OURS, {"labels": labels})
            # A member alone waits for the others.
            post(plane, OURS, {"metadata": {"name": "half"}, "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}}})
            labels = {"scheduling.reprieve.dev/pod-group": "half"}
            post(plane, PODS, ours("half-0", cpu="10m", labels=labels))

            def waits() -> bool:
                found = condition(get(plane, f"{PODS}/half-0"), "PodScheduled")
                return "waiting for minCount pods from a gang" in found.get("message", "")

            eventually(waits, "the lone member told")
            assert not runs(plane, "half-0")
            post(plane, PODS, ours("half-1", cpu="10m", labels=labels))
            eventually(lambda: runs(plane, "half-0", "half-1"))


def nodes(directory: Path) -> tuple[Json, ...]:
    import yaml

    return tuple(yaml.safe_load_all(nodes_file(directory, "n1", "n2", "n3").read_text()))


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Records:
    found = Records()
    play: Callable[[Records, Path], None]
    for play in (with_the_workload_api, without_the_workload_api):
        play(found, tmp_path_factory.mktemp(play.__name__))
    return found


def rules() -> Iterator[tuple[str, Json]]:
    """(namespace, rule) of every rule the scheduler is bound to; an empty namespace is the whole cluster."""
    for obj in manifests.base():
        if obj["kind"] in ("ClusterRole", "Role"):
            for rule in obj["rules"]:
                yield obj["metadata"].get("namespace", ""), rule


def grants_of(some: Iterable[tuple[str, Json]]) -> set[Right]:
    """Every single right that rules give."""
    return {
        Right(verb, group, resource, namespace, name)
        for namespace, rule in some
        for verb, group, resource, name in itertools.product(
            rule["verbs"], rule["apiGroups"], rule["resources"], rule.get("resourceNames", [""])
        )
    }


def covers(grant: Right, asked: Right) -> bool:
    return (
        (grant.verb, grant.group, grant.resource) == (asked.verb, asked.group, asked.resource)
        and grant.namespace in ("", asked.namespace)
        and grant.name in ("", asked.name)
    )


def test_nothing_it_asks_for_is_refused(records: Records) -> None:
    """api.md 1.2."""
    assert records.refused == set()


def test_every_right_is_used(records: Records) -> None:
    """api.md 1.2."""
    unused = {grant for grant in grants_of(rules()) if not any(covers(grant, asked) for asked in records.used)}
    assert not unused, json.dumps(sorted(unused), indent=1)


def test_without_any_one_rule_something_would_be_refused(records: Records) -> None:
    """Each rule is the only one that allows something that is done."""
    every = list(rules())
    for left_out in range(len(every)):
        rest = grants_of(every[:left_out] + every[left_out + 1 :])
        refused = [asked for asked in records.used if not any(covers(grant, asked) for grant in rest)]
        assert refused, every[left_out]


def test_no_rule_is_wider_than_it_has_to_be() -> None:
    for _, rule in rules():
        assert "*" not in (*rule["verbs"], *rule["apiGroups"], *rule["resources"]), rule
