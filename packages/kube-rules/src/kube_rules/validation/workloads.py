"""Rules of the workload kinds: replica sets, deployments, stateful and daemon sets, jobs."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from zoneinfo import available_timezones

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.schedules import Schedule
from kube_rules.selectors import SelectorError, compile_selector
from kube_rules.validation import names, pods, scheduling, selectors
from kube_rules.validation import rows as r
from kube_rules.validation.policies import int_or_percent

_MISMATCH = "`selector` does not match template `labels`"
_JOB_COUNTS = ("parallelism", "completions", "activeDeadlineSeconds", "backoffLimit", "ttlSecondsAfterFinished")
_STATEFUL_FREE = (
    "replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy", "minReadySeconds",
)  # fmt: skip
_SCHEDULING_DIRECTIVES = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


def _fits_template(spec: Json, path: str) -> r.Found:
    """Check that the selector matches the labels of the template."""
    labels = r.reach(spec, "template.metadata").get("labels")
    try:
        fits = compile_selector(spec["selector"]).matches(labels or {})
    except SelectorError:
        fits = False
    if not fits:
        yield fe.invalid(f"{path}.template.metadata.labels", labels, _MISMATCH)


def _selector(kind: str, *, needed: bool = True) -> r.Check:
    """Return the check of a selector, under the API server's name of its kind.

    Without a selector, a daemon set only gets the error that its template does not match.
    """

    def check(spec: Json, path: str) -> r.Found:
        selector = spec.get("selector")
        if selector is None:
            if needed:
                yield fe.required(f"{path}.selector")
            yield from _fits_template({**spec, "selector": {"matchExpressions": [{}]}}, path)
            return
        yield from selectors.label_selector(selector, f"{path}.selector")
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            yield fe.invalid(f"{path}.selector", selector, f"empty selector is invalid for {kind}")
        else:
            yield from _fits_template(spec, path)

    return check


def _plain_selector(spec: Json, path: str) -> r.Found:
    return _fits_template(spec, path) if spec.get("selector") else (fe.required(f"{path}.selector"),)


def _template(spec: Json, path: str) -> r.Found:
    """Check the template; a stateful set's pods may also mount the claims from its claim templates."""
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


_NUMBERS = r.at_least(0, "replicas", "minReadySeconds", "revisionHistoryLimit")
_REPLICATED = (_NUMBERS, _selector("deployment"), *_RUNS_ON)
replica_set = r.below("spec", *_REPLICATED)
replication_controller = r.below("spec", r.at_least(0, "replicas", "minReadySeconds"), _plain_selector, *_RUNS_ON)
"""Check a replication controller: its selector is a plain map."""
deployment = r.below(
    "spec", *_REPLICATED, r.below("strategy", r.enum("type", ("Recreate", "RollingUpdate"))), _rolling, _deadline
)
"""Check a replica set with a rolling strategy."""
_RETENTION = ("Retain", "Delete")


def _stateful_strategy(spec: Json, path: str) -> r.Found:
    strategy = spec.get("updateStrategy", {})
    kind, place = strategy.get("type", ""), f"{path}.updateStrategy"
    if not kind:
        yield fe.required(place)
    elif kind not in ("RollingUpdate", "OnDelete"):
        yield fe.invalid(place, strategy, "must be 'RollingUpdate' or 'OnDelete'")
    elif kind == "OnDelete" and strategy.get("rollingUpdate") is not None:
        detail = "only allowed for updateStrategy 'RollingUpdate'"
        yield fe.invalid(f"{place}.rollingUpdate", strategy["rollingUpdate"], detail)
    elif kind == "RollingUpdate":
        rolling, place = r.reach(strategy, "rollingUpdate"), f"{place}.rollingUpdate"
        yield from r.at_least(0, "partition")(rolling, place)
        yield from int_or_percent("maxUnavailable")(rolling, place)
        if rolling.get("maxUnavailable") in (0, "0%"):
            yield fe.invalid(f"{place}.maxUnavailable", rolling["maxUnavailable"], "cannot be 0")


stateful_set = r.below(
    "spec",
    _pod_management,
    _stateful_strategy,
    r.given(
        "persistentVolumeClaimRetentionPolicy", r.enum("whenDeleted", _RETENTION), r.enum("whenScaled", _RETENTION)
    ),
    r.at_least(0, "replicas", "minReadySeconds"),
    r.given("ordinals", r.at_least(0, "start")),
    _selector("statefulset"),
    *_RUNS_ON,
)
"""Check a replica set of pods with stable names."""


