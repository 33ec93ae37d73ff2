"""Webhooks: servers that the cluster's configurations name, called over TLS within limits.

`reach` decides which addresses may be called, `exchange` sends one request over one connection, `calls` shares
connections and limits the total of all calls.
"""

from kube_standin.webhooks.calls import CallLimits, WebhookCaller
from kube_standin.webhooks.reach import WebhookCallError, WebhookReach, webhook_reach

__all__ = ["CallLimits", "WebhookCallError", "WebhookCaller", "WebhookReach", "webhook_reach"]
