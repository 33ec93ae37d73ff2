"""A shadow on an embedded control plane: it follows another scheduler, compares, and writes nothing (shadow.md)."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from kube_standin.admission_chain import User
from kube_standin.rights import AccessDecision, Attributes
from kube_standin.security import write_kubeconfig
from kube_standin.server.control_plane import ServeOptions, serving
from reprieve.client.errors import ConfigError
from reprieve.client.kubeconfig import connect
from reprieve.client.transport import ApiClient, Limits
from reprieve.decisions.shadow import ShadowReport, decode_report
from reprieve.live.http_endpoint import ServingOptions
from reprieve.live.settings import ShadowSettings
from reprieve.live.shadow_app import ReadOnlyClient, ShadowScheduler, shadow
from tests import manifests
from tests.live.test_app import GROUPS, NAME, PODS, Cluster, Json
from tests.waiting import DEADLINE

SHADOW = "system:serviceaccount:default:shadow"
LOCAL = ServingOptions(port=0)
EXAMPLE = Path(__file__).parents[4] / "examples" / "shadow" / "report.json"


class World(Cluster):
    """A control plane, an acting scheduler and a shadow with a service account of its own."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.verbs: Counter[str] = Counter()
        """What the shadow asked for."""

    async def account(self, directory: Path) -> Path:
        """Make the shadow's service account, with the rights that it needs; its kubeconfig."""
        base = "/apis/rbac.authorization.k8s.io/v1"
        await self.client.request(
            "POST", "/api/v1/namespaces/default/serviceaccounts", body={"metadata": {"name": "shadow"}}
        )
        rules = [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]
        await self.client.request("POST", f"{base}/clusterroles", body={"metadata": {"name": "shadow"}, "rules": rules})
        binding = {
            "metadata": {"name": "shadow"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "shadow"},
            "subjects": [{"kind": "ServiceAccount", "name": "shadow", "namespace": "default"}],
        }
        await self.client.request("POST", f"{base}/clusterrolebindings", body=binding)
        path = "/api/v1/namespaces/default/serviceaccounts/shadow/token"
        answer = await self.client.request("POST", path, body={"spec": {"expirationSeconds": 3600}})
        token = answer.read(dict)["status"]["token"]
        kubeconfig = directory / "shadow.kubeconfig"
        write_kubeconfig(kubeconfig, server=self.server.url, ca=self.server.ca, token=token)
        decide = self.server.control_plane.authorizer.decide

        def counted(user: User, attributes: Attributes) -> AccessDecision:
            if user.name == SHADOW:
                self.verbs[attributes.verb] += 1
            return decide(user, attributes)

        self.server.control_plane.authorizer.decide = counted  # type: ignore[method-assign]
        return kubeconfig

    @asynccontextmanager
    async def shadowing(
        self, directory: Path, hold: float = 30.0, serving: ServingOptions = LOCAL
    ) -> AsyncIterator[ShadowScheduler]:
        kubeconfig = await self.account(directory)
        settings = replace(
            self.settings(),
            kubeconfig=str(kubeconfig),
            serving=serving,
            shadow=ShadowSettings(hold=hold, report=directory / "report.json"),
        )
        stop = asyncio.Event()
        async with shadow(settings) as found:
            task = asyncio.create_task(found.run(stop))
            try:
                await self.until(lambda _: found.feed.fed)
                yield found
                stop.set()
                await task
            finally:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)

    async def reported(self, found: ShadowScheduler, check: Callable[[ShadowReport], object]) -> ShadowReport:
        """The report, as soon as the condition holds of it."""
        loop = asyncio.get_running_loop()
        ends = loop.time() + DEADLINE
        while not check(report := found.report()):
            assert loop.time() < ends, report
            await asyncio.sleep(0.01)
        return report

    async def gang(self, name: str, *pods: str, cpu: int = 2, priority: str = "middle", by: str = NAME) -> None:
        """A gang of which all pods are needed; the group comes first."""
        await self.client.request("POST", GROUPS, body=manifests.gang(name, len(pods), priorityClassName=priority))
        for pod in pods:
            await self.pod(pod, cpu, group=name, priority=priority, by=by)


@asynccontextmanager
async def world(**options: Any) -> AsyncIterator[World]:
    async with (
        serving(ServeOptions(tls=False, controllers="*", **options)) as server,
        ApiClient(connect(server.kubeconfig), limits=Limits(qps=0.0)) as client,
    ):
        yield World(server, client)


def bound(*names: str) -> Callable[[dict[str, Json]], bool]:
    return lambda pods: all(name in pods and pods[name]["spec"].get("nodeName") for name in names)


