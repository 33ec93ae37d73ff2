"""Every file below this folder: a cluster in, an outcome out, by the rule that the file cites.

A case has `title`, `rule` (a heading of docs/rules), `objects` (complete manifests; a pod with a node is running),
where needed `gates` and `steps` (as of a Scenario, but `create` and `delete` name objects as Kind/name; what a step
creates is not there before), and `expect`: which pods without a node, those that controllers make included, are
`scheduled` and which wait (`unschedulable`), which of the others are `preempted`, each list complete; where the case
says so `nominated` by preemption, `resizes` (what happens to the deferred ones), `nodes` (or `nodesIn`, one of several)
and `messages` (a part of the message of a pod that waits).  `compatible` has what is expected instead with the settings
of kube-scheduler.  Nothing but these files is needed to run them.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from reprieve.framework.gates import FeatureGates
from reprieve.inputs.loader import load
from reprieve.scheduling.profiles import default_profile
from reprieve.simulation.plan import PlanOptions, plan
from reprieve.simulation.report import Plan
from reprieve.simulation.workloads.expansion import expand

CASES = sorted(Path(__file__).parent.rglob("*.yaml"))
Case = dict[str, Any]
BY_SCORE = {"budget-of-one-is-used-up-by-the-more-important"}
"""Cases that only `Compatible` fits: it counts budgets over all possible victims, the search over actual ones."""


def documents(case: Case) -> list[Case]:
    """What is there at the start, and the steps as a Scenario."""
    named = {f"{one['kind']}/{one['metadata']['name']}": one for one in case["objects"]}
    steps, later = [], set()
    for step in case.get("steps", ()):
        later.update(step.get("create", ()))
        turned = dict(step)
        if "create" in step:
            turned["create"] = [named[name] for name in step["create"]]
        if "delete" in step:
            parts = [name.split("/") for name in step["delete"]]
            turned["delete"] = [{"kind": kind, "namespace": "default", "name": name} for kind, name in parts]
        steps.append(turned)
    out = [one for name, one in named.items() if name not in later]
    if steps:
        scenario = {"apiVersion": "reprieve.dev/v1alpha1", "kind": "Scenario", "metadata": {"name": "case"}}
        out.append({**scenario, "spec": {"steps": steps}})
    return out


def full(names: Iterable[str]) -> set[str]:
    """Names without a namespace are of `default`."""
    return {name if "/" in name else f"default/{name}" for name in names}


def differences(case: Case, answer: Plan) -> list[str]:
    """What is not as expected, a line each."""
    expect = case["expect"]
    pods = {f"{pod.namespace}/{pod.name}": pod for pod in answer.pods}
    written = {
        f"{one['metadata'].get('namespace', 'default')}/{one['metadata']['name']}": one
        for one in case["objects"]
        if one["kind"] == "Pod"
    }
    arrived = {name for name, one in written.items() if not one["spec"].get("nodeName")} | (
        pods.keys() - written.keys()
    )
    found = {
        "scheduled": {name for name in arrived if pods[name].outcome == "Scheduled"},
        "unschedulable": {name for name in arrived if pods[name].outcome != "Scheduled"},
        "preempted": {f"{v.namespace}/{v.name}" for one in answer.preemptions for v in one.victims},
        "nominated": {name for one in answer.preemptions for name in one.nominations},
    }
    out = [
        f"{what}: {sorted(full(expect[what]))} expected, {sorted(names)} found"
        for what, names in found.items()
        if what in expect and full(expect[what]) != names
    ]
    allowed = {name: [node] for name, node in expect.get("nodes", {}).items()} | expect.get("nodesIn", {})
    for name, nodes in allowed.items():
        if (node := pods[f"default/{name}"].node_name) not in nodes:
            out.append(f"{name}: on {node}, expected {' or '.join(nodes)}")
    resized = {f"{one.namespace}/{one.name}": one.outcome for one in answer.resizes}
    if "resizes" in expect and (wanted := {f"default/{k}": v for k, v in expect["resizes"].items()}) != resized:
        out.append(f"resizes: {wanted} expected, {resized} found")
    for name, part in expect.get("messages", {}).items():
        if part not in (said := pods[f"default/{name}"].message or ""):
            out.append(f"{name}: {part!r} not in {said!r}")
    return out


def outcome(case: Case, folder: Path, *, compatible: bool = False) -> Plan:
    """The plan of a case; `compatible`: groups make room where they are placed by score (cost.md 4.9)."""
    manifest = folder / "case.yaml"
    # As JSON: what PyYAML writes without quotes is to a reader of manifests not always a string (`app: y`).
    manifest.write_bytes(b"".join(b"---\n%s\n" % msgspec.json.encode(one) for one in documents(case)))
    gates = FeatureGates.of(case.get("gates", {}))
    profiles = (default_profile(gates, compatible=compatible),)
    expansion = expand(load([manifest]))
    assert not expansion.problems
    return plan(expansion.manifests, PlanOptions(gates=gates, profiles=profiles, any_scheduler=True)).plan


@pytest.mark.parametrize("compatible", [True, False], ids=["compatible", "cheapest"])
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_case(path: Path, compatible: bool, tmp_path: Path) -> None:
    """In nearly all what kube-scheduler does is also what costs least: then both ways must say the same."""
    if path.stem in BY_SCORE and not compatible:
        pytest.skip("budgets are counted over the actual victims")
    case = yaml.safe_load(path.read_text(encoding="utf-8"))
    if compatible:
        case["expect"] |= case.get("compatible", {})
    assert differences(case, outcome(case, tmp_path, compatible=compatible)) == []


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("scheduled", ["late"]),
        ("unschedulable", []),
        ("preempted", ["there"]),
        ("nominated", ["late"]),
        ("nodes", {"late": "n1"}),
        ("nodesIn", {"late": ["n1"]}),
        ("resizes", {"late": "Resized"}),
        ("messages", {"late": "no such thing"}),
    ],
)
def test_wrong_outcome_is_seen(what: str, wrong: Any, tmp_path: Path) -> None:
    """A judge that never objects is none: each expectation, falsified, gives one difference."""
    case = yaml.safe_load((Path(__file__).parent / "preemption-order" / "equal-priority-is-safe.yaml").read_text())
    case["expect"][what] = wrong
    assert len(differences(case, outcome(case, tmp_path))) == 1


def test_every_case_lists_the_outcome_of_each_pod() -> None:
    """An unread key, or a pod that no list names, would let a case pass that judges nothing."""
    for path in CASES:
        case = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(case) <= {"title", "rule", "gates", "objects", "steps", "expect", "compatible"}, path
        expect = case["expect"]
        assert {"scheduled", "preempted", "unschedulable"} <= set(expect), path
        others = {"nominated", "nodes", "nodesIn", "messages", "resizes"}
        assert set(expect) <= {"scheduled", "preempted", "unschedulable"} | others
        assert expect["scheduled"] or expect["preempted"] or expect["unschedulable"] or expect.get("resizes"), path
