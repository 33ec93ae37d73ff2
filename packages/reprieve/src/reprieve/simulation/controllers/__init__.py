"""Controllers in simulated time: volumes and provisioning, device claims, disruption budgets."""
