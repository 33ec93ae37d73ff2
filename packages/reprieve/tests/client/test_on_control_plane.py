"""The client on the embedded control plane: informers under cuts and forgotten history, leases, versions of groups."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kube_rules.objects import Pod, PodGroup
from kube_standin.features import EVERY_RELEASE
from kube_standin.server.control_plane import ListeningServer, ServeOptions, serving
from reprieve.client.cluster_reader import read_cluster
from reprieve.client.discovery import discover
from reprieve.client.informer import Change, ChangeKind, Informer, InformerOptions
from reprieve.client.kubeconfig import connect
from reprieve.client.leader_election import LEASES, Election, LeaseOptions
from reprieve.client.lists import list_objects
from reprieve.client.rate_limits import BackoffPolicy
from reprieve.client.transport import MERGE_PATCH, ApiClient, Limits
from reprieve.client.write_queue import WriterPool
from tests import manifests
from tests.client.clock import until
from tests.client.scripted import PODS
from tests.waiting import DEADLINE

QUICK = InformerOptions(backoff=BackoffPolicy(initial=0.001, maximum=0.002), quick=0.0)


@asynccontextmanager
async def control_plane(**options: Any) -> AsyncIterator[tuple[ListeningServer, ApiClient]]:
    async with serving(ServeOptions(**options)) as server:
        limits = Limits(qps=0.0)
        async with ApiClient(connect(server.kubeconfig), limits=limits, chance=random.Random(1)) as client:
            yield server, client


def pod(name: str) -> dict[str, Any]:
    return manifests.pod(name, meta={"namespace": "default"})


def test_informers_on_a_server_that_cuts_and_forgets() -> None:
    """Watches are ended and history is compacted at random while pods come, change and go."""

    async def run() -> None:
        chance = random.Random(3)
        async with control_plane(tls=False) as (server, client):
            store = server.control_plane.store
            changes: list[Change[Pod]] = []
            informer = Informer(client, PODS, Pod, changes.append, options=QUICK, on_trouble=lambda _: None)
            task = asyncio.create_task(informer.run())
            await informer.wait_synced()
            alive: set[str] = set()
            for turn in range(150):
                name = f"p{chance.randrange(8)}"
                if name not in alive:
                    await client.request("POST", PODS.path("default"), body=pod(name))
                    alive.add(name)
                elif chance.random() < 0.4:
                    body = {"gracePeriodSeconds": 0}
                    await client.request("DELETE", PODS.path("default", name), body=body)
                    alive.remove(name)
                else:
                    change = {"metadata": {"labels": {"turn": str(turn)}}}
                    await client.request("PATCH", PODS.path("default", name), body=change, content_type=MERGE_PATCH)
                if chance.random() < 0.1:
                    store.end_subscriptions("pods")
                if chance.random() < 0.05:
                    store.end_subscriptions("pods")
                    store.compact(store.revision)
            listed = await list_objects(client, PODS, Pod)
            expected = {item.key: item for item in listed.objects}
            await until(lambda: dict(informer.objects) == expected)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        assert len(changes) > 50
        state: dict[str, Pod] = {}
        for told in changes:
            key = told.object.key
            assert (told.kind is ChangeKind.ADDED) == (key not in state)
            if key in state and told.kind is ChangeKind.UPDATED:
                assert int(state[key].metadata.resource_version) < int(told.object.metadata.resource_version)
            state[key] = told.object
            if told.kind is ChangeKind.DELETED:
                del state[key]
        assert state == expected

    asyncio.run(run())


def test_long_lists_come_in_pages_of_one_revision() -> None:
    async def run() -> None:
        async with control_plane(tls=False) as (_, client):
            async with asyncio.TaskGroup() as group:
                for number in range(25):
                    group.create_task(client.request("POST", PODS.path("default"), body=pod(f"p{number:02}")))
            listed = await list_objects(client, PODS, Pod, page=4)
            assert [item.name for item in listed.objects] == [f"p{number:02}" for number in range(25)]
            some = await list_objects(client, PODS, Pod, fields="metadata.name=p03", namespace="default")
            assert [item.name for item in some.objects] == ["p03"]

    asyncio.run(run())


def test_writes_in_order_under_a_real_lease() -> None:
    """Over TLS: a leader writes labels in order; after it stepped down its writer refuses, and the lease is free."""

    async def run() -> None:
        async with control_plane() as (_, client):
            await client.request("POST", PODS.path("default"), body=pod("p"))
            # So long that no pause of the machine ends it.
            options = LeaseOptions("kube-system", "reprieve", "me", duration=3600.0, renew_deadline=3000.0)
            election = Election(client, options)
            standing = asyncio.create_task(election.run())
            writers = WriterPool(client, election.fence)
            await election.wait_leading()

            def write(turn: int) -> Any:
                body = {"metadata": {"labels": {"turn": str(turn)}}}
                path = PODS.path("default", "p")
                check = election.fence.check
                return lambda: client.request("PATCH", path, body=body, content_type=MERGE_PATCH, guard=check)

            answers = [writers.submit("Pod default/p", write(turn)) for turn in range(20)]
            await writers.drain()
            revisions = [(await answer).read(dict)["metadata"]["resourceVersion"] for answer in answers]
            assert [int(revision) for revision in revisions] == sorted(map(int, revisions))
            [item] = (await list_objects(client, PODS, Pod)).objects
            assert item.metadata.labels == {"turn": "19"}
            path = LEASES.path("kube-system", "reprieve")
            assert (await client.get(path)).read(dict)["spec"]["holderIdentity"] == "me"
            standing.cancel()
            await asyncio.gather(standing, return_exceptions=True)
            assert writers.submit("Pod default/p", write(20)).exception() is not None
            assert (await client.get(path)).read(dict)["spec"].get("holderIdentity", "") == ""
            await writers.aclose()

    asyncio.run(run())


def crd(group: str, version: str) -> dict[str, Any]:
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"podgroups.{group}",
            # x-k8s.io is a protected domain: the API server wants a link to the approval of the definition.
            "annotations": {"api-approved.kubernetes.io": "https://github.com/kubernetes-sigs/scheduler-plugins"},
        },
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup", "listKind": "PodGroupList"},
            "versions": [{"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def test_groups_of_the_coscheduling_plugin_are_read_beside_native_ones() -> None:
    """minMember is the gang's size; of two groups of one name the native one counts, with a warning."""

    async def run() -> None:
        async with control_plane() as (_, client):
            group = "scheduling.x-k8s.io"
            definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
            await client.request("POST", definitions, body=crd(group, "v1alpha1"))
            served = await discover(client)
            loop = asyncio.get_running_loop()
            ends = loop.time() + DEADLINE
            while len(served.readable("PodGroup")) < 2:
                assert loop.time() < ends, "the custom resource is not served"
                served = await discover(client)
            native, custom = served.readable("PodGroup")
            assert (native.api_version, custom.api_version) == ("scheduling.k8s.io/v1", f"{group}/v1alpha1")
            for name in ("theirs", "both"):
                meta = {"name": name, "namespace": "default"}
                body = {
                    "apiVersion": custom.api_version,
                    "kind": "PodGroup",
                    "metadata": meta,
                    "spec": {"minMember": 5},
                }
                await client.request("POST", custom.path("default"), body=body)
            spec = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            meta = {"name": "both", "namespace": "default"}
            body = {"apiVersion": native.api_version, "kind": "PodGroup", "metadata": meta, "spec": spec}
            await client.request("POST", native.path("default"), body=body)
            reading = await read_cluster(client)
            groups = {item.name: item.min_count for item in reading.objects if isinstance(item, PodGroup)}
            assert groups == {"both": 2, "theirs": 5}
            assert any('PodGroup "default/both"' in warning for warning in reading.warnings)

    asyncio.run(run())


def test_group_is_the_same_in_every_served_version() -> None:
    async def run() -> None:
        async with control_plane(features=EVERY_RELEASE) as (_, client):
            old = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups"
            body = {
                "apiVersion": "scheduling.k8s.io/v1alpha2",
                "kind": "PodGroup",
                "metadata": {"name": "g"},
                "spec": {"schedulingPolicy": {"gang": {"minCount": 3}}, "disruptionMode": "PodGroup"},
            }
            await client.request("POST", old, body=body)
            served = await discover(client)
            read = []
            for version in ("v1", "v1beta1", "v1alpha3", "v1alpha2"):
                resource = served.find("PodGroup", [f"scheduling.k8s.io/{version}"])
                assert resource is not None
                read += (await list_objects(client, resource, PodGroup)).objects
            assert {(item.min_count, item.disrupts_all) for item in read} == {(3, True)}
            assert len(read) == 4

    asyncio.run(run())
