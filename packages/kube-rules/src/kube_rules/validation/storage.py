"""Rules of volumes, claims, storage classes, CSI objects and device claims."""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import devices, names, resources, selectors
from kube_rules.validation import rows as r
from kube_rules.validation.volumes import one_source

_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALLOCATION = ("All", "ExactCount")
NO_SOURCE = (
    "accessModes", "capacity", "claimRef", "mountOptions", "nodeAffinity", "persistentVolumeReclaimPolicy",
    "storageClassName", "volumeAttributesClassName", "volumeMode",
)  # fmt: skip
"""Fields of a volume's spec that are not sources."""
_MODE = r.enum("volumeMode", ("Block", "Filesystem"), missing=None)


def _access_modes(spec: Json, path: str) -> r.Found:
    modes, place = spec.get("accessModes", ()), f"{path}.accessModes"
    if not modes:
        yield fe.required(place)
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield fe.not_supported(place, mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        yield fe.forbidden(place, "may not use ReadWriteOncePod with other access modes")


def _capacity(spec: Json, path: str) -> r.Found:
    capacity, place = spec.get("capacity", {}), f"{path}.capacity"
    if not capacity:
        yield fe.required(place)
    elif set(capacity) != {"storage"}:
        yield fe.not_supported(place, capacity, ("storage",))
    for name, text in capacity.items():
        yield from resources.positive(text, f"{place}[{name}]")


def _inside(source: Json, path: str) -> r.Found:
    if ".." in source.get("path", "").split("/"):
        yield fe.invalid(f"{path}.path", source["path"], "must not contain '..'")


volume = r.below(
    "spec",
    _access_modes,
    _capacity,
    one_source(*NO_SOURCE),
    r.given("hostPath", _inside),
    r.enum("persistentVolumeReclaimPolicy", ("Delete", "Recycle", "Retain")),
    _MODE,
    r.below("nodeAffinity", r.given("required", selectors.node_selector)),
)
"""Check that a persistent volume has a capacity and one source."""


def same_source(new: Json, old: Json) -> r.Found:
    """Check that the source of a volume does not change."""
    after, before = new.get("spec", {}), old.get("spec", {})
    if any(after.get(name) != before.get(name) for name in {*after, *before} - {*NO_SOURCE}):
        detail = "spec.persistentvolumesource is immutable after creation"
        yield fe.forbidden("spec.persistentvolumesource", detail)


def same_affinity(new: Json, old: Json) -> r.Found:
    """Check that the node affinity of a volume does not change once it is set."""
    return r.fixed("spec", "nodeAffinity")(new, old) if "nodeAffinity" in old.get("spec", {}) else ()


def _requested(spec: Json, path: str) -> r.Found:
    amount, place = r.reach(spec, "resources.requests").get("storage"), f"{path}.resources[storage]"
    return (fe.required(place),) if amount is None else resources.positive(amount, place)


claim = r.below(
    "spec",
    _access_modes,
    r.given("selector", selectors.label_selector),
    _requested,
    r.formed("storageClassName", names.subdomain),
    _MODE,
)
"""Check a claim for a volume."""


def same_claim(new: Json, old: Json) -> r.Found:
    """Check that a claim only grows and is bound."""
    after, before = new.get("spec", {}), old.get("spec", {})
    unset = [name for name in ("volumeName", "storageClassName") if not before.get(name)]
    free = (*(("resources", "volumeAttributesClassName") if before.get("volumeName") else ()), *unset)
    if any(after.get(name) != before.get(name) for name in {*after, *before} - {*free}):
        detail = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield fe.forbidden("spec", detail)
    was, now = (r.reach(spec, "resources.requests").get("storage", "0") for spec in (before, after))
    if resources.nano(now) < resources.nano(was):
        yield fe.forbidden("spec.resources.requests.storage", "field can not be less than status.capacity")


storage_class = r.all_of(
    r.wanted("provisioner", lambda text: names.qualified(text.lower())),
    r.enum("reclaimPolicy", ("Delete", "Retain")),
    r.enum("volumeBindingMode", ("Immediate", "WaitForFirstConsumer")),
)
"""Check a class of volumes."""
class_changes: tuple[r.Change, ...] = (
    *(r.locked(name, f"updates to {name} are forbidden.") for name in ("parameters", "provisioner", "reclaimPolicy")),
    r.fixed("", "volumeBindingMode"),
)
"""Check that only expansion, mount options and topologies of a class change."""
csi_node = r.below(
    "spec",
    r.listed(
        "drivers",
        r.required("name"),
        r.Unique("name", empty=False),
        r.required("nodeID"),
        r.below("allocatable", r.at_least(0, "count")),
    ),
)
"""Check that drivers of a node are unique."""
_FILE_SYSTEM_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")


def _lifecycles(spec: Json, path: str) -> r.Found:
    for mode in spec.get("volumeLifecycleModes", ()):
        if mode not in ("Persistent", "Ephemeral"):
            yield fe.not_supported(f"{path}.volumeLifecycleModes", mode, ("Persistent", "Ephemeral"))


csi_driver = r.below("spec", r.enum("fsGroupPolicy", _FILE_SYSTEM_POLICIES, missing=None), _lifecycles)
"""Check the settings of a driver."""


def capacity(obj: Json, _: str) -> r.Found:
    """Check the capacity for volumes of a class: not negative."""
    yield from fe.malformed("storageClassName", obj.get("storageClassName", ""), names.subdomain)
    for name in ("capacity", "maximumVolumeSize"):
        if name in obj and resources.nano(obj[name]) < 0:
            yield fe.invalid(name, obj[name], r.NOT_NEGATIVE)


def attachment(obj: Json, _: str) -> r.Found:
    """Check for one volume, a driver and a node."""
    spec = obj.get("spec", {})
    source = spec.get("source", {})
    yield from r.required("attacher")(spec, "spec")
    if ("inlineVolumeSpec" in source) == bool(source.get("persistentVolumeName")):
        yield fe.required("spec.source", "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    yield from fe.malformed("spec.nodeName", spec.get("nodeName", ""), names.subdomain)


def _alternatives(request: Json, path: str) -> r.Found:
    exact, first = request.get("exactly"), request.get("firstAvailable", ())
    if (exact is None) == (not first):
        detail = "exactly one of `exactly` or `firstAvailable` is required"
        yield fe.required(path, detail) if exact is None else fe.invalid(path, request.get("name", ""), detail)


def _count(request: Json, path: str) -> r.Found:
    mode, count = request.get("allocationMode", ""), request.get("count", 0)
    if mode not in _ALLOCATION:
        yield fe.not_supported(f"{path}.allocationMode", mode, _ALLOCATION)
    elif mode == "ExactCount" and count <= 0:
        yield fe.invalid(f"{path}.count", count, r.POSITIVE)
    elif mode == "All" and count:
        yield fe.invalid(f"{path}.count", count, "must not be specified when allocationMode is 'All'")


_DEVICE_REQUEST = (r.wanted("deviceClassName", names.subdomain), devices.selectors, _count)
resource_claim = r.below(
    "spec.devices",
    r.listed(
        "requests",
        r.wanted("name", names.dns_label),
        r.Unique("name"),
        _alternatives,
        r.given("exactly", *_DEVICE_REQUEST),
        r.listed("firstAvailable", *_DEVICE_REQUEST),
        most=32,
        stops=False,
    ),
)
"""Check requests for devices: each has a name and a class."""
resource_claim_template = r.below("spec", resource_claim)
"""Check the claim in a template."""
