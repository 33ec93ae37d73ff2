"""What-if questions about a cluster: changes to an input, and the answers of plans (whatif.md 4 to 8, 10).

`changes` applies cordons, drains and other counts before a plan; `suggestions`, `capacity`, `drain_order` and
`comparison` run plans; `queue_order` sorts pending pods.
"""
