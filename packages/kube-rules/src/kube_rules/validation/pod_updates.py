"""Changes of a pod: nearly nothing of its spec may change (transcripts 234 to 242, 491 to 498).

The refusal lists the fields that may change and shows the other changes as a diff of the spec.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Hashable
from itertools import takewhile

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.selectors import REQUIRED
from kube_rules.validation import pods
from kube_rules.validation.rows import Found, reach

_MAY_CHANGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_DIFF_LINES = 200


def update(new: Json, old: Json) -> Found:
    """Check a write to the main resource."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if after is before or after == before:
        return
    yield from pods.spec(after, "spec")
    yield from _deadline(after, before)
    yield from _gates(after, before)
    yield from _tolerations(after, before)
    allowed = dict(before)
    for name in ("containers", "initContainers"):
        if len(after.get(name, ())) != len(before.get(name, ())):
            detail = "pod updates may not add or remove containers"
            yield fe.forbidden(f"spec.{name}", detail)
            return
        if before.get(name):
            allowed[name] = [_with_image(was, now) for was, now in zip(before[name], after[name], strict=True)]
        else:
            _take(allowed, after, name)
    for name in ("activeDeadlineSeconds", "tolerations", "schedulingGates"):
        _take(allowed, after, name)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and after.get("terminationGracePeriodSeconds") == 1:
        allowed["terminationGracePeriodSeconds"] = 1
    if before.get("schedulingGates"):
        # Selectors of a gated pod may be narrowed (KEP-3838).
        yield from _narrowed_selector(after, before)
        _take(allowed, after, "nodeSelector")
        yield from _narrowed_affinity(after, before)
        affinity = {**before.get("affinity", {})}
        _take(affinity, after.get("affinity", {}), "nodeAffinity")
        if affinity or "affinity" in after:
            allowed["affinity"] = affinity
        else:
            allowed.pop("affinity", None)
    if allowed != after:
        yield fe.forbidden("spec", f"{_MAY_CHANGE}\n{_diff(allowed, after)}")


def _take(target: Json, source: Json, name: str) -> None:
    if name in source:
        target[name] = source[name]
    else:
        target.pop(name, None)


def _with_image(was: Json, now: Json) -> Json:
    """Return the container with the image of the new one; another rule reports a missing image."""
    if "image" in now:
        return {**was, "image": now["image"]}
    return {key: value for key, value in was.items() if key != "image"}


def _deadline(after: Json, before: Json) -> Found:
    old, new = before.get("activeDeadlineSeconds"), after.get("activeDeadlineSeconds")
    if old is not None:
        path = "spec.activeDeadlineSeconds"
        if new is None:
            yield fe.invalid(path, None, "must not update from a positive integer to nil value")
        elif new > old:
            yield fe.invalid(path, new, "must be less than or equal to previous value")


def _gates(after: Json, before: Json) -> Found:
    old_gates = {gate.get("name") for gate in before.get("schedulingGates", ())}
    for index, gate in enumerate(after.get("schedulingGates", ())):
        if gate.get("name") not in old_gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name')}'"
            yield fe.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _tolerations(after: Json, before: Json) -> Found:
    def plain(toleration: Json) -> Hashable:
        return fe.frozen({key: value for key, value in toleration.items() if key != "tolerationSeconds"})

    now = {plain(toleration) for toleration in after.get("tolerations", ())}
    if any(plain(toleration) not in now for toleration in before.get("tolerations", ())):
        yield fe.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")


def _narrowed_selector(after: Json, before: Json) -> Found:
    selector = after.get("nodeSelector", {})
    for key, value in before.get("nodeSelector", {}).items():
        if selector.get(key) != value:
            detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
            yield fe.invalid("spec.nodeSelector", selector, detail)
            return


def _narrowed_affinity(after: Json, before: Json) -> Found:
    """Check required node affinity: terms are neither added nor removed, requirements only appended to filled terms."""
    path = f"affinity.nodeAffinity.{REQUIRED}"
    old, new = reach(before, path).get("nodeSelectorTerms", []), reach(after, path).get("nodeSelectorTerms", [])
    if not old:
        return
    place = f"spec.{path}.nodeSelectorTerms"
    if len(new) != len(old):
        yield fe.invalid(place, new, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (was, now) in enumerate(zip(old, new, strict=True)):
        empty = not any(was.get(part) for part in _TERM)
        extended = all(now.get(part, [])[: len(was.get(part, []))] == was.get(part, []) for part in _TERM)
        if not extended or (empty and any(now.get(part) for part in _TERM)):
            yield fe.invalid(f"{place}[{index}]", now, "only additions are allowed (no mutations or deletions)")


_TERM = ("matchExpressions", "matchFields")


def _diff(before: Json, after: Json) -> str:
    left = json.dumps(before, indent=1, sort_keys=True).splitlines()
    right = json.dumps(after, indent=1, sort_keys=True).splitlines()
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(left, right, strict=False)))
    shown = slice(max(same - 3, 0), same + _DIFF_LINES)
    lines = list(difflib.unified_diff(left[shown], right[shown], lineterm="", n=3))[2:]
    return "\n".join(lines[:_DIFF_LINES]) + "\n"
