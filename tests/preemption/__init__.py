"""Tests of reprieve.preemption."""
