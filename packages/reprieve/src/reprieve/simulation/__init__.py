"""Plans and benchmarks in virtual time: scenarios, traces, the demo."""
