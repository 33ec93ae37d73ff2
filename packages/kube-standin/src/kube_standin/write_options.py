"""Options and outcome of a write: the values that go into the verbs and come out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from kube_rules.json import Json
from kube_standin.admission_chain import SYSTEM, User
from kube_standin.schema.strict_json import RepeatedFields
from kube_standin.storage.model import Stored
from kube_standin.storage.store import DURABLE, Ticket
from kube_standin.worker_thread import INLINE, OffLoopSteps

PatchType = Literal["json", "merge", "strategic", "apply"]


def no_further_right() -> None:
    """Allow a PUT or an apply to create: the default for writes that are no requests."""


@dataclass
class WriteOptions:
    """How a write is to be done; ``warnings`` collects those for the client.

    ``manager`` owns the fields written. ``validation`` is what unknown and duplicate fields lead to.
    """

    user: User = SYSTEM
    manager: str = "kube-apiserver"
    dry_run: bool = False
    validation: Literal["Ignore", "Warn", "Strict"] = "Ignore"
    force: bool = False
    warnings: list[str] = field(default_factory=list)
    repeated: RepeatedFields = field(default_factory=RepeatedFields)
    """What the body of a patch gives twice, unless that is ignored."""
    off_loop_steps: OffLoopSteps = INLINE
    """Where steps that take long are done."""
    uid: str = ""
    created: str = ""
    """The identity of a new object, where it is given because the object is taken over; else generated."""
    sent: Json = field(default_factory=dict)
    """The options that the client gave, as admission shows them to webhooks."""
    may_create: Callable[[], None] = no_further_right
    """Called before a write creates an object; raises 403 where a PUT or an apply has not the right to create."""


@dataclass(frozen=True)
class Outcome:
    """The object a write led to, in the version of the request; ``created``: 201 and not 200.

    ``deleted``: the write removed the last finalizer (or was a DELETE) and the object is gone.
    """

    object: Json
    created: bool = False
    deleted: bool = False
    state: Stored | None = None
    """What was stored, if something was: its bytes are the answer."""
    ticket: Ticket = DURABLE
    """What to wait for before the response is sent: the write, or those it was read from."""


def internal_options(options: WriteOptions, manager: str) -> WriteOptions:
    """Return ``options`` for a write the server does on behalf of a request (binding, quota use, budgets)."""
    return replace(
        options,
        manager=manager,
        validation="Ignore",
        repeated=RepeatedFields(),
        off_loop_steps=INLINE,
        may_create=no_further_right,
    )
