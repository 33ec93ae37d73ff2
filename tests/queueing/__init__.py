"""Tests of reprieve.queueing."""
