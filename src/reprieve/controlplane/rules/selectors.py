"""Rules of label selectors, node selectors, affinity, tolerations and topology spread."""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import names
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_DONE = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_SHARED_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_COMPARISONS = ("Lt", "Gt")


def label_selector(selector: Json, path: str) -> Iterator[FieldError]:
    """matchLabels and matchExpressions."""
    for key, value in selector.get("matchLabels", {}).items():
        yield from fe.malformed(f"{path}.matchLabels", key, names.qualified)
        yield from fe.malformed(f"{path}.matchLabels", value, names.label_value)
    for index, expression in enumerate(selector.get("matchExpressions", ())):
        place = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator", ""), expression.get("values", ())
        if operator in ("In", "NotIn"):
            if not values:
                yield fe.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                said = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield fe.forbidden(f"{place}.values", said)
        else:
            yield fe.invalid(f"{place}.operator", operator, "not a valid selector operator")
        yield from fe.malformed(f"{place}.key", expression.get("key", ""), names.qualified)
        for at, value in enumerate(values):
            yield from fe.malformed(f"{place}.values[{at}]", value, names.label_value)


def node_selector(selector: Json, path: str) -> Iterator[FieldError]:
    """Terms that are alternatives."""
    terms = selector.get("nodeSelectorTerms", ())
    if not terms:
        yield fe.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for index, term in enumerate(terms):
        yield from node_term(term, f"{path}.nodeSelectorTerms[{index}]")


def node_term(term: Json, path: str) -> Iterator[FieldError]:
    """Requirements on labels and fields of a node."""
    for index, expression in enumerate(term.get("matchExpressions", ())):
        yield from _node_expression(expression, f"{path}.matchExpressions[{index}]")
    for index, expression in enumerate(term.get("matchFields", ())):
        place = f"{path}.matchFields[{index}]"
        values = expression.get("values", ())
        if expression.get("operator") in ("In", "NotIn"):
            if len(values) != 1:
                said = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
                yield fe.required(f"{place}.values", said)
        else:
            yield fe.invalid(f"{place}.operator", expression.get("operator", ""), "not a valid selector operator")
        if expression.get("key") != "metadata.name":
            yield fe.invalid(f"{place}.key", expression.get("key", ""), "not a valid field selector key")
        for at, value in enumerate(values):
            yield from fe.malformed(f"{place}.values[{at}]", value, names.subdomain)


def _node_expression(expression: Json, place: str) -> Iterator[FieldError]:
    operator, values = expression.get("operator", ""), expression.get("values", ())
    if operator in ("In", "NotIn"):
        if not values:
            yield fe.required(f"{place}.values", "must be specified when `operator` is 'In' or 'NotIn'")
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            said = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            yield fe.forbidden(f"{place}.values", said)
    elif operator in _COMPARISONS:
        if len(values) != 1:
            said = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            yield fe.required(f"{place}.values", said)
    else:
        yield fe.invalid(f"{place}.operator", operator, "not a valid selector operator")
    yield from fe.malformed(f"{place}.key", expression.get("key", ""), names.qualified)


def affinity(given: Json, path: str) -> Iterator[FieldError]:
    """Node affinity, pod affinity and anti-affinity."""
    node = given.get("nodeAffinity")
    if node is not None:
        if _DONE in node:
            yield from node_selector(node[_DONE], f"{path}.nodeAffinity.{_DONE}")
        for index, term in enumerate(node.get(_PREFERRED, ())):
            place = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            yield from _weight(term, place)
            yield from node_term(term.get("preference", {}), f"{place}.preference")
    for name in ("podAffinity", "podAntiAffinity"):
        terms = given.get(name)
        if terms is None:
            continue
        for index, term in enumerate(terms.get(_DONE, ())):
            yield from pod_term(term, f"{path}.{name}.{_DONE}[{index}]")
        for index, term in enumerate(terms.get(_PREFERRED, ())):
            place = f"{path}.{name}.{_PREFERRED}[{index}]"
            yield from _weight(term, place)
            yield from pod_term(term.get("podAffinityTerm", {}), f"{place}.podAffinityTerm")


def _weight(term: Json, place: str) -> Iterator[FieldError]:
    if not 1 <= term.get("weight", 0) <= 100:
        yield fe.invalid(f"{place}.weight", term.get("weight", 0), "must be in the range 1-100")


