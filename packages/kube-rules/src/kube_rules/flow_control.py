"""The FlowSchemas and PriorityLevelConfigurations of every API server, as facts of the API.

Source: the bootstrap objects of kube-apiserver 1.36. The first two of each are mandatory: their specs do not change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from kube_rules.json import Json

VERSION: Final = "flowcontrol.apiserver.k8s.io/v1"
AUTO_UPDATE: Final = "apf.kubernetes.io/autoupdate-spec"
_LEVELS: Final = {
    # name: nominalConcurrencyShares, lendablePercent, queues, handSize (0 queues: excess requests are rejected)
    "catch-all": (5, 0, 0, 0),
    "system": (30, 33, 64, 6),
    "node-high": (40, 25, 64, 6),
    "leader-election": (10, 0, 16, 4),
    "workload-high": (40, 50, 128, 6),
    "workload-low": (100, 90, 128, 6),
    "global-default": (20, 50, 128, 6),
}
_QUEUE_LENGTH: Final = 50
_ALL_USERS: Final = ("system:unauthenticated", "system:authenticated")
_KUBE_SYSTEM: Final = {"kind": "ServiceAccount", "serviceAccount": {"name": "*", "namespace": "kube-system"}}
_LEASES: Final = (("coordination.k8s.io",), ("leases",))


def _level(name: str) -> Json:
    if name == "exempt":
        return {"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}
    shares, lendable, queues, hand = _LEVELS[name]
    response: Json = {"type": "Reject"}
    if queues:
        queuing = {"queues": queues, "handSize": hand, "queueLengthLimit": _QUEUE_LENGTH}
        response = {"type": "Queue", "queuing": queuing}
    limited = {"nominalConcurrencyShares": shares, "lendablePercent": lendable, "limitResponse": response}
    return {"type": "Limited", "limited": limited}


def _groups(*names: str) -> list[Json]:
    return [{"kind": "Group", "group": {"name": name}} for name in names]


def _users(*names: str) -> list[Json]:
    return [{"kind": "User", "user": {"name": name}} for name in names]


def _resources(
    verbs: Iterable[str], groups: Iterable[str], resources: Iterable[str], *, cluster_scope: bool = False
) -> Json:
    rule: Json = {"verbs": [*verbs], "apiGroups": [*groups], "resources": [*resources], "namespaces": ["*"]}
    return {**rule, "clusterScope": True} if cluster_scope else rule


_ANYTHING: Final = {
    "resourceRules": [_resources("*", "*", "*", cluster_scope=True)],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
}


def _schema(level: str, precedence: int, method: str, subjects: list[Json], rules: Json = _ANYTHING) -> Json:
    spec: Json = {
        "priorityLevelConfiguration": {"name": level},
        "matchingPrecedence": precedence,
        "rules": [{"subjects": subjects, **rules}],
    }
    if method:
        spec["distinguisherMethod"] = {"type": method}
    return spec


PRIORITY_LEVELS: Final[Mapping[str, Json]] = {name: _level(name) for name in ("exempt", *_LEVELS)}
"""PriorityLevelConfiguration name -> spec."""

FLOW_SCHEMAS: Final[Mapping[str, Json]] = {
    "exempt": _schema("exempt", 1, "", _groups("system:masters")),
    "catch-all": _schema("catch-all", 10000, "ByUser", _groups(*_ALL_USERS)),
    "probes": _schema(
        "exempt",
        2,
        "",
        _groups(*_ALL_USERS),
        {"nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}]},
    ),
    "system-leader-election": _schema(
        "leader-election",
        100,
        "ByUser",
        [*_users("system:kube-controller-manager", "system:kube-scheduler"), _KUBE_SYSTEM],
        {"resourceRules": [_resources(("get", "create", "update"), *_LEASES)]},
    ),
    "system-node-high": _schema(
        "node-high",
        400,
        "ByUser",
        _groups("system:nodes"),
        {
            "resourceRules": [
                _resources("*", ("",), ("nodes", "nodes/status"), cluster_scope=True),
                _resources("*", *_LEASES),
            ]
        },
    ),
    "system-nodes": _schema("system", 500, "ByUser", _groups("system:nodes")),
    "kube-controller-manager": _schema("workload-high", 800, "ByNamespace", _users("system:kube-controller-manager")),
    "kube-scheduler": _schema("workload-high", 800, "ByNamespace", _users("system:kube-scheduler")),
    "kube-system-service-accounts": _schema("workload-high", 900, "ByNamespace", [_KUBE_SYSTEM]),
    "service-accounts": _schema("workload-low", 9000, "ByUser", _groups("system:serviceaccounts")),
    "global-default": _schema("global-default", 9900, "ByUser", _groups(*_ALL_USERS)),
}
"""FlowSchema name -> spec."""

MANDATORY: Final = ("exempt", "catch-all")
