"""Rules of FlowSchemas and PriorityLevelConfigurations (kube-apiserver 1.36, flowcontrol validation)."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from kube_rules import field_errors as fe
from kube_rules.flow_control import FLOW_SCHEMAS, MANDATORY, PRIORITY_LEVELS
from kube_rules.json import Json
from kube_rules.validation import names
from kube_rules.validation import rows as r

_MOST_PRECEDENCE = 10_000
_MOST_QUEUES = 10_000_000
_HASH_BITS = 60
_METHODS = ("ByNamespace", "ByUser")
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_SUBJECTS = {"Group": "group", "ServiceAccount": "serviceAccount", "User": "user"}
_NAMESPACE = "each member of this list must be '*' or a DNS-1123 label; "
_NOT_NEGATIVE = "must be a non-negative integer"


def _fixed(obj: Json, specs: Mapping[str, Json]) -> r.Found:
    """Check that a mandatory object has its fixed spec."""
    name = (obj.get("metadata") or {}).get("name", "")
    if name in MANDATORY and obj.get("spec") != specs[name]:
        yield fe.invalid("spec", obj.get("spec"), f"spec of '{name}' must equal the fixed value")


def _wildcard(rule: Json, path: str, name: str, plural: str, none: str) -> r.Found:
    values = rule.get(name) or ()
    if not values:
        yield fe.required(f"{path}.{name}", none)
    elif "*" in values and len(values) > 1:
        yield fe.invalid(f"{path}.{name}", values, f"if '*' is present, must not specify other {plural}")


def _verbs(rule: Json, path: str) -> r.Found:
    yield from _wildcard(rule, path, "verbs", "verbs", "verbs must contain at least one value")
    verbs: Collection[str] = rule.get("verbs") or ()
    if "*" not in verbs and not set(verbs) <= set(_VERBS):
        yield fe.not_supported(f"{path}.verbs", verbs, _VERBS)


def _resource_rule(rule: Json, path: str) -> r.Found:
    yield from _verbs(rule, path)
    need = "resource rules must supply at least one"
    yield from _wildcard(rule, path, "apiGroups", "api groups", f"{need} api group")
    yield from _wildcard(rule, path, "resources", "resources", f"{need} resource")
    namespaces = rule.get("namespaces") or ()
    if namespaces or not rule.get("clusterScope"):
        none = "resource rules that are not cluster scoped must supply at least one namespace"
        yield from _wildcard(rule, path, "namespaces", "namespaces", none)
    if "*" not in namespaces:
        for index, namespace in enumerate(namespaces):
            for message in names.dns_label(namespace):
                yield fe.invalid(f"{path}.namespaces[{index}]", namespace, _NAMESPACE + message)


def _url(url: str) -> str:
    """Return the error of a non-resource path, "" if there is none."""
    if not url:
        return "must not be empty"
    if not url.startswith("/"):
        return "must start with slash"
    if " " in url:
        return "must not contain white-space"
    if "//" in url:
        return "must not contain double slash"
    stars = url.count("*")
    return "wildcard can only do suffix matching" if stars > 1 or (stars and not url.endswith("/*")) else ""


def _plain_rule(rule: Json, path: str) -> r.Found:
    yield from _verbs(rule, path)
    none = "nonResourceURLs must contain at least one value"
    yield from _wildcard(rule, path, "nonResourceURLs", "non-resource URLs", none)
    urls = rule.get("nonResourceURLs") or ()
    if "*" not in urls:
        for index, url in enumerate(urls):
            if why := _url(url):
                yield fe.invalid(f"{path}.nonResourceURLs[{index}]", url, why)


def _subject(subject: Json, path: str) -> r.Found:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        yield fe.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    place, value = f"{path}.{_SUBJECTS[kind]}", subject.get(_SUBJECTS[kind])
    if value is None:
        yield fe.required(place, f"{_SUBJECTS[kind]} is required when subject kind is '{kind}'")
    else:
        name = value.get("name", "")
        if not name:
            yield fe.required(f"{place}.name")
        elif kind == "ServiceAccount" and name != "*":
            yield from fe.malformed(f"{place}.name", name, names.subdomain)
        if kind == "ServiceAccount":
            namespace = value.get("namespace", "")
            if namespace:
                yield from fe.malformed(f"{place}.namespace", namespace, names.dns_label)
            else:
                yield fe.required(f"{place}.namespace", "must specify namespace for service account")
    for other_kind, field in _SUBJECTS.items():
        if other_kind != kind and subject.get(field) is not None:
            yield fe.forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other_kind}'")


def _rule(rule: Json, path: str) -> r.Found:
    if not rule.get("subjects"):
        yield fe.required(f"{path}.subjects", "subjects must contain at least one value")
    yield from r.listed("subjects", _subject)(rule, path)
    if not rule.get("resourceRules") and not rule.get("nonResourceRules"):
        yield fe.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    yield from r.listed("resourceRules", _resource_rule)(rule, path)
    yield from r.listed("nonResourceRules", _plain_rule)(rule, path)


def flow_schema(obj: Json, _: str) -> r.Found:
    """Check precedence, level and rules of a FlowSchema."""
    spec = obj.get("spec") or {}
    precedence = spec.get("matchingPrecedence", 0)
    place = "spec.matchingPrecedence"
    if precedence <= 0:
        yield fe.invalid(place, precedence, "must be a positive value")
    if precedence > _MOST_PRECEDENCE:
        yield fe.invalid(place, precedence, f"must not be greater than {_MOST_PRECEDENCE}")
    if precedence == 1 and (obj.get("metadata") or {}).get("name") != "exempt":
        yield fe.invalid(place, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")
    method = spec.get("distinguisherMethod")
    if method is not None and method.get("type") not in _METHODS:
        yield fe.not_supported("spec.distinguisherMethod.type", method, _METHODS)
    level = (spec.get("priorityLevelConfiguration") or {}).get("name", "")
    if level:
        yield from fe.malformed("spec.priorityLevelConfiguration.name", level, names.subdomain)
    else:
        yield fe.required("spec.priorityLevelConfiguration.name", "must reference a priority level")
    yield from r.listed("rules", _rule)(spec, "spec")
    yield from _fixed(obj, FLOW_SCHEMAS)


def _queuing(queuing: Json, path: str) -> r.Found:
    queues, hand = queuing.get("queues", 0), queuing.get("handSize", 0)
    yield from r.at_least(1, "queueLengthLimit", "queues", detail="must be positive", missing=0)(queuing, path)
    if queues > _MOST_QUEUES:
        yield fe.invalid(f"{path}.queues", queues, f"must not be greater than {_MOST_QUEUES}")
    if hand <= 0:
        yield fe.invalid(f"{path}.handSize", hand, "must be positive")
    elif hand > queues:
        yield fe.invalid(f"{path}.handSize", hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        why = f"required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {_HASH_BITS}"
        yield fe.invalid(f"{path}.handSize", hand, why)


def _response(response: Json, path: str) -> r.Found:
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind not in ("Queue", "Reject"):
        yield fe.not_supported(f"{path}.type", kind, ("Queue", "Reject"))
    elif kind == "Reject" and queuing is not None:
        yield fe.forbidden(f"{path}.queuing", "must be nil if limited.limitResponse.type is not Limited")
    elif kind == "Queue" and queuing is None:
        yield fe.required(f"{path}.queuing", "must not be empty if limited.limitResponse.type is Limited")
    elif queuing is not None:
        yield from _queuing(queuing, path + ".queuing")


_SHARES = r.all_of(
    r.at_least(0, "nominalConcurrencyShares", detail=_NOT_NEGATIVE), r.within(0, 100, "lendablePercent", missing=0)
)
_LIMITED = r.all_of(
    _SHARES,
    r.below("limitResponse", _response),
    r.at_least(0, "borrowingLimitPercent", detail="if specified, must be a non-negative integer"),
)


def priority_level(obj: Json, _: str) -> r.Found:
    """Check the limits of a PriorityLevelConfiguration."""
    spec = obj.get("spec") or {}
    kind, limited, exempt = spec.get("type", ""), spec.get("limited"), spec.get("exempt")
    if ((obj.get("metadata") or {}).get("name") == "exempt") != (kind == "Exempt"):
        yield fe.invalid("spec.type", kind, "type must be 'Exempt' if and only if name is 'exempt'")
    if kind not in ("Exempt", "Limited"):
        yield fe.not_supported("spec.type", kind, ("Exempt", "Limited"))
    elif kind == "Exempt":
        if limited is not None:
            yield fe.forbidden("spec.limited", "must be nil if the type is not Limited")
        yield from _SHARES(exempt or {}, "spec.exempt")
    else:
        if exempt is not None:
            yield fe.forbidden("spec.exempt", "must be nil if the type is Limited")
        if limited is None:
            yield fe.required("spec.limited", "must not be empty when type is Limited")
        else:
            yield from _LIMITED(limited, "spec.limited")
    if kind != "Exempt":  # lending and borrowing of the exempt level may change
        yield from _fixed(obj, PRIORITY_LEVELS)


def status(obj: Json, path: str) -> r.Found:
    """Check that every condition has a type, and that types are unique."""
    detail = "must not be empty"
    return r.below("status", r.listed("conditions", r.Unique("type"), r.required("type", detail=detail)))(obj, path)
