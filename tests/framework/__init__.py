"""Tests of reprieve.framework."""
