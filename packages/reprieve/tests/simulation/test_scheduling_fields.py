"""Groups of `spec.scheduling` of JobSets and LeaderWorkerSets (workloads.md 6)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import reprieve
from kube_rules.errors import InputError
from reprieve.simulation.workloads.expansion import Expansion, expand
from tests.cli.conftest import Run
from tests.simulation.test_workloads import TEMPLATE, loaded, made

Json = dict[str, Any]
GANG: Json = {"gang": {}}
BASIC: Json = {"basic": {}}
RACK = {"topology": [{"key": "rack"}]}


def job_set(scheduling: Any, **spec: Any) -> Json:
    """Two replicated jobs: `a` of one pod, `w` of two Jobs of three pods each."""
    jobs = [
        {"name": "a", "template": {"spec": {"template": TEMPLATE}}},
        {"name": "w", "replicas": 2, "template": {"spec": {"parallelism": 3, "completions": 3, "template": TEMPLATE}}},
    ]
    whole = {"scheduling": scheduling, "replicatedJobs": jobs, **spec}
    return made("jobset.x-k8s.io/v1alpha2", "JobSet", whole)


def lws(scheduling: Any, size: int = 3, **spec: Any) -> Json:
    """Two replicas of three pods."""
    template = {"size": size, "workerTemplate": TEMPLATE}
    whole = {"scheduling": scheduling, "replicas": 2, "leaderWorkerTemplate": template, **spec}
    return made("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", whole)


def target(*names: str, **fields: Any) -> Json:
    return {"targetReplicatedJobs": list(names), **fields}


def groups_of(found: Expansion) -> dict[str, tuple[int, int]]:
    """Name of each group: its minimum, 0 for a basic one, and how many pods name it."""
    named = [one.object.spec.scheduling_group for one in found.manifests.pods]
    names = [each.pod_group_name for each in named if each is not None]
    return {
        one.object.name: (one.object.min_count or 0, names.count(one.object.name)) for one in found.manifests.pod_groups
    }


@pytest.mark.parametrize(
    ("document", "groups"),
    [
        (job_set(None), {}),
        (job_set({}), {"x": (7, 7)}),
        (job_set({"schedulingPolicy": GANG}), {"x": (7, 7)}),
        (job_set({"schedulingPolicy": {"gang": {"minCount": 4}}}), {"x": (4, 7)}),
        (job_set({"schedulingPolicy": BASIC}), {"x": (0, 7)}),
        (job_set({}, startupPolicy={"startupPolicyOrder": "InOrder"}), {"x-a": (1, 1), "x-w": (6, 6)}),
        (job_set({}, startupPolicy={"startupPolicyOrder": "AnyOrder"}), {"x": (7, 7)}),
        (job_set({"replicatedJobs": [target("a", "w")]}), {"x-a-w": (7, 7)}),
        (
            job_set({"replicatedJobs": [target("a", schedulingPolicy=BASIC), target("w", schedulingPolicy=GANG)]}),
            {"x-a": (0, 1), "x-w": (6, 6)},
        ),
        (
            job_set({"replicatedJobs": [target("a"), target("w", job={})]}),
            {"x-a": (1, 1), "x-w-0": (3, 3), "x-w-1": (3, 3)},
        ),
        (lws(None), {}),
        (lws({}), {"x-0": (3, 3), "x-1": (3, 3)}),
        (lws({"replica": {}}), {"x-0": (3, 3), "x-1": (3, 3)}),
        (lws({"replica": {"schedulingConstraints": RACK}}), {"x-0": (3, 3), "x-1": (3, 3)}),
        (lws({"replica": {"schedulingPolicy": BASIC}}, startupPolicy="LeaderReady"), {"x-0": (0, 3), "x-1": (0, 3)}),
        (lws({"schedulingPolicy": GANG}), {"x": (6, 6)}),
        (lws({"schedulingConstraints": RACK}), {"x": (0, 6)}),
        (
            lws({"replica": {"worker": {"schedulingPolicy": GANG}}}, startupPolicy="LeaderReady"),
            {"x-0-leader": (0, 1), "x-0-worker": (2, 2), "x-1-leader": (0, 1), "x-1-worker": (2, 2)},
        ),
    ],
)
def test_which_groups_are_made(document: Json, groups: dict[str, tuple[int, int]]) -> None:
    """workloads.md 6.1 to 6.4."""
    found = expand(loaded(document))
    assert (groups_of(found), found.remarks) == (groups, [])


@pytest.mark.parametrize(
    "document",
    [
        job_set({"schedulingConstraints": RACK, "disruptionMode": {"all": {}}}),
        job_set({"replicatedJobs": [target("a", "w", schedulingConstraints=RACK, disruptionMode={"all": {}})]}),
        lws({"replica": {"schedulingConstraints": RACK, "disruptionMode": {"all": {}}}}),
    ],
)
def test_constraints_and_mode_are_those_of_the_groups(document: Json) -> None:
    """workloads.md 6.1."""
    for one in expand(loaded(document)).manifests.pod_groups:
        spec = one.object.spec
        assert [each.key for each in spec.scheduling_constraints.topology] == ["rack"]
        assert spec.disruption_mode is not None
        assert spec.disruption_mode.all is not None


def test_shared_claims_are_those_of_the_group_of_a_replicated_job_or_role() -> None:
    """workloads.md 6.1."""
    claims = [{"name": "c", "resourceClaimTemplateName": "t"}]
    for document in (
        job_set({"replicatedJobs": [target("a"), target("w", job={"resourceClaims": claims})]}),
        lws({"replica": {"worker": {"resourceClaims": claims}}}),
    ):
        made_of = {one.object.name: one.object for one in expand(loaded(document)).manifests.pod_groups}
        with_claims = sorted(name for name, group in made_of.items() if group.spec.resource_claims)
        assert with_claims == [name for name in sorted(made_of) if "w" in name]


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (job_set("x"), ""),
        (job_set({"schedulingPolicy": {}}), ".schedulingPolicy"),
        (job_set({"schedulingPolicy": {**GANG, **BASIC}}), ".schedulingPolicy"),
        (job_set({"schedulingPolicy": {"gang": {"minCount": 0}}}), ".schedulingPolicy.gang.minCount"),
        (job_set({"schedulingPolicy": {"gang": {"minCount": 8}}}), ".schedulingPolicy.gang.minCount"),
        (
            job_set({"schedulingPolicy": {"gang": {"minCount": 2}}}, startupPolicy={"startupPolicyOrder": "InOrder"}),
            ".schedulingPolicy.gang.minCount",
        ),
        (job_set({"schedulingPolicy": GANG, "replicatedJobs": [target("a", "w")]}), ".schedulingPolicy"),
        (job_set({"replicatedJobs": [target("a")]}), ".replicatedJobs"),
        (job_set({"replicatedJobs": [target()]}), ".replicatedJobs[0].targetReplicatedJobs"),
        (job_set({"replicatedJobs": [target("a", "b")]}), ".replicatedJobs[0].targetReplicatedJobs"),
        (job_set({"replicatedJobs": [{"targetReplicatedJobs": [{}]}]}), ".replicatedJobs[0].targetReplicatedJobs"),
        (job_set({"replicatedJobs": [target("a", "w"), target("a")]}), ".replicatedJobs[1].targetReplicatedJobs"),
        (job_set({"replicatedJobs": [target("a", "w", job={})]}), ".replicatedJobs[0].job"),
        (job_set({"replicatedJobs": [target("a", schedulingPolicy=GANG, job={})]}), ".replicatedJobs[0].job"),
        (
            job_set(
                {"replicatedJobs": [target("a"), target("w", job={"schedulingPolicy": {"gang": {"minCount": 4}}})]}
            ),
            ".replicatedJobs[1].job.schedulingPolicy.gang.minCount",
        ),
        (lws({"schedulingPolicy": GANG, "replica": {"schedulingPolicy": GANG}}), ""),
        (lws({"replica": {"schedulingPolicy": GANG, "worker": {}}}), ""),
        (lws({"replica": {"schedulingPolicy": {"gang": {"minGroupCount": 2}}}}), ".replica.schedulingPolicy.gang"),
        (lws({"replica": {"worker": {"schedulingPolicy": {"gang": {"minCount": 1}}}}}), ".replica.worker"),
    ],
)
def test_pods_that_their_admission_refuses(document: Json, path: str) -> None:
    """workloads.md 6.5: at its place."""
    with pytest.raises(InputError) as caught:
        expand(loaded(document))
    assert caught.value.path.startswith(f"spec.scheduling{path}")


@pytest.mark.parametrize("document", [lws({}, startupPolicy="LeaderReady"), lws({"replica": {"leader": {}}}, size=1)])
def test_gangs_that_could_never_run_are_refused(document: Json) -> None:
    """workloads.md 6.5."""
    with pytest.raises(InputError):
        expand(loaded(document))


def test_pods_of_one_group_have_one_class() -> None:
    """workloads.md 6.5."""
    document = job_set({})
    other = {"spec": {**TEMPLATE["spec"], "priorityClassName": "system-node-critical"}}
    document["spec"]["replicatedJobs"][0]["template"] = {"spec": {"template": other}}
    with pytest.raises(InputError, match="must have one priorityClassName"):
        expand(loaded(document))


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (job_set({"gangPolicy": {}}), "spec.scheduling.gangPolicy"),
        (job_set({"schedulingConstraints": {"level": 1}}), "spec.scheduling.schedulingConstraints.level"),
        (
            job_set({"replicatedJobs": [target("a", "w", priority=1)]}),
            "spec.scheduling.replicatedJobs[0].priority",
        ),
        (lws({"replica": {"resourceClaims": []}}), "spec.scheduling.replica.resourceClaims"),
        (
            lws({"replica": {"schedulingPolicy": {"gang": {"minCount": 3}}}}),
            "spec.scheduling.replica.schedulingPolicy.gang",
        ),
        (job_set({"schedulingPolicy": {"basic": {"pods": 1}}}), "spec.scheduling.schedulingPolicy.basic.pods"),
        (
            job_set({"schedulingConstraints": {"topology": [{"key": "rack", "level": 1}]}}),
            "spec.scheduling.schedulingConstraints.topology[0].level",
        ),
        (
            lws({"replica": {"disruptionMode": {"all": {"grace": 1}}}}),
            "spec.scheduling.replica.disruptionMode.all.grace",
        ),
        (job_set({"resourceClaims": []}), "spec.scheduling.resourceClaims"),
        (
            lws({"replica": {"worker": {"resourceClaims": [{"name": "c", "resourceClaimName": "c", "of": 1}]}}}),
            "spec.scheduling.replica.worker.resourceClaims[0].of",
        ),
    ],
)
def test_unread_fields_are_reported_and_refused_if_strict(document: Json, path: str, tmp_path: Path, run: Run) -> None:
    """workloads.md 6.6."""
    [remark] = expand(loaded(document)).remarks
    assert (remark.strict, remark.message.startswith(path)) == (True, True)
    file = tmp_path / "in.yaml"
    file.write_text(yaml.safe_dump(document))
    plain = run("plan", "-f", file)
    assert (plain.code, path in plain.err) == (0, True)
    strict = run("plan", "-f", file, "--strict")
    assert (strict.code, path in strict.err, strict.out) == (2, True, "")
    with pytest.raises(InputError, match="is ignored: not a field of"):
        reprieve.load(document, strict=True)


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (job_set({"replicatedJobs": "a"}), "spec.scheduling.replicatedJobs"),
        (job_set({"replicatedJobs": [{"targetReplicatedJobs": "a"}]}), "targetReplicatedJobs"),
    ],
)
def test_lists_have_to_be_lists(document: Json, path: str) -> None:
    """workloads.md 6.5."""
    with pytest.raises(InputError, match="must be a list") as refused:
        expand(loaded(document))
    assert path in str(refused.value)


def test_claims_of_a_level_that_has_none_are_not_used() -> None:
    """workloads.md 6.1, 6.6: they belong to the pods of one role or replicated job."""
    claims = [{"name": "c", "resourceClaimName": "shared"}]
    for document in (job_set({"resourceClaims": claims}), lws({"replica": {"resourceClaims": claims}})):
        found = expand(loaded(document))
        assert [
            one.object.spec.resource_claims for one in found.manifests.pod_groups if one.object.spec.resource_claims
        ] == []
