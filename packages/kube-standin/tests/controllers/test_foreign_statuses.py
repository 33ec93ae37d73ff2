"""Controllers repair a status that a client wrote, and write nothing while it is right."""

from __future__ import annotations

from typing import Any

import pytest

from kube_standin.admission_chain import User
from kube_standin.registry import WriteOptions
from tests.controllers.world import Json, World, job, owner, template


def controller(version: str, kind: str, name: str, **spec: Any) -> Json:
    return {**owner(kind, **spec), "apiVersion": version, "metadata": {"name": name}}


OBJECTS = [
    (owner("ReplicaSet", replicas=2), {"replicas": 7, "readyReplicas": 5}),
    (controller("v1", "ReplicationController", "a", replicas=2, selector={"app": "a"}), {"replicas": 7}),
    (owner("DaemonSet"), {"desiredNumberScheduled": 9, "numberReady": 5}),
    (owner("Deployment", replicas=2), {"replicas": 9, "updatedReplicas": 5}),
    (owner("StatefulSet", replicas=1, serviceName="s"), {"replicas": 9, "currentRevision": "none"}),
    (job("a", parallelism=2, completions=2), {"ready": 1, "terminating": 1}),
    (
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "a"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
        },
        {"currentHealthy": 7, "desiredHealthy": 2, "disruptionsAllowed": 5, "expectedPods": 9},
    ),
    (
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": {"hard": {"pods": "5"}}},
        {"hard": {"pods": "9"}, "used": {"pods": "7"}},
    ),
    (
        {
            "apiVersion": "batch/v1",
            "kind": "CronJob",
            "metadata": {"name": "a"},
            "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": template(restartPolicy="Never")}}},
        },
        {"active": [{"kind": "Job", "name": "none", "namespace": "default"}]},
    ),
]


@pytest.mark.parametrize(("manifest", "wrong"), OBJECTS, ids=[manifest["kind"] for manifest, _ in OBJECTS])
def test_repair(manifest: Json, wrong: Json) -> None:
    world = World(None, nodes=1)
    world.create(manifest)
    world.schedule()
    version, kind = manifest["apiVersion"], manifest["kind"]
    row = world.kind(version, kind)
    right = world.get(version, kind, "a")
    options = WriteOptions(user=User("client"), manager="client")
    written = world.registry.patch_now(row, "default", "a", "merge", {"status": wrong}, options, "status").object
    world.store.flush()
    assert all(written["status"][name] == value for name, value in wrong.items())
    world.forward(1)
    repaired = world.get(version, kind, "a")
    assert repaired["status"] == right["status"]
    world.forward(5)
    assert world.get(version, kind, "a")["metadata"]["resourceVersion"] == repaired["metadata"]["resourceVersion"]