def _daemon_rolling(spec: Json, path: str) -> r.Found:
    """Check the rolling update: either unavailable or surplus pods must be allowed."""
    strategy = spec.get("updateStrategy", {})
    rolling, place = strategy.get("rollingUpdate"), f"{path}.updateStrategy.rollingUpdate"
    if strategy.get("type") != "RollingUpdate":
        return
    if rolling is None:
        yield fe.required(place)
        return
    yield from _STEPS(rolling, place)
    none = (0, "0%", None)
    away, surge = (rolling.get(name) in none for name in ("maxUnavailable", "maxSurge"))
    if away and surge:
        yield fe.required(f"{place}.maxUnavailable", "cannot be 0 when maxSurge is 0")
    elif not away and not surge:
        yield fe.invalid(f"{place}.maxSurge", rolling["maxSurge"], "may not be set when maxUnavailable is non-zero")


daemon_set = r.below(
    "spec",
    _selector("daemonset", needed=False),
    *_RUNS_ON,
    r.at_least(0, "minReadySeconds"),
    r.below("updateStrategy", r.enum("type", ("OnDelete", "RollingUpdate"))),
    _daemon_rolling,
    r.at_least(0, "revisionHistoryLimit"),
)
"""Check a set with a pod on every node."""


def revision(obj: Json, _: str) -> r.Found:
    """Check that a ControllerRevision has a number and its data."""
    yield from r.at_least(0, "revision")(obj, "")
    if obj.get("data") is None:
        yield fe.required("data", "data is mandatory")


def _replicas(*counts: str) -> r.Check:
    """Return the check of the numbers of a status: not negative, at most all replicas, no more available than ready."""

    def check(status: Json, path: str) -> r.Found:
        yield from r.at_least(0, "replicas", *counts, "observedGeneration", "collisionCount")(status, path)
        every = status.get("replicas", 0)
        for name in counts:
            if status.get(name, 0) > every:
                yield fe.invalid(f"{path}.{name}", status.get(name, 0), "cannot be greater than status.replicas")
        if "readyReplicas" in counts and status.get("availableReplicas", 0) > status.get("readyReplicas", 0):
            detail = "cannot be greater than readyReplicas"
            yield fe.invalid(f"{path}.availableReplicas", status.get("availableReplicas", 0), detail)

    return r.below("status", check)


deployment_status = _replicas("updatedReplicas", "readyReplicas", "availableReplicas")
replica_set_status = _replicas("fullyLabeledReplicas", "readyReplicas", "availableReplicas")
stateful_status = _replicas("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas")
same_selector = r.fixed("spec", "selector")


