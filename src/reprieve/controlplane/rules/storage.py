"""Rules of volumes, claims, storage classes, CSI objects and of claims for devices."""

from __future__ import annotations

from collections.abc import Iterator

from reprieve.api.json import Json
from reprieve.controlplane.rules import devices, names, resources, selectors
from reprieve.controlplane.schema import field_errors as fe
from reprieve.controlplane.schema.field_errors import FieldError

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING = ("Immediate", "WaitForFirstConsumer")
_VOLUME_MODES = ("Block", "Filesystem")
_IMMUTABLE = "field is immutable"
_ALLOCATION = ("All", "ExactCount")
# Fields of a volume's spec that are no source of it.
_NO_SOURCE = frozenset(
    [
        "accessModes",
        "capacity",
        "claimRef",
        "mountOptions",
        "nodeAffinity",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "volumeAttributesClassName",
        "volumeMode",
    ]
)


def _access_modes(spec: Json, path: str) -> Iterator[FieldError]:
    modes = spec.get("accessModes", ())
    if not modes:
        yield fe.required(f"{path}.accessModes")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield fe.not_supported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        said = "may not use ReadWriteOncePod with other access modes"
        yield fe.forbidden(f"{path}.accessModes", said)


def volume(obj: Json) -> Iterator[FieldError]:
    """A persistent volume has a capacity and one source."""
    spec = obj.get("spec", {})
    yield from _access_modes(spec, "spec")
    capacity = spec.get("capacity", {})
    if not capacity:
        yield fe.required("spec.capacity")
    elif set(capacity) != {"storage"}:
        yield fe.not_supported("spec.capacity", capacity, ("storage",))
    for name, text in capacity.items():
        yield from resources.positive(text, f"spec.capacity[{name}]")
    sources = [name for name in spec if name not in _NO_SOURCE]
    if not sources:
        yield fe.required("spec", "must specify a volume type")
    for name in sources[1:]:
        yield fe.forbidden(f"spec.{name}", "may not specify more than 1 volume type")
    policy = spec.get("persistentVolumeReclaimPolicy", "")
    if policy not in _RECLAIM:
        yield fe.not_supported("spec.persistentVolumeReclaimPolicy", policy, _RECLAIM)
    mode = spec.get("volumeMode", "Filesystem")
    if mode not in _VOLUME_MODES:
        yield fe.not_supported("spec.volumeMode", mode, _VOLUME_MODES)
    required = spec.get("nodeAffinity", {}).get("required")
    if required is not None:
        yield from selectors.node_selector(required, "spec.nodeAffinity.required")


def volume_update(new: Json, old: Json) -> Iterator[FieldError]:
    """The source and the mode stay."""
    yield from volume(new)
    after, before = new.get("spec", {}), old.get("spec", {})
    for name in {*after, *before} - _NO_SOURCE:
        if after.get(name) != before.get(name):
            said = "spec.persistentvolumesource is immutable after creation"
            yield fe.forbidden("spec.persistentvolumesource", said)
            break
    if after.get("volumeMode") != before.get("volumeMode"):
        yield fe.invalid("spec.volumeMode", after.get("volumeMode"), _IMMUTABLE)
    if "nodeAffinity" in before and after.get("nodeAffinity") != before["nodeAffinity"]:
        yield fe.invalid("spec.nodeAffinity", after.get("nodeAffinity"), _IMMUTABLE)


def claim(obj: Json) -> Iterator[FieldError]:
    """A claim for a volume."""
    yield from claim_spec(obj.get("spec", {}), "spec")


def claim_spec(spec: Json, path: str) -> Iterator[FieldError]:
    """The spec of a claim, wherever it stands."""
    yield from _access_modes(spec, path)
    if "selector" in spec:
        yield from selectors.label_selector(spec["selector"], f"{path}.selector")
    requested = spec.get("resources", {}).get("requests", {}).get("storage")
    if requested is None:
        yield fe.required(f"{path}.resources[storage]")
    else:
        yield from resources.positive(requested, f"{path}.resources[storage]")
    name = spec.get("storageClassName")
    if name:
        yield from fe.malformed(f"{path}.storageClassName", name, names.subdomain)
    mode = spec.get("volumeMode", "Filesystem")
    if mode not in _VOLUME_MODES:
        yield fe.not_supported(f"{path}.volumeMode", mode, _VOLUME_MODES)


def claim_update(new: Json, old: Json) -> Iterator[FieldError]:
    """A claim grows and is bound; else it stays."""
    yield from claim(new)
    after, before = new.get("spec", {}), old.get("spec", {})
    free = ["resources", "volumeAttributesClassName"]
    if not before.get("volumeName"):
        free.append("volumeName")
    if not before.get("storageClassName"):
        free.append("storageClassName")
    rest = {key: value for key, value in after.items() if key not in free}
    if rest != {key: value for key, value in before.items() if key not in free}:
        said = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield fe.forbidden("spec", said)
    was = before.get("resources", {}).get("requests", {}).get("storage", "0")
    now = after.get("resources", {}).get("requests", {}).get("storage", "0")
    if resources.nano(now) < resources.nano(was):
        said = "field can not be less than status.capacity"
        yield fe.forbidden("spec.resources.requests.storage", said)


