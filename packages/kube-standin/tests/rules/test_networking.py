"""Ingresses, IngressClasses and NetworkPolicies: defaults, and what is refused (kube-apiserver 1.37)."""

from __future__ import annotations

import pytest

from kube_standin.errors import StatusError
from tests.admission.plane import Json, Plane, refused

SERVICE = {"service": {"name": "s", "port": {"number": 80}}}
DNS_LABEL = "a DNS-1035 label must"


@pytest.fixture
def plane() -> Plane:
    return Plane()


def made(kind: str, spec: Json | None = None) -> Json:
    return {"apiVersion": "networking.k8s.io/v1", "kind": kind, "metadata": {"name": "n"}, "spec": spec or {}}


def backend(**fields: Json) -> Json:
    return {"defaultBackend": fields}


def rule(host: str = "example.com", **path: object) -> Json:
    found = {"path": "/", "pathType": "Prefix", "backend": SERVICE, **path}
    return {"rules": [{"host": host, "http": {"paths": [{k: v for k, v in found.items() if v is not None}]}}]}


PATH = "spec.rules[0].http.paths[0]"


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        (backend(**SERVICE), None),
        (backend(resource={"kind": "Bucket", "name": "b"}), None),
        (rule(), None),
        (rule("*.example.com"), None),
        (rule("", pathType="ImplementationSpecific", path=None), None),
        ({"rules": [{"host": "example.com"}]}, None),
        ({**rule(), "tls": [{"hosts": ["example.com"], "secretName": "t"}], "ingressClassName": "c"}, None),
        ({}, "spec: Invalid value: null: either `defaultBackend` or `rules` must be specified"),
        (backend(**SERVICE, resource={"kind": "B", "name": "b"}), "cannot set both resource and service backends"),
        (backend(), 'spec.defaultBackend: Invalid value: "": resource or service backend is required'),
        (backend(resource={"kind": "", "name": "b"}), "spec.defaultBackend.resource.kind: Required value"),
        (backend(service={"name": "", "port": {"number": 80}}), "spec.defaultBackend.service.name: Required value"),
        (backend(service={"name": "1", "port": {"number": 80}}), DNS_LABEL),
        (backend(service={"name": "s"}), "spec.defaultBackend: Required value: port name or number is required"),
        (backend(service={"name": "s", "port": {"name": "p", "number": 1}}), "cannot set both port name & port number"),
        (backend(service={"name": "s", "port": {"number": 70000}}), "service.port.number: Invalid value: 70000"),
        (backend(service={"name": "s", "port": {"name": "-"}}), "spec.defaultBackend.service.port.name: Invalid value"),
        (rule("1.2.3.4"), 'spec.rules[0].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address'),
        (rule("a.*.b"), "spec.rules[0].host: Invalid value"),
        (rule("*"), "spec.rules[0].host: Invalid value"),
        (rule(pathType=None), f"{PATH}.pathType: Required value"),
        (rule(pathType="Near"), f'{PATH}.pathType: Unsupported value: "Near"'),
        (rule(path="a"), f'{PATH}.path: Invalid value: "a": must be an absolute path'),
        (rule(path=None), f'{PATH}.path: Invalid value: "": must be an absolute path'),
        (rule(path="/a//b"), f"{PATH}.path: Invalid value: \"/a//b\": must not contain '//'"),
        (rule(backend={}), f'{PATH}.backend: Invalid value: "": resource or service backend is required'),
        ({"rules": [{"http": {"paths": []}}]}, "spec.rules[0].http.paths: Required value"),
        (rule(path="/a/.."), f"{PATH}.path: Invalid value: \"/a/..\": cannot end with '/..'"),
        ({**rule(), "tls": [{"hosts": ["1.2.3.4", "*.example.com"]}]}, None),
        (
            {**rule(), "tls": [{"hosts": ["*"]}]},
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain",
        ),
        (backend(resource={"kind": "a/b", "name": "b"}), "resource.kind: Invalid value: \"a/b\": may not contain '/'"),
        (backend(resource={"apiGroup": "_", "kind": "K", "name": "b"}), 'resource.apiGroup: Invalid value: "_"'),
        ({**rule(), "tls": [{"secretName": "_"}]}, "spec.tls[0].secretName: Invalid value"),
        ({**rule(), "ingressClassName": "_"}, "spec.ingressClassName: Invalid value"),
    ],
)
def test_ingresses(plane: Plane, spec: Json, wrong: str | None) -> None:
    if wrong is None:
        assert plane.create(made("Ingress", spec))["status"] == {"loadBalancer": {}}
    else:
        assert wrong in refused(plane, made("Ingress", spec)).message


