"""The placements and nominations of pods, and trial views of them.

Decisions never copy the cluster cache: a *trial* changes it in place, keeps an undo log, and restores it
(architecture.md: "undo instead of copy").

Deciding never copies the cluster cache: a *trial* changes it in place, keeps an undo log, and puts everything back
(architecture.md: "undo instead of copy").

    with cluster.trial():
        cluster.displace(victim)
        cluster.place(pod, row)
        ...
    # everything is as it was

Amounts are integers and undo applies the inverse of every step in reverse order, so the view after undo equals the
view before, bit for bit (scheduling.md 7). Trials nest. Caches that depend on a row read its changes from the *touch
log*, an append-only list of rows, starting at the position of their last read.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from kube_rules.meta import NAMESPACE_LABEL
from reprieve.cluster.changes import ChangeLog, ChangeReader, GangReader
from reprieve.cluster.devices import DeviceBook
from reprieve.cluster.groups import GroupState
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pod_affinity_index import PodAffinityIndex
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.signature import PodSpecSignature, SignatureTable
from reprieve.cluster.undo import UndoLog
from reprieve.cluster.volumes import VolumeObjects

_FEW_KINDS: Final = 4
"""The maximum number of pod kinds that are counted by kind, which is faster than summing pod by pod."""


class Placements:
    """See the module docstring. A placement changes nodes, counts of groups, devices, volumes, affinity."""

    def __init__(self) -> None:
        self.nodes = NodeColumns()
        self.resources = self.nodes.resource_table
        self.signatures = SignatureTable(self.resources)
        self.pods: dict[str, PodRecord] = {}
        """Every pod that has not ended, by UID."""
        self.groups: dict[str, GroupState] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels of known namespaces."""
        self.touched = ChangeLog[int]()
        self.resized_gangs = ChangeLog[str]()
        self.volumes = VolumeObjects()
        self._undo = UndoLog()
        self.devices = DeviceBook(self.nodes, self.groups, self._undo, self.touched)
        self.pod_affinity = PodAffinityIndex(self.nodes, self.pods, self.namespace_labels)
        self._holder: int | None = None
        """The thread that runs a scheduling cycle, if any."""
        self._overlaid = False

    def changes(self, *, of_nodes: bool = True, lasting: bool = False) -> ChangeReader:
        """Return a reader of changed rows, at its beginning; without `of_nodes` only pods count as changes.

        `lasting`: the reader skips completed trials.
        """
        return ChangeReader(self.touched, self.nodes if of_nodes else None, lasting=lasting)

    def gang_changes(self, *, lasting: bool = False) -> GangReader:
        """Return a reader of the groups that gain or lose running pods; `lasting` as in `changes`."""
        return GangReader(self.resized_gangs, lasting=lasting)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return a namespace's labels, or for an unknown one the name label that the API server sets."""
        labels = self.namespaces.get(name)
        return labels if labels is not None else {NAMESPACE_LABEL: name}

    def place(self, pod: PodRecord, row: int) -> None:
        """Put a pod on a node, assumed or restored in a trial, and allocate its unallocated device claims."""
        self._put(pod, row)
        if pod.claims:
            self.devices.hold(pod, row)

    def _put(self, pod: PodRecord, row: int) -> None:
        nodes = self.nodes
        pod.row = row
        pod.signature.add_to(nodes.used, row, 1)
        nodes.pods[row][pod.uid] = pod
        if pod.signature.ports:
            self._count_ports(pod, row, 1)
        if pod.group is not None and not pod.terminating:
            self.groups[pod.group].scheduled += 1
            self.resized_gangs.entries.append(pod.group)
        if pod.volumes is not None:
            self.volumes.placed(pod, row, tentative=self._chooses)
        if self.pod_affinity.active:
            self.pod_affinity.moved(pod, row, 1)
        if pod.nominated >= 0:
            nodes.nominated_amounts.moved(pod)
        self.touched.entries.append(row)
        self._undo.record(self._take, pod)

    def displace(self, pod: PodRecord) -> None:
        """Remove a pod from its node; it stays known and becomes pending."""
        if pod.claims:
            self.devices.release(pod)
        self._take(pod)

    def lift(self, pod: PodRecord) -> None:
        """Remove a pod from its node in a trial, without releasing its devices."""
        self._take(pod)

    def _take(self, pod: PodRecord) -> None:
        row = pod.row
        nodes = self.nodes
        pod.row = NO_ROW
        pod.signature.add_to(nodes.used, row, -1)
        del nodes.pods[row][pod.uid]
        if pod.signature.ports:
            self._count_ports(pod, row, -1)
        if pod.group is not None and not pod.terminating:
            self.groups[pod.group].scheduled -= 1
            self.resized_gangs.entries.append(pod.group)
        if pod.volumes is not None:
            self._leave_volumes(pod, row)
        if self.pod_affinity.active:
            self.pod_affinity.moved(pod, row, -1)
        if pod.nominated >= 0:
            nodes.nominated_amounts.moved(pod)
        self.touched.entries.append(row)
        self._undo.record(self._put, pod, row)

    def displace_all(self, pods: Sequence[PodRecord]) -> None:
        """Displace many pods, with a few array operations for the amounts."""
        for pod in pods:
            if pod.claims:
                self.devices.release(pod)
        self._take_all(pods)

    def _take_all(self, pods: Sequence[PodRecord]) -> None:
        rows = [pod.row for pod in pods]
        self._shift(pods, rows, -1)
        pods_by_row = self.nodes.pods
        for pod, row in zip(pods, rows, strict=True):
            pod.row = NO_ROW
            del pods_by_row[row][pod.uid]
            if pod.nominated >= 0:
                self.nodes.nominated_amounts.moved(pod)
        self._undo.record(self._put_all, pods, rows)

    def place_all(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """Place many pods, with a few array operations for the amounts."""
        self._put_all(pods, rows)
        for pod, row in zip(pods, rows, strict=True):
            if pod.claims:
                self.devices.hold(pod, row)

    def _put_all(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        pods_by_row = self.nodes.pods
        for pod, row in zip(pods, rows, strict=True):
            pod.row = row
            pods_by_row[row][pod.uid] = pod
            if pod.nominated >= 0:
                self.nodes.nominated_amounts.moved(pod)
        self._shift(pods, rows, 1)
        self._undo.record(self._take_all, pods)

    def nominate(self, pod: PodRecord, row: int) -> None:
        """Nominate a pod to the node on which capacity is being freed for it."""
        if pod.nominated == row:
            return
        self.clear_nomination(pod)
        pod.nominated = row
        self.nodes.nominated.setdefault(row, {})[pod.uid] = pod
        self.nodes.nominations += 1
        self.nodes.nominated_amounts.add(pod)
        self.touched.entries.append(row)
        self._undo.record(self.clear_nomination, pod)

    def clear_nomination(self, pod: PodRecord) -> None:
        """Clear a pod's nomination, if any."""
        row = pod.nominated
        if row < 0:
            return
        pod.nominated = NO_ROW
        nominated = self.nodes.nominated[row]
        self.nodes.nominations += 1
        del nominated[pod.uid]
        self.nodes.nominated_amounts.drop(pod)
        if not nominated:
            del self.nodes.nominated[row]
        self.touched.entries.append(row)
        self._undo.record(self.nominate, pod, row)
        if not self.in_trial:
            self.nodes.release(row)

    @property
    def held_by_this_thread(self) -> bool:
        """Return whether this thread runs the cycle; a plugin call that timed out may still run in another."""
        return self._holder == get_ident()

    @held_by_this_thread.setter
    def held_by_this_thread(self, exclusive: bool) -> None:
        self._holder = get_ident() if exclusive else None

    def _refuse_other_threads(self) -> None:
        if self._holder is not None and self._holder != get_ident():
            raise RuntimeError("the cluster cache may be changed only by the thread that runs the cycle")

    @contextmanager
    def trial(self) -> Iterator[Self]:
        """Open a trial: on exit, every place, displace, nominate and clear since then is undone. Trials nest."""
        self._refuse_other_threads()
        logs = self.touched, self.resized_gangs
        for log in logs:
            log.trial_begins()
        try:
            with self._undo.scope():
                yield self
        finally:
            for log in logs:
                log.trial_ends()
            if not self.in_trial:
                self.trim()

    @property
    def undo_mark(self) -> int:
        """Return the current position in the trial, for `roll_back`."""
        return self._undo.mark

    def roll_back(self, mark: int) -> None:
        """Undo the changes of the current trial since the mark; the trial continues."""
        self._undo.rewind(mark)

    def trim(self) -> None:
        """Shorten the touch log; call it only while no cycle or trial is active."""
        self.touched.cut(8 * len(self.nodes) + 4096)
        self.resized_gangs.cut(8 * len(self.groups) + 4096)
        self.devices.trim()

    @contextmanager
    def assume_silently(self, placed: Sequence[tuple[PodRecord, int]]) -> Iterator[None]:
        """Assume pods without a row on the given rows, without recording it in the touch log.

        The caller may only read these rows.
        """
        self._refuse_other_threads()
        position = len(self.touched.entries)
        before, self._overlaid = self._overlaid, True
        try:
            with self._undo.scope():
                for pod, row in placed:
                    self.place(pod, row)
                yield
        finally:
            self._overlaid = before
            self.touched.forget_from(position)

    @contextmanager
    def assume_amounts(self, rows: npt.NDArray[np.int64], amounts: npt.NDArray[np.int64]) -> Iterator[None]:
        """Assume additional use on the rows (each once), `int64[columns, rows]`, and nothing else.

        A much faster `assume_silently` for callers that only read the used amounts.
        """
        self._refuse_other_threads()
        self.nodes.used[:, rows] += amounts
        try:
            yield
        finally:
            self.nodes.used[:, rows] -= amounts

    @property
    def overlaid(self) -> bool:
        """Return whether there are assumed pods that the touch log does not record."""
        return self._overlaid

    @property
    def in_trial(self) -> bool:
        """Return whether a trial is open."""
        return self._undo.in_trial

    # -- inside ------------------------------------------------------------------------------------------------------

    def _shift(self, pods: Sequence[PodRecord], rows: Sequence[int], by: int) -> None:
        """Add (`by` 1) or subtract (-1) the pods' requests on their rows, and update the counts of their groups."""
        numbers: dict[PodSpecSignature, int] = {}
        kinds = []
        for pod, row in zip(pods, rows, strict=True):
            kinds.append(numbers.setdefault(pod.signature, len(numbers)))
            if pod.signature.ports:
                self._count_ports(pod, row, by)
            if pod.group is not None and not pod.terminating:
                self.groups[pod.group].scheduled += by
                self.resized_gangs.entries.append(pod.group)
            if pod.volumes is not None:
                if by > 0:
                    self.volumes.placed(pod, row, tentative=self._chooses)
                else:
                    self._leave_volumes(pod, row)
        if self.pod_affinity.active:
            for pod, row in zip(pods, rows, strict=True):
                self.pod_affinity.moved(pod, row, by)
        pod_rows = np.array(rows, dtype=np.int64)
        if len(numbers) <= _FEW_KINDS:
            n, pod_kinds = len(self.nodes), np.array(kinds, dtype=np.int64)
            for signature, number in numbers.items():
                counts = np.bincount(pod_rows[pod_kinds == number], minlength=n) * by
                for column in np.flatnonzero(signature.delta):
                    self.nodes.used[column, :n] += counts * signature.delta[column]
        else:
            deltas = np.array([signature.delta for signature in numbers])
            order = np.argsort(pod_rows, kind="stable")
            distinct, starts = np.unique(pod_rows[order], return_index=True)
            sums = np.add.reduceat(deltas[np.array(kinds, dtype=np.int64)[order]], starts, axis=0)
            self.nodes.used[:, distinct] += by * sums.T
        self.touched.entries.extend(rows)

    @property
    def _chooses(self) -> bool:
        """Return whether a pod placed now still has volumes to choose: it is not restored to its old row."""
        return self.in_trial and not self._overlaid and not self._undo.rewinding

    def _leave_volumes(self, pod: PodRecord, row: int) -> None:
        unsettled = self.volumes.displaced(pod, row)
        if unsettled is not None:
            self._undo.record(self.volumes.unsettle, unsettled)

    def _count_ports(self, pod: PodRecord, row: int, by: int) -> None:
        used = self.nodes.ports[row]
        if used is None:
            used = self.nodes.ports[row] = {}
        for port in pod.signature.ports:
            left = used.get(port, 0) + by
            if left:
                used[port] = left
            else:
                del used[port]

    def _touch(self, row: int) -> None:
        self.touched.entries.append(row)
        self.trim()

    def _outside_trials(self) -> None:
        if self.in_trial:
            raise RuntimeError("the cluster's objects cannot change inside a trial")
