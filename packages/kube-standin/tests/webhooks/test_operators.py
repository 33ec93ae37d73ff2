"""What operators with webhooks need of the server: their webhooks see the writes of built-in controllers too.

An operator gives pods of a Job a label when they are made, checks pods that are ended, and marks Jobs; its webhooks are
real ones, over TLS, so the controllers wait for them.
"""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kube_standin.server.control_plane import ServeOptions
from kube_standin.webhooks import webhook_reach
from tests.server.live import Live, live
from tests.waiting import eventually
from tests.webhooks.answering import hooks, http

Json = dict[str, Any]
JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs", "/api/v1/namespaces/default/pods"
MERGE = {"Content-Type": "application/merge-patch+json"}


def answer_of(review: Json, seen: list[tuple[str, str]]) -> Json:
    """Label new pods, refuse those of a Job named bad, allow the rest."""
    request = review["request"]
    seen.append((request["operation"], request["resource"]["resource"]))
    response: Json = {"uid": request["uid"], "allowed": True}
    if request["operation"] == "CREATE" and request["resource"]["resource"] == "pods":
        labels = request["object"]["metadata"]["labels"]
        if labels["job-name"] == "bad":
            response |= {"allowed": False, "status": {"message": "not this one"}}
        else:
            patch = json.dumps([{"op": "add", "path": "/metadata/labels/seen", "value": "yes"}]).encode()
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(patch).decode()}
    return {**review, "response": response}


def with_operator(directory: Path, work: Callable[[Live, list[tuple[str, str]]], None]) -> None:
    """Do something on a server with an operator beside it."""
    seen: list[tuple[str, str]] = []

    async def respond(body: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(http(json.dumps(answer_of(json.loads(body), seen)).encode()))

    async def main() -> None:
        async with hooks(directory, respond) as running:
            reach = webhook_reach(services=[f"system/hooks=127.0.0.1:{running.port}"])
            await asyncio.to_thread(serve, reach, running.service())

    def serve(reach: Any, client_config: Json) -> None:
        with live(ServeOptions(controllers="*", webhooks=reach)) as server:
            rules = [{"apiGroups": ["", "batch"], "apiVersions": ["v1"], "operations": ["CREATE", "DELETE"],
                      "resources": ["pods", "jobs"]}]  # fmt: skip
            webhook = {"name": "pods.example.com", "clientConfig": client_config, "rules": rules,
                       "sideEffects": "None", "admissionReviewVersions": ["v1"]}  # fmt: skip
            path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
            status, _, _ = server.request("POST", path, {"metadata": {"name": "hooks"}, "webhooks": [webhook]})
            assert status == 201
            work(server, seen)

    asyncio.run(main())


def job(name: str, count: int, **spec: Any) -> Json:
    """A Job of some pods."""
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {
        "metadata": {"name": name},
        "spec": {"parallelism": count, "completions": count, "template": template, **spec},
    }


def pods_of(server: Live, name: str) -> list[Json]:
    """The pods of a Job."""
    found = server.request("GET", f"{PODS}?labelSelector=job-name%3D{name}")[1]["items"]
    return [pod for pod in found if "deletionTimestamp" not in pod["metadata"]]


def test_pods_of_a_job_pass_the_webhooks(tmp_path: Path) -> None:
    def work(server: Live, seen: list[tuple[str, str]]) -> None:
        server.request("POST", JOBS, job("good", 8))
        pods = eventually(lambda: found if len(found := pods_of(server, "good")) == 8 else [])
        assert {pod["metadata"]["labels"]["seen"] for pod in pods} == {"yes"}
        assert len({pod["metadata"]["uid"] for pod in pods}) == 8
        assert seen.count(("CREATE", "pods")) == 8

    with_operator(tmp_path, work)


def test_refusal_is_an_event_of_the_job(tmp_path: Path) -> None:
    def work(server: Live, seen: list[tuple[str, str]]) -> None:
        server.request("POST", JOBS, job("bad", 1))
        events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dbad"

        def refused() -> str:
            items = server.request("GET", events)[1]["items"]
            return next((str(one["message"]) for one in items if one["reason"] == "FailedCreate"), "")

        message = eventually(refused)
        assert message == 'Error creating: admission webhook "pods.example.com" denied the request: not this one'

    with_operator(tmp_path, work)


def test_failed_gang_is_counted_though_its_pods_wait_for_webhooks(tmp_path: Path) -> None:
    """interfaces.md 6.8: the other pods of the Job end through a webhook, and its failure is not lost."""

    def work(server: Live, seen: list[tuple[str, str]]) -> None:
        server.request("POST", JOBS, job("gang", 4, backoffLimit=0))
        pods = eventually(lambda: found if len(found := pods_of(server, "gang")) == 4 else [])
        failed = {"status": {"phase": "Failed"}}
        path = f"{PODS}/{pods[0]['metadata']['name']}/status"
        assert server.request("PATCH", path, failed, headers=MERGE)[0] == 200

        def over() -> Json:
            status: Json = server.request("GET", f"{JOBS}/gang")[1]["status"]
            return status if any(one["type"] == "Failed" for one in status.get("conditions", ())) else {}

        status = eventually(over)
        # Pods that a failed Job ends count as failed.
        assert (status["failed"], status["conditions"][0]["reason"]) == (4, "BackoffLimitExceeded")
        assert ("DELETE", "pods") in seen

    with_operator(tmp_path, work)
