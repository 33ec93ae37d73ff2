"""Rules of the security contexts of pods and containers: ids, profiles, sysctls, contradictions.

Options for Windows, SELinux and AppArmor are not checked: nothing runs in a pod here.
"""

from __future__ import annotations

import re

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import rows as r

_LAST_ID = 2**31 - 1
_SYSCTL_PART = r"[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL = rf"^({_SYSCTL_PART}[\./])*{_SYSCTL_PART}$"
_LONGEST_SYSCTL = 253
_SYSCTL_FORM = re.compile(_SYSCTL)
_PROFILES = ("Localhost", "RuntimeDefault", "Unconfined")


def _id(*names: str) -> r.Check:
    return r.all_of(*(r.within(0, _LAST_ID, name) for name in names))


def _groups(context: Json, path: str) -> r.Found:
    for index, group in enumerate(context["supplementalGroups"]):
        if not 0 <= group <= _LAST_ID:
            detail = f"must be between 0 and {_LAST_ID}, inclusive"
            yield fe.invalid(f"{path}.supplementalGroups[{index}]", group, detail)


def _sysctl(sysctl: Json, path: str) -> r.Found:
    name = sysctl.get("name", "")
    if not name:
        yield fe.required(f"{path}.name")
    elif len(name) > _LONGEST_SYSCTL or not _SYSCTL_FORM.fullmatch(name):
        detail = f"must have at most {_LONGEST_SYSCTL} characters and match regex {_SYSCTL}"
        yield fe.invalid(f"{path}.name", name, detail)


def _seccomp(profile: Json, path: str) -> r.Found:
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if kind == "Localhost":
        if not local:
            yield fe.required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
    elif local is not None:
        yield fe.invalid(f"{path}.localhostProfile", local, "can only be set when seccomp type is Localhost")
    yield from fe.one_of(f"{path}.type", kind, _PROFILES)


def _escalation(context: Json, path: str) -> r.Found:
    """Check that a container without privilege escalation is not privileged."""
    if context["allowPrivilegeEscalation"] is not False:
        return
    if context.get("privileged"):
        detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield fe.invalid(path, context, detail)
    if "CAP_SYS_ADMIN" in ((context.get("capabilities") or {}).get("add") or ()):
        detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
        yield fe.invalid(path, context, detail)


of_pod = r.all_of(
    _id("fsGroup", "runAsUser", "runAsGroup"),
    r.OptionalField("supplementalGroups", _groups),
    r.listed("sysctls", _sysctl, r.Unique("name", empty=False)),
    r.enum("fsGroupChangePolicy", ("Always", "OnRootMismatch"), missing=None),
    r.enum("supplementalGroupsPolicy", ("Merge", "Strict"), missing=None),
    r.given("seccompProfile", _seccomp),
)
"""Check the security context of a pod."""
of_container = r.all_of(
    _id("runAsUser", "runAsGroup"),
    r.enum("procMount", ("Default", "Unmasked"), missing=None),
    r.given("seccompProfile", _seccomp),
    r.OptionalField("allowPrivilegeEscalation", _escalation),
)
"""Check the security context of a container."""
