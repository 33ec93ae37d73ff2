"""Snapshots: a plan of one is a plan of the cluster; nothing leaves that a scheduler does not read (interfaces.md)."""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from kube_rules import objects as o
from kube_rules.admission import PREEMPTION_PRIORITY, PREEMPTION_PRIORITY_CLASS
from kube_rules.errors import Origin
from kube_rules.meta import KubernetesObject
from reprieve.client.cluster_reader import OPTIONAL, REQUIRED, ClusterReading, manifests_of
from reprieve.client.decoding import stored
from reprieve.client.discovery import Resource
from reprieve.client.snapshot import snapshot, text_of
from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import read
from reprieve.scheduling.profiles import profiles_of
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Answer
from tests.building import annotated
from tests.client.manifests import NODE, OTHERS, POD, SECRET
from tests.random_clusters import RandomCluster, random_clusters

Json = dict[str, Any]


def live_objects(cluster: RandomCluster) -> list[KubernetesObject]:
    """The cluster as a server would have it: every object with a UID, a revision and a creation time."""
    made = []
    for number, (item, created) in enumerate(cluster.everything):
        meta = replace(
            item.metadata,
            uid=item.metadata.uid or f"server-uid-{number:04}",
            resource_version=str(number + 1),
            creation_timestamp=datetime.fromtimestamp(created, UTC),
            annotations={"owner": "SECRET"},
        )
        made.append(replace(item, metadata=meta))
    return made


def plan_of(objects: Sequence[KubernetesObject]) -> Json:
    return _comparable(plan(manifests_of(ClusterReading(list(objects)), "live")))


def plan_of_text(text: str, name: str) -> Json:
    return _comparable(plan(read([(name, text)])))


def _comparable(answer: Answer) -> Json:
    document: Json = msgspec.json.decode(msgspec.json.encode(answer.plan))
    del document["stats"]["seconds"]
    return document


def renamed(document: Json, originals: Sequence[KubernetesObject], manifests: Sequence[Json]) -> Json:
    """A plan with the pseudonyms its objects got."""
    names: dict[str, str] = {}
    for item, manifest in zip(originals, manifests, strict=True):
        meta = manifest["metadata"]
        names[item.name] = meta["name"]
        if item.namespace:
            names[item.namespace] = meta["namespace"]
            names[item.key] = f"{meta['namespace']}/{meta['name']}"
        if isinstance(item, o.Pod) and item.spec.scheduling_group is not None:  # the group itself may be missing
            names[item.spec.scheduling_group.pod_group_name or ""] = manifest["spec"]["schedulingGroup"]["podGroupName"]

    def change(value: Any) -> Any:
        if isinstance(value, Mapping):
            return {names.get(key, key): change(found) for key, found in value.items()}
        if isinstance(value, list | tuple):
            return [change(found) for found in value]
        if not isinstance(value, str):
            return value
        return re.sub(r"[\w./-]*\w", lambda found: names.get(found[0], found[0]), value)  # messages name things too

    changed: Json = change(document)
    return changed


@settings(max_examples=60, deadline=None)
@given(cluster=random_clusters(), form=st.sampled_from(["json", "yaml"]))
def test_planning_the_snapshot_is_planning_the_cluster(cluster: RandomCluster, form: str) -> None:
    objects = live_objects(cluster)
    manifests, notes = snapshot(objects)
    assert notes == []
    assert plan_of_text(text_of(manifests, json=form == "json"), f"x.{form}") == plan_of(objects)


@settings(max_examples=60, deadline=None)
@given(cluster=random_clusters())
def test_anonymised_snapshot_decides_the_same_by_other_names(cluster: RandomCluster) -> None:
    """Pseudonyms sort as the names do, so that even ties are broken alike."""
    objects = live_objects(cluster)
    manifests, _ = snapshot(objects, anonymize=True)
    text = text_of(manifests, json=True)
    assert snapshot(objects, anonymize=True)[0] == manifests
    assert plan_of_text(text, "x.json") == renamed(plan_of(objects), objects, manifests)


# --- everything a plan depends on ---------------------------------------------------------------------------


