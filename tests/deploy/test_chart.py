"""The Helm chart installs what kustomize installs, whatever values do to it.

Rendered by Helm's own engine (helm-python-sdk, the extra `helm`); where that is not installed, only the files
themselves are tested.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import tomllib
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

helm: Any = importlib.import_module("helm_python") if importlib.util.find_spec("helm_python") else None
rendered_by_helm = pytest.mark.skipif(helm is None, reason="helm-python-sdk is not installed (the extra `helm`)")

ROOT = DEPLOY.parent
CHART = DEPLOY / "helm" / "reprieve"
NAMESPACE = "reprieve-system"
EVERYTHING: Json = {
    "crds": {"install": True},
    "monitoring": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "provisioning": {"enabled": True},
    "tls": {"certManager": True},
}
ADDED_BY_HELM = {
    "app.kubernetes.io/instance",
    "app.kubernetes.io/managed-by",
    "app.kubernetes.io/version",
    "checksum/config",
    "helm.sh/chart",
    "helm.sh/resource-policy",
}


def rendered(values: Json | None = None, chart: Path = CHART, namespace: str = NAMESPACE) -> list[Json]:
    """What Helm would send to the API server."""
    with helm.Chart.load(chart) as loaded:
        loaded.validate_schema(values)
        files = loaded.render(values, name="try", namespace=namespace)
    return [obj for path, text in files.items() if path.endswith(".yaml") for obj in yaml.safe_load_all(text) if obj]


def plain(value: Any) -> Any:
    """Without the labels and annotations that Helm's charts have and kustomize's objects have not."""
    if isinstance(value, dict):
        told = {key: plain(inner) for key, inner in value.items() if key not in ADDED_BY_HELM}
        return {key: inner for key, inner in told.items() if not (key == "annotations" and not inner)}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def by_identity(objects: list[Json]) -> dict[str, Json]:
    """Objects by kind and name; files in a ConfigMap as the data they hold."""
    found: dict[str, Json] = {}
    for obj in objects:
        told = plain(obj)
        if told["kind"] == "ConfigMap":
            told["data"] = {name: yaml.safe_load(text) for name, text in told["data"].items()}
        assert identity(told) not in found
        found[identity(told)] = told
    return found


def one(objects: list[Json], kind: str, end: str = "") -> Json:
    [found] = [obj for obj in objects if obj["kind"] == kind and obj["metadata"]["name"].endswith(end)]
    return found


@rendered_by_helm
@pytest.mark.parametrize(
    ("values", "kustomize"),
    [
        ({}, manifests.base),
        ({"crds": {"install": True}}, lambda: manifests.with_components("crds")),
        ({"monitoring": {"enabled": True}}, lambda: manifests.with_components("monitoring")),
        ({"networkPolicy": {"enabled": True}}, lambda: manifests.with_components("network-policy")),
        ({"provisioning": {"enabled": True}}, lambda: manifests.with_components("provisioning")),
        (EVERYTHING, manifests.everything),
    ],
)
def test_chart_installs_what_kustomize_installs(values: Json, kustomize: Any) -> None:
    """All but the namespace, which is there before a release is (`helm install --create-namespace`)."""
    expected = by_identity([obj for obj in kustomize() if obj["kind"] != "Namespace"])
    assert by_identity(rendered(values)) == expected


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        body = {"metadata": {"name": NAMESPACE}}
        assert running.request("POST", "/api/v1/namespaces", body)[0] == 201
        yield running


@rendered_by_helm
def test_api_server_takes_what_it_renders(plane: Live) -> None:
    values: Json = {
        **EVERYTHING,
        "name": "second",
        "image": {"repository": "registry.example.com/reprieve", "tag": "1.2.3", "pullPolicy": "Always"},
        "imagePullSecrets": [{"name": "registry"}],
        "serviceAccount": {"annotations": {"example.com/role": "x"}},
        "extraArgs": ["--feature-gates=CompositePodGroup=true"],
        "extraEnv": [{"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "records", "key": "password"}}}],
        "podAnnotations": {"example.com/a": "1"},
        "podLabels": {"team": "batch"},
        "nodeSelector": {"node-role.kubernetes.io/control-plane": ""},
        "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "podDisruptionBudget": {"minAvailable": "50%"},
    }
    values["monitoring"] = {"enabled": True, "readers": [{"kind": "ServiceAccount", "name": "p", "namespace": "m"}]}
    values["monitoring"]["serviceMonitor"] = {"labels": {"release": "kps"}, "interval": "15s"}
    for obj in rendered(values):
        if not obj["apiVersion"].startswith(manifests.OTHERS):
            path = f"{path_of(obj)}?fieldManager=helm&fieldValidation=Strict&dryRun=All"
            headers = {"Content-Type": "application/apply-patch+yaml"}
            status, answer, _ = plane.request("PATCH", path, obj, headers=headers)
            assert status in (200, 201), answer


@rendered_by_helm
def test_names_and_rights_follow_the_values() -> None:
    """Two schedulers in one cluster share no object, no lease and no alert."""
    values = {**EVERYTHING, "name": "second", "serviceAccount": {"create": False, "name": "theirs"}}
    objects = rendered(values, namespace="batch")
    for obj in objects:
        if obj["kind"] != "CustomResourceDefinition":
            assert obj["metadata"]["name"].startswith("second"), identity(obj)
            assert obj["metadata"].get("namespace", "batch") == "batch", identity(obj)
    election = yaml.safe_load(one(objects, "ConfigMap", "second")["data"]["scheduler.yaml"])["leaderElection"]
    assert (election["resourceNamespace"], election["resourceName"]) == ("batch", "second")
    assert [rule.get("resourceNames") for rule in one(objects, "Role")["rules"]] == [None, ["second"]]
    assert 'leader_election_master_status{name="second"}' in json.dumps(one(objects, "PrometheusRule")).replace(
        "\\", ""
    )
    assert not [obj for obj in objects if obj["kind"] == "ServiceAccount"]
    account = {"kind": "ServiceAccount", "name": "theirs", "namespace": "batch"}
    bindings = [obj for obj in objects if obj["kind"] in ("ClusterRoleBinding", "RoleBinding")]
    assert len(bindings) >= 3
    assert all(obj["subjects"] == [account] for obj in bindings)
    assert one(objects, "Deployment")["spec"]["template"]["spec"]["serviceAccountName"] == "theirs"


@rendered_by_helm
def test_password_of_the_records_comes_from_a_secret() -> None:
    """history.md 4.1: as libpq finds it, and in no argument."""
    variable = {"name": "PGPASSWORD", "valueFrom": {"secretKeyRef": {"name": "records", "key": "password"}}}
    [container] = one(rendered({"extraEnv": [variable]}), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert container["env"] == [variable]


@rendered_by_helm
def test_shadow_of_the_chart_is_that_of_kustomize() -> None:
    """But for its names, in the release's namespace; and it needs no scheduler beside it."""
    values = {"replicas": 0, "shadow": {"enabled": True}}
    text = json.dumps([obj for obj in manifests.objects(DEPLOY / "shadow") if obj["kind"] != "Namespace"])
    text = text.replace('"namespace": "reprieve-shadow"', f'"namespace": "{NAMESPACE}"')
    expected = by_identity(json.loads(text.replace("reprieve-shadow", "reprieve-scheduler-shadow")))
    made = by_identity(rendered(values))
    assert {name: obj for name, obj in made.items() if name.endswith("-shadow")} == expected
    assert made["Deployment/reprieve-scheduler"]["spec"]["replicas"] == 0
    watched = {"enabled": True, "schedulerName": "volcano", "hold": "5m", "resources": {}}
    [container] = one(rendered({"shadow": watched}), "Deployment", "-shadow")["spec"]["template"]["spec"]["containers"]
    assert {"--scheduler-name=volcano", "--shadow-hold=5m"} <= set(container["args"])
    selectors = [obj["spec"]["selector"]["matchLabels"] for obj in rendered(values) if obj["kind"] == "Deployment"]
    assert selectors[0] != selectors[1], "neither takes the other's pods"


