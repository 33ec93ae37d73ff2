"""Groups that Jobs ask for: their size."""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules.controllers.job_groups import group_of_job


@pytest.mark.parametrize(
    ("parallelism", "completions", "annotated", "by_field"),
    [(3, None, 3, 3), (3, 2, 2, 3), (2, 3, 2, 2), (0, None, 1, 1), (0, 0, 1, 1), (1, 0, 1, 1)],
)
def test_how_many_pods_a_gang_needs(parallelism: int, completions: int | None, annotated: int, by_field: int) -> None:
    """KEP-5547: the field counts the parallelism; the annotation no more pods than are to complete."""
    spec: dict[str, Any] = {"parallelism": parallelism} | ({} if completions is None else {"completions": completions})
    meta = {"name": "j", "annotations": {"reprieve.dev/pod-group": "true"}}
    group = group_of_job({"metadata": meta, "spec": spec})
    assert group is not None
    assert (group.name, group.spec) == ("j", {"schedulingPolicy": {"gang": {"minCount": annotated}}})
    field: dict[str, Any] = {"scheduling": {"schedulingPolicy": {"gang": {}}}}
    group = group_of_job({"metadata": meta, "spec": spec | field})
    assert group is not None
    assert group.spec == {"schedulingPolicy": {"gang": {"minCount": by_field}}}
