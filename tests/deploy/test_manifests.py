"""The manifests in deploy/ are what an API server takes, and fit together."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from reprieve.framework.configuration_reader import configuration_of
from reprieve.framework.gates import FeatureGates
from reprieve.scheduling.profiles import profiles_of
from tests.deploy import manifests
from tests.deploy.manifests import DEPLOY, Json, identity, path_of
from tests.server.live import Live, live

APPLY = {"Content-Type": "application/apply-patch+yaml"}
QUERY = "?fieldManager=tests&fieldValidation=Strict"


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    """A server with the namespace of the manifests, so that what is in it can be tried without being there."""
    with live() as running:
        [namespace] = [obj for obj in manifests.base() if obj["kind"] == "Namespace"]
        assert running.request("PATCH", path_of(namespace) + QUERY, namespace, headers=APPLY)[0] == 201
        yield running


def served(plane: Live, obj: Json) -> bool:
    group, _, version = obj["apiVersion"].rpartition("/")
    found = plane.request("GET", f"/apis/{group}/{version}" if group else f"/api/{version}")
    return found[0] == 200 and any(entry["kind"] == obj["kind"] for entry in found[1]["resources"])


@pytest.mark.parametrize("obj", manifests.everything(), ids=identity)
def test_each_is_taken_by_a_server_that_knows_its_kind(obj: Json, plane: Live) -> None:
    if not served(plane, obj):
        assert obj["apiVersion"].startswith(manifests.OTHERS), "only kinds of operators may be unknown"
        return
    status, answer, _ = plane.request("PATCH", f"{path_of(obj)}{QUERY}&dryRun=All", obj, headers=APPLY)
    assert status in (200, 201), answer


def test_lists_name_every_file() -> None:
    """No manifest is forgotten in a kustomization.yaml."""
    for kustomization in DEPLOY.rglob("kustomization.yaml"):
        listed = set(yaml.safe_load(kustomization.read_text()).get("resources", ()))
        there = {path.name for path in kustomization.parent.glob("*.yaml")} - {"kustomization.yaml"}
        assert there <= listed, kustomization


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kustomize_gives_the_same_objects(tmp_path: Path) -> None:
    """Our reading of deploy/ is kustomize's, in an overlay with all components as well."""

    def built(place: Path) -> dict[str, Json]:
        done = subprocess.run(["kubectl", "kustomize", str(place)], capture_output=True, text=True, check=True)
        return {identity(obj): obj for obj in yaml.safe_load_all(done.stdout)}

    assert built(DEPLOY) == {identity(obj): obj for obj in manifests.base()}
    # kustomize takes relative paths only, and does not follow links.
    root = os.path.relpath(DEPLOY, tmp_path.resolve())
    overlay = {"resources": [root], "components": [f"{root}/components/{name}" for name in manifests.COMPONENTS]}
    (tmp_path / "kustomization.yaml").write_text(yaml.safe_dump(overlay))
    assert built(tmp_path) == {identity(obj): obj for obj in manifests.everything()}


def one(kind: str, name: str = "reprieve-scheduler") -> Json:
    [found] = [obj for obj in manifests.everything() if obj["kind"] == kind and obj["metadata"]["name"] == name]
    return found


def container() -> Json:
    [found] = one("Deployment")["spec"]["template"]["spec"]["containers"]
    return dict(found)


def test_selectors_select_the_pods_of_the_deployment() -> None:
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    selectors: list[Any] = [
        one("Deployment")["spec"]["selector"]["matchLabels"],
        one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"],
        one("Service")["spec"]["selector"],
    ]
    for selector in selectors:
        assert selector.items() <= labels
    assert (
        one("ServiceMonitor")["spec"]["selector"]["matchLabels"].items() <= one("Service")["metadata"]["labels"].items()
    )


def test_ports_and_probes_meet_what_the_scheduler_serves() -> None:
    ports = {port["name"]: port["containerPort"] for port in container()["ports"]}
    assert f"--secure-port={ports['metrics']}" in container()["args"]
    assert one("Service")["spec"]["ports"][0]["targetPort"] in ports
    assert one("ServiceMonitor")["spec"]["endpoints"][0]["port"] == one("Service")["spec"]["ports"][0]["name"]
    for probe, path in (("livenessProbe", "/livez"), ("readinessProbe", "/readyz")):
        assert container()[probe]["httpGet"] == {"path": path, "port": "metrics", "scheme": "HTTPS"}


def test_lease_it_may_renew_is_the_one_it_uses() -> None:
    config = yaml.safe_load(one("ConfigMap")["data"]["scheduler.yaml"])
    election = config["leaderElection"]
    [named] = [rule for rule in one("Role")["rules"] if rule.get("resourceNames")]
    assert named["resourceNames"] == [election["resourceName"]]
    assert one("Role")["metadata"]["namespace"] == election["resourceNamespace"]


def test_configuration_is_one_the_scheduler_reads() -> None:
    read = configuration_of(yaml.safe_load(one("ConfigMap")["data"]["scheduler.yaml"]))
    profiles = profiles_of(read, FeatureGates())
    assert [profile.name for profile in profiles] == ["reprieve-scheduler"]


def test_pods_meet_the_restricted_standard() -> None:
    """Pod Security Standards, "Restricted", which the namespace enforces."""
    pod = one("Deployment")["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] != 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    inner = container()["securityContext"]
    assert inner["allowPrivilegeEscalation"] is False
    assert inner["capabilities"] == {"drop": ["ALL"]}
    assert (
        one("Namespace", "reprieve-system")["metadata"]["labels"]["pod-security.kubernetes.io/enforce"] == "restricted"
    )
    assert {next(iter(set(volume) - {"name"})) for volume in pod["volumes"]} <= {"configMap", "emptyDir", "secret"}


def test_prometheus_checks_the_certificate_that_is_served() -> None:
    """By its authority and its name; what it would not check is not there."""
    arguments = container()["args"]
    [mount] = [mount for mount in container()["volumeMounts"] if mount["name"] == "tls"]
    assert f"--tls-cert-file={mount['mountPath']}/tls.crt" in arguments
    assert f"--tls-private-key-file={mount['mountPath']}/tls.key" in arguments
    [volume] = [v for v in one("Deployment")["spec"]["template"]["spec"]["volumes"] if v["name"] == "tls"]
    secret = volume["secret"]["secretName"]
    config = one("ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]
    assert config["ca"] == {"secret": {"name": secret, "key": "ca.crt"}}
    certificate = one("Certificate")["spec"]
    assert certificate["secretName"] == secret
    assert certificate["dnsNames"] == [config["serverName"]]
    service = one("Service")["metadata"]
    assert config["serverName"] == f"{service['name']}.{service['namespace']}.svc"


def test_network_policy_lets_in_what_asks_the_endpoint_and_out_to_the_api_server() -> None:
    spec = one("NetworkPolicy")["spec"]
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"].items()
    assert spec["podSelector"]["matchLabels"].items() <= labels
    assert [port["port"] for rule in spec["ingress"] for port in rule["ports"]] == [
        port["containerPort"] for port in container()["ports"]
    ]
    assert {port["port"] for rule in spec["egress"] for port in rule["ports"]} == {53, 443, 6443}
    assert spec["policyTypes"] == ["Ingress", "Egress"]
