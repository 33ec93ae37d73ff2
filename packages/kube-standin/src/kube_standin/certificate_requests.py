"""CertificateSigningRequests: their users, the times of their conditions, and the rights to decide or sign.

Rules: the strategies of kube-apiserver and its admission plugins CertificateApproval, CertificateSigning and
CertificateSubjectRestriction, and NodeRestriction's for kubelets (interfaces.md 4.9).
"""

from __future__ import annotations

from typing import Final

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.authorization import MASTERS, Authorizer
from kube_standin.errors import bad_request
from kube_standin.node_authorization import NODE_PREFIX, node_of
from kube_standin.rights import Attributes
from kube_standin.signers import CLIENT, SIGNERS, SigningError, names_of, read_request

_GROUP: Final = "certificates.k8s.io"
_VERBS: Final = {"approval": "approve", "status": "sign"}


class CertificateRequests(Step):
    """Records the user of a new request, and refuses (403) decisions and certificates of users without the right."""

    kinds = frozenset((f"certificatesigningrequests.{_GROUP}",))

    def __init__(self, authorizer: Authorizer) -> None:
        self._authorizer = authorizer

    def mutate(self, request: AdmissionRequest) -> None:
        """Set the server's fields of a new request, and the times of changed conditions."""
        if request.operation == "CREATE":
            _note_user(request)
        elif request.operation == "UPDATE" and request.old is not None:
            _date_conditions(request.new, request.old, request.registry.clock.stamp())

    def validate(self, request: AdmissionRequest) -> None:
        """Check the right to decide for a signer, or to sign as it."""
        if request.operation == "CREATE":
            _check_subject(request)
        verb = _VERBS.get(request.subresource)
        if request.operation != "UPDATE" or verb is None or request.old is None:
            return
        before, after = ((obj.get("status") or {}) for obj in (request.old, request.new))
        if verb == "sign" and before == after:
            return
        signer = request.old["spec"]["signerName"]
        domain = signer.partition("/")[0]
        for name in (signer, f"{domain}/*"):
            attributes = Attributes(verb, _GROUP, "signers", name=name)
            if self._authorizer.decide(request.user, attributes).allowed:
                return
        raise request.refused(f'user not permitted to {verb} requests with signerName "{signer}"')


def _check_subject(request: AdmissionRequest) -> None:
    """Refuse requests for names that their users may not have. Raises StatusError."""
    spec, node = request.new.get("spec") or {}, node_of(request.user)
    signer = spec.get("signerName")
    if signer != CLIENT and (node is None or signer not in SIGNERS):
        return
    try:
        common, groups = names_of(read_request(spec.get("request", "")))
    except SigningError as error:
        raise bad_request(str(error)) from error
    if signer == CLIENT and MASTERS in groups:
        raise request.refused(f"use of {CLIENT} signer with {MASTERS} group is not allowed")
    if node is not None and signer != CLIENT and common != f"{NODE_PREFIX}{node}":
        raise request.refused(f"can only create a node CSR with CN={NODE_PREFIX}{node}")


def _note_user(request: AdmissionRequest) -> None:
    spec, user = request.new.setdefault("spec", {}), request.user
    for field in ("username", "uid", "groups", "extra"):
        spec.pop(field, None)
    spec["username"] = user.name
    if user.uid:
        spec["uid"] = user.uid
    if user.groups:
        spec["groups"] = list(user.groups)
    if user.extra:
        spec["extra"] = {name: list(values) for name, values in user.extra}


def _date_conditions(new: Json, old: Json, stamp: str) -> None:
    """Set the write and transition times of conditions that a client has not set."""
    before = {
        old_condition.get("type"): old_condition for old_condition in (old.get("status") or {}).get("conditions") or ()
    }
    for condition in (new.get("status") or {}).get("conditions") or ():
        same = before.get(condition.get("type"), {})
        condition.setdefault("lastUpdateTime", stamp)
        holds = same.get("status") == condition.get("status")
        condition.setdefault("lastTransitionTime", same.get("lastTransitionTime", stamp) if holds else stamp)
