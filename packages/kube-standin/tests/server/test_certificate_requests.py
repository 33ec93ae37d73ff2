"""CertificateSigningRequests: what is stored, and which users may decide and sign (interfaces.md 4.9)."""

from __future__ import annotations

import base64
from collections.abc import Iterator

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.server.live import Live, live
from tests.server.manifests_of_kinds import SIGNING_REQUEST, Json

REQUESTS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
CERTIFICATE = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n").decode()
MANY_BEGINNINGS = base64.b64encode(b"-----BEGIN CERTIFICATE REQUEST-----\n" * 50_000).decode()
"""To look from each for an end would take minutes."""
APPROVED, DENIED, FAILED = ({"type": kind, "status": "True"} for kind in ("Approved", "Denied", "Failed"))


@pytest.fixture(scope="module")
def plane() -> Iterator[Live]:
    with live() as running:
        for user, verbs in (("ann", ["approve"]), ("sam", ["sign"])):
            mine = {
                "apiGroups": ["certificates.k8s.io"],
                "resources": ["*"],
                "verbs": ["create", "get", "update", "patch"],
            }
            decides = {**mine, "resources": ["signers"], "resourceNames": ["example.com/*"], "verbs": verbs}
            role = {"metadata": {"name": user}, "rules": [mine, decides]}
            reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": user}
            subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user}]
            binding = {"metadata": {"name": user}, "roleRef": reference, "subjects": subjects}
            assert running.request("POST", f"{RBAC}/clusterroles", role)[0] == 201
            assert running.request("POST", f"{RBAC}/clusterrolebindings", binding)[0] == 201
        yield running


def made(name: str, **spec: object) -> Json:
    found = {"request": SIGNING_REQUEST, "signerName": "example.com/s", "usages": ["client auth"], **spec}
    return {"metadata": {"name": name}, "spec": {key: value for key, value in found.items() if value is not None}}


def written(plane: Live, path: str, user: str, *conditions: Json, **status: object) -> tuple[int, Json]:
    change = {"status": {**({"conditions": list(conditions)} if conditions else {}), **status}}
    code, answer, _ = plane.request("PATCH", f"{REQUESTS}/{path}", change, headers={**MERGE, "Impersonate-User": user})
    return code, answer


def test_request_is_approved_and_signed_by_users_with_the_right(plane: Live) -> None:
    """interfaces.md 4.9"""
    body = made("a", username="sam", groups=["system:masters"])
    code, answer, _ = plane.request("POST", REQUESTS, body, headers={"Impersonate-User": "ann"})
    assert (code, answer["spec"]["username"], answer["status"]) == (201, "ann", {})
    assert answer["spec"]["groups"] == ["system:authenticated"]
    code, answer = written(plane, "a/approval", "sam", APPROVED)
    assert (code, answer["reason"]) == (403, "Forbidden")
    assert 'user not permitted to approve requests with signerName "example.com/s"' in answer["message"]
    code, answer = written(plane, "a/approval", "ann", APPROVED, certificate=CERTIFICATE)
    assert code == 200
    assert "certificate" not in answer["status"], "a decision brings no certificate"
    (condition,) = answer["status"]["conditions"]
    assert {"lastUpdateTime", "lastTransitionTime"} <= condition.keys()
    assert written(plane, "a/status", "ann", APPROVED, certificate=CERTIFICATE)[0] == 403
    code, answer = written(plane, "a/status", "sam", condition, certificate=CERTIFICATE)
    assert (code, answer["status"]["certificate"]) == (200, CERTIFICATE)
    for wrong in (None, SIGNING_REQUEST):
        assert written(plane, "a/status", "sam", certificate=wrong)[0] == 422
    answer["spec"]["usages"] = ["server auth"]
    assert plane.request("PUT", f"{REQUESTS}/a", answer)[0] == 422


def test_decisions_stay(plane: Live) -> None:
    """interfaces.md 4.9"""
    plane.request("POST", REQUESTS, made("b"))
    assert written(plane, "b/status", "sam", APPROVED)[0] == 422, "a signer does not approve"
    assert written(plane, "b/approval", "ann", APPROVED, DENIED)[0] == 422
    assert written(plane, "b/approval", "ann", {**APPROVED, "status": "False"})[0] == 422
    assert written(plane, "b/approval", "ann", DENIED)[0] == 200
    code, answer = written(plane, "b/approval", "ann", APPROVED)
    assert code == 422
    assert 'updates may not remove a condition of type "Denied"' in answer["message"]
    assert written(plane, "b/status", "sam", DENIED, FAILED)[0] == 200


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"request": None}, "spec.request: Required value"),
        ({"request": CERTIFICATE}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"request": "Zm9v"}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"request": MANY_BEGINNINGS}, "PEM block type must be CERTIFICATE REQUEST"),
        ({"usages": ["any"] * 100_000}, "Duplicate value"),
        ({"usages": []}, "spec.usages: Required value"),
        ({"usages": ["nothing"]}, 'spec.usages[0]: Unsupported value: "nothing"'),
        ({"usages": ["any", "any"]}, 'spec.usages[1]: Duplicate value: "any"'),
        ({"signerName": None}, "spec.signerName: Required value"),
        ({"signerName": "s"}, "must be a fully qualified domain and path of the form 'example.com/signer-name'"),
        ({"signerName": "com/s"}, "should be a domain with at least two segments separated by dots"),
        ({"signerName": "example.com/_"}, 'spec.signerName: Invalid value: "example.com/_"'),
        ({"signerName": "kubernetes.io/legacy-unknown"}, "the legacy signerName is not allowed via this API version"),
        ({"expirationSeconds": 599}, "may not specify a duration less than 600 seconds (10 minutes)"),
    ],
)
def test_requests_that_are_refused(plane: Live, spec: Json, wrong: str) -> None:
    code, answer, _ = plane.request("POST", REQUESTS, made("c", **spec))
    assert code in (400, 422)
    assert wrong in answer["message"]


def test_request_of_a_real_client_is_stored_and_listed(plane: Live) -> None:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "jane")])
    key = ec.generate_private_key(ec.SECP256R1())
    pem = x509.CertificateSigningRequestBuilder().subject_name(subject).sign(key, hashes.SHA256())
    text = base64.b64encode(pem.public_bytes(serialization.Encoding.PEM)).decode()
    assert plane.request("POST", REQUESTS, made("d", request=text, expirationSeconds=3600))[0] == 201
    chosen = f"{REQUESTS}?fieldSelector=spec.signerName%3Dexample.com/s%2Cmetadata.name%3Dd"
    headers = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    _, table, _ = plane.request("GET", chosen, headers=headers)
    cells = dict(zip((one["name"] for one in table["columnDefinitions"]), table["rows"][0]["cells"], strict=True))
    assert (cells["SignerName"], cells["RequestedDuration"], cells["Condition"]) == ("example.com/s", "60m", "Pending")