def rich_objects(cluster: RandomCluster, chance: random.Random) -> list[KubernetesObject]:
    """The cluster with priority classes, storage, and every annotation and field that decides something."""
    classes = [
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"class-{value}"},
            "value": value,
            "preemptionPolicy": chance.choice(["Never", "PreemptLowerPriority"]),
        }
        for value in (-1, 1, 2, 5)
    ]
    storage: list[Json] = [
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {
                "name": name,
                "annotations": {"storageclass.kubernetes.io/is-default-class": chance.choice(["true", "false"])},
            },
            "provisioner": chance.choice(["kubernetes.io/no-provisioner", "csi.example.com"]),
            "volumeBindingMode": chance.choice(["WaitForFirstConsumer", "Immediate"]),
        }
        for name in ("fast", "slow")
    ]
    for number in range(3):
        annotations = {"other": "x"}
        if chance.random() < 0.4:
            annotations["volume.beta.kubernetes.io/storage-class"] = chance.choice(["fast", "slow", ""])
        volume: Json = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": f"pv{number}", "annotations": annotations},
            "spec": {
                "capacity": {"storage": "10Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": chance.choice(["fast", "slow"]),
            },
        }
        claim: Json = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": f"claim{number}", "namespace": "default", "annotations": {}},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            "status": {"phase": "Pending"},
        }
        noted = claim["metadata"]["annotations"]
        if chance.random() < 0.6:
            claim["spec"]["storageClassName"] = chance.choice(["fast", "slow"])
        if chance.random() < 0.3:
            noted["volume.beta.kubernetes.io/storage-class"] = chance.choice(["fast", "slow"])
        if chance.random() < 0.3:
            noted["volume.kubernetes.io/selected-node"] = chance.choice(["n0", "n1", "nowhere"])
        if chance.random() < 0.3:
            claim["spec"]["volumeName"] = f"pv{number}"
            volume["spec"]["claimRef"] = {"namespace": "default", "name": f"claim{number}"}
            volume["metadata"]["annotations"]["pv.kubernetes.io/bound-by-controller"] = "yes"
            if chance.random() < 0.7:
                noted["pv.kubernetes.io/bind-completed"] = "yes"
        storage += [volume, claim]
    for node in cluster.nodes:
        plugins = chance.choice(["", "kubernetes.io/aws-ebs", "kubernetes.io/aws-ebs,kubernetes.io/gce-pd"])
        storage.append(
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "CSINode",
                "metadata": {
                    "name": node[0].name,
                    "annotations": {"storage.alpha.kubernetes.io/migrated-plugins": plugins},
                },
                "spec": {
                    "drivers": [{"name": "ebs.csi.aws.com", "nodeID": "x", "allocatable": {"count": 1}}],
                },
            }
        )
    first = datetime.fromtimestamp(min(created for _, created in cluster.everything), UTC)
    made = [
        replace(item, metadata=replace(item.metadata, creation_timestamp=first)) for item in typed(*classes, *storage)
    ]
    return [*made, *(_rich(item, chance) for item in live_objects(cluster))]


def _rich(item: KubernetesObject, chance: random.Random) -> KubernetesObject:
    annotations = dict(item.metadata.annotations)
    if isinstance(item, o.PodGroup):
        if chance.random() < 0.6:
            annotations[PREEMPTION_PRIORITY_CLASS] = chance.choice(["class--1", "class-2", "class-5", "gone"])
        if chance.random() < 0.2:
            annotations[PREEMPTION_PRIORITY] = chance.choice(["2", "9", "x"])
        changed = replace(item, metadata=replace(item.metadata, annotations=annotations))
        if chance.random() < 0.2:
            return replace(changed, spec=replace(changed.spec, preemption_policy=o.NO_POLICY_FIELD))
        return changed
    if isinstance(item, o.Pod) and chance.random() < 0.3:
        volume = chance.choice(
            [
                {"name": "v", "persistentVolumeClaim": {"claimName": f"claim{chance.randrange(3)}"}},
                {"name": "v", "awsElasticBlockStore": {"volumeID": f"disk{chance.randrange(2)}"}},
            ]
        )
        return replace(item, spec=replace(item.spec, volumes=(msgspec.convert(volume, o.Volume),)))
    return item


_OPTIONS: Json = {
    "as it is": "",
    "all below a priority": "victimSearch: PriorityFloor",
    "fewest victims": "placement: MinimizeVictims",
}


