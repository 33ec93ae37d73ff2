"""Words that are the same in every cluster and thus identify nothing; anonymous snapshots replace all others.

Each table is closed. A format (such as "in a domain of Kubernetes") is no reason to keep a text: a user may choose any
text of that format.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from kube_rules.topology_terms import INDEXES

KEYS: Final = frozenset(
    (
        *("kubernetes.io/hostname", "kubernetes.io/arch", "kubernetes.io/os", "kubernetes.io/metadata.name"),
        *("beta.kubernetes.io/hostname", "beta.kubernetes.io/arch", "beta.kubernetes.io/os"),
        *("topology.kubernetes.io/zone", "topology.kubernetes.io/region"),
        *("topology.kubernetes.io/block", "topology.kubernetes.io/rack"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
        *("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "node.kubernetes.io/windows-build"),
        *("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable", "node.kubernetes.io/unschedulable"),
        *("node.kubernetes.io/memory-pressure", "node.kubernetes.io/disk-pressure"),
        *("node.kubernetes.io/pid-pressure", "node.kubernetes.io/network-unavailable"),
        *("node.kubernetes.io/out-of-service", "node.kubernetes.io/exclude-from-external-load-balancers"),
        *("node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown"),
        *("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/worker"),
        *(f"app.kubernetes.io/{part}" for part in ("name", "instance", "version", "component", "part-of")),
        *("app.kubernetes.io/managed-by", "apps.kubernetes.io/pod-index", "statefulset.kubernetes.io/pod-name"),
        *("batch.kubernetes.io/job-name", "batch.kubernetes.io/controller-uid"),
        "batch.kubernetes.io/job-completion-index",
        *("jobset.sigs.k8s.io/jobset-name", "jobset.sigs.k8s.io/replicatedjob-name"),
        "leaderworkerset.sigs.k8s.io/name",
        *(key for keys in INDEXES for key in keys if key),
        *("kueue.x-k8s.io/queue-name", "kueue.x-k8s.io/priority-class"),
    )
)
"""Keys of labels and taints."""
PLATFORMS: Final = frozenset(
    ("amd64", "arm64", "arm", "386", "ppc64le", "s390x", "riscv64", "linux", "windows", "darwin")
)
"""Architectures and operating systems."""
CLASSES: Final = frozenset(("system-cluster-critical", "system-node-critical"))
"""Priority classes."""
OWNERS: Final = frozenset(
    {
        *((group, kind) for group, kinds in (("", "Pod Node ReplicationController"),) for kind in kinds.split()),
        *(("apps", kind) for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")),
        *(("batch", kind) for kind in ("Job", "CronJob")),
        *(("scheduling.k8s.io", kind) for kind in ("PodGroup", "CompositePodGroup", "Workload")),
        *(("jobset.x-k8s.io", "JobSet"), ("leaderworkerset.x-k8s.io", "LeaderWorkerSet")),
    }
)
"""API group and kind of owners."""
_VERSION: Final = re.compile(r"v\d{1,2}((alpha|beta)\d{1,2})?")
DRIVERS: Final = frozenset(
    (
        *("ebs.csi.aws.com", "efs.csi.aws.com", "fsx.csi.aws.com", "pd.csi.storage.gke.io"),
        *("filestore.csi.storage.gke.io", "disk.csi.azure.com", "file.csi.azure.com", "blob.csi.azure.com"),
        *("cinder.csi.openstack.org", "csi.vsphere.vmware.com", "pxd.portworx.com", "driver.longhorn.io"),
        *("rook-ceph.rbd.csi.ceph.com", "rook-ceph.cephfs.csi.ceph.com", "rbd.csi.ceph.com", "cephfs.csi.ceph.com"),
        *("nfs.csi.k8s.io", "smb.csi.k8s.io", "hostpath.csi.k8s.io", "secrets-store.csi.k8s.io"),
        *(f"kubernetes.io/{name}" for name in ("no-provisioner", "aws-ebs", "gce-pd", "azure-disk", "azure-file")),
        *(f"kubernetes.io/{name}" for name in ("cinder", "vsphere-volume", "portworx-volume", "rbd", "host-path")),
        *("rancher.io/local-path", "k8s.io/minikube-hostpath"),
    )
)
"""Drivers and provisioners of volumes."""
_RESOURCES: Final = re.compile(
    r"cpu|memory|storage|ephemeral-storage|pods|hugepages-\d{1,4}[KMG]i|nvidia\.com/(gpu(\.shared)?|mig-\d\w?g\.\d{1,3}gb)"
    r"|amd\.com/gpu|gpu\.intel\.com/(i915|xe)|habana\.ai/gaudi|google\.com/tpu|aws\.amazon\.com/neuron(core|device)?"
    r"|vpc\.amazonaws\.com/(efa|pod-eni)|services(\.loadbalancers|\.nodeports)?|configmaps|secrets|resourcequotas"
    r"|persistentvolumeclaims|replicationcontrollers|alibabacloud\.com/gpu-milli"
    r"|count/(pods|services|secrets|configmaps|persistentvolumeclaims|jobs\.batch|cronjobs\.batch|deployments\.apps"
    r"|replicasets\.apps|statefulsets\.apps|daemonsets\.apps|podgroups\.scheduling\.k8s\.io)"
)
_FIGURE: Final = re.compile(
    r"[+-]?\d{1,30}(\.\d{1,30})?([eE][+-]?\d{1,3}|[numkMGTPE]i?|Ki|%)?"  # a quantity, a percentage
    r"|(\d{1,12}(\.\d{1,12})?(ns|us|µs|ms|s|m|h))+"  # a duration
    r"|\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)"  # a time
)
_WORDS_IN_LINES: Final = """
    true false yes no True False Unknown
    Always OnFailure Never Restart RestartAllContainers TCP UDP SCTP
    ReadWriteOnce ReadOnlyMany ReadWriteMany ReadWriteOncePod Block Filesystem
    DoNotSchedule ScheduleAnyway Honor Ignore PreemptLowerPriority
    In NotIn Exists DoesNotExist Gt Lt Equal NoSchedule PreferNoSchedule NoExecute
    Pending Running Succeeded Failed Guaranteed Burstable BestEffort
    IfHealthyBudget AlwaysAllow Immediate WaitForFirstConsumer Retain Delete Recycle
    Available Bound Released Lost Active Terminating NotTerminating NotBestEffort CrossNamespacePodAffinity
    PriorityClass PersistentVolumeClaim Container Pod
    Inqueue Completed PreScheduling Scheduling Scheduled Finished
    Whole Protect Respect exec noexec suid nosuid dev nodev ro rw
    Unschedulable SchedulingGated SchedulerError PreemptionByScheduler DeletionByTaintManager EvictionByEvictionAPI
    DeletionByPodGC TerminationByKubelet DeletionByDeviceTaintManager Deferred Infeasible PodCompleted
    KubeletReady KubeletNotReady NodeStatusUnknown KubeletHasSufficientMemory KubeletHasNoDiskPressure
    KubeletHasSufficientPID
"""
_WORDS: Final = frozenset(_WORDS_IN_LINES.split())
"""The values of fields for which an API server accepts no others."""


def is_public(text: str) -> bool:
    """Return whether a text is a value of an enumeration, a number, an amount, a duration or a time."""
    return text in _WORDS or _FIGURE.fullmatch(text) is not None


def is_public_resource(name: str) -> bool:
    """Return whether a resource is one of Kubernetes or of a common device plugin."""
    return _RESOURCES.fullmatch(name) is not None


def is_public_owner(version: str, kind: str) -> bool:
    """Return whether an apiVersion and kind are those of a common controller."""
    group, _, version = version.rpartition("/")
    return (group, kind) in OWNERS and _VERSION.fullmatch(version) is not None


@functools.cache
def field_names() -> frozenset[str]:
    """Return the names of the fields of objects."""

    def all_below(kind: type[msgspec.Struct]) -> Iterable[type[msgspec.Struct]]:
        for item in kind.__subclasses__():
            yield item
            yield from all_below(item)

    return frozenset(
        field.encode_name
        for kind in all_below(msgspec.Struct)
        if kind.__module__.startswith("kube_rules.")
        for field in msgspec.structs.fields(kind)
    )
