"""Verify stores by their records, and sampled points by exact integer arithmetic."""
