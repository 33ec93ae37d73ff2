"""LimitRange at the door: defaults for containers without amounts, and bounds on those with.

Rules: kube-apiserver's LimitRanger plugin (texts included); recorded answers 550 to 552. Pods and claims are
checked when they are created. Defaults come from the ``Container`` items; ``Pod`` items bound the sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from reprieve.api.json import Json
from reprieve.controlplane.admission_chain import Request, Step
from reprieve.controlplane.amounts import Amount, amounts, of_container, of_pod

_RANGES = "limitranges"
_ANNOTATION = "kubernetes.io/limit-ranger"


class LimitRanger(Step):
    """Applies every LimitRange of the namespace to new pods and claims."""

    kinds = frozenset(("pods", "persistentvolumeclaims"))

    def mutate(self, request: Request) -> None:
        """Fill in default requests and limits of containers."""
        if request.operation != "CREATE" or request.subresource or request.kind.plural != "pods":
            return
        for item in _items(request, "Container"):
            self._default(request.new, item)

    def validate(self, request: Request) -> None:
        """Refuse what is out of bounds (403)."""
        if request.operation != "CREATE" or request.subresource:
            return
        problems = list(self._problems(request))
        if problems:
            why = problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]"
            raise request.refused(why)

    @staticmethod
    def _default(pod: Json, item: Json) -> None:
        spec = pod.get("spec") or {}
        filled: list[str] = []
        for role, containers in (("container", "containers"), ("init container", "initContainers")):
            for container in spec.get(containers) or ():
                for part, source in (("request", "defaultRequest"), ("limit", "default")):
                    named = _fill(container, f"{part}s", item.get(source))
                    if named:
                        filled.append(f"{', '.join(named)} {part} for {role} {container.get('name', '')}")
        if not filled:
            return
        metadata = pod["metadata"]
        annotations = metadata["annotations"] = dict(metadata.get("annotations") or {})
        before = annotations.get(_ANNOTATION)
        text = "; ".join(filled)
        annotations[_ANNOTATION] = f"{before}; {text}" if before else f"LimitRanger plugin set: {text}"

    @staticmethod
    def _problems(request: Request) -> Iterator[str]:
        spec = request.new.get("spec") or {}
        if request.kind.plural == "persistentvolumeclaims":
            asked = amounts((spec.get("resources") or {}).get("requests"))
            for item in _items(request, "PersistentVolumeClaim"):
                yield from _claim_problems(item, asked)
            return
        for item in _items(request, "Container"):
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                yield from _problems(
                    item, "Container", of_container(container, "requests"), of_container(container, "limits")
                )
        for item in _items(request, "Pod"):
            yield from _problems(item, "Pod", of_pod(spec, "requests"), of_pod(spec, "limits"))


def _items(request: Request, kind: str) -> Iterator[Json]:
    for state in request.registry.store.heads(_RANGES, request.namespace):
        for item in (state.decode().get("spec") or {}).get("limits") or ():
            if item.get("type") == kind:
                yield item


def _fill(container: Json, part: str, defaults: Mapping[str, Any] | None) -> list[str]:
    """Put defaults where the container has none; returns the resources filled in."""
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
        asked, limit = requests.get(name), limits.get(name)
        frame = f"minimum {name} usage per {kind} is {low.text}"
        if asked is None:
            yield f"{frame}.  No request is specified"
        elif asked.nano < low.nano:
            yield f"{frame}, but request is {asked.text}"
        elif limit is not None and limit.nano < low.nano:
            yield f"{frame}, but limit is {limit.text}"
    for name, high in sorted(amounts(item.get("max")).items()):
        asked, limit = requests.get(name), limits.get(name)
        frame = f"maximum {name} usage per {kind} is {high.text}"
        if limit is None:
            yield f"{frame}.  No limit is specified"
        elif limit.nano > high.nano:
            yield f"{frame}, but limit is {limit.text}"
        elif asked is not None and asked.nano > high.nano:
            yield f"{frame}, but request is {asked.text}"
    for name, ratio in sorted(amounts(item.get("maxLimitRequestRatio")).items()):
        asked, limit = requests.get(name), limits.get(name)
        frame = f"{name} max limit to request ratio per {kind} is {ratio.text}"
        if asked is None or asked.nano == 0:
            yield f"{frame}, but no request is specified or request is 0"
        elif limit is None or limit.nano == 0:
            yield f"{frame}, but no limit is specified or limit is 0"
        elif limit.nano * 10**9 > ratio.nano * asked.nano:
            yield f"{frame}, but provided ratio is {limit.nano / asked.nano:f}"


def _claim_problems(item: Json, asked: Mapping[str, Amount]) -> Iterator[str]:
    for word, bounds, sign in (("minimum", "min", 1), ("maximum", "max", -1)):
        for name, bound in sorted(amounts(item.get(bounds)).items()):
            frame = f"{word} {name} usage per PersistentVolumeClaim is {bound.text}"
            one = asked.get(name)
            if one is None:
                yield f"{frame}.  No request is specified"
            elif (one.nano - bound.nano) * sign < 0:
                yield f"{frame}, but request is {one.text}"