def pod_term(term: Json, path: str) -> Iterator[FieldError]:
    """Pods near which a pod wants to be, or not."""
    for name in ("labelSelector", "namespaceSelector"):
        if name in term:
            yield from label_selector(term[name], f"{path}.{name}")
    for namespace in term.get("namespaces", ()):
        yield from fe.malformed(f"{path}.namespace", namespace, names.dns_label)
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(name) and "labelSelector" not in term:
            yield fe.forbidden(f"{path}.{name}", "must not be specified when labelSelector is not set")
        for index, key in enumerate(term.get(name, ())):
            yield from fe.malformed(f"{path}.{name}[{index}]", key, names.qualified)
    for index, key in enumerate(term.get("mismatchLabelKeys", ())):
        if key in term.get("matchLabelKeys", ()):
            at = term["matchLabelKeys"].index(key)
            yield fe.invalid(
                f"{path}.matchLabelKeys[{at}]", key, f"exists in both matchLabelKeys and mismatchLabelKeys[{index}]"
            )
    key = term.get("topologyKey", "")
    if not key:
        yield fe.required(f"{path}.topologyKey", "can not be empty")
    yield from fe.malformed(f"{path}.topologyKey", key, names.qualified)


def tolerations(given: list[Json], path: str) -> Iterator[FieldError]:
    """Key, operator, value and effect fit together."""
    for index, toleration in enumerate(given):
        place = f"{path}[{index}]"
        key, operator = toleration.get("key", ""), toleration.get("operator", "")
        value, effect = toleration.get("value", ""), toleration.get("effect", "")
        if key:
            yield from fe.malformed(f"{place}.key", key, names.qualified)
        elif operator != "Exists":
            said = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield fe.invalid(f"{place}.operator", operator, said)
        if "tolerationSeconds" in toleration and effect != "NoExecute":
            said = "effect must be 'NoExecute' when `tolerationSeconds` is set"
            yield fe.invalid(f"{place}.effect", effect, said)
        if operator in ("Equal", ""):
            yield from fe.malformed(f"{place}.operator", value, names.label_value)
        elif operator == "Exists":
            if value:
                said = "value must be empty when `operator` is 'Exists'"
                yield fe.invalid(f"{place}.operator", value, said)
        elif operator in _COMPARISONS:
            yield fe.not_supported(f"{place}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
        else:
            yield fe.not_supported(f"{place}.operator", operator, ("Equal", "Exists"))
        if effect:
            yield from taint_effect(effect, f"{place}.effect")


def taint_effect(effect: str, path: str) -> Iterator[FieldError]:
    """NoSchedule, PreferNoSchedule or NoExecute."""
    yield from fe.one_of(path, effect, _SHARED_EFFECTS)


_INCLUSION = ("Honor", "Ignore")
_WHEN = ("DoNotSchedule", "ScheduleAnyway")


def topology_spread(given: list[Json], path: str) -> Iterator[FieldError]:
    """How far pods may be out of balance."""
    seen: set[tuple[str, str]] = set()
    for index, constraint in enumerate(given):
        place = f"{path}[{index}]"
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        when = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            yield fe.invalid(f"{place}.maxSkew", skew, "must be greater than zero")
        if not key:
            yield fe.required(f"{place}.topologyKey", "can not be empty")
        else:
            yield from fe.malformed(f"{place}.topologyKey", key, names.qualified)
        if when not in _WHEN:
            yield fe.not_supported(f"{place}.whenUnsatisfiable", when, _WHEN)
        if (key, when) in seen:
            yield fe.duplicate(f"{place}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {when}}}")
        seen.add((key, when))
        if "minDomains" in constraint:
            if constraint["minDomains"] <= 0:
                yield fe.invalid(f"{place}.minDomains", constraint["minDomains"], "must be greater than zero")
            if when != "DoNotSchedule":
                said = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not " + when
                yield fe.invalid(f"{place}.minDomains", constraint["minDomains"], said)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if constraint.get(name, "Honor") not in _INCLUSION:
                yield fe.not_supported(f"{place}.{name}", constraint[name], _INCLUSION)
        if constraint.get("matchLabelKeys") and "labelSelector" not in constraint:
            yield fe.forbidden(f"{place}.matchLabelKeys", "must not be specified when labelSelector is not set")
        for at, label in enumerate(constraint.get("matchLabelKeys", ())):
            yield from fe.malformed(f"{place}.matchLabelKeys[{at}]", label, names.qualified)
        if "labelSelector" in constraint:
            yield from label_selector(constraint["labelSelector"], f"{place}.labelSelector")
