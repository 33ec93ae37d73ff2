"""Webhooks: servers that the configurations of a cluster name, called over TLS within bounds.

`reach` decides which addresses may be called, `exchange` sends one request over one connection, `calls` shares
connections and bounds what all calls take together.
"""

from kube_standin.webhooks.calls import CallLimits, WebhookCaller
from kube_standin.webhooks.reach import WebhookCallError, WebhookReach, webhook_reach

__all__ = ["CallLimits", "WebhookCallError", "WebhookCaller", "WebhookReach", "webhook_reach"]
