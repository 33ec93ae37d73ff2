"""Defaults of new pods and nodes: a service account with its token, tolerations of lost nodes, a taint.

Rules: kube-apiserver's plugins ServiceAccount, DefaultTolerationSeconds and TaintNodesByCondition; recorded answers 115
and 538.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import count
from zlib import crc32

from kube_rules.controllers.pods import MIRROR, NAME_ALPHABET
from kube_rules.json import Json
from kube_rules.taints import NOT_READY, UNREACHABLE
from kube_standin.admission_chain import AdmissionRequest, Step

TOLERATED_SECONDS = 300
DEFAULT_ACCOUNT = "default"
ROOT_CA = "kube-root-ca.crt"
"""The ConfigMap in every namespace with the certificate of the server."""
TOKEN_VOLUME = "kube-api-access-"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_SOURCES = {
    "sources": [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"name": ROOT_CA, "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {
            "downwardAPI": {
                "items": [{"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}]
            }
        },
    ],
    "defaultMode": 420,
}
"""The volume of a service account: its token, the certificate of the server, the namespace."""


class ServiceAccount(Step):
    """Sets the service account of a pod: ``default`` unless the pod names one, which must then exist.

    Its containers mount the token of the account, unless the pod or the account disables that. The default account may
    still be missing: the controller creates it shortly after its namespace, and a pod need not wait for it.
    """

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Set or check the account of a new pod; mount its token, also in new ephemeral containers."""
        spec = request.new.setdefault("spec", {})
        if request.subresource == "ephemeralcontainers":
            self._mount_in_ephemeral(spec)
            return
        if not request.creates:
            return
        if MIRROR in (request.new["metadata"].get("annotations") or {}):
            return
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or DEFAULT_ACCOUNT
        state = request.registry.store.head("serviceaccounts", request.namespace, name)
        if state is None and name != DEFAULT_ACCOUNT:
            why = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
            raise request.refused(why)
        account = state.decode() if state is not None else {}
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        mounts = spec.get("automountServiceAccountToken", account.get("automountServiceAccountToken", True))
        if mounts is not False:
            self._mount(request.namespace, request.new["metadata"], spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [dict(secret) for secret in account["imagePullSecrets"]]

    @staticmethod
    def _mount(namespace: str, metadata: Json, spec: Json) -> None:
        """Add the volume and its mounts; containers with their own mount at the path keep it."""
        containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
        missing = [c for c in containers if isinstance(c, dict) and not _mounts_token(c)]
        if not missing:
            return
        volumes = spec.get("volumes") or []
        names = {volume.get("name") for volume in volumes}
        # Pods of one owner use the same name, where upstream draws a random one: equal specs stay equal.
        seed = f"{namespace}/{metadata.get('generateName') or metadata.get('name', '')}"
        name = next(name for turn in count() if (name := TOKEN_VOLUME + _letters(f"{seed}/{turn}")) not in names)
        spec["volumes"] = [*volumes, {"name": name, "projected": deepcopy(TOKEN_SOURCES)}]
        for container in missing:
            container["volumeMounts"] = [*(container.get("volumeMounts") or ()), _token_mount(name)]

    @staticmethod
    def _mount_in_ephemeral(spec: Json) -> None:
        """Mount the token volume of a pod in ephemeral containers without a token mount."""
        names = [volume["name"] for volume in spec.get("volumes") or () if volume["name"].startswith(TOKEN_VOLUME)]
        for container in spec.get("ephemeralContainers") or () if names else ():
            if not _mounts_token(container):
                container["volumeMounts"] = [*(container.get("volumeMounts") or ()), _token_mount(names[0])]


def _mounts_token(container: Json) -> bool:
    return any(mount.get("mountPath") == TOKEN_PATH for mount in container.get("volumeMounts") or ())


def _token_mount(volume: str) -> Json:
    return {"name": volume, "readOnly": True, "mountPath": TOKEN_PATH}


def _letters(seed: str) -> str:
    """Return the five letters of a generated name for a seed."""
    number = crc32(seed.encode())
    return "".join(NAME_ALPHABET[number // len(NAME_ALPHABET) ** place % len(NAME_ALPHABET)] for place in range(5))


class DefaultTolerationSeconds(Step):
    """Lets a pod stay 300 s on a not-ready or unreachable node, unless it has its own tolerations."""

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Add missing tolerations."""
        if request.operation not in ("CREATE", "UPDATE") or request.subresource:
            return
        spec = request.new.setdefault("spec", {})
        present = spec.get("tolerations") or []
        missing = [key for key in (NOT_READY, UNREACHABLE) if not any(tolerates_loss(t, key) for t in present)]
        if missing:
            added = (
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
                for key in missing
            )
            spec["tolerations"] = [*present, *added]


def tolerates_loss(toleration: Json, key: str) -> bool:
    """Return whether a toleration covers the NoExecute taint of a lost node."""
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


class TaintNodes(Step):
    """Prevents scheduling to a new node until the node lifecycle controller has observed it ready."""

    kinds = frozenset(("nodes",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the taint to a new node."""
        if not request.creates:
            return
        spec = request.new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
