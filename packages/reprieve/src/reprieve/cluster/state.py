"""The cluster cache: what the API states of nodes, pods, groups, budgets and their classes.

`ClusterState` is one of the few places where the scheduler's state is changed.  `reprieve.cluster.placements` has where
pods run, and trial views; what the API says cannot change inside a trial.
"""

import hashlib
from collections import deque
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from kube_rules import objects
from kube_rules.grants import bounded
from kube_rules.work_annotations import (
    NO_CLASS_TERMS,
    NO_WORK_TERMS,
    ClassTerms,
    Grant,
    WorkTerms,
    class_terms,
)
from reprieve.cluster.attachments import AttachedVolumes
from reprieve.cluster.budgets import Budget, BudgetIndex, ByLabel, budget_of
from reprieve.cluster.controllers import Controllers, OwnershipKey, ownership_key
from reprieve.cluster.default_selectors import DefaultSelectors
from reprieve.cluster.evictions import EvictionHistory
from reprieve.cluster.groups import CompositeState, Group, GroupSpec, GroupState, composite_spec_of, spec_of
from reprieve.cluster.job_deadlines import JobDeadlines
from reprieve.cluster.placements import Placements
from reprieve.cluster.pod_affinity_index import NAMESPACE_NAME
from reprieve.cluster.pods import PodClaim, PodRecord, controller_of
from reprieve.cluster.signature import PodSpecSignature
from reprieve.cluster.trees import GroupTrees
from reprieve.cluster.work_rules import WorkRules

_SETTLED_AFTER: Final = 30.0
"""Seconds after which the status of a budget accounts for a deleted pod, whether or not it was written since."""