@rendered_by_helm
def test_certificate_of_the_endpoint_is_that_of_the_secret() -> None:
    """Without a Secret the scheduler makes its own, which no ServiceMonitor can check."""

    def tls(values: Json) -> list[Json]:
        pod = one(rendered(values), "Deployment")["spec"]["template"]["spec"]
        used = any(argument.startswith("--tls-") for argument in pod["containers"][0]["args"])
        volumes = [volume["secret"] for volume in pod["volumes"] if "secret" in volume]
        assert used is bool(volumes)
        return volumes

    assert tls({}) == tls({"monitoring": {"enabled": True, "serviceMonitor": {"enabled": False}}}) == []
    assert [secret["secretName"] for secret in tls({"tls": {"secretName": "mine"}})] == ["mine"]
    mine: Json = {"monitoring": {"enabled": True}, "tls": {"secretName": "mine", "certManager": True}}
    config = one(rendered(mine), "ServiceMonitor")["spec"]["endpoints"][0]["tlsConfig"]
    assert config["ca"]["secret"]["name"] == "mine"
    assert {obj["spec"].get("secretName") for obj in rendered(mine) if obj["kind"] == "Certificate"} == {
        "mine",
        "reprieve-scheduler-authority",
    }


@rendered_by_helm
def test_alerts_lead_to_the_runbook_of_the_values() -> None:
    mine: Json = {"enabled": True, "prometheusRule": {"runbookUrl": "https://wiki.example/alerts"}}
    rules = one(rendered({"monitoring": mine}), "PrometheusRule")["spec"]["groups"][0]["rules"]
    assert all(rule["annotations"]["runbook_url"].startswith("https://wiki.example/alerts#reprieve") for rule in rules)


@rendered_by_helm
def test_network_policy_takes_rules_of_the_values() -> None:
    rule = {"ports": [{"port": 5432, "protocol": "TCP"}]}
    policy = one(rendered({"networkPolicy": {"enabled": True, "egress": [rule]}}), "NetworkPolicy")
    assert policy["spec"]["egress"][-1] == rule


