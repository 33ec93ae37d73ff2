"""Tests of reprieve.cluster."""
