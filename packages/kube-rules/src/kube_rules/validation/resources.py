"""Rules of resource names and amounts: requests, limits, capacity."""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules import quantity
from kube_rules.caching import remembered
from kube_rules.errors import FieldError
from kube_rules.json import Json
from kube_rules.requests import CONTAINER_RESOURCES
from kube_rules.validation import names
from kube_rules.validation.rows import NOT_NEGATIVE, POSITIVE, Found, Unique, listed, required

NO_LIMIT = "Limit must be set for non overcommitable resources"
_NATIVE_PREFIX = "kubernetes.io/"


def nano(text: str) -> int:
    """Return an amount in units of 10^-9, 0 for a malformed quantity: `well_formed` reports it."""
    return _nano(text) if type(text) is str else _nano(str(text))


@remembered(16384)
def _nano(text: str) -> int:
    try:
        return quantity.parse(text).nano
    except quantity.QuantityError:
        return 0


@remembered(1024)
def is_native(name: str) -> bool:
    """Return whether a resource is native (cpu, memory), not a vendor's."""
    return "/" not in name or _NATIVE_PREFIX in name


@remembered(1024)
def is_extended(name: str) -> bool:
    """Return whether a resource is a vendor's (nvidia.com/gpu): counted in whole units, never overcommitted."""
    return not is_native(name) and not name.startswith("requests.") and not names.qualified("requests." + name)


@remembered(1024)
def _may_overcommit(name: str) -> bool:
    return is_native(name) and not name.startswith("hugepages-")


@remembered(1024)
def _container_name_errors(name: str) -> tuple[str, ...]:
    result = names.qualified(name)
    if result:
        return result
    if "/" not in name:
        if name not in CONTAINER_RESOURCES and not name.startswith("hugepages-"):
            return ("must be a standard resource for containers",)
    elif not is_native(name) and not is_extended(name):
        return ("doesn't follow extended resource name standard",)
    return ()


def well_formed(text: str, path: str) -> list[FieldError]:
    """Check the format of a quantity; the API server's decoder does this, but plain inputs are not decoded."""
    try:
        quantity.parse(text)
    except quantity.QuantityError as error:
        return [fe.invalid(path, error.text, error.reason)]
    return []


def amount(name: str, text: str, path: str) -> Found:
    """Check that an amount is a quantity, not negative, and whole for resources in whole units."""
    malformed = well_formed(text, path)
    if malformed:
        return malformed
    value = nano(text)
    result = [fe.invalid(path, text, NOT_NEGATIVE)] if value < 0 else []
    if value % quantity.NANO and (is_extended(name) or name == "pods"):
        result.append(fe.invalid(path, text, "must be an integer"))
    return result


def requirements(needs: Json, path: str) -> Found:
    """Check the requests and limits of a container or a pod."""
    limits, requests = needs.get("limits", {}), needs.get("requests", {})
    for name, text in limits.items():
        if name not in CONTAINER_RESOURCES or nano(text) <= 0:
            yield from _one(name, text, f"{path}.limits[{name}]")
    for name, text in requests.items():
        value = nano(text)
        if name not in CONTAINER_RESOURCES or value <= 0:
            yield from _one(name, text, f"{path}.requests[{name}]")
        if name in limits:
            limit = limits[name]
            if limit == text:
                continue
            above = value - nano(limit)
            if above and not _may_overcommit(name):
                detail = f"must be equal to {name} limit of {limit}"
                yield fe.invalid(f"{path}.requests", text, detail)
            elif above > 0:
                detail = f"must be less than or equal to {name} limit of {limit}"
                yield fe.invalid(f"{path}.requests", text, detail)
        elif not _may_overcommit(name):
            yield fe.required(f"{path}.limits", NO_LIMIT)
    mentioned = {*limits, *requests}
    if mentioned.isdisjoint(("cpu", "memory")) and any(name.startswith("hugepages-") for name in mentioned):
        yield fe.forbidden(path, "HugePages require cpu or memory")
    yield from _CLAIMS(needs, path)


_CLAIMS = listed(
    "claims",
    required("name"),
    Unique("name", "request", place="", shown=lambda claim: "/".join(filter(None, _claim(claim))), empty=False),
)


def _claim(claim: Json) -> tuple[str, str]:
    return claim.get("name", ""), claim.get("request", "")


def _one(name: str, text: str, path: str) -> Found:
    for message in _container_name_errors(name):
        yield fe.invalid(path, name, message)
    yield from amount(name, text, path)
    if name.startswith(_HUGE) and not _whole_pages(name, text):
        yield fe.invalid(path, text, f"{text} is not positive integer multiple of {name}")


_HUGE = "hugepages-"


def _whole_pages(name: str, text: str) -> bool:
    """Return whether an amount of huge pages is a whole number of pages of the size in the name."""
    try:
        size = quantity.parse(name.removeprefix(_HUGE)).nano
    except ValueError:
        return False
    return size > 0 and nano(text) > 0 and nano(text) % size == 0


def capacity(amounts: Json, path: str) -> Found:
    """Check the capacity or allocatable of a node, or the capacity of a volume."""
    for name, text in amounts.items():
        yield from fe.malformed(f"{path}.{name}", name, names.qualified)
        yield from amount(name, text, f"{path}.{name}")


def positive(text: str, path: str) -> Found:
    """Check that an amount is greater than zero."""
    if nano(text) <= 0:
        yield fe.invalid(path, text, POSITIVE)
