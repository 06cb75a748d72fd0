"""Start workers: one file for each kind of cluster."""
