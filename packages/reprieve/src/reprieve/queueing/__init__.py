"""The scheduling queue and its entities."""
