"""Tests of reprieve.plugins."""
