"""Rules of label selectors, node selectors, affinity, tolerations and topology spread."""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.selectors import PREFERRED, REQUIRED
from kube_rules.taints import EFFECTS
from kube_rules.validation import metadata, names
from kube_rules.validation import rows as r

COMPARISONS = ("Lt", "Gt")
_INCLUSION = ("Honor", "Ignore")
_NO_OPERATOR = "not a valid selector operator"
_NO_SELECTOR = "must not be specified when labelSelector is not set"


def label_selector(selector: Json, path: str) -> r.Found:
    """Check matchLabels and matchExpressions."""
    yield from metadata.label_map(selector.get("matchLabels", {}), f"{path}.matchLabels")
    yield from _REQUIREMENTS(selector, path)


def operands(comparisons: bool = False, forbidden: bool = True, about: str = "") -> r.Check:
    """Return the check that the values of a requirement fit its operator.

    `comparisons` allows Lt and Gt. `forbidden` selects the error for unexpected values; `about` is appended to the
    texts.
    """

    def check(requirement: Json, path: str) -> r.Found:
        operator, values = requirement.get("operator", ""), requirement.get("values", ())
        if operator in ("In", "NotIn"):
            if not values:
                word = "must be specified" if not about else "must be at least one value"
                yield fe.required(f"{path}.values", f"{word} when `operator` is 'In' or 'NotIn'{about}")
        elif operator in ("Exists", "DoesNotExist"):
            if values and forbidden:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                yield fe.forbidden(f"{path}.values", detail)
            elif values:
                detail = f"must be no value when `operator` is 'Exists' or 'DoesNotExist'{about}"
                yield fe.invalid(f"{path}.values", values, detail)
        elif comparisons and operator in COMPARISONS:
            if len(values) != 1:
                yield fe.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        else:
            yield fe.invalid(f"{path}.operator", operator, _NO_OPERATOR)

    return check


def _field(requirement: Json, path: str) -> r.Found:
    """Check a field requirement: the only field of a node is its name."""
    if requirement.get("operator") not in ("In", "NotIn"):
        yield fe.invalid(f"{path}.operator", requirement.get("operator", ""), _NO_OPERATOR)
    elif len(requirement.get("values", ())) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield fe.required(f"{path}.values", detail)
    if requirement.get("key") != "metadata.name":
        yield fe.invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")


_KEY = r.formed("key", names.qualified, "always")
_REQUIREMENTS = r.listed("matchExpressions", operands(), _KEY, r.texts("values", names.label_value))
node_term = r.all_of(
    r.listed("matchExpressions", operands(comparisons=True), _KEY, r.texts("values", names.label_value)),
    r.listed("matchFields", _field, r.texts("values", names.subdomain)),
)
"""Check requirements on labels and fields of a node."""
node_selector = r.all_of(
    r.required("nodeSelectorTerms", detail="must have at least one node selector term"),
    r.listed("nodeSelectorTerms", node_term),
)
"""Check alternative terms."""


def _places(holder: Json) -> dict[str, int]:
    """Return the keys of `matchLabelKeys`, each with its first index."""
    keys = holder.get("matchLabelKeys") or ()
    return {key: index for index, key in reversed([*enumerate(keys)])}