def test_shadow_beside_itself_reports_no_differences_and_only_reads(tmp_path: Path) -> None:
    """shadow.md 1.1, 3.6: single pods, a gang, preemptions by a pod and by a gang, a gang that cannot fit."""

    async def run() -> None:
        async with world() as cluster:
            await cluster.priority("high", 1000)
            await cluster.priority("middle", 500)
            for number in range(4):
                await cluster.node(f"n{number}", cpu=2)
            async with cluster.shadowing(tmp_path) as found, cluster.scheduling() as acting:
                await cluster.until(lambda _: acting.feed.fed)
                lows = [f"low{number}" for number in range(8)]
                for name in lows:
                    await cluster.pod(name, 1, terminationGracePeriodSeconds=0)
                await cluster.until(bound(*lows))
                await cluster.pod("urgent", 2, priority="high")
                await cluster.until(bound("urgent"))
                await cluster.gang("gang", "g0", "g1")
                await cluster.until(bound("g0", "g1"))
                await cluster.gang("giant", "x0", "x1", "x2")
                await cluster.until(lambda pods: pods["x0"]["status"].get("conditions"))
                await cluster.reported(found, lambda report: report.compared >= 10)
            report = found.report()
            assert report.differences == ()
            assert sum(report.counts.values()) == 0
            assert report.compared == 10, "eight pods, the urgent one and the gang"
            assert report.not_compared == {"ActingFirst": 0, "Gone": 0}
            assert report.acting.evicted_pods == report.shadow.evicted_pods == 6
            assert report.acting.gang_wait.count == report.shadow.gang_wait.count == 1
            assert report.decisions.count >= 11
            assert set(cluster.verbs) <= {"get", "list", "watch"}, "every request is authorized, and so counted"
            assert cluster.verbs["watch"] >= 10

    asyncio.run(run())


def test_shadow_serves_and_keeps_its_report_and_its_records(tmp_path: Path) -> None:
    """shadow.md 4.2, 5.1: a gang that is not placed is starved, on /shadow, in /metrics, and in the file after the end.

    shadow.md 4.3: without the differences of the report that was there. page.md 10.2: and on the page.
    """
    (tmp_path / "report.json").write_bytes(EXAMPLE.read_bytes())

    async def run() -> None:
        async with world() as cluster:
            await cluster.priority("middle", 500)
            await cluster.node("n0", cpu=2)
            await cluster.node("n1", cpu=2)
            await cluster.pod("low", 2, terminationGracePeriodSeconds=0)
            async with cluster.shadowing(tmp_path, hold=0.2) as found:
                await cluster.gang("gang", "g0", "g1")
                report = await cluster.reported(found, lambda report: report.counts["Starved"] == 2)
                names = {difference.entity for difference in report.differences}
                assert names == {"podgroup default/gang", "pod default/low"}
                assert found.server is not None
                async with aiohttp.ClientSession() as session:
                    async with session.get(f"{found.server.url}/shadow") as answer:
                        served = decode_report(await answer.read())
                    async with session.get(f"{found.server.url}/metrics") as answer:
                        metrics = await answer.text()
                    async with session.get(f"{found.server.url}/ui/api/v1/page") as answer:
                        page = await answer.json()
                assert " 2 differences, " in page["sentences"]["shadow"]
                assert page["cluster"]["nodes"]["names"] == ["n0", "n1"]
                assert served.counts["Starved"] == 2
                assert 'reprieve_shadow_differences_total{kind="Starved"} 2.0' in metrics
                assert 'reprieve_shadow_lasting_differences{kind="Starved"} 2.0' in metrics
            kept = decode_report((tmp_path / "report.json").read_bytes())
            assert {difference.entity for difference in kept.differences} == names
            assert set(cluster.verbs) <= {"get", "list", "watch"}
            assert not any((await cluster.where()).values()), "nothing was bound"

    asyncio.run(run())


def test_shadow_serves_its_health_to_all_and_the_rest_by_its_own_token(tmp_path: Path) -> None:
    """shadow.md 1.2: beyond loopback a token that the API server knows is refused as well: it is not reviewed."""
    paths = ("/metrics", "/shadow", "/explain?kind=Pod&name=x", "/ui/api/v1/page")

    async def run() -> None:
        async with world() as cluster:
            serving = ServingOptions(host="0.0.0.0", port=0, token="a token of the endpoint")
            async with cluster.shadowing(tmp_path, serving=serving) as found:
                assert found.server is not None
                url = found.server.url.replace("0.0.0.0", "127.0.0.1")

                async def statuses(*asked: str, token: str = "") -> list[int]:
                    headers = {"Authorization": f"Bearer {token}"} if token else {}
                    async with aiohttp.ClientSession(headers=headers) as session:
                        answers = [await session.get(url + path, ssl=False) for path in asked]
                    return [answer.status for answer in answers]

                assert await statuses("/healthz", "/livez", "/readyz") == [200] * 3
                assert await statuses(*paths) == [401] * 4
                known = re.search(r"token: (\S+)", (tmp_path / "shadow.kubeconfig").read_text())
                assert known is not None
                assert await statuses(*paths, token=known[1].strip('"')) == [403] * 4
                assert await statuses(*paths, token="a token of the endpoint") == [200] * 4
            assert set(cluster.verbs) <= {"get", "list", "watch"}

    asyncio.run(run())


def test_client_of_a_shadow_refuses_to_write() -> None:
    """shadow.md 1.1: whatever part asks for it."""

    async def run() -> None:
        async with world() as cluster, ReadOnlyClient(connect(cluster.server.kubeconfig)) as client:
            for method in ("POST", "PUT", "PATCH", "DELETE"):
                with pytest.raises(ConfigError, match=f"{method} {PODS}/a: a shadow writes nothing"):
                    await client.request(method, f"{PODS}/a", body={})
            assert (await client.get(PODS)).read(dict)["items"] == []

    asyncio.run(run())
