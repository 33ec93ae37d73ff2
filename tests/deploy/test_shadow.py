"""The shadow of deploy/shadow runs with its rights, which are get, list and watch, and asks for nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from kube_standin.admission_chain import User
from kube_standin.rights import AccessDecision, Attributes
from kube_standin.security import write_kubeconfig
from kube_standin.server.control_plane import ServeOptions
from reprieve.live.local import kept_port
from tests.deploy.manifests import DEPLOY, objects
from tests.deploy.scheduler_at_work import PODS, ours, post, token
from tests.deploy.test_rights import healthy, install, nodes
from tests.e2e.cluster import eventually
from tests.server.live import live
from tests.waiting import DEADLINE

NAME = "reprieve-shadow"
READS = {"get", "list", "watch"}


def test_rights_of_the_shadow_are_reads_and_suffice(tmp_path: Path) -> None:
    """shadow.md 1.1: as a process, with the arguments of the Deployment; the report is what `shadow report` reads."""
    installed = list(objects(DEPLOY / "shadow"))
    [role] = [obj for obj in installed if obj["kind"] == "ClusterRole"]
    assert not [obj for obj in installed if obj["kind"] == "Role"]
    assert {verb for rule in role["rules"] for verb in rule["verbs"]} == READS
    assert "*" not in json.dumps(role)
    [deployment] = [obj for obj in installed if obj["kind"] == "Deployment"]
    [container] = deployment["spec"]["template"]["spec"]["containers"]
    with live(ServeOptions(controllers="none")) as plane:
        asked: set[tuple[str, str]] = set()
        refused: set[tuple[str, str]] = set()
        decide = plane.server.control_plane.authorizer.decide

        def noted(user: User, attributes: Attributes) -> AccessDecision:
            decision = decide(user, attributes)
            if user.name == f"system:serviceaccount:{NAME}:{NAME}":
                asked.add((attributes.verb, attributes.full_resource))
                if not decision.allowed:
                    refused.add((attributes.verb, attributes.full_resource))
            return decision

        plane.server.control_plane.authorizer.decide = noted  # type: ignore[method-assign]
        install(plane, installed)
        for node in nodes(tmp_path):
            post(plane, "/api/v1/nodes", node)
        kubeconfig, report = tmp_path / "kubeconfig", tmp_path / "shadow.json"
        write_kubeconfig(kubeconfig, server=plane.url, ca=plane.server.ca, token=token(plane, NAME, NAME))
        with kept_port(0) as port, (tmp_path / "log").open("w") as log:
            changed = {"--secure-port": port, "--shadow-report": report, "--shadow-hold": "1s"}
            changed["--scheduler-name"] = "reprieve-scheduler"
            arguments = [
                f"{name}={changed.get(name, value)}" if value else name
                for name, _, value in (argument.partition("=") for argument in container["args"])
            ]
            command = [sys.executable, "-m", "reprieve", *arguments, f"--kubeconfig={kubeconfig}"]
            process = subprocess.Popen(command, stdout=log, stderr=log)
            try:
                eventually(lambda: process.poll() is None and healthy(port), "the shadow ready")
                post(plane, PODS, ours("a"))
                eventually(lambda: "default/a" in (tmp_path / "log").read_text(), "a decision about the pod")
            finally:
                process.terminate()
                assert process.wait(DEADLINE) == 0, (tmp_path / "log").read_text()
        assert refused == set()
        assert {verb for verb, _ in asked} <= READS
        assert plane.request("GET", f"{PODS}/a")[1]["spec"].get("nodeName") is None
        shown = [sys.executable, "-m", "reprieve", "shadow", "report", f"--from={report}"]
        told = subprocess.run(shown, capture_output=True, text=True, check=True).stdout
        assert "reprieve-scheduler" in told
