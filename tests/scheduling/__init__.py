"""Tests of reprieve.scheduling."""
