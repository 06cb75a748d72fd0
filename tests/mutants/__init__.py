"""Mutants of the code that owns rounding, each of which tests of the default tier must kill."""