def _twice(holder: Json, path: str) -> r.Found:
    """Check for keys of `matchLabelKeys` in the selector itself: merged requirements are there as well, at its end."""
    keys, selector = _places(holder), holder.get("labelSelector") or {}
    seen = set(selector.get("matchLabels") or ())
    for expression in selector.get("matchExpressions") or () if keys else ():
        key = expression.get("key", "")
        if key in keys and key in seen:
            yield fe.invalid(f"{path}[{keys[key]}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)


def _pods(term: Json, path: str) -> r.Found:
    for namespace in term.get("namespaces", ()):
        yield from fe.malformed(f"{path}.namespace", namespace, names.dns_label)
    for name in ("matchLabelKeys", "mismatchLabelKeys"):
        if term.get(name) and "labelSelector" not in term:
            yield fe.forbidden(f"{path}.{name}", _NO_SELECTOR)
        for index, key in enumerate(term.get(name, ())):
            yield from fe.malformed(f"{path}.{name}[{index}]", key, names.qualified)
    yield from _twice(term, path)
    places = _places(term)
    for index, key in enumerate(term.get("mismatchLabelKeys", ())):
        if (at := places.get(key)) is not None:
            yield fe.invalid(
                f"{path}.matchLabelKeys[{at}]", key, f"exists in both matchLabelKeys and mismatchLabelKeys[{index}]"
            )


pod_term = r.all_of(
    r.given("labelSelector", label_selector),
    r.given("namespaceSelector", label_selector),
    _pods,
    r.required("topologyKey", detail="can not be empty"),
    r.formed("topologyKey", names.qualified, "always"),
)
"""Check a term of pod affinity or anti-affinity."""


def _weight(term: Json, path: str) -> r.Found:
    if not 1 <= term.get("weight", 0) <= 100:
        yield fe.invalid(f"{path}.weight", term.get("weight", 0), "must be in the range 1-100")


_NEAR_PODS = (r.listed(REQUIRED, pod_term), r.listed(PREFERRED, _weight, r.below("podAffinityTerm", pod_term)))
affinity = r.all_of(
    r.given(
        "nodeAffinity",
        r.given(REQUIRED, node_selector),
        r.listed(PREFERRED, _weight, r.below("preference", node_term)),
    ),
    r.given("podAffinity", *_NEAR_PODS),
    r.given("podAntiAffinity", *_NEAR_PODS),
)
"""Check node affinity, pod affinity and anti-affinity."""


def _toleration(toleration: Json, place: str) -> r.Found:
    key, operator = toleration.get("key", ""), toleration.get("operator", "")
    value, effect = toleration.get("value", ""), toleration.get("effect", "")
    if key:
        yield from fe.malformed(f"{place}.key", key, names.qualified)
    elif operator != "Exists":
        detail = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield fe.invalid(f"{place}.operator", operator, detail)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        yield fe.invalid(f"{place}.effect", effect, detail)
    if operator in ("Equal", ""):
        yield from fe.malformed(f"{place}.operator", value, names.label_value)
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            yield fe.invalid(f"{place}.operator", value, detail)
    elif operator in COMPARISONS:
        yield fe.not_supported(f"{place}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        yield fe.not_supported(f"{place}.operator", operator, ("Equal", "Exists"))


def _effect(toleration: Json, path: str) -> r.Found:
    effect = toleration.get("effect")
    return (fe.not_supported(f"{path}.effect", effect, EFFECTS),) if effect and effect not in EFFECTS else ()


tolerations = r.listed("tolerations", _toleration, _effect)
"""Check that key, operator, value and effect fit together."""


def _least_domains(constraint: Json, path: str) -> r.Found:
    when = constraint.get("whenUnsatisfiable", "")
    if "minDomains" in constraint and when != "DoNotSchedule":
        detail = "can only use minDomains if whenUnsatisfiable=DoNotSchedule, not " + when
        yield fe.invalid(f"{path}.minDomains", constraint["minDomains"], detail)


def _label_keys(constraint: Json, path: str) -> r.Found:
    if constraint.get("matchLabelKeys") and "labelSelector" not in constraint:
        yield fe.forbidden(f"{path}.matchLabelKeys", _NO_SELECTOR)


topology_spread = r.listed(
    "topologySpreadConstraints",
    r.at_least(1, "maxSkew", detail=r.POSITIVE, missing=0),
    r.required("topologyKey", detail="can not be empty"),
    r.enum("whenUnsatisfiable", ("DoNotSchedule", "ScheduleAnyway")),
    r.Unique(
        "topologyKey",
        "whenUnsatisfiable",
        place=".{topologyKey, whenUnsatisfiable}",
        shown=lambda item: f"{{{item.get('topologyKey', '')}, {item.get('whenUnsatisfiable', '')}}}",
    ),
    r.at_least(1, "minDomains", detail=r.POSITIVE),
    _least_domains,
    r.enum("nodeAffinityPolicy", _INCLUSION, missing=None),
    r.enum("nodeTaintsPolicy", _INCLUSION, missing=None),
    _label_keys,
    r.texts("matchLabelKeys", names.qualified),
    _twice,
    r.given("labelSelector", label_selector),
)
"""Check the topology spread constraints of a pod."""
