"""Revisions of pod templates: stable hashes, and ControllerRevision objects for ``kubectl rollout``.

A revision of a StatefulSet or DaemonSet is a ControllerRevision that holds the template as a patch. Its name ends in
the hash that its pods carry in the label ``controller-revision-hash``.
"""

from __future__ import annotations

import itertools
import json

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, template_hash
from kube_rules.json import Json
from kube_standin.controllers.pod_owners import selects
from kube_standin.controllers.reconciler import Context
from kube_standin.metadata import owned_by, owner_reference


def _sorted(value: Json) -> Json:
    """Return a copy with sorted keys: clients compare the bytes of revisions with those that Go writes."""
    copy: Json = json.loads(json.dumps(value, sort_keys=True))
    return copy


class Revisions:
    """The revisions of one owner."""

    def __init__(self, context: Context, owner: Json) -> None:
        self._context = context
        self._owner = owner
        self._kind = context.kind("apps/v1", "ControllerRevision")
        self._spec: Json = owner["spec"]
        self._uid: str = owner["metadata"]["uid"]
        self._namespace: str = owner["metadata"]["namespace"]

    def all(self) -> list[Json]:
        """Return the owner's revisions, oldest first."""
        revisions = []
        for state in self._context.registry.store.heads(self._kind.storage_key, self._namespace):
            if self._uid.encode() in state.raw:
                body = state.decode()
                if self._owns(body):
                    revisions.append(body)
        return sorted(revisions, key=lambda body: int(body.get("revision", 0)))

    def name(self, digest: str) -> str:
        """Return the name of the revision with a hash."""
        return f"{self._owner['metadata']['name']}-{digest}"

    def ensure(self) -> str:
        """Make the current template the newest revision and return its hash.

        Orphans that the owner's selector matches are adopted. A revision of the name with the same data is taken
        from any owner; one with other data is a collision, which gives another hash.
        """
        self._adopt()
        template = self._owner["spec"]["template"]
        data = _sorted({"spec": {"template": {**template, "$patch": "replace"}}})
        highest = max((int(revision["revision"]) for revision in self.all()), default=0)
        for collisions in itertools.count():
            digest = template_hash(template, collisions)
            existing = self._context.find(self._kind, (self._namespace, self.name(digest)))
            if existing is None:
                self._create(digest, data, highest + 1)
                break
            if self._owns(existing):
                if int(existing["revision"]) < highest:
                    self._renumber(digest, highest + 1)
                break
            if existing.get("data") == data:
                break
        return digest

    def _owns(self, body: Json) -> bool:
        return any(owner["uid"] == self._uid for owner in body["metadata"].get("ownerReferences") or ())

    def _adopt(self) -> None:
        for state in self._context.registry.store.heads(self._kind.storage_key, self._namespace):
            if b'"controller":true' in state.raw:
                continue
            metadata = state.decode()["metadata"]
            controlled = any(owner.get("controller") for owner in metadata.get("ownerReferences") or ())
            if not controlled and "deletionTimestamp" not in metadata and selects(self._spec, metadata.get("labels")):
                self._context.modify(self._kind, (self._namespace, metadata["name"]), owned_by(self._owner))

    def _renumber(self, digest: str, revision: int) -> None:
        def newest(obj: Json) -> None:
            obj["revision"] = revision

        self._context.modify(self._kind, (self._namespace, self.name(digest)), newest)

    def _create(self, digest: str, data: Json, revision: int) -> None:
        labels = dict((self._spec["template"].get("metadata") or {}).get("labels") or {})
        body = {
            "metadata": {
                "name": self.name(digest),
                "labels": {**labels, CONTROLLER_REVISION_HASH: digest},
                "annotations": dict(self._owner["metadata"].get("annotations") or {}),
                "ownerReferences": [owner_reference(self._owner)],
            },
            "data": data,
            "revision": revision,
        }
        self._context.create(self._kind, self._namespace, body)

    def template(self, digest: str) -> Json | None:
        """Return the template of a revision, None if it does not exist."""
        revision = self._context.find(self._kind, (self._namespace, self.name(digest)))
        if revision is None:
            return None
        template: Json = {**((revision.get("data") or {}).get("spec") or {}).get("template", {})}
        template.pop("$patch", None)
        return template

    def trim(self, keep: int, in_use: set[str]) -> None:
        """Delete the oldest revisions beyond ``keep`` that no pod uses (hashes in ``in_use``)."""
        names = {self.name(digest) for digest in in_use}
        unused = [revision for revision in self.all() if revision["metadata"]["name"] not in names]
        for revision in unused[: max(0, len(unused) - keep)]:
            self._context.delete(self._kind, (self._namespace, revision["metadata"]["name"]))