def test_class_of_a_new_ingress_is_named_once(plane: Plane) -> None:
    """The older annotation names the same class; it may change later."""
    ingress = made("Ingress", {**backend(**SERVICE), "ingressClassName": "a"})
    ingress["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "b"}
    wrong = 'annotations.kubernetes.io/ingress.class: Invalid value: "b": must match `ingressClassName` when both are'
    assert wrong in refused(plane, ingress).message
    ingress["metadata"]["annotations"] = {"kubernetes.io/ingress.class": "a"}
    plane.create(ingress)
    plane.patch("networking.k8s.io/v1", "Ingress", "n", {"spec": {"ingressClassName": "b"}})


@pytest.mark.parametrize(
    ("address", "wrong"),
    [
        ({"ip": "10.0.0.1", "hostname": "a.example.com"}, None),
        ({"ip": "10.0.0"}, 'status.loadBalancer.ingress[0].ip: Invalid value: "10.0.0": must be a valid IP address'),
        ({"hostname": "_"}, 'status.loadBalancer.ingress[0].hostname: Invalid value: "_"'),
        ({"hostname": "10.0.0.1"}, "must be a DNS name, not an IP address"),
    ],
)
def test_status_of_an_ingress(plane: Plane, address: Json, wrong: str | None) -> None:
    plane.create(made("Ingress", backend(**SERVICE)))
    status = {"status": {"loadBalancer": {"ingress": [address]}}}
    if wrong is None:
        assert plane.patch("networking.k8s.io/v1", "Ingress", "n", status, "status")["status"] == status["status"]
        return
    with pytest.raises(StatusError) as caught:
        plane.patch("networking.k8s.io/v1", "Ingress", "n", status, "status")
    assert wrong in caught.value.message


PARAMETERS = {"kind": "Settings", "name": "s"}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"controller": "example.com/c"}, None),
        ({"controller": "example.com/c", "parameters": PARAMETERS}, None),
        ({"controller": "example.com/c", "parameters": {**PARAMETERS, "scope": "Namespace", "namespace": "n"}}, None),
        ({}, "spec.controller: Required value"),
        ({"controller": "c"}, 'spec.controller: Invalid value: "c": must be a domain-prefixed path'),
        ({"controller": f"example.com/{'a' * 250}"}, "spec.controller: Too long"),
        ({"controller": "_/c"}, 'spec.controller: Invalid value: "_": a lowercase RFC 1123 subdomain'),
        (
            {"controller": "example.com/ "},
            'controller: Invalid value: " ": Invalid path (regex used for',
        ),
        (
            {"controller": "e.com/c", "parameters": {**PARAMETERS, "scope": "Namespace", "namespace": "_"}},
            'parameters.namespace: Invalid value: "_"',
        ),
        ({"controller": "example.com/c", "parameters": {"kind": "K"}}, "spec.parameters.name: Required value"),
        ({"controller": "e.com/c", "parameters": {**PARAMETERS, "scope": "Far"}}, "spec.parameters.scope: Unsupported"),
        (
            {"controller": "e.com/c", "parameters": {**PARAMETERS, "scope": "Namespace"}},
            "parameters.namespace: Required",
        ),
        ({"controller": "e.com/c", "parameters": {**PARAMETERS, "namespace": "n"}}, "parameters.namespace: Forbidden"),
    ],
)
def test_ingress_classes(plane: Plane, spec: Json, wrong: str | None) -> None:
    if wrong is not None:
        assert wrong in refused(plane, made("IngressClass", spec)).message
        return
    found = plane.create(made("IngressClass", spec))["spec"]
    assert found.get("parameters", {"scope": "Cluster"})["scope"] == spec.get("parameters", {}).get("scope", "Cluster")


