"""Rules of the kinds that run pods: replica sets, deployments, stateful and daemon sets, jobs."""

from __future__ import annotations

from reprieve.api.json import Json
from reprieve.api.selectors import SelectorError
from reprieve.controlplane.rules import pods, scheduling, selectors
from reprieve.controlplane.rules import rows as r
from reprieve.controlplane.rules.policies import int_or_percent
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.selectors import label_selector

_MISMATCH = "`selector` does not match template `labels`"
_JOB_COUNTS = ("parallelism", "completions", "backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished")
_STATEFUL_FREE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_SCHEDULING_DIRECTIVES = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _fits_template(spec: Json, path: str) -> r.Found:
    """The selector matches the labels of the template."""
    labels = r.reach(spec, "template.metadata").get("labels", {})
    try:
        fits = label_selector(spec["selector"]).matches(labels)
    except SelectorError:
        fits = False
    if not fits:
        yield fe.invalid(f"{path}.template.metadata.labels", labels, _MISMATCH)


def _selector(spec: Json, path: str) -> r.Found:
    selector = spec.get("selector")
    if selector is None:
        yield fe.required(f"{path}.selector")
        return
    yield from selectors.label_selector(selector, f"{path}.selector")
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        yield fe.invalid(f"{path}.selector", selector, "empty selector is invalid")
    else:
        yield from _fits_template(spec, path)


def _plain_selector(spec: Json, path: str) -> r.Found:
    return _fits_template(spec, path) if spec.get("selector") else (fe.required(f"{path}.selector"),)


def _template(spec: Json, path: str) -> r.Found:
    """A stateful set's pods may also mount the claims it makes for them."""
    claims = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    return pods.template(spec.get("template", {}), f"{path}.template", claims)


_RUNS_ON = (_template, r.below("template", r.below("spec", r.enum("restartPolicy", ("Always",), missing=None))))


def _rolling(spec: Json, path: str) -> r.Found:
    strategy = spec.get("strategy", {})
    kind, rolling = strategy.get("type", ""), strategy.get("rollingUpdate")
    place = f"{path}.strategy.rollingUpdate"
    if kind == "Recreate" and rolling is not None:
        yield fe.forbidden(place, "may not be specified when strategy `type` is 'Recreate'")
    elif kind == "RollingUpdate" and rolling is not None:
        yield from _STEPS(rolling, place)
        if all(rolling.get(name) in (0, "0%") for name in ("maxUnavailable", "maxSurge")):
            yield fe.invalid(f"{place}.maxUnavailable", rolling["maxUnavailable"], "may not be 0 when `maxSurge` is 0")


_STEPS = int_or_percent("maxUnavailable", "maxSurge")


def _deadline(spec: Json, path: str) -> r.Found:
    deadline = spec.get("progressDeadlineSeconds", 600)
    if deadline <= spec.get("minReadySeconds", 0):
        yield fe.invalid(f"{path}.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")


def _pod_management(spec: Json, path: str) -> r.Found:
    policy = spec.get("podManagementPolicy", "")
    if policy not in ("OrderedReady", "Parallel"):
        yield fe.invalid(f"{path}.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")


_REPLICATED = (r.at_least(0, "replicas", "minReadySeconds", "revisionHistoryLimit"), _selector, *_RUNS_ON)
replica_set = r.below("spec", *_REPLICATED)
replication_controller = r.below("spec", r.at_least(0, "replicas", "minReadySeconds"), _plain_selector, *_RUNS_ON)
"""The older form: its selector is a plain map."""
deployment = r.below(
    "spec", *_REPLICATED, r.below("strategy", r.enum("type", ("Recreate", "RollingUpdate"))), _rolling, _deadline
)
"""A replica set with a way to roll."""
stateful_set = r.below("spec", *_REPLICATED, _pod_management)
"""A replica set of pods with names."""
daemon_set = r.below(
    "spec", _selector, *_RUNS_ON, r.below("updateStrategy", r.enum("type", ("OnDelete", "RollingUpdate")))
)
"""A pod on every node."""
same_selector = r.fixed("spec", "selector")


