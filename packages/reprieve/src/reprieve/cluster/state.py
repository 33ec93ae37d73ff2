"""The cluster cache: the API objects of nodes, pods, groups, budgets and their classes.

`ClusterState` is one of the few places where the scheduler's state changes. `reprieve.cluster.placements` holds the
placements of pods and trial views. API objects cannot change inside a trial.
"""

import hashlib
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kube_rules import objects
from kube_rules.grants import bounded
from kube_rules.meta import NAMESPACE_LABEL
from kube_rules.work_annotations import (
    NO_CLASS_TERMS,
    NO_WORK_TERMS,
    ClassTerms,
    Grant,
    WorkTerms,
    class_terms,
)
from reprieve.cluster.attachments import AttachedVolumes
from reprieve.cluster.budgets import Budget, BudgetIndex, SelectorsByLabel, budget_of
from reprieve.cluster.controllers import Controllers, OwnershipKey, ownership_key
from reprieve.cluster.default_selectors import DefaultSelectors
from reprieve.cluster.evictions import EvictionHistory
from reprieve.cluster.groups import CompositeState, Group, GroupSpec, GroupState, composite_spec_of, spec_of
from reprieve.cluster.job_deadlines import JobDeadlines
from reprieve.cluster.placements import Placements
from reprieve.cluster.pods import PodClaim, PodRecord, controller_of
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.trees import GroupTrees
from reprieve.cluster.work_rules import WorkRules

_SETTLED_AFTER: Final = 30.0
"""Seconds after which the status of a budget counts as updated for a deleted pod."""


