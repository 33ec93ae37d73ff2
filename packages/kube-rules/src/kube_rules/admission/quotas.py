"""Quota admission: refuse an object that would exceed a quota of its namespace, otherwise charge the quota.

Rules: kube-apiserver's ResourceQuota plugin and its quota controller (texts included); recorded answers 537 to 547.
``hard`` and ``used`` are the amounts of one quota: an API server keeps them in its status, a plan separately.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime

from kube_rules.admission.amounts import Amount, Amounts, added, subtracted
from kube_rules.admission.usage import in_scope, unspecified, usage_of
from kube_rules.json import Json


class QuotaError(Exception):
    """A quota refuses an object; the text is the server's reason, ``exceeded quota: ...``."""


def growth_of(resource: str, new: Json, old: Json | None, now: datetime) -> Amounts:
    """Return the usage of an object, or its increase over the old state."""
    usage = usage_of(resource, new, now)
    if old is None:
        return usage
    change = subtracted(usage, usage_of(resource, old, now))
    return {name: amount for name, amount in change.items() if amount.nano > 0}


def counted(
    quota: Json,
    hard: Mapping[str, Amount],
    resource: str,
    obj: Json,
    now: datetime,
    classes: Collection[str] = (),
) -> Amounts:
    """Return the usage of one quota by an existing object; `classes`: see `in_scope`."""
    if not in_scope(quota, resource, obj, classes):
        return {}
    return {name: amount for name, amount in usage_of(resource, obj, now).items() if name in hard}


def charge_for(
    name: str,
    quota: Json,
    hard: Mapping[str, Amount],
    used: Mapping[str, Amount],
    resource: str,
    obj: Json,
    growth: Mapping[str, Amount],
    *,
    created: bool,
    classes: Collection[str] = (),
) -> Amounts:
    """Return the charge of a written object to the quota of this name.

    Arguments: ``growth`` is the result of `growth_of`; ``created`` is whether the object is new; ``classes``: see
    `in_scope`. Raises QuotaError.
    """
    concerned = {name: amount for name, amount in growth.items() if name in hard}
    must_specify = created and resource == "pods"
    if not (concerned or must_specify) or not in_scope(quota, resource, obj, classes):
        return {}
    missing = unspecified(obj, hard) if must_specify else ""
    if missing:
        raise QuotaError(f"failed quota: {name}: {missing}")
    afford(name, hard, used, concerned)
    return concerned


def afford(name: str, hard: Mapping[str, Amount], used: Mapping[str, Amount], concerned: Mapping[str, Amount]) -> None:
    """Raise QuotaError if the remaining quota is too small."""
    unknown = sorted(name for name in concerned if name not in used)
    if unknown:
        raise QuotaError(f"status unknown for quota: {name}, resources: {','.join(unknown)}")
    after = added(used, concerned)
    exceeded = [name for name in sorted(concerned) if after[name].nano > hard[name].nano]
    if exceeded:
        parts = (("requested", concerned), ("used", used), ("limited", hard))
        text = ", ".join(
            f"{word}: " + ",".join(f"{name}={source[name].text}" for name in exceeded) for word, source in parts
        )
        raise QuotaError(f"exceeded quota: {name}, {text}")
