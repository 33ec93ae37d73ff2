"""A StatefulSet with storage under `reprieve up`: its claims wait for the scheduler, its pods come and go in order."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.cluster import Json, eventually, nodes_file, pod, up

CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
VOLUMES = "/api/v1/persistentvolumes"
CLASS = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "wait"},
    "provisioner": "disk.example.com",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def database(replicas: int) -> Json:
    """Pods that mount a claim of their own."""
    spec = pod("unnamed")["spec"]
    spec["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    asked = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "db"},
        "spec": {
            "serviceName": "db",
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": spec},
            "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": asked}],
        },
    }


def test_stateful_set_with_storage_runs_scales_and_goes(tmp_path: Path) -> None:
    """scheduling.md 5, VolumeBinding: claims of a class that waits get their volumes with the choice of a node."""
    with up(tmp_path, f"--nodes-file={nodes_file(tmp_path, 'n1', 'n2')}") as cluster:
        api = cluster.api

        def bound() -> dict[str, str]:
            """Claim -> node chosen for it, once it has a volume."""
            return {
                claim["metadata"]["name"]: claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
                for claim in api.items(CLAIMS)
                if claim["status"]["phase"] == "Bound"
            }

        api.create("/apis/storage.k8s.io/v1/storageclasses", CLASS)
        api.create("/apis/apps/v1/namespaces/default/statefulsets", database(2))
        eventually(lambda: api.runs("db-0", "db-1"), "both pods")
        nodes = {f"data-{name}": one["spec"]["nodeName"] for name, one in api.pods().items()}
        assert bound() == nodes
        scale = "/apis/apps/v1/namespaces/default/statefulsets/db/scale"
        api.patch(scale, {"spec": {"replicas": 3}})
        eventually(lambda: api.runs("db-2"), "one more")
        api.patch(scale, {"spec": {"replicas": 1}})
        eventually(lambda: api.gone("db-1", "db-2"), "the last ones gone")
        assert api.runs("db-0")
        assert set(bound()) == {"data-db-0", "data-db-1", "data-db-2"}, "claims outlive their pods"
        api.delete("/apis/apps/v1/namespaces/default/statefulsets/db")
        eventually(lambda: not api.pods(), "no pod left")
        for name in bound():
            api.delete(f"{CLAIMS}/{name}")
        eventually(lambda: not api.items(CLAIMS) and not api.items(VOLUMES), "no storage left")
        assert "Traceback" not in cluster.log.read_text()
