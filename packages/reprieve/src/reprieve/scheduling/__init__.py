"""The engine and its scheduling cycles, which turn queued entities into decisions."""