def _options(name: str, first_decision: bool, asynchronous: bool) -> PlanOptions:
    args = _OPTIONS[name]
    gates, _ = FeatureGates.read(f"SchedulerAsyncPreemption={str(asynchronous).lower()}")
    if not args:
        return PlanOptions(first_decision=first_decision, gates=gates)
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"pluginConfig": [{"name": "DefaultPreemption", "args": yaml.safe_load(args)}]}],
    }
    profiles = profiles_of(configuration_of(document), gates)
    return PlanOptions(first_decision=first_decision, gates=gates, profiles=profiles, any_scheduler=True)


@settings(max_examples=80, deadline=None)
@given(
    cluster=random_clusters(),
    seed=st.integers(0, 2**32 - 1),
    options=st.sampled_from(sorted(_OPTIONS)),
    first=st.booleans(),
    asynchronous=st.booleans(),
    form=st.sampled_from(["json", "yaml"]),
)
def test_every_annotation_and_option_decides_the_same_in_a_snapshot(
    cluster: RandomCluster, seed: int, options: str, first: bool, asynchronous: bool, form: str
) -> None:
    objects = rich_objects(cluster, random.Random(seed))
    chosen = _options(options, first, asynchronous)
    manifests, _ = snapshot(objects)
    text = text_of(manifests, json=form == "json")
    live = plan(manifests_of(ClusterReading(list(objects)), "live"), chosen)
    assert _comparable(plan(read([(f"x.{form}", text)]), chosen)) == _comparable(live)


def _group_with(annotations: Mapping[str, str], priority: int = 1, **spec: str) -> list[KubernetesObject]:
    return typed(
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "dear-granted", "annotations": annotated(max_preemption_priority="1000")},
            "value": 1,
        },
        {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "dear"}, "value": 1000},
        {
            "apiVersion": "scheduling.k8s.io/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default", "uid": "u", "annotations": dict(annotations)},
            "spec": {"schedulingPolicy": {"basic": {}}, "priority": priority, **spec},
        },
    )


def test_group_keeps_its_preemption_priority() -> None:
    objects = _group_with({PREEMPTION_PRIORITY_CLASS: "dear", "other": "SECRET"}, priorityClassName="dear-granted")
    for anonymize in (False, True):
        manifests, _ = snapshot(objects, anonymize=anonymize)
        found = by_kind(manifests)
        name = found["PriorityClass"]["metadata"]["name"]
        assert found["PodGroup"]["metadata"]["annotations"] == {PREEMPTION_PRIORITY_CLASS: name}
        (again,) = read([("x.json", text_of(manifests, json=True))]).pod_groups
        assert again.object.metadata.annotations[PREEMPTION_PRIORITY] == "1000"


@pytest.mark.parametrize(("name", "priority"), [("gone", 1), ("dear", 5000)])
def test_preemption_class_that_the_scheduler_passes_over_is_no_obstacle(name: str, priority: int) -> None:
    objects = _group_with({PREEMPTION_PRIORITY_CLASS: name}, priority)
    reading = ClusterReading(list(objects))
    (group,) = manifests_of(reading, "live").pod_groups
    assert group.object.spec.priority == priority
    assert any("skipped" in warning for warning in reading.warnings)
    (again,) = read([("x.json", text_of(snapshot(objects)[0], json=True))]).pod_groups
    assert again.object.spec.priority == priority


# --- what leaves --------------------------------------------------------------------------------------------


def typed(*manifests: Json) -> list[KubernetesObject]:
    found = []
    kinds = {kind.KIND: kind for kind in (*REQUIRED, *OPTIONAL)}
    for manifest in manifests:
        group, _, version = manifest["apiVersion"].rpartition("/")
        resource = Resource(group, version, "things", manifest["kind"], True)
        found.append(stored(kinds[manifest["kind"]], msgspec.json.encode(manifest), resource))
    return found


def test_anonymised_snapshot_holds_no_names() -> None:
    manifests, _ = snapshot(typed(NODE, *OTHERS, POD), anonymize=True)
    text = text_of(manifests, json=True)
    for word in (SECRET, "AcmeJob", "s3cret", "10.9.9.9", "registry", "hello", "ebs-vol", "aws:///"):
        assert word not in text.lower() if word.islower() else word not in text, word


def test_plain_snapshot_holds_names_and_nothing_else() -> None:
    manifests, _ = snapshot(typed(NODE, *OTHERS, POD))
    text = text_of(manifests, json=False)
    assert "acme-web-0" in text
    for word in ("s3cret", "env", "registry.acme.com", "annotations", "finalizers", "command", "hello", "providerID"):
        assert word not in text, word
    for word in ("description", "configMap", "addresses", "nodeInfo", "serviceAccount", "message"):
        assert word not in text, word


