"""kill -9 of the real server while controllers and kubelets are at work: everything ends as if nothing had happened.

``REPRIEVE_CHAOS=full`` kills it 20 times.
"""

from __future__ import annotations

import os
import random
import threading
from pathlib import Path
from typing import Any

from tests.clients.cluster import client, eventually, running

ROUNDS = 20 if os.environ.get("REPRIEVE_CHAOS") == "full" else 3
COMPLETIONS = 3 * ROUNDS


def template(name: str, seconds: float | None) -> Any:
    annotations = {"reprieve.dev/run-seconds": str(seconds)} if seconds is not None else {}
    return client.V1PodTemplateSpec(
        metadata=client.V1ObjectMeta(labels={"app": name}, annotations=annotations),
        spec=client.V1PodSpec(
            restart_policy="Always" if seconds is None else "Never",
            containers=[client.V1Container(name="c", image="i")],
        ),
    )


def start_work(api: Any) -> None:
    metadata = client.V1ObjectMeta(name="work")
    job = client.V1JobSpec(
        completions=COMPLETIONS, parallelism=2, completion_mode="Indexed", template=template("work", 0.5)
    )
    client.BatchV1Api(api).create_namespaced_job("default", client.V1Job(metadata=metadata, spec=job))
    selector = client.V1LabelSelector(match_labels={"app": "web"})
    deployment = client.V1DeploymentSpec(replicas=4, selector=selector, template=template("web", None))
    made = client.V1Deployment(metadata=client.V1ObjectMeta(name="web"), spec=deployment)
    client.AppsV1Api(api).create_namespaced_deployment("default", made)


def test_killed_while_everything_moves(tmp_path: Path) -> None:
    chance = random.Random(7)
    for number in range(ROUNDS):
        with running(tmp_path) as cluster:
            api = cluster.api()
            if number == 0:
                start_work(api)
            else:
                image = {"spec": {"template": {"metadata": {"annotations": {"round": str(number)}}}}}
                client.AppsV1Api(api).patch_namespaced_deployment("web", "default", image)
            threading.Event().wait(chance.uniform(0.3, 1.5))  # no condition: the moment of death is random
            cluster.process.kill()
            cluster.process.wait()
    with running(tmp_path) as cluster:
        api = cluster.api()
        batch, apps, core = client.BatchV1Api(api), client.AppsV1Api(api), client.CoreV1Api(api)

        def job_is_complete() -> bool:
            status = batch.read_namespaced_job_status("work", "default").status
            return any(one.type == "Complete" and one.status == "True" for one in status.conditions or ())

        eventually(job_is_complete, "the Job to complete")
        status = batch.read_namespaced_job_status("work", "default").status
        assert (status.succeeded, status.failed) == (COMPLETIONS, None)
        assert status.completed_indexes == f"0-{COMPLETIONS - 1}"
        pods = core.list_namespaced_pod("default", label_selector="app=work").items
        indexes = [one.metadata.labels["batch.kubernetes.io/job-completion-index"] for one in pods]
        assert sorted(map(int, indexes)) == list(range(COMPLETIONS))

        def is_rolled_out() -> bool:
            found = apps.read_namespaced_deployment("web", "default")
            status = found.status
            updated = (status.updated_replicas, status.replicas, status.available_replicas) == (4, 4, 4)
            return bool(updated and status.observed_generation == found.metadata.generation)

        eventually(is_rolled_out, "the rollout")
        eventually(
            lambda: len(core.list_namespaced_pod("default", label_selector="app=web").items) == 4, "old pods to go"
        )
