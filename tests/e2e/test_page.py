"""The page of `reprieve up`: what it shows of a running cluster, and What if on it (page.md 7, 8)."""

from __future__ import annotations

import gzip
import json
import urllib.request
from pathlib import Path

from playwright.sync_api import expect

from tests.e2e.cluster import PODS, Json, Up, eventually, nodes_file, pod, up
from tests.outside import CHROMIUM
from tests.page.browser import chromium, opened
from tests.waiting import DEADLINE

MANIFEST = """
apiVersion: v1
kind: Pod
metadata: {name: asked}
spec: {containers: [{name: c, image: x, resources: {requests: {cpu: "3"}}}]}
"""


def fetched(up: Up, path: str, question: Json | None = None) -> bytes:
    body = json.dumps(question).encode() if question is not None else None
    asked = urllib.request.Request(f"{up.scheduler_url}/ui/{path}", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(asked, timeout=DEADLINE) as answer:
        found: bytes = answer.read()
        return gzip.decompress(found) if answer.headers["Content-Encoding"] == "gzip" else found


def shown(up: Up) -> dict[str, str]:
    """Pods of the page, and their nodes."""
    cluster = json.loads(fetched(up, "api/v1/page"))["cluster"]
    nodes = [*cluster["nodes"]["names"], ""]
    return dict(zip(cluster["pods"]["names"], (nodes[at] for at in cluster["pods"]["nodes"]), strict=True))


def test_page_of_a_running_cluster(tmp_path: Path) -> None:
    """page.md 7.3: pods appear as they are bound; 8.1: a question changes nothing; both in a browser, too."""
    with up(tmp_path, f"--filename={nodes_file(tmp_path, 'n1', 'n2')}") as cluster:
        assert b"<title>reprieve</title>" in fetched(cluster, "")
        pods = PODS.format(namespace="default")
        cluster.api.create(pods, pod("there", cpu="3", node="n1"))
        eventually(lambda: shown(cluster) == {"there": "n1"}, "the page showing the pod")
        planned = json.loads(fetched(cluster, "api/v1/whatif", {"manifests": MANIFEST, "changes": ["--cordon n2"]}))
        assert planned["sentences"]["plan"].startswith("0 of 1 pods placed, 1 pending.")
        assert [(made["change"]) for made in planned["plan"]["changes"]] == ["--cordon n2"]
        assert list(cluster.api.pods()) == ["there"]
        if CHROMIUM is None:
            return
        url = f"{cluster.scheduler_url}/ui/"
        with chromium() as browser, opened(browser, url, own=cluster.scheduler_url) as page:
            expect(page.locator("#sentence")).to_contain_text("1 pod on 2 nodes")
            cluster.api.create(pods, pod("later", cpu="3"))
            expect(page.locator("#sentence")).to_contain_text("2 pods on 2 nodes", timeout=30_000)
