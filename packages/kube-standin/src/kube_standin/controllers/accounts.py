"""What every namespace has: the service account ``default`` and the config map with the server's CA."""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Seen

DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
_CA_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class _PerNamespace(Controller):
    """Keeps one object in every namespace; keys are names of namespaces."""

    resource = ""
    object_name = ""

    def connect(self) -> None:
        """Queue a namespace when it appears or when its object changes."""
        sources = self.context.sources
        self._namespaces = sources.of("namespaces", Seen)
        self._namespaces.add_handler(lambda old, new: self.queue(new.metadata.name) if new and not old else None)
        sources.of(self.resource, Seen).add_handler(self._changed)

    def _changed(self, old: Seen | None, new: Seen | None) -> None:
        seen = new or old
        if old is not None and seen is not None and seen.metadata.name == self.object_name:
            self.queue(seen.metadata.namespace)

    def wanted(self, namespace: str) -> bool:
        """Return whether the namespace is there to stay."""
        found = self._namespaces.items.get(("", namespace))
        return found is not None and found.metadata.deletion_timestamp is None


class ServiceAccounts(_PerNamespace):
    """Keeps the default service account."""

    name = "serviceaccount"
    resource = "serviceaccounts"
    object_name = DEFAULT_ACCOUNT

    def reconcile(self, key: str) -> None:
        """Make the account if it is missing."""
        kind = self.context.kind("v1", "ServiceAccount")
        if self.wanted(key) and self.context.registry.head(kind, key, DEFAULT_ACCOUNT) is None:
            self.context.create(kind, key, {"metadata": {"name": DEFAULT_ACCOUNT}})


class RootCertificates(_PerNamespace):
    """Keeps the config map with the CA certificate (empty text if the server has no TLS)."""

    name = "root-ca-certificate-publisher"
    resource = "configmaps"
    object_name = ROOT_CA

    def reconcile(self, key: str) -> None:
        """Make the config map, or set right what was changed in it."""
        if not self.wanted(key):
            return
        kind = self.context.kind("v1", "ConfigMap")
        data = {"ca.crt": self.context.ca_certificate}
        found = self.context.find(kind, (key, ROOT_CA))
        if found is None:
            self.context.create(kind, key, {"metadata": {"name": ROOT_CA, "annotations": _CA_NOTE}, "data": data})
        elif found.get("data") != data:

            def change(obj: Json) -> None:
                obj["data"] = data

            self.context.modify(kind, (key, ROOT_CA), change)
