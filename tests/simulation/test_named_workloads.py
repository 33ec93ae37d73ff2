"""What `KIND/NAME` names, and what belongs to it (whatif.md 4.1, 4.8, 4.10)."""

from __future__ import annotations

import pytest

from reprieve.api.errors import InputError
from reprieve.simulation.workloads.expanding import expand
from reprieve.simulation.workloads.rows import read_rows
from reprieve.simulation.workloads.scaling import makers_named, makes_pods_by_name
from reprieve.simulation.workloads.table import TABLE

from .test_changes import DEPLOYMENT, ROWS, Json, loaded, made, names, node, of_kind, pod

NODES = (node("n1"), node("n2"))


@pytest.mark.parametrize(
    ("given", "found"),
    [
        ("deployment/web", ("Deployment", "", "default", "web")),
        ("deploy/web", ("Deployment", "", "default", "web")),
        ("Deployments/web", ("Deployment", "", "default", "web")),
        ("deployments.apps/web", ("Deployment", "apps", "default", "web")),
        ("team/deployment/web", ("Deployment", "", "team", "web")),
        ("team/rs/web", ("ReplicaSet", "", "team", "web")),
        ("pytorchjob/pt/worker", ("PyTorchJob", "", "default", "pt")),
        ("team/pytorchjob/pt/worker", ("PyTorchJob", "", "team", "pt")),
        (" job/j ", ("Job", "", "default", "j")),
        ("vcjob/j", ("Job", "batch.volcano.sh", "default", "j")),
        ("deployment.example.com/web", None),
        ("pod/web", None),
        ("widget/w", None),
        ("deployment", None),
        ("deployment/", None),
        ("team/deployment", None),
        ("", None),
    ],
)
def test_what_makes_pods_and_is_named(given: str, found: tuple[str, str, str, str] | None) -> None:
    """Before a cluster is read: what is to be read of it with its template."""
    assert makers_named(given) == ([found] if found else [])


@pytest.mark.parametrize(
    ("kind", "makes"),
    [
        ("deploy", True),
        ("Jobs", True),
        ("sts", True),
        ("jobset", True),
        ("pod", False),
        ("nodes", False),
        ("sweep", False),
        ("", False),
    ],
)
def test_which_kinds_make_pods(kind: str, makes: bool) -> None:
    assert makes_pods_by_name(kind) is makes
    rows = TABLE.with_more(read_rows("rows.yaml", ROWS))
    assert makes_pods_by_name(kind, rows) is (makes or kind == "sweep")


@pytest.mark.parametrize("short", ["deploy", "deployments", "deployment.apps", "Deployment", "default/deployment"])
def test_a_kind_may_be_said_in_several_ways(short: str) -> None:
    assert len(names(made(loaded(*NODES, DEPLOYMENT), f"scale {short}/web=5"))) == 5


def test_only_what_belongs_to_a_name_is_scaled_or_gone() -> None:
    """A Deployment, a StatefulSet and a Job of one name each have their own pods; others have nothing to do with it."""
    labels: Json = {"labels": {"pod-template-hash": "5d4"}}
    pods = (
        pod("w-5d4-aaaax", on="n1", owner="ReplicaSet w-5d4", **labels),
        pod("w-0", on="n1", owner="StatefulSet w"),
        pod("w-bbbbb", on="n1", owner="Job w"),
        pod("other", on="n2"),
    )
    given = loaded(*NODES, *pods)
    for kind, own in (("deployment", "w-5d4-aaaax"), ("statefulset", "w-0"), ("job", "w-bbbbb")):
        rest = sorted({"w-5d4-aaaax", "w-0", "w-bbbbb", "other"} - {own})
        assert names(made(given, f"scale {kind}/w=0")) == rest
        assert names(made(given, f"without {kind}/w")) == rest
        assert {
            one.object.name: one.object.spec.priority for one in made(given, f"set-priority {kind}/w=7").manifests.pods
        } == {
            **dict.fromkeys(rest, 0),
            own: 7,
        }


def test_things_that_make_no_pods_are_as_if_they_had_never_been_there() -> None:
    budget: Json = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }
    widgets = [of_kind("example.com/v1", "Widget", name) for name in ("one", "two")]
    given = loaded(*NODES, budget, *widgets)
    assert [one.manifest["metadata"]["name"] for one in made(given, "without widget/one").manifests.unknown] == ["two"]
    assert [one.object.name for one in made(given, "without pdb/b").manifests.all()] == ["n1", "n2"]
    with pytest.raises(InputError, match="no widget default/three is in the input"):
        made(given, "without widget/three")


def test_a_run_of_a_cron_job_has_a_name_that_a_job_may_have() -> None:
    """As its controller names it: at most 52 characters of its own, and the minute."""
    template: Json = {"spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}}
    for length in (1, 52):
        cron = of_kind("batch/v1", "CronJob", "c" * length, schedule="* * * * *", jobTemplate=template)
        found = expand(loaded(*NODES, cron), run=["c" * length])
        [one] = found.manifests.pods
        [owner] = one.object.metadata.owner_references
        assert (owner.kind, owner.name.rpartition("-")[0]) == ("Job", "c" * length)
        assert one.object.name == f"{f'{owner.name}-'[:58]}00000", "as generateName cuts it"