def stateful_changes(new: Json, old: Json) -> r.Found:
    """Only replicas, template and strategy change."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if any(after.get(name) != before.get(name) for name in {*after, *before} - {*_STATEFUL_FREE}):
        said = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        yield fe.forbidden("spec", said)


def _completion(spec: Json, path: str) -> r.Found:
    mode = spec.get("completionMode")
    if mode == "Indexed" and "completions" not in spec:
        yield fe.required(f"{path}.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and mode != "Indexed":
        shown = spec["backoffLimitPerIndex"]
        yield fe.invalid(f"{path}.backoffLimitPerIndex", shown, "requires indexed completion mode")


def _restarts(spec: Json, path: str) -> r.Found:
    policy = r.reach(spec, "template.spec").get("restartPolicy")
    place = f"{path}.template.spec.restartPolicy"
    if policy == "Always":
        yield fe.required(place, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield fe.not_supported(place, policy, ("OnFailure", "Never"))
    elif "podFailurePolicy" in spec and policy != "Never":
        yield fe.invalid(place, policy, 'only "Never" is supported when podFailurePolicy is specified')


def _own_selector(spec: Json, path: str) -> r.Found:
    selector = spec.get("selector")
    if selector is not None:
        yield from selectors.label_selector(selector, f"{path}.selector")
        yield from _fits_template(spec, path)
    elif spec.get("manualSelector"):
        yield fe.required(f"{path}.selector")


def _scheduling(spec: Json, path: str) -> r.Found:
    if spec.get("scheduling") is not None:
        yield from scheduling.of_a_job(spec["scheduling"], f"{path}.scheduling")


_JOB_NUMBERS = r.at_least(0, *_JOB_COUNTS)
_JOB = r.all_of(
    _scheduling, _JOB_NUMBERS, r.enum("completionMode", ("NonIndexed", "Indexed")), _completion, _template, _restarts
)
job = r.below("spec", _JOB, _own_selector)
"""Counts, template and modes of a job."""


def job_changes(new: Json, old: Json) -> r.Found:
    """Counts change, completions of an elastic job with its parallelism."""
    after, before = new.get("spec", {}), old.get("spec", {})
    yield from _JOB_NUMBERS(after, "spec")
    yield from _scheduling(after, "spec")
    yield from scheduling.same_but_min_count(after, before, "spec.scheduling")
    elastic = after.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if after.get("completions") != before.get("completions") and not elastic:
        yield fe.invalid("spec.completions", after.get("completions"), r.IMMUTABLE)


def same_job_template(new: Json, old: Json) -> r.Found:
    """The template stays; a suspended job may be placed anew (KEP-2926)."""
    before = old.get("spec", {})
    now, was = new.get("spec", {}).get("template", {}), before.get("template", {})
    if now != was and before.get("suspend") and "startTime" not in old.get("status", {}):
        was = _placed_like(was, now)
    if now != was:
        yield fe.invalid("spec.template", now, r.IMMUTABLE)


def _placed_like(was: Json, now: Json) -> Json:
    """The old template with the new one's labels, annotations and scheduling directives."""

    def mixed(part: str, of_the_new: tuple[str, ...]) -> Json:
        kept = {key: value for key, value in was.get(part, {}).items() if key not in of_the_new}
        return kept | {key: value for key, value in now.get(part, {}).items() if key in of_the_new}

    metadata = mixed("metadata", ("labels", "annotations"))
    return {**was, "metadata": metadata, "spec": mixed("spec", _SCHEDULING_DIRECTIVES)}


def _schedule(spec: Json, path: str) -> r.Found:
    schedule = spec.get("schedule", "")
    if not schedule:
        yield fe.required(f"{path}.schedule")
    elif len(schedule.split()) != 5 and not schedule.startswith("@"):
        said = f"expected exactly 5 fields, found {len(schedule.split())}: [{schedule}]"
        yield fe.invalid(f"{path}.schedule", schedule, said)


def _started(spec: Json, path: str) -> r.Found:
    inner = {"completionMode": "NonIndexed", **r.reach(spec, "jobTemplate.spec")}
    return _JOB(inner, f"{path}.jobTemplate.spec")


cron_job = r.below("spec", _schedule, r.enum("concurrencyPolicy", ("Allow", "Forbid", "Replace")), _started)
"""A schedule and the job it starts."""
