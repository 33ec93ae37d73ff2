"""Where pods run and are nominated, and trial views of that.

Deciding never copies the cluster cache: a *trial* changes it in place, keeps an undo log, and puts everything back
(architecture.md: "undo instead of copy").

    with cluster.trial():
        cluster.displace(victim)
        cluster.place(pod, row)
        ...
    # everything is as it was

Amounts are integers and undo applies the inverse of every step in reverse, so the view after undo equals the view
before, bit for bit (scheduling.md 7).  Trials nest.  Whatever depends on a row learns what changed from the *touch
log*: an append-only list of rows, read from the position where the reader last stood.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from reprieve.cluster.changes import ChangeLog, ChangeReader, GangReader
from reprieve.cluster.devices import DeviceBook
from reprieve.cluster.groups import GroupState
from reprieve.cluster.nodes import NodeColumns
from reprieve.cluster.pod_affinity_index import NAMESPACE_NAME, PodAffinityIndex
from reprieve.cluster.pods import NO_ROW, PodRecord
from reprieve.cluster.resources import ResourceTable
from reprieve.cluster.signature import PodSpecSignature, SignatureTable
from reprieve.cluster.undo import UndoLog
from reprieve.cluster.volumes import VolumeObjects

_FEW_KINDS: Final = 4
"""Up to so many kinds of pod are counted kind by kind, which is quicker than summing pod by pod."""


class Placements:
    """See the module docstring. What a placement changes: nodes, counts of groups, devices, volumes, affinity."""

    def __init__(self) -> None:
        self.resources = ResourceTable()
        self.signatures = SignatureTable(self.resources)
        self.nodes = NodeColumns(self.resources)
        self.pods: dict[str, PodRecord] = {}
        """Every pod that has not ended, by UID."""
        self.groups: dict[str, GroupState] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        """Labels of namespaces that are known."""
        self.touched = ChangeLog[int]()
        self.resized_gangs = ChangeLog[str]()
        self.volumes = VolumeObjects()
        self._undo = UndoLog()
        self.devices = DeviceBook(self.nodes, self.groups, self._undo, self.touched)
        self.pod_affinity = PodAffinityIndex(self.nodes, self.pods, self.namespace_labels)
        self._holder: int | None = None
        """The thread that runs a cycle, while one runs."""
        self._overlaid = False

    def changes(self, *, of_nodes: bool = True, lasting: bool = False) -> ChangeReader:
        """A reader of what changes on the rows, at its beginning; without `of_nodes` by the pods there alone.

        `lasting`: it gets nothing of trials that are over.
        """
        return ChangeReader(self.touched, self.nodes if of_nodes else None, lasting=lasting)

    def gang_changes(self, *, lasting: bool = False) -> GangReader:
        """Return a reader of the groups of which more pods run from now on, or fewer; `lasting` as in `changes`."""
        return GangReader(self.resized_gangs, lasting=lasting)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """Return a namespace's labels, with the one for its name that the API server gives to each; known or not."""
        found = self.namespaces.get(name)
        return found if found is not None else {NAMESPACE_NAME: name}

    def place(self, pod: PodRecord, row: int) -> None:
        """Put a pod on a node: assumed, or put back in a trial. Its device claims get what they lack."""
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
        """Take a pod off its node; it stays known and is pending again."""
        if pod.claims:
            self.devices.release(pod)
        self._take(pod)

    def lift(self, pod: PodRecord) -> None:
        """Take a pod off its node in a trial; its devices stay its own."""
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
        """`displace` for many pods, with the amounts in a few array operations."""
        for pod in pods:
            if pod.claims:
                self.devices.release(pod)
        self._take_all(pods)

    def _take_all(self, pods: Sequence[PodRecord]) -> None:
        rows = [pod.row for pod in pods]
        self._shift(pods, rows, -1)
        there = self.nodes.pods
        for pod, row in zip(pods, rows, strict=True):
            pod.row = NO_ROW
            del there[row][pod.uid]
            if pod.nominated >= 0:
                self.nodes.nominated_amounts.moved(pod)
        self._undo.record(self._put_all, pods, rows)

    def place_all(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        """`place` for many pods, with the amounts in a few array operations."""
        self._put_all(pods, rows)
        for pod, row in zip(pods, rows, strict=True):
            if pod.claims:
                self.devices.hold(pod, row)

    def _put_all(self, pods: Sequence[PodRecord], rows: Sequence[int]) -> None:
        there = self.nodes.pods
        for pod, row in zip(pods, rows, strict=True):
            pod.row = row
            there[row][pod.uid] = pod
            if pod.nominated >= 0:
                self.nodes.nominated_amounts.moved(pod)
        self._shift(pods, rows, 1)
        self._undo.record(self._take_all, pods)

    def nominate(self, pod: PodRecord, row: int) -> None:
        """Note that room on a node is being made for the pod."""
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
        """Take a nomination back; nothing happens if there is none."""
        row = pod.nominated
        if row < 0:
            return
        pod.nominated = NO_ROW
        there = self.nodes.nominated[row]
        self.nodes.nominations += 1
        del there[pod.uid]
        self.nodes.nominated_amounts.drop(pod)
        if not there:
            del self.nodes.nominated[row]
        self.touched.entries.append(row)
        self._undo.record(self.nominate, pod, row)
        if not self.in_trial:
            self.nodes.release(row)

    @property
    def held_by_this_thread(self) -> bool:
        """While a cycle runs, trials are its thread's alone: a plugin's call that was given up may still be running."""
        return self._holder == get_ident()

    @held_by_this_thread.setter
    def held_by_this_thread(self, held: bool) -> None:
        self._holder = get_ident() if held else None

    def _refuse_strangers(self) -> None:
        if self._holder is not None and self._holder != get_ident():
            raise RuntimeError("the cluster cache may be changed only by the thread that runs the cycle")

    @contextmanager
    def trial(self) -> Iterator[Self]:
        """A view to try things in: on leaving, every place/displace/nominate/clear since is undone. Nests."""
        self._refuse_strangers()
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
        """Return where the present trial stands: what `roll_back` goes back to."""
        return self._undo.mark

    def roll_back(self, mark: int) -> None:
        """Undo what was done in the present trial since the mark was taken in it; the trial continues."""
        self._undo.rewind(mark)

    def trim(self) -> None:
        """Keep the touch log short; called when nothing is going on, so that it never grows with time."""
        self.touched.cut(8 * len(self.nodes) + 4096)
        self.resized_gangs.cut(8 * len(self.groups) + 4096)
        self.devices.trim()

    @contextmanager
    def assume_silently(self, placed: Sequence[tuple[PodRecord, int]]) -> Iterator[None]:
        """Pretend that pods without a row run on the given rows, without telling the touch log.

        For looking at exactly these rows and nothing else.
        """
        self._refuse_strangers()
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
        """Pretend that so much more is used on the rows (each once), `int64[columns, rows]`, and nothing else.

        `assume_silently` for callers that read nothing of a row but what is used there, which is much quicker.
        """
        self._refuse_strangers()
        self.nodes.used[:, rows] += amounts
        try:
            yield
        finally:
            self.nodes.used[:, rows] -= amounts

    @property
    def overlaid(self) -> bool:
        """Return whether pods are pretended to run of which the touch log does not tell."""
        return self._overlaid

    @property
    def in_trial(self) -> bool:
        """Return whether a trial is open."""
        return self._undo.in_trial

    # -- inside ------------------------------------------------------------------------------------------------------

    def _shift(self, pods: Sequence[PodRecord], rows: Sequence[int], by: int) -> None:
        """Add (`by` 1) or take away (-1) what pods use on their rows, and count them for their groups."""
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
        there = np.array(rows, dtype=np.int64)
        if len(numbers) <= _FEW_KINDS:
            n, which = len(self.nodes), np.array(kinds, dtype=np.int64)
            for signature, number in numbers.items():
                counts = np.bincount(there[which == number], minlength=n) * by
                for column in np.flatnonzero(signature.delta):
                    self.nodes.used[column, :n] += counts * signature.delta[column]
        else:
            deltas = np.array([signature.delta for signature in numbers])
            order = np.argsort(there, kind="stable")
            distinct, starts = np.unique(there[order], return_index=True)
            sums = np.add.reduceat(deltas[np.array(kinds, dtype=np.int64)[order]], starts, axis=0)
            self.nodes.used[:, distinct] += by * sums.T
        self.touched.entries.extend(rows)

    @property
    def _chooses(self) -> bool:
        """Return whether a pod that is placed now has volumes yet to choose: not one that is put back where it was."""
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
