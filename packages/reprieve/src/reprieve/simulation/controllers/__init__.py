"""What controllers of a cluster do, in virtual time: volumes and provisioning, device claims, disruption budgets."""
