"""CertificateSigningRequests: kubelets' are approved, approved ones are signed, old ones are deleted.

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
from kube_standin.controllers.views import Seen
from kube_standin.deletion import DeleteOptions
from kube_standin.rights import Attributes
from kube_standin.signers import KUBELET_CLIENT, SIGNERS, SigningError, names_of, read_request

_DECIDED: Final = timedelta(hours=1)
_UNDECIDED: Final = timedelta(hours=24)


class _SigningRequests(Controller):
    """Keys are names of requests."""

    def connect(self) -> None:
        """Queue a request when it changes."""
        self._row = self.context.kind("certificates.k8s.io/v1", "CertificateSigningRequest")
        self.context.sources.of(self._row.storage_key, Seen).add_handler(self._changed)

    def _changed(self, old: Seen | None, new: Seen | None) -> None:
        if new is not None:
            self.queue(new.metadata.name)

    def _condition(self, key: str, subresource: str, kind: str, reason: str, message: str) -> None:
        condition = {"type": kind, "status": "True", "reason": reason, "message": message}

        def change(obj: Json) -> None:
            obj.setdefault("status", {}).setdefault("conditions", []).append(condition)

        self.context.modify(self._row, ("", key), change, subresource)


def _conditions(request: Json) -> dict[str, Json]:
    return {one["type"]: one for one in (request.get("status") or {}).get("conditions") or ()}


class CertificateSigner(_SigningRequests):
    """Signs what is approved, for the signers of the cluster; without an authority nothing."""

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
    """Approves client certificates of kubelets for users with the right to that."""

    name = "csrapproving"

    def reconcile(self, key: str) -> None:
        """Approve a request if its user may have it."""
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
            asked = Attributes("create", self._row.group, self._row.plural, subresource)
            if authorizer.decide(user, asked).allowed:
                message = f"Auto approving {words} after SubjectAccessReview."
                self._condition(key, "approval", "Approved", "AutoApproved", message)
                return


class CertificateCleaner(_SigningRequests):
    """Deletes requests an hour after they were decided, a day after they were made, or when their certificate ends."""

    name = "csrcleaner"

    def reconcile(self, key: str) -> None:
        """Delete a request when its time is over, and come back for that."""
        request = self.context.find(self._row, ("", key))
        if request is None:
            return
        due = _end(request)
        if due <= self.context.now():
            self.context.delete(self._row, ("", key), DeleteOptions(uid=request["metadata"]["uid"]))
        else:
            self.context.timers.at(due, lambda: self.queue(key))


def _end(request: Json) -> datetime:
    """Return when a request is deleted."""
    conditions = _conditions(request)
    certificate = (request.get("status") or {}).get("certificate")
    decided = [conditions[kind] for kind in ("Denied", "Failed") if kind in conditions]
    if certificate and "Approved" in conditions:
        decided.append(conditions["Approved"])
    made = request["metadata"]["creationTimestamp"]
    ends = [parse_stamp(one.get("lastUpdateTime") or made) + _DECIDED for one in decided]
    if not decided:
        ends.append(parse_stamp(made) + _UNDECIDED)
    if certificate:
        try:
            found = x509.load_pem_x509_certificate(base64.b64decode(certificate))
            ends.append(found.not_valid_after_utc)
        except ValueError:  # another signer's form
            pass
    return min(ends)
