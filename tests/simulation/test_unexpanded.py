"""What is not planned is refused: trees of groups."""

from __future__ import annotations

import io
from typing import Any

import pytest
import yaml

from reprieve.api.errors import InputError
from reprieve.api.loading import Manifests, load
from reprieve.controlplane.unknown_fields import PackedSchemas
from reprieve.simulation.plan import plan

SCHEMAS = PackedSchemas()


def loaded(*documents: dict[str, Any]) -> Manifests:
    text = yaml.safe_dump_all(documents)
    return load(["-"], stdin=io.BytesIO(text.encode()), complete=False, schemas=SCHEMAS)


def made(version: str, kind: str, spec: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """An object named x of the kind; `owner`, `uid`, `labels` and `name` go into its metadata."""
    meta: dict[str, Any] = {"name": more.pop("name", "x")}
    owner = more.pop("owner", None)
    if owner is not None:
        version_, kind_, name = owner
        reference = {"apiVersion": version_, "kind": kind_, "name": name, "uid": "u-" + name, "controller": True}
        meta["ownerReferences"] = [reference]
    meta |= {key: more.pop(key) for key in ("uid", "labels") if key in more}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": spec or {}, **more}


FROM_A_WORKLOAD = {
    "schedulingPolicy": {"basic": {}},
    "workloadRef": {"workloadName": "w", "templateName": "t"},
}
TREES = [
    made("scheduling.k8s.io/v1alpha3", "CompositePodGroup", FROM_A_WORKLOAD),
    made("scheduling.reprieve.dev/v1beta1", "CompositePodGroup", FROM_A_WORKLOAD),
    made("scheduling.k8s.io/v1beta1", "PodGroup", {**FROM_A_WORKLOAD, "parentCompositePodGroupName": "root"}),
]


@pytest.mark.parametrize("document", TREES, ids=lambda document: document["kind"])
def test_trees_of_groups_are_refused(document: dict[str, Any]) -> None:
    """Planned as if it were flat, a leaf of a tree would get a wrong answer."""
    for documents in ([document], [{"apiVersion": "v1", "kind": "List", "items": [document]}]):
        with pytest.raises(InputError, match="trees of groups are not planned yet") as caught:
            plan(loaded(*documents))
        assert document["kind"] in caught.value.subject


def test_a_tree_in_a_scenario_is_refused() -> None:
    scenario = {
        "apiVersion": "reprieve.dev/v1alpha1",
        "kind": "Scenario",
        "spec": {"steps": [{"create": [TREES[2]]}]},
    }
    with pytest.raises(InputError, match="trees of groups are not planned yet"):
        plan(loaded(scenario))
