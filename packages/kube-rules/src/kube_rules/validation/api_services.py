"""Rules of APIServices (kube-aggregator 1.36, apiregistration validation)."""

from __future__ import annotations

import base64

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r

_MOST_GROUP = 20_000
_MOST_VERSION = 1_000


def _name(obj: Json, _: str) -> r.Found:
    spec, name = obj.get("spec") or {}, (obj.get("metadata") or {}).get("name", "")
    wanted = f"{spec.get('version', '')}.{spec.get('group', '')}"
    if name and name != wanted and not names.path_segment(name):
        yield fe.invalid("metadata.name", name, f'must be `spec.version+"."+spec.group`: "{wanted}"')


def _group_version(spec: Json, path: str) -> r.Found:
    group, version = spec.get("group", ""), spec.get("version", "")
    if group:
        yield from fe.malformed(f"{path}.group", group, names.subdomain)
    elif version != "v1":
        yield fe.required(f"{path}.group", "only v1 may have an empty group and it better be legacy kube")
    yield from fe.malformed(f"{path}.version", version, names.dns1035_label)
    for field, most in (("groupPriorityMinimum", _MOST_GROUP), ("versionPriority", _MOST_VERSION)):
        value = spec.get(field, 0)
        if not 0 < value <= most:
            yield fe.invalid(f"{path}.{field}", value, f"must be positive and less than {most}")


def _service(spec: Json, path: str) -> r.Found:
    service, bundle, unchecked = spec.get("service"), spec.get("caBundle"), spec.get("insecureSkipTLSVerify")
    place = f"{path}.insecureSkipTLSVerify"
    if service is None:
        if bundle:
            size = len(base64.b64decode(bundle))
            yield fe.invalid(f"{path}.caBundle", f"{size} bytes", "local APIServices may not have a caBundle")
        if unchecked:
            yield fe.invalid(place, unchecked, "local APIServices may not have insecureSkipTLSVerify")
        return
    yield from r.required("namespace", "name")(service, f"{path}.service")
    if unchecked and bundle:
        yield fe.invalid(place, unchecked, "may not be true if caBundle is present")


api_service: r.Check = r.all_of(_name, r.below("spec", _group_version, _service))
"""Check name, group version, priorities and service."""
status: r.Check = r.below("status", r.listed("conditions", r.enum("status", ("True", "False", "Unknown"))))
"""Check that conditions are true, false or unknown."""
