"""The chain every write passes: steps that may change an object, then steps that may only refuse it.

Steps are synchronous on purpose: between reading the newest state and staging the write nothing else runs,
so admission sees exactly what the write builds on. A step refuses by raising ``StatusError``. Mutating runs
after decoding and defaulting and before the server's own bookkeeping; validating runs last, after
validation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Literal, Protocol

from kube_rules.json import Json
from kube_standin.clock import ServerClock
from kube_standin.errors import Cause, StatusError, forbidden
from kube_standin.kinds import ServedKind
from kube_standin.storage import Store
from kube_standin.worker_thread import INLINE, OffLoopSteps

Operation = Literal["CREATE", "UPDATE", "DELETE", "CONNECT"]


@dataclass(frozen=True)
class User:
    """A user that sends requests: the name and groups that authorisation decides on; ``extra`` is only shown."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


SYSTEM = User("system:apiserver", ("system:masters", "system:authenticated"))


class Objects(Protocol):
    """What admission reads besides a request: what is stored, and what time it is."""

    store: Store
    clock: ServerClock

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return the row of an object's apiVersion and kind; raises KeyError."""

    def find(self, kind: ServedKind, namespace: str, name: str) -> Json | None:
        """Return the newest state, staged ones included, as an object or None."""


@dataclass
class MutationRounds:
    """What mutating webhooks or policies did to one write: which may be called again, and which have to."""

    invoked: set[str] = field(default_factory=set)
    again: set[str] = field(default_factory=set)
    output: Json | None = None

    def require_again(self) -> None:
        """Have those that were called so far called again."""
        self.again |= self.invoked
        self.invoked = set()


@dataclass
class AdmissionRequest:
    """One write on its way through admission.

    ``object`` and ``old`` are in the storage form of ``kind`` (which is its storage row); ``object`` is
    None for DELETE, ``old`` is None for CREATE. Mutating steps may change ``object`` in place; no step may
    change ``old``. ``warnings`` are sent to the client as Warning headers.
    """

    operation: Operation
    kind: ServedKind
    namespace: str
    name: str
    subresource: str
    object: Json | None
    old: Json | None
    user: User
    dry_run: bool
    registry: Objects
    warnings: list[str] = field(default_factory=list)
    version: str = ""
    """The apiVersion of the request, where warnings depend on it."""
    options: Json = field(default_factory=dict)
    """The options of the request (CreateOptions, UpdateOptions, DeleteOptions), as webhooks see them."""
    off_loop_steps: OffLoopSteps = INLINE
    """How the write waits for answers from elsewhere; INLINE: not at all."""
    body_kind: tuple[str, str, str] | None = None
    """Group, version and kind of the object, where it is none of the resource (a Scale, an Eviction, a Binding)."""
    round: int = 0
    """How often the mutating half has run before."""
    reinvoke: bool = False
    """Whether the mutating half is to run once more, since a webhook changed what the steps before it decided on."""
    rounds: dict[str, MutationRounds] = field(default_factory=dict)
    """What webhooks and policies of the mutating half keep from one round to the next."""
    admitted: bool = False
    """Whether this is part of a write that was admitted in another form: the deletion of an evicted pod."""
    policy_cost: int = 0
    """What evaluating policies has cost so far (interfaces.md 6.10)."""
    on_staged: list[Callable[[], None]] = field(default_factory=list)
    """What validating steps want done once this write is staged, in the same turn: steps serve all requests and keep
    nothing of one."""

    def mutation_rounds(self, name: str) -> MutationRounds:
        """Return what webhooks or policies keep of the rounds; those that have to be called again are noted."""
        kept = self.rounds.setdefault(name, MutationRounds())
        if self.round and kept.output != self.object:
            kept.require_again()
        return kept

    @property
    def new(self) -> Json:
        """Return the object of a CREATE or UPDATE."""
        if self.object is None:
            raise ValueError("a DELETE has no new object")
        return self.object

    def refused(self, why: str, causes: Iterable[Cause] = ()) -> StatusError:
        """403 about the object of the request, to be raised."""
        return forbidden(self.kind.plural, self.kind.group, self.name, why, causes)


class Step:
    """One admission plugin; override what it needs. ``kinds`` limits it to plurals with group (None: all)."""

    kinds: frozenset[str] | None = None
    runs_last = False
    """Whether the step comes after all that are not of this sort, in whatever order they were added."""

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may have to wait for an answer from elsewhere."""
        return False

    def mutate(self, request: AdmissionRequest) -> None:
        """Change ``request.object`` in place or refuse by raising StatusError."""

    def allocate(self, request: AdmissionRequest, new: Json) -> None:
        """Give ``new``, an object in the version of the request, what the server hands out; after all ``mutate``."""

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse by raising StatusError."""

    def committed(self, request: AdmissionRequest) -> None:
        """Called right after the write was staged, in the same turn; not for dry runs."""


class Chain:
    """Steps in order, found by the resource they concern."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps: list[Step] = []
        self._waiting: list[Step] = []
        self._by_resource: dict[str, tuple[Step, ...]] = {}
        for step in steps:
            self.add(step)

    def add(self, *steps: Step) -> None:
        """Append steps."""
        self._steps += steps
        self._waiting += (step for step in steps if type(step).waits is not Step.waits)
        self._by_resource.clear()

    def steps(self, kind: ServedKind) -> tuple[Step, ...]:
        """Return the steps that concern ``kind``, in order."""
        resource = kind.resource
        found = self._by_resource.get(resource)
        if found is None:
            ordered = sorted(self._steps, key=lambda step: step.runs_last)
            found = tuple(step for step in ordered if step.kinds is None or resource in step.kinds)
            self._by_resource[resource] = found
        return found

    def mutate(self, request: AdmissionRequest) -> None:
        """Run the mutating half."""
        steps = self.steps(request.kind)
        for step in steps:
            step.mutate(request)
        if request.reinvoke:
            request.round += 1
            for step in steps:
                step.mutate(request)

    def allocate(self, request: AdmissionRequest, new: Json) -> None:
        """Hand out what the object needs, once it is what its writer and admission want."""
        for step in self.steps(request.kind):
            step.allocate(request, new)

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may have to wait for an answer from elsewhere."""
        return any(step.waits(kind) for step in self._waiting)

    def admit_body(self, request: AdmissionRequest) -> None:
        """Admit what is no object of its resource (`AdmissionRequest.body_kind`): only steps that wait know it."""
        for step in self._waiting:
            step.mutate(request)
        for step in self._waiting:
            step.validate(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating half."""
        for step in self.steps(request.kind):
            step.validate(request)

    def committed(self, request: AdmissionRequest) -> None:
        """Notify the steps that the write is staged, and do what they left with it."""
        for step in self.steps(request.kind):
            step.committed(request)
        for work in request.on_staged:
            work()
