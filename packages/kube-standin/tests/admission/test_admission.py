"""Admission steps against the recorded answers of kube-apiserver 1.36 and the rules they cite."""

from typing import Any

import pytest

from kube_standin.admission import STEPS, admission_steps
from tests.admission.plane import Plane, pod, refused

Json = dict[str, Any]


def test_steps_can_be_left_out_by_name() -> None:
    assert len(admission_steps(None, off=("Priority", "ResourceQuota"))) == len(STEPS) - 2
    with pytest.raises(ValueError, match="unknown admission plugin Prio; known: LimitRanger"):
        admission_steps(None, off=("Prio",))


# -- service account, tolerations, node taint


def test_pod_gets_account_and_tolerations(plane: Plane) -> None:
    spec = plane.create(pod())["spec"]
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"
    assert spec["tolerations"] == [  # 538
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
        for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
    ]


def test_named_account_must_exist(plane: Plane) -> None:
    error = refused(plane, pod("x", serviceAccountName="robot"))
    assert error.message == (
        'pods "x" is forbidden: error looking up service account default/robot: serviceaccount "robot" not found'
    )
    plane.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "robot"}})
    assert plane.create(pod("x", serviceAccountName="robot"))["spec"]["serviceAccountName"] == "robot"


@pytest.mark.parametrize(
    ("toleration", "added"),
    [
        ({"operator": "Exists"}, []),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists"}, ["node.kubernetes.io/unreachable"]),
        (
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"],
        ),
    ],
)
def test_tolerations_given_are_kept(plane: Plane, toleration: Json, added: list[str]) -> None:
    made = plane.create(pod(tolerations=[toleration]))["spec"]["tolerations"]
    assert made[0] == toleration
    assert [one["key"] for one in made[1:]] == added


def test_new_node_is_tainted(plane: Plane) -> None:
    made = plane.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}})  # 115
    assert made["spec"]["taints"] == [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