def by_kind(manifests: Sequence[Json]) -> dict[str, Json]:
    return {manifest["kind"]: manifest for manifest in manifests}


def test_references_stay_references() -> None:
    """Every place that names a thing names it by the same pseudonym."""
    manifests, _ = snapshot(typed(NODE, *OTHERS, POD), anonymize=True)
    found = by_kind(manifests)
    pod, node, group = found["Pod"], found["Node"], found["PodGroup"]
    meta, spec = pod["metadata"], pod["spec"]
    term = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    name = node["metadata"]["name"]
    labels = node["metadata"]["labels"]
    assert spec["nodeName"] == name
    assert term["matchFields"][0]["values"] == [name]
    assert labels["kubernetes.io/hostname"] == spec["nodeSelector"]["kubernetes.io/hostname"] == name
    assert labels["topology.kubernetes.io/zone"] == "zone-1"
    pool, size = (expression["key"] for expression in term["matchExpressions"])
    assert labels[pool] == spec["nodeSelector"][pool]
    assert labels[pool] in term["matchExpressions"][0]["values"]
    assert labels[size] == "8", "compared as a number"
    assert term["matchExpressions"][1]["values"] == ["4"]
    taint, toleration = node["spec"]["taints"][0], spec["tolerations"][0]
    assert (taint["key"], taint["value"]) == (toleration["key"], toleration["value"])
    assert meta["labels"]["scheduling.x-k8s.io/pod-group"] == group["metadata"]["name"]
    assert meta["namespace"] == group["metadata"]["namespace"] == found["Namespace"]["metadata"]["name"]
    anti = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]
    assert anti["namespaces"] == [meta["namespace"]]
    [(app, value)] = anti["labelSelector"]["matchLabels"].items()
    assert meta["labels"][app] == value
    assert found["Service"]["spec"]["selector"] == {app: value}
    selector = found["PodDisruptionBudget"]["spec"]["selector"]["matchExpressions"][0]
    assert (selector["key"], selector["values"]) == (app, [value])
    assert list(found["PodDisruptionBudget"]["status"]["disruptedPods"]) == [meta["name"]]
    assert spec["priorityClassName"] == found["PriorityClass"]["metadata"]["name"]
    assert spec["containers"][0]["name"] == pod["status"]["containerStatuses"][0]["name"]
    assert spec["containers"][0]["image"] in [image for i in node["status"]["images"] for image in i["names"]]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    assert len(volumes) == 2, "a config map does not matter for placement"
    claims = [v["persistentVolumeClaim"]["claimName"] for v in volumes.values() if "persistentVolumeClaim" in v]
    assert found["PersistentVolume"]["spec"]["claimRef"]["name"] == claims[0]
    [ephemeral] = [name for name, volume in volumes.items() if "ephemeral" in volume]
    claim = found["PersistentVolumeClaim"]
    assert claim["metadata"]["name"] == f"{meta['name']}-{ephemeral}"
    assert claim["spec"]["volumeName"] == found["PersistentVolume"]["metadata"]["name"]


