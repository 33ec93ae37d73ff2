"""What waits to be scheduled."""
