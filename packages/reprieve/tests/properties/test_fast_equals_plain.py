"""scheduling.md 4, preemption.md 9: short cuts never change an answer, with every rule in play at once.

Small clusters, each from its number: spread, affinity, images, volumes, devices, taints, ports, gangs with and without
topology, budgets, priorities; as many again in which no two pods are alike, neither in what they ask for nor in what
they say of others. Each is planned with everything shared and rows judged together however few they are, with nothing
shared between pods (OpportunisticBatching off), and by the plain preemption that asks every filter; the three documents
are the same.

There are 50 of each. `REPRIEVE_CLUSTERS=1000` makes it a thousand of each (90 s of processor time).
"""

from __future__ import annotations

import os
import random
from typing import Any
from unittest import mock

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_rules.manifests import Manifests
from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import read
from reprieve.preemption import pod_preemption
from reprieve.preemption.default_preemption import DefaultPreemption
from reprieve.preemption.options import PreemptionOptions
from reprieve.simulation.plan import PlanOptions, plan
from tests.building import profile_with
from tests.drawing import drew, examples

Json = dict[str, Any]
BATCH = 25
SEEDS = range(max(BATCH, int(os.environ.get("REPRIEVE_CLUSTERS", "50")) // BATCH * BATCH))
ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "example.com/rack"
APPS = ("web", "db")


class Maker:
    """A cluster made by chance from a number."""

    def __init__(self, seed: int, *, alike: bool) -> None:
        self.chance = random.Random(seed)
        self.unlike = None if alike else random.Random(seed)
        self.documents: list[Json] = []
        self.nodes: list[str] = []

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def add(
        self, version: str, kind: str, name: str, *, labels: Json | None = None, cluster: bool = False, **body: Any
    ) -> None:
        metadata: Json = {"name": name, "labels": labels or {}}
        if not cluster:
            metadata["namespace"] = "default"
        self.documents.append({"apiVersion": version, "kind": kind, "metadata": metadata, **body})

    def make(self) -> Manifests:
        chance = self.chance
        for index in range(chance.randint(2, 4)):
            self.node(index)
        self.storage()
        self.devices()
        for index in range(chance.randint(0, 2)):
            self.group(f"old-{index}", running=True)
        for index in range(chance.randint(1, 6)):
            self.pod(f"run-{index}", running=True)
        if self.maybe(0.4):
            spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": chance.choice(APPS)}}}
            status = {
                "disruptionsAllowed": chance.randint(0, 1),
                "currentHealthy": 1,
                "desiredHealthy": 1,
                "expectedPods": 1,
            }
            self.add("policy/v1", "PodDisruptionBudget", "budget", spec=spec, status=status)
        for index in range(chance.randint(1, 3)):
            if self.maybe(0.5):
                self.group(f"new-{index}", running=False)
            else:
                twins = chance.randint(1, 3)
                look = chance.getstate()
                for twin in range(twins):  # identical but for the name, so that there is something to share
                    chance.setstate(look)
                    self.pod(f"new-{index}-{twin}", running=False)
        return read([(f"<{i}>", document) for i, document in enumerate(self.documents)])

    def node(self, index: int) -> None:
        chance, name = self.chance, f"n{index}"
        self.nodes.append(name)
        labels = {HOST: name, ZONE: f"z{index % 2}", RACK: f"r{chance.randint(0, 1)}"}
        if self.maybe(0.1):
            del labels[ZONE]
        spec: Json = {}
        if self.maybe(0.2):
            spec["taints"] = [{"key": "k", "value": "v", "effect": chance.choice(["NoSchedule", "PreferNoSchedule"])}]
        if self.maybe(0.05):
            spec["unschedulable"] = True
        amounts = {
            "cpu": chance.randint(2, 6),
            "memory": "16Gi",
            "pods": chance.choice([3, 110]),
            "nvidia.com/gpu": chance.randint(0, 2),
        }
        images = [{"names": ["app:1"], "sizeBytes": 500_000_000}] if self.maybe(0.3) else []
        self.add(
            "v1",
            "Node",
            name,
            labels=labels,
            cluster=True,
            spec=spec,
            status={"allocatable": amounts, "images": images},
        )

    def storage(self) -> None:
        self.add(
            "storage.k8s.io/v1",
            "StorageClass",
            "local",
            cluster=True,
            provisioner="kubernetes.io/no-provisioner",
            volumeBindingMode="WaitForFirstConsumer",
        )
        for index in range(self.chance.randint(0, 2)):
            term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [self.chance.choice(self.nodes)]}]}
            spec = {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "local": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
            }
            self.add("v1", "PersistentVolume", f"pv-{index}", cluster=True, spec=spec, status={"phase": "Available"})

    def devices(self) -> None:
        expression = {"cel": {"expression": 'device.driver == "d.example.com"'}}
        self.add("resource.k8s.io/v1", "DeviceClass", "dev", cluster=True, spec={"selectors": [expression]})
        for name in self.nodes:
            if self.maybe(0.4):
                listed = [{"name": f"d{i}"} for i in range(self.chance.randint(1, 2))]
                pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
                spec = {"driver": "d.example.com", "nodeName": name, "pool": pool, "devices": listed}
                self.add("resource.k8s.io/v1", "ResourceSlice", f"s-{name}", cluster=True, spec=spec)
        requests = {"requests": [{"name": "r", "exactly": {"deviceClassName": "dev"}}]}
        self.add("resource.k8s.io/v1", "ResourceClaimTemplate", "t", spec={"spec": {"devices": requests}})

    def group(self, name: str, *, running: bool) -> None:
        chance = self.chance
        size = chance.randint(1, 3)
        policy: Json = {"gang": {"minCount": chance.randint(1, size)}} if self.maybe(0.8) else {"basic": {}}
        priority = chance.randint(0, 2) if running else chance.randint(1, 4)
        spec: Json = {"schedulingPolicy": policy, "priority": priority}
        spec["disruptionMode"] = {"all": {}} if "gang" in policy and self.maybe(0.6) else {"single": {}}
        if not running and self.maybe(0.4):
            spec["schedulingConstraints"] = {"topology": [{"key": chance.choice([ZONE, RACK])}]}
        self.add("scheduling.k8s.io/v1beta1", "PodGroup", name, spec=spec)
        look = chance.getstate()
        for member in range(size):
            if self.maybe(0.8):
                chance.setstate(look)
            self.pod(f"{name}-{member}", running=running, group=name, priority=priority)

    def pod(self, name: str, *, running: bool, group: str = "", priority: int | None = None) -> None:
        chance = self.chance
        app = chance.choice(APPS)
        requests: Json = {"cpu": chance.choice(["500m", 1, 2, 3])}
        if self.maybe(0.2):
            requests["nvidia.com/gpu"] = 1
        labels, image = {"app": app}, "app:1"
        if self.unlike is not None:
            requests["memory"] = f"{len(self.documents) + 100 * self.unlike.randint(1, 30)}Mi"
            labels["pod"], image = name, self.unlike.choice(["app:1", f"app:{name}"])
        container: Json = {"name": "c", "image": image, "resources": {"requests": requests}}
        if self.maybe(0.15):
            container["ports"] = [{"containerPort": 80, "hostPort": 80}]
        spec: Json = {
            "containers": [container],
            "priority": priority if priority is not None else chance.randint(0, 2 if running else 5),
        }
        if group:
            spec["schedulingGroup"] = {"podGroupName": group}
        if self.maybe(0.3):
            spec["tolerations"] = [{"key": "k", "operator": "Exists"}]
        selector = {"matchLabels": {"app": app}}
        if self.maybe(0.2):
            spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": chance.randint(1, 2),
                    "topologyKey": chance.choice([ZONE, HOST]),
                    "whenUnsatisfiable": chance.choice(["DoNotSchedule", "ScheduleAnyway"]),
                    "labelSelector": selector,
                }
            ]
        affinity: Json = {}
        term = {
            "labelSelector": {"matchLabels": {"app": chance.choice(APPS)}},
            "topologyKey": chance.choice([ZONE, HOST]),
        }
        if self.maybe(0.1):
            affinity["podAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        elif self.maybe(0.15):
            affinity["podAntiAffinity"] = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        elif self.maybe(0.15):
            preferred = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 10, "podAffinityTerm": term}]}
            affinity[chance.choice(["podAffinity", "podAntiAffinity"])] = preferred
        if self.maybe(0.15):
            wanted = {"matchExpressions": [{"key": RACK, "operator": "In", "values": ["r0"]}]}
            affinity["nodeAffinity"] = {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": wanted}]
            }
        if self.unlike is not None:
            self.speak_of_others(name, affinity, spec, self.unlike)
        if affinity:
            spec["affinity"] = affinity
        if running:
            spec["nodeName"] = chance.choice(self.nodes)
        else:
            if self.maybe(0.15):
                claim = f"claim-{name}"
                wants = {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": "local",
                    "resources": {"requests": {"storage": "1Gi"}},
                }
                self.add("v1", "PersistentVolumeClaim", claim, spec=wants, status={"phase": "Pending"})
                spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]
            if self.maybe(0.2):
                spec["resourceClaims"] = [{"name": "dev", "resourceClaimTemplateName": "t"}]
                container["resources"]["claims"] = [{"name": "dev"}]
        self.add("v1", "Pod", name, labels=labels, spec=spec, status={"phase": "Running" if running else "Pending"})

    @staticmethod
    def speak_of_others(name: str, affinity: Json, spec: Json, draw: random.Random) -> None:
        """Terms and tolerations that no other pod has, beside what it shares with some."""
        alike = {"labelSelector": {"matchLabels": {"pod": name}}, "topologyKey": draw.choice([ZONE, HOST])}
        if draw.random() < 0.3:
            terms = affinity.setdefault("podAntiAffinity", {})
            terms.setdefault("requiredDuringSchedulingIgnoredDuringExecution", []).append(alike)
        if draw.random() < 0.3:
            term = {
                "labelSelector": {"matchExpressions": [{"key": "pod", "operator": "NotIn", "values": [name]}]},
                "topologyKey": draw.choice([ZONE, HOST]),
            }
            terms = affinity.setdefault(draw.choice(["podAffinity", "podAntiAffinity"]), {})
            listed = terms.setdefault("preferredDuringSchedulingIgnoredDuringExecution", [])
            listed.append({"weight": draw.randint(1, 100), "podAffinityTerm": term})
        if draw.random() < 0.3:
            spec.setdefault("tolerations", []).append({"key": name, "operator": "Exists"})


