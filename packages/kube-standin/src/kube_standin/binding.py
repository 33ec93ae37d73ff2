"""POST .../pods/NAME/binding: the only way to bind a pod to a node. Rules and texts: kube-apiserver 1.36.

A binding does not check whether the node exists. It sets nodeName and PodScheduled, merges annotations and labels,
clears the nomination, honours uid and resourceVersion as preconditions, and refuses pods that are bound, gated or
terminating.
"""

from __future__ import annotations

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.conditions import pod_condition, set_condition
from kube_standin.errors import StatusError
from kube_standin.kinds import subresource
from kube_standin.registry import ObjectRegistry, Outcome, WriteOptions
from kube_standin.subresource_admission import admit_body


def bind_now(registry: ObjectRegistry, namespace: str, name: str, binding: Json, options: WriteOptions) -> Outcome:
    """Stage a binding; the outcome is the Status of the response once the binding is durable."""
    metadata = binding.get("metadata") or {}
    if not name:
        name = metadata.get("name", "")
    elif metadata.get("name", name) != name:
        raise errors.bad_request("name in URL does not match name in Binding object")
    if metadata.get("namespace", namespace) != namespace:
        raise errors.bad_request(
            "the namespace of the provided object does not match the namespace sent on the request"
        )
    kind = registry.kind("v1", "Pod")
    place = subresource(kind, "binding")
    binding = admit_body(registry, "CREATE", kind, namespace, name, place, (binding, None), options)
    metadata, target = binding.get("metadata") or {}, binding.get("target") or {}
    _check_target(target)
    state = registry.existing(kind, namespace, name)
    pod = state.decode()
    own = pod["metadata"]
    for part, wanted, current in (
        ("UID", metadata.get("uid"), own["uid"]),
        ("ResourceVersion", metadata.get("resourceVersion"), own["resourceVersion"]),
    ):
        if wanted and wanted != current:
            raise registry.precondition_failed(kind, namespace, name, wanted, current, part)
    spec = pod["spec"]
    if own.get("deletionTimestamp"):
        raise _conflict(name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise _conflict(name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _conflict(name, f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = target["name"]
    for field in ("annotations", "labels"):
        if metadata.get(field):
            own[field] = {**(own.get(field) or {}), **metadata[field]}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    set_condition(status, pod_condition("PodScheduled", "True", registry.clock.stamp()))
    if not options.dry_run:
        registry.put(state.resource, namespace, name, pod, state)
    return Outcome(errors.CREATED, created=True, ticket=registry.store.ticket)


def _check_target(target: Json) -> None:
    kind = target.get("kind", "")
    if kind not in ("", "Node"):
        raise errors.internal(f'target.kind: Unsupported value: "{kind}": supported values: "Node", "<empty>"')
    if not target.get("name"):
        raise errors.internal("target.name: Required value")


def _conflict(name: str, why: str) -> StatusError:
    return errors.conflict("pods/binding", "", name, why)
