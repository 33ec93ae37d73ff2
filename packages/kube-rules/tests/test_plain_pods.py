"""`validation.plain_pods`: what it lets through breaks no rule, and most pods of real clusters get through."""

from __future__ import annotations

import copy
import random
from typing import Any

import msgspec
import pytest

from kube_rules import objects as o
from kube_rules.decoding import from_data
from kube_rules.errors import InputError, Origin
from kube_rules.typed_defaults import apply_defaults
from kube_rules.validation import plain_pods, typed
from kube_rules.validation.plain_pods import is_plain

Json = dict[str, Any]
TERM: Json = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
MACHINES: Json = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "type", "operator": "In", "values": ["a"]}]}]}
PLAIN: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "name": "web-1",
        "namespace": "shop",
        "uid": "u-1",
        "labels": {"app": "web", "example.com/tier": "front"},
        "annotations": {"example.com/Note": "any text"},
        "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": True}],
    },
    "spec": {
        "nodeName": "n-1.example.com",
        "nodeSelector": {"disk": "fast"},
        "restartPolicy": "OnFailure",
        "priorityClassName": "high",
        "schedulingGroup": {"podGroupName": "g"},
        "tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}],
        "topologySpreadConstraints": [
            {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **copy.deepcopy(TERM)}
        ],
        "volumes": [{"name": "token", "projected": {"sources": []}}],
        "affinity": {
            "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": MACHINES},
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [TERM],
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "podAffinityTerm": TERM}],
            },
        },
        "initContainers": [{"name": "first", "resources": {"requests": {"cpu": "1"}}}],
        "containers": [
            {
                "name": "main",
                "image": "example.com/web:1",
                "resources": {
                    "requests": {"cpu": "100m", "memory": "1Gi", "nvidia.com/gpu": "1"},
                    "limits": {"cpu": "100m", "nvidia.com/gpu": "1"},
                },
                "volumeMounts": [{"name": "token", "mountPath": "/token"}],
            }
        ],
    },
}
TEXTS = [
    "",
    "ok",
    "Not_Ok",
    "a.b",
    "-a",
    "a/b",
    "a/b/c",
    "é",
    "a\n",
    "x" * 64,
    "x" * 254,
    "*",
    "Always",
    "Exists",
    "In",
]
VALUES: list[Any] = [
    *TEXTS,
    0,
    -1,
    1,
    101,
    2**31 - 1,
    True,
    False,
    None,
    [],
    {},
    "1",
    "0",
    "-1",
    "1.5",
    "1e3",
    "2Gi",
    "1x",
]
KEYS = ["cpu", "hugepages-2Mi", "pods", "example.com/x", "kubernetes.io/x", "operator", "name", "weight", "limits",
        "hostPort", "ports", "hostNetwork", "hostUsers", "overhead", "resources", "finalizers", "generateName",
        "schedulingGates", "runtimeClassName", "activeDeadlineSeconds", "resourceClaims", "claims", "workloadRef",
        "namespaces", "matchLabelKeys", "mismatchLabelKeys", "minDomains", "preemptionPolicy", "generation",
        "terminationGracePeriodSeconds", "restartPolicy", "ephemeralContainers", "value", "labels"]  # fmt: skip


def _typed(manifest: Json) -> o.Pod | None:
    try:
        return apply_defaults(from_data(o.Pod, manifest, Origin()))
    except InputError:
        return None


def _broken(pod: o.Pod) -> list[Any]:
    """Return what the rules say, without the look that this test is about."""
    return [error for error in typed._errors(pod) if typed.is_needed(error)]


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return (holder, key) of everything in a manifest."""
    keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def _change(manifest: Json, draw: random.Random) -> None:
    holder, key = draw.choice(_places({name: manifest[name] for name in ("metadata", "spec")}))
    way = draw.randrange(6)
    inner = holder[key]
    if way == 0:
        del holder[key]
    elif way == 1 and isinstance(inner, list) and inner:
        inner.append(copy.deepcopy(draw.choice(inner)))
    elif way <= 3 and isinstance(inner, dict):
        inner[draw.choice([*KEYS, *TEXTS])] = copy.deepcopy(draw.choice(VALUES))
    else:
        holder[key] = copy.deepcopy(draw.choice(VALUES))


def test_plain_pods_break_no_rule() -> None:
    """Each plain one of 4,000 pods with one to three random changes passes every rule; many are plain, many not."""
    draw, plain, broken = random.Random(27), 0, 0
    for _ in range(4000):
        manifest = copy.deepcopy(PLAIN)
        for _ in range(draw.randint(1, 3)):
            _change(manifest, draw)
        pod = _typed(manifest)
        if pod is None:
            continue
        errors = _broken(pod)
        assert not (is_plain(pod) and errors), (
            f"{errors[0].path}: {errors[0].message}\n{msgspec.json.encode(manifest)!r}"
        )
        plain += is_plain(pod)
        broken += bool(errors)
    assert plain > 500
    assert broken > 500


@pytest.mark.parametrize("without", [None, *PLAIN["spec"]])
def test_usual_fields_are_looked_at(without: str | None) -> None:
    """A pod with all the usual fields is plain, and without any one of them but its containers."""
    manifest = copy.deepcopy(PLAIN)
    manifest["spec"].pop(without, None)
    pod = _typed(manifest)
    assert pod is not None
    assert is_plain(pod) == (without != "containers")


@pytest.mark.parametrize("labels", [[], MACHINES["nodeSelectorTerms"][0]["matchExpressions"]])
@pytest.mark.parametrize(("name", "allowed"), [("n-1", True), ("Not_Ok", False)])
def test_terms_about_the_name_of_a_node_are_checked(labels: list[Json], name: str, allowed: bool) -> None:
    """With requirements on labels beside them, and without."""
    field = {"key": "metadata.name", "operator": "In", "values": [name]}
    terms = {"nodeSelectorTerms": [{"matchExpressions": labels, "matchFields": [field]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    pod = _typed({**PLAIN, "spec": {**PLAIN["spec"], "affinity": affinity}})
    assert pod is not None
    assert is_plain(pod) == (not _broken(pod)) == allowed


SPREAD: Json = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", **TERM}
OF_SPREAD = (*SPREAD, "minDomains", "matchLabelKeys", "nodeAffinityPolicy", "nodeTaintsPolicy")
SELECTORS: list[Json] = [
    {"matchLabels": {"a b": "c"}},
    {"matchLabels": {"app": "-"}},
    {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
    {"matchExpressions": [{"key": "app", "operator": "Is"}]},
]


def test_plain_spread_constraints_break_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever one field of the only constraint says; the usual constraint is not checked rule by rule."""
    checked: list[object] = []
    keeps = plain_pods._keeps

    def noted(name: str, part: object) -> bool:
        checked.append(part)
        return keeps(name, part)

    monkeypatch.setattr(plain_pods, "_keeps", noted)
    for field in OF_SPREAD:
        for value in (*VALUES, "DoNotSchedule", "Honor", ["app"], *SELECTORS):
            spec = {"containers": [{"name": "main"}], "topologySpreadConstraints": [{**SPREAD, field: value}]}
            pod = _typed({**PLAIN, "spec": spec})
            if pod is not None:
                assert is_plain(pod) == (not _broken(pod)), (field, value)
    checked.clear()
    pod = _typed({**PLAIN, "spec": {"containers": [{"name": "main"}], "topologySpreadConstraints": [SPREAD]}})
    assert pod is not None
    assert is_plain(pod)
    assert not checked