class ClusterState(Placements):
    """Nodes, pods, groups and budgets: the cluster cache. It is changed only through these methods."""

    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, ClassTerms] = {}
        """What PriorityClasses say of the work of their pods, by name; those that say nothing are not kept."""
        self.trees = GroupTrees(self.groups, self.classes)
        """Groups of groups, and where each group stands."""
        self.budgets: dict[str, Budget] = {}
        self.budgets_version = 0
        self._budget_index: BudgetIndex | None = None
        self._budgets_by_label: tuple[tuple[str, ...], ByLabel] | None = None
        """The keys of the budgets, and by what label each may count a pod; None: to be computed again."""
        self.groups_version = 0
        """Grows when a group object changes: unit membership and priorities may differ."""
        self.terms_version = 0
        """Grows when an annotation about work changes."""
        self.doomed: set[str] = set()
        """UIDs of victims of decided preemptions, until they are deleted or it failed."""
        self.evictions = EvictionHistory()
        self.work_rules = WorkRules()
        self._unsettled: dict[str, deque[float]] = {}
        """By budget: when pods that it counts were gone of which its status may not know yet."""
        self.now = 0.0
        """The time of the cache (seconds since the epoch): that of the step that reads it, given by the shell."""
        self.default_selectors = DefaultSelectors()
        """Services, controllers: what default spread constraints take their selectors from."""
        self.controllers = Controllers()
        self.job_deadlines = JobDeadlines()
        self.departures: dict[str, float | None] = {}
        """Terminating pods, by UID: when each is due to be gone (seconds), where that is known."""
        self.departing: dict[OwnershipKey, dict[str, None]] = {}
        """The UIDs of the same by owner."""
        self.overdue: set[str] = set()
        """UIDs of victims that have not left long after they should have: their capacity is not counted on."""
        self.attached = AttachedVolumes(self.volumes, self.nodes, self.changes(of_nodes=False))

    # -- what the API says -------------------------------------------------------------------------------------------

    def set_node(self, node: objects.Node) -> bool:
        """Add or update a node; returns whether anything a plugin reads has changed."""
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
        """Learn of a pod; with a node name it is bound there. A pod of the same UID must not be known.

        `due`: when a terminating one is to be gone.
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
        """Remove a pod that has ended or was deleted; its capacity and nomination become free."""
        self._outside_trials()
        if self.pods.pop(pod.uid, None) is None:
            return
        self.work_rules.note(f"pod/{pod.uid}")
        self.doomed.discard(pod.uid)
        if pod.row >= 0 and any(terms.respects_budgets for terms in self.classes.values()):
            for key in self.budgets_counting(pod):
                gone = self._unsettled.setdefault(key, deque())
                while gone and gone[0] + _SETTLED_AFTER <= self.now:
                    gone.popleft()
                gone.append(self.now)
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
        """A terminating pod has another key than before, or was deleted."""
        if key == before:
            return
        of_key = self.departing[before]
        del of_key[pod.uid]
        if not of_key:
            del self.departing[before]
        if key is not None:
            self.departing.setdefault(key, {})[pod.uid] = None

    def set_terminating(self, pod: PodRecord, *, due: float | None = None) -> None:
        """Record a deletionTimestamp: the pod keeps its capacity until it is deleted, but no longer counts for its
        group.

        `due`: when it is to be gone, in seconds, where that is known.
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
        """Record that fields of a pod which budgets, importance or filters read have changed."""
        self._outside_trials()
        self._fit()
        pod.start = start
        row = pod.row
        if pod.signature is not signature or pod.labels != labels:
            if row >= 0:
                self._take(pod)  # its devices stay its own
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
        """The pod's device claims got names, or others; what it holds already is not allocated again.

        What is assumed for its extended resources lasts when the claim for them has been made.
        """
        self._outside_trials()
        special = self.devices.special(pod)
        kept = special.held.assumed if special is not None and pod.row >= 0 else None
        if pod.row >= 0:
            self.devices.release(pod)
        self.devices.leave(pod)
        pod.claims = claims
        self.devices.join(pod)
        if pod.row >= 0:
            self.devices.hold(pod, pod.row, kept)

    def claims_renewed(self, pod: PodRecord) -> bool:
        """Look again whether device classes serve what the pod asks for, by which claim; whether that is new."""
        claims = self.devices.with_extended(pod, pod.claims)
        if claims == pod.claims:
            return False
        self.set_claims(pod, claims)
        return True

    def classes_changed(self) -> list[PodRecord]:
        """Device classes serve other resources: nodes and pods are updated. Returns the pods that it concerns."""
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
        """Return the state of a group, made when first named."""
        result = self.groups.get(key)
        if result is None:
            result = self.groups[key] = GroupState(key)
        return result

    def set_group(self, group: objects.PodGroup, *, created: float = 0.0, trees: bool = True) -> GroupState:
        """Learn of a PodGroup object or its change; without `trees` it stands alone, whatever parent it names."""
        self._outside_trials()
        state = self.group(group.full_key)
        self._set_group(state, spec_of(group, trees=trees), group.metadata, created)
        return state

    def set_composite(
        self, group: objects.CompositePodGroup, *, created: float = 0.0, foreign: str | None = None
    ) -> CompositeState:
        """Learn of a CompositePodGroup object or its change; of one that a `foreign` PodGroup stands for."""
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
        """Remove a PodGroup object; its pods become units of their own (preemption.md 1)."""
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
        """The group, or all below it, may be disrupted otherwise than before."""
        for leaf in self.trees.place(state):
            self._touch_members(leaf)

    def set_class(self, found: objects.PriorityClass) -> bool:
        """Add or update a PriorityClass; return whether its annotations about work have changed."""
        return self._class(found.metadata.name, class_terms(found.metadata.annotations))

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
        """Return how many pods that a budget counts have ended since its status was written (cost.md 2.8)."""
        return sum(1 for gone in self._unsettled.get(key, ()) if gone + _SETTLED_AFTER > self.now)

    def set_terms(self, pod: PodRecord, terms: WorkTerms) -> None:
        """What a pod says of its own work has changed."""
        self._outside_trials()
        pod.terms = terms
        self.work_rules.note(f"pod/{pod.uid}", terms)
        self.terms_version += 1

    def terms_of(self, pod: PodRecord) -> WorkTerms:
        """Return the annotations about a pod's work: on the pod, else on its group, else on the class of the group or
        pod.

        As far as the pod's own class grants them, and that of its group where it names another (cost.md 7).
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
        """Return what the class of a preemptor says: of a pod of a group that of the group, if that names one."""
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
        """A namespace was deleted."""
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
        """A budget was deleted."""
        self._unsettled.pop(key, None)
        if self.budgets.pop(key, None) is not None:
            self._budgets_by_label = None
            self._budgets_changed()

    def budgets_counting(self, pod: PodRecord) -> list[str]:
        """Return the keys of the budgets that count a pod; which can is known by label, however many there are."""
        if self._budgets_by_label is None:
            selectors = ((number, one.namespace, one.selector) for number, one in enumerate(self.budgets.values()))
            self._budgets_by_label = tuple(self.budgets), ByLabel(selectors)
        keys, by_label = self._budgets_by_label
        numbers = by_label.candidates(pod.namespace, pod.labels)
        return [keys[number] for number in numbers if self.budgets[keys[number]].counts(pod)]

    def _budgets_changed(self) -> None:
        self.budgets_version += 1
        self._budget_index = None

    @property
    def budget_index(self) -> BudgetIndex:
        """Return the budgets as they are now, ready to be asked which pods they count."""
        if self._budget_index is None:
            self._budget_index = BudgetIndex(self.budgets.values())
        return self._budget_index

    # -- what is asked of the whole picture --------------------------------------------------------------------------

    def entity_ref(self, pod: PodRecord) -> str:
        """Return what a pending pod waits in: `pod/<uid>`, or its tree's root, `group/...`; a resize in its own."""
        if pod.group is None or pod.resizing:
            return pod.resize_ref or f"pod/{pod.uid}"
        group = self.groups.get(pod.group)
        return group.home if group is not None else f"group/{pod.group}"

    def equivalence_key(self, pod: PodRecord) -> Hashable:
        """Equal for pods that hints cannot tell apart: by signature, and by labels where anything selects on them."""
        if pod.claims:
            return (pod.uid, pod.claims)
        if not self.pod_affinity.active and not self.default_selectors:
            return (pod.signature.id, pod.volumes)
        return (pod.signature.id, self.pod_affinity.label_class(pod).id, pod.owner, pod.volumes)

    def digest(self) -> str:
        """A fingerprint of everything a plugin can read: equal digests, equal views (the undo tests compare these)."""
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
        """Compare every derived amount with what it is derived from; raises AssertionError on a difference.

        The switch that tests turn on after every step: `used` against the pods on the row, counts of groups against
        their members, both sides of nominations.
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
        nodes.nominated_amounts.check(pod for there in nodes.nominated.values() for pod in there.values())
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
            self.namespaces[name] = {**labels, NAMESPACE_NAME: name}
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
