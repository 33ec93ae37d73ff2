"""The engine and its scheduling cycles."""
