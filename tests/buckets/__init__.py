"""Tests of the functional core."""
