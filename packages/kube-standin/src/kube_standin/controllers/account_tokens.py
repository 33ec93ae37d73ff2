"""Tokens in Secrets of the type kubernetes.io/service-account-token (interfaces.md 5.16)."""

from __future__ import annotations

import base64
from typing import Final

from kube_rules.json import Json
from kube_standin.controllers.reconciler import Controller
from kube_standin.controllers.views import Key, ObjectView
from kube_standin.deletion import DeleteOptions
from kube_standin.security import BoundObject

SECRET_TYPE: Final = "kubernetes.io/service-account-token"
NAME: Final = "kubernetes.io/service-account.name"
UID: Final = "kubernetes.io/service-account.uid"
_MARK: Final = f'"{SECRET_TYPE}"'.encode()


class AccountTokens(Controller):
    """The controller that fills token Secrets and deletes those without an account; keys are those of Secrets."""

    name = "serviceaccount-token"

    def connect(self) -> None:
        """Watch Secrets and service accounts; a deleted account takes its Secrets with it."""
        self._accounts: dict[Key, Key] = {}
        """The service account that each Secret names."""
        sources = self.context.sources
        self._secret_row = self.context.kind("v1", "Secret")
        self._account_row = self.context.kind("v1", "ServiceAccount")
        sources.of("secrets", ObjectView).add_handler(self._secret_changed)
        sources.of("serviceaccounts", ObjectView).add_handler(self._account_changed)

    def _secret_changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if new is not None or (old is not None and old.metadata.key in self._accounts):
            self.queue((new or old).metadata.key)  # type: ignore[union-attr]

    def _account_changed(self, old: ObjectView | None, new: ObjectView | None) -> None:
        if old is not None and new is None:
            for secret, account in self._accounts.items():
                if account == old.metadata.key:
                    self.queue(secret)

    def reconcile(self, key: Key) -> None:
        """Fill in the missing entries of a Secret, or delete it."""
        state = self.context.registry.head(self._secret_row, *key)
        secret = state.decode() if state is not None and _MARK in state.raw else {}
        if secret.get("type") != SECRET_TYPE:
            account = self._accounts.pop(key, None)
            if account is not None and state is None:
                self._drop_reference(account, key[1])
            return
        notes = secret["metadata"].get("annotations") or {}
        owner = self._accounts[key] = (key[0], notes.get(NAME, ""))
        body = self.context.find(self._account_row, owner)
        if body is None or notes.get(UID) not in (None, "", body["metadata"]["uid"]):
            self.context.delete(self._secret_row, key, DeleteOptions(uid=secret["metadata"]["uid"]))
            return
        missing = self._missing(key, body, secret.get("data") or {})
        if missing:
            self._fill(key, body, missing)

    def _missing(self, key: Key, account: Json, data: Json) -> Json:
        """Return the missing entries of a Secret, in base64."""
        tokens, uid, missing = self.context.tokens, account["metadata"]["uid"], {}
        authority = _encoded(self.context.ca_certificate)
        if authority and data.get("ca.crt") != authority:
            missing["ca.crt"] = authority
        if not data.get("namespace"):
            missing["namespace"] = _encoded(key[0])
        if not data.get("token") and tokens is not None:
            bound = BoundObject("serviceaccounts", key[0], account["metadata"]["name"], uid)
            missing["token"] = _encoded(tokens.issue_lasting(bound, key[1]))
        return missing

    def _fill(self, key: Key, account: Json, missing: Json) -> None:
        name, uid = account["metadata"]["name"], account["metadata"]["uid"]

        def change(obj: Json) -> None:
            obj["data"] = {**(obj.get("data") or {}), **missing}
            notes = obj["metadata"].get("annotations") or {}
            obj["metadata"]["annotations"] = {**notes, NAME: name, UID: uid}

        self.context.modify(self._secret_row, key, change)

    def _drop_reference(self, account: Key, secret: str) -> None:
        """Remove a deleted Secret from the list of its service account."""
        body = self.context.find(self._account_row, account)
        if body is None or all(entry.get("name") != secret for entry in body.get("secrets") or ()):
            return

        def change(obj: Json) -> None:
            obj["secrets"] = [entry for entry in obj["secrets"] if entry.get("name") != secret]

        self.context.modify(self._account_row, account, change)


def _encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