class ClusterState(Placements):
    """The cluster cache: nodes, pods, groups and budgets. Only these methods change it."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, ClassTerms] = {}
        """Terms about work in PriorityClasses, by name; classes without any are left out."""
        self.trees = GroupTrees(self.groups, self.classes)
        """Composite groups, and the position of each group in its tree."""
        self.budgets: dict[str, Budget] = {}
        self.budgets_version = 0
        self._budget_index: BudgetIndex | None = None
        self._budgets_by_label: tuple[tuple[str, ...], SelectorsByLabel] | None = None
        """The keys of the budgets, and the label index of their selectors; None: not computed."""
        self.groups_version = 0
        """Increases with a group object's change, which may change units and priorities."""
        self.terms_version = 0
        """Increases when an annotation about work changes."""
        self.doomed: set[str] = set()
        """UIDs of victims of decided preemptions, until their deletion or a failed eviction."""
        self.evictions = EvictionHistory()
        self.work_rules = WorkRules()
        self._unsettled: dict[str, deque[float]] = {}
        """By budget: the removal times of counted pods that its status may not include yet."""
        self.now = 0.0
        """The time of the current step, in seconds since the epoch, set by the caller."""
        self.default_selectors = DefaultSelectors()
        """Selectors of Services and controllers, for default spread constraints."""
        self.controllers = Controllers()
        self.job_deadlines = JobDeadlines()
        self.departures: dict[str, float | None] = {}
        """Terminating pods by UID: the time (seconds) when each must be gone, if known."""
        self.departing: dict[OwnershipKey, dict[str, None]] = {}
        """UIDs of terminating pods by owner."""
        self.overdue: set[str] = set()
        """UIDs of victims that have not terminated in time; their capacity does not count as freed."""
        self.attached = AttachedVolumes(self.volumes, self.nodes, self.changes(of_nodes=False))

    # -- API objects -------------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> bool:
        """Add or update a node; return whether anything that plugins read changed."""
        self._outside_trials()
        row, changed = self.nodes.set_node(node)
        self._fit()
        if changed:
            self._touch(row)
        return changed

    def remove_node(self, name: str) -> bool:
        """Remove a node; return whether it existed."""
        self._outside_trials()
        row = self.nodes.remove_node(name)
        if row is None:
            return False
        self._touch(row)
        return True

    def add_pod(self, pod: PodRecord, node: str | None = None, *, due: float | None = None) -> None:
        """Add a new pod, bound to a node if one is given. Raises ValueError for a known UID.

        `due`: the time when a terminating pod must be gone.
        """
        self._outside_trials()
        if pod.uid in self.pods:
            raise ValueError(f"pod {pod.key} (uid {pod.uid}) is already known")
        self._fit()
        self.pods[pod.uid] = pod
        if pod.terms.decides:
            self.work_rules.note(f"pod/{pod.uid}", pod.terms)
        if pod.terminating:
            self._departs(pod, due)
        self.pod_affinity.join(pod)
        pod.claims = self.devices.with_extended(pod, pod.claims)
        if pod.claims:
            self.devices.join(pod)
        if pod.group is not None:
            group = self.group(pod.group)
            group.members[pod.uid] = pod
            group.existing += not pod.terminating
            self.trees.pods_changed(group)
        if node:
            pod.bound = True
            self.place(pod, self.nodes.row_for_pod(node))

    def remove_pod(self, pod: PodRecord) -> None:
        """Remove a pod that has ended or was deleted, and free its capacity and nomination."""
        self._outside_trials()
        if self.pods.pop(pod.uid, None) is None:
            return
        self.work_rules.note(f"pod/{pod.uid}")
        self.doomed.discard(pod.uid)
        if pod.row >= 0 and any(terms.respects_budgets for terms in self.classes.values()):
            for key in self.budgets_counting(pod):
                removal_times = self._unsettled.setdefault(key, deque())
                while removal_times and removal_times[0] + _SETTLED_AFTER <= self.now:
                    removal_times.popleft()
                removal_times.append(self.now)
        if pod.row >= 0:
            row = pod.row
            self.displace(pod)
            self.nodes.release(row)
        self.pod_affinity.leave(pod)
        if pod.claims:
            self.devices.leave(pod)
        self.volumes.give_back(pod.uid)
        if pod.uid in self.departures:
            del self.departures[pod.uid]
            self._listed_with(ownership_key(pod), None, pod)
        self.overdue.discard(pod.uid)
        self.clear_nomination(pod)
        self.trim()
        if pod.group is not None:
            group = self.groups[pod.group]
            del group.members[pod.uid]
            group.existing -= not pod.terminating
            self.trees.pods_changed(group)
            self._forget_group_if_unused(group)

    def _departs(self, pod: PodRecord, due: float | None) -> None:
        self.departures[pod.uid] = due
        self.departing.setdefault(ownership_key(pod), {})[pod.uid] = None

    def _listed_with(self, before: OwnershipKey, key: OwnershipKey | None, pod: PodRecord) -> None:
        """Move a terminating pod to another ownership key, or remove a deleted one."""
        if key == before:
            return
        of_key = self.departing[before]
        del of_key[pod.uid]
        if not of_key:
            del self.departing[before]
        if key is not None:
            self.departing.setdefault(key, {})[pod.uid] = None

    def set_terminating(self, pod: PodRecord, *, due: float | None = None) -> None:
        """Record a deletionTimestamp: the pod keeps its capacity but no longer counts for its group.

        `due`: the time when the pod must be gone, in seconds, if known.
        """
        self._outside_trials()
        self._departs(pod, due)
        if not pod.terminating:
            if pod.group is not None:
                group = self.groups[pod.group]
                group.existing -= 1
                self.trees.pods_changed(group)
                group.scheduled -= pod.row >= 0
                self.resized_gangs.entries.append(pod.group)
            pod_affinity, row = self.pod_affinity, pod.row
            if pod_affinity.active and row >= 0:
                pod_affinity.moved(pod, row, -1)
            pod_affinity.leave(pod)
            pod.terminating = True
            pod_affinity.join(pod)
            if pod_affinity.active and row >= 0:
                pod_affinity.moved(pod, row, 1)
            if row >= 0:
                self._touch(row)

    def set_overdue(self, uid: str) -> None:
        """Record that a victim has not terminated in time: it is no longer a potential victim (cost.md 5.2)."""
        self._outside_trials()
        pod = self.pods.get(uid)
        if pod is not None and pod.row >= 0 and uid not in self.overdue:
            self.overdue.add(uid)
            self._touch(pod.row)

    def change_pod(
        self, pod: PodRecord, *, signature: PodSpecSignature, labels: Mapping[str, str], start: float | None
    ) -> None:
        """Update the fields of a pod that budgets, importance or filters read."""
        self._outside_trials()
        self._fit()
        pod.start = start
        row = pod.row
        if pod.signature is not signature or pod.labels != labels:
            if row >= 0:
                self._take(pod)  # without releasing its devices
            self.pod_affinity.leave(pod)
            key = ownership_key(pod)
            pod.labels, pod.signature = labels, signature
            if pod.uid in self.departures:
                self._listed_with(key, ownership_key(pod), pod)
            self.pod_affinity.join(pod)
            if row >= 0:
                self._put(pod, row)
            if pod.nominated >= 0:
                self.nodes.nominated_amounts.add(pod)
        for touched in (row, pod.nominated):
            if touched >= 0:
                self._touch(touched)

    def set_claims(self, pod: PodRecord, claims: tuple[PodClaim, ...]) -> None:
        """Set the pod's device claims; existing allocations remain.

        The assumed allocation for its extended resources remains when their claim has been created.
        """
        self._outside_trials()
        special = self.devices.special(pod)
        allocation = special.assumptions.assumed if special is not None and pod.row >= 0 else None
        if pod.row >= 0:
            self.devices.release(pod)
        self.devices.leave(pod)
        pod.claims = claims
        self.devices.join(pod)
        if pod.row >= 0:
            self.devices.hold(pod, pod.row, allocation)

    def claims_renewed(self, pod: PodRecord) -> bool:
        """Recompute the claim for extended resources of a pod; return whether it changed."""
        claims = self.devices.with_extended(pod, pod.claims)
        if claims == pod.claims:
            return False
        self.set_claims(pod, claims)
        return True

    def classes_changed(self) -> list[PodRecord]:
        """Update nodes and pods after device classes serve other resources; return the affected pods."""
        self._outside_trials()
        self.nodes.serve(self.devices.served)
        self._fit()
        return [pod for pod in self.pods.values() if pod.signature.extended and self.claims_renewed(pod)]

    def regroup(self, pod: PodRecord, key: str | None) -> None:
        """Move a pod to another group, or to none (workloads.md 2.7)."""
        self._outside_trials()
        counts = not pod.terminating
        owned_before = ownership_key(pod)
        if pod.group is not None:
            before = self.groups[pod.group]
            del before.members[pod.uid]
            before.existing -= counts
            before.scheduled -= counts and pod.row >= 0
            self.resized_gangs.entries.append(pod.group)
            pod.group = None
            self.trees.pods_changed(before)
            self._forget_group_if_unused(before)
        if key is not None:
            pod.group = key
            after = self.group(key)
            after.members[pod.uid] = pod
            after.existing += counts
            after.scheduled += counts and pod.row >= 0
            self.resized_gangs.entries.append(key)
            self.trees.pods_changed(after)
        if pod.uid in self.departures:
            self._listed_with(owned_before, ownership_key(pod), pod)
        self.groups_version += 1
        if pod.row >= 0:
            self._touch(pod.row)

    def group(self, key: str) -> GroupState:
        """Return the state of a group, created on first use."""
        result = self.groups.get(key)
        if result is None:
            result = self.groups[key] = GroupState(key)
        return result

    def set_group(self, group: objects.PodGroup, *, created: float = 0.0, trees: bool = True) -> GroupState:
        """Add or update a PodGroup object; without `trees` its parent is ignored."""
        self._outside_trials()
        state = self.group(group.full_key)
        self._set_group(state, spec_of(group, trees=trees), group.metadata, created)
        return state

    def set_composite(
        self, group: objects.CompositePodGroup, *, created: float = 0.0, foreign: str | None = None
    ) -> CompositeState:
        """Add or update a CompositePodGroup object, or one that represents a `foreign` PodGroup."""
        self._outside_trials()
        key = group.full_key
        state = self.trees.composites.get(key) or CompositeState(key)
        self._set_group(state, replace(composite_spec_of(group), foreign=foreign), group.metadata, created)
        return state

    def _set_group(self, state: Group, spec: GroupSpec, meta: objects.ObjectMeta, created: float) -> None:
        self.work_rules.note(state.ref, spec.terms)
        moved = state.created != created
        state.uid = meta.uid or state.key
        state.created = created
        state.owner = controller_of(meta)
        before = state.spec
        if spec != before:
            state.spec = spec
            self.groups_version += 1
            self._stands_elsewhere(state)
        elif spec.terms != before.terms:
            state.spec = spec
            self.terms_version += 1
        elif moved:
            self.trees.place(state)

    def remove_group(self, key: str) -> GroupState | None:
        """Remove a PodGroup object; each of its pods becomes a unit (preemption.md 1)."""
        self._outside_trials()
        state = self.groups.get(key)
        if state is None or state.spec is None:
            return None
        self._remove_group(state)
        self._forget_group_if_unused(state)
        return state

    def remove_composite(self, key: str) -> CompositeState | None:
        """Remove a CompositePodGroup object; the groups below it wait until it exists again."""
        self._outside_trials()
        state = self.trees.composites.get(key)
        if state is not None:
            self._remove_group(state)
        return state

    def _remove_group(self, state: Group) -> None:
        state.spec = None
        self.work_rules.note(state.ref)
        self.groups_version += 1
        self._stands_elsewhere(state)

    def _stands_elsewhere(self, state: Group) -> None:
        """Update the tree positions of the group and the groups below it."""
        for leaf in self.trees.place(state):
            self._touch_members(leaf)

    def set_class(self, priority_class: objects.PriorityClass) -> bool:
        """Add or update a PriorityClass; return whether its annotations about work changed."""
        return self._class(priority_class.metadata.name, class_terms(priority_class.metadata.annotations))

    def remove_class(self, name: str) -> bool:
        """Remove a PriorityClass with its annotations about work; return whether it had any."""
        return self._class(name, NO_CLASS_TERMS)

    def _class(self, name: str, terms: ClassTerms) -> bool:
        if self.classes.get(name, NO_CLASS_TERMS) == terms:
            return False
        self.classes.pop(name, None)
        self.work_rules.note(f"class/{name}", terms.work, respects_budgets=terms.respects_budgets)
        if terms is not NO_CLASS_TERMS:
            self.classes[name] = terms
        self.terms_version += 1
        concerned = self.trees.grant_changed(name)
        if concerned:
            self.groups_version += 1
        for leaf in concerned:
            self._touch_members(leaf)
        return True

    @property
    def rules_of_work(self) -> bool:
        """Return whether annotations or limits decide which pods may be evicted, and not only at what cost."""
        return bool(self.work_rules) or self.evictions.bind(self.now)

    def unsettled_disruptions(self, key: str) -> int:
        """Return how many pods of a budget have ended since its status was written (cost.md 2.8)."""
        return sum(1 for removed_at in self._unsettled.get(key, ()) if removed_at + _SETTLED_AFTER > self.now)

    def set_terms(self, pod: PodRecord, terms: WorkTerms) -> None:
        """Set a pod's own terms about its work."""
        self._outside_trials()
        pod.terms = terms
        self.work_rules.note(f"pod/{pod.uid}", terms)
        self.terms_version += 1

    def terms_of(self, pod: PodRecord) -> WorkTerms:
        """Return the terms about a pod's work: its own, else its group's, else its priority class's.

        They are limited by the grants of the pod's own class, and of its group's class if different (cost.md 7).
        """
        group = self.groups.get(pod.group) if pod.group is not None else None
        spec = group.spec if group is not None else None
        of_group = spec.class_name if spec is not None else ""
        stated = pod.terms if spec is None else pod.terms.over(spec.terms)
        terms = stated.over(self._default_terms(of_group or pod.class_name))
        if terms is NO_WORK_TERMS:
            return terms
        terms = bounded(terms, self._grant(pod.class_name, pod.namespace))
        if of_group and of_group != pod.class_name:
            terms = bounded(terms, self._grant(of_group, pod.namespace))
        return terms

    def _grant(self, class_name: str, namespace: str) -> Grant:
        return self.classes.get(class_name, NO_CLASS_TERMS).grant_in(namespace)

    def class_terms_of(self, preemptor: PodRecord | Group) -> ClassTerms:
        """Return the class terms of a preemptor; the class of its group, if named, takes precedence."""
        if isinstance(preemptor, PodRecord):
            group = self.groups.get(preemptor.group) if preemptor.group is not None else None
            of_group = group.spec.class_name if group is not None and group.spec is not None else ""
            name = of_group or preemptor.class_name
        else:
            name = preemptor.spec.class_name if preemptor.spec is not None else ""
        return self.classes.get(name, NO_CLASS_TERMS)

    def _default_terms(self, class_name: str) -> WorkTerms:
        return self.classes.get(class_name, NO_CLASS_TERMS).work if self.classes else NO_WORK_TERMS

    def set_namespace(self, namespace: objects.Namespace) -> bool:
        """Add or update a namespace; return whether its labels have changed."""
        return self._namespace(namespace.metadata.name, dict(namespace.metadata.labels))

    def remove_namespace(self, name: str) -> bool:
        """Remove a deleted namespace; return whether its labels changed."""
        return self._namespace(name, None)

    def set_budget(self, pdb: objects.PodDisruptionBudget) -> None:
        """Add or update a PodDisruptionBudget."""
        budget = budget_of(pdb)
        key = f"{budget.namespace}/{budget.name}"
        before = self.budgets.get(key)
        if before is None or before.selector != budget.selector:
            self._budgets_by_label = None
        self.budgets[key] = budget
        self._unsettled.pop(key, None)
        self._budgets_changed()

    def remove_budget(self, key: str) -> None:
        """Remove a deleted budget."""
        self._unsettled.pop(key, None)
        if self.budgets.pop(key, None) is not None:
            self._budgets_by_label = None
            self._budgets_changed()

    def budgets_counting(self, pod: PodRecord) -> list[str]:
        """Return the keys of the budgets that count a pod, with a lookup by label."""
        if self._budgets_by_label is None:
            selectors = ((number, b.namespace, b.selector) for number, b in enumerate(self.budgets.values()))
            self._budgets_by_label = tuple(self.budgets), SelectorsByLabel(selectors)
        keys, by_label = self._budgets_by_label
        numbers = by_label.candidates(pod.namespace, pod.labels)
        return [keys[number] for number in numbers if self.budgets[keys[number]].counts(pod)]

    def _budgets_changed(self) -> None:
        self.budgets_version += 1
        self._budget_index = None

    @property
    def budget_index(self) -> BudgetIndex:
        """Return the index of the current budgets."""
        if self._budget_index is None:
            self._budget_index = BudgetIndex(self.budgets.values())
        return self._budget_index

    # -- queries across the cache ------------------------------------------------------------------------------------

    def entity_ref(self, pod: PodRecord) -> str:
        """Return the key of a pending pod's queued entity: `pod/<uid>`, its tree's root, or that of its resize."""
        if pod.group is None or pod.resizing:
            return pod.resize_ref or f"pod/{pod.uid}"
        group = self.groups.get(pod.group)
        return group.home if group is not None else f"group/{pod.group}"

    def equivalence_key(self, pod: PodRecord) -> Hashable:
        """Return a key of signature and selected labels, equal for pods that hints cannot distinguish."""
        if pod.claims:
            return (pod.uid, pod.claims)
        if not self.pod_affinity.active and not self.default_selectors:
            return (pod.signature.id, pod.volumes)
        return (pod.signature.id, self.pod_affinity.label_class(pod).id, pod.owner, pod.volumes)

    def digest(self) -> str:
        """Return a fingerprint of everything that a plugin can read, for the undo tests."""
        nodes = self.nodes
        n = len(nodes)
        h = hashlib.sha256()
        for array in (nodes.alive, nodes.unschedulable, nodes.taint_set, nodes.feature_set):
            h.update(np.ascontiguousarray(array[:n]).tobytes())
        for table in (nodes.used, nodes.allocatable):
            h.update(np.ascontiguousarray(table[:, :n]).tobytes())
        for row in range(n):
            nominated = nodes.nominated.get(row, {})
            ports = nodes.ports[row]
            h.update(
                repr(
                    (
                        nodes.names[row],
                        sorted(nodes.pods[row]),
                        sorted(nominated),
                        sorted((ports or {}).items()),
                    )
                ).encode()
            )
        for uid in sorted(self.pods):
            pod = self.pods[uid]
            h.update(repr((uid, pod.row, pod.nominated, pod.terminating)).encode())
        for key in sorted(self.groups):
            group = self.groups[key]
            h.update(repr((key, group.spec, sorted(group.members), group.scheduled)).encode())
        for key in sorted(self.trees.composites):
            h.update(repr((key, self.trees.composites[key].spec)).encode())
        h.update(repr(self.devices.digest()).encode())
        h.update(repr(self.volumes.digest()).encode())
        return h.hexdigest()

    def check(self) -> None:
        """Compare every derived amount with its source. Raises AssertionError on a difference.

        Tests enable it after every step. It compares `used` with the pods on the row, counts of groups with their
        members, and both sides of nominations.
        """
        nodes = self.nodes
        for row in range(len(nodes)):
            total = np.zeros(self.resources.capacity, dtype=np.int64)
            for pod in nodes.pods[row].values():
                assert pod.row == row, f"{pod} is listed on row {row}"
                total += pod.signature.delta
            assert np.array_equal(total, nodes.used[:, row]), f"used of {nodes.names[row]} is off"
            for pod in nodes.nominated.get(row, {}).values():
                assert pod.nominated == row, f"{pod} is listed as nominated to row {row}"
        nodes.nominated_amounts.check(pod for nominated in nodes.nominated.values() for pod in nominated.values())
        for group in self.groups.values():
            scheduled = sum(1 for pod in group.members.values() if pod.row >= 0 and not pod.terminating)
            assert scheduled == group.scheduled, f"{group} has {scheduled} scheduled members"
            existing = sum(1 for pod in group.members.values() if not pod.terminating)
            assert existing == group.existing, f"{group} has {existing} members"
        for pod in self.pods.values():
            assert pod.row < 0 or pod.uid in nodes.pods[pod.row], f"{pod} is not on its row"
            assert pod.terminating == (pod.uid in self.departures), f"{pod} is leaving, or is listed so"
        assert self.departures.keys() | self.overdue <= self.pods.keys(), "a deleted pod is listed as leaving"
        departing = {uid: key for key, uids in self.departing.items() for uid in uids}
        assert departing == {uid: ownership_key(self.pods[uid]) for uid in self.departures}, (
            "a leaving pod is not listed by its owners"
        )
        self.trees.check(self.groups.values())
        self.pod_affinity.check()
        self.volumes.check(self.pods.values())
        self.devices.check()

    # -- inside ------------------------------------------------------------------------------------

    def _namespace(self, name: str, labels: dict[str, str] | None) -> bool:
        before = self.namespace_labels(name)
        if labels is None:
            self.namespaces.pop(name, None)
        else:
            self.namespaces[name] = {**labels, NAMESPACE_LABEL: name}
        changed = self.namespace_labels(name) != before
        if changed and self.pod_affinity.active:
            self._outside_trials()
            self.pod_affinity.namespace_changed()
        return changed

    def _touch_members(self, group: GroupState) -> None:
        for pod in group.members.values():
            if pod.row >= 0:
                self.touched.entries.append(pod.row)

    def _fit(self) -> None:
        self.nodes.fit_columns()
        self.signatures.fit(self.resources.capacity)

    def _forget_group_if_unused(self, group: GroupState) -> None:
        if group.spec is None and not group.members:
            self.groups.pop(group.key, None)
