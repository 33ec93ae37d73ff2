"""What-if questions about a cluster: changes to an input, and what plans of it answer (whatif.md 4 to 8, 10).

`changes` applies cordons, drains and other counts before a plan is made; `suggestions`, `capacity`, `drain_order` and
`comparison` make plans; `queue_order` sorts pending pods.
"""
