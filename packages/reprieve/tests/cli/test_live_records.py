"""`explain` and `history` of a live cluster: which cluster and namespace, and how each failure ends the command.

What is read of a server is in test_evidence.py; here it is given.
"""

from __future__ import annotations

from typing import Any

import pytest

from kube_rules import objects
from reprieve.cli import evidence
from reprieve.cli.evidence import Evidence, ExplainTarget, OwnerEvidence
from reprieve.client.connection import Connection
from reprieve.client.errors import ConfigError, UnreachableError
from reprieve.decisions.records import DecisionRecord, EntityReference
from tests.cli.conftest import Ended, Run
from tests.cli.test_demo_acts import MADE
from tests.cli.test_explain_text import record
from tests.cli.test_live_questions import live as live

CONNECTION = Connection(server="https://here", source="test", namespace="ours")


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str | None, str | None]]:
    """With which kubeconfig and context a connection was made."""
    asked: list[tuple[str | None, str | None]] = []

    def connect(kubeconfig: str | None = None, context: str | None = None) -> Connection:
        asked.append((kubeconfig, context))
        return CONNECTION

    monkeypatch.setattr("reprieve.client.kubeconfig.connect", connect)
    return asked


class Cluster:
    """What `explain` was asked, and what it finds: a pod that waits, unless there is none."""

    def __init__(self) -> None:
        self.asked: list[tuple[ExplainTarget, str | None, bool]] = []
        self.owners: list[OwnerEvidence | None] = []
        self.exists = True
        self.records: list[DecisionRecord] = []
        self.warnings: list[str] = []
        self.error: Exception | None = None

    async def gather(
        self,
        connection: Connection,
        asked: ExplainTarget,
        records: str | None,
        *,
        owner: OwnerEvidence | None,
        suggest: bool,
    ) -> Evidence:
        assert connection is CONNECTION
        self.asked.append((asked, records, suggest))
        self.owners.append(owner)
        if self.error is not None:
            raise self.error
        pod = objects.Pod(metadata=objects.ObjectMeta(name=asked.name, namespace=asked.namespace))
        found = Evidence(asked, pod=pod if self.exists else None, records=self.records, warnings=self.warnings)
        found.source = "http://s" if self.records else ""
        return found


