"""CompositePodGroup and trees of templates as manifests (composite.md 1)."""

# ruff: noqa: E501 - one broken rule per line reads as a table

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from kube_rules.decoding import decode_object
from kube_rules.errors import InputError
from reprieve.inputs.loader import read

REF = {"workloadName": "w", "templateName": "t"}
BASIC: dict[str, Any] = {"basic": {}}


def composite(version: str = "scheduling.k8s.io/v1alpha3", **spec: Any) -> dict[str, Any]:
    spec = {"workloadRef": REF, "schedulingPolicy": BASIC, **spec}
    return {"apiVersion": version, "kind": "CompositePodGroup", "metadata": {"name": "c"}, "spec": spec}


def leaf(**spec: Any) -> dict[str, Any]:
    spec = {"schedulingPolicy": BASIC, **spec}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": "g"}, "spec": spec}


def template(name: str, *children: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A composite template with children, or a leaf template without."""
    made: dict[str, Any] = {"name": name, "schedulingPolicy": BASIC, **fields}
    flat = [child for child in children if child["name"].startswith("leaf")]
    tree = [child for child in children if not child["name"].startswith("leaf")]
    return {
        **made,
        **({"podGroupTemplates": flat} if flat else {}),
        **({"compositePodGroupTemplates": tree} if tree else {}),
    }


def workload(*tree: dict[str, Any], **spec: Any) -> dict[str, Any]:
    spec = {"compositePodGroupTemplates": list(tree), **spec}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "Workload", "metadata": {"name": "w"}, "spec": spec}


def levels(depth: int) -> dict[str, Any]:
    """A chain of composite templates above one leaf."""
    made = template("leaf")
    for level in range(depth - 1):
        made = template(f"level-{level}", made)
    return made


@pytest.mark.parametrize(
    "version",
    ["scheduling.k8s.io/v1alpha3", "scheduling.reprieve.dev/v1beta1", "scheduling.reprieve.dev/v1alpha3"],
)
def test_composite_is_read(version: str) -> None:
    """composite.md 1.1, 1.3: natively and as a custom resource of the same shape."""
    manifest = composite(
        version,
        parentCompositePodGroupName="root",
        schedulingPolicy={"gang": {"minGroupCount": 2}},
        schedulingConstraints={"topology": [{"key": "rack"}]},
        disruptionMode={"all": {}},
        priority=7,
        preemptionPolicy="Never",
    )
    found = decode_object(manifest)
    assert isinstance(found, objects.CompositePodGroup)
    assert found.key == "default/c"
    assert found.min_group_count == 2
    assert found.spec.parent_composite_pod_group_name == "root"
    assert found.spec.scheduling_constraints.topology[0].key == "rack"
    assert (found.spec.priority, found.spec.preemption_policy) == (7, "Never")


def test_default_mode_is_single() -> None:
    """composite.md 1.3."""
    found = decode_object(composite())
    assert isinstance(found, objects.CompositePodGroup)
    assert found.spec.disruption_mode == objects.DisruptionMode(single=objects.EMPTY)
    assert found.min_group_count is None


def test_class_gives_composites_and_templates_their_priority() -> None:
    """preemption.md 8.1 goes for every level."""
    classes = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    tree = template("root", template("leaf", priorityClassName="high"), priorityClassName="high")
    manifests = read([("", classes), ("", composite(priorityClassName="high")), ("", workload(tree))])
    assert manifests.of(objects.CompositePodGroup)[0].object.spec.priority == 9
    root = manifests.of(objects.Workload)[0].object.spec.composite_pod_group_templates[0]
    assert (root.priority, root.pod_group_templates[0].priority) == (9, 9)
    assert root.pod_group_templates[0].disruption_mode == objects.DisruptionMode(single=objects.EMPTY)


@pytest.mark.parametrize("depth", [2, 3, 4])
def test_trees_of_up_to_four_levels_are_read(depth: int) -> None:
    """composite.md 1.2: the pod groups are the last level."""
    assert isinstance(decode_object(workload(levels(depth))), objects.Workload)


@pytest.mark.parametrize(
    ("manifest", "message"),
    [
        (composite(workloadRef=None), "spec.workloadRef: Required value"),
        (composite(workloadRef={"workloadName": "w"}), "spec.workloadRef.templateName: Required value"),
        (
            composite(schedulingPolicy={}),
            'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
        ),
        (
            composite(schedulingPolicy={**BASIC, "gang": {"minGroupCount": 1}}),
            "must specify exactly one of: `basic`, `gang`",
        ),
        (composite(schedulingPolicy={"gang": {}}), "spec.schedulingPolicy.gang.minGroupCount: Required value"),
        (composite(schedulingPolicy={"gang": {"minGroupCount": -1}}), "must be greater than or equal to 1"),
        (composite(parentCompositePodGroupName="No_Name"), "spec.parentCompositePodGroupName: Invalid value"),
        (composite(priority=1_000_000_001), "spec.priority: Invalid value: 1000000001"),
        (composite(preemptionPolicy="Maybe"), "spec.preemptionPolicy: Unsupported value"),
        (composite(disruptionMode={}), 'spec.disruptionMode: Invalid value: "": must specify one of: `all`, `single`'),
        (composite(schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}), "must have at most 1 item"),
        (
            composite("scheduling.k8s.io/v1"),
            'no kind "CompositePodGroup" is read in version "scheduling.k8s.io/v1": use scheduling.k8s.io/v1alpha3',
        ),
        (leaf(parentCompositePodGroupName="c"), "spec.workloadRef: Required value"),
        (leaf(parentCompositePodGroupName="C!", workloadRef=REF), "spec.parentCompositePodGroupName: Invalid value"),
        (workload(), 'spec: Invalid value: "": must specify one of: `podGroupTemplates`'),
        (
            workload(template("root", template("leaf")), podGroupTemplates=[template("flat")]),
            "must specify exactly one of: `podGroupTemplates`, `compositePodGroupTemplates`",
        ),
        (
            workload(template("root")),
            'spec.compositePodGroupTemplates[0]: Invalid value: "root": must have at least one child PodGroupTemplate or CompositePodGroupTemplate',
        ),
        (workload(levels(5)), "maximum template hierarchy depth is 4"),
        (
            workload(template("root", template("leaf"), template("mid", template("leaf")))),
            'spec.compositePodGroupTemplates[0].compositePodGroupTemplates[0].podGroupTemplates[0].name: Duplicate value: "leaf"',
        ),
        (workload(template("root", template("leaf", priority=1))), "detected multiple values"),
        (
            workload(*(template(f"root-{i}", template(f"leaf-{i}")) for i in range(9))),
            "spec.compositePodGroupTemplates: Too many: 9",
        ),
        (
            workload(template("root", *(template(f"leaf-{i}") for i in range(9)))),
            "spec.compositePodGroupTemplates[0].podGroupTemplates: Too many: 9",
        ),
    ],
)
def test_texts_refused(manifest: dict[str, Any], message: str) -> None:
    """composite.md 1.2 to 1.4, with the field's path."""
    with pytest.raises(InputError) as caught:
        decode_object(manifest)
    assert message in str(caught.value)
