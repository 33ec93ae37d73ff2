"""The official Python client against a real server process: the typed API, watches, leader election."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
from kubernetes import dynamic, watch
from kubernetes.leaderelection.electionconfig import Config
from kubernetes.leaderelection.leaderelection import LeaderElection
from kubernetes.leaderelection.resourcelock.configmaplock import ConfigMapLock
from kubernetes.leaderelection.resourcelock.leaselock import LeaseLock

from tests.clients.cluster import Cluster, client, eventually, has_account, running
from tests.waiting import DEADLINE

NAMESPACE = "py"
ApiException = client.ApiException
Watch: Any = watch.Watch
DynamicClient: Any = dynamic.DynamicClient
ElectionConfig: Any = Config
Election: Any = LeaderElection


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with running(tmp_path_factory.mktemp("cluster")) as started:
        core = client.CoreV1Api(started.api())
        core.create_namespace(client.V1Namespace(metadata=client.V1ObjectMeta(name=NAMESPACE)))
        eventually(lambda: has_account(core, NAMESPACE), "the namespace's account")
        yield started


@pytest.fixture(scope="module")
def core(cluster: Cluster) -> Any:
    return client.CoreV1Api(cluster.api())


def pod(name: str, **spec: Any) -> Any:
    container = client.V1Container(
        name="c", image="i", resources=client.V1ResourceRequirements(requests={"cpu": "100m"})
    )
    return client.V1Pod(
        metadata=client.V1ObjectMeta(name=name, labels={"app": name}),
        spec=client.V1PodSpec(containers=[container], **spec),
    )


def is_running(core: Any, name: str) -> bool:
    return bool(core.read_namespaced_pod(name, NAMESPACE).status.phase == "Running")


def is_gone(core: Any, name: str) -> bool:
    try:
        core.read_namespaced_pod(name, NAMESPACE)
    except ApiException as error:
        return bool(error.status == 404)
    return False


def config_map(name: str, **data: str) -> Any:
    return client.V1ConfigMap(metadata=client.V1ObjectMeta(name=name), data=data)


def test_version_and_apis(cluster: Cluster) -> None:
    assert client.VersionApi(cluster.api()).get_code().git_version.startswith("v1.3")
    groups = {one.name for one in client.ApisApi(cluster.api()).get_api_versions().groups}
    assert {"apps", "batch", "scheduling.k8s.io", "coordination.k8s.io"} <= groups


def test_life_of_a_pod(core: Any) -> None:
    made = core.create_namespaced_pod(NAMESPACE, pod("life"))
    assert made.status.phase == "Pending"
    assert made.spec.priority == 0
    eventually(lambda: is_running(core, "life"), "the pod to run")
    found = core.read_namespaced_pod("life", NAMESPACE)
    assert found.status.pod_ip
    assert found.status.container_statuses[0].ready
    assert {one.type for one in found.status.conditions} >= {"Ready", "PodScheduled", "Initialized"}
    listed = core.list_namespaced_pod(NAMESPACE, label_selector="app=life", field_selector="status.phase=Running")
    assert [one.metadata.name for one in listed.items] == ["life"]
    core.delete_namespaced_pod("life", NAMESPACE)
    eventually(lambda: is_gone(core, "life"), "the pod to go")


def test_run_that_ends(core: Any) -> None:
    made = pod("short", restart_policy="Never")
    made.metadata.annotations = {"reprieve.dev/run-seconds": "0.2", "reprieve.dev/exit-code": "7"}
    core.create_namespaced_pod(NAMESPACE, made)
    eventually(lambda: core.read_namespaced_pod("short", NAMESPACE).status.phase == "Failed", "the end of the run")
    status = core.read_namespaced_pod("short", NAMESPACE).status
    assert status.container_statuses[0].state.terminated.exit_code == 7


def test_errors_are_told_as_upstream_does(core: Any) -> None:
    with pytest.raises(ApiException) as missing:
        core.read_namespaced_pod("none", NAMESPACE)
    assert (missing.value.status, missing.value.reason) == (404, "Not Found")
    core.create_namespaced_config_map(NAMESPACE, config_map("twice"))
    with pytest.raises(ApiException) as exists:
        core.create_namespaced_config_map(NAMESPACE, config_map("twice"))
    assert exists.value.status == 409
    with pytest.raises(ApiException) as invalid:
        core.create_namespaced_pod(NAMESPACE, pod("Bad_Name"))
    assert invalid.value.status == 422
    assert '"field":"metadata.name"' in invalid.value.body


def test_optimistic_concurrency(core: Any) -> None:
    first = core.create_namespaced_config_map(NAMESPACE, config_map("raced", n="1"))
    first.data = {"n": "2"}
    core.replace_namespaced_config_map("raced", NAMESPACE, first)
    with pytest.raises(ApiException) as conflict:
        core.replace_namespaced_config_map("raced", NAMESPACE, first)
    assert conflict.value.status == 409


def test_patches(core: Any) -> None:
    core.create_namespaced_config_map(NAMESPACE, config_map("patched", a="1"))
    core.patch_namespaced_config_map("patched", NAMESPACE, {"data": {"b": "2"}})
    operations = [{"op": "remove", "path": "/data/a"}]
    assert core.patch_namespaced_config_map("patched", NAMESPACE, operations).data == {"b": "2"}


def test_server_side_apply(core: Any) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "applied"}, "data": {"a": "1"}}
    apply = {"_content_type": "application/apply-patch+yaml"}
    core.patch_namespaced_config_map("applied", NAMESPACE, body, field_manager="one", **apply)
    body["data"] = {"a": "2"}
    with pytest.raises(ApiException) as conflict:
        core.patch_namespaced_config_map("applied", NAMESPACE, body, field_manager="two", **apply)
    assert conflict.value.status == 409
    forced = core.patch_namespaced_config_map("applied", NAMESPACE, body, field_manager="two", force=True, **apply)
    assert forced.data == {"a": "2"}


def test_pages(core: Any) -> None:
    for number in range(7):
        made = config_map(f"page-{number}")
        made.metadata.labels = {"page": "yes"}
        core.create_namespaced_config_map(NAMESPACE, made)
    names: list[str] = []
    token = None
    while True:
        page = core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes", limit=3, _continue=token)
        names += [one.metadata.name for one in page.items]
        token = page.metadata._continue
        if not token:
            break
    assert names == [f"page-{number}" for number in range(7)]
    core.delete_collection_namespaced_config_map(NAMESPACE, label_selector="page=yes")
    assert core.list_namespaced_config_map(NAMESPACE, label_selector="page=yes").items == []


def test_watch_sees_everything_once_in_order(cluster: Cluster, core: Any) -> None:
    start = core.list_namespaced_config_map(NAMESPACE).metadata.resource_version
    seen: list[tuple[str, str]] = []

    def follow() -> None:
        watching = Watch()
        own = client.CoreV1Api(cluster.api())
        stream = watching.stream(
            own.list_namespaced_config_map,
            NAMESPACE,
            resource_version=start,
            label_selector="seen=yes",
            timeout_seconds=int(DEADLINE),
        )
        for event in stream:
            seen.append((event["type"], (event["object"].data or {}).get("n", "")))
            if event["type"] == "DELETED":
                watching.stop()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    made = config_map("followed", n="0")
    made.metadata.labels = {"seen": "yes"}
    core.create_namespaced_config_map(NAMESPACE, made)
    for number in range(1, 6):
        core.patch_namespaced_config_map("followed", NAMESPACE, {"data": {"n": str(number)}})
    core.delete_namespaced_config_map("followed", NAMESPACE)
    thread.join(2 * DEADLINE)
    assert seen == [("ADDED", "0"), *(("MODIFIED", str(number)) for number in range(1, 6)), ("DELETED", "5")]


def test_eviction(cluster: Cluster, core: Any) -> None:
    policy = client.PolicyV1Api(cluster.api())
    core.create_namespaced_pod(NAMESPACE, pod("evicted"))
    eventually(lambda: is_running(core, "evicted"), "the pod to run")
    selector = client.V1LabelSelector(match_labels={"app": "evicted"})
    budget = client.V1PodDisruptionBudget(
        metadata=client.V1ObjectMeta(name="guard"),
        spec=client.V1PodDisruptionBudgetSpec(min_available=1, selector=selector),
    )
    policy.create_namespaced_pod_disruption_budget(NAMESPACE, budget)
    eventually(
        lambda: policy.read_namespaced_pod_disruption_budget("guard", NAMESPACE).status.current_healthy == 1,
        "the budget's status",
    )
    eviction = client.V1Eviction(metadata=client.V1ObjectMeta(name="evicted"))
    with pytest.raises(ApiException) as refused:
        core.create_namespaced_pod_eviction("evicted", NAMESPACE, eviction)
    assert refused.value.status == 429
    policy.delete_namespaced_pod_disruption_budget("guard", NAMESPACE)
    core.create_namespaced_pod_eviction("evicted", NAMESPACE, eviction)
    eventually(lambda: is_gone(core, "evicted"), "the evicted pod to go")


def test_deployment(cluster: Cluster) -> None:
    apps = client.AppsV1Api(cluster.api())
    labels = {"app": "dep"}
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels=labels),
        spec=client.V1PodSpec(containers=[client.V1Container(name="c", image="i")]),
    )
    spec = client.V1DeploymentSpec(replicas=2, selector=client.V1LabelSelector(match_labels=labels), template=template)
    apps.create_namespaced_deployment(
        NAMESPACE, client.V1Deployment(metadata=client.V1ObjectMeta(name="dep"), spec=spec)
    )
    eventually(lambda: apps.read_namespaced_deployment("dep", NAMESPACE).status.available_replicas == 2, "the rollout")
    apps.patch_namespaced_deployment_scale("dep", NAMESPACE, {"spec": {"replicas": 3}})
    eventually(lambda: apps.read_namespaced_deployment("dep", NAMESPACE).status.available_replicas == 3, "the scaling")
    assert apps.read_namespaced_deployment_scale("dep", NAMESPACE).status.replicas == 3
    apps.delete_namespaced_deployment("dep", NAMESPACE, propagation_policy="Foreground")
    eventually(lambda: not apps.list_namespaced_replica_set(NAMESPACE).items, "the deletion in the foreground")


def test_job(cluster: Cluster) -> None:
    batch = client.BatchV1Api(cluster.api())
    template = client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(annotations={"reprieve.dev/run-seconds": "0.2"}),
        spec=client.V1PodSpec(restart_policy="Never", containers=[client.V1Container(name="c", image="i")]),
    )
    spec = client.V1JobSpec(completions=3, parallelism=3, completion_mode="Indexed", template=template)
    batch.create_namespaced_job(NAMESPACE, client.V1Job(metadata=client.V1ObjectMeta(name="work"), spec=spec))
    eventually(lambda: batch.read_namespaced_job("work", NAMESPACE).status.succeeded == 3, "the Job")
    status = batch.read_namespaced_job("work", NAMESPACE).status
    assert status.completed_indexes == "0-2"
    eventually(
        lambda: any(
            one.type == "Complete" for one in batch.read_namespaced_job("work", NAMESPACE).status.conditions or ()
        ),
        "the condition Complete",
    )


def test_priority_classes_and_pod_groups(cluster: Cluster) -> None:
    scheduling = client.SchedulingV1Api(cluster.api())
    made = scheduling.create_priority_class(client.V1PriorityClass(metadata=client.V1ObjectMeta(name="py"), value=7))
    assert made.preemption_policy == "PreemptLowerPriority"
    custom = client.CustomObjectsApi(cluster.api())
    group = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}, "priorityClassName": "py"},
    }
    where = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
    assert custom.create_namespaced_custom_object(*where, group)["spec"]["priority"] == 7
    custom.delete_namespaced_custom_object(*where, "g")

    def is_gone() -> bool:
        return not custom.list_namespaced_custom_object(*where)["items"]

    eventually(is_gone, "the finalizer to be taken off")


def test_tree_of_groups(cluster: Cluster) -> None:
    """A v1beta1 leaf under a v1alpha3 root (composite.md 1); the status is its own door."""
    custom = client.CustomObjectsApi(cluster.api())
    roots = ("scheduling.k8s.io", "v1alpha3", NAMESPACE, "compositepodgroups")
    leaves = ("scheduling.k8s.io", "v1beta1", NAMESPACE, "podgroups")
    root = {
        "apiVersion": "scheduling.k8s.io/v1alpha3",
        "kind": "CompositePodGroup",
        "metadata": {"name": "root"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "t"},
            "schedulingPolicy": {"gang": {"minGroupCount": 1}},
        },
    }
    leaf = {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "leaf"},
        "spec": {
            "workloadRef": {"workloadName": "w", "templateName": "leaf"},
            "schedulingPolicy": {"gang": {"minCount": 2}},
            "parentCompositePodGroupName": "root",
        },
    }
    made = custom.create_namespaced_custom_object(*roots, root)
    assert made["spec"]["disruptionMode"] == {"single": {}}
    assert made["metadata"]["finalizers"] == ["scheduling.k8s.io/compositepodgroup-protection"]
    custom.create_namespaced_custom_object(*leaves, leaf)
    condition = {
        "type": "CompositePodGroupInitiallyScheduled",
        "status": "True",
        "reason": "Scheduled",
        "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    body = {"status": {"conditions": [condition]}, "spec": {"priority": 9}}
    custom.patch_namespaced_custom_object_status(*roots, "root", body)
    seen = custom.get_namespaced_custom_object(*roots, "root")
    assert (seen["status"]["conditions"], seen["spec"]["priority"]) == ([condition], 0)
    custom.delete_namespaced_custom_object(*roots, "root")
    assert custom.get_namespaced_custom_object(*roots, "root")["metadata"]["deletionTimestamp"]
    custom.delete_namespaced_custom_object(*leaves, "leaf")
    eventually(lambda: not custom.list_namespaced_custom_object(*roots)["items"], "the root to go after its leaf")


def test_dynamic_client(cluster: Cluster) -> None:
    found = DynamicClient(cluster.api())
    pods = found.resources.get(api_version="v1", kind="Pod")
    made = pods.create(namespace=NAMESPACE, body=client.ApiClient().sanitize_for_serialization(pod("dynamic")))
    assert made.metadata.name == "dynamic"
    pods.delete(name="dynamic", namespace=NAMESPACE)


def test_service_account_token(cluster: Cluster, core: Any) -> None:
    eventually(
        lambda: [one.metadata.name for one in core.list_namespaced_service_account(NAMESPACE).items] == ["default"],
        "the default account",
    )
    body = client.AuthenticationV1TokenRequest(spec=client.V1TokenRequestSpec(audiences=[]))
    token = core.create_namespaced_service_account_token("default", NAMESPACE, body).status.token
    configuration = client.Configuration.get_default_copy()
    admin = cluster.api().configuration
    configuration.host, configuration.ssl_ca_cert = admin.host, admin.ssl_ca_cert
    configuration.api_key = {"authorization": f"Bearer {token}"}
    robot = client.AuthenticationV1Api(client.ApiClient(configuration))
    review = robot.create_self_subject_review(client.V1SelfSubjectReview())
    assert review.status.user_info.username == f"system:serviceaccount:{NAMESPACE}:default"


@pytest.mark.parametrize("lock", [LeaseLock, ConfigMapLock])
def test_leader_election(cluster: Cluster, lock: Any) -> None:
    """One leads while it renews: a later candidate waits, and takes over when the lease has run out.

    The leader's terms are long, so that no pause of the machine ends them; how soon another may lead is its own lease.
    """
    name = f"leader-{lock.__name__.lower()}"
    told: list[str] = []
    stop = {identity: threading.Event() for identity in ("a", "b", "c")}
    looks: Counter[str] = Counter()

    def candidate(identity: str, lease: int) -> threading.Thread:
        held = lock(name, NAMESPACE, identity)
        held.api_instance = type(held.api_instance)(cluster.api())
        look = held.get

        def counted(*arguments: Any) -> Any:
            looks[identity] += 1
            if stop[identity].is_set() and identity not in told:
                raise SystemExit  # one that never leads tries forever
            return look(*arguments)

        held.get = counted

        def lead() -> None:
            told.append(identity)
            stop[identity].wait()
            raise RuntimeError("stops leading")

        config = ElectionConfig(held, lease, lease - 1, 1, lead, lambda: told.append(f"{identity} stopped"))

        def stand() -> None:
            with suppress(SystemExit):
                Election(config).run()

        thread = threading.Thread(target=stand, daemon=True)
        thread.start()
        return thread

    first = candidate("a", 3600)
    eventually(lambda: told == ["a"], "the first leader")
    second = candidate("b", 3600)
    seen = looks["a"]
    eventually(lambda: looks["a"] > seen + 2 and looks["b"] > 2, "the leader renews, another one tries")
    assert told == ["a"]
    stop["a"].set()
    first.join(DEADLINE)
    stop["b"].set()
    second.join(DEADLINE)
    assert told == ["a", "a stopped"]
    last = candidate("c", 3)
    eventually(lambda: "c" in told, "the next leader")
    stop["c"].set()
    last.join(DEADLINE)
    assert told == ["a", "a stopped", "c", "c stopped"]
