"""Tests, room by room; `building` makes the clusters they run on."""
