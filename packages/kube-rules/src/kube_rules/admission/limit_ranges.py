"""Limit ranges: defaults for containers without requests or limits, and bounds on requests and limits.

Rules: kube-apiserver's LimitRanger plugin (texts included); recorded answers 550 to 552. Pods and claims are checked
when they are created. Defaults come from the ``Container`` items; ``Pod`` items bound the sums. An *item* is one of
``spec.limits`` of a LimitRange, with the amounts that an API server fills in (``complete_item``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from kube_rules.admission.amounts import Amount, amounts, of_container, of_pod
from kube_rules.json import Json

ANNOTATION = "kubernetes.io/limit-ranger"
"""Pod annotation that lists the defaults that were filled in."""
_FILLED_FROM = (("max", "default"), ("default", "defaultRequest"), ("min", "defaultRequest"))


def complete_item(item: Json) -> None:
    """Fill in missing fields of an item: its default from max, its default request from default and then from min."""
    if item.get("type") == "Container":
        for source, target in _FILLED_FROM:
            if item.get(source):
                item[target] = {**item[source], **(item.get(target) or {})}


def fill_containers(spec: Json, items: Iterable[Json]) -> list[str]:
    """Set the missing requests and limits of the containers of a pod, in place; return what each item set.

    An entry reads ``cpu, memory request for container c; cpu limit for container c``.
    """
    set_by_item = []
    for item in items:
        filled: list[str] = []
        for role, containers in (("container", "containers"), ("init container", "initContainers")):
            for container in spec.get(containers) or () if item.get("type") == "Container" else ():
                for part, source in (("request", "defaultRequest"), ("limit", "default")):
                    named = _fill(container, f"{part}s", item.get(source))
                    if named:
                        filled.append(f"{', '.join(named)} {part} for {role} {container.get('name', '')}")
        if filled:
            set_by_item.append("; ".join(filled))
    return set_by_item


def refusal(resource: str, obj: Json, items: Sequence[Json]) -> str:
    """Return why an object violates the bounds of the items, in the server's words, or ""."""
    problems = list(_problems_of(resource, obj.get("spec") or {}, items))
    return problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]" if problems else ""


def _problems_of(resource: str, spec: Json, items: Sequence[Json]) -> Iterator[str]:
    if resource == "persistentvolumeclaims":
        requested = amounts((spec.get("resources") or {}).get("requests"))
        for item in _of_type(items, "PersistentVolumeClaim"):
            yield from _claim_problems(item, requested)
        return
    if resource != "pods":
        return
    for item in _of_type(items, "Container"):
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            yield from _problems(
                item, "Container", of_container(container, "requests"), of_container(container, "limits")
            )
    for item in _of_type(items, "Pod"):
        yield from _problems(item, "Pod", of_pod(spec, "requests"), of_pod(spec, "limits"))


def _of_type(items: Sequence[Json], kind: str) -> Iterator[Json]:
    return (item for item in items if item.get("type") == kind)


def _fill(container: Json, part: str, defaults: Mapping[str, Any] | None) -> list[str]:
    """Set missing values of a container to the defaults; return the resources filled in."""
    if not defaults:
        return []
    resources = container.setdefault("resources", {})
    present = resources.get(part) or {}
    missing = sorted(name for name in defaults if name not in present)
    if missing:
        resources[part] = {**present, **{name: defaults[name] for name in missing}}
    return missing


def _problems(item: Json, kind: str, requests: Mapping[str, Amount], limits: Mapping[str, Amount]) -> Iterator[str]:
    for name, low in sorted(amounts(item.get("min")).items()):
        request, limit = requests.get(name), limits.get(name)
        frame = f"minimum {name} usage per {kind} is {low.text}"
        if request is None:
            yield f"{frame}.  No request is specified"
        elif request.nano < low.nano:
            yield f"{frame}, but request is {request.text}"
        elif limit is not None and limit.nano < low.nano:
            yield f"{frame}, but limit is {limit.text}"
    for name, high in sorted(amounts(item.get("max")).items()):
        request, limit = requests.get(name), limits.get(name)
        frame = f"maximum {name} usage per {kind} is {high.text}"
        if limit is None:
            yield f"{frame}.  No limit is specified"
        elif limit.nano > high.nano:
            yield f"{frame}, but limit is {limit.text}"
        elif request is not None and request.nano > high.nano:
            yield f"{frame}, but request is {request.text}"
    for name, ratio in sorted(amounts(item.get("maxLimitRequestRatio")).items()):
        request, limit = requests.get(name), limits.get(name)
        frame = f"{name} max limit to request ratio per {kind} is {ratio.text}"
        if request is None or request.nano == 0:
            yield f"{frame}, but no request is specified or request is 0"
        elif limit is None or limit.nano == 0:
            yield f"{frame}, but no limit is specified or limit is 0"
        elif limit.nano * 10**9 > ratio.nano * request.nano:
            yield f"{frame}, but provided ratio is {limit.nano / request.nano:f}"


def _claim_problems(item: Json, requested: Mapping[str, Amount]) -> Iterator[str]:
    for word, bounds, sign in (("minimum", "min", 1), ("maximum", "max", -1)):
        for name, bound in sorted(amounts(item.get(bounds)).items()):
            frame = f"{word} {name} usage per PersistentVolumeClaim is {bound.text}"
            request = requested.get(name)
            if request is None:
                yield f"{frame}.  No request is specified"
            elif (request.nano - bound.nano) * sign < 0:
                yield f"{frame}, but request is {request.text}"
