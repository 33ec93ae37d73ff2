"""The admission chain of every write: first steps that may change an object, then steps that may only refuse it.

Steps are synchronous on purpose: between reading the newest state and staging the write nothing else runs, so that
admission sees the exact state that the write builds on. A step refuses by raising ``StatusError``. Mutating steps run
after decoding and defaulting and before the server's own bookkeeping; validating steps run last, after validation.
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
    """A user that sends requests: authorization uses name and groups; ``extra`` is only shown."""

    name: str
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()


SYSTEM = User("system:apiserver", ("system:masters", "system:authenticated"))


class Objects(Protocol):
    """The state that admission reads besides a request: stored objects and the time."""

    store: Store
    clock: ServerClock

    def kind(self, api_version: str, kind: str) -> ServedKind:
        """Return the row of an object's apiVersion and kind; raises KeyError."""

    def find(self, kind: ServedKind, namespace: str, name: str) -> Json | None:
        """Return the newest state (staged writes included) as an object, or None."""


@dataclass
class MutationRounds:
    """The state of mutating webhooks or policies for one write: which may and which must be called again."""

    invoked_names: set[str] = field(default_factory=set)
    reinvoked_names: set[str] = field(default_factory=set)
    output: Json | None = None

    def require_again(self) -> None:
        """Require another call of those called so far."""
        self.reinvoked_names |= self.invoked_names
        self.invoked_names = set()


@dataclass
class AdmissionRequest:
    """One write in admission.

    ``object`` and ``old`` are in the storage form of ``kind`` (which is its storage row); ``object`` is None for
    DELETE, ``old`` is None for CREATE. Mutating steps may change ``object`` in place; no step may change ``old``.
    ``warnings`` are sent to the client as Warning headers.
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
    """The apiVersion of the request, if warnings depend on it."""
    options: Json = field(default_factory=dict)
    """The options of the request (CreateOptions, UpdateOptions, DeleteOptions), as webhooks see them."""
    off_loop_steps: OffLoopSteps = INLINE
    """How the write waits for external answers; INLINE: it does not wait."""
    body_kind: tuple[str, str, str] | None = None
    """Group, version and kind of the object, if it is not of the resource's kind (a Scale, an Eviction, a Binding)."""
    round: int = 0
    """Number of previous runs of the mutating half."""
    reinvoke: bool = False
    """Whether the mutating half must run once more, because a webhook changed the input of earlier steps."""
    rounds: dict[str, MutationRounds] = field(default_factory=dict)
    """State of webhooks and policies of the mutating half between rounds."""
    admitted: bool = False
    """Whether this is part of a write that was admitted in another form: the deletion of an evicted pod."""
    policy_cost: int = 0
    """Cost of policy evaluation so far (interfaces.md 6.10)."""
    on_staged: list[Callable[[], None]] = field(default_factory=list)
    """Deferred work of validating steps, run in the turn that stages the write: steps have no state per request."""

    def mutation_rounds(self, name: str) -> MutationRounds:
        """Return the state of webhooks or policies between rounds, after recording which must be called again."""
        rounds = self.rounds.setdefault(name, MutationRounds())
        if self.round and rounds.output != self.object:
            rounds.require_again()
        return rounds

    @property
    def creates(self) -> bool:
        """Return whether it creates an object of its kind."""
        return self.operation == "CREATE" and not self.subresource

    @property
    def new(self) -> Json:
        """Return the object of a CREATE or UPDATE."""
        if self.object is None:
            raise ValueError("a DELETE has no new object")
        return self.object

    def refused(self, why: str, causes: Iterable[Cause] = ()) -> StatusError:
        """Return a 403 refusal of the object of the request."""
        return forbidden(self.kind.plural, self.kind.group, self.name, why, causes)


class Step:
    """One admission plugin; override the methods it needs. ``kinds`` limits it to plurals with group (None: all)."""

    kinds: frozenset[str] | None = None
    runs_last = False
    """Whether the step runs after all other steps, independent of the order in which they were added."""

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may have to wait for an external answer."""
        return False

    def mutate(self, request: AdmissionRequest) -> None:
        """Change ``request.object`` in place, or refuse by raising StatusError."""

    def allocate(self, request: AdmissionRequest, new: Json) -> None:
        """Allocate values for ``new``, an object in the version of the request; runs after all ``mutate``."""

    def validate(self, request: AdmissionRequest) -> None:
        """Refuse by raising StatusError."""

    def committed(self, request: AdmissionRequest) -> None:
        """Handle a write right after it was staged, in the same turn; not for dry runs."""


class Chain:
    """Ordered steps, looked up by resource."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        self._steps: list[Step] = []
        self._external_steps: list[Step] = []
        self._by_resource: dict[str, tuple[Step, ...]] = {}
        for step in steps:
            self.add(step)

    def add(self, *steps: Step) -> None:
        """Append steps."""
        self._steps += steps
        self._external_steps += (step for step in steps if type(step).waits is not Step.waits)
        self._by_resource.clear()

    def steps(self, kind: ServedKind) -> tuple[Step, ...]:
        """Return the steps that concern ``kind``, in order."""
        resource = kind.resource
        steps = self._by_resource.get(resource)
        if steps is None:
            ordered = sorted(self._steps, key=lambda step: step.runs_last)
            steps = tuple(step for step in ordered if step.kinds is None or resource in step.kinds)
            self._by_resource[resource] = steps
        return steps

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
        """Allocate the values that the object needs, after its writer and admission have decided the rest."""
        for step in self.steps(request.kind):
            step.allocate(request, new)

    def waits(self, kind: ServedKind) -> bool:
        """Return whether writes of a kind may have to wait for an external answer."""
        return any(step.waits(kind) for step in self._external_steps)

    def admit_body(self, request: AdmissionRequest) -> None:
        """Admit a body of another kind than its resource (`AdmissionRequest.body_kind`): only waiting steps run."""
        for step in self._external_steps:
            step.mutate(request)
        for step in self._external_steps:
            step.validate(request)

    def validate(self, request: AdmissionRequest) -> None:
        """Run the validating half."""
        for step in self.steps(request.kind):
            step.validate(request)

    def committed(self, request: AdmissionRequest) -> None:
        """Notify the steps that the write is staged, and run the work that they deferred."""
        for step in self.steps(request.kind):
            step.committed(request)
        for work in request.on_staged:
            work()
