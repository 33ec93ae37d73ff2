"""Options and outcome of a write: the inputs and results of the verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from kube_rules.json import Json
from kube_standin.admission_chain import SYSTEM, User
from kube_standin.schema.strict_json import RepeatedFields
from kube_standin.storage.model import StoredObject
from kube_standin.storage.store import DURABLE, Ticket
from kube_standin.worker_thread import INLINE, OffLoopSteps

PatchType = Literal["json", "merge", "strategic", "apply"]


def no_further_right() -> None:
    """Allow a PUT or an apply to create: the default for writes without a request."""


@dataclass
class WriteOptions:
    """Options of a write; ``warnings`` collects those for the client.

    ``manager`` owns the fields written. ``validation`` is the reaction to unknown and duplicate fields.
    """

    user: User = SYSTEM
    manager: str = "kube-apiserver"
    dry_run: bool = False
    validation: Literal["Ignore", "Warn", "Strict"] = "Ignore"
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    repeated: RepeatedFields = field(default_factory=RepeatedFields)
    """Repeated fields of a patch, unless they are ignored."""
    off_loop_steps: OffLoopSteps = INLINE
    """Where long steps run."""
    uid: str = ""
    created: str = ""
    """The identity of a new object, if it is taken over from another cluster; otherwise generated."""
    sent: Json = field(default_factory=dict)
    """The client's options, as admission shows them to webhooks."""
    may_create: Callable[[], None] = no_further_right
    """Called before a write creates an object; raises 403 if a PUT or an apply has no right to create."""


@dataclass(frozen=True)
class Outcome:
    """The resulting object of a write, in the version of the request; ``created``: 201 instead of 200.

    ``deleted``: the write removed the last finalizer (or was a DELETE) and the object is deleted.
    """

    object: Json
    created: bool = False
    deleted: bool = False
    state: StoredObject | None = None
    """The stored state, if any: its bytes are the response."""
    ticket: Ticket = DURABLE
    """The ticket to wait for before the response is sent: of the write, or of the writes that it read."""


def internal_options(options: WriteOptions, manager: str) -> WriteOptions:
    """Return ``options`` for a write of the server on behalf of a request (binding, quota use, budgets)."""
    return replace(
        options,
        manager=manager,
        validation="Ignore",
        repeated=RepeatedFields(),
        off_loop_steps=INLINE,
        may_create=no_further_right,
    )
