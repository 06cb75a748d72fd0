"""The tests of pbdist."""
