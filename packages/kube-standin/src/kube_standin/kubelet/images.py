"""Images that simulated kubelets cannot pull: those with a tag that says so.

Rules: interfaces.md 7.20.
"""

from __future__ import annotations

from typing import NamedTuple

from kube_rules.json import Json

IMAGE_BACKOFF = "ImagePullBackOff"
_ABSENT_TAGS = (":404", ":nonexistent", ":non-existent")


class Refusal(NamedTuple):
    """Why a container cannot be created: the reason and message of its state, and the message of the event."""

    reason: str
    message: str
    event: str


def pull_failure(image: str) -> Refusal | None:
    """Return why an image cannot be pulled, or None."""
    if not image.endswith(_ABSENT_TAGS):
        return None
    return Refusal(IMAGE_BACKOFF, f'Back-off pulling image "{image}"', f'Failed to pull image "{image}": not found')


def pull_failures(spec: Json) -> dict[str, Refusal]:
    """Return the containers of a pod spec, by name, that have an image that cannot be pulled."""
    containers = (container for part in ("initContainers", "containers") for container in spec.get(part) or ())
    failures = {container["name"]: pull_failure(container.get("image") or "") for container in containers}
    return {name: failure for name, failure in failures.items() if failure is not None}
