"""The webhooks of the stored configurations, in the order of their calls.

They follow the store: a step of the chain processes every write of a configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kube_rules.admission.request_match import EXEMPT_API, EXEMPT_GROUP
from kube_rules.json import Json
from kube_standin.admission_chain import AdmissionRequest, Step
from kube_standin.admission_views import AdmissionViews, ConcernedByResource
from kube_standin.kinds import ServedKind
from kube_standin.registry import ObjectRegistry

KINDS = ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")


@dataclass(frozen=True)
class ConfiguredWebhook:
    """One webhook: the name of its configuration, and its entry."""

    configuration: str
    index: int
    entry: Mapping[str, Any]

    @property
    def name(self) -> str:
        """Return the name that error messages use."""
        return str(self.entry.get("name", ""))

    @property
    def unique_name(self) -> str:
        """Return a name that is unique among the webhooks of its kind."""
        return f"{self.configuration}/{self.index}/{self.name}"

    @property
    def ignores_failures(self) -> bool:
        """Return whether a request continues if the webhook cannot be called."""
        return self.entry.get("failurePolicy") == "Ignore"


class WebhookConfigurations(Step):
    """The configured webhooks of a registry."""

    kinds = frozenset(f"{kind.lower()}s.{EXEMPT_GROUP}" for kind in KINDS)

    def __init__(self, registry: ObjectRegistry, views: AdmissionViews) -> None:
        self._registry = registry
        self._webhooks: dict[str, tuple[ConfiguredWebhook, ...]] = {}
        self._concerned: ConcernedByResource[ConfiguredWebhook] = ConcernedByResource(registry, views)
        registry.store.undone.append(self.load)
        self.load()

    def load(self) -> None:
        """Read the configurations again."""
        self._concerned.clear()
        for name in KINDS:
            kind = self._registry.kind(EXEMPT_API, name)
            states = sorted(self._registry.store.heads(kind.storage_key), key=lambda state: state.name)
            self._webhooks[name] = tuple(
                ConfiguredWebhook(state.name, index, entry)
                for state in states
                for index, entry in enumerate(state.decode().get("webhooks") or ())
            )

    def committed(self, request: AdmissionRequest) -> None:
        """Update the webhooks after a write of a configuration."""
        self.load()

    @property
    def empty(self) -> bool:
        """Return whether no webhook is configured."""
        return not any(self._webhooks.values())

    def concerned(self, configuration: str, kind: ServedKind) -> tuple[ConfiguredWebhook, ...]:
        """Return the webhooks of a kind of configuration with a rule for a resource, in order."""
        return self._concerned.of(configuration, kind, self._webhooks[configuration], _rules)


def _rules(webhook: ConfiguredWebhook) -> Sequence[Json]:
    return webhook.entry.get("rules") or ()
