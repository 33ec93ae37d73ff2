"""Query parameters of the verbs, checked as by kube-apiserver 1.36, with its messages and codes."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from kube_rules import field_errors as fe
from kube_rules.durations import duration
from kube_rules.errors import FieldError, excerpt
from kube_standin import errors
from kube_standin.admission_chain import User
from kube_standin.errors import StatusError
from kube_standin.kinds import STREAMS
from kube_standin.numbers import parse_int, parse_unsigned
from kube_standin.registry import WriteOptions
from kube_standin.server.target import Target
from kube_standin.storage.model import Key

_META = "meta.k8s.io"
_VALIDATIONS = ("", "Ignore", "Strict", "Warn")
_LONGEST_MANAGER = 128
_LONGEST_TOKEN = 4096
_LONGEST_WATCH = 30 * 24 * 3600
"""The longest watch in seconds; clocks of the event loop do not count to 2^63."""
Validation = Literal["Ignore", "Warn", "Strict"]


def _refused(kind: str, *findings: FieldError) -> StatusError:
    return errors.unfit(kind, _META, "", *findings)


def manager_of(query: Mapping[str, str], user_agent: str) -> str:
    """Return the field manager: the parameter, else the part of the User-Agent before the first slash."""
    manager = query.get("fieldManager", "")
    if manager:
        return manager
    return (user_agent.split("/")[0] or "unknown")[:_LONGEST_MANAGER]


def write_options(verb: str, query: Mapping[str, str], user: User, user_agent: str, *, apply: bool) -> WriteOptions:
    """Return the parameters of create, update and patch; raises 422."""
    kind = {"create": "CreateOptions", "update": "UpdateOptions", "patch": "PatchOptions"}[verb]
    dry = query.get("dryRun", "")
    if dry not in ("", "All"):
        raise _refused(kind, fe.not_supported("dryRun", [dry], ("All",)))
    validation = query.get("fieldValidation", "")
    if validation not in _VALIDATIONS:
        raise _refused(kind, fe.not_supported("fieldValidation", validation, _VALIDATIONS))
    manager = query.get("fieldManager", "")
    if len(manager.encode()) > _LONGEST_MANAGER:
        raise _refused(kind, fe.too_long("fieldManager", _LONGEST_MANAGER))
    if not manager.isprintable():
        raise _refused(kind, fe.invalid("fieldManager", manager, "should only contain printable characters"))
    if verb == "patch":
        if apply and not manager:
            raise _refused(kind, fe.required("fieldManager", "is required for apply patch"))
        if not apply and "force" in query:
            raise _refused(kind, fe.forbidden("force", "may not be specified for non-apply patch"))
    chosen = cast("Validation", validation or "Warn")
    return WriteOptions(
        user=user,
        manager=manager_of(query, user_agent),
        dry_run=bool(dry),
        validation=chosen,
        force=query.get("force", "") in ("true", "1", "True"),
        sent={
            **({"dryRun": [dry]} if dry else {}),
            **({"fieldManager": manager} if manager else {}),
            **({"fieldValidation": validation} if validation else {}),
        },
    )


def parse_revision(text: str) -> int:
    """Return the revision of a resourceVersion parameter; raises ValueError with the message of upstream's parser."""
    number = parse_unsigned(text)
    if number is not None:
        return number
    shown = excerpt(text)
    problem = "value out of range" if text.isascii() and text.isdigit() else "invalid syntax"
    raise ValueError(f'resourceVersion: Invalid value: "{shown}": strconv.ParseUint: parsing "{shown}": {problem}')


@dataclass(frozen=True)
class ContinueToken:
    """The position at which a list continues: after the key ``after``, at ``revision`` (-1: the current one)."""

    revision: int
    after: Key

    def encode(self) -> str:
        """Return the opaque text for clients."""
        content = {"v": "meta.k8s.io/v1", "rv": self.revision, "start": f"{self.after[0]}/{self.after[1]}"}
        return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")

    @classmethod
    def decode(cls, text: str) -> ContinueToken:
        """Return the token of a text; raises 400."""
        try:
            if len(text) > _LONGEST_TOKEN:
                raise ValueError("too long")
            raw = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if not raw.startswith(b"{"):
                shown = repr(raw[:1])[2:-1]
                raise ValueError(f"invalid character '{shown}' looking for beginning of value")
            content = json.loads(raw)
            start, revision = content.get("start"), content.get("rv")
            valid = content.get("v") == "meta.k8s.io/v1" and isinstance(start, str) and "/" in start
            if not valid or type(revision) is not int or abs(revision) >= 2**63:
                raise ValueError("unknown form")
            namespace, _, name = start.partition("/")
            return cls(revision, (namespace, name))
        except RecursionError:
            raise errors.bad_request("invalid continue token: continue key is not valid: nested too deep") from None
        except ValueError as error:
            raise errors.bad_request(f"invalid continue token: continue key is not valid: {error}") from error


