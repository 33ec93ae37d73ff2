"""Event handlers from the API server to the engine: informers, a queue of changes, and `apply`.

Informers run all the time and only append to the queue; `apply` passes its changes to the engine. The scheduling loop
calls it between cycles, so that a cycle sees one consistent snapshot.

Terms: a *source* is one resource that a kind is read from. PodGroup may have several: native ones, our custom resources
and those of other schedulers (workloads.md 1); of two groups of one name the native one counts, then ours. *Synced*
means that every source has delivered its initial objects.

Custom resources have no admission that resolves a priority class. A PodGroup without a priority gets the highest of its
members, which are pods with resolved priorities; members with another priority are rejected as usual. `live.composites`
handles CompositePodGroups. An annotation can set the priority of a group as a victim; only `live.classes` resolves it.

Invariants: nothing reaches the engine before all sources are synced; the first feed has the order of
`scheduling.arrival_order.in_order` (nodes, budgets, groups, ..., bound pods, pending pods), so that a restart decides
as a run from the beginning; later changes have the order of their watch. Pods and nodes are required. Any other kind
that is not served, which is common, or that may not be read is omitted and reported. It is requested again with every
rediscovery, as is a kind that is served later (an installed CRD).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from kube_rules import objects as o
from kube_rules.errors import InputError
from kube_rules.foreign_groups import FOREIGN_VERSIONS, ForeignGroup
from kube_rules.group_owners import GroupOwner, owner_kinds
from kube_rules.group_sources import OWNERS, SOURCES
from kube_rules.meta import KubernetesObject, ObjectMeta
from reprieve.client.clock import Clock
from reprieve.client.cluster_reader import OPTIONAL, REQUIRED
from reprieve.client.decoding import Metadata
from reprieve.client.discovery import Resource, ServedResources, discover
from reprieve.client.errors import ApiError, ClientError
from reprieve.client.informer import Change, ChangeKind, Informer, InformerOptions
from reprieve.client.transport import ApiClient
from reprieve.live.classes import VictimClasses
from reprieve.live.composites import Composites
from reprieve.live.namesakes import Namesakes
from reprieve.live.outages import Outages
from reprieve.live.remarks import AnnotationRemarks
from reprieve.live.succeeded_pods import NOT_FAILED, without_succeeded
from reprieve.scheduling.arrival_order import in_order
from reprieve.scheduling.effects import Effects
from reprieve.scheduling.engine import Engine

log = logging.getLogger("reprieve.live")

KINDS_READ: Final[tuple[type[KubernetesObject], ...]] = tuple(
    kind for kind in (*REQUIRED, *OPTIONAL) if kind is not o.Workload
)
"""The kinds that a plan reads, too, except workloads: their groups have the same fields."""
_REFUSED: Final = (401, 403)
_MOST_WARNINGS: Final = 1_000
"""The largest number of warnings that are stored to avoid repetition."""
_STRONGER_FIRST: Final = tuple(row.api_group for row in SOURCES if row.api_group is not None)
"""The API groups of PodGroups, the one that counts first."""
_ALWAYS: Final = _STRONGER_FIRST[:2]
"""The API groups from which PodGroups are always read, whatever sources are enabled: gates disable them."""
WATCH: Final = "watch"
DISCOVERY: Final = "discovery"
"""The names of the places of trouble for the observer."""


@dataclass(frozen=True, slots=True)
class ClusterFeedOptions:
    """Times in seconds."""

    rediscover: float = 5.0
    """How often to discover served kinds: a CRD may have been installed. It is watched within twice this time."""
    informers: InformerOptions = field(default_factory=InformerOptions)


_ARRIVALS: Final = 1_000_000
"""The number of pods for which the order of arrival is distinguished; then the count starts again."""

ChangeListener = Callable[[Change[Any], Resource], None]
"""Notified of every change after it was applied, with its resource."""
ChangeWatcher = Callable[[Change[Any], float], None]
"""Notified of every change before it is applied, except the initial objects; with the engine's time."""


