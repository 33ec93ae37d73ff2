"""How a plan is made of what it is asked with: configurations, plugins, times; and clusters of every source.

Both sides of each bound; what a plan comes to is in test_python_api.py.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import reprieve
from reprieve.framework.configuration import ConfigurationError
from reprieve.framework.gates import FeatureGates
from reprieve.python import configuration
from reprieve.python.cluster import Cluster
from reprieve.python.configuration import plan_options, read_configuration
from reprieve.simulation.workloads.rows import MOST_BYTES
from tests import manifests

FORM: dict[str, Any] = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
TEXT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def node(name: str, **allocatable: Any) -> dict[str, Any]:
    room = {"cpu": 4, "pods": 9, **allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": room}}


def pod(name: str, cpu: str = "1", **more: Any) -> dict[str, Any]:
    return manifests.pod(name, cpu, meta={"namespace": "default"}, **more)


# -- configurations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"", "expected one document, found 0"),
        (f"{TEXT}---\n{TEXT}".encode(), "expected one document, found 2"),
        (b"\xff\xfe", "not UTF-8 text"),
        (b"a: 1\nb: [\n", "line "),
        (TEXT.encode() + b"#" * (configuration.MAX_CONFIGURATION_BYTES - len(TEXT) + 1), "larger than 1048576 bytes"),
    ],
)
def test_file_that_is_no_configuration_is_named(tmp_path: Path, content: bytes, reported: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(content)
    with pytest.raises(reprieve.InputError) as refused:
        read_configuration(file)
    assert str(refused.value).startswith(f"{file}: {reported}")


def test_configuration_may_be_as_large_as_its_bound_and_begin_with_a_mark(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_bytes(TEXT.encode() + b"#" * (configuration.MAX_CONFIGURATION_BYTES - len(TEXT)))
    assert read_configuration(file) == read_configuration(str(file))
    file.write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    assert read_configuration(file).profiles == ()
    with pytest.raises(reprieve.InputError, match="null byte"):
        read_configuration("a\0b")
    file.write_text("kind: Pod\n")
    with pytest.raises(ConfigurationError):
        read_configuration(file)


def test_configuration_is_in_the_options() -> None:
    plain = plan_options()
    assert (plain.first_decision, plain.seed) == (False, None)
    assert (plain.warnings, plain.on_object) == ((), None)
    given = plan_options(
        {**FORM, "podInitialBackoffSeconds": 3, "podMaxBackoffSeconds": 7}, first_decision=True, seed=5
    )
    assert (given.timing.initial_backoff, given.timing.max_backoff) == (3.0, 7.0)
    assert (given.first_decision, given.seed, given.any_scheduler) == (True, 5, False)
    assert (given.warnings, given.on_object) == ((), None)
    assert plan_options(compatible=True).any_scheduler
    gates = FeatureGates(generic_workload=False)
    assert plan_options(gates=gates).gates == plan_options(FORM, gates=gates).gates == gates
    quick = plan_options(first_decision=True, seed=6)
    assert (quick.first_decision, quick.seed) == (True, 6)


EXTENDED = {**FORM, "extenders": [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter"}]}


def test_extenders_are_called_on_demand_alone_and_else_there_is_a_warning() -> None:
    silent = plan_options(EXTENDED)
    reported = "<configuration>: its extenders are not called, so the answer may differ from the live scheduler"
    assert (silent.warnings, silent.on_object) == ((reported,), None)
    assert plan_options(EXTENDED, not_asked="{} is left out").warnings == ("<configuration> is left out",)
    asking = plan_options(EXTENDED, call_extenders=True)
    assert asking.warnings == ()
    assert asking.on_object is not None
    assert plan_options(FORM, call_extenders=True).on_object is None


@pytest.mark.parametrize(
    ("config", "reported"),
    [
        ({**FORM, "profiles": 3}, "<configuration>: profiles: "),
        ({**FORM, "profiles": [{"plugin": {}}]}, "<configuration>: profiles[0].plugin: unknown field"),
        ({"kind": "X"}, "<configuration>: "),
    ],
)
def test_error_of_a_configuration_names_its_field(config: dict[str, Any], reported: str) -> None:
    with pytest.raises(reprieve.InputError) as refused:
        plan_options(config)
    assert str(refused.value).startswith(reported)


# -- plans ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"config": FORM},
        {"plugins": ["a:B"]},
        {"feature_gates": "A=true"},
        {"compatible": True},
        {"first_decision": True},
        {"seed": 1},
        {"now": 1.0},
    ],
)
def test_options_and_what_they_are_made_of_exclude_each_other(more: dict[str, Any]) -> None:
    with pytest.raises(TypeError, match="not both"):
        reprieve.plan(reprieve.load(node("n1")), reprieve.PlanOptions(), **more)


def test_options_alone_and_defaults_beside_them_are_fine() -> None:
    cluster = reprieve.load(node("n1"), pod("p"))
    same: dict[str, Any] = {"config": None, "plugins": (), "feature_gates": "", "compatible": False, "seed": None}
    assert reprieve.plan(cluster, reprieve.PlanOptions(), **same).placements == {"default/p": "n1"}
    assert reprieve.plan(cluster.manifests).placements == {"default/p": "n1"}


def test_gates_that_change_nothing_are_warnings_of_the_answer() -> None:
    answer = reprieve.load(node("n1"), pod("p")).plan(feature_gates="DRAAdminAccess=true")
    assert answer.warnings == ("feature gate DRAAdminAccess is kube-scheduler's; it changes nothing here",)
    assert reprieve.load(node("n1"), pod("p")).plan(feature_gates=FeatureGates()).warnings == ()


def test_time_is_one_moment_in_every_zone() -> None:
    cluster = reprieve.load(node("n1"), pod("p"))
    utc = datetime(2030, 1, 1, tzinfo=UTC)
    east = utc.astimezone(timezone(timedelta(hours=5)))
    answers = [cluster.plan(now=when).placements for when in (utc, east, utc.timestamp())]
    assert answers == [{"default/p": "n1"}] * 3


class Seen:
    """An observer that notes what it is notified of."""

    def __init__(self) -> None:
        self.attached: list[object] = []
        self.reported: list[float] = []

    def attach(self, engine: object) -> None:
        self.attached.append(engine)

    def decided(self, decision: object, *, seconds: float, now: float) -> None:
        assert seconds >= 0
        self.reported.append(now)


def test_observer_is_notified_of_each_decision() -> None:
    seen = Seen()
    options = reprieve.PlanOptions(observer=seen, now=2e9)
    reprieve.plan(reprieve.load(node("n1"), pod("p"), pod("q")), options, suggest=False)
    assert len(seen.attached) == 1
    assert seen.reported == [2e9, 2e9]


def test_help_is_searched_for_unless_it_is_not_wanted() -> None:
    cluster = reprieve.load(node("n1"), pod("huge", "3"), pod("other", "3"))
    assert cluster.plan(suggest=False).help == {}
    found = cluster.plan()
    [(helped, helps)] = found.help.items()
    assert helped in ("Pod default/huge", "Pod default/other")
    assert helps
    assert not found.all_placed
    assert list(found.waiting) == [helped.removeprefix("Pod ")]


# -- tables --------------------------------------------------------------------------------------------------------


def test_tables_of_a_cluster_are_sorted_and_name_every_resource() -> None:
    cluster = reprieve.load(
        node("n2", memory="1Gi"),
        node("n1"),
        pod("b", nodeName="n1", priority=4),
        pod("a"),
        pod("done", nodeName="n1", phase="Succeeded"),
        pod("c", nodeName="n2", phase="Pending"),
    )
    nodes = cluster.table("nodes")
    assert nodes.columns == ("node", "running_pods", "unschedulable", "cpu", "memory", "pods")
    assert nodes.rows == [("n1", 1, False, "4", None, "9"), ("n2", 1, False, "4", "1Gi", "9")]
    assert cluster.table().rows == [
        ("default", "a", None, 0, "Pending"),
        ("default", "b", "n1", 4, "Running"),
        ("default", "c", "n2", 0, "Running"),
        ("default", "done", "n1", 0, "Succeeded"),
    ]
    assert cluster.pods == {"default/a": None, "default/b": "n1", "default/c": "n2"}
    assert repr(cluster) == "<Cluster: 2 nodes, 2 pods running, 1 waiting>"
    assert repr(cluster.cordon("n1")) == "<Cluster: 2 nodes, 2 pods running, 1 waiting, 1 change>"


def test_victims_are_listed_by_decision_with_why_they_have_to_go() -> None:
    cluster = reprieve.load(node("n1"), pod("low", "3", nodeName="n1", priority=1), pod("high", "3", priority=5))
    answer = cluster.plan()
    table = answer.table("victims")
    assert table.columns[:4] == ("preemption", "preemptor", "namespace", "name")
    [row] = table.rows
    assert row[:4] == (0, "Pod default/high", "default", "low")
    assert row[5:8] == ("n1", 1, False)
    assert str(row[8]).startswith("default/high would not fit on n1: ")
    assert repr(answer) == "<PlanResult: 1 placed, 0 waiting, 1 pod evicted>"
    assert answer.table("groups").rows == []
    with pytest.raises(ValueError, match='"x": expected pods, victims or groups'):
        answer.table("x")  # type: ignore[arg-type]


# -- clusters ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "reported"),
    [
        (b"\xff", "not UTF-8 text"),
        (b"#" * (MOST_BYTES + 1), f"larger than {MOST_BYTES} bytes"),
        (b"#" * MOST_BYTES, ""),
    ],
)
def test_file_of_kinds_is_bounded(tmp_path: Path, content: bytes, reported: str) -> None:
    file = tmp_path / "kinds.yaml"
    file.write_bytes(content)
    with pytest.raises(reprieve.InputError) as refused:
        reprieve.load(node("n1"), workload_kinds=file)
    assert str(refused.value).startswith(f"{file}: {reported}")
    assert ("larger" in str(refused.value)) == ("larger" in reported)


def test_manifests_that_are_read_already_are_a_cluster_by_themselves() -> None:
    cluster = reprieve.load(node("n1"))
    nested: Any = [cluster.manifests]
    assert reprieve.load(cluster.manifests).nodes == ("n1",)
    with pytest.raises(TypeError, match="give them alone"):
        reprieve.load(cluster.manifests, node("n2"))
    with pytest.raises(TypeError, match="give them alone"):
        reprieve.load(nested)
    assert Cluster().nodes == ()


def test_objects_are_named_by_their_number_among_all_sources() -> None:
    """Texts and plain data, in sequences too."""
    with pytest.raises(reprieve.InputError, match="<object 3>"):
        reprieve.load(node("n1"), [node("n2"), "a: [\n"])
    nested: Any = [node("n2"), [node("n1")]]
    assert reprieve.load(nested, b'{"apiVersion": "v1", "kind": "List", "items": []}').nodes == (
        "n1",
        "n2",
    )


def test_cluster_with_more_is_another_one() -> None:
    """What was there stays as it is, also in what was made of it before."""
    first = reprieve.load(node("n1"))
    second = first.with_manifests(node("n2"), pod("p", nodSelector={}))
    assert (first.nodes, first.pods, first.warnings) == (("n1",), {}, ())
    assert (second.nodes, second.pods) == (("n1", "n2"), {"default/p": None})
    assert len(second.warnings) == 1
    assert "nodSelector" in second.warnings[0]
    assert second.cordon("n1").with_manifests(node("n3")).drain("n2").changes == tuple(
        second.cordon("n1").drain("n2").changes
    )


def test_html_shows_pending_pods_and_no_ended_ones() -> None:
    cluster = reprieve.load(
        node("n1"),
        pod("waits"),
        pod("ran-well", phase="Succeeded"),
        pod("ran-badly", phase="Failed"),
        pod("runs", nodeName="n1"),
    )
    found = cluster._repr_html_().partition("Waiting pods")[2]
    assert [name for name in ("waits", "ran-well", "ran-badly", "runs") if f"<td>{name}</td>" in found] == ["waits"]


def test_why_a_pod_waits_is_its_message_or_its_reason() -> None:
    """The message; where there is none the reason, and where there is none of both how it ended."""
    gated = pod("gated", schedulingGates=[{"name": "g"}])
    found = reprieve.load(node("n1"), pod("huge", "99"), gated).plan(suggest=False)
    assert "Insufficient cpu" in found.waiting["default/huge"]
    assert set(found.waiting) == {"default/huge", "default/gated"}
    assert all(found.waiting.values())