def test_tree_of_groups_stays_one() -> None:
    """composite.md 1: parents, templates of a Workload and topology keys keep naming each other; texts do not leave."""
    reference = {"workloadName": "acme-serving", "templateName": "acme-top"}
    meta = {"namespace": "acme-prod", "uid": "u", "annotations": {"acme.com/owner": "hello"}}
    workload: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "Workload",
        "metadata": {"name": "acme-serving", **meta},
        "spec": {
            "compositePodGroupTemplates": [
                {
                    "name": "acme-top",
                    "schedulingPolicy": {"gang": {"minGroupCount": 1}},
                    "podGroupTemplates": [{"name": "acme-low", "schedulingPolicy": {"gang": {"minCount": 2}}}],
                }
            ]
        },
    }
    root: Json = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "acme-root", **meta},
        "spec": {
            "workloadRef": reference,
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
            "schedulingConstraints": {"topology": [{"key": "acme.com/rack"}]},
            "disruptionMode": {"all": {}},
            "priority": 7,
        },
    }
    leaf: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "acme-leaf", **meta},
        "spec": {
            "workloadRef": {**reference, "templateName": "acme-low"},
            "parentCompositePodGroupName": "acme-root",
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "priority": 7,
        },
    }
    for anonymize in (False, True):
        manifests, _ = snapshot(typed(workload, root, leaf), anonymize=anonymize)
        text = text_of(manifests, json=True)
        assert "hello" not in text
        assert (SECRET in text) is not anonymize
        found = by_kind(manifests)
        top, low = found["CompositePodGroup"], found["PodGroup"]
        assert low["spec"]["parentCompositePodGroupName"] == top["metadata"]["name"]
        assert top["spec"]["workloadRef"]["workloadName"] == found["Workload"]["metadata"]["name"]
        [template] = found["Workload"]["spec"]["compositePodGroupTemplates"]
        assert top["spec"]["workloadRef"]["templateName"] == template["name"]
        assert low["spec"]["workloadRef"]["templateName"] == template["podGroupTemplates"][0]["name"]
        again = read([("x.json", text)], complete=False)
        [composite] = [one.object for one in again.all() if isinstance(one.object, o.CompositePodGroup)]
        assert composite.min_group_count == 1
        assert composite.spec.disruption_mode is not None
        assert composite.spec.disruption_mode.all is not None
        assert composite.spec.priority == 7


def test_images_that_no_pod_uses_do_not_matter() -> None:
    manifests, _ = snapshot(typed(NODE, POD))
    assert by_kind(manifests)["Node"]["status"]["images"] == [{"names": ["image-1:x"], "sizeBytes": 1000}]


def test_address_that_means_every_address_stays() -> None:
    """0.0.0.0 conflicts with every host port of its number (NodePorts)."""
    every = msgspec.json.decode(msgspec.json.encode(POD))
    every["spec"]["containers"][0]["ports"][0]["hostIP"] = "0.0.0.0"
    [manifest] = snapshot(typed(every), anonymize=True)[0]
    assert manifest["spec"]["containers"][0]["ports"][0]["hostIP"] == "0.0.0.0"


def test_older_pod_group_stays_without_a_policy_of_its_own() -> None:
    """v1alpha2 has no preemptionPolicy: read back it must not get one (preemption.md 2.2)."""
    [manifest] = snapshot(typed(OTHERS[2]))[0]
    assert manifest["apiVersion"] == "scheduling.k8s.io/v1alpha2"
    again = read([("x", msgspec.json.encode(manifest))], complete=False)
    [group] = typed(OTHERS[2])
    assert isinstance(group, o.PodGroup)
    assert again.pod_groups[0].object.spec == group.spec


def test_everything_reads_back() -> None:
    for anonymize in (False, True):
        manifests, _ = snapshot(typed(NODE, *OTHERS, POD), anonymize=anonymize)
        again = read([("x.yaml", text_of(manifests, json=False))])
        assert len(again.all()) == len(manifests)
        assert not again.unknown


def test_devices_are_left_out_of_an_anonymised_snapshot_and_reported() -> None:
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "n"},
        "spec": {"devices": {"requests": [{"name": "r"}], "config": [{"opaque": {"parameters": {"key": "SECRET"}}}]}},
    }
    kept, notes = snapshot(typed(claim))
    assert kept[0]["spec"]["devices"] == {"requests": [{"name": "r"}]}, "drivers' own configuration may hold anything"
    assert notes == []
    meta = {"name": "r", "namespace": ""}
    rule = {"apiVersion": "resource.k8s.io/v1", "kind": "DeviceTaintRule", "metadata": meta}
    spec = {"deviceSelector": {"pool": "acme-node"}, "taint": {"key": "acme.com/x", "effect": "NoExecute"}}
    assert snapshot(typed(claim, {**rule, "spec": spec}), anonymize=True) == (
        [],
        ["left out of an anonymised snapshot: 2 objects of resource.k8s.io"],
    )


def test_device_class_that_is_requested_as_a_resource_is_renamed() -> None:
    """devices.md 4.1: its name is part of the resource's."""
    own, prefix = "nvidia.com/gpu", "deviceclass.resource.kubernetes.io/"
    asked = {own: "1", f"{prefix}acme-gpu": "1"}
    container = {"name": "c", "image": "i", "resources": {"requests": asked, "limits": asked}}
    one = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [container]}}
    for anonymize in (False, True):
        [[found], _] = snapshot(typed(one), anonymize=anonymize)
        resources = found["spec"]["containers"][0]["resources"]
        named = "deviceclass-1" if anonymize else "acme-gpu"
        assert resources["requests"] == resources["limits"] == {own: "1", f"{prefix}{named}": "1"}


