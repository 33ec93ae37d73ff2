"""What the API server fills in before it validates: defaults per kind, and what a new object's status
starts as.

Three steps, each in place and each idempotent:

- `apply_defaults` after decoding, on every write (upstream: `pkg/apis/*/v1/defaults.go` of 1.36 and 1.37);
- `prepare_create` once, when an object is created: the status it begins with, finalizers of a namespace;
- `apply_identity` once the object has its uid: what is derived from it (selector and labels of a Job).

What depends on other objects (priority, service account, tolerations, quota) is admission and not here.
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
"""Kinds that start with conditions."""


def apply_defaults(kind: KindName, obj: Json) -> None:
    """Fill in, in place, the defaults of a decoded object. Kinds without defaults are left alone."""
    fill = DEFAULTS.get((kind.group, kind.kind))
    if fill is not None:
        fill(obj)


def prepare_create(kind: KindName, obj: Json, *, now: str) -> None:
    """Give a new object, in place, the status it starts with; what a client sent as status is replaced.

    `now` is the time of the request in RFC 3339 form. Call it where the kind has a status that a create
    does not take over; nodes keep what they bring.
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
    """Derive, in place, what needs `metadata.uid` and `metadata.name` to be set; only on create."""
    if (kind.group, kind.kind) == ("batch", "Job"):
        job_identity(obj)