@pytest.fixture
def cluster(connected: object, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    found = Cluster()
    monkeypatch.setattr(evidence, "gather", found.gather)
    return found


@pytest.mark.parametrize(
    ("arguments", "asked"),
    [
        (("pod", "p"), ExplainTarget("Pod", "ours", "p")),
        (("pods/p",), ExplainTarget("Pod", "ours", "p")),
        (("po/p", "-n", "theirs"), ExplainTarget("Pod", "theirs", "p")),
        (("PG", "g"), ExplainTarget("PodGroup", "ours", "g")),
        (("podgroups", "g"), ExplainTarget("PodGroup", "ours", "g")),
        (("podgroup", "g"), ExplainTarget("PodGroup", "ours", "g")),
        (("cpg", "t"), ExplainTarget("CompositePodGroup", "ours", "t")),
        (("compositepodgroups/t",), ExplainTarget("CompositePodGroup", "ours", "t")),
        (("compositepodgroup/t",), ExplainTarget("CompositePodGroup", "ours", "t")),
    ],
)
def test_object_is_of_the_namespace_of_the_context_unless_one_is_named(
    run: Run, cluster: Cluster, connected: list[Any], arguments: tuple[str, ...], asked: ExplainTarget
) -> None:
    cluster.exists = asked.kind == "Pod"
    run("explain", *arguments, "--kubeconfig", "k", "--context", "c")
    assert cluster.asked == [(asked, None, True)]
    assert connected == [("k", "c")]


def test_records_and_suggestions_are_as_asked_for(run: Run, cluster: Cluster) -> None:
    run("explain", "pod/p", "--records", "http://s", "--no-suggest")
    assert cluster.asked == [(ExplainTarget("Pod", "ours", "p"), "http://s", False)]


def test_unread_resources_are_a_warning_above_the_answer(run: Run, cluster: Cluster) -> None:
    cluster.warnings = ["events could not be read", "nor records"]
    ended = run("explain", "pod/p")
    assert (ended.code, ended.err) == (0, "warning: events could not be read\nwarning: nor records\n")
    assert ended.out.startswith("pod ours/p is pending")


def test_deleted_object_is_explained_by_its_records_alone(run: Run, cluster: Cluster) -> None:
    cluster.exists = False
    assert run("explain", "pod/p") == Ended(1, "", 'error: pod "p" not found in namespace "ours"\n')
    cluster.records = [record(entity=EntityReference(kind="Pod", namespace="ours", name="p"))]
    ended = run("explain", "pod/p")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.startswith("pod ours/p is gone")


@pytest.mark.parametrize(("error", "code"), [(ConfigError("no such file"), 2), (UnreachableError("nobody"), 3)])
def test_cluster_that_cannot_be_asked_is_one_line(run: Run, cluster: Cluster, error: Exception, code: int) -> None:
    cluster.error = error
    assert run("explain", "pod/p") == Ended(code, "", f"error: {error}\n")


QUESTIONS = (
    ("explain", "pod/p"),
    ("explain", "pod/p", "--cordon", "n1"),
    ("explain", "--all-waiting", "--redact"),
    ("history",),
)


@pytest.mark.parametrize("question", QUESTIONS)
def test_kubeconfig_that_is_no_good_is_bad_input(
    run: Run, live: list[Any], monkeypatch: pytest.MonkeyPatch, question: tuple[str, ...]
) -> None:
    def connect(*_: object) -> Connection:
        raise ConfigError("the kubeconfig is bad")

    monkeypatch.setattr("reprieve.client.kubeconfig.connect", connect)
    asked = question if "history" in question else (*question, "--kubeconfig", "k")
    ended = run(*asked)
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.splitlines()[-1] == "error: the kubeconfig is bad"


@pytest.mark.parametrize(
    ("kind", "code", "message", "asked"),
    [
        ("node", 2, "'node': expected pod, podgroup or compositepodgroup", []),
        (
            "replicaset/none",
            1,
            "no replicaset ours/none is in the cluster",
            [ExplainTarget("ReplicaSet", "ours", "none")],
        ),
    ],
)
def test_owner_has_to_be_of_a_kind_that_makes_pods_and_there(
    run: Run,
    cluster: Cluster,
    live: list[Any],
    monkeypatch: pytest.MonkeyPatch,
    kind: str,
    code: int,
    message: str,
    asked: list[ExplainTarget],
) -> None:
    """Only for kinds that make pods is all of the cluster read; one that is not there may have records."""
    cluster.exists = False
    reads = len(live)
    monkeypatch.setattr("reprieve.python.inputs.read_live", _read_live)
    ended = run("explain", *(kind.split("/") if "/" in kind else (kind, "n")), "--kubeconfig", "k")
    assert (ended.code, ended.out, [one for one, _, _ in cluster.asked], len(live)) == (code, "", asked, reads)
    assert message in ended.err


def test_owner_is_explained_by_a_pod_of_it(run: Run, cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprieve.python.inputs.read_live", _read_live)
    run("explain", "rs", "web", "-n", "default")
    assert [asked for asked, _, _ in cluster.asked] == [ExplainTarget("Pod", "default", "web-aaaaa")]
    assert [str(owner) for owner in cluster.owners] == ["replicaset default/web"]


def _read_live(*_: object, owners: bool, makers: object) -> Any:
    from reprieve.client.cluster_reader import ClusterReading
    from reprieve.inputs.loader import read
    from tests.cli.test_questions import CLUSTER

    return ClusterReading(objects=[one.object for one in read([("cluster", CLUSTER)]).all()]), "https://here"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-f", "more.yaml"), "--records cannot be combined with -f"),
        (("--cordon", "n1"), "--records cannot be combined with changes or --run"),
        (("--run", "cronjob/c"), "--records cannot be combined with changes or --run"),
    ],
)
def test_records_are_of_a_cluster_as_it_is(run: Run, live: list[Any], arguments: tuple[str, ...], message: str) -> None:
    kubeconfig = () if "-f" in arguments else ("--kubeconfig", "k")
    ended = run("explain", "pod/p", *arguments, *kubeconfig, "--records", "r.db")
    assert ended == Ended(2, "", f"error: {message}\n")