def planned(manifests: Manifests, options: PlanOptions) -> tuple[Any, int]:
    """The document but for times, and how many preemptions it has."""
    found = plan(manifests, options).plan
    document = msgspec.to_builtins(found)
    del document["stats"]
    for preemption in document["preemptions"]:  # of several pods that would not fit, each way names the one it meets
        for victim in preemption["victims"]:
            del victim["why"]
    return document, len(found.preemptions)


def agreed(seed: int, *, alike: bool) -> tuple[list[str], int]:
    """The outcomes of all pods and how many preemptions there were, the same by all three ways."""
    maker = Maker(seed, alike=alike)
    manifests = maker.make()
    drew(maker.documents)
    with mock.patch.object(pod_preemption, "_FEW", 0):
        fast, preemptions = planned(manifests, PlanOptions())
    alone, _ = planned(manifests, PlanOptions(gates=FeatureGates(opportunistic_batching=False)))
    assert alone == fast, f"cluster {seed}: without sharing between pods"
    slow = profile_with(DefaultPreemption(PreemptionOptions(plain=True, share=False)))
    plain, _ = planned(manifests, PlanOptions(share=False, profiles=(slow,), any_scheduler=True))
    assert plain == fast, f"cluster {seed}: the plain path"
    return [pod["outcome"] for pod in fast["pods"]], preemptions


@pytest.mark.parametrize("unlike", [False, True], ids=["like", "unlike"])
@pytest.mark.parametrize("first", SEEDS[::BATCH])
def test_short_cuts_change_nothing(first: int, unlike: bool) -> None:
    """The same document, by three ways; among each batch some pods are placed, some wait, some preempt."""
    bound = waiting = preempting = 0
    for seed in SEEDS[first : first + BATCH]:
        outcomes, preemptions = agreed(seed, alike=not unlike)
        bound += outcomes.count("Scheduled")
        waiting += len(outcomes) - outcomes.count("Scheduled")
        preempting += preemptions
    assert min(bound, waiting, preempting) >= 3, (bound, waiting, preempting)


@examples(10)
@given(st.integers(0, 2**32), st.booleans())
def test_short_cuts_change_nothing_elsewhere(seed: int, alike: bool) -> None:
    """The same for clusters that are not counted up."""
    agreed(seed, alike=alike)