def stateful_changes(new: Json, old: Json) -> r.Found:
    """Check that only replicas, template and strategy change."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if any(after.get(name) != before.get(name) for name in {*after, *before} - {*_STATEFUL_FREE}):
        detail = (
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
            "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
        )
        yield fe.forbidden("spec", detail)


def _completion(spec: Json, path: str) -> r.Found:
    mode = spec.get("completionMode")
    if mode == "Indexed" and "completions" not in spec:
        yield fe.required(f"{path}.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and mode != "Indexed":
        shown = spec["backoffLimitPerIndex"]
        yield fe.invalid(f"{path}.backoffLimitPerIndex", shown, "requires indexed completion mode")
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield fe.required(f"{path}.backoffLimitPerIndex", "when maxFailedIndexes is specified")


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


def _failure_policy(spec: Json, path: str) -> r.Found:
    """Check that exit codes are sorted and unique."""
    for index, rule in enumerate(r.reach(spec, "podFailurePolicy").get("rules", ())):
        place = f"{path}.podFailurePolicy.rules[{index}].onExitCodes.values"
        values = r.reach(rule, "onExitCodes").get("values")
        if values is None:
            continue
        if list(values) != sorted(values):
            yield fe.invalid(place, values, "must be ordered")
        elif len(set(values)) < len(values):
            doubled = next(value for value, after in pairwise(values) if value == after)
            yield fe.duplicate(f"{place}[{list(values).index(doubled) + 1}]", doubled)


def _success_policy(spec: Json, path: str) -> r.Found:
    if spec.get("successPolicy") is not None and spec.get("completionMode") != "Indexed":
        yield fe.invalid(f"{path}.successPolicy", spec["successPolicy"], "requires indexed completion mode")


def _managed(spec: Json, path: str) -> r.Found:
    name, place = spec.get("managedBy"), f"{path}.managedBy"
    if name is None:
        return
    domain, _, rest = name.partition("/")
    if not domain or not rest or names.subdomain(domain):
        yield fe.invalid(place, name, 'must be a domain-prefixed path (such as "acme.io/foo")')
    elif len(name) > _LONGEST_MANAGER:
        yield fe.too_long(place, _LONGEST_MANAGER)


_LONGEST_MANAGER = 63
_REPLACEMENTS = ("Failed", "TerminatingOrFailed")


def _replacement(spec: Json, path: str) -> r.Found:
    """Check that with a pod failure policy only failed pods are replaced."""
    policy = spec.get("podReplacementPolicy")
    allowed = ("Failed",) if spec.get("podFailurePolicy") is not None else _REPLACEMENTS
    if policy is not None and policy not in allowed:
        yield fe.not_supported(f"{path}.podReplacementPolicy", policy, allowed)


_JOB_NUMBERS = r.at_least(0, *_JOB_COUNTS)
_JOB = r.all_of(
    _scheduling,
    _JOB_NUMBERS,
    _managed,
    r.enum("completionMode", ("NonIndexed", "Indexed")),
    _completion,
    _failure_policy,
    _success_policy,
    _replacement,
    _template,
    _restarts,
)
job = r.below("spec", _JOB, _own_selector)
"""Check the counts, template and modes of a job."""


def job_changes(new: Json, old: Json) -> r.Found:
    """Check that counts change only as allowed: completions of an elastic job follow its parallelism."""
    after, before = new.get("spec", {}), old.get("spec", {})
    yield from _JOB_NUMBERS(after, "spec")
    yield from _scheduling(after, "spec")
    yield from scheduling.same_but_min_count(after, before)
    elastic = after.get("completionMode") == "Indexed" and after.get("completions") == after.get("parallelism")
    if after.get("completions") != before.get("completions") and not elastic:
        yield fe.invalid("spec.completions", after.get("completions"), r.IMMUTABLE)


def same_job_template(new: Json, old: Json) -> r.Found:
    """Check that the template does not change; a suspended job may be placed again (KEP-2926)."""
    before = old.get("spec", {})
    now, was = new.get("spec", {}).get("template", {}), before.get("template", {})
    if now != was and before.get("suspend") and "startTime" not in old.get("status", {}):
        was = _placed_like(was, now)
    if now != was:
        yield fe.invalid("spec.template", now, r.IMMUTABLE)


def _placed_like(was: Json, now: Json) -> Json:
    """Return the old template with the new one's labels, annotations and scheduling directives."""

    def mixed(part: str, of_the_new: tuple[str, ...]) -> Json:
        unchanged = {key: value for key, value in was.get(part, {}).items() if key not in of_the_new}
        return unchanged | {key: value for key, value in now.get(part, {}).items() if key in of_the_new}

    metadata = mixed("metadata", ("labels", "annotations"))
    return {**was, "metadata": metadata, "spec": mixed("spec", _SCHEDULING_DIRECTIVES)}


def _schedule(spec: Json, path: str) -> r.Found:
    schedule = spec.get("schedule", "")
    if not schedule:
        yield fe.required(f"{path}.schedule")
    elif "TZ" in schedule:
        detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
        yield fe.invalid(f"{path}.schedule", schedule, detail)
    else:
        try:
            Schedule.parse(schedule)
        except ValueError as error:
            yield fe.invalid(f"{path}.schedule", schedule, str(error))


def _started(spec: Json, path: str) -> r.Found:
    inner = {"completionMode": "NonIndexed", **r.reach(spec, "jobTemplate.spec")}
    return _JOB(inner, f"{path}.jobTemplate.spec")


def _time_zone(spec: Json, path: str) -> r.Found:
    name, place = spec.get("timeZone"), f"{path}.timeZone"
    if name is None:
        return
    if not name:
        yield fe.invalid(place, name, "timeZone must be nil or non-empty string")
    elif name.lower() == "local":
        yield fe.invalid(
            place, name, "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"
        )
    elif name not in _zones():
        yield fe.invalid(place, name, f"unknown time zone {name}")


@cache
def _zones() -> frozenset[str]:
    """Return the names of time zones; they are read from disk once."""
    return frozenset({*available_timezones(), "UTC"})


_LONGEST_CRON_JOB = 52
"""Names of its Jobs are eleven characters longer."""


def cron_job_name(name: str) -> tuple[str, ...]:
    """Check the name of a CronJob."""
    long = (f"must be no more than {_LONGEST_CRON_JOB} characters",) if len(name) > _LONGEST_CRON_JOB else ()
    return (*names.subdomain(name), *long)


cron_job = r.below(
    "spec",
    _schedule,
    r.at_least(0, "startingDeadlineSeconds"),
    _time_zone,
    r.enum("concurrencyPolicy", ("Allow", "Forbid", "Replace")),
    r.at_least(0, "successfulJobsHistoryLimit", "failedJobsHistoryLimit"),
    _started,
)
"""Check a schedule and its job template."""
