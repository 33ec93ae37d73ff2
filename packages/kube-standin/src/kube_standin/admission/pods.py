"""What every new pod and node is given: the default service account, tolerations of lost nodes, a taint.

Rules: kube-apiserver's plugins ServiceAccount, DefaultTolerationSeconds and TaintNodesByCondition; recorded
answers 115 and 538.
"""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS = 300
DEFAULT_ACCOUNT = "default"


class ServiceAccount(Step):
    """A pod runs as a service account: ``default`` unless it names one, which must then exist.

    The default account may still be missing: the controller makes it a moment after its namespace, and a
    pod does not have to wait for that. No token is mounted, since no container runs.
    """

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Fill in or check the account of a new pod."""
        if request.operation != "CREATE" or request.subresource:
            return
        spec = request.new.setdefault("spec", {})
        name = spec.get("serviceAccountName") or spec.get("serviceAccount") or ""
        if name and name != DEFAULT_ACCOUNT:
            account = request.registry.store.head("serviceaccounts", request.namespace, name)
            if account is None:
                why = f'error looking up service account {request.namespace}/{name}: serviceaccount "{name}" not found'
                raise request.refused(why)
        spec["serviceAccountName"] = spec["serviceAccount"] = name or DEFAULT_ACCOUNT


class DefaultTolerationSeconds(Step):
    """A pod stays 300 s on a node that is not ready or unreachable, unless it has tolerations of its own for that."""

    kinds = frozenset(("pods",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the tolerations a new pod lacks."""
        if request.operation != "CREATE" or request.subresource:
            return
        spec = request.new.setdefault("spec", {})
        present = spec.get("tolerations") or []
        missing = [key for key in (NOT_READY, UNREACHABLE) if not any(tolerates_loss(one, key) for one in present)]
        if missing:
            added = (
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": TOLERATED_SECONDS}
                for key in missing
            )
            spec["tolerations"] = [*present, *added]


def tolerates_loss(toleration: Json, key: str) -> bool:
    """Whether a toleration covers the NoExecute taint of a lost node."""
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


class TaintNodes(Step):
    """A new node is not scheduled to before the node lifecycle controller has seen it ready."""

    kinds = frozenset(("nodes",))

    def mutate(self, request: AdmissionRequest) -> None:
        """Add the taint to a new node."""
        if request.operation != "CREATE" or request.subresource:
            return
        spec = request.new.setdefault("spec", {})
        taints = spec.get("taints") or []
        if not any(taint.get("key") == NOT_READY and taint.get("effect") == "NoSchedule" for taint in taints):
            spec["taints"] = [*taints, {"key": NOT_READY, "effect": "NoSchedule"}]