class _Source:
    """One watched resource."""

    __slots__ = ("informer", "inherited", "kind", "refused", "resource", "task")

    def __init__(self, kind: type[KubernetesObject], resource: Resource, informer: Informer[Any]) -> None:
        self.kind = kind
        self.resource = resource
        self.informer = informer
        self.inherited: dict[str, tuple[KubernetesObject, Resource]] = {}
        """The objects of earlier versions of the resource, until this source is synced."""
        self.task: asyncio.Task[None] | None = None
        self.refused = False

    @property
    def ready(self) -> bool:
        """Return whether the feed need not wait for this source."""
        return self.informer.synced or self.refused

    @property
    def objects(self) -> dict[str, tuple[KubernetesObject, Resource]]:
        """Return all objects of the source that the engine may have, each with the version it was read in."""
        return {**self.inherited, **{key: (item, self.resource) for key, item in self.informer.objects.items()}}


class _UncountedTrouble:
    """Reports trouble without counting it."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self.trouble = report

    def trouble_again(self, where: str) -> None:
        """Ignore repeated trouble: it was already reported."""


class ClusterFeed:
    """The feed; see the module docstring. `wake` is called when there are changes, `listener` after each of them.

    `effects` gets what the engine returns for each change.
    `refused(group, reason)` is called for groups with a victim class that does not count, `ignored(object, reason)`
    for other annotations that cannot be read, and with only the metadata of unreadable objects.
    """

    def __init__(
        self,
        client: ApiClient,
        engine: Engine,
        *,
        effects: Callable[[Effects], None] = lambda effects: None,
        wake: Callable[[], None] = lambda: None,
        listener: ChangeListener = lambda change, resource: None,
        before: ChangeWatcher = lambda change, now: None,
        trouble: Callable[[str, str], None] = lambda where, text: log.warning("%s: %s", where, text),
        note: Callable[[str], None] = log.info,
        outages: Outages | None = None,
        refused: Callable[[o.PodGroup | o.CompositePodGroup, str], None] = lambda group, why: None,
        ignored: Callable[[KubernetesObject, str], None] = lambda item, why: None,
        options: ClusterFeedOptions = ClusterFeedOptions(),
    ) -> None:
        self._client = client
        self._engine = engine
        self._effects = effects
        self._wake = wake
        self._listener = listener
        self._before = before
        self._trouble = trouble
        self._note = note
        self._outages = outages or Outages(client.clock, _UncountedTrouble(trouble))
        self._options = options
        self._group_apis = (*_ALWAYS, *engine.sources.api_groups)
        self._sources: dict[tuple[str, str], _Source] = {}
        """By kind and API group."""
        self._changes: deque[tuple[Change[Any], Resource]] = deque()
        self._namesakes: Namesakes[o.PodGroup] = Namesakes(_STRONGER_FIRST, self._warn_once)
        self._open: dict[str, int | None] = {}
        """The inherited priority of each PodGroup without its own; None for not yet known."""
        self._refused = refused
        self._ignored = ignored
        self._victims: VictimClasses[o.PodGroup] = VictimClasses(self._refuse)
        self._remarks = AnnotationRemarks(ignored, engine.sources, engine.cluster.classes)
        self._composites = Composites(
            engine,
            effects=effects,
            listener=listener,
            refused=self._refuse,
            inspect=self._remarks.inspect,
            warn=self._warn_once,
        )
        self._warned: set[str] = set()
        self._absent: list[str] = []
        """Kinds that are not served."""
        self._arrived_pods = 0
        self._not_found = asyncio.Event()
        """Set when a list or watch gets 404: its version is no longer served (api.md 2.9)."""
        self._synced = asyncio.Event()
        self._fed = asyncio.Event()
        self._owner_kinds: frozenset[str] = frozenset()
        """The kinds of controllers that the engine waits for."""

    # -- watching --------------------------------------------------------------------------------------

    @property
    def synced(self) -> bool:
        """Return whether all initial objects have arrived."""
        return self._synced.is_set()

    @property
    def fed(self) -> bool:
        """Return whether the engine has the initial objects, so that it may decide."""
        return self._fed.is_set()

    async def wait_fed(self) -> None:
        """Wait until the engine has all initial objects."""
        await self._fed.wait()

    @property
    def pending(self) -> int:
        """Return the number of changes that wait for `apply`."""
        return len(self._changes)

    def revisions(self) -> dict[tuple[str, str, str], str]:
        """Return the observed revision of each source, by (API group, version, plural).

        Changes are applied in the order of their observation, across all watches.
        """
        return {
            (source.resource.group, source.resource.version, source.resource.plural): source.informer.revision
            for source in self._sources.values()
            if source.informer.revision is not None
        }

    async def run(self, served: ServedResources) -> None:
        """Watch until cancelled. Raises ApiError if nodes or pods may not be read or are not served."""
        for kind in REQUIRED:
            if not served.readable(kind.KIND):
                server = self._client.connection.server
                raise ApiError(404, "NotFound", f"{server}: serves no {kind.KIND}: is this a cluster?")
        try:
            self._watch_all(served)
            rounds = self._client.clock.monotonic() + self._options.rediscover
            while True:
                await self._until(rounds)
                if self._client.clock.monotonic() >= rounds or self._not_found.is_set():
                    self._not_found.clear()
                    await self._rediscover(served)
                    self._outages.tick()
                    rounds = self._client.clock.monotonic() + self._options.rediscover
        finally:
            tasks = [source.task for source in self._sources.values() if source.task is not None]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _until(self, when: float) -> None:
        """Wait for a monotonic time, a version that is not found, or the end of a watch, which is handled."""
        clock = self._client.clock
        alarm = asyncio.create_task(clock.sleep(max(when - clock.monotonic(), 0.0)))
        lost = asyncio.create_task(self._not_found.wait())
        tasks = [source.task for source in self._sources.values() if source.task is not None and not source.refused]
        try:
            await asyncio.wait([alarm, lost, *tasks], return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.cancel()
            lost.cancel()
        for source in list(self._sources.values()):
            if source.task is not None and source.task.done() and not source.refused:
                self._ended(source)

    def _ended(self, source: _Source) -> None:
        """Handle the end of a watch: it was refused from the start, or it has an internal error, which is raised."""
        assert source.task is not None
        error = source.task.exception()
        if error is None:
            return
        if source.kind in REQUIRED or not isinstance(error, ApiError) or error.code not in _REFUSED:
            raise error
        source.refused = True
        self._outages.well(str(source.resource))
        self._warn_once(f"{source.resource} not read: {error}")
        self._check_synced()

    async def _rediscover(self, served: ServedResources) -> None:
        """Discover the served kinds again, and update `served` in place for all parts that share it."""
        try:
            served.become(await discover(self._client))
        except ClientError as error:
            self._outages.failed(DISCOVERY, DISCOVERY, str(error))
            return
        self._outages.well(DISCOVERY)
        self._watch_all(served)
        if not self._synced.is_set():
            waiting = [str(source.resource) for source in self._sources.values() if not source.ready]
            self._trouble(WATCH, f"still waiting for {', '.join(waiting)}")

    def _watch_all(self, served: ServedResources) -> None:
        """Start to watch newly served kinds; forget those that are no longer served."""
        wanted: dict[tuple[str, str], tuple[type[KubernetesObject], Resource]] = {}
        absent = []
        for kind in KINDS_READ:
            resources = served.readable(kind.KIND)
            if not resources:
                absent.append(kind.KIND)
            for resource in resources:
                if kind is not o.PodGroup or resource.group in self._group_apis:
                    wanted[kind.KIND, resource.group] = (kind, resource)
        for owner in owner_kinds(gangs=OWNERS in self._engine.sources, ends=self._engine.waits_for_completions):
            found_owner = served.find(owner.KIND, (owner.API_VERSION,))
            if found_owner is not None:
                wanted[owner.KIND, found_owner.group] = (owner, found_owner)
        down = " ".join(served.unavailable)
        for where, source in list(self._sources.items()):
            current = wanted.get(where)
            if current is None and source.kind not in REQUIRED and source.resource.api_version not in down:
                self._stop(where, source)
            elif current is not None and (current[1] != source.resource or source.refused):
                self._start(where, *current, before=source)
        for where, (kind, resource) in wanted.items():
            if where not in self._sources:
                self._start(where, kind, resource)
        if absent != self._absent:
            come = [kind for kind in self._absent if kind not in absent]
            if come:
                self._note(f"now served by this API server: {', '.join(come)}")
            if any(kind not in self._absent for kind in absent):
                self._note(f"not served by this API server: {', '.join(absent)}")
            self._absent = absent
        self._check_synced()

    def _start(
        self,
        where: tuple[str, str],
        kind: type[KubernetesObject],
        resource: Resource,
        before: _Source | None = None,
    ) -> None:
        name = str(resource)
        informer: Informer[Any] = Informer(
            self._client,
            resource,
            kind,
            lambda change: self._handle(change, resource),
            fields=NOT_FAILED if kind is o.Pod else "",
            options=self._options.informers,
            on_synced=lambda: self._arrived(where),
            on_trouble=lambda text: self._trouble(WATCH, text),
            on_unreadable=lambda meta, error: self._unreadable(kind, resource, meta, error),
            on_cut=lambda error: self._cut(name, error),
            on_answer=lambda: self._outages.well(name),
        )
        source = self._sources[where] = _Source(kind, resource, informer)
        if before is not None and before.task is not None:
            before.task.cancel()
            self._outages.well(str(before.resource))
            source.inherited = before.objects
        source.task = asyncio.create_task(informer.run(), name=f"watch {resource}")

    def _stop(self, where: tuple[str, str], source: _Source) -> None:
        """Delete the objects of a resource that is no longer served (its CRD was deleted)."""
        del self._sources[where]
        if source.task is not None:
            source.task.cancel()
        self._outages.well(str(source.resource))
        for item, resource in source.objects.values():
            self._handle(Change(ChangeKind.DELETED, item, item), resource)

    def _arrived(self, where: tuple[str, str]) -> None:
        """Delete the objects that only earlier versions of a synced resource had."""
        source = self._sources[where]
        inherited, source.inherited = source.inherited, {}
        for key, (item, resource) in inherited.items():
            if key not in source.informer.objects:
                self._handle(Change(ChangeKind.DELETED, item, item), resource)
        self._check_synced()

    def _cut(self, name: str, error: ClientError) -> None:
        """Report a list or watch that failed and is retried; 404 causes a discovery at once (api.md 2.9)."""
        if isinstance(error, ApiError) and error.unserved:
            self._not_found.set()
        self._outages.failed(name, WATCH, f"{name}: watching again: {error}")

    def _check_synced(self) -> None:
        if not self._synced.is_set() and self._sources and all(source.ready for source in self._sources.values()):
            self._synced.set()
            self._wake()

    def _handle(self, change: Change[Any], resource: Resource) -> None:
        self._changes.append((change, resource))
        if self._synced.is_set():
            self._wake()

    def _unreadable(self, kind: type[KubernetesObject], resource: Resource, meta: Metadata, error: InputError) -> None:
        """Skip an unreadable object or its change, and report that by an event: its author does not read this log."""
        object_meta = ObjectMeta(name=meta.name, namespace=meta.namespace, uid=meta.uid)
        item = kind.named(object_meta)
        if isinstance(item, o.PodGroup) and resource.api_version in FOREIGN_VERSIONS:
            item = msgspec.structs.replace(item, foreign=ForeignGroup(api_version=resource.api_version))
        self._ignored(item, f"{error.path}: {error.message}" if error.path else error.message)

    def _warn_once(self, text: str) -> None:
        if text not in self._warned:
            if len(self._warned) >= _MOST_WARNINGS:
                self._warned.clear()
            self._warned.add(text)
            self._trouble(WATCH, text)

    # -- applying --------------------------------------------------------------------------------------

    def apply(self, now: float, *, seconds: float = float("inf"), clock: Clock | None = None) -> bool:
        """Pass changes to the engine for at most `seconds`; return whether none are left.

        `now` is the engine's time (seconds since the epoch). Do not call it during a cycle.
        """
        if not self._synced.is_set():
            return False
        if not self._fed.is_set():
            self._first_feed(now)
        self._update_owner_kinds(now)
        changes = self._changes
        ends = clock.monotonic() + seconds if clock is not None else float("inf")
        count = 0
        while changes:
            change, resource = changes.popleft()
            self._before(without_succeeded(change), now)
            self._take(change, resource, now)
            count += 1
            if clock is not None and count % 16 == 0 and clock.monotonic() >= ends:
                break
        return not changes

    def _update_owner_kinds(self, now: float) -> None:
        """Set the kinds of controllers that pods wait for: those that are watched (workloads.md 2.10)."""
        kinds = frozenset(
            source.kind.KIND
            for source in self._sources.values()
            if issubclass(source.kind, GroupOwner) and not source.refused and OWNERS in self._engine.sources
        )
        if kinds != self._owner_kinds:
            self._owner_kinds = kinds
            self._effects(self._engine.watch_owners(kinds, now))

    def _first_feed(self, now: float) -> None:
        """Pass all objects in order; they include the changes in the queue."""
        self._update_owner_kinds(now)
        self._changes.clear()
        items: list[tuple[KubernetesObject, float]] = []
        where: dict[int, Resource] = {}
        for source in self._sources.values():
            for _, item in sorted(source.informer.objects.items()):
                items.append((item, item.created))
                where[id(item)] = source.resource
        # Groups look up their victim priority in the classes, so classes come first.
        for item, _ in sorted(in_order(items), key=lambda entry: not isinstance(entry[0], o.PriorityClass)):
            self._take(Change(ChangeKind.ADDED, item, None), where[id(item)], now)
        self._effects(self._engine.complete(now))
        self._fed.set()

    def _take(self, change: Change[Any], resource: Resource, now: float) -> None:
        """Pass one change; an object that the engine cannot process is reported and skipped."""
        try:
            self._dispatch(change, resource, now)
        except Exception as error:
            item = change.object
            self._trouble(WATCH, f"{item.KIND} {item.key} not taken in: {type(error).__name__}: {error}")

    def _dispatch(self, change: Change[Any], resource: Resource, now: float) -> None:
        item = change.object
        if isinstance(item, o.PodGroup):
            self._take_group(change, resource, now)
            return
        if isinstance(item, o.CompositePodGroup):
            if change.kind is ChangeKind.DELETED:
                self._remarks.forget(item)
            self._composites.take(change, resource, now)
            return
        deleted = change.kind is ChangeKind.DELETED
        seen = without_succeeded(change)
        if seen.kind is ChangeKind.DELETED:
            self._remarks.forget(item)
        else:
            self._remarks.inspect(item)
        if isinstance(item, o.Pod):
            (self._remove_pod if deleted else self._set_pod)(item, now)
        elif deleted:
            self._remove(item, now)
        else:
            self._effects(self._engine.set(item, now))
        if isinstance(item, o.PriorityClass):
            self._class_changed(item, now, deleted=deleted)
        self._listener(seen, resource)

    def _remove(self, item: KubernetesObject, now: float) -> None:
        self._effects(self._engine.remove(item.ref, now))

    def _set_pod(self, pod: o.Pod, now: float) -> None:
        before = self._engine.cluster.pods.get(pod.metadata.uid)
        self._effects(self._engine.set(pod, now, created=self._arrival(pod)))
        record = self._engine.cluster.pods.get(pod.metadata.uid)
        if record is None and before is not None and before.group is not None:
            self._lower_priority(before.group, before.priority, now)  # it has succeeded
        elif record is not None and record.group in self._open:
            inherited = self._open[record.group]
            if inherited is None or record.priority > inherited:
                self._give_priority(record.group, now)

    def _remove_pod(self, pod: o.Pod, now: float) -> None:
        record = self._engine.cluster.pods.get(pod.metadata.uid)
        self._remove(pod, now)
        if record is not None and record.group is not None:
            self._lower_priority(record.group, record.priority, now)

    def _class_changed(self, item: o.PriorityClass, now: float, *, deleted: bool) -> None:
        """Update groups that name the class as victims; after its deletion they keep its value."""
        if deleted:
            self._victims.remove_class(item.name)
            self._composites.remove_class(item.name)
        else:
            for key in self._victims.set_class(item):
                self._set_group_again(key, now)
            self._composites.set_class(item, now)
        self._remarks.classes_changed()

    def _arrival(self, pod: o.Pod) -> float | None:
        """Return the creation time of a new pod: the API's seconds, plus a fraction by the order of arrival."""
        if pod.metadata.uid in self._engine.cluster.pods:
            return None
        self._arrived_pods = (self._arrived_pods + 1) % _ARRIVALS
        return pod.created + self._arrived_pods / (_ARRIVALS + 1)

    def _take_group(self, change: Change[o.PodGroup], resource: Resource, now: float) -> None:
        """Pass the change of a group; of two groups of one name that of the stronger API group counts."""
        item = change.object
        counted = self._counted(item.key)
        self._namesakes.take(change, resource)
        best = self._namesakes.counting(item.key)
        if best is None:
            self._open.pop(item.key, None)
            self._victims.forget(item.key)
            self._remarks.forget(item)
            parent = self._parent(item.key)
            self._remove(item, now)
            self._composites.settled(parent, now)
            self._listener(change, resource)
        elif best[0] is not counted:
            if counted is not None and counted.metadata.uid != best[0].metadata.uid:
                self._remove(item, now)
                self._listener(Change(ChangeKind.DELETED, counted, counted), resource)
                counted = None
            kind = ChangeKind.ADDED if counted is None else ChangeKind.UPDATED
            self._set_group(best[0], now)
            self._listener(Change(kind, best[0], counted), best[1])

    def _set_group(self, group: o.PodGroup, now: float) -> None:
        self._open.pop(group.key, None)
        if group.spec.priority is None:
            self._open[group.key] = None
            if self._give_priority(group.key, now):
                return
        self._bring(group, now)
        self._composites.settled(self._parent(group.key), now)

    def _bring(self, group: o.PodGroup, now: float) -> None:
        resolved = self._victims.resolved(group)
        self._remarks.inspect(resolved)
        self._effects(self._engine.set(resolved, now, created=group.created))

    def _set_group_again(self, key: str, now: float) -> None:
        """Set a group again after the meaning of its fields changed."""
        group = self._counted(key)
        if group is not None:
            self._set_group(group, now)

    def _lower_priority(self, key: str, removed_priority: int, now: float) -> None:
        """Recompute the inherited priority of a group after a member with that priority was deleted."""
        inherited = self._open.get(key)
        if inherited is None or removed_priority < inherited:
            return
        state = self._engine.cluster.groups.get(key)
        if state is None or not any(pod.priority >= inherited for pod in state.members.values()):
            self._set_group_again(key, now)

    def _give_priority(self, key: str, now: float) -> bool:
        """Give a group without a priority the highest of its members; return whether it has members."""
        state = self._engine.cluster.groups.get(key)
        members = state.members.values() if state is not None else ()
        priority = max((pod.priority for pod in members), default=0)
        group = self._counted(key)
        if group is None or not members:
            return False
        self._open[key] = priority
        with_priority = msgspec.structs.replace(group, spec=msgspec.structs.replace(group.spec, priority=priority))
        self._bring(with_priority, now)
        self._composites.settled(self._parent(key), now)
        return True

    def _parent(self, key: str) -> str | None:
        state = self._engine.cluster.groups.get(key)
        return state.spec.parent if state is not None and state.spec is not None else None

    def _counted(self, key: str) -> o.PodGroup | None:
        """Return the group that counts among those of one name."""
        counting = self._namesakes.counting(key)
        return counting[0] if counting is not None else None

    def _refuse(self, group: o.PodGroup | o.CompositePodGroup, why: str) -> None:
        self._trouble(WATCH, f"{group.KIND} {group.key}: {why}")
        self._refused(group, why)
