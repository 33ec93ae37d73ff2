"""Rules of the kinds that run pods: replica sets, deployments, stateful and daemon sets, jobs."""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import pods, resources, selectors
from reprieve.controlplane.rules.policies import int_or_percent
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_IMMUTABLE = "field is immutable"
_MISMATCH = "`selector` does not match template `labels`"
_JOB_COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_STATEFUL_FREE = frozenset(
    [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ]
)
_SCHEDULING_DIRECTIVES = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _matches(selector: Json, labels: Json) -> bool:
    for key, value in selector.get("matchLabels", {}).items():
        if labels.get(key) != value:
            return False
    for expression in selector.get("matchExpressions", ()):
        key, operator, values = expression.get("key"), expression.get("operator"), expression.get("values", ())
        has = key in labels
        fits = {
            "In": has and labels.get(key) in values,
            "NotIn": not has or labels.get(key) not in values,
            "Exists": has,
            "DoesNotExist": not has,
        }
        if not fits.get(operator, False):
            return False
    return True


def _selector(spec: Json) -> Iterator[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        yield fe.required("spec.selector")
        return
    yield from selectors.label_selector(selector, "spec.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield fe.invalid("spec.selector", selector, "empty selector is invalid")
        return
    labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
    if not _matches(selector, labels):
        yield fe.invalid("spec.template.metadata.labels", labels, _MISMATCH)


def _always_restarts(spec: Json) -> Iterator[FieldError]:
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    if policy != "Always":
        yield fe.not_supported("spec.template.spec.restartPolicy", policy, ("Always",))


def replica_set(obj: Json) -> Iterator[FieldError]:
    """Replicas, selector and template; a stateful set's pods may also mount the claims it makes for them."""
    spec = obj.get("spec", {})
    yield from resources.at_least_zero(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), "spec")
    yield from _selector(spec)
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    yield from pods.template(spec.get("template", {}), "spec.template", claims)
    yield from _always_restarts(spec)


def replica_set_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The selector stays."""
    yield from replica_set(new)
    yield from _same_selector(new, old)


def _same_selector(new: Json, old: Json) -> Iterator[FieldError]:
    after, before = new.get("spec", {}).get("selector"), old.get("spec", {}).get("selector")
    if after != before:
        yield fe.invalid("spec.selector", after, _IMMUTABLE)


def replication_controller(obj: Json) -> Iterator[FieldError]:
    """The older form: its selector is a plain map."""
    spec = obj.get("spec", {})
    yield from resources.at_least_zero(spec, ("replicas", "minReadySeconds"), "spec")
    selector, labels = spec.get("selector", {}), spec.get("template", {}).get("metadata", {}).get("labels", {})
    if not selector:
        yield fe.required("spec.selector")
    elif not _matches({"matchLabels": selector}, labels):
        yield fe.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    yield from pods.template(spec.get("template", {}), "spec.template")
    yield from _always_restarts(spec)


def replication_controller_update(new: Json, _: Json) -> Iterator[FieldError]:
    """Every part may change."""
    yield from replication_controller(new)


def deployment(obj: Json) -> Iterator[FieldError]:
    """A replica set with a way to roll."""
    yield from replica_set(obj)
    spec = obj.get("spec", {})
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    if kind not in ("Recreate", "RollingUpdate"):
        yield fe.not_supported("spec.strategy.type", kind, ("Recreate", "RollingUpdate"))
    elif kind == "Recreate" and rolling is not None:
        said = "may not be specified when strategy `type` is 'Recreate'"
        yield fe.forbidden("spec.strategy.rollingUpdate", said)
    elif rolling is not None:
        for name in ("maxUnavailable", "maxSurge"):
            if name in rolling:
                yield from int_or_percent(rolling[name], f"spec.strategy.rollingUpdate.{name}")
        if all(rolling.get(name) in (0, "0%") for name in ("maxUnavailable", "maxSurge")):
            said = "may not be 0 when `maxSurge` is 0"
            yield fe.invalid("spec.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"], said)
    deadline = spec.get("progressDeadlineSeconds", 600)
    if deadline <= spec.get("minReadySeconds", 0):
        yield fe.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def deployment_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The selector stays."""
    yield from deployment(new)
    yield from _same_selector(new, old)


def stateful_set(obj: Json) -> Iterator[FieldError]:
    """A replica set of pods with names."""
    yield from replica_set(obj)
    policy = obj.get("spec", {}).get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        said = "must be 'OrderedReady' or 'Parallel'"
        yield fe.invalid("spec.podManagementPolicy", policy, said)


def stateful_set_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Only replicas, template and strategy change."""
    yield from stateful_set(new)
    after, before = new.get("spec", {}), old.get("spec", {})
    if {k: v for k, v in after.items() if k not in _STATEFUL_FREE} != {
        k: v for k, v in before.items() if k not in _STATEFUL_FREE
    }:
        said = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        yield fe.forbidden("spec", said)


def daemon_set(obj: Json) -> Iterator[FieldError]:
    """A pod on every node."""
    spec = obj.get("spec", {})
    yield from _selector(spec)
    yield from pods.template(spec.get("template", {}), "spec.template")
    yield from _always_restarts(spec)
    kind = spec.get("updateStrategy", {}).get("type", "")
    if kind not in ("OnDelete", "RollingUpdate"):
        yield fe.not_supported("spec.updateStrategy.type", kind, ("OnDelete", "RollingUpdate"))


def daemon_set_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The selector stays."""
    yield from daemon_set(new)
    yield from _same_selector(new, old)


def job(obj: Json) -> Iterator[FieldError]:
    """Counts, template and modes of a job."""
    yield from _job_spec(obj.get("spec", {}), "spec")
    spec = obj.get("spec", {})
    selector = spec.get("selector")
    if selector is not None:
        yield from selectors.label_selector(selector, "spec.selector")
        labels = spec.get("template", {}).get("metadata", {}).get("labels", {})
        if not _matches(selector, labels):
            yield fe.invalid("spec.template.metadata.labels", labels, _MISMATCH)
    elif spec.get("manualSelector"):
        yield fe.required("spec.selector")


def _job_spec(spec: Json, path: str) -> Iterator[FieldError]:
    yield from resources.at_least_zero(spec, _JOB_COUNTS, path)
    mode = spec.get("completionMode")
    if mode not in ("NonIndexed", "Indexed"):
        yield fe.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    elif mode == "Indexed" and "completions" not in spec:
        yield fe.required(f"{path}.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and mode != "Indexed":
        yield fe.invalid(
            f"{path}.backoffLimitPerIndex", spec["backoffLimitPerIndex"], "requires indexed completion mode"
        )
    yield from pods.template(spec.get("template", {}), f"{path}.template")
    policy = spec.get("template", {}).get("spec", {}).get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield fe.required(place, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield fe.not_supported(place, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield fe.invalid(place, policy, 'only "Never" is supported when podFailurePolicy is specified')


def job_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Template, selector and modes stay; a suspended job may be placed anew (KEP-2926)."""
    after, before = new.get("spec", {}), old.get("spec", {})
    yield from resources.at_least_zero(after, _JOB_COUNTS, "spec")
    elastic = after.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if after.get("completions") != before.get("completions") and not elastic:
        yield fe.invalid("spec.completions", after.get("completions"), _IMMUTABLE)
    yield from _same_selector(new, old)
    now, was = after.get("template", {}), before.get("template", {})
    if now != was and before.get("suspend") and "startTime" not in old.get("status", {}):
        was = _placed_like(was, now)
    if now != was:
        yield fe.invalid("spec.template", now, _IMMUTABLE)
    for name in ("completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"):
        if after.get(name) != before.get(name):
            yield fe.invalid(f"spec.{name}", after.get(name), _IMMUTABLE)


def _placed_like(was: Json, now: Json) -> Json:
    """The old template with the new one's labels, annotations and scheduling directives."""
    meta = {k: v for k, v in was.get("metadata", {}).items() if k not in ("labels", "annotations")}
    meta |= {k: v for k, v in now.get("metadata", {}).items() if k in ("labels", "annotations")}
    spec = {k: v for k, v in was.get("spec", {}).items() if k not in _SCHEDULING_DIRECTIVES}
    spec |= {k: v for k, v in now.get("spec", {}).items() if k in _SCHEDULING_DIRECTIVES}
    return {**was, "metadata": meta, "spec": spec}


def cron_job(obj: Json) -> Iterator[FieldError]:
    """A schedule and the job it starts."""
    spec = obj.get("spec", {})
    if not spec.get("schedule"):
        yield fe.required("spec.schedule")
    elif len(spec["schedule"].split()) != 5 and not spec["schedule"].startswith("@"):
        said = f"expected exactly 5 fields, found {len(spec['schedule'].split())}: [{spec['schedule']}]"
        yield fe.invalid("spec.schedule", spec["schedule"], said)
    policy = spec.get("concurrencyPolicy", "")
    if policy not in ("Allow", "Forbid", "Replace"):
        yield fe.not_supported("spec.concurrencyPolicy", policy, ("Allow", "Forbid", "Replace"))
    inner = {"completionMode": "NonIndexed", **spec.get("jobTemplate", {}).get("spec", {})}
    yield from _job_spec(inner, "spec.jobTemplate.spec")


def cron_job_update(new: Json, _: Json) -> Iterator[FieldError]:
    """Every part may change."""
    yield from cron_job(new)
