"""What each admission step does and what it leaves alone: other kinds, updates, subresources, what is there already.

kube-apiserver's plugins LimitRanger, ServiceAccount, TaintNodesByCondition, Priority, DefaultTolerationSeconds and
ResourceQuota (1.36), and those of pod groups.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kube_standin.admission import PROTECTION, STEPS
from kube_standin.admission.priority import default_class
from kube_standin.admission_chain import AdmissionRequest, Operation, Step, User
from kube_standin.errors import StatusError
from tests.admission.plane import Plane, pod, pod_group, priority_class

Json = dict[str, Any]


@pytest.fixture
def plane() -> Plane:
    return Plane()


def of(api_version: str, kind: str, name: str = "x", **more: Any) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **more}


def stepped(
    plane: Plane,
    step: Step,
    obj: Json,
    *,
    operation: Operation = "CREATE",
    subresource: str = "",
    old: Json | None = None,
) -> Json:
    """The object after one step of the chain, both halves of it."""
    kind = plane.kind(obj["apiVersion"], obj["kind"])
    new = copy.deepcopy(obj)
    namespace = "default" if kind.namespaced else ""
    name, user = obj["metadata"]["name"], User("u")
    request = AdmissionRequest(operation, kind, namespace, name, subresource, new, old, user, False, plane.registry)
    step.mutate(request)
    step.validate(request)
    return new


OBJECTS = [
    pod(),
    pod_group("g", workloadRef={"workloadName": "nosuch", "templateName": "t"}, priorityClassName="nosuch"),
    of("v1", "Node"),
    of("v1", "PersistentVolumeClaim", spec={"resources": {"requests": {"storage": "9Gi"}}}),
    of("scheduling.k8s.io/v1beta1", "Workload", spec={"podGroupTemplates": [{"name": "t"}]}),
]


@pytest.mark.parametrize("obj", OBJECTS, ids=lambda obj: str(obj["kind"]))
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize(("operation", "subresource"), [("UPDATE", ""), ("CREATE", "status"), ("CREATE", "binding")])
def test_priority_is_decided_once_on_creation(
    plane: Plane, name: str, obj: Json, operation: Operation, subresource: str
) -> None:
    """Nothing is filled in, and nothing refused, in an object that exists: the cluster may have changed since.

    The preemption priority of a group may change, but there is none in these.
    """
    plane.create(limit_range({"type": "Container", "max": {"cpu": "1m"}, "default": {"memory": "1Gi"}}))
    plane.create(limit_range({"type": "PersistentVolumeClaim", "max": {"storage": "1Gi"}}, name="claims"))
    plane.create(of("v1", "ResourceQuota", "q", spec={"hard": {"pods": "0"}}))
    plane.patch("v1", "ResourceQuota", "q", {"status": {"hard": {"pods": "0"}, "used": {"pods": "0"}}}, "status")
    before = copy.deepcopy(obj)
    step = STEPS[name]()
    if (name, operation) == ("DefaultTolerationSeconds", "UPDATE"):
        return  # upstream adds what is missing to pods that exist, too
    if step.kinds is None or plane.kind(obj["apiVersion"], obj["kind"]).resource in step.kinds:
        assert stepped(plane, step, obj, operation=operation, subresource=subresource, old=before) == before


# -- limit ranges


def limit_range(*items: Json, name: str = "lr") -> Json:
    return of("v1", "LimitRange", name, spec={"limits": list(items)})


def with_spec(spec: Json, name: str = "p") -> Json:
    """A pod with these fields, which may be its containers."""
    made = pod(name)
    made["spec"] |= spec
    return made


def container(name: str = "c", requests: Json | None = None, limits: Json | None = None, **more: Any) -> Json:
    parts = {"requests": requests, "limits": limits}
    return {"name": name, "image": "i", "resources": {key: part for key, part in parts.items() if part}, **more}


NOTE = "kubernetes.io/limit-ranger"


def test_defaults_fill_in_what_is_missing_and_nothing_else(plane: Plane) -> None:
    """Container by container, init containers too; the annotation lists what was filled in."""
    plane.create(
        limit_range({"type": "Container", "defaultRequest": {"cpu": "1", "memory": "64Mi"}, "default": {"cpu": "2"}})
    )
    made = plane.create(
        pod(
            containers=[
                container("a", {"cpu": "100m"}, {"cpu": "200m"}),
                container("b", {"cpu": "100m", "memory": "1Mi"}, {"cpu": "200m"}),
            ],
            initContainers=[container("i")],
        )
    )
    found = {one["name"]: one["resources"] for part in ("containers", "initContainers") for one in made["spec"][part]}
    assert found == {
        "a": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "200m"}},
        "b": {"requests": {"cpu": "100m", "memory": "1Mi"}, "limits": {"cpu": "200m"}},
        "i": {"requests": {"cpu": "1", "memory": "64Mi"}, "limits": {"cpu": "2"}},
    }
    assert made["metadata"]["annotations"][NOTE] == (
        "LimitRanger plugin set: memory request for container a; cpu, memory request for init container i; "
        "cpu limit for init container i"
    )


def test_several_limit_ranges_fill_in_one_after_the_other(plane: Plane) -> None:
    """The first that has a default sets it; one annotation lists what was set, and annotations of others stay."""
    plane.create(limit_range({"type": "Container", "default": {"memory": "1Gi"}}, name="one"))
    plane.create(limit_range({"type": "Container", "default": {"memory": "2Gi", "cpu": "3"}}, name="two"))
    plane.create(limit_range({"type": "Pod", "max": {"cpu": "9"}}, {"type": "example.com/x", "max": {"cpu": "1m"}}))
    wanted = pod()
    wanted["metadata"]["annotations"] = {"mine": "kept"}
    made = plane.create(wanted)
    assert made["spec"]["containers"][0]["resources"]["limits"] == {"memory": "1Gi", "cpu": "3"}
    assert made["metadata"]["annotations"] == {
        "mine": "kept",
        NOTE: (
            "LimitRanger plugin set: memory request for container c; memory limit for container c; "
            "cpu limit for container c"
        ),
    }


def test_where_nothing_is_filled_in_nothing_is_said(plane: Plane) -> None:
    plane.create(limit_range({"type": "Container", "default": {"cpu": "2"}, "defaultRequest": {}}))
    made = plane.create(pod(containers=[container("c", {"cpu": "1"}, {"cpu": "1"})]))
    assert NOTE not in made["metadata"].get("annotations", {})


def put(plane: Plane, resource: str, obj: Json) -> None:
    """Store an object as it is: without its defaults and past admission."""
    plane.store.put(resource, "default", obj["metadata"]["name"], obj, None)


CPU, BOTH = {"cpu": "1"}, {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("item", "requests", "limits", "problems"),
    [
        # A minimum is for requests, which have to be there, and for limits where there are some.
        ({"min": CPU}, None, None, ["minimum cpu usage per {} is 1.  No request is specified"]),
        ({"min": CPU}, None, {"cpu": "1"}, ["minimum cpu usage per {} is 1.  No request is specified"]),
        ({"min": CPU}, {"cpu": "1"}, None, []),
        ({"min": CPU}, {"cpu": "1"}, {"cpu": "1"}, []),
        ({"min": CPU}, {"cpu": "1"}, {"cpu": "999m"}, ["minimum cpu usage per {} is 1, but limit is 999m"]),
        ({"min": CPU}, {"cpu": "999m"}, {"cpu": "1m"}, ["minimum cpu usage per {} is 1, but request is 999m"]),
        # A maximum is for limits, which have to be there, and for requests where there are some.
        ({"max": CPU}, {"cpu": "1"}, None, ["maximum cpu usage per {} is 1.  No limit is specified"]),
        ({"max": CPU}, None, {"cpu": "1"}, []),
        ({"max": CPU}, {"cpu": "1"}, {"cpu": "1"}, []),
        ({"max": CPU}, {"cpu": "1001m"}, {"cpu": "1"}, ["maximum cpu usage per {} is 1, but request is 1001m"]),
        ({"max": CPU}, {"cpu": "9"}, {"cpu": "1001m"}, ["maximum cpu usage per {} is 1, but limit is 1001m"]),
        # The ratio is of what is there; nothing has none.
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, None,
         ["cpu max limit to request ratio per {} is 2, but no limit is specified or limit is 0"]),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "1"}, {"cpu": "0"},
         ["cpu max limit to request ratio per {} is 2, but no limit is specified or limit is 0"]),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, None, {"cpu": "1"},
         ["cpu max limit to request ratio per {} is 2, but no request is specified or request is 0"]),
        ({"maxLimitRequestRatio": {"cpu": "2"}}, {"cpu": "0"}, {"cpu": "1"},
         ["cpu max limit to request ratio per {} is 2, but no request is specified or request is 0"]),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"cpu": "2"}, {"cpu": "3"}, []),
        ({"maxLimitRequestRatio": {"cpu": "1500m"}}, {"cpu": "2"}, {"cpu": "3001m"},
         ["cpu max limit to request ratio per {} is 1500m, but provided ratio is 1.500500"]),
        # All errors are reported, by kind of bound and by name.
        ({"min": dict(reversed(BOTH.items()))}, None, None,
         ["minimum cpu usage per {} is 1.  No request is specified",
          "minimum memory usage per {} is 1Gi.  No request is specified"]),
        ({"min": {"cpu": "2"}, "max": {"cpu": "4"}}, {"cpu": "1"}, {"cpu": "5"},
         ["minimum cpu usage per {} is 2, but request is 1", "maximum cpu usage per {} is 4, but limit is 5"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("kind", "part"), [("Container", "containers"), ("Container", "initContainers"), ("Pod", "containers")]
)
def test_bounds_of_containers_and_pods(
    plane: Plane, item: Json, requests: Json | None, limits: Json | None, problems: list[str], kind: str, part: str
) -> None:
    """PodValidateLimitFunc: every container by itself, or the sums of the pod."""
    put(plane, "limitranges", limit_range({"type": kind, **item}, {"type": "Node", "min": {"cpu": "99"}}))
    wanted = with_spec({"containers": [], part: [container("c", requests, limits)]}, "x")
    problems = [text.format(kind) for text in problems]
    if not problems:
        assert stepped(plane, STEPS["LimitRanger"](), wanted) == wanted
        return
    with pytest.raises(StatusError) as caught:
        stepped(plane, STEPS["LimitRanger"](), wanted)
    told = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
    assert caught.value.message == f'pods "x" is forbidden: {told}'


def test_bounds_of_a_claim_that_asks_for_nothing(plane: Plane) -> None:
    """Validation comes before; the step itself has an answer too. Defaults of containers are none of its business."""
    bounds = {"min": {"storage": "1Gi"}, "max": {"storage": "2Gi"}}
    put(
        plane,
        "limitranges",
        limit_range({"type": "PersistentVolumeClaim", **bounds}, {"type": "Container", "max": CPU}),
    )
    with pytest.raises(StatusError) as caught:
        stepped(plane, STEPS["LimitRanger"](), of("v1", "PersistentVolumeClaim", spec={}))
    assert caught.value.message == (
        'persistentvolumeclaims "x" is forbidden: '
        "[minimum storage usage per PersistentVolumeClaim is 1Gi.  No request is specified, "
        "maximum storage usage per PersistentVolumeClaim is 2Gi.  No request is specified]"
    )


def test_limit_ranges_of_other_namespaces_do_not_count(plane: Plane) -> None:
    plane.store.put("limitranges", "other", "lr", limit_range({"type": "Container", "min": {"cpu": "9"}}), None)
    assert stepped(plane, STEPS["LimitRanger"](), pod()) == pod()


# -- service accounts, tolerations, taints


@pytest.mark.parametrize(
    ("spec", "account"),
    [({}, "default"), ({"serviceAccountName": ""}, "default"), ({"serviceAccountName": "default"}, "default"),
     ({"serviceAccount": "robot"}, "robot"), ({"serviceAccountName": "robot", "serviceAccount": "old"}, "robot")],
)  # fmt: skip
def test_pod_runs_as_an_account(plane: Plane, spec: Json, account: str) -> None:
    """The name of old counts where the other is missing; the default account need not be there yet."""
    put(plane, "serviceaccounts", of("v1", "ServiceAccount", "robot"))
    made = stepped(plane, STEPS["ServiceAccount"](), with_spec(spec))["spec"]
    assert (made["serviceAccountName"], made["serviceAccount"]) == (account, account)


@pytest.mark.parametrize("field", ["serviceAccountName", "serviceAccount"])
def test_account_of_another_namespace_is_none(plane: Plane, field: str) -> None:
    plane.store.put("serviceaccounts", "other", "robot", of("v1", "ServiceAccount", "robot"), None)
    with pytest.raises(StatusError, match='serviceaccount "robot" not found'):
        stepped(plane, STEPS["ServiceAccount"](), with_spec({field: "robot"}))


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        (None, [NOT_READY, UNREACHABLE]),
        ([], [NOT_READY, UNREACHABLE]),
        ([{"key": "a", "operator": "Exists"}], [NOT_READY, UNREACHABLE]),
        ([{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}], [NOT_READY]),
        ([{"key": UNREACHABLE, "operator": "Exists"}, {"key": NOT_READY, "operator": "Exists"}], []),
        ([{"operator": "Exists", "effect": "NoExecute"}], []),
        ([{"operator": "Exists", "effect": "NoSchedule"}], [NOT_READY, UNREACHABLE]),
    ],
)
def test_tolerations_of_lost_nodes(plane: Plane, tolerations: list[Json] | None, added: list[str]) -> None:
    """DefaultTolerationSeconds: what covers the NoExecute taint, whatever its seconds, is enough."""
    spec: Json = {} if tolerations is None else {"tolerations": tolerations}
    made = stepped(plane, STEPS["DefaultTolerationSeconds"](), with_spec(spec))["spec"].get("tolerations", [])
    assert made[: len(tolerations or ())] == (tolerations or [])
    assert made[len(tolerations or ()) :] == [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300} for key in added
    ]


@pytest.mark.parametrize(
    ("taints", "added"),
    [
        ([{"key": "a", "effect": "NoSchedule"}], True),
        ([{"key": NOT_READY, "effect": "NoExecute"}], True),
        ([{"key": NOT_READY, "effect": "NoSchedule", "value": "v"}], False),
    ],
)
def test_node_is_tainted_once(plane: Plane, taints: list[Json], added: bool) -> None:
    made = stepped(plane, STEPS["TaintNodesByCondition"](), of("v1", "Node", spec={"taints": taints}))["spec"]["taints"]
    assert made == [*taints, *([{"key": NOT_READY, "effect": "NoSchedule"}] if added else [])]


# -- priority


def test_default_classes_the_lowest_counts(plane: Plane) -> None:
    """Only one can be made, but two servers might have made one each (admission.go: getDefaultPriorityClass)."""
    assert default_class(plane.registry) is None
    for name, value, default in (("a", 7, True), ("b", 3, True), ("c", 5, True), ("d", 1, False)):
        made = priority_class(name, value, globalDefault=default, preemptionPolicy="Never" if name == "b" else None)
        plane.store.put(
            "scheduling.k8s.io/priorityclasses", "", name, {k: v for k, v in made.items() if v is not None}, None
        )
    assert default_class(plane.registry) == ("b", 3, "Never")


def test_policy_of_the_class_is_that_of_group_and_template(plane: Plane) -> None:
    """A policy that contradicts the class is refused in the words of its holder; one that agrees is not."""
    plane.create(priority_class("calm", 5, preemptionPolicy="Never"))
    for given in ({}, {"preemptionPolicy": "Never"}):
        group = pod_group(f"g{len(given)}", priorityClassName="calm")
        group["spec"] |= given
        assert plane.create(group)["spec"]["preemptionPolicy"] == "Never"
    with pytest.raises(StatusError) as caught:
        plane.create(pod_group("h", priorityClassName="calm", preemptionPolicy="PreemptLowerPriority"))
    assert "preemption policy set in the pod group (PreemptLowerPriority) must match the policy computed (Never)" in (
        caught.value.message
    )
    template = {"name": "t", "priorityClassName": "calm", "preemptionPolicy": "PreemptLowerPriority"}
    workload = of("scheduling.k8s.io/v1beta1", "Workload", spec={"podGroupTemplates": [template]})
    with pytest.raises(StatusError) as caught:
        stepped(plane, STEPS["Priority"](), workload)
    assert caught.value.message.endswith(
        "preemption policy set in the pod group template (PreemptLowerPriority) must match the policy computed "
        "(Never) based on the priority class set in the template"
    )


# -- pod groups


@pytest.mark.parametrize("present", [None, [], ["a.b/c"], [PROTECTION], [PROTECTION, "a.b/c"]])
def test_group_is_protected_once(plane: Plane, present: list[str] | None) -> None:
    group = pod_group("g")
    if present is not None:
        group["metadata"]["finalizers"] = list(present)
    made = stepped(plane, STEPS["PodGroupProtection"](), group)["metadata"]["finalizers"]
    assert made == (present if PROTECTION in (present or ()) else [*(present or ()), PROTECTION])


def test_reference_is_to_one_template_of_a_workload_in_the_namespace(plane: Plane) -> None:
    templates = [{"name": "a"}, {"name": "b"}]
    workload = of("scheduling.k8s.io/v1beta1", "Workload", "wl", spec={"podGroupTemplates": templates})
    plane.store.put("scheduling.k8s.io/workloads", "default", "wl", workload, None)
    plane.store.put("scheduling.k8s.io/workloads", "other", "there", workload, None)
    for name, template, why in (
        ("wl", "a", ""),
        ("wl", "b", ""),
        ("wl", "c", 'PodGroupTemplate "c" not found in Workload "wl"'),
        ("there", "a", 'Workload "there" not found'),
    ):
        group = pod_group("g", workloadRef={"workloadName": name, "templateName": template})
        if why:
            with pytest.raises(StatusError, match=why):
                stepped(plane, STEPS["PodGroupWorkloadExists"](), group)
        else:
            assert stepped(plane, STEPS["PodGroupWorkloadExists"](), group) == group


# -- quota


def quota(plane: Plane, name: str, hard: Json, used: Json | None = None, **spec: Any) -> None:
    status = {"hard": hard, "used": dict.fromkeys(hard, "0") if used is None else used}
    put(plane, "resourcequotas", of("v1", "ResourceQuota", name, spec={"hard": hard, **spec}, status=status))


def charged(plane: Plane, name: str) -> Json:
    state = plane.store.head("resourcequotas", "default", name)
    assert state is not None
    found: Json = state.decode()["status"]["used"]
    return found


def service(kind: str, ports: int) -> Json:
    spec = {"type": kind, "ports": [{"name": f"p{n}", "port": 80 + n} for n in range(ports)]}
    return of("v1", "Service", "s", spec=spec)


def test_every_quota_that_covers_an_object_is_charged(plane: Plane) -> None:
    """One that has another scope, or counts something else, is not; a quota may be filled to the brim."""
    quota(plane, "exact", {"pods": "1", "requests.cpu": "100m"})
    quota(plane, "wide", {"pods": "9", "configmaps": "0"}, {"pods": "3", "configmaps": "7"})
    quota(plane, "other", {"pods": "0"}, scopes=["Terminating"])
    quota(plane, "else", {"secrets": "0"})
    plane.create(pod("a"))
    assert charged(plane, "exact") == {"pods": "1", "requests.cpu": "100m"}
    assert charged(plane, "wide") == {"pods": "4", "configmaps": "7"}
    assert (charged(plane, "other"), charged(plane, "else")) == ({"pods": "0"}, {"secrets": "0"})
    with pytest.raises(StatusError) as caught:
        plane.create(pod("b"))
    assert caught.value.message.endswith(
        "exceeded quota: exact, requested: pods=1,requests.cpu=100m, used: pods=1,requests.cpu=100m, "
        "limited: pods=1,requests.cpu=100m"
    )
    assert charged(plane, "wide")["pods"] == "4", "what one quota refuses no other is charged with"


def test_quota_demands_requests_of_pods_in_scope(plane: Plane) -> None:
    quota(plane, "q", {"requests.memory": "1Gi"}, scopes=["Terminating"])
    plane.create(pod("out"))
    with pytest.raises(StatusError, match=r"must specify requests\.memory for: c"):
        plane.create(pod("in", activeDeadlineSeconds=5))


def test_update_is_charged_with_what_it_adds(plane: Plane) -> None:
    """Services and claims may grow; what shrinks is taken off by the controller, and other kinds are not looked at."""
    quota(plane, "q", {"services.nodeports": "3", "services": "1", "configmaps": "0"}, {
        "services.nodeports": "0", "services": "0", "configmaps": "0"})  # fmt: skip
    plane.create(service("NodePort", 1))
    assert charged(plane, "q") == {"configmaps": "0", "services": "1", "services.nodeports": "1"}
    ports = service("NodePort", 3)["spec"]["ports"]
    plane.patch("v1", "Service", "s", {"spec": {"ports": ports}})
    assert charged(plane, "q")["services.nodeports"] == "3"
    with pytest.raises(StatusError, match=r"requested: services\.nodeports=1, used: services\.nodeports=3"):
        plane.patch("v1", "Service", "s", {"spec": {"ports": service("NodePort", 4)["spec"]["ports"]}})
    plane.patch("v1", "Service", "s", {"spec": {"ports": ports[:1]}})
    plane.patch("v1", "Service", "s", {"metadata": {"labels": {"a": "b"}}})
    assert charged(plane, "q") == {"configmaps": "0", "services": "1", "services.nodeports": "3"}
    plane.delete("v1", "Service", "s")
    assert charged(plane, "q")["services"] == "1", "use that ends is the controller's"


def test_quota_of_another_namespace_does_not_count(plane: Plane) -> None:
    status = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    plane.store.put("resourcequotas", "other", "q", of("v1", "ResourceQuota", "q", spec={}, status=status), None)
    plane.create(pod("a"))


def test_quota_that_goes_while_an_object_is_made_is_charged_with_nothing(plane: Plane) -> None:
    class Gone(Step):
        kinds = frozenset(("pods",))

        def validate(self, request: AdmissionRequest) -> None:
            request.on_staged.insert(0, lambda: plane.delete("v1", "ResourceQuota", "q"))

    plane.create(of("v1", "ResourceQuota", "q", spec={"hard": {"pods": "5"}}))
    plane.patch("v1", "ResourceQuota", "q", {"status": {"hard": {"pods": "5"}, "used": {"pods": "0"}}}, "status")
    plane.registry.chain.add(Gone())
    plane.create(pod("a"))
    assert not plane.has("v1", "ResourceQuota", "q")
    assert plane.has("v1", "Pod", "a")
