"""The objects of every namespace: the service account ``default`` and the config map with the server's CA."""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.admission.pods import DEFAULT_ACCOUNT, ROOT_CA
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import ObjectView

_CA_NOTE = {
    "kubernetes.io/description": "Contains a CA bundle that can be used to verify the kube-apiserver when using "
    "internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed "
    "across distributions of Kubernetes clusters."
}


class _PerNamespace(Controller):
    """A controller that keeps one object in every namespace; keys are names of namespaces."""

    resource = ""
    object_name = ""

    def connect(self) -> None:
        """Queue a namespace when it is created and when its object changes."""
        sources = self.context.sources
        self._namespaces = sources.of("namespaces", ObjectView)
        self._namespaces.add_handler(lambda old, new: self.queue(new.metadata.name) if new and not old else None)
        sources.of(self.resource, ObjectView).add_handler(self._changed)

    def _changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        current = new or old
        if old is not None and current is not None and current.metadata.name == self.object_name:
            self.queue(current.metadata.namespace)

    def wanted(self, namespace: str) -> bool:
        """Return whether the namespace exists and is not terminating."""
        namespaced = self._namespaces.items.get(("", namespace))
        return namespaced is not None and namespaced.metadata.deletion_timestamp is None


class ServiceAccounts(_PerNamespace):
    """The controller that keeps the default service account."""

    name = "serviceaccount"
    resource = "serviceaccounts"
    object_name = DEFAULT_ACCOUNT

    def reconcile(self, key: str) -> None:
        """Create the account if it is missing."""
        kind = self.context.kind("v1", "ServiceAccount")
        if self.wanted(key) and self.context.registry.head(kind, key, DEFAULT_ACCOUNT) is None:
            self.context.create(kind, key, {"metadata": {"name": DEFAULT_ACCOUNT}})


class RootCertificates(_PerNamespace):
    """The controller that keeps the config map with the CA certificate (empty if the server has no TLS)."""

    name = "root-ca-certificate-publisher"
    resource = "configmaps"
    object_name = ROOT_CA

    def reconcile(self, key: str) -> None:
        """Create the config map, or restore its data."""
        if not self.wanted(key):
            return
        kind = self.context.kind("v1", "ConfigMap")
        data = {"ca.crt": self.context.ca_certificate}
        config_map = self.context.find(kind, (key, ROOT_CA))
        if config_map is None:
            self.context.create(kind, key, {"metadata": {"name": ROOT_CA, "annotations": _CA_NOTE}, "data": data})
        elif config_map.get("data") != data:

            def change(obj: Json) -> None:
                obj["data"] = data

            self.context.modify(kind, (key, ROOT_CA), change)