@rendered_by_helm
def test_configuration_is_taken_over_and_restarts_the_scheduler() -> None:
    values = {
        "config": {
            "profiles": [{"schedulerName": "default-scheduler"}, {"schedulerName": "batch"}],
            "leaderElection": {"resourceNamespace": "kube-system", "leaseDuration": "30s"},
        }
    }
    before, after = rendered(), rendered(values)
    text = one(after, "ConfigMap")["data"]["scheduler.yaml"]
    profiles = profiles_of(configuration_of(yaml.safe_load(text)), FeatureGates())
    assert [profile.name for profile in profiles] == ["default-scheduler", "batch"]
    election = yaml.safe_load(text)["leaderElection"]
    assert election == {
        "leaderElect": True,
        "leaseDuration": "30s",
        "resourceNamespace": "kube-system",
        "resourceName": "reprieve-scheduler",
    }
    assert one(after, "Role")["metadata"]["namespace"] == "kube-system", "where the lease is"
    sums = [one(each, "Deployment")["spec"]["template"]["metadata"]["annotations"] for each in (before, after)]
    assert sums[0] != sums[1]


@rendered_by_helm
def test_disabled_resources_do_not_exist() -> None:
    def kinds(values: Json) -> set[str]:
        return {obj["kind"] for obj in rendered(values)}

    assert "PodDisruptionBudget" not in kinds({"replicas": 1}), "it would stop every drain"
    assert "PodDisruptionBudget" not in kinds({"podDisruptionBudget": {"enabled": False}})
    assert not kinds({"rbac": {"create": False}}) & {"ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding"}
    off = {name: {"enabled": False} for name in ("serviceMonitor", "prometheusRule", "dashboard")}
    assert kinds({"monitoring": {"enabled": True, **off}}) - kinds({}) == {"Service"}


@rendered_by_helm
@pytest.mark.parametrize(
    ("values", "where"),
    [
        ({"replica": 3}, "replica"),
        ({"replicas": "two"}, "replicas"),
        ({"name": "Not_A_Name"}, "name"),
        ({"image": {"pullPolicy": "Sometimes"}}, "pullPolicy"),
        ({"monitoring": {"enabeld": True}}, "monitoring"),
        ({"monitoring": {"serviceMonitor": {"interval": "often"}}}, "interval"),
        ({"config": {"profiles": []}}, "profiles"),
        ({"shadow": {"hold": "long"}}, "hold"),
        ({"tls": {"secretName": "Not A Name"}}, "secretName"),
        ({"networkPolicy": {"ingress": []}}, "networkPolicy"),
        ({"config": {"kind": "KubeletConfiguration"}}, "kind"),
        ({"podDisruptionBudget": {"minAvailable": "half"}}, "minAvailable"),
    ],
)
def test_values_that_mean_nothing_are_refused(values: Json, where: str) -> None:
    with pytest.raises(helm.HelmValuesError, match=where):
        rendered(values)


@rendered_by_helm
def test_chart_archive_is_whole(tmp_path: Path) -> None:
    """Files that are links to kustomize's are in it as files."""
    with helm.Chart.load(CHART) as chart:
        packed = Path(chart.save(tmp_path))
    assert by_identity(rendered(EVERYTHING, packed)) == by_identity(rendered(EVERYTHING))


@rendered_by_helm
def test_helm_finds_no_fault() -> None:
    report = helm.lint(CHART, values=EVERYTHING, strict=True)
    assert not report["errors"]
    assert [said for said in report["messages"] if said["severity"] > 1] == []


def test_chart_version_is_the_schedulers() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    version = tomllib.loads((ROOT / "packages" / "reprieve" / "pyproject.toml").read_text())["project"]["version"]
    assert (chart["version"], chart["appVersion"]) == (version, version)


def test_chart_links_lead_to_what_kustomize_reads() -> None:
    links = [path for path in CHART.rglob("*") if path.is_symlink()]
    assert {path.name for path in links} == {
        "certificates.yaml",
        "clusterrole.yaml",
        "crds",
        "dashboard.json",
        "networkpolicy.yaml",
        "prometheusrule.yaml",
        "shadow.yaml",
    }
    for path in links:
        assert path.resolve(strict=True).is_relative_to(DEPLOY)
        assert not path.readlink().is_absolute()


def values_of(told: Json, prefix: str = "") -> Iterator[str]:
    for key, value in told.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from values_of(value, f"{prefix}{key}.")


def test_schema_knows_every_value() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())

    def resolved(node: Json) -> Json:
        return dict(schema["definitions"][node["$ref"].rpartition("/")[2]]) if "$ref" in node else node

    for name in values_of(yaml.safe_load((CHART / "values.yaml").read_text())):
        node: Any = schema
        for step in name.split("."):
            node = resolved(node)
            node = node.get("properties", {}).get(step, node.get("additionalProperties", False))
            assert isinstance(node, dict), name


def test_page_tells_every_value() -> None:
    page = (ROOT / "docs" / "install.md").read_text()
    for name in yaml.safe_load((CHART / "values.yaml").read_text()):
        assert re.search(rf"`{name}[`.]", page), name
