"""Templates of the groups of a Workload."""

from __future__ import annotations

from kube_rules.group_templates import templates


def test_templates_come_in_the_order_of_the_manifest_with_their_depth() -> None:
    inner = {"name": "inner", "podGroupTemplates": [{"name": "leaf"}], "compositePodGroupTemplates": [{"name": "deep"}]}
    spec = {
        "compositePodGroupTemplates": [inner, "x", {"name": "second", "podGroupTemplates": [7, {"name": "last"}]}],
        "podGroupTemplates": [{"name": "first", "podGroupTemplates": [{"name": "not looked at"}]}],
    }
    groups, composites = "podGroupTemplates", "compositePodGroupTemplates"
    assert [(one.holder["name"], one.place, one.composite, one.listed, one.level) for one in templates(spec)] == [
        ("first", f"spec.{groups}[0]", False, f"spec.{groups}", 1),
        ("inner", f"spec.{composites}[0]", True, f"spec.{composites}", 1),
        ("second", f"spec.{composites}[2]", True, f"spec.{composites}", 1),
        ("leaf", f"spec.{composites}[0].{groups}[0]", False, f"spec.{composites}[0].{groups}", 2),
        ("deep", f"spec.{composites}[0].{composites}[0]", True, f"spec.{composites}[0].{composites}", 2),
        ("last", f"spec.{composites}[2].{groups}[1]", False, f"spec.{composites}[2].{groups}", 2),
    ]
    assert list(templates({groups: None})) == []
