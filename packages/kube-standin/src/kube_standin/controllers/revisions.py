"""Revisions of pod templates: stable hashes, and ControllerRevision objects for ``kubectl rollout``.

A revision of a StatefulSet or DaemonSet is a ControllerRevision that holds the template as a patch. Its name ends in
the hash that its pods carry in the label ``controller-revision-hash``.
"""

from __future__ import annotations

import copy

from kube_rules.controllers.pods import CONTROLLER_REVISION_HASH, template_hash
from kube_rules.json import Json
from kube_standin.controllers.reconciler import Context
from kube_standin.metadata import owner_reference


class Revisions:
    """The revisions of one owner."""

    def __init__(self, context: Context, owner: Json) -> None:
        self._context = context
        self._owner = owner
        self._kind = context.kind("apps/v1", "ControllerRevision")
        self._uid: str = owner["metadata"]["uid"]
        self._namespace: str = owner["metadata"]["namespace"]

    def all(self) -> list[Json]:
        """Return the owner's revisions, oldest first."""
        revisions = []
        for state in self._context.registry.store.heads(self._kind.storage_key, self._namespace):
            if self._uid.encode() in state.raw:
                body = state.decode()
                if any(owner["uid"] == self._uid for owner in body["metadata"].get("ownerReferences") or ()):
                    revisions.append(body)
        return sorted(revisions, key=lambda body: int(body.get("revision", 0)))

    def name(self, digest: str) -> str:
        """Return the name of the revision with a hash."""
        return f"{self._owner['metadata']['name']}-{digest}"

    def ensure(self) -> str:
        """Make the current template the newest revision and return its hash."""
        template = self._owner["spec"]["template"]
        digest = template_hash(template)
        present = self.all()
        highest = max((int(revision["revision"]) for revision in present), default=0)
        same = next((revision for revision in present if revision["metadata"]["name"] == self.name(digest)), None)
        if same is not None:
            if int(same["revision"]) < highest:

                def newest(obj: Json) -> None:
                    obj["revision"] = highest + 1

                self._context.modify(self._kind, (self._namespace, self.name(digest)), newest)
            return digest
        labels = dict((template.get("metadata") or {}).get("labels") or {})
        annotations = self._owner["metadata"].get("annotations") or {}
        revision = {
            "metadata": {
                "name": self.name(digest),
                "labels": {**labels, CONTROLLER_REVISION_HASH: digest},
                "annotations": dict(annotations),
                "ownerReferences": [owner_reference(self._owner)],
            },
            "data": {"spec": {"template": {**copy.deepcopy(template), "$patch": "replace"}}},
            "revision": highest + 1,
        }
        self._context.create(self._kind, self._namespace, revision)
        return digest

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
