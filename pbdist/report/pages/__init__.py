"""Reports of a store or of a system, in one file."""
