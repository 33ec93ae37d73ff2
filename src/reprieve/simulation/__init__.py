"""Virtual time: plans, scenarios, traces, benchmarks."""