def test_controller_of_an_ingress_class_stays(plane: Plane) -> None:
    plane.create(made("IngressClass", {"controller": "example.com/c"}))
    change = {"spec": {"controller": "example.com/d"}}
    with pytest.raises(StatusError, match="field is immutable"):
        plane.patch("networking.k8s.io/v1", "IngressClass", "n", change, ns="")


def incoming(*ports: Json, **peer: object) -> Json:
    return {"ingress": [{"ports": list(ports), **({"from": [peer]} if peer else {})}]}


FROM = "spec.ingress[0].from[0]"
PORT = "spec.ingress[0].ports[0]"
BLOCK = {"cidr": "10.0.0.0/8"}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"podSelector": {"matchLabels": {"_": "x"}}}, 'spec.podSelector.matchLabels: Invalid value: "_"'),
        (incoming({"port": 0}), f"{PORT}.port: Invalid value: 0: must be between 1 and 65535, inclusive"),
        (incoming({"port": "-"}), f'{PORT}.port: Invalid value: "-"'),
        (incoming({"port": 80, "endPort": 79}), f"{PORT}.endPort: Invalid value: 79"),
        (incoming({"port": 80, "endPort": 70000}), f"{PORT}.endPort: Invalid value: 70000"),
        (
            incoming({"endPort": 79}),
            "endPort: Invalid value: 79: may not be specified when `port` is not specified",
        ),
        (incoming({"port": "http", "endPort": 79}), "79: may not be specified when `port` is non-numeric"),
        (
            incoming({"port": 80, "protocol": "ICMP"}),
            f'{PORT}.protocol: Unsupported value: "ICMP": supported values: "TCP", "UDP", "SCTP"',
        ),
        ({"ingress": [{"from": [{}]}]}, f"{FROM}: Required value: must specify a peer"),
        (incoming(ipBlock={"cidr": ""}), f"{FROM}.ipBlock.cidr: Required value"),
        (incoming(ipBlock={"cidr": "10.0.0.1"}), f'{FROM}.ipBlock.cidr: Invalid value: "10.0.0.1"'),
        (incoming(ipBlock={**BLOCK, "except": ["11.0.0.0/16"]}), "must be a strict subset of `cidr`"),
        (incoming(ipBlock={**BLOCK, "except": ["10.0.0.0/8"]}), "must be a strict subset of `cidr`"),
        (incoming(ipBlock={**BLOCK, "except": ["fe80::/64"]}), "must be a strict subset of `cidr`"),
        (incoming(ipBlock={**BLOCK, "except": ["x"]}), f'{FROM}.ipBlock.except[0]: Invalid value: "x"'),
        (incoming(ipBlock=BLOCK, podSelector={}), f"{FROM}: Forbidden: may not specify both ipBlock and another peer"),
        (incoming(podSelector={"matchLabels": {"_": "x"}}), f"{FROM}.podSelector.matchLabels: Invalid value"),
        ({"policyTypes": ["Sideways"]}, 'Unsupported value: "Sideways": supported values: "Ingress", "Egress"'),
        ({"policyTypes": ["Ingress", "Egress", "Ingress"]}, "may not specify more than two policyTypes"),
        ({"egress": [{"to": [{}]}]}, "spec.egress[0].to[0]: Required value: must specify a peer"),
    ],
)
def test_network_policies_that_are_refused(plane: Plane, spec: Json, wrong: str) -> None:
    assert wrong in refused(plane, made("NetworkPolicy", spec)).message


@pytest.mark.parametrize(
    ("spec", "filled"),
    [
        ({}, {"podSelector": {}, "policyTypes": ["Ingress"]}),
        ({"egress": [{}]}, {"podSelector": {}, "egress": [{}], "policyTypes": ["Ingress", "Egress"]}),
        (
            incoming({"port": 80}, ipBlock={**BLOCK, "except": ["10.1.0.0/16"]}),
            {
                "podSelector": {},
                "policyTypes": ["Ingress"],
                "ingress": [
                    {
                        "ports": [{"port": 80, "protocol": "TCP"}],
                        "from": [{"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}}],
                    }
                ],
            },
        ),
    ],
)
def test_defaults_of_network_policies(plane: Plane, spec: Json, filled: Json) -> None:
    assert plane.create(made("NetworkPolicy", spec))["spec"] == filled
