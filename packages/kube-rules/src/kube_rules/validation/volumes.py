"""Rules of the volumes of a pod: a unique name, exactly one source, and the fields that the source requires.

Sources that only a kubelet or a driver reads (cloud disks, iscsi, rbd and the like) are not checked.
"""

from __future__ import annotations

from kube_rules import field_errors as fe
from kube_rules.json import Json
from kube_rules.validation import names, resources
from kube_rules.validation import rows as r

_LAST_MODE = 0o777
_HOST_PATHS = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def one_source(*non_sources: str) -> r.Check:
    """Return the check that a volume has exactly one source: a field that is not one of `non_sources`."""

    def check(volume: Json, path: str) -> r.Found:
        sources = [name for name in volume if name not in non_sources]
        if not sources:
            yield fe.required(path, "must specify a volume type")
        for name in sources[1:]:
            yield fe.forbidden(f"{path}.{name}", "may not specify more than 1 volume type")

    return check


def _default_mode(holder: Json, path: str) -> r.Found:
    mode = holder["defaultMode"]
    if mode is not None and not 0 <= mode <= _LAST_MODE:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        yield fe.invalid(f"{path}.defaultMode", mode, detail)


def _no_way_up(holder: Json, path: str) -> r.Found:
    """Check that no step of a path leads out of its root."""
    if ".." in holder["path"].split("/"):
        yield fe.invalid(f"{path}.path", holder["path"], "must not contain '..'")


_MODE = r.OptionalField("defaultMode", _default_mode)


def _inside(item: Json, path: str) -> r.Found:
    """Check a file of the volume."""
    where = item.get("path", "")
    if not where:
        yield fe.required(f"{path}.path")
    elif where.startswith("/"):
        yield fe.invalid(f"{path}.path", where, "must be a relative path")
    elif ".." in where.split("/"):
        yield fe.invalid(f"{path}.path", where, "must not contain '..'")


def _absolute(source: Json, path: str) -> r.Found:
    where = source.get("path", "")
    if not where:
        yield fe.required(f"{path}.path")
    elif not where.startswith("/"):
        yield fe.invalid(f"{path}.path", where, "must be an absolute path")


def _size(source: Json, path: str) -> r.Found:
    if resources.nano(source["sizeLimit"]) < 0:
        yield fe.forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _claim(spec: Json, path: str) -> r.Found:
    """Check the required fields of a claim that is created with its pod."""
    if not spec.get("accessModes"):
        yield fe.required(f"{path}.accessModes", "at least 1 access mode is required")
    if "storage" not in r.reach(spec, "resources.requests"):
        yield fe.required(f"{path}.resources[storage]")


_FILES = r.listed("items", r.required("key"), _inside)
volumes = r.listed(
    "volumes",
    r.wanted("name", names.dns_label),
    r.Unique("name"),
    one_source("name"),
    r.given("persistentVolumeClaim", r.required("claimName")),
    r.given(
        "hostPath", r.required("path"), r.OptionalField("path", _no_way_up), r.enum("type", _HOST_PATHS, missing=None)
    ),
    r.given("emptyDir", r.OptionalField("sizeLimit", _size)),
    r.given("secret", r.required("secretName"), _MODE, _FILES),
    r.given("configMap", r.required("name"), _MODE, _FILES),
    r.given("nfs", r.required("server"), _absolute),
    r.given("csi", r.required("driver")),
    r.given("ephemeral", r.required("volumeClaimTemplate"), r.given("volumeClaimTemplate", r.below("spec", _claim))),
)
"""Check the volumes of a pod."""
