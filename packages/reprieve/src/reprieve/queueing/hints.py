"""Queueing hints: which event may help which entity, according to the plugins that rejected it (scheduling.md 1)."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from typing import Final, Protocol

from reprieve.cluster.pods import PodRecord
from reprieve.cluster.state import ClusterState
from reprieve.framework.events import ClusterEvent, EventKind, Hint, Hints
from reprieve.framework.profile import Profile
from reprieve.queueing.entity import Entity

_MOST_ASKED: Final = 1 << 14
"""The limit on hint calls for the missed events of an entity; after them it is woken without further calls."""


def answer_of(hint: Hint, cluster: ClusterState, pod: PodRecord, event: ClusterEvent) -> bool:
    """Call a hint; an exception counts as yes, as upstream: an extra attempt is better than a lost wake-up."""
    try:
        return hint(cluster, pod, event)
    except Exception:
        return True


class QueueWatch(Protocol):
    """Measures a queue; does not influence its decisions."""

    def event(self, kind: EventKind) -> AbstractContextManager[None]:
        """Return a context manager that surrounds the handling of an event."""

    def hint(self, plugin: str, kind: EventKind, ask: Callable[[], bool]) -> bool:
        """Call `ask`, the hint of a plugin about an event of that kind, and return its result."""


class QueueingHints:
    """Queueing hints of all profiles, and the pods of an entity for which they are called."""

    def __init__(self, cluster: ClusterState, profiles: Mapping[str, Profile]) -> None:
        self._cluster = cluster
        self.watch: QueueWatch | None = None
        self.by_plugin: dict[str, Hints] = {}
        self.of_groups: set[str] = set()
        """Plugins with hints that depend on the group alone: an event of one group does not concern another."""
        for profile in profiles.values():
            self.of_groups |= {p.name for p in profile.pre_enqueue if p.concerns_group}
            for plugin in profile.plugins:
                self.by_plugin.setdefault(plugin.name, plugin.events())
        self.interested: dict[EventKind, list[str]] = {
            kind: [name for name, hints in self.by_plugin.items() if kind in hints] for kind in EventKind
        }
        """Plugins with a hint for a kind of event."""

    def kinds(self, plugin: str, pods: Iterable[PodRecord]) -> Mapping[Hashable, PodRecord]:
        """Return one pod of each kind that a hint of the plugin may tell apart, or one of each group."""
        if plugin in self.of_groups:
            return {pod.group: pod for pod in pods}
        return {pod.uid if pod.resizing else self._cluster.equivalence_key(pod): pod for pod in pods}

    def help(
        self,
        entity: Entity,
        plugin: str,
        event: ClusterEvent,
        cache: dict[Hashable, bool],
        kinds: Mapping[Hashable, PodRecord] | None = None,
    ) -> bool:
        """Return whether the plugin's hint reports that the event may help one of the entity's ready pods.

        `cache`: results for this event so far; `kinds`: the result of `kinds` for the pods, if known.
        """
        hint = self.by_plugin.get(plugin, {}).get(event.kind)
        if hint is None:
            return False
        for kind, pod in (kinds if kinds is not None else self.kinds(plugin, entity.ready.values())).items():
            if pod.resizing:  # only events on its own node may help it (resizes.md 1.5)
                if event.row == pod.row and self._answer(plugin, hint, pod, event):
                    return True
                continue
            # A hint that depends on the group is called per entity; the others are called once per signature.
            where = (plugin, kind, None if event.group is None and event.composite is None else entity.ref)
            answer = cache.get(where)
            if answer is None:
                answer = cache[where] = self._answer(plugin, hint, pod, event)
            if answer:
                return True
        return False

    def that_help(self, entity: Entity, events: Iterable[ClusterEvent]) -> Iterator[ClusterEvent]:
        """Yield the events that may help the entity, once for each plugin that rejected it and has a hint that agrees.

        There may be many victims' events and many kinds of pods: after `_MOST_ASKED` calls the rest are yielded without
        calls, because an extra attempt is cheaper than the calls.
        """
        kinds_by_plugin = {plugin: self.kinds(plugin, entity.ready.values()) for plugin in entity.rejected_by}
        calls = 0
        for event in events:
            cache: dict[Hashable, bool] = {}
            for plugin, kinds in kinds_by_plugin.items():
                if event.kind in self.by_plugin.get(plugin, {}):
                    calls += len(kinds)
                if calls > _MOST_ASKED or self.help(entity, plugin, event, cache, kinds):
                    yield event

    def _answer(self, plugin: str, hint: Hint, pod: PodRecord, event: ClusterEvent) -> bool:
        if self.watch is None:
            return answer_of(hint, self._cluster, pod, event)
        return self.watch.hint(plugin, event.kind, lambda: answer_of(hint, self._cluster, pod, event))
