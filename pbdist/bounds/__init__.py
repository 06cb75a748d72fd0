"""Bounds without a store: what is asked at once for one mechanism."""
