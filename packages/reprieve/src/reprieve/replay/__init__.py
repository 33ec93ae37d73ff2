"""Replay: a list of jobs through the engine in simulated time, policies side by side (replay.md).

The way of the data: `job_list` reads jobs, `selection` chooses among them, `world` lets them arrive in a
`VirtualCluster` and keeps `accounts` of each, `statistics` sums up, and `page`, `perfetto` and the command write it
down.  `policies` does all this once for each policy, in processes of their own.

Times in here are whole milliseconds since the first job's submit, GPUs whole thousandths: so accounts add up exactly
(replay.md 4.3).
"""
