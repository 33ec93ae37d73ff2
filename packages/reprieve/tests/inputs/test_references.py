"""Rules between the objects of one input: duplicates, which nodes have to be there, which groups were admitted
by an older server.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.errors import InputError
from reprieve.inputs.loader import read
from tests import manifests

GROUP: dict[str, Any] = {
    "apiVersion": "scheduling.k8s.io/v1beta1",
    "kind": "PodGroup",
    "metadata": {"name": "g"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 1}}},
}
OLD = {**GROUP, "spec": {"schedulingPolicy": {"basic": {}}, "disruptionMode": {"all": {}}}}
FOREIGN = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": {}}
COSCHEDULING = {**FOREIGN, "apiVersion": "scheduling.x-k8s.io/v1alpha1"}
NODE = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}


def pod(name: str = "p", namespace: str = "default", status: str = "", uid: str = "", **spec: Any) -> dict[str, Any]:
    meta = {"namespace": namespace, **({"uid": uid} if uid else {})}
    return manifests.pod(name, phase=status or "Pending", meta=meta, **spec)


def error(*documents: dict[str, Any], complete: bool = True) -> str:
    try:
        read([(f"f{number}", document) for number, document in enumerate(documents)], complete=complete)
    except InputError as caught:
        return str(caught)
    return ""


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (pod(), pod(), True),
        (pod(), pod("q"), False),
        (pod(), pod(namespace="n"), False),
        (pod("n"), NODE, False),
        (NODE, NODE, True),
        (GROUP, GROUP, True),
        (GROUP, FOREIGN, False),  # another API has names of its own
        (FOREIGN, FOREIGN, True),
        (FOREIGN, COSCHEDULING, False),
    ],
)
def test_second_of_one_kind_namespace_and_name_is_refused(
    one: dict[str, Any], other: dict[str, Any], same: bool
) -> None:
    found = error(one, other)
    assert ("Duplicate value" in found) is same
    if same:
        assert found.startswith("f1: ")
        assert found.endswith("already defined in f0")


@pytest.mark.parametrize(
    ("documents", "complete", "refused"),
    [
        ([NODE, pod(nodeName="n")], True, False),
        ([pod(nodeName="n"), NODE], True, False),
        ([NODE, pod(nodeName="m")], True, True),
        ([pod(nodeName="m")], False, False),
        ([pod(nodeName="m", status="Succeeded")], True, False),
        ([pod(nodeName="m", status="Failed")], True, False),
        ([pod(nodeName="m", status="Running")], True, True),
        ([pod()], True, False),
    ],
)
def test_pod_is_bound_to_a_node_of_the_input(documents: list[dict[str, Any]], complete: bool, refused: bool) -> None:
    found = error(*documents, complete=complete)
    assert ("no Node with this name is in the input" in found) is refused
    assert ("spec.nodeName" in found) is refused


MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": "g"}}


@pytest.mark.parametrize(
    ("documents", "refused"),
    [
        ([OLD], True),
        ([OLD, pod(**MEMBER)], True),
        ([OLD, NODE, pod(nodeName="n", **MEMBER)], False),
        ([OLD, pod(uid="u", **MEMBER)], False),
        ([OLD, pod(uid="u")], True),
        ([OLD, pod(uid="u", namespace="other", **MEMBER)], True),
        ([{**OLD, "metadata": {"name": "g", "uid": "u"}}], False),
        ([{**OLD, "metadata": {"name": "g", "resourceVersion": "1"}}], True),
    ],
)
def test_group_that_an_older_server_admitted_stays(documents: list[dict[str, Any]], refused: bool) -> None:
    """It has a UID, or a pod that names it is bound or has one (preemption.md)."""
    assert ("spec.disruptionMode: Forbidden" in error(*documents)) is refused