@dataclass(frozen=True)
class ListOptions:
    """The parameters of a list: ``at`` is the exact revision requested, ``at_least`` the lowest acceptable one."""

    labels: str = ""
    fields: str = ""
    limit: int | None = None
    token: ContinueToken | None = None
    at: int | None = None
    at_least: int = 0


def list_options(query: Mapping[str, str]) -> ListOptions:
    """Return the parameters of a list; raises 400 and 422."""
    limit = parse_int(query["limit"]) if query.get("limit") else 0
    if limit < 0:
        raise _refused("ListOptions", fe.invalid("limit", limit, "must be greater than or equal to 0"))
    version, match = query.get("resourceVersion", ""), query.get("resourceVersionMatch", "")
    if "sendInitialEvents" in query:
        raise _refused("ListOptions", fe.forbidden("sendInitialEvents", "sendInitialEvents is forbidden for list"))
    continued = query.get("continue", "")
    _check_match(version, match, continued)
    token = None
    if continued:
        if version not in ("", "0"):
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        token = ContinueToken.decode(continued)
    at, at_least = None, 0
    if version not in ("", "0"):
        try:
            revision = parse_revision(version)
        except ValueError as error:
            raise errors.bad_request(f"invalid resource version: {error}") from error
        # A limit without a match is the legacy form of "exactly this version".
        exact = match == "Exact" or (not match and limit > 0)
        at, at_least = (revision, revision) if exact else (None, revision)
    if version == "0" and match != "Exact":
        limit = 0
    return ListOptions(
        query.get("labelSelector", ""), query.get("fieldSelector", ""), limit or None, token, at, at_least
    )


def _check_match(version: str, match: str, continued: str) -> None:
    field, kind = "resourceVersionMatch", "ListOptions"
    if not match:
        return
    if continued:
        raise _refused(kind, fe.forbidden(field, "resourceVersionMatch is forbidden when continue is provided"))
    if not version:
        raise _refused(
            kind, fe.forbidden(field, "resourceVersionMatch is forbidden unless resourceVersion is provided")
        )
    if match not in ("Exact", "NotOlderThan"):
        raise _refused(kind, fe.not_supported(field, match, ("Exact", "NotOlderThan", "")))
    if match == "Exact" and version == "0":
        raise _refused(kind, fe.forbidden(field, 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'))


@dataclass(frozen=True)
class WatchOptions:
    """The parameters of a watch. ``since`` None: begin with the current state as ADDED events.

    ``initial``: True sends the current state and marks its end with a bookmark, False sends none of it, None leaves the
    choice to ``since``.
    """

    labels: str = ""
    fields: str = ""
    since: int | None = None
    initial: bool | None = None
    bookmarks: bool = False
    timeout: float | None = None

    @property
    def lists(self) -> bool:
        """Return whether the watch begins like a list, with a bookmark at its end."""
        return bool(self.initial and self.bookmarks)


def check_timeout(target: Target) -> None:
    """Refuse an invalid `timeout` on any path; watches and streams of a pod do not have this parameter.

    Raises:
      StatusError: 400.
    """
    text = target.query.get("timeout")
    if not text or target.verb == "watch" or target.subresource.partition("/")[0] in STREAMS:
        return
    try:
        duration(text)
    except (ValueError, OverflowError):
        reason = f'time: invalid duration "{excerpt(text)}"'
        raise errors.bad_request(f"invalid timeout specified in the request URL - {reason}") from None


def watch_options(query: Mapping[str, str]) -> WatchOptions:
    """Return the parameters of a watch; raises 422, and 400 for a resourceVersion that is not a number."""
    match = query.get("resourceVersionMatch", "")
    initial = None
    if query.get("sendInitialEvents"):
        initial = query["sendInitialEvents"].lower() in ("true", "1")
    problems: list[FieldError] = []
    field = "resourceVersionMatch"
    if initial is None and match:
        problems.append(
            fe.forbidden(field, "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided")
        )
    if initial is not None and match != "NotOlderThan":
        problems.append(fe.forbidden(field, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"))
        if match:
            problems.append(fe.not_supported(field, match, ("NotOlderThan",)))
    if problems:
        raise _refused("ListOptions", *problems)
    since = None
    version = query.get("resourceVersion", "")
    if version:
        try:
            since = parse_revision(version) or None
        except ValueError as error:
            raise errors.bad_request(f"invalid resource version: {error}") from error
    timeout = None
    if query.get("timeoutSeconds"):
        timeout = float(min(max(parse_int(query["timeoutSeconds"]), 0), _LONGEST_WATCH)) or None
    return WatchOptions(
        query.get("labelSelector", ""),
        query.get("fieldSelector", ""),
        since,
        initial,
        query.get("allowWatchBookmarks", "").lower() in ("true", "1"),
        timeout,
    )
