"""The devices in the cluster cache: claims, slices and classes, and the devices of each pod.

Terms: a claim's allocation is *stated* by the API or *assumed* by this scheduler; a *holder* is a placed pod that uses
the claim. Placing a pod allocates its unallocated claims, and removing it releases them again (`ClusterState.place`,
`displace`). In a trial the members of a gang therefore see each other's devices.

Rules:
- An assumed allocation lasts as long as the claim has a holder; a stated allocation replaces it.
- A stated allocation outlives its holders and ends with the API's. In a trial it counts as released once the trial
  removed every pod among the API's consumers, as the claim controller would do (KEP-5690). A consumer that is not a
  pod keeps it.
- A claim of a PodGroup is shared by its pods and reserved for the group until the group is deleted (KEP-5729).
- A pod restored in a trial gets its devices back; a stated allocation returns even if another pod uses the devices.

Invariants: `in_use` is the sum of the allocations of all claims, also in trials. Every change of a claim's holders or
assumed allocation is one undoable step of the trial.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from kube_rules.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from reprieve.cluster.changes import ChangeLog, ChangeReader
from reprieve.cluster.claim_states import AssumedClaim, ClaimState, DeviceVerdicts
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
    ChosenDevice,
    ClaimShape,
    Shapes,
    preference,
    read_allocation,
    tolerated,
    write_allocation,
)
from reprieve.cluster.extended_resources import ResourceMapping, owner_of, requests_of, served_by
from reprieve.cluster.groups import GroupState
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pods import PodClaim, PodRecord
from reprieve.cluster.undo import UndoLog

DeviceObject = ResourceClaim | ResourceSlice | DeviceClass | DeviceTaintRule
DEVICE_KINDS = (ResourceClaim, ResourceSlice, DeviceClass, DeviceTaintRule)
NO_EXECUTE = "NoExecute"
EVERYWHERE = -1
"""In the change log: any row may be affected."""
UNKNOWN = -1
MOST_REACHES = 256
SPECIAL = "<extended-resources>"
"""The name of a claim that is not created yet, as in kube-scheduler; no real claim can have it."""
_MOST_SHAPES = 1024
_LOG = 65536
_VIEWS = 256
_EMPTY = DevicesInUse()


class DeviceBook:
    """See the module docstring."""

    def __init__(
        self, nodes: NodeColumns, groups: Mapping[str, GroupState], undo: UndoLog, log: ChangeLog[int]
    ) -> None:
        """Create an empty book. `log`: the change log of rows, which also records changes of claims."""
        self._nodes = nodes
        self._groups = groups
        self._undo = undo
        self._log = log
        self.classes: dict[str, DeviceClass] = {}
        self.slices: dict[str, ResourceSlice] = {}
        self.rules: dict[str, DeviceTaintRule] = {}
        """Rules that taint devices; the parsed slices already include their taints."""
        self.served: dict[str, str] = {}
        """Extended resource -> the class that serves it (devices.md 4.1)."""
        self.serves_extended = True
        """False: no class serves extended resources (gate DRAExtendedResource)."""
        self._special: dict[str, str] = {}
        """UID of a pod -> name of the claim created for its extended resources."""
        self._special_shapes: dict[tuple[object, ...], tuple[ClaimShape, tuple[ResourceMapping, ...]]] = {}
        self.claims: dict[str, ClaimState] = {}
        self.in_use = DevicesInUse()
        self.matcher = DeviceMatcher()
        self._shapes = Shapes()
        self._read: dict[str, Slice] = {}
        self._index: SliceIndex | None = None
        self._version = 0
        """Increases when slices, classes or rules change."""
        self._elsewhere = 0
        """Increases when a claim with devices that several nodes reach changes."""
        self._executing: dict[DeviceId, tuple[EffectiveTaint, ...]] | None = None
        """Devices with NoExecute taints, computed on first use."""
        self._pools: dict[int, tuple[Pool, ...]] = {}
        self._pools_stamp: tuple[int, tuple[int, int]] | None = None
        self._touched = ChangeLog[int]()
        """Rows on which devices were taken or released."""
        self._verdicts: dict[tuple[int, ...], DeviceVerdicts] = {}

    # -- API objects --------------------------------------------------------------------------------------------------

    def set(self, item: DeviceObject) -> DeviceObject | None:
        """Add or update an object; return its previous version."""
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
        """Remove a deleted object; return its last version."""
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
        """Register a pod as a user of its claims."""
        for key in pod.claim_keys:
            self._state(key).users[pod.uid] = pod

    def leave(self, pod: PodRecord) -> None:
        """Unregister a deleted pod, which must not hold a claim."""
        for key in pod.claim_keys:
            state = self._state(key)
            state.users.pop(pod.uid, None)
            self._forget_if_unused(state)

    # -- holders; undone by trials ------------------------------------------------------------------------------------

    def of(self, pod: PodRecord) -> list[ClaimState]:
        """Return the claims of a known pod, in its order, each once."""
        return [self.claims[key] for key in pod.claim_keys if key in self.claims]

    def hold(self, pod: PodRecord, row: int, kept: Allocation | None = None) -> None:
        """Make a placed pod a holder of its claims, and allocate the unallocated ones on the row if possible.

        A pod that the API reports as bound gets no allocation: its allocations are stated, or it has none. `kept`: the
        earlier allocation for its extended resources, which it retains.
        """
        claims = self.of(pod)
        for claim in claims:
            own = claim.assumptions
            back = pod.uid in own.gone and own.assumed is None and claim.stated is None
            assumed = own.parked if back and own.parked is not None and self._free(own.parked) else own.assumed
            parked = None if assumed is not own.assumed else own.parked
            self._change(claim, AssumedClaim(assumed, parked, own.holders | {pod.uid}, own.gone - {pod.uid}))
        special = self.special(pod)
        if special is not None and kept is not None and special.allocation is None:
            self._change(special, special.assumptions._replace(assumed=kept))
        lacking = self.lacking(claims)
        wanted = self.special_shape(pod, row) if special is not None and special.allocation is None else None
        if special is not None and special.object is None and wanted is not None:
            lacking.append(ClaimState(special.key, shape=wanted[0]))
        if not lacking or pod.bound:
            return
        try:
            solution = self._search(lacking, row, self.in_use)
        except (DeviceError, NodeError):
            return
        for claim, chosen in zip(lacking, solution or (), strict=False):
            assert claim.shape is not None
            allocation = write_allocation(claim.key, claim.shape, chosen, self._nodes.names[row], self.classes)
            owned = special if special is not None and claim.key == special.key else claim
            self._change(owned, owned.assumptions._replace(assumed=allocation))

    def release(self, pod: PodRecord) -> None:
        """Remove a displaced pod from the holders of its claims."""
        trial = self._undo.in_trial
        for claim in self.of(pod):
            assumptions = claim.assumptions
            if pod.uid not in assumptions.holders:
                continue
            holders = assumptions.holders - {pod.uid}
            assumed, parked = assumptions.assumed, assumptions.parked
            if not holders and assumed is not None:
                assumed, parked = None, assumed if trial else None
            gone = assumptions.gone | {pod.uid} if trial else assumptions.gone
            self._change(claim, AssumedClaim(assumed, parked, holders, gone))

    def users(self, key: str) -> list[PodRecord]:
        """Return the known pods that use a claim, by name."""
        state = self.claims.get(key)
        return sorted(state.users.values(), key=lambda pod: pod.key) if state is not None else []

    def lists(self, key: str, uid: str) -> bool:
        """Return whether the API has the claim allocated and lists the pod as a consumer."""
        state = self.claims.get(key)
        return state is not None and state.stated is not None and uid in state.consumers

    def lingering(self, pod: PodRecord) -> list[str]:
        """Return the claims that keep their devices after the pod's deletion until the API removes the pod."""
        return [key for key in pod.claim_keys if self.lists(key, pod.uid)]

    def sharing(self, pod: PodRecord, entry: PodClaim) -> GroupState | None:
        """Return the PodGroup that owns the claim of a pod's entry (KEP-5729); None: the pod owns it."""
        group = self._groups.get(pod.group) if pod.group is not None else None
        if group is None or group.spec is None or entry.reference not in group.spec.claims:
            return None
        return group

    def reserver(self, pod: PodRecord, claim: ClaimState) -> GroupState | None:
        """Return the PodGroup for which a claim of the pod is reserved; None: it is reserved for the pod."""
        if pod.group is None:
            return None
        entries = (
            item for item in pod.claims if item.claim is not None and f"{pod.namespace}/{item.claim}" == claim.key
        )
        return next((group for item in entries if (group := self.sharing(pod, item)) is not None), None)

    @staticmethod
    def lacking(claims: Iterable[ClaimState]) -> list[ClaimState]:
        """Return the unallocated claims that can be allocated."""
        return [c for c in claims if c.allocation is None and c.object is not None and c.shape is not None]

    def _change(self, claim: ClaimState, assumptions: AssumedClaim) -> None:
        before, was = claim.assumptions, claim.allocation
        claim.assumptions = assumptions
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
        """Return the row of each device of an allocation, if known; EVERYWHERE for devices of several nodes."""
        index, rows, homes = self.index, self._nodes.row_of, []
        for grant in allocation.grants:
            home = index.home(grant.device[:2])
            row = EVERYWHERE if home is None else rows.get(home)
            if row is not None:
                homes.append(row)
        return homes

    def _free(self, allocation: Allocation) -> bool:
        """Return whether no claim took the whole devices of an allocation since its release."""
        return not any(grant.device in self.in_use.whole for grant in allocation.grants if not grant.admin)

    # -- extended resources -------------------------------------------------------------------------------------------

    def served_anew(self) -> bool:
        """Recompute the resources that classes serve; return whether they changed."""
        served = served_by(self.classes.values()) if self.serves_extended else {}
        if served == self.served:
            return False
        self.served = served
        self._special_shapes.clear()
        return True

    def with_extended(self, pod: PodRecord, claims: tuple[PodClaim, ...]) -> tuple[PodClaim, ...]:
        """Return a pod's claims, with one for its extended resources that device classes serve, if any."""
        if not pod.signature.extended:
            return claims
        plain = tuple(claim for claim in claims if not claim.extended)
        claim_name = self._special.get(pod.uid)
        if claim_name is None and not any(
            name in self.served for ask in pod.signature.extended for name, _, _ in ask.amounts
        ):
            return plain
        name = claim_name if claim_name is not None else f"{SPECIAL} of {pod.name}"
        return (*plain, PodClaim(SPECIAL, name, generated=False, made=True, extended=True))

    def special(self, pod: PodRecord) -> ClaimState | None:
        """Return the claim for a known pod's extended resources; without `object` it is not created yet."""
        for claim in pod.claims:
            if claim.extended:
                return self.claims.get(f"{pod.namespace}/{claim.claim}")
        return None

    def special_shape(self, pod: PodRecord, row: int) -> tuple[ClaimShape, tuple[ResourceMapping, ...]] | None:
        """Return the special claim's shape and containers on a node; None if the node provides all resources."""
        names = {name for ask in pod.signature.extended for name, _, _ in ask.amounts if name in self.served}
        return self.shape_for(pod, frozenset(name for name in names if self._nodes.by_devices(name)[row]))

    def shape_for(
        self, pod: PodRecord, wanted: frozenset[str]
    ) -> tuple[ClaimShape, tuple[ResourceMapping, ...]] | None:
        """Return the shape and containers for a node on which device classes serve `wanted`."""
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
        """Return whether a device of the allocation has a NoExecute taint that its request does not tolerate."""
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
        """Read the slices again in which an added, changed or removed rule selects devices."""
        specs = [rule.spec for rule in (before, after) if rule is not None]
        if len(specs) == 2 and specs[0] == specs[1]:
            return
        for item in self.slices.values():
            pool = (item.spec.driver, item.spec.pool.name)
            if any(spec.selects(*pool) for spec in specs):
                self._read_slice(item)
        self._version += 1

    # -- feasible nodes -----------------------------------------------------------------------------------------------

    @property
    def index(self) -> SliceIndex:
        """Return the index of all slices."""
        if self._index is None:
            self._index = SliceIndex(self._read.values())
        return self._index

    @property
    def stamp(self) -> tuple[int, int]:
        """Return a value that changes with every change of devices that the change log of rows omits."""
        return self._version, self._elsewhere

    def pools(self, row: int) -> tuple[Pool, ...]:
        """Return the pools that a node reaches."""
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
        """Return where the claims can be allocated, with the codes of `rows` filled in. Raises DeviceError."""
        key = tuple(claim.shape.id for claim in claims if claim.shape is not None)
        view = self._view(key)
        for row in rows[view.codes[rows] == UNKNOWN].tolist():
            self._judge(view, claims, row)
        return view

    def reaches(self, claims: Sequence[ClaimState]) -> list[tuple[int, ...]]:
        """Return the distinct sets of rows that can use the claims if they are allocated on one node.

        If devices reach beyond their node, at most `MOST_REACHES` nodes are examined. Raises DeviceError.
        """
        nodes = self._nodes
        alive = np.flatnonzero(nodes.alive[: len(nodes)])
        rows = alive[self.verdicts(claims, alive).codes[alive] == 0].tolist()
        if self.index.local:
            return [(row,) for row in rows]
        result: dict[tuple[int, ...], None] = {}
        for row in rows[:MOST_REACHES]:
            usable = alive.tolist()
            for claim, chosen in zip(claims, self._search(claims, row, self.in_use) or (), strict=False):
                assert claim.shape is not None
                selector = write_allocation(claim.key, claim.shape, chosen, nodes.names[row], self.classes).selector
                if selector is not None:
                    usable = [r for r in usable if selector.matches(nodes.labels[r], nodes.names[r])]
            result[tuple(usable)] = None
        return [usable for usable in result if usable]

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
            solution = self._search(claims, row, self.in_use, steps)
        except NodeError as fault:
            solution = None
            view.faults[row] = str(fault)
            if isinstance(fault, GaveUpError):
                view.given_up += 1
                view.codes[row] = 2
                return
        if solution is not None:
            view.codes[row] = 0
            view.scores[row] = sum(
                preference(c.shape, result) for c, result in zip(claims, solution, strict=True) if c.shape
            )
            return
        if view.potential[row] == UNKNOWN:
            try:
                view.potential[row] = 2 if self._search(claims, row, _EMPTY) is None else 1
            except NodeError:
                view.potential[row] = 2
        view.codes[row] = view.potential[row]

    def _search(
        self, claims: Sequence[ClaimState], row: int, in_use: DevicesInUse, steps: int = MOST_STEPS
    ) -> list[list[ChosenDevice]] | None:
        nodes = self._nodes
        pending = [PendingClaim(claim.key, claim.shape) for claim in claims if claim.shape is not None]
        pools = self.pools(row)
        return allocate(pending, nodes.names[row], nodes.labels[row], pools, in_use, self.classes, self.matcher, steps)

    def trim(self) -> None:
        """Shorten the change log; call it only while no cycle or trial is active."""
        self._touched.cut(_LOG)

    # -- checks -------------------------------------------------------------------------------------------------------

    def digest(self) -> object:
        """Return all claim data that a plugin can read, in a fixed order."""
        return [
            (
                key,
                [(g.option, g.device, g.share) for g in claim.allocation.grants] if claim.allocation else None,
                sorted(claim.assumptions.holders),
                sorted(claim.assumptions.gone),
            )
            for key, claim in sorted(self.claims.items())
        ]

    def check(self) -> None:
        """Compare the caches with their sources. Raises AssertionError on a difference."""
        fresh = DevicesInUse()
        for claim in self.claims.values():
            assert claim.allocation is claim.in_view(), f"{claim.key}: the allocation in view is stale"
            if claim.allocation is not None:
                fresh.count(claim.allocation, 1)
            holders = {uid for uid, pod in claim.users.items() if pod.row >= 0}
            assert claim.assumptions.holders == holders, f"{claim.key} is held by {sorted(claim.assumptions.holders)}"
            assert claim.assumptions.gone == frozenset() or self._undo.in_trial, f"{claim.key} has holders gone"
            assert claim.assumptions.assumed is None or claim.assumptions.holders, f"{claim.key} is assumed for no pod"
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
        state.consumers = frozenset(ref.uid for ref in status.reserved_for if ref.resource == "pods")
        state.groups = frozenset(ref.uid for ref in status.reserved_for if ref.resource == "podgroups")
        state.pods_only = kinds <= {"pods"}
        state.strangers = not kinds <= {"pods", "podgroups"}
        replaced = before is not None and before.metadata.uid != meta.uid
        keep = None if state.stated is not None or replaced else state.assumptions.assumed
        self._change(state, state.assumptions._replace(assumed=keep))
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
        self._change(state, state.assumptions._replace(assumed=None))
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
            # Without this slice its pool is incomplete, so an invalid slice provides no devices.
            self._read.pop(item.metadata.name, None)


def _of_rules(rules: Iterable[DeviceTaintRule], device: DeviceId) -> list[EffectiveTaint]:
    """Return the taints of a device by rule; the device may be missing in the slices."""
    return [taint_of(rule) for rule in rules if rule.spec.selects(*device)]
