"""Bounds of one mechanism without a store."""
