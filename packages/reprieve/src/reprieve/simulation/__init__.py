"""Plans and benchmarks in simulated time."""
