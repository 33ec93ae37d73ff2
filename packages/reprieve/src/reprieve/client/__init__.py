"""A client of Kubernetes API servers over HTTP: where the server is, how to ask, stay up to date and write.

The way of a request: `kubeconfig` (or `incluster`) gives the server and the user -> `credentials` and `tls`
keep that fresh -> `transport` sends, paced and retried (`pacing`) -> `discovery` finds the served versions ->
`listing`, `watching` and `informer` bring typed objects -> `reading` gathers what a plan needs -> `snapshot` writes it
down. `writing` and `leading` are for a scheduler that acts.

Invariants: this room imports nothing of reprieve but `kube_rules`. Time and chance come from outside (`clock`), so
that tests decide both. No secret is ever part of a `repr`, a message or a log line.
"""
