"""The HTTP server: requests, the registry's verbs, responses. ``serve`` adds TLS; ``App`` is the ASGI application."""