def test_cluster_as_it_would_be_is_that_of_the_namespace_of_its_context(
    run: Run, connected: object, live: list[Any]
) -> None:
    asked = ("explain", "pod", "waiting", "--cordon", "n1", "--kubeconfig", "k")
    ended = run(*asked)
    assert (ended.code, ended.err.splitlines()[-1]) == (1, 'error: pod "waiting" not found in namespace "ours"')
    ended = run(*asked, "-n", "default")
    assert ended.code == 0
    assert ended.out.startswith(
        "Changes\n  --cordon n1  1 node: no new pods are placed there\n\npod default/waiting is pending"
    )


def test_names_are_shown_in_the_namespace_of_the_context(run: Run, connected: object, live: list[Any]) -> None:
    """whatif.md 11.3."""
    asked = ("explain", "--all-waiting", "--redact", "--no-suggest", "--kubeconfig", "k")
    assert "default/waiting" not in run(*asked).out
    assert "default/waiting" in run(*asked, "-n", "default").out


# -- history -------------------------------------------------------------------------------------------------------


@pytest.fixture
def recorded(connected: object, monkeypatch: pytest.MonkeyPatch) -> list[tuple[float, str | None]]:
    """Preemptions of a server: since when they were asked for, and where."""
    asked: list[tuple[float, str | None]] = []

    async def evictions(
        connection: Connection, since: float, records: str | None, namespace: str = ""
    ) -> tuple[list[DecisionRecord], str]:
        assert connection is CONNECTION
        asked.append((since, records))
        by = [EntityReference(kind="PodGroup", namespace=space, name="g", priority=9) for space in ("ours", "theirs")]
        return [record(id=number, entity=entity, preemption=MADE) for number, entity in enumerate(by)], "the leader"

    monkeypatch.setattr(evidence, "evictions", evictions)
    return asked


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ((), ["ours/g"]),
        (("-n", "theirs"), ["theirs/g"]),
        (("-A",), ["ours/g", "theirs/g"]),
        (("-n", "default"), ["ours/g", "theirs/g"]),
    ],
)
def test_history_is_of_the_namespace_of_the_context_unless_another_is_named(
    run: Run, recorded: list[Any], arguments: tuple[str, ...], shown: list[str]
) -> None:
    """Preemptors and victims of the namespace; the victims are of default."""
    ended = run("history", "--since", "2026-01-01T00:00:00Z", *arguments)
    assert (ended.code, ended.err) == (0, "records of the leader\n")
    assert [name for name in ("ours/g", "theirs/g") if f"podgroup {name} " in ended.out] == shown
    assert recorded == [(1767225600.0, None)]


def test_endpoint_is_asked_and_a_file_is_read(run: Run, recorded: list[Any]) -> None:
    run("history", "--records", "https://s:1", "--since", "2026-01-01T00:00:00Z")
    assert recorded == [(1767225600.0, "https://s:1")]
    assert run("history", "--records", "s.db").code == 2
    assert len(recorded) == 1


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (ConfigError("no records"), 2, "no records"),
        (UnreachableError("no answer"), 3, "no answer (set another location with --records URL|FILE)"),
    ],
)
def test_history_that_cannot_be_read_is_one_line(
    run: Run, connected: object, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, text: str
) -> None:
    async def evictions(*_: object) -> None:
        raise error

    monkeypatch.setattr(evidence, "evictions", evictions)
    assert run("history") == Ended(code, "", f"error: {text}\n")
