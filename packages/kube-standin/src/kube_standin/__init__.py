"""The embedded control plane: a Kubernetes-compatible API server over SQLite, with what scheduling relies on.

It serves any scheduler and knows none: this package imports nothing of reprieve but ``kube_rules``.
Inside it objects are plain JSON dicts; one process, one asyncio loop, no locks. ``kinds`` is the table of
what is served, ``errors`` the form of a refusal, ``storage`` keeps objects and their history,
``registry`` runs the verbs, ``server`` speaks HTTP, ``security`` makes certificates, tokens and
kubeconfigs.
"""
