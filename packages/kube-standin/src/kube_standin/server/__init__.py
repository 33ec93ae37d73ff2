"""HTTP: requests in, the registry's verbs, answers out. ``serve`` runs it with TLS, ``App`` is the ASGI application."""
