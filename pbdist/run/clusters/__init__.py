"""Clusters: what starts workers, and where."""
