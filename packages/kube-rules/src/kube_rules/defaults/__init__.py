"""Defaults of the API server before validation: per kind, and the initial status of a new object.

Three steps, each in place and each idempotent:

- `apply_defaults` after decoding, on every write (upstream: `pkg/apis/*/v1/defaults.go` of 1.36 and 1.37);
- `prepare_create` once, when an object is created: its initial status, finalizers of a namespace;
- `apply_identity` once the object has its uid: fields derived from it (selector and labels of a Job).

Fields that depend on other objects (priority, service account, tolerations, quota) belong to admission, not here.
Custom resources take their defaults from their schema (`Schema.structural.default`).
"""

from __future__ import annotations

import copy

from kube_rules.defaults.kinds import DEFAULTS, FIRST_STATUS, NEW, job_identity
from kube_rules.defaults.pods import qos_class
from kube_rules.json import Json
from kube_rules.kinds import KindName

__all__ = ["apply_defaults", "apply_identity", "prepare_create", "qos_class"]


_DATED = (("", "Pod"), ("apiregistration.k8s.io", "APIService"))
"""Kinds with initial conditions."""


def apply_defaults(kind: KindName, obj: Json) -> None:
    """Fill in, in place, the defaults of a decoded object. Kinds without defaults are unchanged."""
    fill = DEFAULTS.get((kind.group, kind.kind))
    if fill is not None:
        fill(obj)


def prepare_create(kind: KindName, obj: Json, *, now: str) -> None:
    """Give a new object its initial status, in place; a status from the client is replaced.

    `now` is the time of the request in RFC 3339 form. Call it for kinds with a status that a create request does not
    set; nodes keep the status that they send.
    """
    key = (kind.group, kind.kind)
    if key in FIRST_STATUS:
        obj["status"] = copy.deepcopy(dict(FIRST_STATUS[key]))
    fill = NEW.get(key)
    if fill is not None:
        fill(obj)
    if key in _DATED:
        for condition in obj["status"].get("conditions", ()):
            condition["lastTransitionTime"] = now


def apply_identity(kind: KindName, obj: Json) -> None:
    """Derive, in place, the fields that need `metadata.uid` and `metadata.name`; only on create."""
    if (kind.group, kind.kind) == ("batch", "Job"):
        job_identity(obj)
