"""A client of Kubernetes API servers over HTTP: connect, read, watch and write.

The path of a request: `kubeconfig` (or `incluster`) gives the server and the user -> `credentials` and `tls` refresh
them -> `transport` sends, limits the rate and retries (`rate_limits`) -> `discovery` finds the served versions ->
`lists`, `watch` and `informer` return typed objects -> `cluster_reader` collects the objects that a plan needs ->
`snapshot` writes them to a file. The live scheduler also uses `write_queue` and `leader_election`.

Invariants: this package imports nothing of reprieve but `kube_rules`. Time and randomness are passed in (`clock`), so
that tests control both. No secret is ever part of a `repr`, a message or a log line.
"""
