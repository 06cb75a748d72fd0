"""Verify what stores hold, by records and by exact integers."""
