"""CertificateSigningRequests: approve those of kubelets, sign approved ones, delete old ones.

Rules: kube-controller-manager's csrapproving, csrsigning and csrcleaner (interfaces.md 4.13).
"""

from __future__ import annotations

import base64
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509

from kube_rules.json import Json
from kube_standin.admission_chain import User
from kube_standin.authorization import Authorizer
from kube_standin.clock import parse_stamp
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import ObjectView
from kube_standin.deletion import DeleteOptions
from kube_standin.rights import Attributes
from kube_standin.signers import KUBELET_CLIENT, SIGNERS, SigningError, names_of, read_request

_DECIDED: Final = timedelta(hours=1)
_UNDECIDED: Final = timedelta(hours=24)


class _SigningRequests(Controller):
    """A controller of signing requests; keys are their names."""

    def connect(self) -> None:
        """Queue a request when it changes."""
        self._row = self.context.kind("certificates.k8s.io/v1", "CertificateSigningRequest")
        self.context.sources.of(self._row.storage_key, ObjectView).add_handler(self._changed)

    def _changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None:
            self.queue(new.metadata.name)

    def _condition(self, key: str, subresource: str, kind: str, reason: str, message: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}

        def change(obj: Json) -> None:
            obj.setdefault("status", {}).setdefault("conditions", []).append(condition)

        self.context.modify(self._row, ("", key), change, subresource)


def _conditions(request: Json) -> dict[str, Json]:
    return {condition["type"]: condition for condition in (request.get("status") or {}).get("conditions") or ()}


class CertificateSigner(_SigningRequests):
    """The controller that signs approved requests for the cluster's signers; it signs nothing without an authority."""

    name = "csrsigning"

    def reconcile(self, key: str) -> None:
        """Write the certificate, or the condition Failed."""
        request, authority = self.context.find(self._row, ("", key)), self.context.authority
        if request is None or authority is None or request["spec"]["signerName"] not in SIGNERS:
            return
        conditions = _conditions(request)
        if "Approved" not in conditions or "Failed" in conditions or request["status"].get("certificate"):
            return
        try:
            certificate = authority.sign(request["spec"], self.context.now())
        except SigningError as error:
            self._condition(key, "status", "Failed", "SignerValidationFailure", str(error))
            return
        self.context.set_status(self._row, ("", key), {**request["status"], "certificate": certificate})


class CertificateApprover(_SigningRequests):
    """The controller that approves client certificates of kubelets for users with the right to request them."""

    name = "csrapproving"

    def reconcile(self, key: str) -> None:
        """Approve a request if its user may have the certificate."""
        request = self.context.find(self._row, ("", key))
        if request is None or request["spec"]["signerName"] != KUBELET_CLIENT:
            return
        if _conditions(request).keys() & {"Approved", "Denied"}:
            return
        spec = request["spec"]
        try:
            parsed = read_request(spec["request"])
            SIGNERS[KUBELET_CLIENT](parsed, list(spec.get("usages") or ()))
        except SigningError:
            return
        user = User(spec.get("username", ""), tuple(spec.get("groups") or ()), spec.get("uid", ""))
        kinds = [("nodeclient", "kubelet client certificate")]
        if names_of(parsed)[0] == user.name:
            kinds.insert(0, ("selfnodeclient", "self kubelet client certificate"))
        authorizer = Authorizer(self.context.registry)
        for subresource, words in kinds:
            attributes = Attributes("create", self._row.group, self._row.plural, subresource)
            if authorizer.decide(user, attributes).allowed:
                message = f"Auto approving {words} after SubjectAccessReview."
                self._condition(key, "approval", "Approved", "AutoApproved", message)
                return


class CertificateCleaner(_SigningRequests):
    """The controller that deletes requests: 1 h after the decision, 24 h after creation, or at its end."""

    name = "csrcleaner"

    def reconcile(self, key: str) -> None:
        """Delete a request that is due, or queue it for the time when it will be."""
        request = self.context.find(self._row, ("", key))
        if request is None:
            return
        due = _end(request)
        if due <= self.context.now():
            self.context.delete(self._row, ("", key), DeleteOptions(uid=request["metadata"]["uid"]))
        else:
            self.context.timers.at(due, lambda: self.queue(key))


def _end(request: Json) -> datetime:
    """Return the time at which a request is deleted."""
    conditions = _conditions(request)
    certificate = (request.get("status") or {}).get("certificate")
    decided = [conditions[kind] for kind in ("Denied", "Failed") if kind in conditions]
    if certificate and "Approved" in conditions:
        decided.append(conditions["Approved"])
    created = request["metadata"]["creationTimestamp"]
    ends = [parse_stamp(condition.get("lastUpdateTime") or created) + _DECIDED for condition in decided]
    if not decided:
        ends.append(parse_stamp(created) + _UNDECIDED)
    if certificate:
        try:
            parsed = x509.load_pem_x509_certificate(base64.b64decode(certificate))
            ends.append(parsed.not_valid_after_utc)
        except ValueError:  # the format of another signer
            pass
    return min(ends)