def test_priorities_the_server_left_open() -> None:
    [pod] = typed(POD)
    assert isinstance(pod, o.Pod)
    open_pod = replace(pod, spec=replace(pod.spec, priority=None, priority_class_name="nowhere"))
    reading = ClusterReading([open_pod])
    [loaded] = manifests_of(reading, "live").pods
    assert loaded.object.spec.priority == 0
    assert loaded.origin == Origin("live")
    assert "priority 0 assumed" in reading.warnings[0]


def test_which_claims_a_group_has_is_kept() -> None:
    """status.resourceClaimStatuses (KEP-5729): a plan of the snapshot makes no second claim."""
    made = [{"name": "gpu", "resourceClaimName": "g-gpu-x"}]
    group: Json = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "n"},
        "spec": {
            "schedulingPolicy": {"basic": {}},
            "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "t"}],
        },
        "status": {"resourceClaimStatuses": made},
    }
    [kept], _ = snapshot(typed(group))
    assert kept["status"]["resourceClaimStatuses"] == made
    assert kept["spec"]["resourceClaims"] == group["spec"]["resourceClaims"]


FOREIGN_GROUPS: dict[str, tuple[Json, ...]] = {
    "volcano": (
        {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "PodGroup",
            "metadata": {"name": "acme-train", "namespace": "default"},
            "spec": {"minMember": 2, "minTaskMember": {"acme-w": 2}, "queue": "acme-q", "minResources": {"cpu": "2"}},
            "status": {"phase": "Inqueue", "conditions": [{"type": "Unschedulable", "status": "True"}]},
        },
        {"annotations": {"scheduling.k8s.io/group-name": "acme-train", "volcano.sh/task-spec": "acme-w"}},
    ),
    "coscheduling": (
        {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": "acme-train", "namespace": "default"},
            "spec": {"minMember": 2},
        },
        {"labels": {"scheduling.x-k8s.io/pod-group": "acme-train"}},
    ),
    "kueue": (
        {
            "labels": {"kueue.x-k8s.io/pod-group-name": "acme-train"},
            "annotations": {"kueue.x-k8s.io/pod-group-total-count": "2"},
        },
    ),
}


@pytest.mark.parametrize("anonymize", [False, True])
@pytest.mark.parametrize("source", FOREIGN_GROUPS)
def test_groups_of_other_apis_stay_what_they_are(source: str, anonymize: bool) -> None:
    """workloads.md 1: what is read of them leaves in their own form: the plan of a snapshot is the cluster's."""
    *objects, meta = FOREIGN_GROUPS[source]
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    pods = [
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"p{number}", "namespace": "default", **meta},
            "spec": {"priority": 5, "containers": [container]},
        }
        for number in range(2)
    ]
    amounts = {"cpu": "1", "memory": "1Gi", "pods": "10"}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": amounts}}
    before = [*objects, node, *pods]
    manifests, _ = snapshot(typed(*before), anonymize=anonymize)
    assert ("acme" in str(manifests)) != anonymize
    assert "acme-q" not in str(manifests)
    for group in manifests:
        if group["kind"] == "PodGroup":
            assert group["apiVersion"] == objects[0]["apiVersion"]
            assert group["spec"]["minMember"] == 2
    answers = [plan(read([("a", one) for one in found])).plan for found in (before, manifests)]
    reported = [[(pod.outcome, pod.message) for pod in answer.pods] for answer in answers]
    assert reported[0] == reported[1]
    assert {outcome for outcome, _ in reported[0]} == {"Unschedulable"}, "one of two fits, so none is placed"
    assert [group.priority for answer in answers for group in answer.pod_groups][:1] == [5]


@pytest.mark.parametrize("number", [0, 1, 3])
def test_json_in_pieces_is_one_document(number: int) -> None:
    """A snapshot is written object by object: the file is that of the whole list."""
    manifests: list[Json] = [{"kind": "Node", "of": [{}, [], {"text": 'a "b"\n'}, [[1]]]}] * number
    document = {"apiVersion": "v1", "kind": "List", "items": manifests}
    expected = msgspec.json.format(msgspec.json.encode(document), indent=1).decode() + "\n"
    assert text_of(manifests, json=True) == expected
