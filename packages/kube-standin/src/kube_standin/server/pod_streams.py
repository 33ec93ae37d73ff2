"""Subresources of pods that lead to a container: its log, and exec, attach and portforward.

Containers are simulated. A log has the state changes of its container; the other subresources are refused with one
clear message, whatever protocol a client requests.
"""

from __future__ import annotations

import asyncio
import re
from contextlib import suppress

from kube_rules.json import Json
from kube_standin import errors
from kube_standin.errors import StatusError
from kube_standin.kinds import ServedKind
from kube_standin.kubelet.logs import LogOptions, container_of, is_running, log_lines, read_log_options, rendered
from kube_standin.registry import ObjectRegistry
from kube_standin.server.responses import Reply, Send
from kube_standin.server.target import Target

_TEXT = "text/plain"
_PORT = re.compile(r"[0-9]{1,5}", re.ASCII)
_DOES = {"exec": "run a command in", "attach": "attach to", "portforward": "forward ports to"}


def connection_options(target: Target) -> Json:
    """Return the options of an exec, attach or portforward for webhooks, without kind and apiVersion."""
    sent: dict[str, list[str]] = {}
    for name, value in target.parameters:
        sent.setdefault(name, []).append(value)
    if target.subresource == "portforward":
        numbers = [int(text) for texts in sent.get("ports", []) for text in texts.split(",") if _PORT.fullmatch(text)]
        return {"ports": numbers} if numbers else {}
    out: Json = {}
    for name in ("stdin", "stdout", "stderr", "tty"):
        stated = sent.get(name)
        if stated[0].lower() not in ("0", "false") if stated else name in ("stdout", "stderr"):
            out[name] = True
    if sent.get("container", [""])[0]:
        out["container"] = sent["container"][0]
    if target.subresource == "exec" and sent.get("command"):
        out["command"] = sent["command"]
    return out


def refuse_connection(registry: ObjectRegistry, kind: ServedKind, target: Target) -> StatusError:
    """Return the refusal of exec, attach and portforward; raises StatusError if a kubelet would first (404, 400)."""
    pod = _pod(registry, kind, target)
    name = pod["metadata"]["name"]
    container = ""
    if target.subresource != "portforward":
        container = container_of(pod, target.query.get("container", ""))
    if not (pod.get("spec") or {}).get("nodeName"):
        raise errors.bad_request(f"pod {name} does not have a host assigned")
    subject = f"container {container} of pod {name}" if container else f"pod {name}"
    why = f"cannot {_DOES[target.subresource]} {subject}: the node is simulated and no process is behind it"
    return StatusError(501, "NotImplemented", why)


def _pod(registry: ObjectRegistry, kind: ServedKind, target: Target) -> Json:
    return registry.view(kind, registry.get_state(kind, target.namespace, target.name))


class PodLog:
    """One request for a log."""

    def __init__(self, registry: ObjectRegistry, kind: ServedKind, target: Target) -> None:
        self._registry = registry
        self._kind = kind
        self._target = target
        pod = _pod(registry, kind, target)
        self._uid = pod["metadata"]["uid"]
        self.options: LogOptions = read_log_options(target.query, target.name, registry.clock.now())
        self._container = container_of(pod, self.options.container)
        self.has_node = bool((pod.get("spec") or {}).get("nodeName"))

    def reply(self) -> Reply:
        """Return the log up to now; no content (204) for a pod without a node, and thus without a kubelet."""
        if not self.has_node:
            return Reply(204, b"")
        pod = _pod(self._registry, self._kind, self._target)
        return Reply(
            200, rendered(log_lines(pod, self._container, previous=self.options.previous), self.options), _TEXT
        )

    async def follow(self, send: Send, disconnected: asyncio.Event) -> None:
        """Send the log until the container ends or the client disconnects; raises StatusError before the first byte."""
        store, target = self._registry.store, self._target
        pod = _pod(self._registry, self._kind, target)
        lines = log_lines(pod, self._container)
        subscription = store.subscribe(
            self._kind.storage_key, target.namespace, match=lambda state: state.name == target.name
        )
        leaving = asyncio.ensure_future(disconnected.wait())
        try:
            headers = [(b"content-type", _TEXT.encode()), (b"cache-control", b"no-cache, private")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            first_part = rendered(lines, self.options)
            sent = len(first_part)
            await send({"type": "http.response.body", "body": first_part, "more_body": True})
            while is_running(pod, self._container) and not self._at_limit(sent):
                waiting = asyncio.ensure_future(subscription.wait())
                await asyncio.wait({waiting, leaving}, return_when=asyncio.FIRST_COMPLETED)
                if leaving.done():
                    waiting.cancel()
                    return
                current = None
                if not (subscription.overflowed or subscription.closed):
                    subscription.take()
                    current = self._registry.find(self._kind, target.namespace, target.name)
                if current is None or current["metadata"]["uid"] != self._uid:
                    break
                pod = current
                with suppress(StatusError):
                    present = log_lines(pod, self._container)
                    new = [line for line in present if line not in lines]
                    lines = present
                    piece = rendered(new, LogOptions(timestamps=self.options.timestamps))
                    if self.options.limit is not None:
                        piece = piece[: self.options.limit - sent]
                    sent += len(piece)
                    if piece:
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            leaving.cancel()
            store.unsubscribe(subscription)

    def _at_limit(self, sent: int) -> bool:
        return self.options.limit is not None and sent >= self.options.limit
