"""Read the inputs of a replay: jobs, cluster, policies, settings. Bad input ends the command with exit code 2."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reprieve.cli.options import read_options, read_seconds
from reprieve.cli.outcome import note, reason_of, refuse, warn

if TYPE_CHECKING:
    from kube_rules import objects
    from reprieve.replay.job_list import JobList, Tolerated
    from reprieve.replay.policy_run import PolicyOutcome, Stop
    from reprieve.replay.quotas import JobQuotas
    from reprieve.replay.run_times import RunTimes
    from reprieve.replay.selection import ChosenJobs
    from reprieve.replay.world import Policy, WorldSettings


@dataclass(frozen=True, slots=True)
class Task:
    """The options of the command, parsed but not compared with the files."""

    jobs: Path
    cluster: tuple[str, ...]
    policies: tuple[tuple[str, str | None], ...]
    begin: str
    until: str
    load: float
    sample: int | None
    seed: int | None
    checkpoint: str
    restart: str
    failures: str
    tolerate: tuple[str, ...]
    run_times: str
    skip_bad: bool
    max_jobs: int
    max_bytes: int
    feature_gates: str
    plugins: tuple[str, ...]
    plugin_timeout: str
    timeline: bool
    rows: bool = True
    """The answer lists each job."""
    traces: tuple[Path, ...] = ()
    """All job lists; empty: `jobs` alone."""
    seeds: tuple[int, ...] = ()
    """All seeds; empty: `seed` alone."""
    dask: str = ""
    keep: Path | None = None

    @property
    def sweep(self) -> bool:
        """Return whether there are several traces or seeds."""
        return len(self.traces) > 1 or len(self.seeds) > 1

    def runs(self) -> "list[ReplayRun]":
        """Return every trace with every seed and policy, in this order."""
        runs = []
        for trace in self.traces or (self.jobs,):
            for seed in self.seeds or (self.seed,):
                task = replace(self, jobs=trace, seed=seed)
                runs += [ReplayRun(task, policy, config) for policy, config in self.policies]
        return runs


@dataclass(frozen=True, slots=True)
class ReplayRun:
    """One policy on one trace with one seed. `task`: its inputs."""

    task: Task
    policy: str
    config: str | None

    @property
    def name(self) -> str:
        """Return its name among all runs."""
        parts = [self.policy]
        if len(self.task.traces) > 1:
            parts.append(f"of {self.task.jobs}")
        if len(self.task.seeds) > 1:
            parts.append(f"with seed {self.task.seed}")
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class ReplayArguments:
    """Everything but the policy."""

    chosen: "ChosenJobs"
    cluster: "list[tuple[objects.KubernetesObject, float]]"
    settings: "WorldSettings"
    start: float
    quota_documents: list[Mapping[str, Any]]
    remarks: list[str] = field(default_factory=list)

    def quotas(self) -> "JobQuotas":
        """The profiles of the policy; their state belongs to one run."""
        from kube_rules import objects
        from reprieve.replay.job_objects import terms_for
        from reprieve.replay.quotas import JobQuotaError, JobQuotas

        terms = terms_for(item for item, _ in self.cluster if isinstance(item, objects.Node))
        try:
            return JobQuotas(self.quota_documents, gpu=terms.gpu, per_gpu=terms.per_gpu)
        except JobQuotaError as error:
            refuse(f"--cluster: {error}")

    def simulate(
        self, name: str, policy: "Policy", chosen: "ChosenJobs", stop: "Stop", progress: Callable[[int, int], None]
    ) -> "PolicyOutcome":
        """Run a policy on the chosen jobs, all of them or a part. Raises ReplayError."""
        from reprieve.replay.policy_run import simulate

        inputs = chosen, self.cluster, policy, self.settings
        return simulate(name, *inputs, start=self.start, quotas=self.quotas(), stop=stop, progress=progress)


def read_replay(task: Task) -> ReplayArguments:
    """Read everything but the policy from the files."""
    from reprieve.decisions.phrases import count
    from reprieve.replay.job_list import JobListError, read_jobs
    from reprieve.replay.selection import JobSelection, chosen

    try:
        jobs = read_jobs(task.jobs, skip_bad=task.skip_bad, max_jobs=task.max_jobs)
    except JobListError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    remarks = []
    if jobs.skipped:
        remarks.append(f"{count(jobs.skipped, 'invalid row')} skipped; the first: {jobs.first_problem}")
    begin = _time("--from", task.begin, jobs)
    until = _time("--until", task.until, jobs)
    picked = chosen(jobs, JobSelection(begin or 0, until, task.load, task.sample, task.seed or 0))
    if not picked.jobs:
        left_out = (
            f"; {count(jobs.skipped, 'invalid row')} skipped; the first: {jobs.first_problem}" if jobs.skipped else ""
        )
        refuse(f"{task.jobs}: no jobs to replay" + (" between --from and --until" if jobs.jobs else left_out))
    settings = _settings(task, jobs, picked)
    endless = next((job for job in picked.jobs if job.work is None), None)
    if endless is not None and settings.failures.mean_between and picked.until is None:
        refuse(f'--failures: job "{endless.name}" never ends, so nodes would fail forever: set --until')
    cluster, start, quotas, documents = _cluster(task, picked)
    _check_failing_nodes(task, settings, {item.metadata.name for item, _ in cluster if type(item).KIND == "Node"})
    return ReplayArguments(picked, cluster, settings, start, quotas, remarks + documents)


def _check_failing_nodes(task: Task, settings: "WorldSettings", nodes: set[str]) -> None:
    """A list of failures names nodes of the cluster."""
    from kube_rules.unknown_fields import did_you_mean, nearest

    for name in settings.failures.listed:
        if name not in nodes:
            hint = did_you_mean(nearest(name, nodes))
            refuse(f'--failures: {task.failures}: the cluster has no node "{name}"{hint}')


def _time(option: str, text: str, job_list: "JobList") -> int | None:
    from reprieve.replay.selection import time_of

    if not text:
        return None
    try:
        return time_of(text, job_list)
    except ValueError as error:
        refuse(f"{option}: {error}")


def _settings(task: Task, job_list: "JobList", picked: "ChosenJobs") -> "WorldSettings":
    from reprieve.replay.world import WorldSettings

    checkpoint = _long("--checkpoint", task.checkpoint) if task.checkpoint else None
    if checkpoint == 0:
        refuse("--checkpoint: expected more than 0")
    return WorldSettings(
        checkpoint=checkpoint,
        restart=_long("--restart", task.restart),
        failures=_failures(task.failures, picked.begin, dated=job_list.dated, faster=task.load),
        seed=task.seed,
        timeline=task.timeline,
        tolerations=_tolerations(task.tolerate),
        run_times=_run_times(task.run_times, picked),
    )


def _run_times(text: str, picked: "ChosenJobs") -> "RunTimes":
    from reprieve.replay.run_times import read_run_times

    try:
        return read_run_times(text, picked.jobs)
    except ValueError as error:
        refuse(f"--run-times {text!r}: {error}")


def _tolerations(values: tuple[str, ...]) -> "tuple[Tolerated, ...]":
    from reprieve.replay.job_list import tolerations

    try:
        return tuple(dict.fromkeys(item for text in values for item in tolerations(text)))
    except ValueError as error:
        refuse(f"--tolerate: {error}")


def _long(option: str, text: str) -> int:
    from reprieve.replay.selection import long_duration

    try:
        return long_duration(text)
    except ValueError as error:
        refuse(f"{option}: {error}")


def _failures(text: str, begin: int, *, dated: bool, faster: float) -> Any:
    from reprieve.replay.failures import Failures, read_failures
    from reprieve.replay.job_list import JobListError

    if not text:
        return Failures()
    if "=" not in text:
        try:
            return read_failures(Path(text), begin=begin, dated=dated, faster=faster)
        except JobListError as error:
            refuse(f"--failures: {error}")
        except OSError as error:
            refuse(f"--failures: {reason_of(error)}")
    parts = dict(part.partition("=")[::2] for part in text.split(","))
    if set(parts) != {"mtbf", "repair"}:
        refuse(f"--failures {text!r}: expected mtbf=DURATION,repair=DURATION, or a file")
    between, repair = (_long(f"--failures {name}", parts[name]) for name in ("mtbf", "repair"))
    if between < 60_000:
        refuse("--failures: expected an mtbf of at least 1m")
    return Failures(between, max(1, repair))


def _cluster(
    task: Task, picked: "ChosenJobs"
) -> "tuple[list[tuple[objects.KubernetesObject, float]], float, list[Mapping[str, Any]], list[str]]":
    import msgspec

    from kube_rules import objects
    from kube_rules.errors import InputError
    from reprieve.inputs.loader import read
    from reprieve.python.inputs import Strictness, read_manifests
    from reprieve.replay.cluster_sizing import class_documents, fitting_nodes
    from reprieve.simulation.plan_inputs import starts_at

    remarks = []
    quotas: list[Mapping[str, Any]] = []
    try:
        if task.cluster:
            manifests = read_manifests(task.cluster, Strictness(), warn, max_bytes=task.max_bytes)
            quotas = [msgspec.to_builtins(loaded.object) for loaded in manifests.of(objects.ResourceQuota)]
            pending = sum(1 for pod in manifests.pods if not pod.object.spec.node_name)
            if pending:
                refuse(f"--cluster: {pending} pending pods; a cluster file may only contain running pods")
        else:
            nodes = fitting_nodes(picked.jobs)
            manifests = read([(f"<node {at}>", node) for at, node in enumerate(nodes)])
            shape = nodes[0]["status"]["allocatable"]
            amounts = ", ".join(f"{name} {amount}" for name, amount in shape.items())
            remarks.append(f"no --cluster: using {len(nodes)} nodes sized for the jobs (the first: {amounts})")
        class_names = {loaded.object.metadata.name for loaded in manifests.of(objects.PriorityClass)}
        documents = [doc for doc in class_documents(picked.jobs) if doc["metadata"]["name"] not in class_names]
        classes = read([(f"<class {at}>", doc) for at, doc in enumerate(documents)])
    except InputError as error:
        refuse(str(error))
    except OSError as error:
        refuse(reason_of(error))
    loaded = manifests.all()
    limits = (objects.ResourceQuota, objects.LimitRange)  # quotas hold for jobs (replay.md 3.8), not for their pods
    items = [(item.object, item.created) for item in (*loaded, *classes.all()) if not isinstance(item.object, limits)]
    return items, float(round(starts_at(loaded))), quotas, remarks


def read_policy(task: Task, config: str | None, *, warn: bool = False) -> "Policy":
    """Return the policy of a configuration file, or the default one. `warn`: write its warnings to stderr."""
    from reprieve.replay.world import Policy

    read_seconds("--plugin-timeout", task.plugin_timeout)
    options = read_options(
        config=config,
        feature_gates=task.feature_gates,
        plugins=task.plugins,
        plugin_timeout=task.plugin_timeout,
    )
    if warn:
        for warning in options.warnings:
            note(f"warning: {config or 'default'}: {warning}")
    timing = options.timing
    return Policy(options.profiles, options.gates, timing.initial_backoff, timing.max_backoff)


class ReplayPolicies:
    """Makes policies of configurations that are plain data, with the options that apply to all of them."""

    def __init__(self, task: Task) -> None:
        from reprieve.cli.options import read_gates

        self._task = task
        self._gates = read_gates(task.feature_gates)
        self._timeout = read_seconds("--plugin-timeout", task.plugin_timeout)

    def __call__(self, document: Mapping[str, Any] | None, compatible: bool = False) -> "Policy":
        """Return the policy. Raises InputError, PluginLoadError."""
        from reprieve.python.configuration import plan_options
        from reprieve.replay.world import Policy

        options = plan_options(
            document,
            gates=self._gates,
            plugins=self._task.plugins,
            plugin_timeout=self._timeout,
            compatible=compatible,
        )
        return Policy(options.profiles, options.gates, options.timing.initial_backoff, options.timing.max_backoff)


class ReplayInputs:
    """The inputs of runs; the last ones are cached."""

    def __init__(self) -> None:
        self._key: tuple[Path, int | None] | None = None
        self._given: ReplayArguments | None = None

    def key(self, run: ReplayRun) -> tuple[Path, int | None]:
        """Return the key of the inputs; without a sample the seed is not part of it."""
        return run.task.jobs, run.task.seed if run.task.sample is not None else None

    def of(self, run: ReplayRun) -> ReplayArguments:
        """Return the inputs of a run."""
        if self._given is None or self._key != self.key(run):
            self._key, self._given = self.key(run), read_replay(run.task)
        return with_seed(self._given, run.task.seed)


def with_seed(inputs: ReplayArguments, seed: int | None) -> ReplayArguments:
    """Return the same inputs with another seed."""
    return replace(inputs, settings=replace(inputs.settings, seed=seed))


def inputs_of(inputs: ReplayArguments) -> tuple[object, ...]:
    """Return the inputs of a replay without its settings, for a digest."""
    import msgspec

    objects = [(msgspec.to_builtins(item), created) for item, created in inputs.cluster]
    return inputs.chosen.jobs, inputs.chosen.until, inputs.chosen.origin, objects, inputs.start, inputs.quota_documents


def digest(parts: tuple[object, ...]) -> str:
    """Return a digest of values by their full `repr`, and of the version of the program."""
    import hashlib
    from importlib.metadata import version

    return hashlib.sha256(repr((version("reprieve"), parts)).encode()).hexdigest()


def check_replay(inputs: ReplayArguments) -> None:
    """Refuse jobs that can never run on the cluster before any process is started."""
    from kube_rules import objects
    from reprieve.replay.job_objects import terms_for
    from reprieve.replay.world import ReplayError, check

    nodes = [item for item, _ in inputs.cluster if isinstance(item, objects.Node)]
    if not nodes:
        refuse("--cluster: there are no nodes")
    classes = {i.metadata.name: i.value for i, _ in inputs.cluster if isinstance(i, objects.PriorityClass)}
    try:
        check(inputs.chosen.jobs, classes, terms_for(nodes).per_gpu)
    except ReplayError as error:
        refuse(str(error))
    for text in inputs.quotas().not_applied:
        note(f"warning: --cluster: not applied to jobs: {text}")


def setting_of(inputs: ReplayArguments) -> dict[str, Any]:
    """Return the settings of all policies, as in the document."""
    from kube_rules import objects

    chosen, settings = inputs.chosen, inputs.settings
    return {
        "jobs": len(chosen.jobs),
        "nodes": sum(1 for item, _ in inputs.cluster if isinstance(item, objects.Node)),
        "origin": chosen.origin,
        "until": None if chosen.until is None else chosen.until / 1000,
        "checkpointSeconds": None if settings.checkpoint is None else settings.checkpoint / 1000,
        "restartSeconds": settings.restart / 1000,
        "seed": settings.seed,
        "runTimes": str(settings.run_times),
    }
