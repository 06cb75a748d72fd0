"""References that are slow and obvious, which only tests use."""
