"""The devices in the cluster cache: claims, slices and classes, and which pod has which device.

Terms: a claim is *stated* to be allocated by the API, or *assumed* to be by this scheduler; a *holder* is a placed pod
that uses it.  Placing a pod allocates what its claims still lack, taking it away gives that up again
(`ClusterState.place`, `displace`), so the members of a gang see each other's devices in a trial, too.

Rules:
- An assumed allocation lasts as long as the claim has a holder; what the API states takes its place.
- A stated allocation outlives its holders: it ends when the API says so.  In a trial it counts as given up once every
  consumer that the API lists is a pod taken away in the trial (what the claim controller would do, KEP-5690); a
  consumer that is no pod keeps it.
- A claim of the pod's PodGroup is shared by its pods and reserved for the group, which keeps it until the group is
  gone (KEP-5729).
- A pod put back in a trial gets back what it had; what the API states even if another pod has got it meanwhile.

Invariants: `in_use` is the sum of the allocations of all claims, inside trials too; every change of a claim's holders
or assumed allocation is one undoable step of the trial.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kube_rules.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from reprieve.cluster.changes import ChangeLog, ChangeReader
from reprieve.cluster.claim_states import ClaimState, DeviceVerdicts, Held
from reprieve.cluster.device_allocation import (
    FEWER_STEPS,
    MOST_GIVEN_UP,
    MOST_STEPS,
    DeviceError,
    DevicesInUse,
    GaveUpError,
    NodeError,
    PendingClaim,
    allocate,
)
from reprieve.cluster.device_pools import (
    DeviceId,
    DeviceMatcher,
    EffectiveTaint,
    Pool,
    PoolId,
    Slice,
    SliceIndex,
    read_slice,
    taint_of,
)
from reprieve.cluster.device_requests import (
    Allocation,
    Chosen,
    ClaimShape,
    Shapes,
    preference,
    read_allocation,
    tolerated,
    write_allocation,
)
from reprieve.cluster.extended_resources import Mapped, owner_of, requests_of, served_by
from reprieve.cluster.groups import GroupState
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pods import PodClaim, PodRecord
from reprieve.cluster.undo import UndoLog

DeviceObject = ResourceClaim | ResourceSlice | DeviceClass | DeviceTaintRule
DEVICE_KINDS = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
NO_EXECUTE = "NoExecute"
EVERYWHERE = -1
"""In the log of changes: any row may see it."""
UNKNOWN = -1
MOST_REACHES = 256
SPECIAL = "<extended-resources>"
"""Stands for a claim that is not made yet, as with kube-scheduler; no name that a claim can have."""
_MOST_SHAPES = 1024
_LOG = 65536
_VIEWS = 256
_EMPTY = DevicesInUse()


class DeviceBook:
    """See the module docstring."""

    def __init__(
        self, nodes: NodeColumns, groups: Mapping[str, GroupState], undo: UndoLog, log: ChangeLog[int]
    ) -> None:
        """`log`: of the changes of rows, which shows what happens to claims, too."""
        self._nodes = nodes
        self._groups = groups
        self._undo = undo
        self._log = log
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        """Taints for devices that the rules select; already among the taints of what was read of the slices."""
        self.served: dict[str, str] = {}
        """Extended resource -> the class that serves it (devices.md 4.1)."""
        self.serves_extended = True
        """False: no class serves any (gate DRAExtendedResource)."""
        self._special: dict[str, str] = {}
        """UID of a pod -> name of the claim that was made for its extended resources."""
        self._special_shapes: dict[tuple[object, ...], tuple[ClaimShape, tuple[Mapped, ...]]] = {}
        self.claims: dict[str, ClaimState] = {}
        self.in_use = DevicesInUse()
        self.matcher = DeviceMatcher()
        self._shapes = Shapes()
        self._read: dict[str, Slice] = {}
        self._index: SliceIndex | None = None
        self._version = 0
        """Grows when slices, classes or rules change."""
        self._elsewhere = 0
        """Grows when a claim changes that has devices which several nodes reach."""
        self._executing: dict[DeviceId, tuple[EffectiveTaint, ...]] | None = None
        """Those with taints of effect NoExecute, computed when first asked for."""
        self._pools: dict[int, tuple[Pool, ...]] = {}
        self._pools_stamp: tuple[int, tuple[int, int]] | None = None
        self._touched = ChangeLog[int]()
        """Rows on which devices were taken or given back."""
        self._verdicts: dict[tuple[int, ...], DeviceVerdicts] = {}

    # -- what the API says --------------------------------------------------------------------------------------------

    def set(self, item: DeviceObject) -> DeviceObject | None:
        """Learn of an object or its change; returns what was known of it before."""
        before: DeviceObject | None
        if isinstance(item, ResourceClaim):
            return self._set_claim(item)
        if isinstance(item, DeviceClass):
            before = self.classes.get(item.metadata.name)
            self.classes[item.metadata.name] = item
        elif isinstance(item, DeviceTaintRule):
            rule = self.rules.get(item.metadata.name)
            self.rules[item.metadata.name] = item
            self._taint(rule, item)
            return rule
        else:
            before = self.slices.get(item.metadata.name)
            self.slices[item.metadata.name] = item
            if before is None or before.spec != item.spec:
                self._read_slice(item)
        if before is None or before.spec != item.spec:
            self._version += 1
        return before

    def remove(self, kind: str, namespace: str, name: str) -> DeviceObject | None:
        """An object was deleted; returns what was known of it."""
        if kind == "ResourceClaim":
            return self._remove_claim(f"{namespace or 'default'}/{name}")
        if kind == "DeviceTaintRule":
            rule = self.rules.pop(name, None)
            self._taint(rule, None)
            return rule
        table: dict[str, DeviceClass] | dict[str, ResourceSlice]
        table = self.classes if kind == "DeviceClass" else self.slices
        result = table.pop(name, None)
        if result is not None:
            self._version += 1
            if kind == "ResourceSlice":
                self._read.pop(name, None)
                self._index = self._executing = None
        return result

    def join(self, pod: PodRecord) -> None:
        """A pod with claims is known."""
        for key in pod.claim_keys:
            self._state(key).users[pod.uid] = pod

    def leave(self, pod: PodRecord) -> None:
        """The pod was deleted; it must not hold anything."""
        for key in pod.claim_keys:
            state = self._state(key)
            state.users.pop(pod.uid, None)
            self._forget_if_unused(state)

    # -- holders; undone by trials ------------------------------------------------------------------------------------

    def of(self, pod: PodRecord) -> list[ClaimState]:
        """The claims a known pod names, in its order, each once."""
        return [self.claims[key] for key in pod.claim_keys if key in self.claims]

    def hold(self, pod: PodRecord, row: int, kept: Allocation | None = None) -> None:
        """The pod was put on a row: it uses its claims, and gets what they lack if that can be had there.

        A pod that the API says is bound gets nothing: what it has is stated, or it has nothing.  `kept`: what it had
        before for its extended resources, and still has.
        """
        claims = self.of(pod)
        for claim in claims:
            held = claim.held
            back = pod.uid in held.gone and held.assumed is None and claim.stated is None
            assumed = held.parked if back and held.parked is not None and self._free(held.parked) else held.assumed
            parked = None if assumed is not held.assumed else held.parked
            self._change(claim, Held(assumed, parked, held.holders | {pod.uid}, held.gone - {pod.uid}))
        special = self.special(pod)
        if special is not None and kept is not None and special.allocation is None:
            self._change(special, special.held._replace(assumed=kept))
        lacking = self.lacking(claims)
        wanted = self.special_shape(pod, row) if special is not None and special.allocation is None else None
        if special is not None and special.object is None and wanted is not None:
            lacking.append(ClaimState(special.key, shape=wanted[0]))
        if not lacking or pod.bound:
            return
        try:
            found = self._search(lacking, row, self.in_use)
        except (DeviceError, NodeError):
            return
        for claim, chosen in zip(lacking, found or (), strict=False):
            assert claim.shape is not None
            given = write_allocation(claim.key, claim.shape, chosen, self._nodes.names[row], self.classes)
            owned = special if special is not None and claim.key == special.key else claim
            self._change(owned, owned.held._replace(assumed=given))

    def release(self, pod: PodRecord) -> None:
        """The pod is taken off its row."""
        trial = self._undo.in_trial
        for claim in self.of(pod):
            held = claim.held
            if pod.uid not in held.holders:
                continue
            holders = held.holders - {pod.uid}
            assumed, parked = held.assumed, held.parked
            if not holders and assumed is not None:
                assumed, parked = None, assumed if trial else None
            gone = held.gone | {pod.uid} if trial else held.gone
            self._change(claim, Held(assumed, parked, holders, gone))

    def users(self, key: str) -> list[PodRecord]:
        """Known pods that name a claim, by name."""
        found = self.claims.get(key)
        return sorted(found.users.values(), key=lambda pod: pod.key) if found is not None else []

    def lists(self, key: str, uid: str) -> bool:
        """Return whether the API has the claim allocated and the pod as a consumer of it."""
        found = self.claims.get(key)
        return found is not None and found.stated is not None and uid in found.consumers

    def lingering(self, pod: PodRecord) -> list[str]:
        """Claims that keep their devices when the pod goes until the API has taken the pod off them."""
        return [key for key in pod.claim_keys if self.lists(key, pod.uid)]

    def sharing(self, pod: PodRecord, one: PodClaim) -> GroupState | None:
        """Return the PodGroup that owns the claim of the pod's entry (KEP-5729), None: the pod's own."""
        group = self._groups.get(pod.group) if pod.group is not None else None
        if group is None or group.spec is None or one.reference not in group.spec.claims:
            return None
        return group

    def reserver(self, pod: PodRecord, claim: ClaimState) -> GroupState | None:
        """The PodGroup a claim is reserved for on behalf of the pod, None: it is reserved for the pod."""
        if pod.group is None:
            return None
        entries = (
            item for item in pod.claims if item.claim is not None and f"{pod.namespace}/{item.claim}" == claim.key
        )
        return next((group for item in entries if (group := self.sharing(pod, item)) is not None), None)

    @staticmethod
    def lacking(claims: Iterable[ClaimState]) -> list[ClaimState]:
        """Return those that have nothing yet and could get something."""
        return [c for c in claims if c.allocation is None and c.object is not None and c.shape is not None]

    def _change(self, claim: ClaimState, held: Held) -> None:
        before, was = claim.held, claim.allocation
        claim.held = held
        claim.allocation = claim.in_view()
        for allocation in (was,) if claim.allocation is was else (was, claim.allocation):
            if allocation is None:
                continue
            homes = self._homes(allocation)
            self._elsewhere += EVERYWHERE in homes
            self._log.entries += [row for row in homes if row != EVERYWHERE]
            if claim.allocation is not was:
                self.in_use.count(allocation, -1 if allocation is was else 1)
                self._touched.entries += homes
        self._undo.record(self._change, claim, before)

    def _homes(self, allocation: Allocation) -> list[int]:
        """Return the row that each device of an allocation belongs to, if there is one; EVERYWHERE if several."""
        index, rows, found = self.index, self._nodes.row_of, []
        for grant in allocation.grants:
            home = index.home(grant.device[:2])
            row = EVERYWHERE if home is None else rows.get(home)
            if row is not None:
                found.append(row)
        return found

    def _free(self, allocation: Allocation) -> bool:
        """Return whether no claim took the whole devices of an allocation since it was given up."""
        return not any(grant.device in self.in_use.whole for grant in allocation.grants if not grant.admin)

    # -- extended resources -------------------------------------------------------------------------------------------

    def served_anew(self) -> bool:
        """Work out which resources the classes serve; returns whether that has changed."""
        served = served_by(self.classes.values()) if self.serves_extended else {}
        if served == self.served:
            return False
        self.served = served
        self._special_shapes.clear()
        return True

    def with_extended(self, pod: PodRecord, claims: tuple[PodClaim, ...]) -> tuple[PodClaim, ...]:
        """Claims of a pod with one for what it asks of device classes as an extended resource, if it does."""
        if not pod.signature.extended:
            return claims
        plain = tuple(claim for claim in claims if not claim.extended)
        made = self._special.get(pod.uid)
        if made is None and not any(
            name in self.served for ask in pod.signature.extended for name, _, _ in ask.amounts
        ):
            return plain
        name = made if made is not None else f"{SPECIAL} of {pod.name}"
        return (*plain, PodClaim(SPECIAL, name, generated=False, made=True, extended=True))

    def special(self, pod: PodRecord) -> ClaimState | None:
        """Return the claim for a known pod's extended resources; without `object` it is not made yet."""
        for claim in pod.claims:
            if claim.extended:
                return self.claims.get(f"{pod.namespace}/{claim.claim}")
        return None

    def special_shape(self, pod: PodRecord, row: int) -> tuple[ClaimShape, tuple[Mapped, ...]] | None:
        """Return what the claim asks for on a node, and for which containers; None where the node has all of it
        itself.
        """
        names = {name for ask in pod.signature.extended for name, _, _ in ask.amounts if name in self.served}
        return self.shape_for(pod, frozenset(name for name in names if self._nodes.by_devices(name)[row]))

    def shape_for(self, pod: PodRecord, wanted: frozenset[str]) -> tuple[ClaimShape, tuple[Mapped, ...]] | None:
        """Return the same for a node where device classes serve these resources."""
        if not wanted:
            return None
        key = (pod.signature.extended, wanted)
        result = self._special_shapes.get(key)
        if result is None:
            if len(self._special_shapes) >= _MOST_SHAPES:
                self._special_shapes.clear()
            requests, mapped = requests_of(pod.signature.extended, self.served, wanted)
            result = self._special_shapes[key] = (self._shapes.of({"requests": requests}), tuple(mapped))
        return result

    # -- taints -------------------------------------------------------------------------------------------------------

    def evicting(self, allocation: Allocation) -> bool:
        """Return whether a device of the allocation has a taint NoExecute that its request does not tolerate."""
        rules = [rule for rule in self.rules.values() if rule.spec.taint.effect == NO_EXECUTE]
        if self._executing is None:
            self._executing = self._tainted()
        if not rules and not self._executing:
            return False
        for grant in allocation.grants:
            taints = [*self._executing.get(grant.device, ()), *_of_rules(rules, grant.device)]
            if any(not tolerated(grant.tolerations, taint) for taint in taints):
                return True
        return False

    def _tainted(self) -> dict[DeviceId, tuple[EffectiveTaint, ...]]:
        newest: dict[PoolId, int] = {}
        for item in self._read.values():
            newest[item.pool] = max(newest.get(item.pool, item.generation), item.generation)
        result = {}
        for item in self._read.values():
            for device in item.devices if item.generation == newest[item.pool] else ():
                taints = tuple(taint for taint in device.taints if taint.effect == NO_EXECUTE)
                if taints:
                    result[device.id] = taints
        return result

    def _taint(self, before: DeviceTaintRule | None, after: DeviceTaintRule | None) -> None:
        """A rule came, changed or went: read the slices again in which it selects devices."""
        specs = [rule.spec for rule in (before, after) if rule is not None]
        if len(specs) == 2 and specs[0] == specs[1]:
            return
        for item in self.slices.values():
            pool = (item.spec.driver, item.spec.pool.name)
            if any(spec.selects(*pool) for spec in specs):
                self._read_slice(item)
        self._version += 1

    # -- what can be had where ----------------------------------------------------------------------------------------

    @property
    def index(self) -> SliceIndex:
        """All slices by what they are for."""
        if self._index is None:
            self._index = SliceIndex(self._read.values())
        return self._index

    @property
    def stamp(self) -> tuple[int, int]:
        """Equal as long as nothing about devices changes of which the log of changes of rows does not tell."""
        return self._version, self._elsewhere

    def pools(self, row: int) -> tuple[Pool, ...]:
        """Return the pools a node reaches."""
        nodes = self._nodes
        stamp = (self._version, nodes.version)
        if stamp != self._pools_stamp:
            self._pools.clear()
            self._pools_stamp = stamp
        result = self._pools.get(row)
        if result is None:
            result = self._pools[row] = self.index.pools(nodes.names[row], nodes.labels[row])
        return result

    def verdicts(self, claims: Sequence[ClaimState], rows: npt.NDArray[np.int64]) -> DeviceVerdicts:
        """Return where the claims can be allocated: the codes of `rows` are filled in. Raises DeviceError."""
        key = tuple(claim.shape.id for claim in claims if claim.shape is not None)
        view = self._view(key)
        for row in rows[view.codes[rows] == UNKNOWN].tolist():
            self._judge(view, claims, row)
        return view

    def reaches(self, claims: Sequence[ClaimState]) -> list[tuple[int, ...]]:
        """Return the sets of rows that can use the claims together if they are allocated on one node; each once.

        At most `MOST_REACHES` nodes are examined where devices reach farther than their node.  Raises DeviceError.
        """
        nodes = self._nodes
        alive = np.flatnonzero(nodes.alive[: len(nodes)])
        rows = alive[self.verdicts(claims, alive).codes[alive] == 0].tolist()
        if self.index.local:
            return [(row,) for row in rows]
        result: dict[tuple[int, ...], None] = {}
        for row in rows[:MOST_REACHES]:
            there = alive.tolist()
            for claim, chosen in zip(claims, self._search(claims, row, self.in_use) or (), strict=False):
                assert claim.shape is not None
                selector = write_allocation(claim.key, claim.shape, chosen, nodes.names[row], self.classes).selector
                if selector is not None:
                    there = [other for other in there if selector.matches(nodes.labels[other], nodes.names[other])]
            result[tuple(there)] = None
        return [there for there in result if there]

    def _view(self, key: tuple[int, ...]) -> DeviceVerdicts:
        view = self._verdicts.get(key)
        touched = view.changes.take(self._version) if view is not None else None
        if view is None or touched is None:
            if len(self._verdicts) >= _VIEWS:
                self._verdicts.clear()
            n = len(self._nodes)
            unknown = np.full(n, UNKNOWN, dtype=np.int8)
            changes = ChangeReader(self._touched, self._nodes)
            changes.take(self._version)
            view = DeviceVerdicts(unknown, unknown.copy(), np.zeros(n, dtype=np.int64), changes)
            self._verdicts[key] = view
        elif EVERYWHERE in touched:
            view.codes[:] = UNKNOWN
        elif touched:
            view.codes[touched] = UNKNOWN
        return view

    def _judge(self, view: DeviceVerdicts, claims: Sequence[ClaimState], row: int) -> None:
        view.faults.pop(row, None)
        steps = MOST_STEPS if view.given_up < MOST_GIVEN_UP else FEWER_STEPS
        try:
            found = self._search(claims, row, self.in_use, steps)
        except NodeError as fault:
            found = None
            view.faults[row] = str(fault)
            if isinstance(fault, GaveUpError):
                view.given_up += 1
                view.codes[row] = 2
                return
        if found is not None:
            view.codes[row] = 0
            view.scores[row] = sum(preference(c.shape, got) for c, got in zip(claims, found, strict=True) if c.shape)
            return
        if view.potential[row] == UNKNOWN:
            try:
                view.potential[row] = 2 if self._search(claims, row, _EMPTY) is None else 1
            except NodeError:
                view.potential[row] = 2
        view.codes[row] = view.potential[row]

    def _search(
        self, claims: Sequence[ClaimState], row: int, in_use: DevicesInUse, steps: int = MOST_STEPS
    ) -> list[list[Chosen]] | None:
        nodes = self._nodes
        pending = [PendingClaim(claim.key, claim.shape) for claim in claims if claim.shape is not None]
        pools = self.pools(row)
        return allocate(pending, nodes.names[row], nodes.labels[row], pools, in_use, self.classes, self.matcher, steps)

    def trim(self) -> None:
        """Keep the log of changes short; called when nothing is going on."""
        self._touched.cut(_LOG)

    # -- checks -------------------------------------------------------------------------------------------------------

    def digest(self) -> object:
        """Everything a plugin can read of claims, in a fixed order."""
        return [
            (
                key,
                [(g.option, g.device, g.share) for g in claim.allocation.grants] if claim.allocation else None,
                sorted(claim.held.holders),
                sorted(claim.held.gone),
            )
            for key, claim in sorted(self.claims.items())
        ]

    def check(self) -> None:
        """Compare what is kept with what it is derived from; raises AssertionError on a difference."""
        fresh = DevicesInUse()
        for claim in self.claims.values():
            assert claim.allocation is claim.in_view(), f"{claim.key}: the allocation in view is stale"
            if claim.allocation is not None:
                fresh.count(claim.allocation, 1)
            holders = {uid for uid, pod in claim.users.items() if pod.row >= 0}
            assert claim.held.holders == holders, f"{claim.key} is held by {sorted(claim.held.holders)}"
            assert claim.held.gone == frozenset() or self._undo.in_trial, f"{claim.key} has holders gone"
            assert claim.held.assumed is None or claim.held.holders, f"{claim.key} is assumed for no pod"
        assert fresh == self.in_use, "the devices in use are off"
        if self._undo.in_trial:
            return
        for device, times in self.in_use.whole.items():
            stated = sum(
                any(g.device == device and not g.admin for g in c.stated.grants)
                for c in self.claims.values()
                if c.stated
            )
            assert times == 1 or stated > 1, f"device {'/'.join(device)} is allocated {times} times"

    # -- inside -------------------------------------------------------------------------------------------------------

    def _state(self, key: str) -> ClaimState:
        result = self.claims.get(key)
        if result is None:
            result = self.claims[key] = ClaimState(key)
        return result

    def _set_claim(self, item: ResourceClaim) -> ResourceClaim | None:
        meta, status = item.metadata, item.status
        state = self._state(f"{meta.namespace or 'default'}/{meta.name}")
        before = state.object
        if before == item:
            return before
        owner = owner_of(item)
        if owner is not None:
            self._special[owner] = meta.name
        state.object = item
        state.fault = ""
        state.shape = state.stated = None
        try:
            state.shape = self._shapes.of(item.spec.devices)
            if status.allocation is not None:
                state.stated = read_allocation(status.allocation)
        except (ValueError, TypeError, AttributeError) as error:
            state.fault = f"resource claim {state.key}: {error}"
            state.shape = None
        kinds = {consumer.resource for consumer in status.reserved_for}
        state.consumers = frozenset(one.uid for one in status.reserved_for if one.resource == "pods")
        state.groups = frozenset(one.uid for one in status.reserved_for if one.resource == "podgroups")
        state.pods_only = kinds <= {"pods"}
        state.strangers = not kinds <= {"pods", "podgroups"}
        replaced = before is not None and before.metadata.uid != meta.uid
        keep = None if state.stated is not None or replaced else state.held.assumed
        self._change(state, state.held._replace(assumed=keep))
        return before

    def _remove_claim(self, key: str) -> ResourceClaim | None:
        state = self.claims.get(key)
        if state is None or state.object is None:
            return None
        before = state.object
        owner = owner_of(before)
        if owner is not None and self._special.get(owner) == before.metadata.name:
            del self._special[owner]
        state.object = state.shape = state.stated = None
        state.fault, state.consumers, state.groups = "", frozenset(), frozenset()
        state.pods_only, state.strangers = True, False
        self._change(state, state.held._replace(assumed=None))
        self._forget_if_unused(state)
        return before

    def _forget_if_unused(self, state: ClaimState) -> None:
        if state.object is None and not state.users:
            self.claims.pop(state.key, None)

    def _read_slice(self, item: ResourceSlice) -> None:
        self._index = self._executing = None
        try:
            self._read[item.metadata.name] = read_slice(item, self.rules.values())
        except (ValueError, TypeError, AttributeError):
            # Without this slice its pool is incomplete: nothing is allocated from what cannot be understood.
            self._read.pop(item.metadata.name, None)


def _of_rules(rules: Iterable[DeviceTaintRule], device: DeviceId) -> list[EffectiveTaint]:
    """Taints of a device by rule; there may be none of it in the slices."""
    return [taint_of(rule) for rule in rules if rule.spec.selects(*device)]
