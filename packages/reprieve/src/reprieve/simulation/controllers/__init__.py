"""What controllers of a cluster do, in simulated time: volumes and provisioning, device claims, disruption budgets."""
