"""Token requests of kubelets: bound to a pod of its node, for an audience of the pod (interfaces.md 5.14).

Rules and texts: NodeRestriction of kube-apiserver 1.36, with the gate ServiceAccountNodeAudienceRestriction.
"""

from __future__ import annotations

from collections.abc import Iterator

from kube_rules.json import Json
from kube_standin.admission_chain import Objects, User
from kube_standin.authorization import Authorizer
from kube_standin.errors import StatusError, forbidden, not_found
from kube_standin.node_authorization import node_of
from kube_standin.rights import Attributes

_VERB = "request-serviceaccounts-token-audience"


def check_token_request(
    objects: Objects, authorizer: Authorizer, user: User, namespace: str, account: str, body: Json
) -> None:
    """Refuse (403, 404) a kubelet's request for a token that is not for a pod on its node; other users pass."""
    node = node_of(user)
    if node is None:
        return
    spec = body.get("spec") or {}
    pod = _pod(objects, namespace, account, spec.get("boundObjectRef") or {})
    if (pod.get("spec") or {}).get("nodeName") != node:
        raise _refused(account, "node requested token bound to a pod scheduled on a different node")
    audiences = spec.get("audiences") or [""]
    if len(audiences) > 1:
        raise _refused(account, "node may only request 0 or 1 audiences")
    [audience] = audiences
    if audience in _audiences(objects, namespace, pod):
        return
    if not authorizer.decide(user, Attributes(_VERB, "", audience, "", namespace, account)).allowed:
        why = (
            f'audience "{audience}" not found in pod spec volume, {user.name} is not authorized to request tokens for '
            "this audience"
        )
        raise _refused(account, why)


def _refused(account: str, why: str) -> StatusError:
    return forbidden("serviceaccounts", "", account, why)


def _pod(objects: Objects, namespace: str, account: str, reference: Json) -> Json:
    """Return the pod that the token is to be bound to."""
    if (reference.get("apiVersion"), reference.get("kind")) != ("v1", "Pod") or not reference.get("name"):
        raise _refused(account, "node requested token not bound to a pod")
    uid = reference.get("uid")
    if not uid:
        raise _refused(account, "node requested token with a pod binding without a uid")
    pod = _find(objects, "pods", namespace, reference["name"])
    if not pod:
        raise not_found("pods", "", reference["name"])
    if pod["metadata"]["uid"] != uid:
        why = (
            f"the UID in the bound object reference ({uid}) does not match the UID in record. The object might have "
            "been deleted and then recreated"
        )
        raise _refused(account, why)
    return pod


def _find(objects: Objects, resource: str, namespace: str, name: str) -> Json:
    state = objects.store.head(resource, namespace, name)
    return {} if state is None else state.decode()


def _audiences(objects: Objects, namespace: str, pod: Json) -> Iterator[str]:
    """Yield the audiences of the tokens that volumes of a pod need: projected ones, and drivers of CSI volumes."""
    for volume in pod["spec"].get("volumes") or ():
        for source in (volume.get("projected") or {}).get("sources") or ():
            if "serviceAccountToken" in source:
                yield (source["serviceAccountToken"] or {}).get("audience", "")
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName")
        if "ephemeral" in volume:
            claim = f"{pod['metadata']['name']}-{volume['name']}"
        driver = (volume.get("csi") or {}).get("driver")
        if claim:
            bound = (_find(objects, "persistentvolumeclaims", namespace, claim).get("spec") or {}).get("volumeName")
            source = (_find(objects, "persistentvolumes", "", bound).get("spec") or {}) if bound else {}
            driver = (source.get("csi") or {}).get("driver")
        if driver:
            requests = (_find(objects, "storage.k8s.io/csidrivers", "", driver).get("spec") or {}).get("tokenRequests")
            yield from (token_request.get("audience", "") for token_request in requests or ())
