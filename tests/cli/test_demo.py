"""The worked example: ends as it must, and says so by its exit code."""

from dataclasses import replace
from typing import Any

import pytest

from reprieve.simulation import demo
from tests.cli.conftest import Run


def test_demo_reaches_the_expected_outcome(run: Run) -> None:
    ended = run("demo")
    assert (ended.code, ended.err) == (0, "")
    assert "gang default/train  8/8 pods placed" in ended.out
    assert "group default/nightly" in ended.out
    assert "Nobody is evicted." in ended.out


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"scheduled": 7}, "8 pods placed, expected 7"),
        ({"evicted": ("default/sweep",)}, "expected: default/sweep"),
    ],
)
def test_demo_fails_when_something_else_happens(
    changes: dict[str, Any], told: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "ACTS", (replace(demo.ACTS[0], **changes), *demo.ACTS[1:]))
    ended = run("demo")
    assert ended.code == 1
    assert ended.err.startswith("unexpected: Act 1")
    assert told in ended.err


def test_every_gpu_of_the_demo_cluster_is_taken() -> None:
    """What the story says of the cluster is true."""
    from reprieve.api.loading import load

    manifests = load([demo.DIRECTORY / "cluster.yaml"])
    gpus = [int(pod.object.spec.containers[0].resources.requests["nvidia.com/gpu"]) for pod in manifests.pods]
    assert (len(manifests.nodes), sum(gpus)) == (16, 128)
