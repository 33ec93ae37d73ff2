"""A controller for JobSets and LeaderWorkerSets, as small as can be: what they call for is made, gangs included.

For a cluster of `reprieve up` on which their operators do not run, and to see how a controller uses the Workload API:
first a PodGroup for what has to run together, then pods that name it. It knows replicas, parallelism and sizes, and
nothing of restarts, rollouts, policies or status. Run it beside the cluster:

    kubectl apply -f examples/controllers/crds.yaml
    python examples/controllers/gangs.py "$KUBECONFIG"

A JobSet gets a PodGroup for each replicated job, as these may start one after the other, and its Jobs; a
LeaderWorkerSet gets a PodGroup and the pods of leader and workers for each replica. Everything belongs to its owner, so
that deleting that deletes all.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

Json = dict[str, Any]
GROUPS = "scheduling.k8s.io/v1"
JOBSET = "jobset.sigs.k8s.io/"
LWS = "leaderworkerset.sigs.k8s.io/"
WATCHED = {
    "/apis/jobset.x-k8s.io/v1alpha2/jobsets": ("jobset.x-k8s.io/v1alpha2", "JobSet"),
    "/apis/leaderworkerset.x-k8s.io/v1/leaderworkersets": ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
}
PLURALS = {"PodGroup": "podgroups", "Job": "jobs", "Pod": "pods"}


def wanted(owner: Json) -> Iterator[Json]:
    """The objects that a JobSet or LeaderWorkerSet calls for, groups before their pods."""
    yield from of_job_set(owner) if owner["kind"] == "JobSet" else of_leader_worker_set(owner)


def of_job_set(owner: Json) -> Iterator[Json]:
    """A PodGroup for each replicated job, and its Jobs."""
    name = owner["metadata"]["name"]
    for replicated in owner["spec"].get("replicatedJobs") or ():
        part, replicas = replicated["name"], replicated.get("replicas", 1)
        spec: Json = replicated["template"]["spec"]
        template = spec["template"]
        group = f"{name}-{part}"
        yield pod_group(owner, group, replicas * spec.get("parallelism", 1), template["spec"])
        for index in range(replicas):
            labels = {
                f"{JOBSET}jobset-name": name,
                f"{JOBSET}replicatedjob-name": part,
                f"{JOBSET}job-index": str(index),
            }
            pods = in_group(template, group, labels)
            meta = meta_of(owner, f"{group}-{index}", labels)
            yield {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": {**spec, "template": pods}}


def of_leader_worker_set(owner: Json) -> Iterator[Json]:
    """A PodGroup for each replica, and the pods of its leader and workers."""
    name, spec = owner["metadata"]["name"], owner["spec"]
    templates, size = spec["leaderWorkerTemplate"], spec["leaderWorkerTemplate"].get("size", 1)
    for replica in range(spec.get("replicas", 1)):
        group = f"{name}-{replica}"
        yield pod_group(owner, group, size, templates["workerTemplate"]["spec"])
        for worker in range(size):
            template = (
                templates["workerTemplate"]
                if worker
                else templates.get("leaderTemplate") or templates["workerTemplate"]
            )
            labels = {
                f"{LWS}name": name,
                f"{LWS}group-index": str(replica),
                f"{LWS}worker-index": str(worker),
            }
            pod = in_group(template, group, labels)
            meta = meta_of(owner, f"{group}-{worker}" if worker else group, pod["metadata"]["labels"])
            meta["annotations"] = {**(pod["metadata"].get("annotations") or {}), f"{LWS}size": str(size)}
            yield {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": pod["spec"]}


def pod_group(owner: Json, name: str, least: int, pod_spec: Json) -> Json:
    """All of them or none; the group has the class of its pods."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": least}}}
    if pod_spec.get("priorityClassName"):
        spec["priorityClassName"] = pod_spec["priorityClassName"]
    return {"apiVersion": GROUPS, "kind": "PodGroup", "metadata": meta_of(owner, name, {}), "spec": spec}


def in_group(template: Json, group: str, labels: Json) -> Json:
    """The template of pods that name the group."""
    meta = template.get("metadata") or {}
    return {
        "metadata": {**meta, "labels": {**(meta.get("labels") or {}), **labels}},
        "spec": {**template["spec"], "schedulingGroup": {"podGroupName": group}},
    }


def meta_of(owner: Json, name: str, labels: Json) -> Json:
    """Metadata of an object that goes with its owner."""
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
    reference |= {key: owner["metadata"][key] for key in ("name", "uid")}
    return {"name": name, "namespace": owner["metadata"]["namespace"], "labels": labels, "ownerReferences": [reference]}


class Server:
    """The API server of a kubeconfig with a token, as `reprieve up` writes it."""

    def __init__(self, kubeconfig: Path) -> None:
        config = yaml.safe_load(kubeconfig.read_text())
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        self._url, self._token = cluster["server"], user["token"]
        ca = base64.b64decode(cluster["certificate-authority-data"]).decode()
        self._context = ssl.create_default_context(cadata=ca)

    def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """The answer. Raises urllib.error.HTTPError."""
        request = urllib.request.Request(
            self._url + path,
            method=method,
            data=json.dumps(body).encode() if body is not None else None,
            headers={"Authorization": f"Bearer {self._token}", "Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, context=self._context, timeout=30) as answer:
            found: Json = json.load(answer)
            return found


def reconcile(server: Server) -> int:
    """Make what is missing; returns how many objects were made. What exists is left as it is."""
    made = 0
    for path, (api_version, kind) in WATCHED.items():
        try:
            owners = server.request("GET", path)["items"]
        except urllib.error.HTTPError as error:
            if error.code != 404:
                raise
            continue  # not installed
        for owner in owners:
            if owner["metadata"].get("deletionTimestamp"):
                continue
            for each in wanted({**owner, "apiVersion": api_version, "kind": kind}):
                version = each["apiVersion"]
                root = f"/apis/{version}" if "/" in version else f"/api/{version}"
                at = f"{root}/namespaces/{each['metadata']['namespace']}/{PLURALS[each['kind']]}"
                try:
                    server.request("POST", at, each)
                    made += 1
                except urllib.error.HTTPError as error:
                    if error.code != 409:
                        raise
    return made


def main(kubeconfig: str) -> None:
    """Look once a second until interrupted."""
    server, pause = Server(Path(kubeconfig)), threading.Event()
    while not pause.wait(1.0):
        made = reconcile(server)
        if made:
            print(f"made {made} objects", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