def storage_class(obj: Json) -> Iterator[FieldError]:
    """A class of volumes."""
    provisioner = obj.get("provisioner", "")
    if not provisioner:
        yield fe.required("provisioner")
    else:
        for message in names.qualified(provisioner.lower()):
            yield fe.invalid("provisioner", provisioner, message)
    if obj.get("reclaimPolicy") not in ("Delete", "Retain"):
        yield fe.not_supported("reclaimPolicy", obj.get("reclaimPolicy"), ("Delete", "Retain"))
    if obj.get("volumeBindingMode") not in _BINDING:
        yield fe.not_supported("volumeBindingMode", obj.get("volumeBindingMode"), _BINDING)


def storage_class_update(new: Json, old: Json) -> Iterator[FieldError]:
    """Only expansion, mount options and topologies may change."""
    if new.get("parameters") != old.get("parameters"):
        yield fe.forbidden("parameters", "updates to parameters are forbidden.")
    if new.get("provisioner") != old.get("provisioner"):
        yield fe.forbidden("provisioner", "updates to provisioner are forbidden.")
    if new.get("reclaimPolicy") != old.get("reclaimPolicy"):
        yield fe.forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden.")
    if new.get("volumeBindingMode") != old.get("volumeBindingMode"):
        yield fe.invalid("volumeBindingMode", new.get("volumeBindingMode"), _IMMUTABLE)


def csi_node(obj: Json) -> Iterator[FieldError]:
    """Drivers of a node, each once."""
    seen: set[str] = set()
    for index, driver in enumerate(obj.get("spec", {}).get("drivers", ())):
        place, name = f"spec.drivers[{index}]", driver.get("name", "")
        if not name:
            yield fe.required(f"{place}.name")
        elif name in seen:
            yield fe.duplicate(f"{place}.name", name)
        seen.add(name)
        if not driver.get("nodeID"):
            yield fe.required(f"{place}.nodeID")
        count = driver.get("allocatable", {}).get("count", 0)
        if count < 0:
            yield fe.invalid(f"{place}.allocatable.count", count, "must be greater than or equal to 0")


def resource_claim(obj: Json) -> Iterator[FieldError]:
    """A claim for devices."""
    yield from device_claim(obj.get("spec", {}).get("devices", {}), "spec.devices")


def resource_claim_template(obj: Json) -> Iterator[FieldError]:
    """The claim inside a template."""
    inner = obj.get("spec", {}).get("spec", {})
    yield from device_claim(inner.get("devices", {}), "spec.spec.devices")


def device_claim(claimed: Json, path: str) -> Iterator[FieldError]:
    """Requests for devices, each with a name and a class."""
    seen: set[str] = set()
    requests = claimed.get("requests", ())
    if len(requests) > 32:
        yield fe.too_many(f"{path}.requests", len(requests), 32)
    for index, request in enumerate(requests):
        place, name = f"{path}.requests[{index}]", request.get("name", "")
        yield from fe.wanted(f"{place}.name", name, names.dns_label)
        if name in seen:
            yield fe.duplicate(f"{place}.name", name)
        seen.add(name)
        exact, first = request.get("exactly"), request.get("firstAvailable", ())
        if (exact is None) == (not first):
            said = "exactly one of `exactly` or `firstAvailable` is required"
            yield fe.required(place, said) if exact is None else fe.invalid(place, name, said)
        if exact is not None:
            yield from _device_request(exact, f"{place}.exactly")
        for at, wanted in enumerate(first):
            yield from _device_request(wanted, f"{place}.firstAvailable[{at}]")


def _device_request(wanted: Json, place: str) -> Iterator[FieldError]:
    name = wanted.get("deviceClassName", "")
    yield from fe.wanted(f"{place}.deviceClassName", name, names.subdomain)
    yield from devices.selectors(wanted.get("selectors") or (), f"{place}.selectors")
    mode, count = wanted.get("allocationMode", ""), wanted.get("count", 0)
    if mode not in _ALLOCATION:
        yield fe.not_supported(f"{place}.allocationMode", mode, _ALLOCATION)
    elif mode == "ExactCount" and count <= 0:
        yield fe.invalid(f"{place}.count", count, "must be greater than zero")
    elif mode == "All" and count:
        said = "must not be specified when allocationMode is 'All'"
        yield fe.invalid(f"{place}.count", count, said)


def spec_fixed(new: Json, old: Json) -> Iterator[FieldError]:
    """Kinds whose spec never changes."""
    if new.get("spec") != old.get("spec"):
        yield fe.invalid("spec", new.get("spec"), _IMMUTABLE)


def resource_slice(obj: Json) -> Iterator[FieldError]:
    """Driver, pool and devices of a slice."""
    spec = obj.get("spec", {})
    driver, pool = spec.get("driver", ""), spec.get("pool", {})
    yield from fe.wanted("spec.driver", driver, names.subdomain)
    if not pool.get("name"):
        yield fe.required("spec.pool.name")
    if pool.get("resourceSliceCount", 0) <= 0:
        said = "must be greater than zero"
        yield fe.invalid("spec.pool.resourceSliceCount", pool.get("resourceSliceCount", 0), said)
    seen: set[str] = set()
    for index, device in enumerate(spec.get("devices", ())):
        name = device.get("name", "")
        if not name:
            yield fe.required(f"spec.devices[{index}].name")
        elif name in seen:
            yield fe.duplicate(f"spec.devices[{index}].name", name)
        seen.add(name)
